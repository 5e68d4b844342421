//! Token requests of service accounts
//! (<https://kubernetes.io/docs/reference/kubernetes-api/authentication-resources/token-request-v1/>).

use holdfast_kind_tables::features::{Feature, Features};
use holdfast_resource::access::{BoundObject, ServiceAccountToken};
use holdfast_resource::{Rejection, Review, TokenDraft, WriteContext};
use holdfast_schema::metadata::formats::check_key;
use holdfast_schema::{Field, FieldError, FieldPath, GroupKind, GroupResource};
use holdfast_value::{SmolStr, Value};

use super::of_core;
use crate::defaults::is_zero;
use crate::time::time_text;

/// Action that issues tokens for a service account.
pub(super) struct TokenRequest {
    pub(super) features: Features,
}

const SHORTEST: i64 = 600;
const LONGEST: i64 = 1 << 32;
const TOO_SHORT: &str = "may not specify a duration less than 10 minutes";
const TOO_LONG: &str = "may not specify a duration larger than 2^32 seconds";
/// Lifetime that kubelets request. The server extends it and logs clients that do not reload their token.
const WARNED_AFTER: i64 = 60 * 60 + 7;

impl Review for TokenRequest {
    /// upstream: pkg/registry/core/serviceaccount/storage#TokenREST.Create
    fn prepare(&self, context: &WriteContext<'_>, request: &mut Value) -> Result<(), Rejection> {
        check_metadata(context, request)?;
        let account = get(context, "serviceaccounts", context.name)?;
        self.check_uid(context, request, &account)?;
        let issuer = context.access.issuer;
        if is_zero(request.at(&["spec", "audiences"])) {
            let own: Vec<Value> = issuer.audiences().iter().cloned().map(Value::String).collect();
            request.set_at(&["spec", "audiences"], own.into());
        }
        for field in ["name", "namespace", "uid"] {
            if let Some(value) = account.at(&["metadata", field])
                && is_zero(request.at(&["metadata", field]))
            {
                request.set_at(&["metadata", field], value.clone());
            }
        }
        request.set_at(&["metadata", "creationTimestamp"], time_text(context.now()));
        let mut status = Value::empty_map();
        status.set_at(&["token"], "".into());
        status.set_at(&["expirationTimestamp"], Value::Null);
        request.set_at(&["status"], status);
        lifetime(request).map(drop)
    }

    /// upstream: pkg/registry/core/serviceaccount/storage#TokenREST.Create
    fn review(&self, context: &WriteContext<'_>, request: Value) -> Result<Value, Rejection> {
        Ok(self.respond_with_token(context, draft(context, request)?))
    }

    fn draft_token(&self, context: &WriteContext<'_>, request: &Value) -> Result<Option<TokenDraft>, Rejection> {
        draft(context, request.clone()).map(Some)
    }

    fn respond_with_token(&self, context: &WriteContext<'_>, draft: TokenDraft) -> Value {
        let TokenDraft { token, mut response } = draft;
        context.annotate(ISSUED, || token.credential);
        response.set_at(&["status", "token"], token.token.into());
        response
    }
}

/// Returns the response to a request, and the token that belongs into it.
///
/// upstream: pkg/registry/core/serviceaccount/storage#TokenREST.Create
fn draft(context: &WriteContext<'_>, mut request: Value) -> Result<TokenDraft, Rejection> {
    let issuer = context.access.issuer;
    let account = get(context, "serviceaccounts", context.name)?;
    let mut seconds = lifetime(&request)?;
    let bound = Bound::read(context, &request)?;
    if let Some(longest) = issuer.longest().filter(|longest| *longest < seconds) {
        context.warn(format!(
            "requested expiration of {seconds} seconds shortened to {longest} seconds"
        ));
        seconds = longest;
        request.set_at(&["spec", "expirationSeconds"], Value::Int(seconds));
    }
    let audiences: Vec<SmolStr> = texts(&Field::root(&request).child("spec").child("audiences"));
    let own = audiences.iter().all(|audience| issuer.audiences().contains(audience));
    let extends = bound.pod.is_some() && seconds == WARNED_AFTER && own;
    let extended = issuer.extended_life().filter(|_| extends);
    let token = issuer
        .issue(&ServiceAccountToken {
            namespace: context.namespace,
            account: identity(&account),
            audiences: &audiences,
            now: context.now(),
            seconds: extended.unwrap_or(seconds),
            warn_after: extended.map(|_| seconds),
            pod: bound.pod,
            node: bound.node,
            secret: bound.secret,
        })
        .map_err(|why| Rejection::Failed(format!("failed to generate token: {why}")))?;
    // The response contains the requested expiration, even if the token is valid for longer.
    let end = context.now() + std::time::Duration::from_secs(seconds.unsigned_abs());
    let mut status = Value::empty_map();
    status.set_at(&["expirationTimestamp"], time_text(end));
    status.set_at(&["token"], "".into());
    request.set_at(&["status"], status);
    Ok(TokenDraft {
        token,
        response: request,
    })
}

