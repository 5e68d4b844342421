//! Validation of a value against its type.

use holdfast_value::text::{Plain, Syntax};
use holdfast_value::{Map, Value};

use super::items::{Name, all_differ, duplicate_error, names, repeats};
use super::{Errors, Kind, Typed, ValidationError, ValidationErrors, deduce, first_kind, unusable};
use crate::PathElement;
use crate::scan::MAX_DEPTH;
use crate::schema::{ListType, MapType, Relationship, Scalar, Schema, TypeRef};

/// Treatment of items with the same key in an associative list.
///
/// ```
/// use std::sync::Arc;
/// use holdfast_merge::{Duplicates, FieldSpec, ListSpec, MapSpec, Scalar, SchemaBuilder, Typed};
/// use holdfast_value::{Limits, json};
///
/// let tags = FieldSpec::new("tags", ListSpec::set(Scalar::String));
/// let schema = Arc::new(SchemaBuilder::new().define("Thing", MapSpec::from_fields([tags])).build());
/// let thing = schema.named("Thing").unwrap();
/// let typed = Typed::unchecked(json::parse(br#"{"tags":["a","a"]}"#, &Limits::REQUEST)?, schema, thing);
/// assert!(typed.validate(Duplicates::Allowed).is_ok());
/// assert!(typed.validate(Duplicates::Rejected).is_err());
/// # Ok::<(), holdfast_value::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Duplicates {
    /// They make the value invalid: applied or created objects must not have them.
    Rejected,
    /// They are allowed, because stored objects may have them.
    Allowed,
}

impl Typed {
    /// Validates the value against its type.
    ///
    /// upstream: sigs.k8s.io/structured-merge-diff/v6/typed#TypedValue.Validate
    ///
    /// # Errors
    /// Returns all validation errors.
    pub fn validate(&self, duplicates: Duplicates) -> Result<(), ValidationErrors> {
        self.validate_against(duplicates, None)
    }

    /// Validates like [`Typed::validate`], but skips parts that are shared with `valid`.
    ///
    /// upstream: sigs.k8s.io/structured-merge-diff/v6/typed#TypedValue.Validate
    pub(super) fn validate_against(
        &self,
        duplicates: Duplicates,
        valid: Option<&Value>,
    ) -> Result<(), ValidationErrors> {
        let mut validator = Validator::new(&self.schema, duplicates, 0);
        validator.node(self.type_ref, &self.value, valid);
        validator.errors.result()
    }
}

/// True if a value at this nesting depth fits its type, and no list in it has two items with the same key.
pub(super) fn is_valid(schema: &Schema, type_ref: TypeRef, value: &Value, depth: usize) -> bool {
    let mut validator = Validator::new(schema, Duplicates::Rejected, depth);
    validator.node(type_ref, value, None);
    validator.errors.count() == 0
}

struct Validator<'a> {
    schema: &'a Schema,
    duplicates: Duplicates,
    errors: Errors,
    depth: usize,
}

impl<'a> Validator<'a> {
    fn new(schema: &'a Schema, duplicates: Duplicates, depth: usize) -> Self {
        Self {
            schema,
            duplicates,
            errors: Errors::default(),
            depth,
        }
    }

    /// Validates a node unless it is the same as `valid`, the node at this path in a value that fits its type.
    fn node(&mut self, type_ref: TypeRef, value: &Value, valid: Option<&Value>) {
        if valid.is_some_and(|valid| valid.shares(value)) {
            return;
        }
        let resolved = self.schema.resolve(type_ref);
        if resolved.missing {
            return self.errors.push(unusable(resolved));
        }
        match (
            first_kind(deduce(resolved, value)),
            &resolved.map,
            &resolved.scalar,
            &resolved.list,
        ) {
            (Some(Kind::Map), Some(map), ..) => match value {
                Value::Map(entries) => self.descend(|validator| validator.map(map, entries, valid)),
                Value::Null => {}
                _ => self.unexpected("map", value),
            },
            (Some(Kind::Scalar), _, Some(scalar), _) => {
                if let Some(error) = scalar_error(scalar, value, "") {
                    self.errors.push(error);
                }
            }
            (Some(Kind::List), _, _, Some(list)) => match value {
                Value::List(items) => self.descend(|validator| validator.list(list, items, valid)),
                Value::Null => {}
                _ => self.unexpected("list", value),
            },
            _ => self.errors.push(unusable(resolved)),
        }
    }

