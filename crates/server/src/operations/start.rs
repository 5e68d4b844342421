//! Work to be done before the first request: kinds observe the stored objects, and the initial objects are created.

use std::collections::HashMap;
use std::sync::Arc;

use futures_util::{TryStreamExt as _, stream};
use holdfast_authorization::User;
use holdfast_resource::Resource;
use holdfast_store::Key;
use holdfast_value::{SmolStr, Value};
use holdfast_writes::{Change, Target, metadata};
use http::StatusCode;

use crate::api::context::Context;
use crate::http::ApiError;
use crate::objects::crd_registry;
use crate::objects::informers::{self, Difference, InformerHandler, InformerScope};
use crate::objects::{self, Entry};
use crate::runtime::background;
use crate::write;

/// The number of initial objects that are created concurrently: more of them share a write to the disk, and each uses
/// memory that the server keeps.
const TOGETHER: usize = 64;

/// Passes the stored objects and their changes to the kinds, and creates the initial objects.
///
/// # Errors
/// If such an object cannot be stored.
pub async fn start(context: &Arc<Context>) -> Result<(), ApiError> {
    let managers = Arc::clone(context);
    crd_registry::follow(
        &context.crds,
        &context.representation.types,
        &context.background,
        &context.shutdown,
        move |resource| managers.write.field_managers.forget(resource),
    );
    let registry = context.registry();
    let (made, others): (Vec<Initial>, Vec<&Arc<Resource>>) = {
        let mut made = Vec::new();
        let mut others = Vec::new();
        for resource in registry.resources() {
            let initial = resource.capabilities.initial_objects.as_ref();
            let objects = initial.map(|kind| kind.initial_objects()).unwrap_or_default();
            if objects.is_empty() {
                others.push(resource);
            } else {
                made.push(Initial {
                    resource: Arc::clone(resource),
                    objects,
                });
            }
        }
        (made, others)
    };
    let observing = |resource: &&Arc<Resource>| resource.capabilities.followed.is_some();
    for resource in others.into_iter().filter(observing) {
        observe(context, Arc::clone(resource));
    }
    // Objects that are created together share writes to the disk; namespaced objects need their namespaces first.
    for namespaced in [false, true] {
        let of_scope = made.iter().filter(|made| made.resource.namespaced() == namespaced);
        let pending = of_scope.flat_map(|made| {
            made.objects
                .iter()
                .map(|object| ensure(context, &made.resource, object))
        });
        let writes = stream::iter(pending.map(Ok));
        writes.try_for_each_concurrent(TOGETHER, |write| write).await?;
    }
    // The observers start after the creation, so that they see the new objects immediately.
    for resource in made.iter().map(|made| &made.resource).filter(observing) {
        observe(context, Arc::clone(resource));
    }
    Ok(())
}

/// The initial objects of a resource.
struct Initial {
    resource: Arc<Resource>,
    objects: Vec<Value>,
}

/// Passes a kind its current objects, and then each change, for as long as the server serves.
fn observe(context: &Arc<Context>, resource: Arc<Resource>) {
    let Some(storage) = &resource.storage else { return };
    let scope = InformerScope {
        prefix: storage.prefix.clone(),
        check: background::OBSERVERS,
    };
    if let Some(kind) = &resource.capabilities.followed {
        informers::start(
            &context.shared.store,
            &context.background,
            &context.shutdown,
            scope,
            Observer {
                kind: Arc::clone(kind),
                last_readable: HashMap::new(),
            },
        );
    }
}

/// A kind that observes its objects. The last readable version of an object stays in force while the stored one cannot
/// be read, for example because no key decrypts it: a policy must not end because of that.
struct Observer {
    kind: Arc<dyn holdfast_resource::Followed>,
    /// Last readable entries of the objects that cannot be read now.
    last_readable: HashMap<Key, Arc<Entry>>,
}

impl InformerHandler for Observer {
    fn apply(&mut self, differences: &[Difference], _revision: u64) {
        let read = |entry: &Option<Arc<Entry>>| entry.as_ref().and_then(|entry| objects::readable(entry));
        for Difference { before, now } in differences {
            let Some(key) = now.as_ref().or(before.as_ref()).map(|entry| entry.key()) else {
                continue;
            };
            let last = self.last_readable.remove(key).or_else(|| before.clone());
            let (old, new) = (read(&last), read(now));
            if now.is_none() || new.is_some() {
                self.kind.observe(old.as_ref(), new.as_ref());
                continue;
            }
            tracing::error!(%key, "object cannot be read; its last readable version, if any, stays in force");
            if let Some(last) = last.filter(|_| old.is_some()) {
                self.last_readable.insert(key.clone(), last);
            }
        }
    }
}