impl TokenRequest {
    /// Checks that a uid in the body is that of the account. While the gate is off, a mismatch only causes a warning.
    ///
    /// upstream: pkg/registry/core/serviceaccount/storage#TokenREST.Create
    fn check_uid(&self, context: &WriteContext<'_>, request: &Value, account: &Value) -> Result<(), Rejection> {
        let [uid, own] = [request, account].map(|object| object.str_at(&["metadata", "uid"]).unwrap_or_default());
        if uid.is_empty() || uid == own {
            return Ok(());
        }
        let why = format!("the UID in the token request ({uid}) does not match the UID of the service account ({own})");
        if self.features.has(Feature::TokenRequestServiceAccountUIDValidation) {
            return Err(Rejection::ConflictOn {
                resource: GroupResource {
                    group: SmolStr::new_static(GROUP),
                    resource: SmolStr::new_static(KIND),
                },
                name: context.name.to_owned(),
                why,
            });
        }
        context.warn(format!(
            "{why} but TokenRequestServiceAccountUIDValidation is not enabled. In the future, this will return a conflict error"
        ));
        context.annotate(MISMATCH, || why);
        Ok(())
    }
}

const GROUP: &str = "authentication.k8s.io";
const KIND: &str = "TokenRequest";

/// Audit annotation for a uid that does not match the account.
const MISMATCH: &str = "authentication.k8s.io/token-request-uid-mismatch";

/// Audit annotation for the issued token.
const ISSUED: &str = "authentication.kubernetes.io/issued-credential-id";

fn texts(list: &Field<'_, '_>) -> Vec<SmolStr> {
    list.items().map(|item| SmolStr::new(item.text())).collect()
}

/// Checks that a name and a namespace in the body match the request path.
///
/// upstream: pkg/registry/core/serviceaccount/storage#TokenREST.Create
fn check_metadata(context: &WriteContext<'_>, request: &Value) -> Result<(), Rejection> {
    for (field, wanted) in [("name", context.name), ("namespace", context.namespace)] {
        let found = request.str_at(&["metadata", field]).unwrap_or_default();
        if !found.is_empty() && found != wanted {
            let path = FieldPath::new("metadata").child(field);
            let why = format!("must match the service account {field} if specified");
            return Err(invalid(context.name, FieldError::invalid(&path, found, why)));
        }
    }
    Ok(())
}

fn invalid(name: &str, error: FieldError) -> Rejection {
    Rejection::InvalidAs {
        kind: GroupKind {
            group: SmolStr::new_static(GROUP),
            kind: SmolStr::new_static(KIND),
        },
        name: name.to_owned(),
        errors: vec![error],
    }
}

/// Returns the requested lifetime in seconds.
fn lifetime(request: &Value) -> Result<i64, Rejection> {
    let root = Field::root(request);
    let spec = root.child("spec");
    let seconds = spec.child("expirationSeconds");
    let number = seconds.number().unwrap_or_default();
    let why = match number {
        ..SHORTEST => TOO_SHORT,
        SHORTEST..=LONGEST => return Ok(number),
        _ => TOO_LONG,
    };
    Err(invalid("", seconds.invalid_as(number, why)))
}

/// Object that a token is bound to, and the node of a pod.
#[derive(Default)]
struct Bound {
    pod: Option<BoundObject>,
    node: Option<BoundObject>,
    secret: Option<BoundObject>,
}

