use std::sync::Arc;

use holdfast_value::Value;
use smol_str::SmolStr;

use crate::capability::Old;
use crate::structural::CustomSchema;
use crate::table::Column;
use crate::{
    Capabilities, Conventions, ConversionError, ConversionWebhook, Converts, GroupKind, GroupResource, GroupVersion,
    GroupVersionKind, KindType, Strategy,
};

/// Everything that the server knows of one resource of one group.
///
/// Two groups that serve the same stored objects (such as `events` of the core group and of `events.k8s.io`) are two
/// resources with one [`Storage`] prefix.
pub struct Resource {
    /// The group; empty for the core group.
    pub group: SmolStr,
    /// The plural name that stands in paths, such as `deployments`.
    pub plural: SmolStr,
    /// The singular name, such as `deployment`.
    pub singular: SmolStr,
    /// The kind of its objects, such as `Deployment`.
    pub kind: SmolStr,
    /// Other names that clients may use, such as `deploy`.
    pub short_names: Vec<SmolStr>,
    /// The named sets of resources that this one is in, such as `all`.
    pub categories: Vec<SmolStr>,
    /// Whether its objects live in namespaces.
    pub scope: Scope,
    /// The versions it is served in, the preferred one first.
    pub versions: Vec<ResourceVersion>,
    /// The types of its objects in versions that it is not served in, of those that are known: objects may be stored in one.
    pub unserved: Vec<Arc<dyn KindType>>,
    /// How its objects are kept; `None` for what is answered at once and never stored.
    pub storage: Option<Storage>,
    /// What differs between kinds in how the generic verbs treat them.
    pub rules: ResourceRules,
    /// How this kind shapes and checks what is written.
    pub strategy: Arc<dyn Strategy>,
    /// What only some kinds do.
    pub capabilities: Capabilities,
    /// What clients are used to of its objects.
    pub conventions: &'static Conventions,
    /// For resources that come from an object, what is known of that object; `None` for built-in ones.
    pub definition: Option<Definition>,
}

/// The object that a resource comes from, such as a CustomResourceDefinition.
#[derive(Clone)]
pub struct Definition {
    /// The name of the object.
    pub name: SmolStr,
    /// Distinguishes the states of definitions: it grows whenever what is served changes, and objects that were stored under
    /// the same number are in the form in which they are shown. Never 0.
    pub serial: u64,
    /// The revision at which the object was created: one of another revision is another definition of the same name.
    pub create_revision: u64,
    /// True if the object is being deleted, so that no new objects may be created.
    pub terminating: bool,
    /// A hash of all that the resource is made from.
    pub fingerprint: [u8; 32],
    /// The types of the objects in each version, of versions that are not served, too.
    pub schemas: Vec<Arc<CustomSchema>>,
    /// The webhook that turns objects of one version into another, where there is one. [`Resource::convert`] then serves for
    /// the version that an object is in alone, before the webhook gets it, and [`Resource::converted`] for what comes back.
    pub conversion_webhook: Option<ConversionWebhook>,
}

impl Resource {
    /// The group and the plural name.
    pub fn group_resource(&self) -> GroupResource {
        GroupResource {
            group: self.group.clone(),
            resource: self.plural.clone(),
        }
    }

    /// The group and the kind.
    pub fn group_kind(&self) -> GroupKind {
        GroupKind {
            group: self.group.clone(),
            kind: self.kind.clone(),
        }
    }

    /// The kind as refusals of its objects name it: by the group that they are stored in, which for events is the core
    /// group whichever way they came.
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

    /// The type of its objects in `api_version`: one of the versions that it is served in, or another version of its
    /// definition.
    pub fn kind_type(&self, api_version: &str) -> Option<Arc<dyn KindType>> {
        let served = self.versions.iter().find(|version| version.api_version == api_version);
        if let Some(version) = served {
            return Some(Arc::clone(&version.kind_type));
        }
        if let Some(of) = self.unserved.iter().find(|of| of.name().api_version == api_version) {
            return Some(Arc::clone(of));
        }
        Some(Arc::clone(self.schema(api_version)?) as Arc<dyn KindType>)
    }

    /// The type of objects of `api_version`, where the resource comes from a definition.
    fn schema(&self, api_version: &str) -> Option<&Arc<CustomSchema>> {
        let mut schemas = self.definition.iter().flat_map(|definition| &definition.schemas);
        schemas.find(|schema| schema.name().api_version == api_version)
    }

