use std::sync::Arc;

use holdfast_schema::{
    Conventions, GroupKind, GroupResource, GroupVersion, GroupVersionKind, KindType, KindTypes, MetadataChecks,
    MetadataRules, NameRule, ScaleFields,
};
use holdfast_value::Value;
use smol_str::SmolStr;

use super::capability::{Capabilities, Converts, Old};
use super::strategy::Strategy;
use crate::conversion::{ConversionError, ConversionWebhook};
use crate::table::Column;

/// Description of one resource of one group.
///
/// Two groups that serve the same stored objects (such as `events` of the core group and of `events.k8s.io`) are two
/// resources with one [`Storage`] prefix.
pub struct Resource {
    /// The group; empty for the core group.
    pub group: SmolStr,
    /// Plural name in paths, such as `deployments`.
    pub plural: SmolStr,
    /// The singular name, such as `deployment`.
    pub singular: SmolStr,
    /// The kind of its objects, such as `Deployment`.
    pub kind: SmolStr,
    /// Other names that clients may use, such as `deploy`.
    pub short_names: Vec<SmolStr>,
    /// The named sets of resources that this one is in, such as `all`.
    pub categories: Vec<SmolStr>,
    /// Scope of its objects: a namespace or the cluster.
    pub scope: Scope,
    /// The served versions, the preferred one first.
    pub versions: Vec<ResourceVersion>,
    /// Known types of its objects in versions that are not served: objects may be stored in one.
    pub unserved: Vec<Arc<dyn KindType>>,
    /// Storage of its objects; `None` for objects that are answered at once and never stored.
    pub storage: Option<Storage>,
    /// Differences between kinds in the generic verbs.
    pub rules: ResourceRules,
    /// Strategy of the kind, which shapes and validates written objects.
    pub strategy: Arc<dyn Strategy>,
    /// Capabilities that only some kinds have.
    pub capabilities: Capabilities,
    /// Conventions that clients expect of its objects.
    pub conventions: &'static Conventions,
    /// Data about the object that the resource comes from; `None` for built-in resources.
    pub crd: Option<CrdState>,
}

/// The object that a resource comes from, such as a CustomResourceDefinition.
#[derive(Clone)]
pub struct CrdState {
    /// The name of the object.
    pub name: SmolStr,
    /// Serial number of the state of the CRD. It grows whenever the served API changes; objects that were stored
    /// under the same number are in the form in which they are served. Never 0.
    pub serial: u64,
    /// Revision at which the object was created: an object of another revision is another CRD of the same name.
    pub create_revision: u64,
    /// True if the object is being deleted, so that no new objects may be created.
    pub terminating: bool,
    /// Hash of all data that the resource is built from.
    pub fingerprint: [u8; 32],
    /// Types of the objects in each version, including versions that are not served.
    pub schemas: Vec<Arc<dyn KindType>>,
    /// Webhook that converts objects between versions, if there is one. With a webhook, [`Resource::convert`] only
    /// serves for the version that an object is already in, before the webhook receives it, and [`Resource::converted`]
    /// for its response.
    pub conversion_webhook: Option<ConversionWebhook>,
}

impl Resource {
    /// Returns the group and the plural name.
    pub fn group_resource(&self) -> GroupResource {
        GroupResource {
            group: self.group.clone(),
            resource: self.plural.clone(),
        }
    }

    /// Returns the group and the kind.
    pub fn group_kind(&self) -> GroupKind {
        GroupKind {
            group: self.group.clone(),
            kind: self.kind.clone(),
        }
    }

    /// Returns the kind that errors about its objects name: that of the group in which they are stored, which for
    /// events is the core group, whichever group the request used.
    pub fn stored_kind(&self) -> GroupKind {
        let stored = self
            .storage
            .as_ref()
            .and_then(|storage| GroupVersion::parse(&storage.api_version));
        GroupKind {
            group: stored.map_or_else(|| self.group.clone(), |version| version.group),
            kind: self.kind.clone(),
        }
    }

    /// Returns the type of its objects in `api_version`: one of the served versions, or another version of its
    /// definition.
    pub fn kind_type(&self, api_version: &str) -> Option<Arc<dyn KindType>> {
        let served = self.versions.iter().find(|version| version.api_version == api_version);
        if let Some(version) = served {
            return Some(Arc::clone(&version.kind_type));
        }
        if let Some(of) = self.unserved.iter().find(|of| of.name().api_version == api_version) {
            return Some(Arc::clone(of));
        }
        self.schema(api_version).cloned()
    }

