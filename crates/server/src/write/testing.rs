//! A world for tests of writes: an embedded store with the built-in kinds. Everything is allowed, and no webhook is
//! configured.

use std::sync::Arc;
use std::time::SystemTime;

use arc_swap::ArcSwap;
use holdfast_admission::{AdmissionChain, AdmissionPlugin};
use holdfast_authorization::{AlwaysAllow, User};
use holdfast_proto::Messages;
use holdfast_resource::access::NoTokens;
use holdfast_schema::{GroupKind, GroupVersion};
use holdfast_store::Config;
use holdfast_value::{Limits, Value, yaml};
use holdfast_writes::{ApplyOptions, Change, FieldManagers, FieldValidation, Patch, Target, metadata};

use super::{Context, Fingerprints, SizeLimit, Turns, WriteResult, WrittenObject, create, update};
use crate::http::ApiError;
use crate::metrics::Metrics;
use crate::objects::crd_registry::CrdRegistry;
use crate::objects::{Entry, Objects, Snapshot, Store, Trees};
use crate::representation::{self, Shared};
use crate::runtime::{RandomIdentifiers, SystemClock};
use crate::webhooks::Webhooks;

/// A small object.
pub(super) const CONFIG: &str = "{apiVersion: v1, kind: ConfigMap, metadata: {name: a}, data: {k: '1'}}";

/// The namespace that objects of tests are in.
pub(super) const NAMESPACE: &str = "{apiVersion: v1, kind: Namespace, metadata: {name: default}}";

/// Size limit of an object, in bytes.
pub(super) const MAX_OBJECT_BYTES: usize = 10_000;

/// Write context over a store in a folder of its own.
pub(crate) struct World {
    pub(crate) context: Arc<Context>,
    _folder: tempfile::TempDir,
}

impl World {
    /// Creates a world without admission.
    pub(crate) fn new() -> Self {
        Self::with_plugins(Vec::new())
    }

    /// Creates a world with these admission plugins.
    pub(super) fn with_plugins(plugins: Vec<Box<dyn AdmissionPlugin>>) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let kinds = holdfast_kinds::Config::default();
        let registry = Arc::new(ArcSwap::from_pointee(holdfast_kinds::registry(&kinds).unwrap()));
        let opened = Store::open(Config::new(folder.path()), Objects::new(Arc::clone(&registry)));
        let store = Arc::new(opened.unwrap());
        let types = Arc::clone(registry.load().types());
        let webhooks = Webhooks::new(Arc::clone(&kinds.webhooks), Arc::clone(&store), Arc::clone(&registry));
        let shared = Shared {
            registry: Arc::clone(&registry),
            store: Arc::clone(&store),
            policies: Arc::clone(&kinds.policies),
            authorizer: Arc::new(AlwaysAllow),
            tokens: Arc::new(NoTokens),
            identifiers: Arc::new(RandomIdentifiers::default()),
            clock: Arc::new(SystemClock),
            metrics: Arc::new(Metrics::new().unwrap()),
        };
        let representation = representation::Context {
            messages: Messages::new(Arc::clone(types.table())),
            types: Arc::clone(types.table()),
            webhooks: Arc::clone(webhooks.client()),
            shared: shared.clone(),
        };
        let context = Context {
            shared,
            crds: Arc::new(CrdRegistry::new(registry, store)),
            field_managers: FieldManagers::new(types),
            trees: Trees::default(),
            turns: Turns::default(),
            fingerprints: Fingerprints::default(),
            admission: AdmissionChain::new(plugins),
            webhooks,
            issuer: Arc::new(NoTokens),
            representation: Arc::new(representation),
            size_limit: SizeLimit::Request(MAX_OBJECT_BYTES),
        };
        Self {
            context: Arc::new(context),
            _folder: folder,
        }
    }

    /// Returns the object as a body is decoded: typed, with its defaults.
    pub(super) fn object(&self, text: &str) -> Value {
        let object = tree(text);
        let target = self.target(text, "");
        let kind_type = target.body.kind_type.unwrap();
        kind_type.fill_in(kind_type.decode(&object).unwrap().object).unwrap()
    }

    /// Returns a write to the object of `text`, or to a subresource of it, in the namespace `default` if it is
    /// namespaced.
    pub(super) fn target(&self, text: &str, subresource: &str) -> Target {
        let (object, registry) = (tree(text), self.context.registry());
        let api_version = object.str_at(&["apiVersion"]).unwrap();
        let kind = GroupKind {
            group: GroupVersion::parse(api_version).unwrap().group,
            kind: object.str_at(&["kind"]).unwrap().into(),
        };
        let (resource, user) = (
            registry.kind(&kind).unwrap(),
            User {
                name: "tester".into(),
                ..User::default()
            },
        );
        let namespace = if resource.namespaced() { "default" } else { "" };
        let (version, now) = (api_version.into(), SystemTime::now());
        let mut target = Target::new(&registry, resource, &version, subresource, &Arc::new(user), now)
            .at(namespace, metadata::name(&object));
        target.writer.manager = "tests".into();
        target
    }

    /// Creates the object of `text`.
    pub(super) async fn try_create(&self, text: &str) -> Result<WriteResult, ApiError> {
        create(&self.context, self.target(text, ""), self.object(text)).await
    }

    /// Creates an object as [`World::try_create`] does, but must succeed; returns the stored object.
    pub(super) async fn create(&self, text: &str) -> Arc<Entry> {
        stored(self.try_create(text).await)
    }

    /// Merges `patch` into the object of `text`; returns the stored object.
    pub(super) async fn patch(&self, text: &str, subresource: &str, patch: &str) -> Arc<Entry> {
        stored(update(&self.context, self.target(text, subresource), merge(patch)).await)
    }

    /// Returns the current objects.
    pub(super) fn snapshot(&self) -> Snapshot {
        self.context.shared.store.snapshot()
    }

    /// Returns the stored object that `text` names.
    pub(super) fn entry(&self, text: &str) -> Option<Arc<Entry>> {
        let target = self.target(text, "");
        self.snapshot().get(target.key(&target.name).as_bytes()).cloned()
    }
}

/// Returns the entry that a write stored.
pub(super) fn stored(outcome: Result<WriteResult, ApiError>) -> Arc<Entry> {
    match outcome.unwrap_or_else(|error| panic!("{error}")).object {
        WrittenObject::Stored(entry, _) => entry,
        WrittenObject::Tree(_) => panic!("nothing was stored"),
    }
}

/// Returns the code and the message of an error.
pub(super) fn rejection<T>(outcome: Result<T, ApiError>) -> (u16, String) {
    match outcome {
        Ok(_) => panic!("it went through"),
        Err(error) => (error.code().as_u16(), error.to_string()),
    }
}

/// Parses YAML to a tree.
pub(super) fn tree(text: &str) -> Value {
    yaml::parse(text.as_bytes(), &Limits::REQUEST).unwrap()
}

/// Returns a merge patch.
pub(super) fn merge(patch: &str) -> Change {
    Change::Patch {
        patch: Ok((Patch::Merge(tree(patch)), Vec::new())),
        validation: FieldValidation::Strict,
    }
}

/// Returns a PUT of this object.
pub(super) fn put(object: Value) -> Change {
    Change::Replace {
        object,
        warnings: Vec::new(),
    }
}

/// Returns an apply of this configuration.
pub(super) fn applied(text: &str) -> Change {
    Change::Apply {
        applied: tree(text),
        findings: Vec::new(),
        validation: FieldValidation::Strict,
        options: ApplyOptions::default(),
    }
}
