//! The documents, assembled from paths and schemas.

use std::collections::{BTreeSet, HashSet};

use holdfast_resource::{Registry, Resource};
use holdfast_schema::GroupVersion;
use holdfast_schema::types::{TypeId, TypeTable};
use holdfast_value::{Map, SmolStr, Value};
use smol_str::format_smolstr;

use super::operations::{Answer, Body, PATCH, PathItem};
use super::schemas::{SchemaWriter, closure};
use super::{Descriptions, Form, custom, object, paths};

const META: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.";

/// Builder of the OpenAPI documents for the resources of a registry.
pub struct Publication<'a> {
    registry: &'a Registry,
    types: &'a TypeTable,
    descriptions: &'a dyn Descriptions,
    /// The version in the documents: `1.36`.
    version: &'a str,
    /// True if documents list the values that fields may have.
    lists_values: bool,
}

/// The subject of a v3 document.
enum Subject {
    /// The API of the core group, or of all others.
    Roots(&'static str),
    /// The versions of a group.
    Group(SmolStr),
    /// The resources of a group version.
    GroupVersion(GroupVersion),
    /// The version of the server.
    Version,
    /// The issuer of tokens, or its keys.
    Issuer {
        /// True if these are the keys.
        keys: bool,
    },
}

impl<'a> Publication<'a> {
    /// Creates a publication of `registry`, whose types are those of `types`. `version` is the version in the
    /// documents.
    pub fn new(
        registry: &'a Registry,
        types: &'a TypeTable,
        descriptions: &'a dyn Descriptions,
        version: &'a str,
    ) -> Self {
        Self {
            registry,
            types,
            descriptions,
            version,
            lists_values: true,
        }
    }

    /// Returns the same documents, listing the values that fields may have only if `lists_values` is true.
    #[must_use]
    pub fn listing_values(self, lists_values: bool) -> Self {
        Self { lists_values, ..self }
    }

    /// Returns the names of the v3 documents, for the index and for paths below `/openapi/v3/`.
    pub fn v3_names(registry: &Registry) -> Vec<String> {
        subjects(registry).into_iter().map(|(name, _)| name).collect()
    }

    /// Returns a fingerprint that changes whenever the v3 document of that name does, as long as the built-in types
    /// stay the same. `None` if there is no such document.
    pub fn v3_fingerprint(registry: &Registry, name: &str) -> Option<Vec<u8>> {
        let mut print = name.as_bytes().to_vec();
        if let Subject::GroupVersion(group_version) = subject(registry, name)? {
            let served = registry.served_in(&group_version);
            served.for_each(|served| add_fingerprint(&mut print, &served.resource));
        }
        Some(print)
    }

    /// Returns the fingerprint of the v2 document; see [`Publication::v3_fingerprint`].
    pub fn v2_fingerprint(registry: &Registry) -> Vec<u8> {
        let mut print = Vec::new();
        for resource in registry.resources() {
            add_fingerprint(&mut print, resource);
        }
        print
    }

    /// Returns the v3 document of that name in the index, such as `apis/apps/v1`.
    pub fn v3(&self, name: &str) -> Option<Value> {
        let subject = subject(self.registry, name)?;
        let items = self.paths(&subject);
        let marked = match subject {
            Subject::GroupVersion(group_version) => Some(group_version),
            _ => None,
        };
        let own: HashSet<SmolStr> = marked
            .iter()
            .flat_map(|marked| custom::names(self.registry, marked))
            .collect();
        let types = closure(self.types, self.named_types(&items, &own));
        // The reference writes the document of custom resources with another builder: it has its own title and version,
        // no security schemes, and names all kinds of a type of many kinds.
        let is_custom = marked
            .as_ref()
            .is_some_and(|marked| paths::all_custom(self.registry, marked));
        let kinds = match &marked {
            _ if is_custom => ListedKinds::All,
            Some(group_version) => ListedKinds::CoreAnd(group_version),
            None => ListedKinds::Core,
        };
        let mut schemas = self.schemas(Form::V3, types, kinds);
        if let Some(group_version) = &marked {
            self.add_custom(Form::V3, group_version, &mut schemas);
        }
        let mut components = Map::new();
        if schemas.as_map().is_some_and(|schemas| !schemas.is_empty()) {
            components.insert("schemas", schemas);
        }
        if !is_custom {
            components.insert("securitySchemes", security());
        }
        let mut document = Map::new();
        document.insert("openapi", "3.0.0");
        document.insert("info", if is_custom { custom::info() } else { self.info() });
        document.insert("paths", write_paths(&items, Form::V3));
        document.insert("components", components);
        Some(Value::Map(document))
    }