impl Bound {
    /// upstream: pkg/registry/core/serviceaccount/storage#TokenREST.Create
    fn read(context: &WriteContext<'_>, request: &Value) -> Result<Self, Rejection> {
        let root = Field::root(request);
        let spec = root.child("spec");
        let reference = spec.child("boundObjectRef");
        if !reference.is_set() {
            return Ok(Self::default());
        }
        let (version, kind, name) = (
            reference.child("apiVersion").text(),
            reference.child("kind").text(),
            reference.child("name").text(),
        );
        let (group, version) = group_and_version(version);
        let mut bound = Self::default();
        let object = match (group, kind) {
            ("", "Pod") => {
                let pod = get(context, "pods", name)?;
                let account = pod.str_at(&["spec", "serviceAccountName"]).unwrap_or_default();
                if account != context.name {
                    return Err(Rejection::BadRequest(format!(
                        "cannot bind token for serviceaccount {:?} to pod running with different serviceaccount name.",
                        context.name
                    )));
                }
                bound.node = node_of(context, &pod);
                bound.pod.insert(identity(&pod)).clone()
            }
            ("", "Node") => bound.node.insert(identity(&get(context, "nodes", name)?)).clone(),
            ("", "Secret") => bound.secret.insert(identity(&get(context, "secrets", name)?)).clone(),
            _ => {
                return Err(Rejection::BadRequest(format!(
                    "cannot bind token to object of type {group}/{version}, Kind={kind}"
                )));
            }
        };
        let uid = reference.child("uid").text();
        if !uid.is_empty() && uid != object.uid {
            return Err(Rejection::ConflictOn {
                resource: GroupResource {
                    group: SmolStr::default(),
                    resource: kind.into(),
                },
                name: name.to_owned(),
                why: format!(
                    "the UID in the bound object reference ({uid}) does not match the UID in record. The object might have \
                     been deleted and then recreated"
                ),
            });
        }
        Ok(bound)
    }
}

/// Returns the group and the version of an `apiVersion`, both empty if it is malformed. Any version of the core group
/// matches.
fn group_and_version(api_version: &str) -> (&str, &str) {
    match api_version.split_once('/') {
        None => ("", api_version),
        Some((_, version)) if version.contains('/') => ("", ""),
        Some(both) => both,
    }
}

/// Returns the node of a pod, without a uid if the server does not know the node.
fn node_of(context: &WriteContext<'_>, pod: &Value) -> Option<BoundObject> {
    let name = pod.str_at(&["spec", "nodeName"]).filter(|name| !name.is_empty())?;
    let node = context.lookup.get(&of_core("nodes"), "", name);
    Some(node.as_ref().map_or_else(
        || BoundObject {
            name: name.to_owned(),
            uid: String::new(),
        },
        identity,
    ))
}

fn get(context: &WriteContext<'_>, resource: &'static str, name: &str) -> Result<Value, Rejection> {
    let namespace = if resource == "nodes" { "" } else { context.namespace };
    check_key(resource != "nodes", namespace, name).map_err(Rejection::BadRequest)?;
    let object = context.lookup.get(&of_core(resource), namespace, name);
    object.ok_or_else(|| Rejection::NotFound {
        resource: of_core(resource),
        name: name.to_owned(),
    })
}

fn identity(object: &Value) -> BoundObject {
    let text = |field: &str| object.str_at(&["metadata", field]).unwrap_or_default().to_owned();
    BoundObject {
        name: text("name"),
        uid: text("uid"),
    }
}

#[cfg(test)]
mod tests {
    use crate::harness::{Harness, at};

    fn harness() -> Harness {
        Harness::new()
            .with("{apiVersion: v1, kind: ServiceAccount, metadata: {name: robot, namespace: default, uid: u}}")
            .with(
                "{apiVersion: v1, kind: Pod, metadata: {name: p, namespace: default, uid: v}, spec: {serviceAccountName: robot, \
                 nodeName: one, containers: [{name: c, image: i}]}}",
            )
            .with(
                "{apiVersion: v1, kind: Pod, metadata: {name: q, namespace: default, uid: w}, spec: {serviceAccountName: other, \
                 containers: [{name: c, image: i}]}}",
            )
    }

    fn ask(name: &str, spec: &str) -> Result<holdfast_value::Value, String> {
        ask_and_hear(name, spec).map(|(answer, _)| answer)
    }

    /// Returns the response and the warnings.
    fn ask_and_hear(name: &str, spec: &str) -> Result<(holdfast_value::Value, Vec<String>), String> {
        let request = format!("{{apiVersion: authentication.k8s.io/v1, kind: TokenRequest, spec: {{{spec}}}}}");
        harness().subresource_answer("serviceaccounts", "token", name, &request)
    }

