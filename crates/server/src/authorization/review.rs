//! SubjectAccessReviews that are sent to webhooks, and their answers.

use holdfast_authorization::{
    AccessTarget, Attributes, Authorization, Decision, FieldRequirement, ResourceTarget, User,
};
use holdfast_resource::selector::{LabelOperator, LabelRequirement, LabelSelector};
use holdfast_value::{Limits, List, Map, Value, json};
use smol_str::SmolStr;

/// Limits of an answer.
const LIMITS: Limits = Limits {
    max_bytes: 256 << 10,
    max_depth: 32,
    max_nodes: 20_000,
};

/// API version of the reviews.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AccessReviewVersion {
    /// `authorization.k8s.io/v1`
    V1,
    /// `authorization.k8s.io/v1beta1`
    V1Beta1,
}

impl AccessReviewVersion {
    /// Returns the version of that name.
    ///
    /// # Errors
    /// If there is none; the error is the reference's.
    pub fn named(name: &str) -> Result<Self, String> {
        match name {
            "v1" => Ok(Self::V1),
            "v1beta1" => Ok(Self::V1Beta1),
            other => Err(format!(
                "unsupported webhook authorizer version {other:?}, supported versions are \"v1\", \"v1beta1\""
            )),
        }
    }

    const fn api_version(self) -> &'static str {
        match self {
            Self::V1 => "authorization.k8s.io/v1",
            Self::V1Beta1 => "authorization.k8s.io/v1beta1",
        }
    }

    /// Returns the name of the field with the groups.
    const fn groups(self) -> &'static str {
        match self {
            Self::V1 => "groups",
            Self::V1Beta1 => "group",
        }
    }

    /// Returns the review with this spec.
    pub(super) fn review(self, spec: Value) -> Value {
        let mut review = Map::new();
        review.insert("kind", "SubjectAccessReview");
        review.insert("apiVersion", self.api_version());
        review.insert("metadata", Value::empty_map());
        review.insert("spec", spec);
        review.insert(
            "status",
            Value::Map(Map::from_iter([("allowed".into(), Value::Bool(false))])),
        );
        Value::Map(review)
    }

    /// Returns the spec of a review.
    ///
    /// upstream: k8s.io/apiserver/plugin/pkg/authorizer/webhook#WebhookAuthorizer.Authorize
    pub(super) fn spec(self, user: &User, attributes: &Attributes<'_>) -> Value {
        let mut spec = Map::new();
        match &attributes.target {
            AccessTarget::Resource(target) => {
                let fields = resource(attributes.verb, target, false);
                spec.insert("resourceAttributes", fields);
            }
            AccessTarget::Path(path) => {
                let fields = filled(&[("path", path), ("verb", attributes.verb)], false);
                spec.insert("nonResourceAttributes", fields);
            }
        }
        if !user.name.is_empty() {
            spec.insert("user", user.name.clone());
        }
        if !user.groups.is_empty() {
            spec.insert(self.groups(), texts(&user.groups));
        }
        if !user.extra.is_empty() {
            spec.insert("extra", extra(user));
        }
        if !user.uid.is_empty() {
            spec.insert("uid", user.uid.clone());
        }
        Value::Map(spec)
    }

    /// Reads the status of an answer.
    ///
    /// # Errors
    /// If it is no review of this version.
    pub(super) fn read(self, answer: &[u8]) -> Result<ReviewStatus, String> {
        let review = json::parse(answer, &LIMITS).map_err(|error| error.to_string())?;
        let text = |path: &[&str]| match review.at(path) {
            None | Some(Value::Null) => Ok(String::new()),
            Some(Value::String(text)) => Ok(text.to_string()),
            Some(_) => Err(malformed(path)),
        };
        let flag = |path: &[&str]| match review.at(path) {
            None | Some(Value::Null) => Ok(false),
            Some(Value::Bool(flag)) => Ok(*flag),
            Some(_) => Err(malformed(path)),
        };
        let (kind, version) = (text(&["kind"])?, text(&["apiVersion"])?);
        // The reference fills empty fields from the type that it expects.
        let is_other = |text: &str, expected: &str| !text.is_empty() && text != expected;
        if is_other(&kind, "SubjectAccessReview") || is_other(&version, self.api_version()) {
            return Err(format!(
                "the webhook answered with kind {kind:?} of version {version:?}"
            ));
        }
        Ok(ReviewStatus {
            allowed: flag(&["status", "allowed"])?,
            denied: flag(&["status", "denied"])?,
            reason: text(&["status", "reason"])?,
        })
    }
}

