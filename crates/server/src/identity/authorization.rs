//! Authorization of a request.

use holdfast_audit::Recorder;
use holdfast_authorization::{Attributes, Authorizer, Decision, User};
use holdfast_resource::AuditAnnotations as _;
use http::Method;

use crate::http::ApiError;
use crate::http::request_info::RequestInfo;

/// Rejects a request that `authorizer` does not allow, in the words of the reference. Reports the decision to the audit
/// log and to `count`.
///
/// # Errors
/// If the request is not allowed (403).
pub fn check(
    authorizer: &dyn Authorizer,
    user: &User,
    request: &RequestInfo,
    method: &Method,
    audit: Option<&Recorder>,
    count: impl FnOnce(Decision),
) -> Result<(), ApiError> {
    let attributes = request.attributes();
    let verb = (!request.is_resource()).then(|| method.as_str().to_ascii_lowercase());
    let attributes = Attributes {
        verb: verb.as_deref().unwrap_or(attributes.verb),
        ..attributes
    };
    let decision = authorizer.authorize(user, &attributes);
    count(decision.decision);
    if let Some(audit) = audit {
        let verdict = if decision.allows() { "allow" } else { "forbid" };
        audit.annotate("authorization.k8s.io/decision", verdict.to_owned());
        audit.annotate("authorization.k8s.io/reason", decision.reason().to_owned());
    }
    if decision.allows() {
        return Ok(());
    }
    Err(ApiError::unauthorized_for(&user.name, &attributes, decision.reason()))
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
        check(authorizer, user, &request, &method, None, |_| {}).map_err(|error| error.to_string())
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