    #[test]
    fn a_request_means_the_account_of_its_uid() {
        let ask = |gates: &str, uid: &str| {
            let account = "{apiVersion: v1, kind: ServiceAccount, metadata: {name: robot, namespace: default, uid: u}}";
            let request = format!(
                "{{apiVersion: authentication.k8s.io/v1, kind: TokenRequest, metadata: {{uid: {uid}}}, spec: {{}}}}"
            );
            let harness = Harness::with_gates(gates).with(account);
            let answer = harness.subresource_answer("serviceaccounts", "token", "robot", &request);
            answer.map(|(answer, warnings)| (at(&answer, "metadata.uid"), warnings.len()))
        };
        const GATE: &str = "TokenRequestServiceAccountUIDValidation";
        let why = "the UID in the token request (x) does not match the UID of the service account (u)";
        let refused = ask(&format!("{GATE}=true"), "x").unwrap_err();
        assert!(refused.contains(why), "{refused}");
        assert_eq!(ask(&format!("{GATE}=true"), "u"), Ok((r#""u""#.to_owned(), 0)));
        assert_eq!(ask(&format!("{GATE}=false"), "x"), Ok((r#""x""#.to_owned(), 1)));
    }

    #[test]
    fn token_with_shortened_lifetime_causes_warning() {
        let messages = |seconds: i64| {
            ask_and_hear("robot", &format!("expirationSeconds: {seconds}"))
                .unwrap()
                .1
        };
        assert_eq!(
            messages(90_000),
            ["requested expiration of 90000 seconds shortened to 86400 seconds"]
        );
        assert!(messages(86_400).is_empty());
    }

    #[test]
    fn a_token_is_for_the_server_and_an_hour_unless_said_otherwise() {
        let answer = ask("robot", "").unwrap();
        assert_eq!(at(&answer, "spec.audiences"), r#"["tests"]"#);
        assert_eq!(at(&answer, "spec.expirationSeconds"), "3600");
        assert_eq!(at(&answer, "metadata.uid"), r#""u""#);
        assert_eq!(
            at(&answer, "status.token"),
            r#""robot/u for tests, 3600 s, pod none, node none""#
        );
        assert_eq!(at(&answer, "status.expirationTimestamp"), r#""2001-09-09T02:46:40Z""#);
    }

    #[test]
    fn token_lifetime_is_between_ten_minutes_and_server_maximum() {
        assert!(
            ask("robot", "expirationSeconds: 5")
                .unwrap_err()
                .contains(super::TOO_SHORT)
        );
        assert!(
            ask("robot", "expirationSeconds: 5000000000")
                .unwrap_err()
                .contains(super::TOO_LONG)
        );
        let answer = ask("robot", "expirationSeconds: 999999").unwrap();
        assert_eq!(at(&answer, "spec.expirationSeconds"), "86400");
    }

    #[test]
    fn a_token_is_bound_to_what_is_there_and_is_of_its_account() {
        let bound = |name: &str, uid: &str| {
            ask(
                "robot",
                &format!("boundObjectRef: {{apiVersion: v1, kind: Pod, name: {name}{uid}}}"),
            )
        };
        let token = at(&bound("p", ", uid: v").unwrap(), "status.token");
        assert!(token.contains("pod p/v, node one/"), "{token}");
        assert!(
            bound("p", ", uid: x")
                .unwrap_err()
                .contains("the UID in the bound object reference (x) does not match")
        );
        assert!(
            bound("q", "")
                .unwrap_err()
                .contains("to pod running with different serviceaccount name.")
        );
        assert!(bound("none", "").unwrap_err().contains("NotFound"));
        assert!(bound("''", "").unwrap_err().contains("Name parameter required."));
        let error = |version: &str| {
            let bound = format!("boundObjectRef: {{apiVersion: {version}, kind: Secret, name: s}}");
            ask("robot", &bound).unwrap_err()
        };
        assert!(error("v9").contains("NotFound"));
        assert!(error("a/b/c").contains("NotFound"));
        assert!(error("apps/v1").contains("cannot bind token to object of type apps/v1, Kind=Secret"));
        assert!(ask("nobody", "").unwrap_err().contains("NotFound"));
    }

    #[test]
    fn tokens_of_pods_outlive_the_hour_that_kubelets_ask_for() {
        let answer = ask(
            "robot",
            "expirationSeconds: 3607, boundObjectRef: {apiVersion: v1, kind: Pod, name: p}",
        )
        .unwrap();
        let token = at(&answer, "status.token");
        assert!(token.contains("31536000 s"), "{token}");
        assert_eq!(at(&answer, "status.expirationTimestamp"), r#""2001-09-09T02:46:47Z""#);
    }
}
