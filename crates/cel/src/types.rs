//! Types of the checker.

use std::fmt;
use std::sync::Arc;

use smol_str::SmolStr;

use crate::declaration::{DeclKind, DeclType};
use crate::extension::authorizer::{AUTHORIZER, RESOURCE_CHECK};

/// A type of CEL.
///
/// ```
/// use holdfast_cel::Type;
///
/// assert_eq!(Type::list(Type::Int).to_string(), "list(int)");
/// assert_eq!(Type::map(Type::String, Type::optional(Type::Bool)).to_string(), "map(string, optional_type(bool))");
/// ```
#[derive(Debug, Clone)]
pub enum Type {
    /// Any type; checks are deferred to the evaluation.
    Dyn,
    /// `null`.
    Null,
    /// `true` and `false`.
    Bool,
    /// A signed 64-bit integer.
    Int,
    /// An unsigned 64-bit integer.
    Uint,
    /// A float.
    Double,
    /// Text.
    String,
    /// Bytes.
    Bytes,
    /// `google.protobuf.Duration`.
    Duration,
    /// `google.protobuf.Timestamp`.
    Timestamp,
    /// `list(T)`.
    List(Arc<Type>),
    /// `map(K, V)`.
    Map(Arc<Type>, Arc<Type>),
    /// `optional_type(T)`.
    Optional(Arc<Type>),
    /// The type of a type.
    Type(Arc<Type>),
    /// An object of a schema, by its name in errors.
    Object(ObjectType),
    /// A type of a library that is identified only by its name, such as `kubernetes.URL`.
    Named(&'static str),
    /// A parameter of a declaration or, if numbered, an unknown type.
    Param(SmolStr),
    /// Type of an expression with errors.
    Error,
}

/// Object type: its name and, if a schema declares them, its fields.
///
/// ```
/// use holdfast_cel::{Environment, Type};
///
/// // `request` has one field.
/// let request = Type::object("Request", [("user".into(), Type::String)]);
/// assert!(matches!(request, Type::Object(_)));
/// let environment = Environment::new().with_variable("request", request);
/// assert!(environment.compile("request.user == 'a'", &[Type::Bool]).is_ok());
/// assert!(environment.compile("request.group == 'a'", &[Type::Bool]).is_err());
/// ```
#[derive(Debug, Clone)]
pub struct ObjectType {
    pub(crate) name: SmolStr,
    pub(crate) fields: Fields,
}

/// Source of an object type's fields.
#[derive(Debug, Clone)]
pub(crate) enum Fields {
    /// A schema.
    Declared(Arc<DeclType>),
    /// An explicit list of names and types, such as that of `variables`; sorted by name.
    Listed(Arc<Vec<(SmolStr, Type)>>),
    /// Any field, of any type: `Object` of a mutating policy.
    Any,
}

impl PartialEq for Type {
    fn eq(&self, other: &Self) -> bool {
        match (self, other) {
            (Type::List(a), Type::List(b)) | (Type::Optional(a), Type::Optional(b)) => a == b,
            (Type::Type(a), Type::Type(b)) => a == b,
            (Type::Map(a, b), Type::Map(c, d)) => a == c && b == d,
            (Type::Object(a), Type::Object(b)) => a.name == b.name,
            (Type::Named(a), Type::Named(b)) => a == b,
            (Type::Param(a), Type::Param(b)) => a == b,
            _ => std::mem::discriminant(self) == std::mem::discriminant(other) && self.is_plain(),
        }
    }
}

impl Eq for Type {}

impl Type {
    /// `list(items)`.
    pub fn list(items: Type) -> Self {
        Type::List(Arc::new(items))
    }

    /// `map(keys, values)`.
    pub fn map(keys: Type, values: Type) -> Self {
        Type::Map(Arc::new(keys), Arc::new(values))
    }

    /// `optional_type(inner)`.
    pub fn optional(inner: Type) -> Self {
        Type::Optional(Arc::new(inner))
    }

    /// Type of the variable `authorizer`.
    pub fn authorizer() -> Self {
        Type::Named(AUTHORIZER)
    }

    /// Type of `authorizer.requestResource`.
    pub fn resource_check() -> Self {
        Type::Named(RESOURCE_CHECK)
    }

    /// `Object`: the required type of an apply configuration's expression.
    pub fn apply_object() -> Self {
        Type::any_object("Object")
    }

    /// `list(JSONPatch)`: the required type of a JSON patch's expression.
    pub fn json_patches() -> Self {
        Type::list(json_patch())
    }

    /// Object type with explicit fields, such as that of `variables` or `request`.
    pub fn object(name: impl Into<SmolStr>, fields: impl IntoIterator<Item = (SmolStr, Type)>) -> Self {
        let mut fields: Vec<(SmolStr, Type)> = fields.into_iter().collect();
        fields.sort_by(|a, b| a.0.cmp(&b.0));
        Type::Object(ObjectType {
            name: name.into(),
            fields: Fields::Listed(Arc::new(fields)),
        })
    }

