//! Values with their types, and the operations on them.

mod atomics;
mod compare;
mod extract;
mod items;
mod merge;
mod reconcile;
mod remove;
mod repeated;
mod to_fields_v1;
mod to_set;
mod validate;

use std::fmt;
use std::sync::Arc;

use holdfast_value::Value;

pub use compare::Comparison;
pub use extract::KeyFields;
pub(crate) use remove::Emptied;
pub use repeated::RepeatedItems;
pub use validate::Duplicates;

use crate::schema::{DEDUCED, Schema, SchemaBuilder, Type, TypeRef};

/// Value with its intended type. A clone shares the value.
///
/// A validated value is merged and compared faster, because fewer parts must be checked again. Other values may have
/// any content: operations on them return errors if the type does not fit, or omit parts, but never panic.
///
/// ```
/// use holdfast_merge::Typed;
/// use holdfast_value::{Limits, json};
///
/// let existing = Typed::deduced(json::parse(br#"{"a":1,"b":[1,2]}"#, &Limits::REQUEST)?);
/// assert_eq!(existing.to_field_set()?.to_fields_v1(), r#"{"f:a":{},"f:b":{}}"#);
/// assert!(!existing.is_empty());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct Typed {
    value: Value,
    schema: Arc<Schema>,
    type_ref: TypeRef,
    checked: Checked,
}

/// Validation state of a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Checked {
    /// Not validated.
    No,
    /// Valid, but associative lists may have items with the same key.
    Valid,
    /// Valid, and each item of an associative list has a distinct key.
    Unique,
}

/// Validation errors of a value, with their paths. Never empty.
///
/// ```
/// use std::sync::Arc;
/// use holdfast_merge::{Duplicates, FieldSpec, MapSpec, Scalar, SchemaBuilder, Typed};
/// use holdfast_value::{Limits, json};
///
/// let fields = ["replicas", "observed"].map(|name| FieldSpec::new(name, Scalar::Numeric));
/// let schema = Arc::new(SchemaBuilder::new().define("Scale", MapSpec::from_fields(fields)).build());
/// let scale = schema.named("Scale").unwrap();
/// let value = json::parse(br#"{"replicas":"three","observed":"two"}"#, &Limits::REQUEST)?;
/// let errors = Typed::new(value, schema, scale, Duplicates::Rejected).unwrap_err();
/// assert_eq!(errors.errors().len(), 2);
/// # Ok::<(), holdfast_value::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ValidationErrors(pub(crate) Vec<ValidationError>);

/// Validation error at one path of a value.
///
/// ```
/// use holdfast_merge::ValidationError;
///
/// let error = ValidationError { path: ".replicas".into(), message: "expected numeric (int or float), got string".into() };
/// assert_eq!(error.to_string(), ".replicas: expected numeric (int or float), got string");
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ValidationError {
    /// Path in the form of messages, empty for the root.
    pub path: String,
    /// The reference's message.
    pub message: String,
}

impl ValidationErrors {
    pub(crate) fn from_message(message: impl Into<String>) -> Self {
        Self(vec![ValidationError::new(message)])
    }

    /// Returns the errors.
    pub fn errors(&self) -> &[ValidationError] {
        &self.0
    }
}

impl ValidationError {
    pub(crate) fn new(message: impl Into<String>) -> Self {
        Self {
            path: String::new(),
            message: message.into(),
        }
    }
}

impl fmt::Display for ValidationError {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.path.is_empty() {
            write!(out, "{}: ", self.path)?;
        }
        out.write_str(&self.message)
    }
}

impl fmt::Display for ValidationErrors {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let [error] = self.0.as_slice() {
            return error.fmt(out);
        }
        out.write_str("errors:")?;
        self.0.iter().try_for_each(|error| write!(out, "\n  {error}"))
    }
}

impl std::error::Error for ValidationErrors {}