    /// Distinguishes the states of the definition that the resource comes from; 0 for built-in ones.
    pub fn serial(&self) -> u64 {
        self.definition.as_ref().map_or(0, |definition| definition.serial)
    }

    /// Turns an object of one served version into another. Kinds with a single version have no conversion.
    ///
    /// # Errors
    /// Where the kind does not know one of the versions.
    pub fn convert(&self, object: Value, to_api_version: &str) -> Result<Value, ConversionError> {
        self.converts(&object, to_api_version)?.convert(object, to_api_version)
    }

    /// As [`Resource::convert`], for an object as a write leaves it; see [`Converts::convert_written`].
    ///
    /// # Errors
    /// Those of [`Resource::convert`].
    pub fn convert_written(&self, object: Value, to_api_version: &str) -> Result<Value, ConversionError> {
        self.converts(&object, to_api_version)?
            .convert_written(object, to_api_version)
    }

    /// As [`Resource::convert`], for the sake of field management; see [`Converts::convert_for_managers`].
    ///
    /// # Errors
    /// Those of [`Resource::convert`].
    pub fn convert_for_managers(&self, object: Value, to_api_version: &str) -> Result<Value, ConversionError> {
        self.converts(&object, to_api_version)?
            .convert_for_managers(object, to_api_version)
    }

    /// An object after conversion to the stored version and back; see [`Converts::round_trip`].
    pub fn round_trip(&self, object: Value) -> Value {
        match &self.capabilities.converts {
            Some(converts) => converts.round_trip(object),
            None => object,
        }
    }

    /// An object of the stored version that takes the place of `old`, as kube-apiserver keeps it in etcd; see
    /// [`AtRest::api_version`].
    pub fn to_rest(&self, object: Value, old: Old<'_>) -> Value {
        let mut kept = match self.capabilities.at_rest.kept {
            Some(kept) => kept(object, old),
            None => object,
        };
        self.set_version(&mut kept, |storage| &storage.at_rest.api_version);
        kept
    }

    /// An object that was read from etcd, in whatever version it was kept, in the stored version.
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

    /// The webhook that turns objects of one version into another, where there is one.
    pub fn conversion_webhook(&self) -> Option<&ConversionWebhook> {
        self.definition.as_ref()?.conversion_webhook.as_ref()
    }

    /// An object as the conversion webhook returned it, without what its version does not specify.
    pub fn converted(&self, object: Value) -> Value {
        match self.kind_type(object.str_at(&["apiVersion"]).unwrap_or_default()) {
            Some(of) => of.prune(object),
            None => object,
        }
    }

    /// What is known of `version`, if the resource is served in it.
    pub fn version(&self, version: &str) -> Option<&ResourceVersion> {
        self.versions
            .iter()
            .find(|served| served.group_version.version == version)
    }

    /// Whether objects are stored in `api_version`. What is never stored has no other version.
    pub fn is_stored_in(&self, api_version: &str) -> bool {
        let storage = self.storage.as_ref();
        storage.is_none_or(|storage| storage.api_version == api_version)
    }

    /// Whether objects live in namespaces.
    pub fn namespaced(&self) -> bool {
        self.scope == Scope::Namespaced
    }
}

/// Whether the objects of a resource live in namespaces.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    /// One set of objects for the whole server.
    Cluster,
    /// One set of objects for each namespace.
    Namespaced,
}

/// A resource in one of the versions it is served in.
pub struct ResourceVersion {
    /// The group and version.
    pub group_version: GroupVersion,
    /// The text of `apiVersion` in objects of this version.
    pub api_version: SmolStr,
    /// The type of the objects.
    pub kind_type: Arc<dyn KindType>,
    /// The kind of a list of objects, such as `DeploymentList`.
    pub list_kind: SmolStr,
    /// What discovery gives as the hash of the storage version; clients compare it and read nothing into it. Empty for what
    /// is not stored.
    pub storage_version_hash: SmolStr,
    /// What may be done with the resource itself.
    pub verbs: Vec<Verb>,
    /// The parts that have addresses of their own.
    pub subresources: Vec<Subresource>,
    /// What a write to the object itself does not touch: the stored values stay, and the writer does not own
    /// them. Paths of field names, such as `status`.
    pub reset_fields: Arc<[Vec<SmolStr>]>,
    /// The columns of tables of objects.
    pub columns: Vec<Column>,
    /// The fields beyond name and namespace that objects of this version can be selected by, where versions differ in
    /// that; else those of [`ResourceRules::field_selectors`] hold for all.
    pub field_selectors: Vec<SmolStr>,
    /// The warning that every answer about this version carries, where the version is deprecated.
    pub deprecation: Option<SmolStr>,
    /// The release that does not serve the version any more, such as `1.39`; empty where none is known.
    pub removed_release: SmolStr,
}