    /// Returns the type of the request body at an address of the resource: `kind` in `api_version`. `kinds` are the
    /// built-in types.
    pub fn body_type(&self, kinds: &KindTypes, api_version: &str, kind: &str) -> Option<Arc<dyn KindType>> {
        let own = (self.kind == kind).then(|| self.kind_type(api_version));
        own.flatten().or_else(|| kinds.kind(api_version, kind).cloned())
    }

    /// Returns the type of objects of `api_version`, if the resource comes from a CRD.
    fn schema(&self, api_version: &str) -> Option<&Arc<dyn KindType>> {
        let mut schemas = self.crd.iter().flat_map(|crd| &crd.schemas);
        schemas.find(|schema| schema.name().api_version == api_version)
    }

    /// Returns the serial number of the CRD that the resource comes from; 0 for built-in ones.
    pub fn serial(&self) -> u64 {
        self.crd.as_ref().map_or(0, |crd| crd.serial)
    }

    /// Converts an object of one served version into another. Kinds with a single version have no conversion.
    ///
    /// # Errors
    /// If the kind does not know one of the versions.
    pub fn convert(&self, object: Value, to_api_version: &str) -> Result<Value, ConversionError> {
        self.converts(&object, to_api_version)?.convert(object, to_api_version)
    }

    /// Converts like [`Resource::convert`], but an object that a write produced; see [`Converts::convert_written`].
    ///
    /// # Errors
    /// If [`Resource::convert`] fails.
    pub fn convert_written(&self, object: Value, to_api_version: &str) -> Result<Value, ConversionError> {
        self.converts(&object, to_api_version)?
            .convert_written(object, to_api_version)
    }

    /// Converts like [`Resource::convert`], but for field management; see [`Converts::convert_for_managers`].
    ///
    /// # Errors
    /// If [`Resource::convert`] fails.
    pub fn convert_for_managers(&self, object: Value, to_api_version: &str) -> Result<Value, ConversionError> {
        self.converts(&object, to_api_version)?
            .convert_for_managers(object, to_api_version)
    }

    /// Returns an object after conversion to the storage version and back; see [`Converts::round_trip`].
    pub fn round_trip(&self, object: Value) -> Value {
        match &self.capabilities.converts {
            Some(converts) => converts.round_trip(object),
            None => object,
        }
    }

    /// Returns an object of the storage version that replaces `old`, in the form in which kube-apiserver keeps it in
    /// etcd; see [`AtRest::api_version`].
    pub fn to_rest(&self, object: Value, old: Old<'_>) -> Value {
        let mut kept = match self.capabilities.at_rest.kept {
            Some(kept) => kept(object, old),
            None => object,
        };
        self.set_version(&mut kept, |storage| &storage.at_rest.api_version);
        kept
    }

    /// Returns an object that was read from etcd, in any version, in the storage version.
    pub fn from_rest(&self, kept: Value) -> Value {
        let mut object = match self.capabilities.at_rest.read {
            Some(read) => read(kept),
            None => kept,
        };
        self.set_version(&mut object, |storage| &storage.api_version);
        object
    }

    fn set_version(&self, object: &mut Value, of: impl Fn(&Storage) -> &SmolStr) {
        let Some(version) = self.storage.as_ref().map(of) else {
            return;
        };
        if object.str_at(&["apiVersion"]) != Some(version) {
            object.set_at(&["apiVersion"], Value::String(version.clone()));
        }
    }

    fn converts(&self, object: &Value, to_api_version: &str) -> Result<&dyn Converts, ConversionError> {
        self.capabilities
            .converts
            .as_deref()
            .ok_or_else(|| ConversionError::Unknown {
                from: object.str_at(&["apiVersion"]).unwrap_or_default().to_owned(),
                to: to_api_version.to_owned(),
            })
    }

    /// Returns the webhook that converts objects between versions, if there is one.
    pub fn conversion_webhook(&self) -> Option<&ConversionWebhook> {
        self.crd.as_ref()?.conversion_webhook.as_ref()
    }

    /// Returns an object from the conversion webhook, without the fields that its version does not specify.
    pub fn converted(&self, object: Value) -> Value {
        match self.kind_type(object.str_at(&["apiVersion"]).unwrap_or_default()) {
            Some(of) => of.prune(object),
            None => object,
        }
    }

    /// Returns the data of `version`, if the resource is served in it.
    pub fn version(&self, version: &str) -> Option<&ResourceVersion> {
        self.versions
            .iter()
            .find(|served| served.group_version.version == version)
    }

    /// Returns true if objects are stored in `api_version`. Objects that are never stored have no other version.
    pub fn is_stored_in(&self, api_version: &str) -> bool {
        let storage = self.storage.as_ref();
        storage.is_none_or(|storage| storage.api_version == api_version)
    }

