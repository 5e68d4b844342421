//! The paths of a group version, and their operations.

use holdfast_resource::{Connecter, Registry, Resource, Served, Subresource, Verb};
use holdfast_schema::types::TypeTable;
use holdfast_schema::{GroupVersion, GroupVersionKind, KindName};
use holdfast_value::SmolStr;

use super::operations::{Answer, Body, Operation, PathItem};
use super::parameters::{NAME, NAMESPACE, PATH, PRETTY, Parameter, Request, of_connecter, options_of};

const META: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.";
const OBJECT_MEDIA: &[&str] = &[
    "application/json",
    "application/yaml",
    "application/vnd.kubernetes.protobuf",
];
const LIST_MEDIA: &[&str] = &[
    "application/json",
    "application/yaml",
    "application/vnd.kubernetes.protobuf",
    "application/json;stream=watch",
    "application/vnd.kubernetes.protobuf;stream=watch",
];
const LOG_MEDIA: &[&str] = &[
    "text/plain",
    "application/json",
    "application/yaml",
    "application/vnd.kubernetes.protobuf",
];
const ANY_MEDIA: &[&str] = &["*/*"];
const PATCH_MEDIA: &[&str] = &[
    "application/json-patch+json",
    "application/merge-patch+json",
    "application/strategic-merge-patch+json",
    "application/apply-patch+yaml",
];

const CUSTOM_OBJECT_MEDIA: &[&str] = &["application/json", "application/yaml"];
const CUSTOM_PATCH_MEDIA: &[&str] = &[
    "application/json-patch+json",
    "application/merge-patch+json",
    "application/apply-patch+yaml",
];

/// Returns the path item of a discovery document.
pub(super) fn discovery(path: &str, id: String, tag: SmolStr, description: &str, of: &str) -> PathItem {
    PathItem {
        path: path.to_owned(),
        parameters: Vec::new(),
        named: SmolStr::default(),
        operations: vec![Operation {
            method: "get",
            id,
            tag,
            description: description.to_owned(),
            action: None,
            kind: None,
            parameters: Vec::new(),
            body: Body::None,
            statuses: &[200],
            answer: Answer::Object {
                of: SmolStr::new(of),
                media: OBJECT_MEDIA,
            },
            custom: false,
        }],
    }
}

/// Returns the path item of `/version`, whose response is always JSON.
pub(super) fn version() -> PathItem {
    let info = "io.k8s.apimachinery.pkg.version.Info";
    let mut item = discovery(
        "/version/",
        "getCodeVersion".to_owned(),
        "version".into(),
        "get the version of the server",
        info,
    );
    for operation in &mut item.operations {
        operation.answer = Answer::Object {
            of: SmolStr::new(info),
            media: &["application/json"],
        };
    }
    item
}

/// Returns the path item of the issuer of service account tokens, or of its keys.
pub(super) fn issuer(keys: bool) -> PathItem {
    let (path, id, tag, description, media): (_, _, _, _, &'static [&'static str]) = if keys {
        const WHAT: &str = "get the public keys of the issuer of tokens for service accounts";
        let media = &["application/jwk-set+json"];
        (
            "/openid/v1/jwks/",
            "getServiceAccountIssuerOpenIDKeyset",
            "openid",
            WHAT,
            media,
        )
    } else {
        const WHAT: &str = "get what OpenID clients ask of the issuer of tokens for service accounts";
        let id = "getServiceAccountIssuerOpenIDConfiguration";
        (
            "/.well-known/openid-configuration/",
            id,
            "WellKnown",
            WHAT,
            &["application/json"],
        )
    };
    let mut item = discovery(path, id.to_owned(), tag.into(), description, "");
    for operation in &mut item.operations {
        operation.answer = Answer::Text(media);
    }
    item
}

