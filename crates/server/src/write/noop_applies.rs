//! Applies that are known to change nothing. Controllers send the same configuration again and again. If it changed
//! nothing when the same user last sent it in the same way, it changes nothing as long as everything that its run read
//! is unchanged. Such an apply is answered without a run.
//!
//! A run reads the object, which holds the memory, so that the memory ends with it; the other objects that it looked
//! up, by their revisions; and the resource. A run that read anything else, such as the permissions of users, is not
//! remembered. Nor is a run that policies or webhooks observe, because their answers may differ each time.

use std::hash::{BuildHasher as _, Hash, Hasher, RandomState};
use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use holdfast_authorization::{Attributes, Authorization, Authorizer, User, UserRules};
use holdfast_resource::{Lookup, Resource};
use holdfast_schema::{GroupKind, GroupResource};
use holdfast_store::{Key, Revision};
use holdfast_value::Value;
use holdfast_writes::{Stage, Target};
use parking_lot::Mutex;

use super::environment::{self, stage};
use super::write_result::WriteResult;
use crate::http::options::PatchOptions;
use crate::objects::Store;
use crate::objects::lookup::SnapshotLookup;
use crate::objects::noop_applies::{Fingerprint, NoopApply, revision_of};
use crate::write::Context;

/// Keys of fingerprints, so that no client can construct two applies with the same fingerprint.
#[derive(Default)]
pub struct Fingerprints([RandomState; 2]);

/// An apply as it was sent; its fingerprint is computed on demand.
#[derive(Clone, Copy)]
pub(crate) struct SentApply<'a> {
    keys: &'a Fingerprints,
    options: &'a PatchOptions,
    text: &'a [u8],
}

impl Fingerprints {
    /// Returns the description of an apply to `store`, from which its fingerprint is computed; `None` if the apply
    /// always needs a run.
    pub(crate) fn describe<'a>(
        &'a self,
        store: &Store,
        target: &Target,
        options: &'a PatchOptions,
        text: &'a [u8],
    ) -> Option<SentApply<'a>> {
        // Writes of other servers to the same store may not be visible yet.
        let always_runs = store.is_shared()
            || target.request.audit.is_some()
            || target.writer.internal
            || target.body.scale.is_some()
            || target.resource.conversion_webhook().is_some();
        (!always_runs).then_some(SentApply {
            keys: self,
            options,
            text,
        })
    }
}

impl SentApply<'_> {
    fn fingerprint(&self, target: &Target) -> Fingerprint {
        let Self { keys, options, text } = self;
        keys.0.each_ref().map(|key| {
            let mut hasher = key.build_hasher();
            let user = &target.writer.user;
            (text, &target.api_version, &target.subresource, &target.writer.manager).hash(&mut hasher);
            (
                options.force,
                options.write.dry_run,
                options.write.field_validation as u8,
            )
                .hash(&mut hasher);
            (&user.name, &user.uid, &user.groups, &user.extra).hash(&mut hasher);
            hasher.finish()
        })
    }
}

/// Returns the result of an apply, if it is known to change nothing.
pub(crate) fn answer(context: &Context, target: &Target, sent: SentApply<'_>) -> Option<WriteResult> {
    target.check_deadline().ok()?;
    let snapshot = context.shared.store.newest();
    let entry = snapshot.get(target.key(&target.name).as_bytes())?;
    let index = entry.known_index()?;
    let warnings = index.noop_warnings(|| sent.fingerprint(target), &target.resource, &snapshot)?;
    let lookup = environment::lookup(context, &target.registry, &snapshot);
    if stage(context, target, &lookup).is_heard_of("UPDATE") {
        return None;
    }
    Some(WriteResult::unchanged(entry, warnings))
}

/// Records the reads of a run.
pub(super) struct Witness<'a> {
    sent: SentApply<'a>,
    lookup: &'a SnapshotLookup<'a>,
    authorizer: &'a dyn Authorizer,
    seen: Mutex<Vec<(Key, Revision)>>,
    /// True if the run read state that cannot be recorded.
    beyond: AtomicBool,
}

