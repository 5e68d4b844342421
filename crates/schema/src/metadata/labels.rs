//! Labels and label selectors: their validation, and the objects that a selector selects.
//!
//! See <https://kubernetes.io/docs/concepts/overview/working-with-objects/labels/>.

use holdfast_value::Value;

use super::formats::{label_value, qualified_name};
use crate::field::Field;
use crate::field_error::FieldError;

/// Validates the keys and values of a map of labels. All errors are reported at the map itself.
///
/// upstream: k8s.io/apimachinery/pkg/apis/meta/v1/validation#ValidateLabels
pub fn validate_labels(labels: &Field<'_, '_>, errors: &mut Vec<FieldError>) {
    for (key, value) in labels.entries() {
        errors.extend(
            qualified_name(key)
                .into_iter()
                .map(|message| labels.invalid_as(key, message)),
        );
        let text = value.text();
        errors.extend(
            label_value(text)
                .into_iter()
                .map(|message| labels.invalid_as(text, message)),
        );
    }
}

/// Validates the text at `name` as the key of a label.
///
/// upstream: k8s.io/apimachinery/pkg/apis/meta/v1/validation#ValidateLabelName
pub fn validate_label_name(name: &Field<'_, '_>, errors: &mut Vec<FieldError>) {
    errors.extend(
        qualified_name(name.text())
            .into_iter()
            .map(|message| name.invalid_text(message)),
    );
}

/// Validates a label selector with `matchLabels` and `matchExpressions`; a missing selector is valid.
///
/// upstream: k8s.io/apimachinery/pkg/apis/meta/v1/validation#ValidateLabelSelector
pub fn validate_label_selector(selector: &Field<'_, '_>, errors: &mut Vec<FieldError>) {
    if !selector.is_set() {
        return;
    }
    validate_labels(&selector.child("matchLabels"), errors);
    for requirement in selector.child("matchExpressions").items() {
        validate_operator(&requirement, false, errors);
        validate_label_name(&requirement.child("key"), errors);
        for value in requirement.child("values").items() {
            errors.extend(
                label_value(value.text())
                    .into_iter()
                    .map(|message| value.invalid_text(message)),
            );
        }
    }
}

/// Validates that a requirement has as many values as its operator needs; `compares` is true if it may compare numbers.
///
/// upstream: k8s.io/apimachinery/pkg/apis/meta/v1/validation#ValidateLabelSelectorRequirement
pub fn validate_operator(requirement: &Field<'_, '_>, compares: bool, errors: &mut Vec<FieldError>) {
    let (operator, values) = (requirement.child("operator"), requirement.child("values"));
    match operator.text() {
        "In" | "NotIn" if values.is_empty() => {
            errors.push(values.required("must be specified when `operator` is 'In' or 'NotIn'"));
        }
        "Exists" | "DoesNotExist" if !values.is_empty() => {
            errors.push(values.forbidden("may not be specified when `operator` is 'Exists' or 'DoesNotExist'"));
        }
        "Gt" | "Lt" if compares && values.len() != 1 => {
            errors.push(values.required("must be specified single value when `operator` is 'Lt' or 'Gt'"));
        }
        "Gt" | "Lt" if compares => {}
        "In" | "NotIn" | "Exists" | "DoesNotExist" => {}
        _ => errors.push(operator.invalid_text("not a valid selector operator")),
    }
}

/// Returns the error that a label selector is invalid. The reported value has its members in the order of the
/// reference.
pub fn invalid_selector(selector: &Field<'_, '_>, detail: &str) -> FieldError {
    let shown = match selector.value() {
        Some(value) => {
            let members: Vec<String> = ["matchLabels", "matchExpressions"]
                .iter()
                .filter_map(|name| Some((name, value.get(name)?)))
                .map(|(name, value)| format!("\"{name}\":{value}"))
                .collect();
            format!("{{{}}}", members.join(","))
        }
        None => "null".to_owned(),
    };
    FieldError::invalid_text(&selector.path(), shown, detail)
}

/// A parsed label selector, ready to match labels.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LabelSelector<'v> {
    /// No selector: selects nothing.
    Nothing,
    /// Selects objects that meet all requirements; everything if there are none.
    Matching(Vec<Requirement<'v>>),
}

/// One requirement of a label selector.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Requirement<'v> {
    key: &'v str,
    operator: Operator,
    values: Vec<&'v str>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Operator {
    In,
    NotIn,
    Exists,
    DoesNotExist,
}

impl<'v> LabelSelector<'v> {
    /// Reads a label selector. `None` if it is malformed.
    pub fn read(selector: &Field<'v, '_>) -> Option<Self> {
        if !selector.is_set() {
            return Some(Self::Nothing);
        }
        let mut requirements = Vec::new();
        for (key, value) in selector.child("matchLabels").entries() {
            requirements.push(Requirement::read(key, Operator::In, vec![value.text()])?);
        }
        for expression in selector.child("matchExpressions").items() {
            let operator = match expression.child("operator").text() {
                "In" => Operator::In,
                "NotIn" => Operator::NotIn,
                "Exists" => Operator::Exists,
                "DoesNotExist" => Operator::DoesNotExist,
                _ => return None,
            };
            let values = expression
                .child("values")
                .slice()
                .iter()
                .filter_map(Value::as_str)
                .collect();
            requirements.push(Requirement::read(expression.child("key").text(), operator, values)?);
        }
        Some(Self::Matching(requirements))
    }

