//! Schemas that type expressions: [`DeclType`].
//!
//! A structural schema, or the schema of a built-in kind, is converted to a `DeclType` once. The checker reads the
//! types from it, the cost estimator the sizes, and the evaluator the interpretation of a plain
//! [`Value`](holdfast_value::Value): a whole number of a `number` schema is a double, a text of format `date-time` a
//! timestamp, a list of type `set` compares without order.

use std::sync::Arc;

use smol_str::SmolStr;

use crate::escaping::{escape, is_reserved};
use crate::limits::MAX_REQUEST_SIZE;

/// Schema as CEL sees it. Built by the functions below and shared as `Arc`.
///
/// ```
/// use holdfast_cel::{DeclField, DeclType, ListType};
///
/// // The schema of a list of ports, which are identified by their numbers.
/// let port = DeclType::object(DeclField::new("port", DeclType::int(), true));
/// let ports = DeclType::list(port, Some(100), ListType::Map(vec!["port".into()]));
/// assert_eq!(ports.max_elements(), 100);
/// assert!(ports.items().unwrap().property("port").is_some());
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct DeclType {
    pub(crate) kind: DeclKind,
    /// Maximum number of characters, bytes, elements or entries; zero if the type has no size.
    pub(crate) max_elements: u64,
    /// Minimum size in JSON bytes.
    pub(crate) min_serialized: u64,
    pub(crate) nullable: bool,
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) enum DeclKind {
    Bool,
    Int,
    Double,
    String,
    Bytes,
    Duration,
    Date,
    DateTime,
    IntOrString,
    /// Text that is a quantity.
    Quantity,
    /// A value that is present and has any type.
    Dyn,
    List {
        items: Arc<DeclType>,
        list_type: ListType,
    },
    Map(Arc<DeclType>),
    /// Fields sorted by their CEL names.
    Object(Vec<DeclField>),
    /// An object without declared fields: no field can be accessed.
    Opaque,
}

/// Comparison and addition of a list (`x-kubernetes-list-type`).
///
/// ```
/// use std::sync::Arc;
/// use holdfast_cel::{Activation, Budget, CelValue, DeclType, Environment, ListType, Type};
/// use holdfast_value::{Limits, json};
///
/// // Sets have no order.
/// let tags = Arc::new(DeclType::list(DeclType::string(None), None, ListType::Set));
/// let environment = Environment::new().with_object("self", tags.clone());
/// let rule = environment.compile("self == ['b', 'a']", &[Type::Bool])?;
/// let value = CelValue::typed(&json::parse(br#"["a","b"]"#, &Limits::REQUEST)?, &tags)?;
/// let answer = rule.evaluate(&Activation::new(&environment).with("self", value), &mut Budget::default())?;
/// assert_eq!(answer.as_bool(), Some(true));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum ListType {
    /// By position.
    #[default]
    Atomic,
    /// Without order; `+` forms the union.
    Set,
    /// By the values of these properties; `+` replaces elements with the same key.
    Map(Vec<SmolStr>),
}

/// Property of an object.
///
/// ```
/// use holdfast_cel::{DeclField, DeclType};
///
/// assert!(DeclField::new("replicas", DeclType::int(), true).is_some());
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct DeclField {
    /// Escaped name in expressions.
    pub(crate) name: SmolStr,
    /// Name in the object.
    pub(crate) property: SmolStr,
    pub(crate) decl: Arc<DeclType>,
    required: bool,
}

impl DeclField {
    /// Creates the property `property`. `required` means that clients always write it: it is required and has no
    /// default. `None` if CEL cannot name it.
    pub fn new(property: impl Into<SmolStr>, decl: impl Into<Arc<DeclType>>, required: bool) -> Option<Self> {
        let property = property.into();
        Some(Self {
            name: escape(&property)?,
            property,
            decl: decl.into(),
            required,
        })
    }
}

/// Sizes of JSON texts in bytes.
const MIN_STRING: u64 = 2;
const MIN_BOOL: u64 = 4;
const MIN_NUMBER: u64 = 1;
const MIN_DURATION: u64 = 3;
const DATE: u64 = 12;
const MIN_DATE_TIME: u64 = 21;
const MAX_TIME: u64 = 32;

impl DeclType {
    fn new(kind: DeclKind, max_elements: u64, min_serialized: u64) -> Self {
        Self {
            kind,
            max_elements,
            min_serialized,
            nullable: false,
        }
    }