    /// Returns the rules for the metadata of its objects.
    pub fn metadata_rules(&self) -> MetadataRules<'_> {
        MetadataRules {
            namespaced: self.namespaced(),
            name: self.rules.name,
            own_name: self.capabilities.name_errors,
            checks: &self.rules.metadata_checks,
        }
    }

    /// Returns true if objects are namespaced.
    pub fn namespaced(&self) -> bool {
        self.scope == Scope::Namespaced
    }
}

/// Scope of the objects of a resource.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    /// One set of objects for the whole server.
    Cluster,
    /// One set of objects for each namespace.
    Namespaced,
}

/// A resource in one of its served versions.
pub struct ResourceVersion {
    /// The group and version.
    pub group_version: GroupVersion,
    /// The text of `apiVersion` in objects of this version.
    pub api_version: SmolStr,
    /// The type of the objects.
    pub kind_type: Arc<dyn KindType>,
    /// The kind of a list of objects, such as `DeploymentList`.
    pub list_kind: SmolStr,
    /// Hash of the storage version in discovery; clients compare it and do not interpret it. Empty for resources that
    /// are not stored.
    pub storage_version_hash: SmolStr,
    /// Verbs of the resource itself.
    pub verbs: Vec<Verb>,
    /// Subresources, each with an address of its own.
    pub subresources: Vec<Subresource>,
    /// Fields that a write to the object itself does not touch: the stored values stay, and the writer does not own
    /// them. Paths of field names, such as `status`.
    pub reset_fields: Arc<[Vec<SmolStr>]>,
    /// The columns of tables of objects.
    pub columns: Vec<Column>,
    /// Fields beyond name and namespace by which objects of this version can be selected, if versions differ in that;
    /// otherwise those of [`ResourceRules::field_selectors`] apply to all.
    pub field_selectors: Vec<SmolStr>,
    /// Warning in every response of this version, if the version is deprecated.
    pub deprecation: Option<SmolStr>,
    /// First release that no longer serves the version, such as `1.39`; empty if none is known.
    pub removed_release: SmolStr,
}

impl ResourceVersion {
    /// Returns the subresource `name`, if there is one.
    pub fn subresource(&self, name: &str) -> Option<&Subresource> {
        self.subresources.iter().find(|subresource| subresource.name == name)
    }
}

/// A part of a resource that has an address of its own below each object.
pub struct Subresource {
    /// Last part of its path, such as `status`.
    pub name: SmolStr,
    /// Kind of the request and response bodies at its address.
    pub kind: GroupVersionKind,
    /// Verbs of the subresource.
    pub verbs: Vec<Verb>,
    /// For `scale`: paths of the fields of a Scale in the parent object.
    pub scale: Option<ScaleFields>,
    /// Fields that a write to the subresource does not touch; see [`ResourceVersion::reset_fields`].
    pub reset_fields: Arc<[Vec<SmolStr>]>,
    /// Table columns of the returned objects, if these are of another kind than the resource.
    pub columns: Vec<Column>,
}

/// Storage of the objects of a resource.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Storage {
    /// Prefix of the keys, with a slash at the end: `/registry/deployments/`. The namespace, if any, and the name
    /// follow.
    pub prefix: SmolStr,
    /// The `apiVersion` in which objects are stored.
    pub api_version: SmolStr,
    /// Form of the objects in kube-apiserver's etcd.
    pub at_rest: AtRest,
}

/// Form in which kube-apiserver keeps the objects of a resource in etcd.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AtRest {
    /// The `apiVersion` that it writes: that of [`Storage::api_version`], or one that is not served.
    pub api_version: SmolStr,
    /// Encoding of written objects.
    pub encoding: Encoding,
}

/// Encoding of stored objects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Encoding {
    /// Kubernetes protobuf in its envelope: most built-in kinds.
    Protobuf,
    /// JSON.
    Json,
}

impl Storage {
    /// Returns the key of an object. `namespace` is empty for cluster-scoped resources.
    pub fn key(&self, namespace: &str, name: &str) -> String {
        let mut key = self.namespace_prefix(namespace);
        key.push_str(name);
        key
    }

    /// Returns the key prefix of all objects in `namespace`; of all objects if it is empty.
    pub fn namespace_prefix(&self, namespace: &str) -> String {
        let mut prefix = String::with_capacity(self.prefix.len() + namespace.len() + 64);
        prefix.push_str(&self.prefix);
        if !namespace.is_empty() {
            prefix.push_str(namespace);
            prefix.push('/');
        }
        prefix
    }
}

