//! SubjectAccessReview, SelfSubjectAccessReview and LocalSubjectAccessReview: checks of a user's permissions.

use std::borrow::Cow;

use holdfast_authorization::{AccessTarget, Attributes, Decision, FieldRequirement, ResourceTarget, User};
use holdfast_gotext::errors::aggregate;
use holdfast_resource::selector::LabelSelector;
use holdfast_resource::{FieldSelector, Rejection, Review, WriteContext};
use holdfast_schema::metadata::formats::label_value;
use holdfast_schema::metadata::labels::validate_label_name;
use holdfast_schema::{Field, FieldError};
use holdfast_value::{Map, SmolStr, Value};

use crate::validation::{Errors, report};

/// Subject of a review.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum About {
    /// The requester.
    Asker,
    /// The user of the spec.
    User,
    /// The user of the spec, only in the namespace of the review.
    UserInNamespace,
}

/// Review handler for access reviews.
pub(super) struct AccessReview(pub(super) About);

impl Review for AccessReview {
    /// upstream: pkg/registry/authorization/subjectaccessreview#REST.Create
    fn prepare(&self, _context: &WriteContext<'_>, object: &mut Value) -> Result<(), Rejection> {
        let errors = self.errors(object);
        match errors.is_empty() {
            true => Ok(()),
            false => Err(Rejection::Invalid(errors)),
        }
    }

    fn review(&self, context: &WriteContext<'_>, mut object: Value) -> Result<Value, Rejection> {
        let root = Field::root(&object);
        let spec = root.child("spec");
        let user = match self.0 {
            About::Asker => Cow::Borrowed(context.user),
            About::User | About::UserInNamespace => Cow::Owned(user_of(&spec)),
        };
        let (resource, path) = (spec.child("resourceAttributes"), spec.child("nonResourceAttributes"));
        let selector = selected_fields(&resource.child("fieldSelector"));
        let label_selector = label_selector(&resource.child("labelSelector"));
        let attributes = if resource.is_set() {
            Attributes {
                verb: resource.child("verb").text(),
                target: AccessTarget::Resource(ResourceTarget {
                    group: resource.child("group").text(),
                    version: resource.child("version").text(),
                    resource: resource.child("resource").text(),
                    subresource: resource.child("subresource").text(),
                    namespace: resource.child("namespace").text(),
                    name: resource.child("name").text(),
                    field_selector: &selector,
                    label_selector: &label_selector,
                }),
            }
        } else {
            Attributes {
                verb: path.child("verb").text(),
                target: AccessTarget::Path(path.child("path").text()),
            }
        };
        let authorization = context.access.authorizer.authorize(&user, &attributes);
        let mut status = Map::new();
        status.insert("allowed", Value::Bool(authorization.decision == Decision::Allow));
        if authorization.decision == Decision::Deny {
            status.insert("denied", Value::Bool(true));
        }
        if !authorization.reason().is_empty() {
            status.insert("reason", Value::from(authorization.reason()));
        }
        let error = authorization.error().map(str::to_owned).into_iter();
        let errors: Vec<String> = error.chain(unheard_selectors(&resource)).collect();
        if !errors.is_empty() {
            status.insert("evaluationError", Value::from(aggregate(&errors)));
        }
        object.set_at(&["status"], Value::Map(status));
        Ok(object)
    }

    fn named_when_invalid(&self) -> Option<&'static str> {
        Some("")
    }
}

