//! The size limit of objects: that of the request with which kube-apiserver stores an object in etcd.

use std::sync::Arc;

use holdfast_proto::write_envelope;
use holdfast_resource::{Encoding, RawForm, Resource, Storage};
use holdfast_value::Value;
use holdfast_writes::{Change, Staged, StoredObject, Target, Write};

use crate::http::ApiError;
use crate::objects::Entry;
use crate::write::Context;

/// etcd's error for a request that exceeds its limit.
pub(super) const REQUEST_TOO_LARGE: &str = "etcdserver: request is too large";

/// Size limit of an object, in bytes of the request with which kube-apiserver stores it in etcd.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SizeLimit {
    /// No limit.
    Unlimited,
    /// Maximum size of the request that etcd replicates, as its flag `--max-request-bytes` limits it.
    Request(usize),
    /// Maximum size of the message that kube-apiserver sends. etcd has a limit of its own.
    Message(usize),
}

impl SizeLimit {
    /// The default on the embedded store: etcd's default limit.
    pub const ETCD_REQUEST: Self = Self::Request(3 << 19);

    /// The default on etcd: the largest message that kube-apiserver's etcd client sends.
    pub const CLIENT_MESSAGE: Self = Self::Message(2 << 20);

    /// Returns the error message if a value of `value_bytes` bytes exceeds the limit.
    fn excess(self, new_version: &NewVersion<'_>, value_bytes: usize) -> Option<String> {
        let message = message_bytes(new_version, value_bytes);
        match self {
            Self::Unlimited => None,
            Self::Request(limit) => (field_bytes(message) + HEADER_BYTES > limit).then(|| REQUEST_TOO_LARGE.to_owned()),
            Self::Message(limit) => (message > limit).then(|| {
                format!(
                    "rpc error: code = ResourceExhausted desc = trying to send message larger than max ({message} vs. \
                     {limit})"
                )
            }),
        }
    }
}

/// A version of an object that is about to be stored.
pub(super) struct NewVersion<'a> {
    pub(super) key: &'a str,
    pub(super) resource: &'a Resource,
    pub(super) object: &'a Value,
    /// Form in which the client sent raw JSON within the object.
    pub(super) raw_form: RawForm,
    /// The version that is replaced.
    pub(super) existing: Option<&'a Arc<Entry>>,
    pub(super) limit: SizeLimit,
}

/// Checks the size of an object whose JSON has `json_bytes` bytes. An object that was stored under a larger limit may be
/// replaced as long as it does not grow.
///
/// # Errors
/// If the object exceeds the limit (500, in the words of etcd and its client).
pub(super) fn check(context: &Context, new_version: &NewVersion<'_>, json_bytes: usize) -> Result<(), ApiError> {
    let existing_bytes = new_version.existing.map_or(0, |existing| existing.length());
    // Few objects exceed the limit as JSON, so the other form is computed only for those.
    if json_bytes <= existing_bytes || new_version.limit.excess(new_version, json_bytes).is_none() {
        return Ok(());
    }
    match new_version
        .limit
        .excess(new_version, size_at_rest(context, new_version, json_bytes))
    {
        None => Ok(()),
        Some(message) => Err(ApiError::unclassified(message)),
    }
}

/// Bytes of the header with which etcd replicates a request. It contains an identifier that begins with the last bytes
/// of the member's own: nine bytes in an etcd with the default flags, one more or less in others.
const HEADER_BYTES: usize = 13;

/// Returns the size of kube-apiserver's transaction: it compares the revision of the key, writes the value and, for an
/// update, reads the key if the comparison fails.
///
/// upstream: go.etcd.io/etcd/client/v3/kubernetes#Client.OptimisticPut
fn message_bytes(new_version: &NewVersion<'_>, value_bytes: usize) -> usize {
    const TARGET_BYTES: usize = 2;
    let key = field_bytes(new_version.key.len());
    let revision = new_version.existing.map_or(0, |existing| existing.mod_revision());
    let compare = field_bytes(TARGET_BYTES + key + 1 + number_bytes(revision));
    let put = field_bytes(field_bytes(key + field_bytes(value_bytes)));
    let get = match new_version.existing {
        None => 0,
        Some(_) => field_bytes(field_bytes(key)),
    };
    compare + put + get
}