    /// Reads a map of labels that an object must all have; unlike the reader of selectors it accepts invalid labels.
    pub fn from_labels(labels: &Field<'v, '_>) -> Self {
        let requirement = |(key, value): (&'v str, Field<'v, '_>)| Requirement {
            key,
            operator: Operator::In,
            values: vec![value.text()],
        };
        Self::Matching(labels.entries().map(requirement).collect())
    }

    /// Returns true if this selects everything.
    pub fn is_everything(&self) -> bool {
        matches!(self, Self::Matching(requirements) if requirements.is_empty())
    }

    /// Returns true if this selects an object with these labels.
    pub fn matches(&self, labels: &Field<'_, '_>) -> bool {
        match self {
            Self::Nothing => false,
            Self::Matching(requirements) => requirements.iter().all(|requirement| requirement.matches(labels)),
        }
    }
}

impl<'v> Requirement<'v> {
    fn read(key: &'v str, operator: Operator, values: Vec<&'v str>) -> Option<Self> {
        let takes_values = matches!(operator, Operator::In | Operator::NotIn);
        let well_formed = takes_values != values.is_empty()
            && qualified_name(key).is_empty()
            && values.iter().all(|value| label_value(value).is_empty());
        well_formed.then_some(Self { key, operator, values })
    }

    fn matches(&self, labels: &Field<'_, '_>) -> bool {
        let label = labels.entry(self.key);
        let listed = || label.is_set() && self.values.contains(&label.text());
        match self.operator {
            Operator::In => listed(),
            Operator::NotIn => !listed(),
            Operator::Exists => label.is_set(),
            Operator::DoesNotExist => !label.is_set(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn map(entries: &[(&str, Value)]) -> Value {
        Value::Map(
            entries
                .iter()
                .map(|(key, value)| ((*key).into(), value.clone()))
                .collect(),
        )
    }

    fn expression(key: &str, operator: &str, values: &[&str]) -> Value {
        let values: Vec<Value> = values.iter().map(|value| Value::from(*value)).collect();
        map(&[
            ("key", key.into()),
            ("operator", operator.into()),
            ("values", values.into()),
        ])
    }

    fn selector(expressions: Vec<Value>) -> Value {
        map(&[
            ("matchLabels", map(&[("app", "web".into())])),
            ("matchExpressions", expressions.into()),
        ])
    }

    fn selects(selector: &Value, labels: &[(&str, &str)]) -> bool {
        let entries: Vec<(&str, Value)> = labels.iter().map(|(key, value)| (*key, Value::from(*value))).collect();
        let labels = map(&entries);
        LabelSelector::read(&Field::root(selector)).is_some_and(|read| read.matches(&Field::root(&labels)))
    }

    #[test]
    fn a_selector_is_shown_with_its_members_in_order() {
        let odd = selector(vec![expression("a", "Odd", &[])]);
        assert_eq!(
            invalid_selector(&Field::root(&odd).shown_as("s"), "odd").to_string(),
            r#"s: Invalid value: {"matchLabels":{"app":"web"},"matchExpressions":[{"key":"a","operator":"Odd","values":[]}]}: odd"#
        );
    }

    #[test]
    fn labels_select_even_where_they_can_be_no_labels() {
        let labels = map(&[("a b", "x".into())]);
        assert!(LabelSelector::from_labels(&Field::root(&labels)).matches(&Field::root(&labels)));
        assert!(!LabelSelector::from_labels(&Field::root(&labels)).matches(&Field::root(&map(&[]))));
        assert!(LabelSelector::from_labels(&Field::root(&map(&[]))).is_everything());
    }

    #[test]
    fn selector_asks_for_all_requirements() {
        let of_tier = selector(vec![
            expression("tier", "In", &["a", "b"]),
            expression("old", "DoesNotExist", &[]),
            expression("zone", "NotIn", &["x"]),
        ]);
        assert!(selects(&of_tier, &[("app", "web"), ("tier", "b")]));
        assert!(!selects(&of_tier, &[("app", "web"), ("tier", "c")]));
        assert!(!selects(&of_tier, &[("app", "web"), ("tier", "a"), ("old", "")]));
        assert!(!selects(&of_tier, &[("app", "web"), ("tier", "a"), ("zone", "x")]));
        assert!(selects(&map(&[]), &[]));
        assert_eq!(
            LabelSelector::read(&Field::placed(None, "spec.selector")),
            Some(LabelSelector::Nothing)
        );
    }

    #[test]
    fn malformed_expressions_are_named() {
        let odd = selector(vec![
            expression("app", "Exists", &["x"]),
            expression("app", "In", &[]),
            expression("app", "Like", &["x"]),
        ]);
        let mut errors = Vec::new();
        validate_label_selector(&Field::placed(Some(&odd), "spec.selector"), &mut errors);
        let texts: Vec<String> = errors.iter().map(ToString::to_string).collect();
        assert_eq!(
            texts,
            [
                "spec.selector.matchExpressions[0].values: Forbidden: may not be specified when `operator` is 'Exists' or \
                 'DoesNotExist'",
                "spec.selector.matchExpressions[1].values: Required value: must be specified when `operator` is 'In' or \
                 'NotIn'",
                "spec.selector.matchExpressions[2].operator: Invalid value: \"Like\": not a valid selector operator",
            ]
        );
        assert_eq!(LabelSelector::read(&Field::root(&odd)), None);
    }
}
