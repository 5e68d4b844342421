//! Request attributes, derived only from the method and path, without knowledge of resources.
//!
//! Authorization uses these attributes, so they are the same for every path as in kube-apiserver
//! (<https://kubernetes.io/docs/reference/access-authn-authz/authorization/#determine-the-request-verb>).

use holdfast_authorization::{AccessTarget, Attributes, ResourceTarget};
use holdfast_resource::FieldSelector;
use holdfast_schema::metadata::formats::path_segment;
use http::Method;
use smol_str::{SmolStr, StrExt as _};

use crate::http::options::{self, ListOptions};
use crate::http::query::{self, Query};

/// Attributes of a request.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RequestInfo {
    /// The path, decoded.
    pub path: String,
    /// Verb: for resources a verb of the API (`get`, `list`, `watch`, `create`, `update`, `patch`, `delete`,
    /// `deletecollection`, `proxy`), for all else the method in lower case.
    pub verb: SmolStr,
    /// The resource; `None` for all other paths.
    pub resource: Option<ResourcePath>,
    /// Query parameters.
    pub query: Query,
    /// Name that the field selector of a list or watch requires; authorization uses it as the name of a get.
    pub selected_name: SmolStr,
    /// Field selector of a list, watch or deletecollection, for authorization. It is empty if it cannot be parsed.
    pub field_selector: FieldSelector,
}

/// The parts of the path of a resource.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ResourcePath {
    /// The group; empty for the core group.
    pub group: SmolStr,
    /// The version.
    pub version: SmolStr,
    /// Namespace; empty for none. The path of a namespace object has its name both here and in `name`.
    pub namespace: SmolStr,
    /// The plural name of the resource.
    pub resource: SmolStr,
    /// The name of the object; empty for collections.
    pub name: SmolStr,
    /// Subresource, after the name; empty for the object itself.
    pub subresource: SmolStr,
    /// Rest of the path after the subresource, as for `proxy`; empty for most.
    pub rest: String,
    /// Legacy verb that precedes the resource in the path, if there is one.
    pub path_verb: Option<PathVerb>,
    /// True if the path names a namespace itself, so that `namespace` is its name rather than its scope.
    pub of_namespace: bool,
    /// True if the path contains a namespace segment, though its name may be empty.
    pub in_namespace: bool,
}

/// Legacy verbs that precede the resource in a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PathVerb {
    /// `proxy`, which is no longer supported.
    Proxy,
    /// `watch`, the legacy form of a watch.
    Watch,
}

impl PathVerb {
    fn named(segment: &str) -> Option<Self> {
        match segment {
            "proxy" => Some(Self::Proxy),
            "watch" => Some(Self::Watch),
            _ => None,
        }
    }

    /// Returns the verb in the words of access rules.
    fn name(self) -> &'static str {
        match self {
            Self::Proxy => "proxy",
            Self::Watch => "watch",
        }
    }
}

/// Reason why a request is answered before it reaches any handler.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RequestInfoError {
    /// The path is too long, or its escapes are invalid.
    #[error("400 Bad Request")]
    Unreadable,
    /// A legacy path names no resource.
    #[error("unable to determine kind and namespace from url")]
    NoResource,
}

/// Maximum length of a path, in bytes.
const MAX_PATH: usize = 8 * 1024;

/// Segments after the name of a namespace that are subresources of it and not resources within it.
const NAMESPACE_SUBRESOURCES: [&str; 2] = ["status", "finalize"];

impl RequestInfo {
    /// True if this is a list or watch that requests only the objects that its user may read.
    pub(crate) fn may_be_restricted(&self) -> bool {
        let of_collection = |path: &ResourcePath| {
            path.name.is_empty() && path.subresource.is_empty() && path.path_verb != Some(PathVerb::Proxy)
        };
        matches!(self.verb.as_str(), "list" | "watch")
            && self.resource.as_ref().is_some_and(of_collection)
            && options::authorized_only(&self.query)
    }

    /// Parses the method and the path with its query.
    ///
    /// # Errors
    /// If the path is invalid, or a legacy path names no resource.
    pub fn parse(method: &Method, uri: &http::Uri) -> Result<Self, RequestInfoError> {
        if uri.path().len() > MAX_PATH {
            return Err(RequestInfoError::Unreadable);
        }
        let path = query::decode_lossy(uri.path()).ok_or(RequestInfoError::Unreadable)?;
        let mut info = Self {
            path: path.into_owned(),
            verb: method.as_str().to_ascii_lowercase_smolstr(),
            resource: None,
            query: Query::parse(uri.query().unwrap_or_default()),
            selected_name: SmolStr::default(),
            field_selector: FieldSelector::default(),
        };
        info.read_resource(method)?;
        Ok(info)
    }