    fn descend(&mut self, visit: impl FnOnce(&mut Self)) {
        if self.depth >= MAX_DEPTH {
            return self.errors.push(ValidationError::new("nested too deeply"));
        }
        self.depth += 1;
        visit(self);
        self.depth -= 1;
    }

    fn unexpected(&mut self, expected: &str, value: &Value) {
        let message = format!("expected {expected}, got &{{{}}}", Plain(value));
        self.errors.push(ValidationError::new(message));
    }

    /// upstream: sigs.k8s.io/structured-merge-diff/v6/typed#validatingObjectWalker.visitMapItems
    fn map(&mut self, map: &MapType, entries: &Map, valid: Option<&Value>) {
        let mut fields = map.cursor();
        for (key, value) in entries {
            let below = fields.find(key).map_or(map.element, |field| field.type_ref);
            let before = self.errors.count();
            if below == TypeRef::NONE {
                self.errors.push(ValidationError::new("field not declared in schema"));
                self.errors.prefix(before, || PathElement::Field(key.clone()));
                return;
            }
            self.node(below, value, valid.and_then(|valid| valid.get(key)));
            self.errors.prefix(before, || PathElement::Field(key.clone()));
        }
    }

    fn list(&mut self, list: &ListType, items: &[Value], valid: Option<&Value>) {
        let valid = |at: usize| valid.and_then(|valid| valid.as_list()?.get(at));
        if list.relationship != Relationship::Associative {
            for (at, item) in items.iter().enumerate() {
                let before = self.errors.count();
                self.node(list.element, item, valid(at));
                self.errors
                    .prefix(before, || PathElement::Index(i64::try_from(at).unwrap_or(i64::MAX)));
            }
            return;
        }
        match names(list, items) {
            Ok(names) => {
                let is_checked = self.duplicates == Duplicates::Rejected && !all_differ(&names);
                let repeats = if is_checked { repeats(&names) } else { Vec::new() };
                for (at, (name, item)) in names.iter().zip(items).enumerate() {
                    // Reported before the errors of the item itself.
                    if repeats.get(at).is_some_and(|is_repeated| *is_repeated) {
                        self.errors.push(duplicate_error(list, name));
                    }
                    self.item(list, name, item, valid(at));
                }
            }
            Err(_) => self.list_with_nameless_item(list, items),
        }
    }

    fn item(&mut self, list: &ListType, name: &Name<'_>, item: &Value, valid: Option<&Value>) {
        let before = self.errors.count();
        self.node(list.element, item, valid);
        self.errors.prefix(before, || list.element(name));
    }

    /// Validates the items up to the first one without a key, where the reference stops.
    fn list_with_nameless_item(&mut self, list: &ListType, items: &[Value]) {
        for (at, item) in items.iter().enumerate() {
            match list.name(item) {
                Ok(name) => self.item(list, &name, item, None),
                Err(reason) => {
                    return self
                        .errors
                        .push(ValidationError::new(format!("element {at}: {reason}")));
                }
            }
        }
    }
}

/// Returns the error of a scalar, if any; `side` is prepended to the message.
///
/// upstream: sigs.k8s.io/structured-merge-diff/v6/typed#validateScalar
pub(super) fn scalar_error(scalar: &Scalar, value: &Value, side: &str) -> Option<ValidationError> {
    let number = matches!(value, Value::Int(_) | Value::UInt(_) | Value::Float(_));
    let got = || Plain(value);
    let message = match (scalar, value) {
        (_, Value::Null) | (Scalar::String, Value::String(_)) | (Scalar::Boolean, Value::Bool(_)) => return None,
        (Scalar::Numeric | Scalar::Untyped, _) if number => return None,
        (Scalar::Untyped, Value::String(_) | Value::Bool(_)) => return None,
        (Scalar::Numeric, _) => format!("{side}expected numeric (int or float), got {}", value.go_type()),
        (Scalar::String, _) => format!(
            "{side}expected string, got &value.valueUnstructured{{Value:{}}}",
            Syntax(value)
        ),
        (Scalar::Boolean, _) => format!("{side}expected boolean, got &{{{}}}", got()),
        (Scalar::Untyped, _) => format!("{side}expected any scalar, got &{{{}}}", got()),
        (Scalar::Unknown(name), _) => format!("{side}unexpected scalar type in schema: {name}"),
    };
    Some(ValidationError::new(message))
}