impl<'a> Witness<'a> {
    /// Creates the witness of an apply that reads other objects through `lookup`.
    pub(super) fn new(context: &'a Context, sent: SentApply<'a>, lookup: &'a SnapshotLookup<'a>) -> Self {
        Self {
            sent,
            lookup,
            authorizer: context.shared.authorizer.as_ref(),
            seen: Mutex::default(),
            beyond: AtomicBool::default(),
        }
    }

    /// Returns the memory of the run, which changed nothing. `stage` is a run over the same state, whose reads are not
    /// recorded.
    pub(super) fn noop_apply(self, stage: &Stage<'_>, target: &Target, warnings: &[String]) -> Option<NoopApply> {
        // A policy or webhook may have been added meanwhile.
        if self.beyond.into_inner() || stage.is_heard_of("UPDATE") {
            return None;
        }
        Some(NoopApply {
            fingerprint: self.sent.fingerprint(target),
            resource: Arc::downgrade(&target.resource),
            seen: self.seen.into_inner().into(),
            warnings: warnings.to_vec(),
        })
    }

    fn looks_beyond(&self) {
        self.beyond.store(true, Ordering::Relaxed);
    }
}

impl Lookup for Witness<'_> {
    fn get(&self, resource: &GroupResource, namespace: &str, name: &str) -> Option<Value> {
        let SnapshotLookup { registry, snapshot, .. } = self.lookup;
        match registry
            .resource(resource)
            .and_then(|resource| resource.storage.as_ref())
        {
            Some(storage) => {
                let key = Key::from(storage.key(namespace, name).as_str());
                let revision = revision_of(snapshot, &key);
                self.seen.lock().push((key, revision));
            }
            None => self.looks_beyond(),
        }
        self.lookup.get(resource, namespace, name)
    }

    fn list(&self, resource: &GroupResource, namespace: &str, visit: &mut dyn FnMut(&Value) -> ControlFlow<()>) {
        self.looks_beyond();
        self.lookup.list(resource, namespace, visit);
    }

    fn list_revisions(
        &self,
        resource: &GroupResource,
        namespace: &str,
        visit: &mut dyn FnMut(u64, &dyn Fn() -> Value),
    ) {
        self.looks_beyond();
        self.lookup.list_revisions(resource, namespace, visit);
    }

    fn resource_of(&self, kind: &GroupKind) -> Option<&Resource> {
        self.looks_beyond();
        self.lookup.resource_of(kind)
    }

    fn storage_health(&self) -> Result<(), String> {
        self.looks_beyond();
        self.lookup.storage_health()
    }
}