impl ResourceVersion {
    /// The subresource `name`, if there is one.
    pub fn subresource(&self, name: &str) -> Option<&Subresource> {
        self.subresources.iter().find(|subresource| subresource.name == name)
    }
}

/// A part of a resource that has an address of its own below each object.
pub struct Subresource {
    /// The last part of its path, such as `status`.
    pub name: SmolStr,
    /// The kind that its address takes and answers with.
    pub kind: GroupVersionKind,
    /// What may be done with it.
    pub verbs: Vec<Verb>,
    /// For `scale`: where the fields of a Scale stand in the parent object.
    pub scale: Option<ScaleFields>,
    /// What a write to the subresource does not touch; as [`ResourceVersion::reset_fields`].
    pub reset_fields: Arc<[Vec<SmolStr>]>,
    /// The columns of tables of what is shown, where that is of another kind than the resource.
    pub columns: Vec<Column>,
}

/// Where the fields of a Scale stand in the object that is scaled; each is a list of field names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScaleFields {
    /// The wanted number of replicas: `spec.replicas` in built-in kinds.
    pub spec_replicas: Vec<SmolStr>,
    /// The counted number of replicas: `status.replicas` in built-in kinds.
    pub status_replicas: Vec<SmolStr>,
    /// The selector of the replicas, as a label selector or as its text. `None` where the kind has none.
    pub selector: Option<Vec<SmolStr>>,
}

/// How the objects of a resource are kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Storage {
    /// What keys begin with, with a slash at the end: `/registry/deployments/`. Behind it stand the namespace, if any, and
    /// the name.
    pub prefix: SmolStr,
    /// The `apiVersion` in which objects are kept.
    pub api_version: SmolStr,
    /// How kube-apiserver keeps them in etcd.
    pub at_rest: AtRest,
}

/// How kube-apiserver keeps the objects of a resource in etcd.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AtRest {
    /// The `apiVersion` that it writes: that of [`Storage::api_version`], or one that is not served.
    pub api_version: SmolStr,
    /// What it writes.
    pub encoding: Encoding,
}

/// What stored objects are written as.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Encoding {
    /// Kubernetes protobuf in its envelope: most built-in kinds.
    Protobuf,
    /// JSON.
    Json,
}

impl Storage {
    /// The key of an object. `namespace` is empty for cluster-scoped resources.
    pub fn key(&self, namespace: &str, name: &str) -> String {
        let mut key = self.namespace_prefix(namespace);
        key.push_str(name);
        key
    }