/// Creates `object` if it is missing, or reconciles the existing object with the rules of its kind.
async fn ensure(context: &Arc<Context>, resource: &Arc<Resource>, object: &Value) -> Result<(), ApiError> {
    let api_version = object.str_at(&["apiVersion"]).unwrap_or_default();
    let versions = resource.versions.iter();
    let version = versions.clone().find(|version| version.api_version == api_version);
    if version.is_none() && resource.kind_type(api_version).is_some() {
        // Objects in a version that is not served are not created.
        return Ok(());
    }
    let (Some(version), Some(storage)) = (version, &resource.storage) else {
        let resource = resource.group_resource();
        return Err(ApiError::internal(format!("{resource} are not kept in {api_version}")));
    };
    let (name, namespace) = (
        SmolStr::new(metadata::name(object)),
        SmolStr::new(object.str_at(&["metadata", "namespace"]).unwrap_or_default()),
    );
    let snapshot = context.shared.store.snapshot();
    let stored = snapshot.get(storage.key(&namespace, &name).as_bytes());
    let next = match stored.map(|entry| objects::readable(entry)) {
        None => None,
        // It exists, and what has to be reconciled is unknown.
        Some(None) => return Ok(()),
        Some(Some(stored)) => {
            let kind = resource.capabilities.initial_objects.as_ref();
            match kind.and_then(|kind| kind.reconcile(&stored, object)) {
                None => return Ok(()),
                next => next,
            }
        }
    };
    let typed = |object: &Value| {
        let typed = version.kind_type.decode(object).map_err(ApiError::internal)?;
        let filled = version.kind_type.fill_in(typed.object);
        filled.map_err(ApiError::too_large_because)
    };
    let (registry, user) = (context.registry(), Arc::new(User::server()));
    let now = context.shared.clock.now();
    let mut target = Target::new(&registry, resource, &version.api_version, "", &user, now);
    target.namespace = namespace;
    target.writer.internal = true;
    let kind = resource.capabilities.initial_objects.as_ref();
    if let Some(manager) = kind.and_then(|kind| kind.field_manager()) {
        target.writer.manager = SmolStr::new_static(manager);
    }
    let written = match next {
        None => write::create(&context.write, target, typed(object)?).await,
        Some(next) => {
            target.name = name;
            let change = Change::Replace {
                object: typed(&next)?,
                warnings: Vec::new(),
            };
            write::update(&context.write, target, change).await
        }
    };
    match written {
        Ok(_) => Ok(()),
        // Another write was faster.
        Err(error) if error.code() == StatusCode::CONFLICT => Ok(()),
        Err(error) => Err(error),
    }
}

#[cfg(test)]
#[allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "what fails here is the test"
)]
mod tests {
    use arc_swap::ArcSwap;
    use holdfast_resource::{Followed, Registry};
    use holdfast_store::{Config, Transaction};
    use parking_lot::Mutex;

    use super::*;
    use crate::objects::{Objects, Store};

    /// Records the observed changes.
    #[derive(Default)]
    struct Notes(Mutex<Vec<String>>);

    impl Followed for Notes {
        fn observe(&self, old: Option<&Value>, new: Option<&Value>) {
            let text = |object: Option<&Value>| {
                let text = object.and_then(|object| object.str_at(&["v"]));
                text.unwrap_or_default().to_owned()
            };
            self.0.lock().push(format!("{}>{}", text(old), text(new)));
        }
    }

    #[tokio::test]
    async fn unreadable_object_keeps_its_last_readable_version() {
        let folder = tempfile::tempdir().unwrap();
        let registry = Arc::new(ArcSwap::from_pointee(Registry::default()));
        let store = Store::open(Config::new(folder.path()), Objects::new(registry)).unwrap();
        let mut states = vec![None];
        for text in [r#"{"v":"1"}"#, "unreadable", "still", r#"{"v":"2"}"#] {
            let value = holdfast_store::Value::plain(text.as_bytes().to_vec());
            let put = Transaction::new().put("/registry/configmaps/a/b", value);
            states.push(store.commit(put).await.unwrap().entries[0].clone());
        }
        states.push(None);
        let notes = Arc::new(Notes::default());
        let mut observer = Observer {
            kind: notes.clone(),
            last_readable: HashMap::new(),
        };
        for pair in states.windows(2) {
            let (before, now) = (pair[0].clone(), pair[1].clone());
            observer.apply(&[Difference { before, now }], 0);
        }
        assert_eq!(*notes.0.lock(), [">1", "1>2", "2>"]);
        assert!(observer.last_readable.is_empty());
    }
}