/// Returns all paths of a group version, its discovery document first.
pub(super) fn of_group_version(registry: &Registry, types: &TypeTable, group_version: &GroupVersion) -> Vec<PathItem> {
    let base = base(group_version);
    let group = group_name(&group_version.group);
    let spelled = format!("{}{}", capital(&group), capital(&group_version.version));
    let tag = SmolStr::from(format!("{group}_{}", group_version.version));
    let mut items = Vec::new();
    // The reference describes the operations of custom resources, not their discovery.
    if !all_custom(registry, group_version) {
        items.push(discovery(
            &format!("{base}/"),
            format!("get{spelled}APIResources"),
            tag.clone(),
            "get available resources",
            &format!("{META}APIResourceList"),
        ));
    }
    for served in registry.served_in(group_version) {
        let published = served.version().kind_type.published_name();
        let paths = Paths {
            resource: &served.resource,
            served: &served,
            types,
            base: &base,
            spelled: &spelled,
            tag: &tag,
            of: published,
        };
        paths.write(&mut items);
    }
    items
}

/// Returns true if a group version serves only custom resources.
pub(super) fn all_custom(registry: &Registry, group_version: &GroupVersion) -> bool {
    let mut served = registry.served_in(group_version).peekable();
    served.peek().is_some() && served.all(|served| is_custom(&served.resource))
}

/// Returns true if a resource comes from a CRD: it has no protobuf form.
fn is_custom(resource: &Resource) -> bool {
    !resource.rules.protobuf
}

/// Returns the path of a group version: `/api/v1`, `/apis/apps/v1`.
pub(super) fn base(group_version: &GroupVersion) -> String {
    match group_version.group.as_str() {
        "" => format!("/api/{}", group_version.version),
        group => format!("/apis/{group}/{}", group_version.version),
    }
}

/// Returns the name of a group in tags: `core`, `apps`, `rbacAuthorization`.
pub(super) fn group_name(group: &str) -> String {
    let mut parts = group.strip_suffix(".k8s.io").unwrap_or(group).split('.');
    let first = parts.next().filter(|first| !first.is_empty()).unwrap_or("core");
    parts.fold(first.to_owned(), |name, part| name + &capital(part))
}

pub(super) fn capital(word: &str) -> String {
    let mut letters = word.chars();
    letters
        .next()
        .map_or_else(String::new, |first| first.to_uppercase().chain(letters).collect())
}

fn kind_of(served: &Served) -> GroupVersionKind {
    GroupVersionKind {
        group_version: served.version().group_version.clone(),
        kind: served.resource.kind.clone(),
    }
}

struct Paths<'a> {
    resource: &'a Resource,
    served: &'a Served,
    types: &'a TypeTable,
    base: &'a str,
    /// Group and version in operation ids, such as `AppsV1`.
    spelled: &'a str,
    tag: &'a SmolStr,
    /// The definition name of the objects.
    of: SmolStr,
}