    /// `type: boolean`.
    pub fn bool() -> Self {
        Self::new(DeclKind::Bool, 0, MIN_BOOL)
    }

    /// `type: integer`.
    pub fn int() -> Self {
        Self::new(DeclKind::Int, 0, MIN_NUMBER)
    }

    /// `type: number`.
    pub fn double() -> Self {
        Self::new(DeclKind::Double, 0, MIN_NUMBER)
    }

    /// `type: string` without a format that has its own type. `max_length` counts characters.
    pub fn string(max_length: Option<u64>) -> Self {
        // A character has at most four bytes, and costs count bytes.
        let max = max_length.map_or(MAX_REQUEST_SIZE - 2, |length| length.saturating_mul(4));
        Self::new(DeclKind::String, max, MIN_STRING)
    }

    /// `type: string` with an `enum` and without `maxLength`: as long as the longest of `values`.
    pub fn enumeration<'a>(values: impl IntoIterator<Item = &'a str>) -> Self {
        let longest = values.into_iter().map(str::len).max().unwrap_or(0);
        Self::new(DeclKind::String, longest as u64, MIN_STRING)
    }

    /// `type: string, format: byte`.
    pub fn bytes(max_length: Option<u64>) -> Self {
        Self::new(DeclKind::Bytes, max_length.unwrap_or(MAX_REQUEST_SIZE - 2), MIN_STRING)
    }

    /// `type: string, format: duration`.
    pub fn duration() -> Self {
        Self::new(DeclKind::Duration, MAX_TIME, MIN_DURATION)
    }

    /// `type: string, format: date`: a timestamp.
    pub fn date() -> Self {
        Self::new(DeclKind::Date, DATE, DATE)
    }

    /// `type: string, format: date-time`: a timestamp.
    pub fn date_time() -> Self {
        Self::new(DeclKind::DateTime, MAX_TIME, MIN_DATE_TIME)
    }

    /// `x-kubernetes-int-or-string: true`: typed as `dyn`.
    pub fn int_or_string(max_length: Option<u64>) -> Self {
        let max = max_length.map_or(MAX_REQUEST_SIZE - 2, |length| length.saturating_mul(4));
        Self::new(DeclKind::IntOrString, max, MIN_NUMBER)
    }

    /// A quantity such as `10Gi`: the capacity of a device.
    pub fn quantity() -> Self {
        Self::new(DeclKind::Quantity, 0, MIN_STRING)
    }

    /// Unchecked data of any type: `object` of an admission policy.
    pub fn dyn_() -> Self {
        Self::new(DeclKind::Dyn, MAX_REQUEST_SIZE - 2, 1)
    }

    /// `type: object` with `x-kubernetes-preserve-unknown-fields` and neither properties nor additionalProperties: it
    /// is compared as a whole, and no field can be accessed.
    pub fn opaque() -> Self {
        Self::new(DeclKind::Opaque, 0, 2)
    }

    /// `type: array` of `items`.
    pub fn list(items: impl Into<Arc<DeclType>>, max_items: Option<u64>, list_type: ListType) -> Self {
        let items = items.into();
        let max = max_items.unwrap_or((MAX_REQUEST_SIZE - 2) / (items.min_serialized + 1));
        Self::new(DeclKind::List { items, list_type }, max, 2)
    }

    /// `type: object` with `additionalProperties` of `values`.
    pub fn map(values: impl Into<Arc<DeclType>>, max_properties: Option<u64>) -> Self {
        let values = values.into();
        let max = max_properties.unwrap_or((MAX_REQUEST_SIZE - 2) / (values.min_serialized + 6));
        Self::new(DeclKind::Map(values), max, 2)
    }

    /// `type: object` with properties.
    pub fn object(fields: impl IntoIterator<Item = DeclField>) -> Self {
        let mut fields: Vec<DeclField> = fields.into_iter().collect();
        fields.sort_by(|a, b| a.name.cmp(&b.name));
        fields.dedup_by(|later, earlier| later.name == earlier.name);
        let required = fields.iter().filter(|field| field.required);
        let min = required.fold(2_u64, |sum, field| {
            sum.saturating_add(field.property.len() as u64 + field.decl.min_serialized + 4)
        });
        Self::new(DeclKind::Object(fields), 0, min)
    }

    /// Root object of a resource, or an embedded resource: in addition to `fields`, only `apiVersion`, `kind`,
    /// `metadata.name` and `metadata.generateName` can be accessed.
    pub fn resource(fields: impl IntoIterator<Item = DeclField>) -> Self {
        let text = || Arc::new(Self::string(None));
        let field = |name: &str, decl: Arc<DeclType>| DeclField {
            name: SmolStr::new(name),
            property: SmolStr::new(name),
            decl,
            required: false,
        };
        let metadata = Self::object([field("name", text()), field("generateName", text())]);
        let own = [
            field("apiVersion", text()),
            field("kind", text()),
            field("metadata", Arc::new(metadata)),
        ];
        let other: Vec<DeclField> = fields
            .into_iter()
            .filter(|other| own.iter().all(|field| field.name != other.name))
            .collect();
        Self::object(own.into_iter().chain(other))
    }

    /// Adds a property that is always written and that CEL cannot access: it only counts towards the JSON size.
    #[must_use]
    pub fn with_unnamed_property(mut self, property: &str, decl: &DeclType) -> Self {
        let taken = property.len() as u64 + decl.min_serialized + 4;
        self.min_serialized = self.min_serialized.saturating_add(taken);
        self
    }

    /// Sets the maximum number of characters, bytes, elements or entries.
    #[must_use]
    pub fn with_max_elements(mut self, most: u64) -> Self {
        self.max_elements = most;
        self
    }

    /// Allows `null` (`nullable: true`).
    #[must_use]
    pub fn nullable(mut self) -> Self {
        self.nullable = true;
        self
    }

    /// Returns the maximum number of elements, entries or characters, if the type has a size.
    pub fn max_elements(&self) -> u64 {
        self.max_elements
    }

    /// Returns the maximum number of values of this type in one request: the cardinality of a rule below an unbounded
    /// list.
    pub fn max_cardinality(&self) -> u64 {
        MAX_REQUEST_SIZE / (self.min_serialized + 1)
    }

    /// Returns the declared property with the CEL name `name`.
    #[expect(clippy::indexing_slicing, reason = "the index was found in this list")]
    pub(crate) fn field(&self, name: &str) -> Option<&DeclField> {
        let DeclKind::Object(fields) = &self.kind else {
            return None;
        };
        let find = |name: &str| fields.binary_search_by(|field| field.name.as_str().cmp(name)).ok();
        // A selected field may have a reserved word as its name.
        let wrapped = || is_reserved(name).then(|| format!("__{name}__"));
        let at = find(name).or_else(|| find(&wrapped()?))?;
        Some(&fields[at])
    }

    /// Returns the declaration of the property `property`, or of the values of a map. `None` if CEL cannot access it.
    pub fn property(&self, property: &str) -> Option<&Arc<DeclType>> {
        match &self.kind {
            DeclKind::Map(values) => Some(values),
            DeclKind::Object(fields) => {
                let plain = self.field(property).filter(|field| field.property == property);
                let found = plain.or_else(|| fields.iter().find(|field| field.property == property));
                found.map(|field| &field.decl)
            }
            _ => None,
        }
    }

    /// Returns the declaration of a list's elements.
    pub fn items(&self) -> Option<&Arc<DeclType>> {
        match &self.kind {
            DeclKind::List { items, .. } => Some(items),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_follow_bounds_and_else_what_fits_a_request() {
        assert_eq!(DeclType::string(Some(10)).max_elements, 40);
        assert_eq!(DeclType::string(None).max_elements, 3_145_726);
        assert_eq!(DeclType::enumeration(["a", "abc"]).max_elements, 3);
        let list = DeclType::list(DeclType::string(None), None, ListType::Atomic);
        assert_eq!(list.max_elements, 3_145_726 / 3);
        let map = DeclType::map(DeclType::int(), None);
        assert_eq!(map.max_elements, 3_145_726 / 7);
        let object = DeclType::object(
            [
                DeclField::new("name", DeclType::string(None), true),
                DeclField::new("other", DeclType::int(), false),
            ]
            .into_iter()
            .flatten(),
        );
        assert_eq!(object.min_serialized, 2 + 4 + 2 + 4);
    }

    #[test]
    fn properties_are_found_by_their_escaped_and_their_own_names() {
        let object = DeclType::object(DeclField::new("x-y", DeclType::int(), false));
        assert_eq!(
            object.field("x__dash__y").map(|field| field.property.as_str()),
            Some("x-y")
        );
        assert!(object.field("x-y").is_none());
        assert!(object.property("x-y").is_some());
    }
}