    /// What the keys of all objects in `namespace` begin with; of all objects where it is empty.
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

/// What differs between kinds in how the generic verbs treat them.
#[derive(Clone, Debug)]
pub struct ResourceRules {
    /// Whether PUT to a name that is not there creates it.
    pub create_on_update: bool,
    /// Whether an apply to the status of an object that is not there creates it, as an apply to the object itself does.
    pub status_apply_creates: bool,
    /// Whether PUT may leave out the resource version.
    pub unconditional_update: bool,
    /// Whether deletion waits for a grace period.
    pub graceful_deletion: bool,
    /// Whether DELETE answers with the object rather than with a Status.
    pub delete_returns_object: bool,
    /// What a DELETE that does not say does with dependents.
    pub garbage_collection: GarbageCollection,
    /// When `metadata.generation` grows.
    pub generation: Generation,
    /// What names are valid.
    pub name: NameRule,
    /// Fields beyond `metadata.name` that field selectors may name.
    pub field_selectors: Vec<SmolStr>,
    /// Whether field selectors may name `metadata.namespace`.
    pub namespace_selector: bool,
    /// The status that a new object has, whatever its writer sent. `None` leaves it to the strategy.
    pub initial_status: Option<Value>,
    /// How often the kind's own validation looks at metadata.
    pub metadata_checks: MetadataChecks,
    /// Whether objects have a protobuf form. Custom resources have none.
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

/// How often the validation of a kind looks at metadata that the checks for all kinds have looked at before. Clients see each
/// fault as often among the causes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MetadataChecks {
    /// By an update of the object itself.
    pub object: RepeatedChecks,
    /// By an update of its status or another subresource.
    pub subresource: RepeatedChecks,
    /// Whether finalizers without a domain must be standard ones. Some kinds only warn.
    pub finalizer_names: bool,
    /// Whether the kind's own rule of names holds for `generateName` too.
    pub generated_names: bool,
    /// In what order an update reports its faults, if it is one of the object itself or looks at metadata as a whole.
    pub update_order: UpdateOrder,
    /// When the metadata of a new object are looked at.
    pub at_creation: CreationChecks,
}

/// The order of the faults of an update: those of metadata as a whole and of their change, and those of all else.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum UpdateOrder {
    /// How metadata change, metadata as a whole, all else.
    #[default]
    ChangeFirst,
    /// Metadata as a whole, how they change, all else.
    WholeFirst,
    /// The whole object, metadata first, and then how it changes, metadata first.
    ObjectFirst,
    /// How the object changes, metadata first, and then the whole of it, metadata first.
    ChangesFirst,
}

/// When the validation of a kind looks at the metadata of a new object.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum CreationChecks {
    /// Ahead of all else.
    #[default]
    First,
    /// Where the kind itself does, by its own strategy.
    Own,
    /// Once nothing else is wrong with the object.
    Last,
}

impl MetadataChecks {
    /// Custom objects: `ValidateObjectMetaUpdate` of apimachinery, which only warns of finalizers.
    pub const CUSTOM: Self = Self {
        object: RepeatedChecks { whole: 0, update: 1 },
        subresource: RepeatedChecks { whole: 0, update: 1 },
        finalizer_names: false,
        at_creation: CreationChecks::First,
        generated_names: true,
        update_order: UpdateOrder::ChangeFirst,
    };

    /// What holds for a write to `subresource`, which is empty for the object itself.
    pub fn of(&self, subresource: &str) -> RepeatedChecks {
        if subresource.is_empty() {
            self.object
        } else {
            self.subresource
        }
    }
}

/// How often the validation of an update looks at metadata.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RepeatedChecks {
    /// As at creation: `ValidateObjectMeta`.
    pub whole: u8,
    /// Against the old object: `ValidateObjectMetaUpdate`.
    pub update: u8,
}

/// What deletion without a stated policy does with dependents.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GarbageCollection {
    /// The object goes at once, dependents follow.
    Background,
    /// Dependents stay.
    Orphan,
    /// The kind takes no part in garbage collection.
    Unsupported,
}

/// When `metadata.generation` grows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Generation {
    /// A value that the client sent at creation is kept, and updates never change it.
    Unmanaged,
    /// 1 (or unset, where `from_one` is false) at creation, and one more whenever one of `fields` changes by a write to the
    /// object itself or to one of `subresources`. Fields are dotted paths; `*` stands for all but metadata.
    Counted {
        /// Whether a new object has generation 1 rather than none.
        from_one: bool,
        /// The fields whose change counts.
        fields: Vec<SmolStr>,
        /// The subresources whose writes count besides those of the object itself.
        subresources: Vec<SmolStr>,
    },
}

/// What names the objects of a resource may have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NameRule {
    /// A DNS subdomain (RFC 1123), at most 253 characters: the rule of most kinds.
    Subdomain,
    /// A DNS label (RFC 1123), at most 63 characters.
    Label,
    /// A DNS label that begins with a letter (RFC 1035), at most 63 characters.
    Label1035,
    /// A DNS subdomain of at most 253 bytes, in the words of declarative validation.
    LongName,
    /// Anything that can stand in a path: neither `.` nor `..`, without `/` and `%`.
    PathSegment,
    /// What the kind's own validation takes.
    Own,
}

/// What a client can do with a resource, as discovery and access rules name it.
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

    /// The verb's name in discovery documents.
    #[expect(clippy::indexing_slicing, reason = "a name for each variant, in their order")]
    pub fn name(self) -> &'static str {
        Self::NAMES[self as usize].1
    }

    /// The verb of that name.
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