impl AccessReview {
    fn errors(&self, object: &Value) -> Vec<FieldError> {
        let root = Field::root(object);
        let spec = root.child("spec");
        let (resource, path) = (spec.child("resourceAttributes"), spec.child("nonResourceAttributes"));
        let mut errors = Errors::new();
        match (resource.is_set(), path.is_set()) {
            (true, true) => {
                let why = "cannot be specified in combination with resourceAttributes";
                errors.push(path.invalid_as(shown_path(&path), why));
            }
            (false, false) => {
                let why = "exactly one of nonResourceAttributes or resourceAttributes must be specified";
                errors.push(resource.invalid_as(Value::Null, why));
            }
            _ => {}
        }
        let user = spec.child("user");
        if self.0 != About::Asker && user.text().is_empty() && spec.child("groups").is_empty() {
            errors.push(user.invalid_as("", "at least one of user or group must be specified"));
        }
        selector_errors(&resource.child("fieldSelector"), false, &mut errors);
        selector_errors(&resource.child("labelSelector"), true, &mut errors);
        let metadata = metadata_beyond(object, self.0 == About::UserInNamespace);
        if let Some(metadata) = metadata {
            let why = match self.0 {
                About::UserInNamespace => "must be empty except for namespace",
                _ => "must be empty",
            };
            errors.push(root.child("metadata").invalid_as(metadata, why));
        }
        if self.0 == About::UserInNamespace {
            let namespace = resource.child("namespace");
            let of_review = object.str_at(&["metadata", "namespace"]).unwrap_or_default();
            if resource.is_set() && namespace.text() != of_review {
                errors.push(namespace.invalid_as(namespace.text(), "must match metadata.namespace"));
            }
            if path.is_set() {
                let why = "disallowed on this kind of request";
                errors.push(path.invalid_as(shown_path(&path), why));
            }
        }
        errors
    }
}

/// Returns the metadata of a review if it has more than managed fields and, if allowed, a namespace.
fn metadata_beyond(object: &Value, namespace_may_stand: bool) -> Option<Value> {
    let mut metadata = object.get("metadata")?.clone();
    metadata.remove_at(&["managedFields"]);
    let mut beyond = metadata.clone();
    if namespace_may_stand {
        beyond.remove_at(&["namespace"]);
    }
    beyond.as_map().is_some_and(|map| !map.is_empty()).then_some(metadata)
}

/// Returns the attributes of a path with the reference's Go field names.
fn shown_path(path: &Field<'_, '_>) -> Map {
    [("Path", "path"), ("Verb", "verb")]
        .iter()
        .map(|(shown, field)| (SmolStr::new_static(shown), path.child(field).text().into()))
        .collect()
}

fn user_of(spec: &Field<'_, '_>) -> User {
    let texts = |field: &Field<'_, '_>| {
        field
            .slice()
            .iter()
            .filter_map(Value::as_str)
            .map(SmolStr::new)
            .collect()
    };
    let extra = spec.child("extra");
    User {
        name: spec.child("user").text().into(),
        uid: spec.child("uid").text().into(),
        groups: texts(&spec.child("groups")),
        extra: extra
            .entries()
            .map(|(key, values)| (SmolStr::new(key), texts(&values)))
            .collect(),
    }
}

/// Returns the message about selectors that are fully or partially ignored because they cannot be parsed.
///
/// upstream: pkg/registry/authorization/util#BuildEvaluationError
fn unheard_selectors(resource: &Field<'_, '_>) -> Option<String> {
    let messages = [("fieldSelector", false), ("labelSelector", true)]
        .iter()
        .filter_map(|(name, of_labels)| {
            let selector = resource.child(name);
            let raw = selector.child("rawSelector");
            let (read, unread) = if !raw.text().is_empty() {
                let read = match of_labels {
                    true => LabelSelector::parse(raw.text()).is_ok(),
                    false => FieldSelector::parse(raw.text()).is_ok(),
                };
                (usize::from(read), usize::from(!read))
            } else {
                let requirements = selector.child("requirements");
                let read = requirements.items().filter(|one| can_be_read(one, *of_labels)).count();
                (read, requirements.items().count() - read)
            };
            let part = if read > 0 { "partially " } else { "" };
            (unread > 0).then(|| format!("{} {part}ignored due to parse error", selector.path()))
        });
    let messages: Vec<String> = messages.collect();
    (!messages.is_empty()).then(|| aggregate(&messages))
}

/// Returns the requirements of a field selector that can be parsed.
///
/// upstream: pkg/registry/authorization/util#ResourceAttributesFrom
fn selected_fields(selector: &Field<'_, '_>) -> Vec<FieldRequirement> {
    let raw = selector.child("rawSelector");
    if !raw.text().is_empty() {
        let parsed = FieldSelector::parse(raw.text()).unwrap_or_default();
        return parsed.requirements().to_vec();
    }
    let requirements = selector.child("requirements");
    let parsed = requirements.items().filter(|one| can_be_read(one, false));
    let selected = parsed.map(|one| FieldRequirement {
        field: one.child("key").text().into(),
        is_equal: one.child("operator").text() == "In",
        value: one
            .child("values")
            .items()
            .next()
            .map(|value| value.text().into())
            .unwrap_or_default(),
    });
    selected.collect()
}

