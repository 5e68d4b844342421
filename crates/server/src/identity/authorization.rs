//! Authorization of a request.

use std::sync::Arc;

use holdfast_audit::Recorder;
use holdfast_authorization::{Attributes, Authorization, Authorizer, User, Verdict};
use holdfast_resource::AuditAnnotations as _;
use http::Method;

use crate::http::ApiError;
use crate::http::request_info::RequestInfo;

/// Begins the authorization of a request.
pub(crate) fn start(authorizer: &dyn Authorizer, user: &User, request: &RequestInfo, method: &Method) -> Verdict {
    let verb = path_verb(request, method);
    authorizer.start(user, &attributes(request, verb.as_deref()))
}

/// Returns the verb of a request that is not for a resource: its method.
fn path_verb(request: &RequestInfo, method: &Method) -> Option<String> {
    (!request.is_resource()).then(|| method.as_str().to_ascii_lowercase())
}

fn attributes<'r>(request: &'r RequestInfo, path_verb: Option<&'r str>) -> Attributes<'r> {
    let attributes = request.attributes();
    Attributes {
        verb: path_verb.unwrap_or(attributes.verb),
        ..attributes
    }
}

/// Reason why a request is rejected.
#[derive(Debug)]
pub(crate) enum Rejection {
    /// It is not allowed.
    Forbidden(ApiError),
    /// It is not allowed, and an authorizer that might allow it failed.
    Failed(Arc<str>),
}

/// Rejects a request that `answer` does not allow, in the words of the reference. Reports the decision to the audit log.
///
/// # Errors
/// If the request is not allowed.
///
/// upstream: k8s.io/apiserver/pkg/endpoints/filters#withAuthorization
pub(crate) fn conclude(
    answer: &Authorization,
    user: &User,
    request: &RequestInfo,
    method: &Method,
    audit: Option<&Recorder>,
) -> Result<(), Rejection> {
    let annotate = |decision: Option<&str>, reason: &str| {
        let Some(audit) = audit else { return };
        if let Some(decision) = decision {
            audit.annotate("authorization.k8s.io/decision", decision.to_owned());
        }
        audit.annotate("authorization.k8s.io/reason", reason.to_owned());
    };
    if answer.allows() {
        annotate(Some("allow"), answer.reason());
        return Ok(());
    }
    if let Some(error) = &answer.error {
        annotate(None, "internal error");
        return Err(Rejection::Failed(Arc::clone(error)));
    }
    annotate(Some("forbid"), answer.reason());
    let verb = path_verb(request, method);
    let attributes = attributes(request, verb.as_deref());
    let error = ApiError::unauthorized_for(&user.name, &attributes, answer.reason());
    Err(Rejection::Forbidden(error))
}

/// Rejects `attributes` that `authorizer` does not allow.
///
/// # Errors
/// If they are not allowed (403).
pub(crate) fn authorize(authorizer: &dyn Authorizer, user: &User, attributes: &Attributes<'_>) -> Result<(), ApiError> {
    let decision = authorizer.authorize(user, attributes);
    if decision.allows() {
        return Ok(());
    }
    Err(ApiError::unauthorized_for(&user.name, attributes, decision.reason()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use holdfast_authorization::AUTHENTICATED;

    fn user(name: &str, groups: &[&str]) -> User {
        User {
            name: name.into(),
            groups: groups.iter().map(|group| (*group).into()).collect(),
            ..User::default()
        }
    }

    fn ask(authorizer: &dyn Authorizer, user: &User, method: &str, uri: &str) -> Result<(), String> {
        let method = Method::from_bytes(method.as_bytes()).unwrap();
        let request = RequestInfo::parse(&method, &uri.parse().unwrap()).unwrap();
        let Verdict::Decided(answer) = start(authorizer, user, &request, &method) else {
            unreachable!("local authorizers decide at once")
        };
        conclude(&answer, user, &request, &method, None).map_err(|rejection| match rejection {
            Rejection::Forbidden(error) => error.to_string(),
            Rejection::Failed(why) => why.to_string(),
        })
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
                "/api/v1/nodes?fieldSelector=metadata.name%3Da",
                "nodes \"a\" is forbidden: User \"alice\" cannot list resource \"nodes\" in API group \"\" at the cluster scope",
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
            assert_eq!(
                ask(&holdfast_authorization::Masters, &alice, method, uri).unwrap_err(),
                message
            );
        }
    }
}
