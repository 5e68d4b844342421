//! Validation of values against a schema, in the order and the words of the reference (go-openapi).

use std::collections::HashMap;
use std::hash::{BuildHasher, Hash, Hasher, RandomState};
use std::sync::LazyLock;

use holdfast_schema::{FieldError, FieldErrorKind, FieldPath};
use holdfast_value::{List, Map, Value};

use crate::correlation::Correlation;
use crate::formats::has_form;
use crate::node::{Additional, Checks, JsonType, Limit, Node, float};
use crate::numbers::{Range, exceeds, is_whole, is_whole_number, shown, shown_limit};
use crate::result::Outcome;
use crate::value_path::{Step, ValuePath};

/// The checks of a schema without any.
static UNCHECKED: LazyLock<Checks> = LazyLock::new(Checks::default);

/// Maximum number of reported errors of one object.
const MAX_ERRORS: usize = 1000;

/// The old value at the same path. Errors of a value that was already invalid and is unchanged are ignored
/// (<https://kubernetes.io/docs/tasks/extend-kubernetes/custom-resources/custom-resource-definitions/#validation-ratcheting>).
#[derive(Clone, Copy, Debug)]
pub struct Ratchet<'v>(pub &'v Value);

impl Node {
    /// Validates a value. `root` is its path in its object; the paths in messages begin below it. With the old value,
    /// only errors of changed values are reported.
    ///
    /// upstream: k8s.io/apiextensions-apiserver/pkg/apiserver/validation#ValidateCustomResource
    pub fn validate(&self, value: &Value, old: Option<Ratchet<'_>>, root: &FieldPath) -> Vec<FieldError> {
        let validation = Validation {
            root,
            of_default: false,
        };
        let mut errors = validation.value(self, value, old, &ValuePath::ROOT).errors;
        errors.truncate(MAX_ERRORS);
        errors
    }

    /// Validates a default. For defaults, the reference does not check that a value is a whole number or a text.
    ///
    /// upstream: k8s.io/apiextensions-apiserver/pkg/apiserver/schema/defaulting#validate
    pub(super) fn validate_default(&self, default: &Value, root: &FieldPath) -> Vec<FieldError> {
        let validation = Validation { root, of_default: true };
        let mut errors = validation.value(self, default, None, &ValuePath::ROOT).errors;
        errors.truncate(MAX_ERRORS);
        errors
    }
}

struct Validation<'a> {
    root: &'a FieldPath,
    of_default: bool,
}