/// Returns the size of a protobuf field whose content has this length and whose number is less than 16.
fn field_bytes(length: usize) -> usize {
    1 + number_bytes(length as u64) + length
}

/// Returns the size of a number in protobuf.
fn number_bytes(number: u64) -> usize {
    (number.max(1).ilog2() / 7 + 1) as usize
}

/// Returns the size of an object as kube-apiserver stores it in etcd; `json_bytes` is its size here. Protobuf is smaller
/// than JSON, which has field names, escapes, and Base64 for binary fields.
fn size_at_rest(context: &Context, new_version: &NewVersion<'_>, json_bytes: usize) -> usize {
    let is_protobuf = |storage: &Storage| storage.at_rest.encoding == Encoding::Protobuf;
    if new_version.resource.storage.as_ref().is_some_and(is_protobuf) {
        return protobuf_size(context, new_version).unwrap_or(json_bytes);
    }
    // There is no resource version in etcd, but a line end.
    const RESOURCE_VERSION: &str = r#""resourceVersion":"","#;
    json_bytes - RESOURCE_VERSION.len().min(json_bytes) + 1
}

fn protobuf_size(context: &Context, new_version: &NewVersion<'_>) -> Option<usize> {
    let (at_rest, kind) = (
        &new_version.resource.storage.as_ref()?.at_rest,
        &new_version.resource.kind,
    );
    let object_type = context
        .types()
        .id_of_object(new_version.object.str_at(&["apiVersion"])?, kind)?;
    let (mut message, mut bytes) = (Vec::new(), Vec::new());
    let messages = &context.representation.messages;
    messages.encode(object_type, new_version.object, &mut message).ok()?;
    write_envelope(&at_rest.api_version, kind, &message, &mut bytes);
    Some(bytes.len())
}

/// Returns true if a write that changes an existing object, or creates it by its name, is repeated without managed
/// fields if the object is too large to be stored. An apply is not.
///
/// upstream: k8s.io/apiserver/pkg/endpoints/handlers#isTooLargeError
pub(super) fn may_drop_managed_fields(target: &Target, change: &Change) -> bool {
    // Managed fields in a body of another kind, such as a Scale, are not those of the object.
    target.body.kind == target.resource.kind && !matches!(change, Change::Apply { .. })
}