    /// Makes a read of `/api/VERSION/namespaces/NAME/SUBRESOURCE` one of a subresource of the namespace. kube-apiserver has
    /// neither the subresource nor a resource of this name, for which the path would otherwise be.
    pub(crate) fn read_namespace_subresource(&mut self, subresource: &'static str) {
        let Some(target) = &mut self.resource else { return };
        let is_read = matches!(self.verb.as_str(), "list" | "watch") && target.path_verb.is_none();
        let fits = target.resource == subresource && target.group.is_empty() && target.in_namespace;
        if !is_read || !fits || target.namespace.is_empty() {
            return;
        }
        target.resource = SmolStr::new_static("namespaces");
        target.name = target.namespace.clone();
        target.subresource = SmolStr::new_static(subresource);
        (target.in_namespace, target.of_namespace) = (false, true);
        self.verb = SmolStr::new_static("get");
        (self.selected_name, self.field_selector) = (SmolStr::default(), FieldSelector::default());
    }

    /// Returns true if the request is for a resource.
    pub fn is_resource(&self) -> bool {
        self.resource.is_some()
    }

    /// Returns the attributes for authorization.
    pub fn attributes(&self) -> Attributes<'_> {
        let target = match &self.resource {
            None => AccessTarget::Path(&self.path),
            Some(target) => AccessTarget::Resource(ResourceTarget {
                group: &target.group,
                version: &target.version,
                resource: &target.resource,
                subresource: &target.subresource,
                namespace: &target.namespace,
                name: if target.name.is_empty() {
                    &self.selected_name
                } else {
                    &target.name
                },
                field_selector: self.field_selector.requirements(),
                label_selector: match &*self.verb {
                    "list" | "watch" | "deletecollection" => self.query.get("labelSelector").unwrap_or_default(),
                    _ => "",
                },
            }),
        };
        Attributes {
            verb: &self.verb,
            target,
        }
    }

    #[expect(clippy::indexing_slicing, reason = "the match leaves no empty rest")]
    fn read_resource(&mut self, method: &Method) -> Result<(), RequestInfoError> {
        let parts = segments(&self.path);
        let (group, version, mut parts) = match parts.as_slice() {
            ["api", version, rest @ ..] if !rest.is_empty() => ("", *version, rest),
            ["apis", group, version, rest @ ..] if !rest.is_empty() => (*group, *version, rest),
            _ => return Ok(()),
        };
        let mut verb = method_verb(method);
        let path_verb = PathVerb::named(parts[0]);
        if let Some(path_verb) = path_verb {
            if parts.len() < 2 {
                return Err(RequestInfoError::NoResource);
            }
            verb = path_verb.name();
            parts = &parts[1..];
        }
        let mut target = ResourcePath {
            group: group.into(),
            version: version.into(),
            path_verb,
            ..ResourcePath::default()
        };
        if let ["namespaces", namespace, rest @ ..] = parts {
            target.namespace = SmolStr::new(namespace);
            if rest.first().is_some_and(|next| !NAMESPACE_SUBRESOURCES.contains(next)) {
                parts = rest;
                target.in_namespace = true;
            } else {
                target.of_namespace = true;
            }
        }
        let part = |at: usize| SmolStr::new(parts.get(at).copied().unwrap_or_default());
        (target.resource, target.name, target.subresource) = (part(0), part(1), part(2));
        target.rest = parts.get(3..).unwrap_or_default().join("/");
        if path_verb == Some(PathVerb::Proxy) {
            // The path after the name was for the server behind the proxy.
            target.subresource = SmolStr::default();
        }
        if target.name.is_empty() {
            verb = match verb {
                "get" if wants_watch(&self.query) => "watch",
                "get" => "list",
                "delete" => "deletecollection",
                other => other,
            };
        }
        if matches!(verb, "list" | "watch" | "deletecollection") {
            self.field_selector = field_selector(&self.query);
        }
        if target.name.is_empty() && matches!(verb, "list" | "watch") {
            self.selected_name = selected_name(&self.query, &self.field_selector);
        }
        self.verb = SmolStr::new(verb);
        self.resource = Some(target);
        Ok(())
    }
}

/// Returns the segments of a path, without the surrounding slashes.
fn segments(path: &str) -> Vec<&str> {
    let (mut segments, mut start) = (Vec::with_capacity(10), 0);
    let path = path.trim_start_matches('/').trim_end_matches('/');
    for (at, byte) in path.bytes().enumerate() {
        if byte == b'/' {
            segments.push(path.get(start..at).unwrap_or_default());
            start = at + 1;
        }
    }
    segments.push(path.get(start..).unwrap_or_default());
    segments
}

fn method_verb(method: &Method) -> &'static str {
    match method.as_str() {
        "POST" => "create",
        "GET" | "HEAD" => "get",
        "PUT" => "update",
        "PATCH" => "patch",
        "DELETE" => "delete",
        _ => "",
    }
}