impl Validation<'_> {
    /// Validates a value with a path of its own: its errors are ignored if it is unchanged.
    fn value(&self, node: &Node, value: &Value, old: Option<Ratchet<'_>>, place: &ValuePath<'_>) -> Outcome {
        let mut outcome = self.schema(node, value, old, place);
        if !outcome.is_valid() && old.is_some_and(|old| node.is_same(value, old.0)) {
            outcome.errors.clear();
        }
        outcome
    }

    /// Validates a value against one schema: that of its path, or one within `allOf` and similar keywords.
    fn schema(&self, node: &Node, value: &Value, old: Option<Ratchet<'_>>, place: &ValuePath<'_>) -> Outcome {
        let mut outcome = Outcome::default();
        let checks = node.checks.as_deref();
        if value.is_null() {
            outcome.merge(self.null(node, place));
            if let Some(checks) = checks {
                outcome.merge(self.listed(checks, value, place));
            }
            return outcome;
        }
        // Valid parts are counted, even those without checks.
        let mut merge = |part: Outcome| {
            outcome.merge_distinct(part);
            outcome.count();
        };
        let format = checks.map_or("", |checks| self.format_of(checks));
        if node.kind.is_some() || self.int_or_string(node) || !format.is_empty() {
            merge(self.kind(node, format, value, place));
        }
        let checks = checks.unwrap_or(&UNCHECKED);
        merge(self.junctors(checks, value, old, place));
        match value {
            Value::String(text) => {
                merge(self.text(checks, text, place));
                if !format.is_empty() {
                    merge(self.format(format, text, place));
                }
            }
            Value::Int(_) | Value::UInt(_) | Value::Float(_) => merge(self.number(node, checks, value, place)),
            Value::List(list) => merge(self.list(node, checks, list, old, place)),
            _ => {}
        }
        merge(self.listed(checks, value, place));
        if let Value::Map(map) = value {
            merge(self.map(node, checks, map, old, place));
        }
        outcome.count();
        outcome
    }

    /// Returns true if a whole number or a text is required. The reference does not check this for defaults.
    fn int_or_string(&self, node: &Node) -> bool {
        node.int_or_string && !self.of_default
    }

    /// Returns the required format.
    fn format_of<'c>(&self, checks: &'c Checks) -> &'c str {
        match checks.format.as_str() {
            "" if self.of_default => &checks.unknown_format,
            format => format,
        }
    }

    fn type_names<'n>(&self, node: &'n Node) -> &'n str {
        if self.int_or_string(node) {
            return "integer,string";
        }
        match (node.kind, &node.checks) {
            (Some(JsonType::Unknown), Some(checks)) => &checks.unknown_type,
            (kind, _) => kind.map(JsonType::name).unwrap_or_default(),
        }
    }

    fn null(&self, node: &Node, place: &ValuePath<'_>) -> Outcome {
        let types = self.type_names(node);
        if types.is_empty() || node.nullable {
            let mut outcome = Outcome::default();
            outcome.count();
            return outcome;
        }
        self.wrong_type(place, types, "null")
    }

    /// Checks that the value is of the type; numbers and texts must have the named format, in the reference's sense.
    fn kind(&self, node: &Node, format: &str, value: &Value, place: &ValuePath<'_>) -> Outcome {
        let found = json_type(value);
        let int_or_string = self.int_or_string(node);
        let is = |of: JsonType| node.kind == Some(of) || int_or_string && of == JsonType::Integer;
        let of_type = node.kind == Some(found)
            || int_or_string && matches!(found, JsonType::Integer | JsonType::String)
            || found == JsonType::Integer && is(JsonType::Number)
            || found == JsonType::Number && is(JsonType::Integer) && is_whole(value);
        let mut outcome = Outcome::default();
        outcome.count();
        let texts_or_lists = matches!(value, Value::String(_) | Value::List(_));
        let form = match found {
            JsonType::Integer => "int64",
            JsonType::Number => "float64",
            _ => "",
        };
        if !texts_or_lists && !format.is_empty() && !of_type && form != format {
            return self.wrong_type(place, format, form);
        }
        let numeric = is(JsonType::Number) || is(JsonType::Integer);
        if !numeric && !format.is_empty() && texts_or_lists || of_type {
            return outcome;
        }
        self.wrong_type(place, self.type_names(node), found.name())
    }

    fn wrong_type(&self, place: &ValuePath<'_>, expected: &str, found: &str) -> Outcome {
        let name = place.text();
        let detail = format!("{name} in body must be of type {expected}: {found:?}");
        self.error(FieldErrorKind::TypeInvalid, &name, Some(found.into()), detail)
    }

    /// Returns an error of a field.
    fn error(&self, kind: FieldErrorKind, name: &str, value: Option<Value>, detail: String) -> Outcome {
        let name = name.trim_start_matches('.');
        let field = if name.is_empty() {
            self.root.clone()
        } else {
            self.root.child(name)
        };
        Outcome {
            errors: vec![FieldError {
                kind,
                field,
                value,
                detail,
            }],
            right: 0,
        }
    }

    /// Returns the error that a value is invalid; `what` follows the name of the field and `in body`.
    fn invalid(&self, place: &ValuePath<'_>, value: impl Into<Value>, what: impl std::fmt::Display) -> Outcome {
        let name = place.text();
        let detail = format!("{name} in body {what}");
        self.error(FieldErrorKind::Invalid, &name, Some(value.into()), detail)
    }

    /// Returns an error of the object as a whole.
    fn of_root(&self, detail: String) -> Outcome {
        self.error(FieldErrorKind::Invalid, "", Some("".into()), detail)
    }

    /// upstream: k8s.io/kube-openapi/pkg/validation/validate#schemaPropsValidator.Validate
    fn junctors(&self, checks: &Checks, value: &Value, old: Option<Ratchet<'_>>, place: &ValuePath<'_>) -> Outcome {
        let mut outcome = Outcome::default();
        let quoted = || format!("{:?}", place.text());
        if !checks.any_of.is_empty() {
            let (mut best, mut success) = (None::<Outcome>, None);
            for node in &checks.any_of {
                let tried = self.schema(node, value, old, place);
                if tried.is_valid() {
                    success = Some(tried);
                    break;
                }
                if best.as_ref().is_none_or(|best| tried.right > best.right) {
                    best = Some(tried);
                }
            }
            if success.is_none() {
                outcome.merge_distinct(self.of_root(format!("{} must validate at least one schema (anyOf)", quoted())));
            }
            if let Some(reported) = success.or(best) {
                outcome.merge_distinct(reported);
            }
        }
        if !checks.one_of.is_empty() {
            let (mut best, mut success, mut valid) = (None::<Outcome>, None, 0);
            for node in &checks.one_of {
                let tried = self.schema(node, value, old, place);
                if tried.is_valid() {
                    valid += 1;
                    best = None;
                    success = success.or(Some(tried));
                } else if valid == 0 && best.as_ref().is_none_or(|best| tried.right > best.right) {
                    best = Some(tried);
                }
            }
            let reported = if valid == 1 {
                success
            } else {
                let found = match valid {
                    0 => "Found none valid".to_owned(),
                    several => format!("Found {several} valid alternatives"),
                };
                let what = format!("{} must validate one and only one schema (oneOf). {found}", quoted());
                outcome.merge_distinct(self.of_root(what));
                best
            };
            if let Some(reported) = reported {
                outcome.merge_distinct(reported);
            }
        }
        if !checks.all_of.is_empty() {
            let mut valid = 0;
            for node in &checks.all_of {
                let tried = self.schema(node, value, old, place);
                valid += usize::from(tried.is_valid());
                outcome.merge_distinct(tried);
            }
            if valid != checks.all_of.len() {
                let none = if valid == 0 { ". None validated" } else { "" };
                outcome
                    .merge_distinct(self.of_root(format!("{} must validate all the schemas (allOf){none}", quoted())));
            }
        }
        if let Some(not) = &checks.not
            && self.schema(not, value, old, place).is_valid()
        {
            outcome.merge_distinct(self.of_root(format!("{} must not validate the schema (not)", quoted())));
        }
        outcome.count();
        outcome
    }

    fn text(&self, checks: &Checks, text: &str, place: &ValuePath<'_>) -> Outcome {
        let length = || text.chars().count() as i64;
        if let Some(most) = checks.max_length.filter(|most| length() > *most) {
            let detail = match most {
                1 => "may not be more than 1 byte".to_owned(),
                0.. => format!("may not be more than {most} bytes"),
                _ => "value is too long".to_owned(),
            };
            return self.error(FieldErrorKind::TooLong, &place.text(), None, detail);
        }
        if let Some(least) = checks.min_length.filter(|least| length() < *least) {
            return self.invalid(place, text, format_args!("should be at least {least} chars long"));
        }
        match &checks.pattern {
            Some(pattern) if !pattern.matches(text) => {
                let expected = pattern.text();
                match pattern.error() {
                    Some(error) => {
                        let what = format_args!("should match '{expected}, but pattern is invalid: {error}'");
                        self.invalid(place, text, what)
                    }
                    None => self.invalid(place, text, format_args!("should match '{expected}'")),
                }
            }
            _ => Outcome::default(),
        }
    }

    fn format(&self, format: &str, text: &str, place: &ValuePath<'_>) -> Outcome {
        if has_form(format, text) {
            return Outcome::default();
        }
        let name = place.text();
        let detail = format!("{name} in body must be of type {format}: {text:?}");
        self.error(FieldErrorKind::TypeInvalid, &name, Some(text.into()), detail)
    }

    /// upstream: k8s.io/kube-openapi/pkg/validation/validate#numberValidator.Validate
    fn number(&self, node: &Node, checks: &Checks, value: &Value, place: &ValuePath<'_>) -> Outcome {
        let mut outcome = Outcome::default();
        let range = Range {
            node,
            format: &checks.format,
            place,
        };
        if let Some(error) = range.error("Checked", value) {
            outcome.merge(self.of_root(error));
        }
        // A bound that is not a number of the type is reported, and then compared as a float.
        let bound = |what: &str, bound: f64, outcome: &mut Outcome| match range.error(what, &Value::Float(bound)) {
            Some(error) => {
                outcome.merge(self.of_root(error));
                float(value).map_or(value.clone(), Value::Float)
            }
            None => value.clone(),
        };
        if let Some(of) = checks.multiple_of {
            let value = bound("MultipleOf", of, &mut outcome);
            outcome.merge(self.multiple(&value, of, place));
        }
        if let Some(Limit { value: most, exclusive }) = checks.maximum
            && let value = &bound("Maximum boundary", most, &mut outcome)
            && exceeds(value, most, exclusive, |a, b| a > b, |a, b| a > b)
        {
            let words = if exclusive {
                "less than"
            } else {
                "less than or equal to"
            };
            let most = shown(&shown_limit(value, most));
            outcome.merge(self.invalid(place, value.clone(), format_args!("should be {words} {most}")));
        }
        if let Some(Limit {
            value: least,
            exclusive,
        }) = checks.minimum
            && let value = &bound("Minimum boundary", least, &mut outcome)
            && exceeds(value, least, exclusive, |a, b| a < b, |a, b| a < b)
        {
            let words = if exclusive {
                "greater than"
            } else {
                "greater than or equal to"
            };
            let least = shown(&shown_limit(value, least));
            outcome.merge(self.invalid(place, value.clone(), format_args!("should be {words} {least}")));
        }
        outcome.count();
        outcome
    }

    /// Validates `multipleOf`: whole numbers are compared with the whole part of the factor.
    ///
    /// upstream: k8s.io/kube-openapi/pkg/validation/validate#MultipleOfNativeType
    fn multiple(&self, value: &Value, of: f64, place: &ValuePath<'_>) -> Outcome {
        let factor_value = shown_limit(value, of);
        let factor = float(&factor_value).unwrap_or_default();
        if factor <= 0.0 {
            let name = place.text();
            let detail = format!(
                "factor MultipleOf declared for {name} must be positive: {}",
                shown(&factor_value)
            );
            return self.error(FieldErrorKind::Invalid, &name, Some(factor_value), detail);
        }
        let fits = match (value, &factor_value) {
            (Value::Int(number), Value::Int(factor)) => number % factor == 0,
            _ => float(value).is_none_or(|number| {
                is_whole_number(if factor < 1.0 {
                    1.0 / factor * number
                } else {
                    number / factor
                })
            }),
        };
        if fits {
            return Outcome::default();
        }
        self.invalid(
            place,
            value.clone(),
            format_args!("should be a multiple of {}", shown(&factor_value)),
        )
    }

    fn list(
        &self,
        node: &Node,
        checks: &Checks,
        list: &List,
        old: Option<Ratchet<'_>>,
        place: &ValuePath<'_>,
    ) -> Outcome {
        let mut outcome = Outcome::default();
        if let Some(of) = &node.items {
            let before = old.and_then(|old| Correlation::new(node, old.0));
            for (at, item) in list.iter().enumerate() {
                if outcome.errors.len() >= MAX_ERRORS {
                    break;
                }
                let below = place.below(Step::Item(at));
                let old = before.as_ref().and_then(|before| before.old_item(item)).map(Ratchet);
                outcome.merge(self.value(of, item, old, &below));
            }
        }
        let items = list.len() as i64;
        if let Some(least) = checks.min_items.filter(|least| items < *least) {
            outcome.merge(self.invalid(place, items, format_args!("should have at least {least} items")));
        }
        if let Some(most) = checks.max_items.filter(|most| items > *most) {
            outcome.merge(self.too_many(place, items, most));
        }
        if checks.unique_items && has_repeated_item(list) {
            let name = place.text();
            let detail = format!("{name} in body shouldn't contain duplicates");
            outcome.merge(self.error(FieldErrorKind::Invalid, &name, Some("".into()), detail));
        }
        outcome.count();
        outcome
    }

    fn too_many(&self, place: &ValuePath<'_>, found: i64, most: i64) -> Outcome {
        let items = if most == 1 { "item" } else { "items" };
        let detail = format!("must have at most {most} {items}");
        self.error(FieldErrorKind::TooMany, &place.text(), Some(Value::Int(found)), detail)
    }

    fn listed(&self, checks: &Checks, value: &Value, place: &ValuePath<'_>) -> Outcome {
        if checks.values.is_empty() || checks.values.iter().any(|listed| is_listed(value, listed)) {
            return Outcome::default();
        }
        let texts: Vec<String> = checks
            .values
            .iter()
            .map(|value| match value {
                Value::String(text) => text.to_string(),
                other => other.to_string(),
            })
            .collect();
        let supported: Vec<&str> = texts.iter().map(String::as_str).collect();
        let mut outcome = self.error(FieldErrorKind::NotSupported, &place.text(), None, String::new());
        for error in &mut outcome.errors {
            *error = FieldError::not_supported(&error.field, value.clone(), &supported);
        }
        outcome
    }

    fn map(&self, node: &Node, checks: &Checks, map: &Map, old: Option<Ratchet<'_>>, place: &ValuePath<'_>) -> Outcome {
        let fields = map.len() as i64;
        let mut outcome = Outcome::default();
        if let Some(least) = checks.min_properties.filter(|least| fields < *least) {
            outcome.merge(self.invalid(place, fields, format_args!("should have at least {least} properties")));
        }
        if let Some(most) = checks.max_properties.filter(|most| fields > *most) {
            outcome.merge(self.too_many(place, fields, most));
        }
        let is_root = place.above.is_none() && self.root.as_str().is_empty();
        for (name, value) in map {
            if outcome.errors.len() >= MAX_ERRORS {
                break;
            }
            let known = node.property(name);
            let (of, step) = match (known, &node.additional) {
                (Some(of), _) => (of, Step::Field(name)),
                (None, Additional::Schema(of)) => (&**of, Step::Other(name)),
                (None, Additional::Allowed(false)) => {
                    let text = place.text();
                    let detail = format!("{text}.{name} in body is a forbidden property");
                    let value = Value::String(name.clone());
                    outcome.merge(self.error(FieldErrorKind::Invalid, &text, Some(value), detail));
                    continue;
                }
                (None, _) => continue,
            };
            let below = place.below(step);
            let identity = is_root && matches!(name.as_str(), "apiVersion" | "kind" | "metadata");
            let before = old.filter(|_| !identity).and_then(|old| old.0.get(name)).map(Ratchet);
            outcome.merge(self.value(of, value, before, &below));
        }
        for name in &checks.required {
            if !map.contains_key(name) {
                let text = format!("{}.{name}", place.text());
                outcome.merge(self.error(FieldErrorKind::Required, &text, None, String::new()));
            }
        }
        outcome
    }
}

