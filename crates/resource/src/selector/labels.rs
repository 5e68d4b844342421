//! Label selectors: requirements on labels, all of which must hold.

use std::fmt;

use holdfast_schema::metadata::formats;
use holdfast_schema::{Aggregate, FieldError, FieldPath};
use holdfast_value::{SmolStr, Value};

use super::SelectorError;
use super::label_parser;

/// Comparison of a label with the values of a requirement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LabelOperator {
    /// The label exists and is one of the values.
    In,
    /// The label is missing or is none of the values.
    NotIn,
    /// Same as `In`, written with `=`.
    Equals,
    /// Same as `In`, written with `==`.
    DoubleEquals,
    /// Same as `NotIn`, written with `!=`.
    NotEquals,
    /// The label exists.
    Exists,
    /// The label is missing.
    DoesNotExist,
    /// The label is an integer greater than the value.
    GreaterThan,
    /// The label is an integer less than the value.
    LessThan,
}

/// One requirement of a label selector.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LabelRequirement {
    /// The key of the label.
    pub key: SmolStr,
    /// Comparison operator.
    pub operator: LabelOperator,
    /// Values to compare it with, sorted.
    pub values: Vec<SmolStr>,
}

/// Requirements on the labels of an object, all of which must hold. The empty selector matches everything.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LabelSelector {
    requirements: Vec<LabelRequirement>,
}

impl LabelSelector {
    /// Reads the text of a `labelSelector` parameter, such as `app=web,tier in (a, b),!old`.
    pub fn parse(text: &str) -> Result<Self, SelectorError> {
        let mut requirements = label_parser::parse(text)?;
        requirements.sort_by(|a, b| a.key.cmp(&b.key));
        Ok(Self { requirements })
    }

    /// Returns the requirements, sorted by key.
    pub fn requirements(&self) -> &[LabelRequirement] {
        &self.requirements
    }

    /// Reads a `LabelSelector` object, which has `matchLabels` and `matchExpressions`. Malformed parts are skipped;
    /// validation has rejected them before.
    ///
    /// upstream: k8s.io/apimachinery/pkg/apis/meta/v1#LabelSelectorAsSelector
    pub fn from_object(selector: &Value) -> Self {
        let mut requirements = Vec::new();
        if let Some(labels) = selector.get("matchLabels").and_then(Value::as_map) {
            requirements.extend(equalities(labels));
        }
        let expressions = selector.get("matchExpressions").and_then(Value::as_list);
        for expression in expressions.into_iter().flat_map(|list| list.iter()) {
            let operator = match expression.str_at(&["operator"]) {
                Some("In") => LabelOperator::In,
                Some("NotIn") => LabelOperator::NotIn,
                Some("Exists") => LabelOperator::Exists,
                Some("DoesNotExist") => LabelOperator::DoesNotExist,
                _ => continue,
            };
            let mut values: Vec<SmolStr> = (expression.get("values").and_then(Value::as_list).into_iter())
                .flat_map(|list| list.iter())
                .filter_map(|value| value.as_str().map(SmolStr::new))
                .collect();
            values.sort();
            values.dedup();
            requirements.push(LabelRequirement {
                key: SmolStr::new(expression.str_at(&["key"]).unwrap_or_default()),
                operator,
                values,
            });
        }
        requirements.sort_by(|a, b| a.key.cmp(&b.key));
        Self { requirements }
    }

    /// Returns the selector of a map of required labels, the form in Services and ReplicationControllers.
    pub fn from_labels(labels: &Value) -> Self {
        let requirements = labels
            .as_map()
            .map(|labels| equalities(labels).collect())
            .unwrap_or_default();
        Self { requirements }
    }

    /// Returns true if this matches everything.
    pub fn is_empty(&self) -> bool {
        self.requirements.is_empty()
    }

    /// Returns true if the labels match; `label` returns the value of a key.
    pub fn matches<'a>(&self, label: impl Fn(&str) -> Option<&'a str>) -> bool {
        self.requirements
            .iter()
            .all(|requirement| requirement.matches(label(&requirement.key)))
    }
}

fn equalities(labels: &holdfast_value::Map) -> impl Iterator<Item = LabelRequirement> + '_ {
    labels.iter().map(|(key, value)| LabelRequirement {
        key: key.clone(),
        operator: LabelOperator::Equals,
        values: vec![SmolStr::new(value.as_str().unwrap_or_default())],
    })
}

impl LabelRequirement {
    /// Creates a requirement if its key and values are well-formed and the number of values suits the operator.
    ///
    /// upstream: k8s.io/apimachinery/pkg/labels#NewRequirement
    pub(super) fn checked(key: SmolStr, operator: LabelOperator, values: Vec<SmolStr>) -> Result<Self, SelectorError> {
        let root = FieldPath::new("values");
        let mut errors = Vec::new();
        if matches!(operator, LabelOperator::GreaterThan | LabelOperator::LessThan) {
            for (at, value) in values.iter().enumerate() {
                if value.parse::<i64>().is_err() {
                    let detail = "for 'Gt', 'Lt' operators, the value must be an integer";
                    errors.push(FieldError::invalid(&root.index(at), value.clone(), detail));
                }
            }
        }
        for (at, value) in values.iter().enumerate() {
            let field = root.index(at).key(&key);
            let wrong = formats::label_value(value);
            errors.extend(
                wrong
                    .into_iter()
                    .map(|text| FieldError::invalid(&field, value.clone(), text)),
            );
        }
        match errors.is_empty() {
            true => Ok(Self { key, operator, values }),
            false => Err(SelectorError(Aggregate(&errors).to_string())),
        }
    }