    /// Type of values of `decl`; its objects are named `name` followed by their path.
    pub fn declared(decl: &Arc<DeclType>, name: &str) -> Self {
        match &decl.kind {
            DeclKind::Bool => Type::Bool,
            DeclKind::Int => Type::Int,
            DeclKind::Double => Type::Double,
            DeclKind::String => Type::String,
            DeclKind::Bytes => Type::Bytes,
            DeclKind::Duration => Type::Duration,
            DeclKind::Date | DeclKind::DateTime => Type::Timestamp,
            DeclKind::IntOrString | DeclKind::Dyn => Type::Dyn,
            DeclKind::Quantity => Type::Named("kubernetes.Quantity"),
            DeclKind::List { items, .. } => Type::list(Type::declared(items, &format!("{name}.@idx"))),
            DeclKind::Map(values) => Type::map(Type::String, Type::declared(values, &format!("{name}.@elem"))),
            DeclKind::Object(_) | DeclKind::Opaque => Type::Object(ObjectType {
                name: SmolStr::new(name),
                fields: Fields::Declared(decl.clone()),
            }),
        }
    }

    /// `Object` of a mutating policy and, with a path, its nested objects: any field is allowed.
    pub(crate) fn any_object(name: &str) -> Self {
        Type::Object(ObjectType {
            name: SmolStr::new(name),
            fields: Fields::Any,
        })
    }

    /// Returns the type with its parameters, with the names used during evaluation.
    pub(crate) fn in_full(&self) -> String {
        match self {
            Type::List(items) => format!("list({})", items.in_full()),
            Type::Map(keys, values) => format!("map({}, {})", keys.in_full(), values.in_full()),
            Type::Optional(inner) => format!("optional_type({})", inner.in_full()),
            Type::Type(inner) => format!("type({})", inner.in_full()),
            other => other.type_name().to_owned(),
        }
    }

    fn is_plain(&self) -> bool {
        !matches!(
            self,
            Type::List(_) | Type::Map(..) | Type::Optional(_) | Type::Type(_) | Type::Object(_) | Type::Named(_)
        )
    }

    pub(crate) fn is_dyn(&self) -> bool {
        matches!(self, Type::Dyn | Type::Error)
    }

    /// Returns the name of the type itself, as `type(x)` displays it.
    pub(crate) fn type_name(&self) -> &str {
        match self {
            Type::Dyn => "dyn",
            Type::Null => "null_type",
            Type::Bool => "bool",
            Type::Int => "int",
            Type::Uint => "uint",
            Type::Double => "double",
            Type::String => "string",
            Type::Bytes => "bytes",
            Type::Duration => "google.protobuf.Duration",
            Type::Timestamp => "google.protobuf.Timestamp",
            Type::List(_) => "list",
            Type::Map(..) => "map",
            Type::Optional(_) => "optional_type",
            Type::Type(_) => "type",
            Type::Object(object) => &object.name,
            Type::Named(name) => name,
            Type::Param(name) => name,
            Type::Error => "!error!",
        }
    }
}

impl ObjectType {
    /// Returns the type of the field `name`.
    #[expect(clippy::indexing_slicing, reason = "the index was found in this list")]
    pub(crate) fn field(&self, name: &str) -> Option<Type> {
        match &self.fields {
            Fields::Any => Some(Type::Dyn),
            Fields::Declared(decl) => {
                let field = decl.field(name)?;
                Some(Type::declared(&field.decl, &format!("{}.{name}", self.name)))
            }
            Fields::Listed(fields) => {
                let at = fields.binary_search_by(|(field, _)| field.as_str().cmp(name)).ok()?;
                Some(fields[at].1.clone())
            }
        }
    }
}

/// Returns the type `JSONPatch` of mutating policies.
pub(crate) fn json_patch() -> Type {
    Type::Object(ObjectType {
        name: SmolStr::new_static("JSONPatch"),
        fields: Fields::Listed(Arc::new(vec![
            (SmolStr::new_static("from"), Type::String),
            (SmolStr::new_static("op"), Type::String),
            (SmolStr::new_static("path"), Type::String),
            (SmolStr::new_static("value"), Type::Dyn),
        ])),
    })
}

impl fmt::Display for Type {
    /// Formats the type as in compile errors.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Type::Null => f.write_str("null"),
            Type::Duration => f.write_str("duration"),
            Type::Timestamp => f.write_str("timestamp"),
            Type::List(items) => write!(f, "list({items})"),
            Type::Map(keys, values) => write!(f, "map({keys}, {values})"),
            Type::Optional(inner) => write!(f, "optional_type({inner})"),
            // The type of types is printed without its parameter.
            Type::Type(inner) if **inner == Type::Type(Type::Dyn.into()) => f.write_str("type(type)"),
            Type::Type(inner) => write!(f, "type({inner})"),
            other => f.write_str(other.type_name()),
        }
    }
}