/// Removes the managed fields of an object that is too large to be stored with them. Nothing is written if they are all
/// that differs from the `existing` object.
pub(super) fn drop_managed_fields(target: &Target, staged: &mut Staged, existing: Option<&StoredObject>) {
    staged.object.remove_at(&["metadata", "managedFields"]);
    let raw = target.resource.capabilities.raw;
    let is_unchanged = |existing: &StoredObject| {
        staged.object == existing.object
            && staged.raw_form == existing.raw_form
            && raw.is_none_or(|raw| raw.have_same_texts(&existing.object, &staged.object))
    };
    if staged.write == Write::Put && existing.is_some_and(is_unchanged) {
        staged.write = Write::Unchanged;
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{CONFIG, World, applied, merge, put, rejection, stored};
    use super::super::{create, update};
    use super::*;
    use crate::objects;

    /// Returns the config map with a value of this length.
    fn config(length: usize) -> String {
        CONFIG.replace("'1'", &"x".repeat(length))
    }

    fn has_managers(entry: &Entry) -> bool {
        objects::tree(entry).at(&["metadata", "managedFields"]).is_some()
    }

    /// Numbers of writes of objects that grow, by outcome.
    #[derive(Debug, Default)]
    struct Outcomes {
        stored: usize,
        stored_without_managers: usize,
        rejected: usize,
    }

    /// Writes config maps whose values become longer, from one that is stored to one that is too large. Each replaces a
    /// small one unless `change` is absent.
    async fn grow(change: Option<impl Fn(&World, &str) -> Change>) -> Outcomes {
        let (mut outcomes, world) = (Outcomes::default(), World::new());
        for length in (9_400..10_000).step_by(10) {
            let named = |text: &str| text.replace("name: a", &format!("name: a{length}"));
            let (small, large) = (named(CONFIG), named(&config(length)));
            let outcome = match &change {
                None => world.try_create(&large).await,
                Some(change) => {
                    world.create(&small).await;
                    update(&world.context, world.target(&small, ""), change(&world, &large)).await
                }
            };
            match outcome {
                Ok(written) => match has_managers(&stored(Ok(written))) {
                    true => outcomes.stored += 1,
                    false => outcomes.stored_without_managers += 1,
                },
                rejected => {
                    assert_eq!(rejection(rejected), (500, REQUEST_TOO_LARGE.to_owned()));
                    outcomes.rejected += 1;
                }
            }
        }
        outcomes
    }

    #[tokio::test]
    async fn managed_fields_of_too_large_object_are_dropped() {
        let created = grow(None::<fn(&World, &str) -> Change>).await;
        let replaced = grow(Some(|world: &World, large: &str| put(world.object(large)))).await;
        let patched = grow(Some(|_: &World, large: &str| merge(large))).await;
        for outcomes in [created, replaced, patched] {
            let has_all = outcomes.stored > 0 && outcomes.stored_without_managers > 5 && outcomes.rejected > 0;
            assert!(has_all, "{outcomes:?}");
        }
    }

    #[tokio::test]
    async fn apply_of_too_large_object_is_rejected() {
        let outcomes = grow(Some(|_: &World, large: &str| applied(&large.replace("k: ", "l: ")))).await;
        assert!(outcomes.stored > 0 && outcomes.rejected > 5, "{outcomes:?}");
        assert_eq!(outcomes.stored_without_managers, 0);
    }

    /// Returns the longest value of a config map that is stored.
    async fn longest() -> usize {
        let (mut fits, mut exceeds) = (9_000, 10_000);
        while exceeds - fits > 1 {
            let middle = usize::midpoint(fits, exceeds);
            match World::new().try_create(&config(middle)).await {
                Ok(_) => fits = middle,
                Err(_) => exceeds = middle,
            }
        }
        fits
    }

    #[tokio::test]
    async fn write_that_adds_only_managers_changes_nothing() {
        let (world, text) = (World::new(), config(longest().await));
        let made = world.create(&text).await;
        assert!(!has_managers(&made));
        let change = put(world.object(&text));
        let same = stored(update(&world.context, world.target(&text, ""), change).await);
        assert!(Arc::ptr_eq(&made, &same));
    }

    #[tokio::test]
    async fn dry_run_of_too_large_object_succeeds() {
        let world = World::new();
        let target = || {
            let mut target = world.target(CONFIG, "");
            target.request.dry_run = true;
            target
        };
        let large = world.object(&config(20_000));
        assert!(create(&world.context, target(), large.clone()).await.is_ok());
        world.create(CONFIG).await;
        assert!(update(&world.context, target(), put(large)).await.is_ok());
    }

    #[tokio::test]
    async fn message_that_is_too_large_is_named_with_its_size() {
        let world = World::new();
        let (existing, resource) = (world.create(CONFIG).await, world.target(CONFIG, "").resource);
        let object = objects::tree(&existing);
        let next = |existing| NewVersion {
            key: "/registry/configmaps/default/a",
            resource: &resource,
            object: &object,
            raw_form: RawForm::Marshalled,
            existing,
            limit: SizeLimit::Message(1000),
        };
        // Compare (1 + 1 + 2 + 32 + 2), put (1 + 2 + 1 + 2 + 32 + 3).
        assert_eq!(message_bytes(&next(None), 900), 38 + 41 + 900);
        // A read of the key (1 + 1 + 1 + 1 + 32).
        assert_eq!(message_bytes(&next(Some(&existing)), 900), 38 + 41 + 900 + 36);
        assert_eq!(next(None).limit.excess(&next(None), 921), None);
        let why = "rpc error: code = ResourceExhausted desc = trying to send message larger than max (1001 vs. 1000)";
        assert_eq!(next(None).limit.excess(&next(None), 922).as_deref(), Some(why));
    }
}