/// Returns the text of a label selector with the requirements that can be parsed.
///
/// upstream: pkg/registry/authorization/util#ResourceAttributesFrom
fn label_selector(selector: &Field<'_, '_>) -> String {
    let raw = selector.child("rawSelector");
    if !raw.text().is_empty() {
        return raw.text().to_owned();
    }
    let requirements = selector.child("requirements");
    let texts = requirements.items().filter(|one| can_be_read(one, true)).map(|one| {
        let (key, values) = (one.child("key"), one.child("values"));
        let values: Vec<&str> = values.slice().iter().filter_map(Value::as_str).collect();
        let (key, values) = (key.text(), values.join(","));
        match one.child("operator").text() {
            "In" => format!("{key} in ({values})"),
            "NotIn" => format!("{key} notin ({values})"),
            "Exists" => key.to_owned(),
            _ => format!("!{key}"),
        }
    });
    texts.collect::<Vec<String>>().join(",")
}

/// Returns true if a requirement can be converted to a selector. A field requirement must have exactly one value.
fn can_be_read(requirement: &Field<'_, '_>, of_labels: bool) -> bool {
    let values = requirement.child("values");
    match requirement.child("operator").text() {
        "In" | "NotIn" if of_labels => values.items().all(|value| label_value(value.text()).is_empty()),
        "Exists" | "DoesNotExist" => of_labels,
        "In" | "NotIn" => values.items().count() == 1,
        _ => false,
    }
}