fn malformed(path: &[&str]) -> String {
    format!("{} in the webhook's answer is malformed", path.join("."))
}

/// Returns the spec as match conditions see it: all texts exist, even if they are empty.
///
/// upstream: k8s.io/apiserver/pkg/authorization/cel#convertObjectToUnstructured
pub(super) fn condition_input(user: &User, attributes: &Attributes<'_>) -> Value {
    let mut spec = Map::new();
    spec.insert("user", user.name.clone());
    spec.insert("groups", texts(&user.groups));
    spec.insert("uid", user.uid.clone());
    spec.insert("extra", extra(user));
    match &attributes.target {
        AccessTarget::Resource(target) => {
            spec.insert("resourceAttributes", resource(attributes.verb, target, true));
        }
        AccessTarget::Path(path) => {
            let fields = filled(&[("verb", attributes.verb), ("path", path)], true);
            spec.insert("nonResourceAttributes", fields);
        }
    }
    Value::Map(spec)
}

fn texts(texts: &[SmolStr]) -> Value {
    Value::List(texts.iter().map(|text| Value::from(text.clone())).collect::<List>())
}

fn extra(user: &User) -> Value {
    let entries = user.extra.iter().map(|(key, values)| (key.clone(), texts(values)));
    Value::Map(entries.collect::<Map>())
}