    /// Passes the v2 document, which describes everything, to `visit` in parts: the name of a member and its value.
    /// Large members are split into several consecutive parts of one name, whose entries belong together, so that no
    /// caller has to hold the whole document.
    pub fn v2(&self, visit: &mut dyn FnMut(&'static str, Value)) {
        visit("swagger", "2.0".into());
        visit("info", self.info());
        for (_, subject) in subjects(self.registry) {
            let items = self.paths(&subject);
            if !items.is_empty() {
                let mut paths = write_paths(&items, Form::V2);
                if let Subject::GroupVersion(group_version) = &subject {
                    rename_references(&mut paths, &self.names_in_use(group_version), 0);
                }
                visit("paths", paths);
            }
        }
        let published = self.types.iter().filter(|(_, of)| of.published).map(|(id, _)| id);
        visit(
            "definitions",
            self.schemas(Form::V2, published.collect(), ListedKinds::All),
        );
        for group_version in self.registry.group_versions() {
            let in_use = self.names_in_use(group_version);
            for (name, mut schema) in custom::schemas(self.registry, group_version, Form::V2, self.descriptions) {
                rename_references(&mut schema, &in_use, 0);
                let name = if in_use.contains(&name) { renamed(&name) } else { name };
                visit("definitions", Value::Map([(name, schema)].into_iter().collect()));
            }
        }
        visit("securityDefinitions", security());
        let anyone = object([("BearerToken", Value::from(Vec::new()))]);
        visit("security", vec![anyone].into());
    }

    /// Returns the definition names of custom resources of a group version that built-in types have. In the document of
    /// everything, those of the custom resources get another name.
    ///
    /// upstream: k8s.io/kube-openapi/pkg/aggregator#mergeSpecs
    fn names_in_use(&self, group_version: &GroupVersion) -> HashSet<SmolStr> {
        let is_in_use = |name: &SmolStr| self.types.id(name).is_some_and(|id| self.types.get(id).published);
        custom::names(self.registry, group_version).filter(is_in_use).collect()
    }

    fn info(&self) -> Value {
        object([
            ("title", Value::from("Kubernetes")),
            ("version", Value::from(self.version)),
        ])
    }

    fn paths(&self, subject: &Subject) -> Vec<PathItem> {
        match subject {
            Subject::Version => vec![paths::version()],
            Subject::Issuer { keys } => vec![paths::issuer(*keys)],
            Subject::Roots("api") => vec![paths::discovery(
                "/api/",
                "getCoreAPIVersions".to_owned(),
                "core".into(),
                "get available API versions",
                &format!("{META}APIVersions"),
            )],
            Subject::Roots(_) => vec![paths::discovery(
                "/apis/",
                "getAPIVersions".to_owned(),
                "apis".into(),
                "get available API versions",
                &format!("{META}APIGroupList"),
            )],
            Subject::Group(group) => {
                let name = paths::group_name(group);
                vec![paths::discovery(
                    &format!("/apis/{group}/"),
                    format!("get{}APIGroup", paths::capital(&name)),
                    name.into(),
                    "get information of a group",
                    &format!("{META}APIGroup"),
                )]
            }
            Subject::GroupVersion(group_version) => paths::of_group_version(self.registry, self.types, group_version),
        }
    }

    /// Adds the schemas of the custom resources of a group version.
    fn add_custom(&self, form: Form, group_version: &GroupVersion, schemas: &mut Value) {
        let Some(schemas) = schemas.as_map_mut() else { return };
        for (name, schema) in custom::schemas(self.registry, group_version, form, self.descriptions) {
            schemas.insert(name, schema);
        }
    }

    /// Returns the built-in types that operations refer to; the names `own` are those of custom resources.
    fn named_types(&self, items: &[PathItem], own: &HashSet<SmolStr>) -> BTreeSet<TypeId> {
        let operations = items.iter().flat_map(|item| &item.operations);
        let names = operations.flat_map(|operation| {
            let sent = match &operation.body {
                Body::None => None,
                Body::Object { of, .. } => Some(of.as_str()),
                Body::Patch(_) => Some(PATCH),
            };
            let answered = match &operation.answer {
                Answer::Object { of, .. } => Some(of.as_str()),
                Answer::Text(_) => None,
            };
            [sent, answered]
        });
        let (mut named, mut custom) = (BTreeSet::new(), false);
        for name in names.flatten() {
            match self.types.id(name).filter(|_| !own.contains(name)) {
                Some(id) => {
                    named.insert(id);
                }
                None => custom = true,
            }
        }
        if custom {
            named.extend(custom::named_types().iter().filter_map(|name| self.types.id(name)));
        }
        named
    }

    /// Returns the schemas of types, with the `kinds` of those that have many.
    fn schemas(&self, form: Form, types: BTreeSet<TypeId>, kinds: ListedKinds<'_>) -> Value {
        let writer = SchemaWriter {
            table: self.types,
            descriptions: self.descriptions,
            form,
            lists_values: self.lists_values,
        };
        let core = GroupVersion::new("", "v1");
        let entries = types.into_iter().map(|id| {
            let object_type = self.types.get(id);
            let schema = writer.schema(object_type, &|kind| {
                let is_core = object_type.kinds.len() == 1 || kind.group_version == core;
                match kinds {
                    ListedKinds::All => true,
                    ListedKinds::Core => is_core,
                    ListedKinds::CoreAnd(group_version) => is_core || kind.group_version == *group_version,
                }
            });
            (object_type.name.clone(), schema)
        });
        Value::Map(entries.collect())
    }
}

/// Kinds that a document names for a type of many kinds, such as `DeleteOptions`.
#[derive(Clone, Copy)]
enum ListedKinds<'a> {
    /// All kinds.
    All,
    /// The kind of the core group.
    Core,
    /// The kinds of the core group and of the group version of the document.
    CoreAnd(&'a GroupVersion),
}

fn add_fingerprint(print: &mut Vec<u8>, resource: &Resource) {
    if let Some(definition) = &resource.crd {
        print.push(b'\n');
        print.extend_from_slice(definition.name.as_bytes());
        print.push(b' ');
        print.extend_from_slice(&definition.fingerprint);
    }
}

/// Returns the subject of the v3 document of that name, if there is one.
fn subject(registry: &Registry, name: &str) -> Option<Subject> {
    let parts: Vec<&str> = name.split('/').collect();
    let group_version = match parts[..] {
        ["api"] => return Some(Subject::Roots("api")),
        ["apis"] => return Some(Subject::Roots("apis")),
        ["version"] => return Some(Subject::Version),
        [".well-known", "openid-configuration"] => return Some(Subject::Issuer { keys: false }),
        ["openid", "v1", "jwks"] => return Some(Subject::Issuer { keys: true }),
        ["apis", group] => {
            let known = !group.is_empty() && registry.serves_group(group);
            return known.then(|| Subject::Group(group.into()));
        }
        ["api", version] => GroupVersion::new("", version),
        ["apis", group, version] if !group.is_empty() => GroupVersion::new(group, version),
        _ => return None,
    };
    let known = registry.lists(&group_version);
    known.then_some(Subject::GroupVersion(group_version))
}

/// Returns the v3 documents, by their names in the index.
fn subjects(registry: &Registry) -> Vec<(String, Subject)> {
    let mut found = vec![
        ("api".to_owned(), Subject::Roots("api")),
        ("apis".to_owned(), Subject::Roots("apis")),
        ("version".to_owned(), Subject::Version),
        (
            ".well-known/openid-configuration".to_owned(),
            Subject::Issuer { keys: false },
        ),
        ("openid/v1/jwks".to_owned(), Subject::Issuer { keys: true }),
    ];
    let mut groups = BTreeSet::new();
    for group_version in registry.group_versions() {
        let group = &group_version.group;
        if !group.is_empty() && !paths::all_custom(registry, group_version) && groups.insert(group.clone()) {
            found.push((format!("apis/{group}"), Subject::Group(group.clone())));
        }
        let name = paths::base(group_version).trim_start_matches('/').to_owned();
        found.push((name, Subject::GroupVersion(group_version.clone())));
    }
    found
}

fn write_paths(items: &[PathItem], form: Form) -> Value {
    let entries = items
        .iter()
        .map(|item| (SmolStr::from(item.path.as_str()), item.write(form)));
    Value::Map(entries.collect())
}

fn security() -> Value {
    let scheme = object([
        ("description", Value::from("Bearer Token authentication")),
        ("type", Value::from("apiKey")),
        ("name", Value::from("authorization")),
        ("in", Value::from("header")),
    ]);
    object([("BearerToken", scheme)])
}

/// Returns the name of a definition whose own name is in use.
fn renamed(name: &str) -> SmolStr {
    format_smolstr!("{name}_v2")
}

/// Changes the references to the definitions `in_use` to their other names.
fn rename_references(value: &mut Value, in_use: &HashSet<SmolStr>, depth: usize) {
    if in_use.is_empty() || depth > MAX_REFERENCE_DEPTH {
        return;
    }
    if let Some(name) = value.str_at(&["$ref"]).and_then(|text| text.strip_prefix(DEFINITIONS))
        && in_use.contains(name)
    {
        let reference = format!("{DEFINITIONS}{}", renamed(name));
        value.set_at(&["$ref"], reference.into());
    }
    if let Some(list) = value.as_list_mut() {
        for item in list.make_mut() {
            rename_references(item, in_use, depth + 1);
        }
    } else if let Some(map) = value.as_map_mut() {
        for (_, member) in map.values_mut() {
            rename_references(member, in_use, depth + 1);
        }
    }
}

/// Prefix of references to definitions in v2.
const DEFINITIONS: &str = "#/definitions/";

/// Maximum depth of the search for references.
const MAX_REFERENCE_DEPTH: usize = 140;