impl Typed {
    /// Creates a valid value.
    ///
    /// # Errors
    /// Returns all validation errors of the value.
    pub fn new(
        value: Value,
        schema: Arc<Schema>,
        type_ref: TypeRef,
        duplicates: Duplicates,
    ) -> Result<Self, ValidationErrors> {
        let mut typed = Self::unchecked(value, schema, type_ref);
        typed.validate(duplicates)?;
        typed.checked = match duplicates {
            Duplicates::Rejected => Checked::Unique,
            Duplicates::Allowed => Checked::Valid,
        };
        Ok(typed)
    }

    /// Creates a value with the type of `valid`, which fits that type. Parts shared by both are not validated again.
    /// Items with the same key are allowed.
    ///
    /// # Errors
    /// Returns all validation errors of the other parts.
    pub fn changed(value: Value, valid: &Typed) -> Result<Self, ValidationErrors> {
        let mut typed = Self::unchecked(value, Arc::clone(&valid.schema), valid.type_ref);
        typed.validate_against(Duplicates::Allowed, Some(&valid.value))?;
        typed.checked = Checked::Valid;
        Ok(typed)
    }

    /// Creates a value that may not fit its type.
    pub fn unchecked(value: Value, schema: Arc<Schema>, type_ref: TypeRef) -> Self {
        Self {
            value,
            schema,
            type_ref,
            checked: Checked::No,
        }
    }

    /// Creates a value that is known to fit its type, except that associative lists may have items with the same key;
    /// for example, one that was validated before it was stored. If it does not fit after all, errors may go unnoticed.
    pub fn trusted(value: Value, schema: Arc<Schema>, type_ref: TypeRef) -> Self {
        Self {
            checked: Checked::Valid,
            ..Self::unchecked(value, schema, type_ref)
        }
    }

    /// Creates a value whose type is deduced from its content: maps are granular, lists atomic.
    pub fn deduced(value: Value) -> Self {
        static SCHEMA: std::sync::LazyLock<(Arc<Schema>, TypeRef)> = std::sync::LazyLock::new(|| {
            let schema = SchemaBuilder::new().define_deduced().build();
            let type_ref = schema.named(DEDUCED).unwrap_or(TypeRef::NONE);
            (Arc::new(schema), type_ref)
        });
        let (schema, type_ref) = &*SCHEMA;
        Self {
            checked: Checked::Unique,
            ..Self::unchecked(value, Arc::clone(schema), *type_ref)
        }
    }

    /// Returns the value.
    pub fn value(&self) -> &Value {
        &self.value
    }

    /// Converts into the value.
    pub fn into_value(self) -> Value {
        self.value
    }

    /// Returns the schema of the type.
    pub fn schema(&self) -> &Arc<Schema> {
        &self.schema
    }

    /// Returns the type.
    pub fn type_ref(&self) -> TypeRef {
        self.type_ref
    }

    /// True if the value is null, or an empty map or list.
    pub fn is_empty(&self) -> bool {
        match &self.value {
            Value::Null => true,
            Value::Map(map) => map.is_empty(),
            Value::List(list) => list.is_empty(),
            _ => false,
        }
    }

    /// True if both are the same value in memory, with the same type.
    pub(crate) fn same(&self, other: &Self) -> bool {
        self.has_type_of(other) && same(&self.value, &other.value)
    }

    fn has_type_of(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.schema, &other.schema) && self.type_ref == other.type_ref
    }

    fn require_type_of(&self, other: &Self) -> Result<(), ValidationErrors> {
        if !Arc::ptr_eq(&self.schema, &other.schema) {
            return Err(ValidationErrors::from_message(
                "expected objects with types from the same schema",
            ));
        }
        if self.type_ref != other.type_ref {
            let name = |typed: &Self| self.schema.resolve(typed.type_ref).name.clone().unwrap_or_default();
            return Err(ValidationErrors::from_message(format!(
                "expected objects of the same type, but got {} and {}",
                name(self),
                name(other)
            )));
        }
        Ok(())
    }

    fn with_value(&self, value: Value, checked: Checked) -> Self {
        Self {
            value,
            schema: Arc::clone(&self.schema),
            type_ref: self.type_ref,
            checked,
        }
    }
}