/// Validates a selector. Unknown operators are accepted, since newer clients may send them.
fn selector_errors(selector: &Field<'_, '_>, of_labels: bool, errors: &mut Errors) {
    if !selector.is_set() {
        return;
    }
    let (raw, requirements) = (selector.child("rawSelector"), selector.child("requirements"));
    match (raw.text().is_empty(), requirements.is_empty()) {
        (false, false) => {
            errors.push(raw.invalid("may not specified at the same time as requirements"));
        }
        (true, true) => {
            let why = format!(
                "when {} is specified, requirements or rawSelector is required",
                selector.path()
            );
            errors.push(requirements.required(why));
        }
        _ => {}
    }
    for requirement in requirements.items() {
        let (key, values) = (requirement.child("key"), requirement.child("values"));
        match requirement.child("operator").text() {
            "In" | "NotIn" if values.is_empty() => {
                errors.push(values.required("must be specified when `operator` is 'In' or 'NotIn'"));
            }
            "Exists" | "DoesNotExist" if !values.is_empty() => {
                errors.push(values.forbidden("may not be specified when `operator` is 'Exists' or 'DoesNotExist'"));
            }
            _ => {}
        }
        if of_labels {
            validate_label_name(&key, errors);
            for value in values.items() {
                report(&value, label_value(value.text()), errors);
            }
        } else if key.text().is_empty() {
            errors.push(key.required("must be specified"));
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::harness::Harness;

    const SELF: &str = "{apiVersion: authorization.k8s.io/v1, kind: SelfSubjectAccessReview, spec: SPEC}";
    const OTHER: &str = "{apiVersion: authorization.k8s.io/v1, kind: SubjectAccessReview, spec: SPEC}";
    const LOCAL: &str = "{apiVersion: authorization.k8s.io/v1, kind: LocalSubjectAccessReview, \
                         metadata: {namespace: default}, spec: SPEC}";

    fn ask(review: &str, spec: &str) -> Result<String, Vec<String>> {
        Harness::new().answer(&review.replace("SPEC", spec), "status")
    }

    #[test]
    fn a_review_asks_the_authorizer() {
        let pods = "resourceAttributes: {namespace: default, verb: get, resource: pods}";
        assert_eq!(ask(SELF, &format!("{{{pods}}}")).unwrap(), r#"{"allowed":true}"#);
        assert_eq!(
            ask(OTHER, &format!("{{user: bob, {pods}}}")).unwrap(),
            r#"{"allowed":true}"#
        );
        assert_eq!(
            ask(LOCAL, &format!("{{groups: [devs], {pods}}}")).unwrap(),
            r#"{"allowed":true}"#
        );
    }

    #[test]
    fn selectors_that_cannot_be_read_are_reported() {
        let ask = |selector: &str| {
            ask(
                SELF,
                &format!("{{resourceAttributes: {{verb: list, resource: pods, {selector}}}}}"),
            )
        };
        let messages = |what: &str| {
            format!(r#"{{"allowed":true,"evaluationError":"spec.resourceAttributes.{what} due to parse error"}}"#)
        };
        let cases = [
            ("labelSelector: {rawSelector: '!!'}", "labelSelector ignored"),
            (
                "fieldSelector: {requirements: [{key: a, operator: Newer}]}",
                "fieldSelector ignored",
            ),
            (
                "fieldSelector: {requirements: [{key: a, operator: Newer}, {key: a, operator: In, values: [b]}]}",
                "fieldSelector partially ignored",
            ),
        ];
        for (selector, what) in cases {
            assert_eq!(ask(selector).unwrap(), messages(what), "{selector}");
        }
        assert_eq!(ask("fieldSelector: {rawSelector: a=b}").unwrap(), r#"{"allowed":true}"#);
    }

    #[test]
    fn a_review_is_about_one_thing_and_somebody() {
        assert_eq!(
            ask(SELF, "{}").unwrap_err(),
            [
                "spec.resourceAttributes: Invalid value: null: exactly one of nonResourceAttributes or resourceAttributes must be specified"
            ]
        );
        let both = "{resourceAttributes: {verb: get}, nonResourceAttributes: {path: /x, verb: get}}";
        assert_eq!(
            ask(OTHER, both).unwrap_err(),
            [
                r#"spec.nonResourceAttributes: Invalid value: {"Path":"/x","Verb":"get"}: cannot be specified in combination with resourceAttributes"#,
                r#"spec.user: Invalid value: "": at least one of user or group must be specified"#,
            ]
        );
    }

    #[test]
    fn a_review_is_no_object_with_a_name() {
        let named = SELF.replace("spec:", "metadata: {name: x}, spec:");
        assert_eq!(
            ask(&named, "{resourceAttributes: {verb: get}}").unwrap_err(),
            [r#"metadata: Invalid value: {"name":"x"}: must be empty"#]
        );
    }

    #[test]
    fn a_local_review_stays_in_its_namespace() {
        assert_eq!(
            ask(LOCAL, "{user: bob, resourceAttributes: {namespace: other, verb: get}}").unwrap_err(),
            [r#"spec.resourceAttributes.namespace: Invalid value: "other": must match metadata.namespace"#]
        );
        assert_eq!(
            ask(LOCAL, "{user: bob, nonResourceAttributes: {path: /x, verb: get}}").unwrap_err(),
            [
                r#"spec.nonResourceAttributes: Invalid value: {"Path":"/x","Verb":"get"}: disallowed on this kind of request"#
            ]
        );
    }

    #[test]
    fn selectors_are_checked_as_far_as_they_are_known() {
        let ask = |selector: &str| ask(SELF, &format!("{{resourceAttributes: {{verb: list, {selector}}}}}"));
        assert!(ask("fieldSelector: {requirements: [{key: a, operator: Newer}]}").is_ok());
        assert_eq!(
            ask("fieldSelector: {}").unwrap_err(),
            [
                "spec.resourceAttributes.fieldSelector.requirements: Required value: when spec.resourceAttributes.fieldSelector is specified, requirements or rawSelector is required"
            ]
        );
        assert_eq!(
            ask("labelSelector: {requirements: [{key: a, operator: In}]}").unwrap_err(),
            [
                "spec.resourceAttributes.labelSelector.requirements[0].values: Required value: must be specified when `operator` is 'In' or 'NotIn'"
            ]
        );
        let messages = ask("labelSelector: {requirements: [{key: a, operator: In, values: [b, a b]}]}").unwrap_err();
        assert_eq!(messages.len(), 1);
        assert!(
            messages[0].starts_with(
                r#"spec.resourceAttributes.labelSelector.requirements[0].values[1]: Invalid value: "a b""#
            )
        );
        assert_eq!(
            ask("labelSelector: {rawSelector: a, requirements: [{key: a, operator: Exists}]}").unwrap_err(),
            [
                r#"spec.resourceAttributes.labelSelector.rawSelector: Invalid value: "a": may not specified at the same time as requirements"#
            ]
        );
    }
}
