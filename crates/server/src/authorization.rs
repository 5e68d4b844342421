//! May they: whether a user may do what a request asks.

use http::Method;

use crate::ApiError;
use crate::request_info::RequestInfo;
use crate::user::{AUTHENTICATED, MASTERS, User};
use holdfast_resource::GroupResource;

/// Decides whether requests may be made.
pub trait Authorizer: Send + Sync {
    /// Whether `user` may make the request.
    fn allows(&self, user: &User, request: &RequestInfo) -> bool;
}

/// The rules that hold without any that a cluster adds: members of `system:masters` may do everything, everybody may ask
/// for the server's health and version, and whoever was authenticated may read what is served.
#[derive(Clone, Copy, Debug, Default)]
pub struct BuiltInRules;

/// Paths that anybody may read.
const PUBLIC_PATHS: [&str; 5] = ["/healthz", "/livez", "/readyz", "/version", "/version/"];

/// Paths that whoever was authenticated may read: those that say what is served.
const DISCOVERY_PATHS: [&str; 3] = ["/api", "/apis", "/openapi"];

impl Authorizer for BuiltInRules {
    fn allows(&self, user: &User, request: &RequestInfo) -> bool {
        if user.is_in(MASTERS) {
            return true;
        }
        if request.is_resource() || request.verb != "get" {
            return false;
        }
        let below = |root: &&str| {
            let rest = request.path.strip_prefix(*root);
            rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
        };
        PUBLIC_PATHS.contains(&request.path.as_str())
            || (user.is_in(AUTHENTICATED) && DISCOVERY_PATHS.iter().any(below))
    }
}

/// Refuses a request that `authorizer` does not allow, in the words of the reference.
///
/// # Errors
/// 403.
pub fn check(authorizer: &dyn Authorizer, user: &User, request: &RequestInfo, method: &Method) -> Result<(), ApiError> {
    if authorizer.allows(user, request) {
        return Ok(());
    }
    Err(refused_as(user, &request.verb, request, method))
}

/// The refusal of a request, of which the message says that `user` cannot do `verb`.
pub(crate) fn refused_as(user: &User, verb: &str, request: &RequestInfo, method: &Method) -> ApiError {
    let Some(target) = &request.resource else {
        return ApiError::forbidden_path(&user.name, method, &request.path);
    };
    let resource = GroupResource {
        group: target.group.clone(),
        resource: target.resource.clone(),
    };
    let below = if target.subresource.is_empty() { "" } else { "/" };
    let place = if target.namespace.is_empty() {
        "at the cluster scope".to_owned()
    } else {
        format!("in the namespace \"{}\"", target.namespace)
    };
    let why = format!(
        "User \"{}\" cannot {verb} resource \"{}{below}{}\" in API group \"{}\" {place}",
        user.name, target.resource, target.subresource, target.group
    );
    ApiError::forbidden(&resource, &target.name, why)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn user(name: &str, groups: &[&str]) -> User {
        User {
            name: name.into(),
            groups: groups.iter().map(|group| (*group).into()).collect(),
            ..User::default()
        }
    }

    fn ask(user: &User, method: &str, uri: &str) -> Result<(), String> {
        let method = Method::from_bytes(method.as_bytes()).unwrap();
        let request = RequestInfo::parse(&method, &uri.parse().unwrap()).unwrap();
        check(&BuiltInRules, user, &request, &method).map_err(|error| error.to_string())
    }

    #[test]
    fn masters_may_do_everything() {
        let admin = user("admin", &[MASTERS]);
        assert!(ask(&admin, "DELETE", "/api/v1/namespaces/a/pods").is_ok());
        assert!(ask(&admin, "GET", "/metrics").is_ok());
    }

    #[test]
    fn others_are_refused_in_the_words_of_the_reference() {
        let alice = user("alice", &["devs", AUTHENTICATED]);
        let cases = [
            (
                "GET",
                "/api/v1/namespaces/default/pods",
                "pods is forbidden: User \"alice\" cannot list resource \"pods\" in API group \"\" in the namespace \"default\"",
            ),
            (
                "GET",
                "/api/v1/nodes/a",
                "nodes \"a\" is forbidden: User \"alice\" cannot get resource \"nodes\" in API group \"\" at the cluster scope",
            ),
            (
                "PATCH",
                "/apis/apps/v1/namespaces/n/deployments/web/scale",
                "deployments.apps \"web\" is forbidden: User \"alice\" cannot patch resource \"deployments/scale\" in API group \"apps\" in the namespace \"n\"",
            ),
            (
                "GET",
                "/livez/ping",
                "forbidden: User \"alice\" cannot get path \"/livez/ping\"",
            ),
            (
                "POST",
                "/livez",
                "forbidden: User \"alice\" cannot post path \"/livez\"",
            ),
        ];
        for (method, uri, message) in cases {
            assert_eq!(ask(&alice, method, uri).unwrap_err(), message);
        }
    }

    #[test]
    fn discovery_is_for_the_authenticated_and_health_for_all() {
        let alice = user("alice", &[AUTHENTICATED]);
        let nobody = user("system:anonymous", &["system:unauthenticated"]);
        for path in ["/api", "/apis/apps/v1", "/openapi/v3"] {
            assert!(ask(&alice, "GET", path).is_ok(), "{path}");
            assert!(ask(&nobody, "GET", path).is_err(), "{path}");
        }
        assert!(ask(&alice, "GET", "/apiserver").is_err());
        for path in ["/livez", "/readyz", "/healthz", "/version"] {
            assert!(ask(&nobody, "GET", path).is_ok(), "{path}");
        }
    }
}