    fn matches(&self, label: Option<&str>) -> bool {
        let listed = |label: &str| self.values.iter().any(|value| value == label);
        match self.operator {
            LabelOperator::In | LabelOperator::Equals | LabelOperator::DoubleEquals => label.is_some_and(listed),
            LabelOperator::NotIn | LabelOperator::NotEquals => !label.is_some_and(listed),
            LabelOperator::Exists => label.is_some(),
            LabelOperator::DoesNotExist => label.is_none(),
            LabelOperator::GreaterThan => self.compare(label).is_some_and(|(label, bound)| label > bound),
            LabelOperator::LessThan => self.compare(label).is_some_and(|(label, bound)| label < bound),
        }
    }

    fn compare(&self, label: Option<&str>) -> Option<(i64, i64)> {
        Some((label?.parse().ok()?, self.values.first()?.parse().ok()?))
    }
}

impl fmt::Display for LabelRequirement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let key = &self.key;
        let sign = match self.operator {
            LabelOperator::Exists => return f.write_str(key),
            LabelOperator::DoesNotExist => return write!(f, "!{key}"),
            LabelOperator::In => return write!(f, "{key} in ({})", self.values.join(",")),
            LabelOperator::NotIn => return write!(f, "{key} notin ({})", self.values.join(",")),
            LabelOperator::Equals => "=",
            LabelOperator::DoubleEquals => "==",
            LabelOperator::NotEquals => "!=",
            LabelOperator::GreaterThan => ">",
            LabelOperator::LessThan => "<",
        };
        write!(f, "{key}{sign}{}", self.values.join(","))
    }
}

/// The text from which [`LabelSelector::parse`] reads the selector, sorted by key; empty for the empty selector.
impl fmt::Display for LabelSelector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, requirement) in self.requirements.iter().enumerate() {
            if at > 0 {
                f.write_str(",")?;
            }
            write!(f, "{requirement}")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns true if the text matches labels of the form `a=b,c=d`.
    fn matches(selector: &str, labels: &str) -> bool {
        let labels: Vec<(&str, &str)> = labels.split(',').filter_map(|pair| pair.split_once('=')).collect();
        let selector = LabelSelector::parse(selector).unwrap();
        selector.matches(|key| labels.iter().find(|(name, _)| *name == key).map(|(_, value)| *value))
    }

    #[test]
    fn requirements_match_as_documented() {
        let a = "env=prod,tier=web,n=5";
        for selector in [
            "",
            "env=prod",
            "env==prod",
            " env = prod ",
            "env in (prod,dev)",
            "env",
            "!absent",
            "absent!=x",
            "absent notin (x)",
            "n>4",
            "n<6",
            "env=prod,tier in (web)",
        ] {
            assert!(matches(selector, a), "{selector}");
        }
        for selector in [
            "env!=prod",
            "env notin (prod)",
            "!env",
            "absent",
            "n>5",
            "tier=",
            "env in ()",
            "env>1",
        ] {
            assert!(!matches(selector, a), "{selector}");
        }
        assert!(matches("tier in (,web)", "tier="));
    }

    #[test]
    fn malformed_label_selector_has_reference_error() {
        let long = format!("env={}", "x".repeat(64));
        let cases = [
            ("env in prod", "unable to parse requirement: found 'prod' expected: '('"),
            (
                "env in (a",
                "unable to parse requirement: found '', expected: ',' or ')'",
            ),
            ("=prod", "found '=', expected: !, identifier, or 'end of string'"),
            ("env=not ok", "found 'ok', expected: ',' or 'end of string'"),
            (
                "bad key!",
                "unable to parse requirement: found 'key', expected: in, notin, =, ==, !=, gt, lt",
            ),
            ("env=a,,", "found ',', expected: identifier after ','"),
            (
                "n>abc",
                "unable to parse requirement: values[0]: Invalid value: \"abc\": for 'Gt', 'Lt' operators, the value must be an integer",
            ),
            (
                "/x=1",
                "unable to parse requirement: <nil>: Invalid value: \"/x\": prefix part must be non-empty",
            ),
        ];
        for (selector, message) in cases {
            assert_eq!(LabelSelector::parse(selector).unwrap_err().to_string(), message);
        }
        let error = LabelSelector::parse(&long).unwrap_err().to_string();
        assert!(
            error.starts_with("unable to parse requirement: values[0][env]: Invalid value: \"xxx"),
            "{error}"
        );
    }

    #[test]
    fn text_is_sorted_by_key() {
        let selector = LabelSelector::parse("b in (y, x),a=1,!c").unwrap();
        assert_eq!(selector.to_string(), "a=1,b in (x,y),!c");
    }
}