impl Paths<'_> {
    fn write(&self, items: &mut Vec<PathItem>) {
        let plural = &self.resource.plural;
        let verbs = &self.served.version().verbs;
        let has = |verb| verbs.contains(&verb);
        let (scope, place) = match self.resource.namespaced() {
            true => ("Namespaced", format!("namespaces/{{namespace}}/{plural}")),
            false => ("", plural.to_string()),
        };
        let kind = &self.resource.kind;
        let collection = format!("{}/{place}", self.base);
        let object = format!("{collection}/{{name}}");

        let mut operations = Vec::new();
        if has(Verb::List) {
            operations.push(self.list(
                format!("list{}{scope}{kind}", self.spelled),
                self.path_parameters(false),
            ));
        }
        if has(Verb::Create) {
            operations.push(self.create(scope));
        }
        if has(Verb::DeleteCollection) {
            operations.push(self.delete_collection(scope));
        }
        items.extend(self.item(collection, operations));

        let mut operations = Vec::new();
        if has(Verb::Get) {
            operations.push(self.get(scope, None));
        }
        if has(Verb::Update) {
            operations.push(self.replace(scope, None));
        }
        if has(Verb::Delete) {
            operations.push(self.delete(scope));
        }
        if has(Verb::Patch) {
            operations.push(self.patch(scope, None));
        }
        items.extend(self.item(object.clone(), operations));

        for sub in &self.served.version().subresources {
            self.subresource(scope, &object, sub, items);
        }

        let of_all = format!("{}{kind}", self.spelled);
        if self.resource.namespaced() && has(Verb::List) {
            let operation = self.list(format!("list{of_all}ForAllNamespaces"), vec![PRETTY]);
            items.extend(self.item(format!("{}/{plural}", self.base), vec![operation]));
        }
        if has(Verb::Watch) && !is_custom(self.resource) {
            let watch = |path: String, id: String, one: bool, parameters: Vec<Parameter>| {
                self.item(
                    format!("{}/watch/{path}", self.base),
                    vec![self.watch(id, one, parameters)],
                )
            };
            let id = format!("watch{}{scope}{kind}", self.spelled);
            items.extend(watch(
                place.clone(),
                format!("{id}List"),
                false,
                self.path_parameters(false),
            ));
            items.extend(watch(format!("{place}/{{name}}"), id, true, self.path_parameters(true)));
            if self.resource.namespaced() {
                items.extend(watch(
                    plural.to_string(),
                    format!("watch{of_all}ListForAllNamespaces"),
                    false,
                    vec![PRETTY],
                ));
            }
        }
    }

    /// Returns the item of a path; parameters common to all its operations are listed once. `None` if there are no
    /// operations.
    fn item(&self, path: String, mut operations: Vec<Operation>) -> Option<PathItem> {
        let (first, rest) = operations.split_first()?;
        let mut shared: Vec<Parameter> = first
            .parameters
            .iter()
            .filter(|parameter| rest.iter().all(|other| other.parameters.contains(parameter)))
            .copied()
            .collect();
        // A path parameter precedes a query parameter of the same name.
        shared.sort_by_key(|parameter| (parameter.name, !parameter.in_path));
        for operation in &mut operations {
            operation.parameters.retain(|parameter| !shared.contains(parameter));
            operation.parameters.sort_by_key(|parameter| parameter.name);
        }
        Some(PathItem {
            path,
            parameters: shared,
            named: self.resource.kind.clone(),
            operations,
        })
    }

    /// Returns the media types of responses; custom resources have no protobuf.
    fn media(&self, built_in: &'static [&'static str]) -> &'static [&'static str] {
        match is_custom(self.resource) {
            true => CUSTOM_OBJECT_MEDIA,
            false => built_in,
        }
    }

    /// Returns the parameters in the path, and `pretty`.
    fn path_parameters(&self, named: bool) -> Vec<Parameter> {
        let namespace = self.resource.namespaced().then_some(NAMESPACE);
        let name = named.then_some(NAME);
        namespace.into_iter().chain(name).chain([PRETTY]).collect()
    }

    fn operation(&self, method: &'static str, action: &'static str, id: String, description: String) -> Operation {
        Operation {
            method,
            id,
            tag: self.tag.clone(),
            description,
            action: Some(action),
            kind: Some(kind_of(self.served)),
            parameters: self.path_parameters(true),
            body: Body::None,
            statuses: &[200],
            answer: Answer::Object {
                of: self.of.clone(),
                media: self.media(OBJECT_MEDIA),
            },
            custom: is_custom(self.resource),
        }
    }

    fn list(&self, id: String, parameters: Vec<Parameter>) -> Operation {
        let kind = &self.resource.kind;
        let list = GroupVersionKind {
            kind: self.served.version().list_kind.clone(),
            ..kind_of(self.served)
        };
        let (of, what) = match is_custom(self.resource) {
            true => (
                KindName::new(list.group_version, list.kind).definition_name(),
                "list objects",
            ),
            false => (self.definition(&list), "list or watch objects"),
        };
        Operation {
            parameters: [&parameters[..], &options_of(Request::List)].concat(),
            answer: Answer::Object {
                of,
                media: self.media(LIST_MEDIA),
            },
            ..self.operation("get", "list", id, format!("{what} of kind {kind}"))
        }
    }

    fn watch(&self, id: String, one: bool, parameters: Vec<Parameter>) -> Operation {
        let kind = &self.resource.kind;
        let (action, what) = match one {
            true => ("watch", "changes to an object"),
            false => ("watchlist", "individual changes to a list"),
        };
        Operation {
            parameters: [&parameters[..], &options_of(Request::List)].concat(),
            answer: Answer::Object {
                of: SmolStr::from(format!("{META}WatchEvent")),
                media: self.media(LIST_MEDIA),
            },
            ..self.operation(
                "get",
                action,
                id,
                format!("watch {what} of kind {kind}; deprecated: list with watch=true"),
            )
        }
    }

    fn create(&self, scope: &str) -> Operation {
        let kind = &self.resource.kind;
        let id = format!("create{}{scope}{kind}", self.spelled);
        Operation {
            parameters: [&self.path_parameters(false)[..], &options_of(Request::Write)].concat(),
            body: self.body(&self.of),
            statuses: &[200, 201, 202],
            ..self.operation("post", "post", id, format!("create {} {kind}", article(kind)))
        }
    }

    fn delete_collection(&self, scope: &str) -> Operation {
        let kind = &self.resource.kind;
        let id = format!("delete{}Collection{scope}{kind}", self.spelled);
        // For the deletion of custom resources, the reference publishes the options of lists.
        let (request, body) = match is_custom(self.resource) {
            true => (Request::List, Body::None),
            false => (Request::DeleteCollection, self.delete_options()),
        };
        Operation {
            parameters: [&self.path_parameters(false)[..], &options_of(request)].concat(),
            body,
            answer: self.status(),
            ..self.operation("delete", "deletecollection", id, format!("delete collection of {kind}"))
        }
    }

    fn delete(&self, scope: &str) -> Operation {
        let kind = &self.resource.kind;
        let id = format!("delete{}{scope}{kind}", self.spelled);
        let usual = self.operation("delete", "delete", id, format!("delete {} {kind}", article(kind)));
        let answer = match self.resource.rules.delete_returns_object {
            true => Answer::Object {
                of: self.of.clone(),
                media: self.media(OBJECT_MEDIA),
            },
            false => self.status(),
        };
        Operation {
            parameters: [&self.path_parameters(true)[..], &options_of(Request::Delete)].concat(),
            body: self.delete_options(),
            statuses: &[200, 202],
            answer,
            ..usual
        }
    }

    fn get(&self, scope: &str, sub: Option<&Subresource>) -> Operation {
        let id = self.id("read", scope, sub);
        let mut operation = self.operation("get", "get", id, self.description("read", sub));
        if is_custom(self.resource) {
            operation.parameters.extend(options_of(Request::GetCustom));
        }
        self.of_subresource(operation, sub)
    }

    fn replace(&self, scope: &str, sub: Option<&Subresource>) -> Operation {
        let id = self.id("replace", scope, sub);
        let operation = self.operation("put", "put", id, self.description("replace", sub));
        Operation {
            parameters: [&self.path_parameters(true)[..], &options_of(Request::Write)].concat(),
            body: self.body(&self.definition_of(sub)),
            statuses: &[200, 201],
            ..self.of_subresource(operation, sub)
        }
    }

    fn patch(&self, scope: &str, sub: Option<&Subresource>) -> Operation {
        let id = self.id("patch", scope, sub);
        let operation = self.operation("patch", "patch", id, self.description("partially update", sub));
        Operation {
            parameters: [&self.path_parameters(true)[..], &options_of(Request::Patch)].concat(),
            body: Body::Patch(match self.resource.conventions.strategic_merge {
                true => PATCH_MEDIA,
                false => CUSTOM_PATCH_MEDIA,
            }),
            statuses: match is_custom(self.resource) {
                true => &[200],
                false => &[200, 201],
            },
            ..self.of_subresource(operation, sub)
        }
    }

    fn subresource(&self, scope: &str, object: &str, sub: &Subresource, items: &mut Vec<PathItem>) {
        let path = format!("{object}/{}", sub.name);
        if let Some(connecter) = self.resource.capabilities.connecter(&sub.name) {
            self.stream(scope, &path, sub, connecter, items);
            return;
        }
        let mut operations = Vec::new();
        for verb in &sub.verbs {
            match verb {
                Verb::Get => operations.push(self.get(scope, Some(sub))),
                Verb::Update => operations.push(self.replace(scope, Some(sub))),
                Verb::Patch => operations.push(self.patch(scope, Some(sub))),
                Verb::Create => operations.push(self.create_subresource(scope, sub)),
                _ => {}
            }
        }
        items.extend(self.item(path, operations));
    }

    fn create_subresource(&self, scope: &str, sub: &Subresource) -> Operation {
        let kind = &self.resource.kind;
        let description = format!("create {} of {} {kind}", sub.name, article(kind));
        let operation = self.operation("post", "post", self.id("create", scope, Some(sub)), description);
        Operation {
            parameters: [&self.path_parameters(true)[..], &options_of(Request::Write)].concat(),
            body: self.body(&self.definition_of(Some(sub))),
            statuses: &[200, 201, 202],
            ..self.of_subresource(operation, Some(sub))
        }
    }

    /// Adds a subresource that responds with text or a stream: the log, and connections.
    fn stream(&self, scope: &str, path: &str, sub: &Subresource, connecter: &dyn Connecter, items: &mut Vec<PathItem>) {
        let kind = &self.resource.kind;
        let parameters = &of_connecter(connecter);
        if !connecter.connects() {
            let mut operation = self.get(scope, Some(sub));
            operation.parameters.extend(parameters);
            operation.answer = Answer::Text(LOG_MEDIA);
            items.extend(self.item(path.to_owned(), vec![operation]));
            return;
        }
        let is_proxy = sub.verbs.contains(&Verb::Update);
        let methods: &[&'static str] = match is_proxy {
            true => &["delete", "get", "head", "options", "patch", "post", "put"],
            false => &["get", "post"],
        };
        let tails: &[(&str, &str, &[Parameter])] = match is_proxy {
            true => &[("", "", &[]), ("/{path}", "WithPath", &[PATH])],
            false => &[("", "", &[])],
        };
        for (tail, suffix, more) in tails {
            let connect = |method: &&'static str| {
                let name = capital(&sub.name);
                let id = format!("connect{}{}{scope}{kind}{name}{suffix}", self.spelled, capital(method));
                let upper = method.to_uppercase();
                let description = format!("connect {upper} requests to {} of {kind}", sub.name);
                let mut operation = self.operation(method, "connect", id, description);
                operation.kind = Some(sub.kind.clone());
                operation.parameters.retain(|parameter| *parameter != PRETTY);
                operation.parameters.extend(parameters);
                operation.parameters.extend(*more);
                operation.answer = Answer::Text(ANY_MEDIA);
                operation
            };
            items.extend(self.item(format!("{path}{tail}"), methods.iter().map(connect).collect()));
        }
    }

    fn of_subresource(&self, operation: Operation, sub: Option<&Subresource>) -> Operation {
        let Some(sub) = sub else { return operation };
        Operation {
            kind: match is_custom(self.resource) {
                true => operation.kind,
                false => Some(sub.kind.clone()),
            },
            answer: Answer::Object {
                of: self.definition(&sub.kind),
                media: self.media(OBJECT_MEDIA),
            },
            ..operation
        }
    }

    fn id(&self, verb: &str, scope: &str, sub: Option<&Subresource>) -> String {
        let part = sub.map_or_else(String::new, |sub| capital(&sub.name));
        format!("{verb}{}{scope}{}{part}", self.spelled, self.resource.kind)
    }

    fn description(&self, what: &str, sub: Option<&Subresource>) -> String {
        let kind = &self.resource.kind;
        match sub {
            Some(sub) => format!("{what} {} of the specified {kind}", sub.name),
            None => format!("{what} the specified {kind}"),
        }
    }

    fn definition_of(&self, sub: Option<&Subresource>) -> SmolStr {
        sub.map_or_else(|| self.of.clone(), |sub| self.definition(&sub.kind))
    }

    /// Returns the definition name of a kind, or otherwise that of the objects.
    fn definition(&self, kind: &GroupVersionKind) -> SmolStr {
        let own = (kind.kind == self.resource.kind).then(|| kind.group_version.api_version());
        if let Some(of) = own.and_then(|api_version| self.resource.kind_type(&api_version)) {
            return of.published_name();
        }
        let found = self.types.id_of_kind(kind).map(|id| self.types.get(id).name.clone());
        found.unwrap_or_else(|| self.of.clone())
    }

    fn body(&self, of: &SmolStr) -> Body {
        Body::Object {
            of: of.clone(),
            media: self.media(ANY_MEDIA),
            required: true,
        }
    }

    fn delete_options(&self) -> Body {
        Body::Object {
            of: SmolStr::from(format!("{META}DeleteOptions")),
            media: self.media(ANY_MEDIA),
            required: false,
        }
    }

    fn status(&self) -> Answer {
        Answer::Object {
            of: SmolStr::from(format!("{META}Status")),
            media: self.media(OBJECT_MEDIA),
        }
    }
}

fn article(kind: &str) -> &'static str {
    if kind.starts_with(['A', 'E', 'I', 'O', 'U']) {
        "an"
    } else {
        "a"
    }
}
