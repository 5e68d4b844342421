//! What a request is about, read from its method and path alone, before anything is known of resources.
//!
//! This is what access rules judge, so it says the same of every path as kube-apiserver does
//! (<https://kubernetes.io/docs/reference/access-authn-authz/authorization/#determine-the-request-verb>).

use holdfast_authorization::{AccessTarget, Attributes, ResourceTarget};
use holdfast_resource::metadata::formats::path_segment;
use holdfast_resource::selector::FieldSelector;
use http::Method;
use smol_str::SmolStr;

use crate::ApiError;
use crate::query::{self, Query};

/// What a request is about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RequestInfo {
    /// The path, decoded.
    pub path: String,
    /// What is to be done: for resources a verb of the API (`get`, `list`, `watch`, `create`, `update`, `patch`, `delete`,
    /// `deletecollection`, `proxy`), for all else the method in small letters.
    pub verb: SmolStr,
    /// The resource; `None` for all other paths.
    pub resource: Option<ResourcePath>,
    /// The parameters behind the path.
    pub query: Query,
    /// The one name that the field selector of a list or watch asks for; access rules judge by it as by that of a get.
    pub selected_name: SmolStr,
}

/// The parts of the path of a resource.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ResourcePath {
    /// The group; empty for the core group.
    pub group: SmolStr,
    /// The version.
    pub version: SmolStr,
    /// The namespace, or nothing. The path of a namespace object has its name both here and in `name`.
    pub namespace: SmolStr,
    /// The plural name of the resource.
    pub resource: SmolStr,
    /// The name of the object; empty for collections.
    pub name: SmolStr,
    /// What comes behind the name; empty for the object itself.
    pub subresource: SmolStr,
    /// What comes behind the subresource, as for `proxy`; empty for most.
    pub rest: String,
    /// Whether the path begins with `watch/`, the old form of a watch.
    pub legacy_watch: bool,
    /// Whether the path is that of a namespace itself, so that `namespace` is its name rather than where it lives.
    pub of_namespace: bool,
}

/// The longest path that is read.
const MAX_PATH: usize = 8 * 1024;

/// Verbs that old paths carry in front of the resource.
const PATH_VERBS: [&str; 2] = ["proxy", "watch"];

/// What may stand behind the name of a namespace and is no resource within it.
const NAMESPACE_SUBRESOURCES: [&str; 2] = ["status", "finalize"];

impl RequestInfo {
    /// Reads the method and the path with its query.
    ///
    /// # Errors
    /// 400 where the path is too long or its escapes are broken, 500 where an old path names no resource.
    pub fn parse(method: &Method, uri: &http::Uri) -> Result<Self, ApiError> {
        if uri.path().len() > MAX_PATH {
            return Err(ApiError::bad_request(format!(
                "the path is longer than {MAX_PATH} bytes"
            )));
        }
        let path = query::decode(uri.path()).map_err(|_| ApiError::bad_request("the path has an invalid escape"))?;
        let mut info = Self {
            path: path.into_owned(),
            verb: SmolStr::from(method.as_str().to_ascii_lowercase()),
            resource: None,
            query: Query::parse(uri.query().unwrap_or_default()),
            selected_name: SmolStr::default(),
        };
        info.read_resource(method)?;
        Ok(info)
    }

    /// Whether this is about a resource.
    pub fn is_resource(&self) -> bool {
        self.resource.is_some()
    }

    /// What access rules judge.
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
            }),
        };
        Attributes {
            verb: &self.verb,
            target,
        }
    }

    fn read_resource(&mut self, method: &Method) -> Result<(), ApiError> {
        let parts: Vec<&str> = self.path.trim_matches('/').split('/').collect();
        let (group, version, mut parts) = match parts.as_slice() {
            ["api", version, rest @ ..] if !rest.is_empty() => ("", *version, rest),
            ["apis", group, version, rest @ ..] if !rest.is_empty() => (*group, *version, rest),
            _ => return Ok(()),
        };
        let mut verb = method_verb(method);
        if PATH_VERBS.contains(&parts[0]) {
            if parts.len() < 2 {
                let message = format!("unable to determine kind and namespace from url, {}", self.path);
                return Err(ApiError::unclassified(message));
            }
            verb = parts[0];
            parts = &parts[1..];
        }
        let mut target = ResourcePath {
            group: group.into(),
            version: version.into(),
            legacy_watch: verb == "watch",
            ..ResourcePath::default()
        };
        if let ["namespaces", namespace, rest @ ..] = parts {
            target.namespace = SmolStr::new(namespace);
            if rest.first().is_some_and(|next| !NAMESPACE_SUBRESOURCES.contains(next)) {
                parts = rest;
            } else {
                target.of_namespace = true;
            }
        }
        let part = |at: usize| SmolStr::new(parts.get(at).copied().unwrap_or_default());
        (target.resource, target.name, target.subresource) = (part(0), part(1), part(2));
        target.rest = parts.get(3..).unwrap_or_default().join("/");
        if target.legacy_watch {
            // These paths lead to the same places, but all that comes behind the name is no subresource.
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
        if target.name.is_empty() && matches!(verb, "list" | "watch") {
            self.selected_name = selected_name(&self.query);
        }
        self.verb = SmolStr::new(verb);
        self.resource = Some(target);
        Ok(())
    }
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

/// The name that a field selector asks for, if it asks for one that can stand in a path.
fn selected_name(query: &Query) -> SmolStr {
    let Some(text) = query.get("fieldSelector").filter(|text| !text.is_empty()) else {
        return SmolStr::default();
    };
    let selector = FieldSelector::parse(text).ok();
    let name = selector.as_ref().and_then(FieldSelector::name).unwrap_or_default();
    if path_segment(name).is_empty() {
        SmolStr::new(name)
    } else {
        SmolStr::default()
    }
}

fn wants_watch(query: &Query) -> bool {
    query.get("watch").is_some_and(crate::options::reads_as_true)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(method: &str, uri: &str) -> RequestInfo {
        let method = Method::from_bytes(method.as_bytes()).unwrap();
        RequestInfo::parse(&method, &uri.parse().unwrap()).unwrap()
    }

    /// The verb and group/version/namespace/resource/name/subresource.
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
    fn resources_are_told_from_other_paths() {
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
            ("BREW", "/api/v1/pods", " /v1 ns= pods"),
        ];
        for (method, uri, expected) in cases {
            assert_eq!(show(method, uri), expected, "{method} {uri}");
        }
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
    }

    #[test]
    fn an_old_path_without_a_resource_is_an_error() {
        let error = RequestInfo::parse(&Method::GET, &"/api/v1/watch".parse().unwrap());
        assert!(error.is_err());
    }
}