/// Returns the field selector of the query; empty if it cannot be parsed.
///
/// upstream: k8s.io/apiserver/pkg/endpoints/filters#GetAuthorizerAttributes
fn field_selector(query: &Query) -> FieldSelector {
    let text = query.get("fieldSelector").filter(|text| !text.is_empty());
    text.and_then(|text| FieldSelector::parse(text).ok())
        .unwrap_or_default()
}

/// Returns the name that a field selector requires, if it requires one that is a valid path segment.
fn selected_name(query: &Query, selector: &FieldSelector) -> SmolStr {
    let name = selector.name().unwrap_or_default();
    // If one option cannot be parsed, all of them are ignored.
    if path_segment(name).is_empty() && !name.is_empty() && ListOptions::are_readable(query) {
        SmolStr::new(name)
    } else {
        SmolStr::default()
    }
}

fn wants_watch(query: &Query) -> bool {
    query.get("watch").is_some_and(crate::http::options::reads_as_true)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(method: &str, uri: &str) -> RequestInfo {
        let method = Method::from_bytes(method.as_bytes()).unwrap();
        RequestInfo::parse(&method, &uri.parse().unwrap()).unwrap()
    }

    /// Formats the verb and group/version/namespace/resource/name/subresource.
    fn show(method: &str, uri: &str) -> String {
        let info = parse(method, uri);
        let Some(target) = info.resource else {
            return format!("{} {}", info.verb, info.path);
        };
        format!(
            "{} {}/{} ns={} {} {} {}",
            info.verb, target.group, target.version, target.namespace, target.resource, target.name, target.subresource
        )
        .trim_end()
        .to_owned()
    }

    #[test]
    fn resources_are_distinguished_from_other_paths() {
        let cases = [
            ("GET", "/", "get /"),
            ("GET", "/api/v1", "get /api/v1"),
            ("GET", "/apis/apps/v1", "get /apis/apps/v1"),
            ("POST", "/healthz", "post /healthz"),
            ("GET", "/openapi/v3/apis/apps/v1", "get /openapi/v3/apis/apps/v1"),
            ("GET", "/api/v1/pods", "list /v1 ns= pods"),
            ("GET", "/api/v1/pods?watch=1", "watch /v1 ns= pods"),
            ("GET", "/api/v1/pods?watch=false", "list /v1 ns= pods"),
            ("DELETE", "/api/v1/namespaces/a/pods", "deletecollection /v1 ns=a pods"),
            ("GET", "/api/v1/namespaces/a/pods/b", "get /v1 ns=a pods b"),
            ("HEAD", "/api/v1/namespaces/a/pods/b", "get /v1 ns=a pods b"),
            (
                "PATCH",
                "/apis/apps/v1/namespaces/a/deployments/b/scale",
                "patch apps/v1 ns=a deployments b scale",
            ),
            ("GET", "/api/v1/namespaces", "list /v1 ns= namespaces"),
            ("GET", "/api/v1/namespaces/a", "get /v1 ns=a namespaces a"),
            (
                "PUT",
                "/api/v1/namespaces/a/finalize",
                "update /v1 ns=a namespaces a finalize",
            ),
            ("GET", "/api/v1/watch/namespaces/a/pods/b", "watch /v1 ns=a pods b"),
            (
                "PUT",
                "/api/v1/watch/namespaces/a/pods/b/status",
                "watch /v1 ns=a pods b status",
            ),
            ("PUT", "/api/v1/proxy/namespaces/a/pods/b/c/d", "proxy /v1 ns=a pods b"),
            ("GET", "/api/v1//namespaces", "get /v1 ns=  namespaces"),
            ("GET", "/api/v1/namespaces/a//pods/b", "get /v1 ns=a  pods b"),
            ("BREW", "/api/v1/pods", " /v1 ns= pods"),
        ];
        for (method, uri, expected) in cases {
            assert_eq!(show(method, uri), expected, "{method} {uri}");
        }
    }

    #[test]
    fn subresource_of_namespace_is_read_by_name() {
        for (uri, expected) in [
            ("/api/v1/namespaces/a/history?watch=1", "namespaces a history get"),
            ("/api/v1/namespaces/a/history/b", "history b  get"),
            ("/api/v1/namespaces//history", "history   list"),
            ("/api/v1/watch/namespaces/a/history", "history   watch"),
            ("/apis/apps/v1/namespaces/a/history", "history   list"),
            ("/api/v1/namespaces/a/pods", "pods   list"),
        ] {
            let mut info = parse("GET", uri);
            info.read_namespace_subresource("history");
            let target = info.resource.unwrap();
            let text = format!(
                "{} {} {} {}",
                target.resource, target.name, target.subresource, info.verb
            );
            assert_eq!(text, expected, "{uri}");
        }
        let mut created = parse("POST", "/api/v1/namespaces/a/history");
        created.read_namespace_subresource("history");
        assert_eq!(created.resource.unwrap().resource, "history");
    }

    #[test]
    fn escapes_are_decoded_before_the_path_is_cut() {
        let target = parse("GET", "/api/v1/namespaces/n/configmaps/a%2Fb").resource.unwrap();
        assert_eq!((target.name.as_str(), target.subresource.as_str()), ("a", "b"));
        let target = parse("GET", "/api/v1/namespaces/n/config%6Daps/%61.b")
            .resource
            .unwrap();
        assert_eq!((target.resource.as_str(), target.name.as_str()), ("configmaps", "a.b"));
    }

    #[test]
    fn a_list_of_one_name_is_judged_by_it() {
        let name = |uri: &str| match parse("GET", uri).attributes().target {
            AccessTarget::Resource(target) => target.name.to_owned(),
            AccessTarget::Path(path) => path.to_owned(),
        };
        assert_eq!(
            name("/api/v1/pods?fieldSelector=metadata.name%3Da,spec.nodeName%3Db"),
            "a"
        );
        assert_eq!(name("/api/v1/pods?watch=1&fieldSelector=metadata.name%3D%3Da"), "a");
        for selector in [
            "metadata.name!%3Da",
            "metadata.namespace%3Da",
            "metadata.name%3Da/b",
            "%3D%3D",
        ] {
            assert_eq!(
                name(&format!("/api/v1/pods?fieldSelector={selector}")),
                "",
                "{selector}"
            );
        }
        assert_eq!(name("/api/v1/namespaces/n/pods/b?fieldSelector=metadata.name%3Da"), "b");
        for unreadable in ["labelSelector=((", "limit=x", "timeoutSeconds=x"] {
            let uri = format!("/api/v1/pods?fieldSelector=metadata.name%3Da&{unreadable}");
            assert_eq!(name(&uri), "", "{unreadable}");
        }
    }

    #[test]
    fn selector_of_a_collection_reaches_the_authorizer() {
        let selected = |method: &str, uri: &str| {
            let info = parse(method, uri);
            let AccessTarget::Resource(target) = info.attributes().target else {
                panic!("{uri} is no resource")
            };
            let shown = target.field_selector.iter().map(|one| {
                let sign = if one.is_equal { "=" } else { "!=" };
                format!("{}{sign}{}", one.field, one.value)
            });
            shown.collect::<Vec<_>>().join(",")
        };
        let selector = "fieldSelector=spec.nodeName%3D%3Dn1,status.phase!%3DFailed";
        for (method, path) in [
            ("GET", "pods?"),
            ("GET", "pods?watch=1&"),
            ("DELETE", "pods?"),
            ("GET", "watch/namespaces/n/pods/p?"),
        ] {
            let uri = format!("/api/v1/{path}{selector}");
            assert_eq!(selected(method, &uri), "spec.nodeName=n1,status.phase!=Failed", "{uri}");
        }
        for (method, uri) in [
            ("GET", format!("/api/v1/namespaces/n/pods/p?{selector}")),
            ("POST", format!("/api/v1/namespaces/n/pods?{selector}")),
            ("GET", "/api/v1/pods?fieldSelector=x".to_owned()),
        ] {
            assert_eq!(selected(method, &uri), "", "{method} {uri}");
        }
    }

    #[test]
    fn a_path_may_lead_through_a_namespace_without_a_name() {
        let resource = |uri: &str| parse("GET", uri).resource.unwrap();
        let target = resource("/api/v1/namespaces//pods");
        assert_eq!((target.in_namespace, target.namespace.as_str()), (true, ""));
        assert_eq!(target.resource, "pods");
        assert!(!resource("/api/v1/pods").in_namespace && resource("/api/v1/namespaces/a").of_namespace);
    }

    #[test]
    fn paths_that_cannot_be_read_are_errors() {
        let error = |uri: &str| RequestInfo::parse(&Method::GET, &uri.parse().unwrap()).unwrap_err();
        for uri in ["/api/v1/watch", "/api/v1/watch/", "/apis/apps/v1/proxy"] {
            assert_eq!(error(uri), RequestInfoError::NoResource, "{uri}");
        }
        for uri in [
            "/api/v1/pods/%zz",
            "/api/v1/pods/%",
            &format!("/{}", "a".repeat(MAX_PATH)),
        ] {
            assert_eq!(error(uri), RequestInfoError::Unreadable, "{uri}");
        }
        let odd = parse("GET", "/api/v1/namespaces/a/pods/%ff").resource.unwrap();
        assert_eq!(odd.name, "\u{fffd}");
    }
}