fn json_type(value: &Value) -> JsonType {
    match value {
        Value::Null => JsonType::Unknown,
        Value::Bool(_) => JsonType::Boolean,
        Value::Int(_) => JsonType::Integer,
        // Go decodes numbers beyond signed 64 bits as floats.
        Value::UInt(_) | Value::Float(_) => JsonType::Number,
        Value::String(_) => JsonType::String,
        Value::List(_) => JsonType::Array,
        Value::Map(_) => JsonType::Object,
    }
}

/// Returns true if the value is one that `enum` lists. Numbers are converted to the type of the listed one, except
/// within lists and maps; null is never listed.
fn is_listed(value: &Value, listed: &Value) -> bool {
    match (value, listed) {
        (Value::Null, _) => false,
        (Value::Float(number), Value::Int(listed)) => *number as i64 == *listed,
        (Value::Int(number), Value::Float(listed)) => *number as f64 == *listed,
        _ => is_alike(value, listed),
    }
}

/// Returns true if two values are equal and of the same types.
fn is_alike(a: &Value, b: &Value) -> bool {
    match (a, b) {
        (Value::Int(_), Value::Float(_)) | (Value::Float(_), Value::Int(_)) => false,
        (Value::List(a), Value::List(b)) => a.len() == b.len() && a.iter().zip(b).all(|(a, b)| is_alike(a, b)),
        (Value::Map(a), Value::Map(b)) => {
            a.len() == b.len() && a.iter().all(|(key, a)| b.get(key).is_some_and(|b| is_alike(a, b)))
        }
        _ => a == b,
    }
}

