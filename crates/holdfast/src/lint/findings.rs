//! Findings about manifests.

use std::cmp::Ordering;
use std::path::PathBuf;

use holdfast_value::{List, Value};
use http::StatusCode;

/// Beginning of the messages of policies that deny a request.
const POLICY_DENIAL: &str = "ValidatingAdmissionPolicy '";

/// Severity of a finding.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Level {
    /// A server accepts the object.
    Warning,
    /// A server rejects the object, or two manifests contradict each other.
    Error,
}

impl Level {
    /// Returns the name, which SARIF has, too.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Warning => "warning",
            Self::Error => "error",
        }
    }
}

/// Rule that a manifest breaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Rule {
    Syntax,
    UnknownKind,
    DuplicateObject,
    Schema,
    Validation,
    Policy,
    OwnershipConflict,
    Rejected,
    Warning,
}

impl Rule {
    /// All rules, in the order of the enum.
    pub(super) const ALL: [Self; 9] = [
        Self::Syntax,
        Self::UnknownKind,
        Self::DuplicateObject,
        Self::Schema,
        Self::Validation,
        Self::Policy,
        Self::OwnershipConflict,
        Self::Rejected,
        Self::Warning,
    ];

    /// Returns the identifier in the output.
    pub(super) fn id(self) -> &'static str {
        match self {
            Self::Syntax => "syntax",
            Self::UnknownKind => "unknown-kind",
            Self::DuplicateObject => "duplicate-object",
            Self::Schema => "schema",
            Self::Validation => "validation",
            Self::Policy => "policy",
            Self::OwnershipConflict => "ownership-conflict",
            Self::Rejected => "rejected",
            Self::Warning => "warning",
        }
    }

    /// Returns the description of the rule.
    pub(super) fn description(self) -> &'static str {
        match self {
            Self::Syntax => "The document is valid YAML or JSON and names an object.",
            Self::UnknownKind => "The kind is built in, or a CRD among the manifests defines it.",
            Self::DuplicateObject => "A field manager has one manifest for each object.",
            Self::Schema => "The fields exist, occur once, and have values of their types.",
            Self::Validation => "The object is valid, by built-in rules or the schema and CEL rules of its CRD.",
            Self::Policy => "Admission accepts the object, such as the policies among the manifests.",
            Self::OwnershipConflict => "Two field managers do not set one field to different values.",
            Self::Rejected => "The server accepts the object.",
            Self::Warning => "The server has no warning about the object, such as a deprecation.",
        }
    }

    /// Returns the severity.
    pub(super) fn level(self) -> Level {
        match self {
            Self::Warning => Level::Warning,
            _ => Level::Error,
        }
    }
}

/// Place of a document.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Place {
    pub(super) file: PathBuf,
    /// First line of the document, from 1.
    pub(super) line: usize,
}

/// Problem of an object.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Problem {
    pub(super) rule: Rule,
    /// Path of the field, if the problem is about one.
    pub(super) field: Option<String>,
    pub(super) message: String,
}

impl Problem {
    pub(super) fn new(rule: Rule, message: impl Into<String>) -> Self {
        Self {
            rule,
            field: None,
            message: message.into(),
        }
    }

    /// Returns the problems that an error of the server reports.
    pub(super) fn from_status(code: StatusCode, status: &Value) -> Vec<Self> {
        let text = |value: &Value, name: &str| value.str_at(&[name]).unwrap_or_default().to_owned();
        let message = text(status, "message");
        let by_code = match code {
            StatusCode::UNPROCESSABLE_ENTITY => Rule::Validation,
            StatusCode::FORBIDDEN => Rule::Policy,
            // An apply of fields that do not fit the schema is an internal error of the reference.
            StatusCode::BAD_REQUEST | StatusCode::INTERNAL_SERVER_ERROR => Rule::Schema,
            _ => Rule::Rejected,
        };
        let rule = |message: &str, rule| match message.contains(POLICY_DENIAL) {
            true => Rule::Policy,
            false => rule,
        };
        let list = status.at(&["details", "causes"]).and_then(Value::as_list);
        let causes = list.into_iter().flat_map(|list: &List| list.iter());
        let mut problems: Vec<Self> = causes
            .map(|cause| {
                let message = text(cause, "message");
                let by_reason = match cause.str_at(&["reason"]) {
                    Some("FieldManagerConflict") => Rule::OwnershipConflict,
                    _ => by_code,
                };
                Self {
                    rule: rule(&message, by_reason),
                    field: Some(text(cause, "field")).filter(|field| !field.is_empty()),
                    message,
                }
            })
            .collect();
        if problems.is_empty() {
            problems.push(Self::new(rule(&message, by_code), message));
        }
        problems
    }
}

/// Finding about a document or an object.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Finding {
    pub(super) place: Place,
    pub(super) rule: Rule,
    /// Object in the form of kubectl, if the document has one.
    pub(super) object: Option<String>,
    /// Field manager of the manifest.
    pub(super) manager: Option<String>,
    pub(super) field: Option<String>,
    pub(super) message: String,
}

impl Finding {
    /// Returns a finding about a document without an object.
    pub(super) fn without_object(place: Place, problem: Problem) -> Self {
        Self {
            place,
            rule: problem.rule,
            object: None,
            manager: None,
            field: problem.field,
            message: problem.message,
        }
    }

    /// Compares the places. Findings of one place stay in their order.
    pub(super) fn order(one: &Self, other: &Self) -> Ordering {
        one.place.cmp(&other.place)
    }
}

#[cfg(test)]
mod tests {
    use holdfast_value::{Limits, yaml};

    use super::*;

    fn problems(code: u16, status: &str) -> Vec<(Rule, Option<String>, String)> {
        let status = yaml::parse(status.as_bytes(), &Limits::default()).unwrap();
        let problems = Problem::from_status(StatusCode::from_u16(code).unwrap(), &status);
        problems
            .into_iter()
            .map(|problem| (problem.rule, problem.field, problem.message))
            .collect()
    }

    #[test]
    fn status_is_split_into_problems() {
        let invalid = "{message: m, details: {causes: [{field: spec.a, message: bad, reason: FieldValueInvalid}, {message: \
                       \"ValidatingAdmissionPolicy 'p' with binding 'b' denied request: no\"}]}}";
        let denied = "ValidatingAdmissionPolicy 'p' with binding 'b' denied request: no".to_owned();
        assert_eq!(
            problems(422, invalid),
            [
                (Rule::Validation, Some("spec.a".to_owned()), "bad".to_owned()),
                (Rule::Policy, None, denied),
            ]
        );
        let conflict = "{message: m, details: {causes: [{field: .spec.a, message: conflict with x, reason: FieldManagerConflict}]}}";
        assert_eq!(problems(409, conflict)[0].0, Rule::OwnershipConflict);
        assert_eq!(problems(400, "{message: m}"), [(Rule::Schema, None, "m".to_owned())]);
        assert_eq!(problems(403, "{message: m}")[0].0, Rule::Policy);
        assert_eq!(problems(405, "{message: m}")[0].0, Rule::Rejected);
    }

    #[test]
    fn rules_have_identifiers_of_their_own() {
        let mut ids: Vec<_> = Rule::ALL.iter().map(|rule| rule.id()).collect();
        ids.sort_unstable();
        ids.dedup();
        assert_eq!(ids.len(), Rule::ALL.len());
        assert!(Rule::ALL.iter().all(|rule| !rule.description().is_empty()));
    }
}