/// Differences between kinds in the generic verbs.
#[derive(Clone, Debug)]
pub struct ResourceRules {
    /// True if PUT to a name that does not exist creates it.
    pub create_on_update: bool,
    /// True if an apply to the status of an object that does not exist creates it, like an apply to the object itself.
    pub status_apply_creates: bool,
    /// True if PUT may omit the resource version.
    pub unconditional_update: bool,
    /// True if deletion waits for a grace period.
    pub graceful_deletion: bool,
    /// True if DELETE returns the object rather than a Status.
    pub delete_returns_object: bool,
    /// Default treatment of dependents by a DELETE without a policy.
    pub garbage_collection: GarbageCollection,
    /// Rule by which `metadata.generation` grows.
    pub generation: Generation,
    /// Rule for valid names.
    pub name: NameRule,
    /// Fields beyond `metadata.name` that field selectors may name.
    pub field_selectors: Vec<SmolStr>,
    /// True if field selectors may name `metadata.namespace`.
    pub namespace_selector: bool,
    /// Status of a new object, whatever its writer sent. `None` leaves it to the strategy.
    pub initial_status: Option<Value>,
    /// Repetitions of the metadata checks by the kind's own validation.
    pub metadata_checks: MetadataChecks,
    /// True if objects have a protobuf form. Custom resources have none.
    pub protobuf: bool,
}

/// The rules of a custom kind that does not count generations.
impl Default for ResourceRules {
    fn default() -> Self {
        Self {
            create_on_update: false,
            status_apply_creates: false,
            unconditional_update: false,
            graceful_deletion: false,
            delete_returns_object: false,
            garbage_collection: GarbageCollection::Background,
            generation: Generation::Unmanaged,
            name: NameRule::Subdomain,
            field_selectors: Vec::new(),
            namespace_selector: false,
            initial_status: None,
            metadata_checks: MetadataChecks::CUSTOM,
            protobuf: false,
        }
    }
}

/// Treatment of dependents by a deletion without an explicit policy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GarbageCollection {
    /// The object is deleted at once, its dependents afterwards.
    Background,
    /// Dependents stay.
    Orphan,
    /// The kind does not support garbage collection.
    Unsupported,
}

/// Rule by which `metadata.generation` grows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Generation {
    /// A value that the client sent at creation is kept, and updates never change it.
    Unmanaged,
    /// 1 (or unset, if `from_one` is false) at creation, and one more whenever one of `fields` changes by a write to
    /// the object itself or to one of `subresources`. Fields are dotted paths; `*` means all but metadata.
    Counted {
        /// True if a new object has generation 1 rather than none.
        from_one: bool,
        /// The fields whose change counts.
        fields: Vec<SmolStr>,
        /// Subresources whose writes count in addition to those of the object itself.
        subresources: Vec<SmolStr>,
    },
}

/// Operation of a client on a resource, with its name in discovery and access rules.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Verb {
    /// POST to the collection.
    Create,
    /// DELETE of an object.
    Delete,
    /// DELETE of the collection.
    DeleteCollection,
    /// GET of an object.
    Get,
    /// GET of the collection.
    List,
    /// PATCH of an object.
    Patch,
    /// PUT of an object.
    Update,
    /// GET of the collection as a stream of events.
    Watch,
}

impl Verb {
    const NAMES: [(Verb, &'static str); 8] = [
        (Verb::Create, "create"),
        (Verb::Delete, "delete"),
        (Verb::DeleteCollection, "deletecollection"),
        (Verb::Get, "get"),
        (Verb::List, "list"),
        (Verb::Patch, "patch"),
        (Verb::Update, "update"),
        (Verb::Watch, "watch"),
    ];

    /// Returns the verb's name in discovery documents.
    #[expect(clippy::indexing_slicing, reason = "a name for each variant, in their order")]
    pub fn name(self) -> &'static str {
        Self::NAMES[self as usize].1
    }

    /// Returns the verb of that name.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::NAMES
            .iter()
            .find(|(_, known)| *known == name)
            .map(|(verb, _)| *verb)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn verbs_read_back_their_names() {
        for (verb, name) in Verb::NAMES {
            assert_eq!(verb.name(), name);
            assert_eq!(Verb::from_name(name), Some(verb));
        }
        assert_eq!(Verb::from_name("proxy"), None);
    }

    #[test]
    fn keys_hold_the_namespace_only_where_there_is_one() {
        let storage = Storage {
            prefix: "/registry/pods/".into(),
            api_version: "v1".into(),
            at_rest: AtRest {
                api_version: "v1".into(),
                encoding: Encoding::Protobuf,
            },
        };
        assert_eq!(storage.key("default", "web"), "/registry/pods/default/web");
        assert_eq!(storage.key("", "web"), "/registry/pods/web");
        assert_eq!(storage.namespace_prefix(""), "/registry/pods/");
        assert_eq!(storage.namespace_prefix("default"), "/registry/pods/default/");
    }
}
