//! Applies that are known to change nothing. Controllers send the same configuration again and again. If it changed
//! nothing when the same user last sent it in the same way, it changes nothing as long as everything that its run read
//! is unchanged. Such an apply is answered without a run.
//!
//! A run reads the object, which holds the memory, so that the memory ends with it, and the resource. All else it reads
//! through its [`Environment`](holdfast_writes::Environment), which records each read: objects that it looks up, by
//! their revisions. A run that read anything else, such as the permissions of users or the time, is not remembered. Nor
//! is a run that policies or webhooks observe, because their answers may differ each time.
//!
//! No step of a run can read past the environment. The services and the inputs of the request that change from one
//! request to the next are private ([`RunInput`](holdfast_writes::RunInput)), and the state of kinds and plugins is a
//! [`SharedState`](holdfast_resource::SharedState). Lints reject other clocks and locks in the crates of the steps.

use std::hash::{BuildHasher as _, Hash, Hasher, RandomState};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use holdfast_schema::GroupResource;
use holdfast_store::{Key, Revision};
use holdfast_writes::{Read, ReadObserver, Stage, Target};
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
            || !options.apply.is_plain()
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
                options.apply.force,
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
    if context.shared.store.is_stale(entry) {
        return None;
    }
    let warnings = index.noop_warnings(|| sent.fingerprint(target), &target.resource, &snapshot)?;
    let lookup = environment::lookup(context, target.registry.outside_run(), &snapshot);
    if stage(context, target, &lookup).is_heard_of("UPDATE") {
        return None;
    }
    Some(WriteResult::unchanged(entry, warnings))
}

/// Records what a run reads.
pub(super) struct Witness<'a> {
    sent: SentApply<'a>,
    lookup: &'a SnapshotLookup<'a>,
    seen: Mutex<Vec<(Key, Revision)>>,
    /// True if the run read state without a revision, which may have changed unnoticed.
    beyond: AtomicBool,
}

impl<'a> Witness<'a> {
    /// Creates the witness of an apply that reads other objects through `lookup`.
    pub(super) fn new(sent: SentApply<'a>, lookup: &'a SnapshotLookup<'a>) -> Self {
        Self {
            sent,
            lookup,
            seen: Mutex::default(),
            beyond: AtomicBool::default(),
        }
    }

    /// Returns the memory of the run `stage`, which changed nothing.
    pub(super) fn noop_apply(&self, stage: &Stage<'_>, target: &Target, warnings: &[String]) -> Option<NoopApply> {
        if self.beyond.load(Ordering::Relaxed) || stage.is_heard_of("UPDATE") {
            return None;
        }
        Some(NoopApply {
            fingerprint: self.sent.fingerprint(target),
            resource: Arc::downgrade(&target.resource),
            seen: std::mem::take(&mut *self.seen.lock()).into(),
            warnings: warnings.to_vec(),
        })
    }

    /// Returns the key of an object and the revision at which it was written, if its resource is stored.
    fn revision_of(&self, resource: &GroupResource, namespace: &str, name: &str) -> Option<(Key, Revision)> {
        let SnapshotLookup { registry, snapshot, .. } = self.lookup;
        let storage = registry.resource(resource)?.storage.as_ref()?;
        let key = Key::from(storage.key(namespace, name).as_str());
        let revision = revision_of(snapshot, &key);
        Some((key, revision))
    }
}

impl ReadObserver for Witness<'_> {
    fn record(&self, read: Read<'_>) {
        let seen = match read {
            Read::Object {
                resource,
                namespace,
                name,
            } => self.revision_of(resource, namespace, name),
            // Before an apply is remembered or answered, `Stage::is_heard_of` checks that none of them is called. If
            // one is called, the run also reads permissions or an answer.
            Read::Policies | Read::Webhooks => return,
            Read::List
            | Read::Registry
            | Read::StorageHealth
            | Read::WebhookAnswer
            | Read::Permissions
            | Read::Tokens
            | Read::Identifier
            | Read::Clock
            | Read::SharedState => None,
        };
        match seen {
            Some(seen) => self.seen.lock().push(seen),
            None => self.beyond.store(true, Ordering::Relaxed),
        }
    }
}

#[cfg(test)]
mod tests {
    use holdfast_authorization::User;
    use holdfast_writes::ApplyOptions;

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
            apply: ApplyOptions::from_force(true),
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
        let lookup = environment::lookup(context, target.registry.outside_run(), &snapshot);
        let options = PatchOptions::default();
        let sent = sent(&world, &target, &options, CONFIG).unwrap();
        let witness = Witness::new(sent, &lookup);
        witness.record(Read::Policies);
        witness.record(Read::Object {
            resource: &secrets(),
            namespace: "default",
            name: "s",
        });
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
        let lookup = environment::lookup(context, target.registry.outside_run(), &snapshot);
        let options = PatchOptions::default();
        let sent = sent(&world, &target, &options, CONFIG).unwrap();
        let unknown = GroupResource {
            group: "example.com".into(),
            resource: "secrets".into(),
        };
        for read in [
            Read::Object {
                resource: &unknown,
                namespace: "default",
                name: "s",
            },
            Read::List,
            Read::Registry,
            Read::StorageHealth,
            Read::WebhookAnswer,
            Read::Permissions,
            Read::Tokens,
            Read::Identifier,
            Read::Clock,
            Read::SharedState,
        ] {
            let witness = Witness::new(sent, &lookup);
            witness.record(read);
            assert!(
                witness
                    .noop_apply(&stage(context, &target, &lookup), &target, &[])
                    .is_none(),
                "{read:?}"
            );
        }
    }
}