/// Kind of a type as which a value is walked.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Map,
    Scalar,
    List,
}

/// Returns the kinds of a type that apply to a value: the one that fits the value, otherwise all.
fn deduce(of: &Type, value: &Value) -> u8 {
    let fitting = match value {
        Value::Null => 0,
        Value::Map(_) => 4,
        Value::List(_) => 2,
        Value::Bool(_) | Value::Int(_) | Value::UInt(_) | Value::Float(_) | Value::String(_) => 1,
    };
    match of.kinds() & fitting {
        0 => of.kinds(),
        fits => fits,
    }
}

/// Returns the kind to walk: maps have priority over scalars, scalars over lists.
fn first_kind(kinds: u8) -> Option<Kind> {
    match kinds {
        4.. => Some(Kind::Map),
        1 | 3 => Some(Kind::Scalar),
        2 => Some(Kind::List),
        0 => None,
    }
}

/// Returns the error of a type that has no kinds or is not defined.
///
/// upstream: sigs.k8s.io/structured-merge-diff/v6/typed#resolveSchema
fn unusable(of: &Type) -> ValidationError {
    let name = of.name.as_deref();
    ValidationError::new(match (of.missing, name) {
        (true, name) => format!(
            "schema error: no type found matching: {}",
            name.unwrap_or("inlined type")
        ),
        (false, None) => "schema error: invalid atom: inlined".to_owned(),
        (false, Some(name)) => format!("schema error: invalid atom: named type: {name}"),
    })
}

/// True if two values are shared in memory, or are identical scalars.
fn same(a: &Value, b: &Value) -> bool {
    match (a, b) {
        (Value::Map(a), Value::Map(b)) => a.same(b),
        (Value::List(a), Value::List(b)) => a.same(b),
        _ => identical(a, b),
    }
}

/// True if two values are identical, which is stricter than equal: `1` and `1.0` are not identical.
fn identical(a: &Value, b: &Value) -> bool {
    match (a, b) {
        (Value::Null, Value::Null) => true,
        (Value::Bool(a), Value::Bool(b)) => a == b,
        (Value::Int(a), Value::Int(b)) => a == b,
        (Value::UInt(a), Value::UInt(b)) => a == b,
        (Value::Float(a), Value::Float(b)) => a.to_bits() == b.to_bits(),
        (Value::String(a), Value::String(b)) => a == b,
        (Value::List(a), Value::List(b)) => {
            a.same(b) || (a.len() == b.len() && a.iter().zip(b).all(|(a, b)| identical(a, b)))
        }
        (Value::Map(a), Value::Map(b)) => {
            a.same(b)
                || (a.len() == b.len()
                    && a.iter()
                        .zip(b)
                        .all(|((a_key, a), (b_key, b))| a_key == b_key && identical(a, b)))
        }
        _ => false,
    }
}

/// Errors of a walk, which get their paths on the way back up.
#[derive(Default)]
struct Errors(Vec<ValidationError>);

impl Errors {
    /// Adds an error, unless there are already too many for anyone to read.
    fn push(&mut self, error: ValidationError) {
        const MAX_ERRORS: usize = 100;
        if self.0.len() < MAX_ERRORS {
            self.0.push(error);
        }
    }

    fn count(&self) -> usize {
        self.0.len()
    }

    /// Prepends an element to the paths of the errors added after the first `before`.
    #[expect(clippy::indexing_slicing, reason = "an earlier length of the list")]
    fn prefix(&mut self, before: usize, element: impl FnOnce() -> crate::PathElement) {
        if self.0.len() > before {
            let prefix = element().to_string();
            for error in &mut self.0[before..] {
                error.path.insert_str(0, &prefix);
            }
        }
    }

    /// Removes the errors added after the first `before`.
    fn forget(&mut self, before: usize) {
        self.0.truncate(before);
    }

    fn result(self) -> Result<(), ValidationErrors> {
        match self.0.is_empty() {
            true => Ok(()),
            false => Err(ValidationErrors(self.0)),
        }
    }
}