/// Returns true if two items of a list are equal and of the same types.
fn has_repeated_item(list: &List) -> bool {
    let hashes = RandomState::new();
    let mut items_by_hash: HashMap<u64, Vec<&Value>> = HashMap::with_capacity(list.len());
    list.iter().any(|item| {
        let mut hasher = hashes.build_hasher();
        hash_with_types(item, &mut hasher);
        let items = items_by_hash.entry(hasher.finish()).or_default();
        let is_repeated = items.iter().any(|earlier| is_alike(item, earlier));
        items.push(item);
        is_repeated
    })
}

/// Hashes a value so that values have the same hash if they are equal and of the same types.
fn hash_with_types(value: &Value, hasher: &mut impl Hasher) {
    std::mem::discriminant(value).hash(hasher);
    match value {
        Value::Null => {}
        Value::Bool(flag) => flag.hash(hasher),
        Value::Int(number) => number.hash(hasher),
        Value::UInt(number) => number.hash(hasher),
        // Negative zero equals zero.
        Value::Float(number) => (number + 0.0).to_bits().hash(hasher),
        Value::String(text) => text.hash(hasher),
        Value::List(list) => {
            list.len().hash(hasher);
            list.iter().for_each(|item| hash_with_types(item, hasher));
        }
        Value::Map(map) => {
            map.len().hash(hasher);
            for (name, value) in map {
                name.hash(hasher);
                hash_with_types(value, hasher);
            }
        }
    }
}

#[cfg(test)]
mod tests;