impl Authorizer for Witness<'_> {
    fn authorize(&self, user: &User, attributes: &Attributes<'_>) -> Authorization {
        self.looks_beyond();
        self.authorizer.authorize(user, attributes)
    }

    fn rules(&self, user: &User, namespace: &str) -> UserRules {
        self.looks_beyond();
        self.authorizer.rules(user, namespace)
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{CONFIG, World, applied, stored};
    use super::super::update::apply;
    use super::*;

    fn sent<'a>(world: &'a World, target: &Target, options: &'a PatchOptions, text: &'a str) -> Option<SentApply<'a>> {
        let context = &world.context;
        context
            .fingerprints
            .describe(&context.shared.store, target, options, text.as_bytes())
    }

    fn fingerprint(world: &World, target: &Target, options: &PatchOptions, text: &str) -> Option<Fingerprint> {
        sent(world, target, options, text).map(|sent| sent.fingerprint(target))
    }

    fn secrets() -> GroupResource {
        GroupResource {
            group: "".into(),
            resource: "secrets".into(),
        }
    }

    #[tokio::test]
    async fn fingerprint_covers_text_user_and_options() {
        let (world, options) = (World::new(), PatchOptions::default());
        let target = || world.target(CONFIG, "");
        let first = fingerprint(&world, &target(), &options, CONFIG).unwrap();
        assert_eq!(fingerprint(&world, &target(), &options, CONFIG), Some(first));
        let forced = PatchOptions {
            force: true,
            ..PatchOptions::default()
        };
        let mut of_other = target();
        of_other.writer.user = Arc::new(User {
            name: "other".into(),
            ..User::default()
        });
        let mut by_other = target();
        by_other.writer.manager = "other".into();
        for (what, target, options, text) in [
            ("text", target(), &options, "{}"),
            ("force", target(), &forced, CONFIG),
            ("user", of_other, &options, CONFIG),
            ("manager", by_other, &options, CONFIG),
            ("subresource", world.target(CONFIG, "status"), &options, CONFIG),
        ] {
            assert_ne!(fingerprint(&world, &target, options, text), Some(first), "{what}");
        }
    }

    #[tokio::test]
    async fn internal_apply_is_not_cached() {
        let (world, options) = (World::new(), PatchOptions::default());
        let mut internal = world.target(CONFIG, "");
        internal.writer.internal = true;
        assert_eq!(fingerprint(&world, &internal, &options, CONFIG), None);
    }

    #[tokio::test]
    async fn noop_apply_is_answered_until_its_object_changes() {
        let (world, options) = (World::new(), PatchOptions::default());
        let target = || world.target(CONFIG, "");
        let print = sent(&world, &target(), &options, CONFIG).unwrap();
        let send = async || stored(apply(&world.context, target(), applied(CONFIG), Some(print)).await);
        send().await;
        assert!(
            answer(&world.context, &target(), print).is_none(),
            "it changed something"
        );
        let entry = send().await;
        let known = answer(&world.context, &target(), print);
        assert!(Arc::ptr_eq(&stored(known.ok_or_else(|| unreachable!())), &entry));
        world.patch(CONFIG, "", "{data: {k: '2'}}").await;
        assert!(answer(&world.context, &target(), print).is_none());
    }

    #[tokio::test]
    async fn run_is_remembered_with_revisions_of_looked_up_objects() {
        let world = World::new();
        let (context, target, snapshot) = (&world.context, world.target(CONFIG, ""), world.snapshot());
        let lookup = environment::lookup(context, &target.registry, &snapshot);
        let options = PatchOptions::default();
        let sent = sent(&world, &target, &options, CONFIG).unwrap();
        let witness = Witness::new(context, sent, &lookup);
        assert_eq!(witness.get(&secrets(), "default", "s"), None);
        let apply = witness
            .noop_apply(&stage(context, &target, &lookup), &target, &["careful".to_owned()])
            .unwrap();
        let key = Key::from("/registry/secrets/default/s");
        assert_eq!(
            (&*apply.seen, &*apply.warnings),
            (&[(key, 0)][..], &["careful".to_owned()][..])
        );
    }

    #[tokio::test]
    async fn run_that_reads_more_than_single_objects_is_not_remembered() {
        let world = World::new();
        let (context, target, snapshot) = (&world.context, world.target(CONFIG, ""), world.snapshot());
        let lookup = environment::lookup(context, &target.registry, &snapshot);
        let options = PatchOptions::default();
        let sent = sent(&world, &target, &options, CONFIG).unwrap();
        type Look = fn(&Witness<'_>);
        let looks: [(&str, Look); 4] = [
            ("list", |run| {
                run.list(&secrets(), "", &mut |_| ControlFlow::Continue(()))
            }),
            ("list_revisions", |run| {
                run.list_revisions(&secrets(), "", &mut |_, _| {})
            }),
            ("storage_health", |run| drop(run.storage_health())),
            ("rules", |run| drop(run.rules(&User::default(), "default"))),
        ];
        for (what, look) in looks {
            let witness = Witness::new(context, sent, &lookup);
            look(&witness);
            assert!(
                witness
                    .noop_apply(&stage(context, &target, &lookup), &target, &[])
                    .is_none(),
                "{what}"
            );
        }
    }
}