/// Returns an object with these fields; empty ones only if `with_empty`.
fn filled(fields: &[(&'static str, &str)], with_empty: bool) -> Map {
    let fields = fields.iter().filter(|(_, text)| with_empty || !text.is_empty());
    fields
        .map(|(name, text)| (SmolStr::new_static(name), Value::from(*text)))
        .collect()
}

fn resource(verb: &str, target: &ResourceTarget<'_>, with_empty: bool) -> Map {
    let fields = [
        ("namespace", target.namespace),
        ("verb", verb),
        ("group", target.group),
        ("version", target.version),
        ("resource", target.resource),
        ("subresource", target.subresource),
        ("name", target.name),
    ];
    let mut attributes = filled(&fields, with_empty);
    let labels = match target.label_selector {
        "" => LabelSelector::default(),
        text => LabelSelector::parse(text).unwrap_or_default(),
    };
    for (name, requirements) in [
        (
            "fieldSelector",
            target.field_selector.iter().map(of_field).collect::<List>(),
        ),
        (
            "labelSelector",
            labels
                .requirements()
                .iter()
                .filter_map(|label| of_label(label, with_empty))
                .collect::<List>(),
        ),
    ] {
        if !requirements.is_empty() {
            let selector = Map::from_iter([("requirements".into(), Value::List(requirements))]);
            attributes.insert(name, Value::Map(selector));
        }
    }
    attributes
}

fn requirement(key: &SmolStr, operator: &str, values: &[SmolStr], with_empty: bool) -> Value {
    let mut requirement = Map::new();
    requirement.insert("key", key.clone());
    requirement.insert("operator", operator);
    if with_empty || !values.is_empty() {
        requirement.insert("values", texts(values));
    }
    Value::Map(requirement)
}

/// upstream: k8s.io/apiserver/plugin/pkg/authorizer/webhook#fieldSelectorToAuthorizationAPI
fn of_field(field: &FieldRequirement) -> Value {
    let operator = if field.is_equal { "In" } else { "NotIn" };
    requirement(&field.field, operator, std::slice::from_ref(&field.value), false)
}

/// Returns a requirement on a label, unless reviews have no operator for it.
///
/// upstream: k8s.io/apiserver/plugin/pkg/authorizer/webhook#labelSelectorToAuthorizationAPI
fn of_label(label: &LabelRequirement, with_empty: bool) -> Option<Value> {
    let operator = match label.operator {
        LabelOperator::In | LabelOperator::Equals | LabelOperator::DoubleEquals => "In",
        LabelOperator::NotIn | LabelOperator::NotEquals => "NotIn",
        LabelOperator::Exists => "Exists",
        LabelOperator::DoesNotExist => "DoesNotExist",
        LabelOperator::GreaterThan | LabelOperator::LessThan => return None,
    };
    Some(requirement(&label.key, operator, &label.values, with_empty))
}

/// Status of a review.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct ReviewStatus {
    /// True if the action is allowed.
    pub(super) allowed: bool,
    /// True if the action is denied, whatever other authorizers decide.
    pub(super) denied: bool,
    /// Human-readable reason.
    pub(super) reason: String,
}

impl ReviewStatus {
    /// Returns the size of its texts.
    pub(super) fn text_bytes(&self) -> usize {
        self.reason.len()
    }

    /// Returns the decision.
    pub(super) fn authorization(self) -> Authorization {
        let decision = match (self.denied, self.allowed) {
            (true, _) => Decision::Deny,
            (false, true) => Decision::Allow,
            (false, false) => Decision::NoOpinion,
        };
        let contradicts = self.denied && self.allowed;
        let why = "webhook subject access review returned both allow and deny response";
        Authorization {
            decision,
            reason: (!self.reason.is_empty()).then(|| self.reason.into()),
            error: contradicts.then(|| why.into()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn alice() -> User {
        User {
            name: "alice".into(),
            uid: "7".into(),
            groups: vec!["devs".into()],
            extra: vec![("k".into(), vec!["v".into()])],
        }
    }

    #[test]
    fn spec_names_user_target_and_selectors() {
        let fields = [FieldRequirement {
            field: "spec.nodeName".into(),
            is_equal: false,
            value: "n1".into(),
        }];
        let target = AccessTarget::Resource(ResourceTarget {
            version: "v1",
            resource: "pods",
            namespace: "a",
            field_selector: &fields,
            label_selector: "!old,app=web,tier in (x,y),age>3",
            ..ResourceTarget::default()
        });
        let attributes = Attributes { verb: "list", target };
        let spec = |version: AccessReviewVersion| json::to_string(&version.spec(&alice(), &attributes));
        let expected = r#"{"extra":{"k":["v"]},"groups":["devs"],"resourceAttributes":{"fieldSelector":{"requirements":[{"key":"spec.nodeName","operator":"NotIn","values":["n1"]}]},"labelSelector":{"requirements":[{"key":"app","operator":"In","values":["web"]},{"key":"old","operator":"DoesNotExist"},{"key":"tier","operator":"In","values":["x","y"]}]},"namespace":"a","resource":"pods","verb":"list","version":"v1"},"uid":"7","user":"alice"}"#;
        assert_eq!(spec(AccessReviewVersion::V1), expected);
        assert_eq!(
            spec(AccessReviewVersion::V1Beta1),
            expected.replace("\"groups\"", "\"group\"")
        );
        let path = Attributes {
            verb: "get",
            target: AccessTarget::Path("/livez"),
        };
        assert_eq!(
            json::to_string(&AccessReviewVersion::V1.spec(&User::default(), &path)),
            r#"{"nonResourceAttributes":{"path":"/livez","verb":"get"}}"#
        );
    }

    #[test]
    fn answer_decides_unless_it_is_malformed() {
        let read = |status: &str| {
            let text =
                format!(r#"{{"kind":"SubjectAccessReview","apiVersion":"authorization.k8s.io/v1","status":{status}}}"#);
            AccessReviewVersion::V1
                .read(text.as_bytes())
                .map(ReviewStatus::authorization)
        };
        let decision = |status: &str| read(status).unwrap().decision;
        assert_eq!(decision(r#"{"allowed":true}"#), Decision::Allow);
        assert_eq!(decision(r#"{"allowed":false}"#), Decision::NoOpinion);
        assert_eq!(decision("{}"), Decision::NoOpinion);
        let both = read(r#"{"allowed":true,"denied":true,"reason":"no"}"#).unwrap();
        assert_eq!((both.decision, both.reason()), (Decision::Deny, "no"));
        assert!(both.error().unwrap().contains("both allow and deny"));
        assert_eq!(
            read(r#"{"allowed":"yes"}"#).unwrap_err(),
            "status.allowed in the webhook's answer is malformed"
        );
        for other in [
            &b"{"[..],
            br#"{"kind":"Status"}"#,
            br#"{"kind":"SubjectAccessReview","apiVersion":"authorization.k8s.io/v1beta1"}"#,
        ] {
            AccessReviewVersion::V1.read(other).unwrap_err();
        }
        assert_eq!(AccessReviewVersion::named("v1beta1"), Ok(AccessReviewVersion::V1Beta1));
        assert!(
            AccessReviewVersion::named("v2")
                .unwrap_err()
                .contains("supported versions are")
        );
    }
}
