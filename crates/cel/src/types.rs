//! The types that the checker works with.

use std::fmt;
use std::sync::Arc;

use smol_str::SmolStr;

use crate::declaration::{DeclKind, DeclType};

/// A type of CEL.
#[derive(Debug, Clone)]
pub enum Type {
    /// Anything; checks wait until evaluation.
    Dyn,
    /// `null`.
    Null,
    /// `true` and `false`.
    Bool,
    /// 64 bits with a sign.
    Int,
    /// 64 bits without.
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
    /// An object of a schema, by the name that errors show.
    Object(ObjectType),
    /// A type of a library that is known by its name alone, such as `kubernetes.URL`.
    Named(&'static str),
    /// A parameter of a declaration or, numbered, a type that is not known yet.
    Param(SmolStr),
    /// What an expression that does not check has.
    Error,
}

/// An object type: its name and, where a schema gives them, its fields.
#[derive(Debug, Clone)]
pub struct ObjectType {
    pub(crate) name: SmolStr,
    pub(crate) fields: Fields,
}

/// Where the fields of an object type are known from.
#[derive(Debug, Clone)]
pub(crate) enum Fields {
    /// A schema.
    Declared(Arc<DeclType>),
    /// Names and types of their own, such as those of `variables`; sorted by name.
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

    /// The type of the variable `authorizer`.
    pub fn authorizer() -> Self {
        Type::Named(crate::library::authorizer::AUTHORIZER)
    }

    /// The type of `authorizer.requestResource`.
    pub fn resource_check() -> Self {
        Type::Named(crate::library::authorizer::RESOURCE_CHECK)
    }

    /// `Object`: what the expression of an apply configuration must evaluate to.
    pub fn apply_object() -> Self {
        Type::any_object("Object")
    }

    /// `list(JSONPatch)`: what the expression of a JSON patch must evaluate to.
    pub fn json_patches() -> Self {
        Type::list(crate::functions::json_patch())
    }

    /// An object type with fields of its own, such as that of `variables` or `request`.
    pub fn object(name: impl Into<SmolStr>, fields: impl IntoIterator<Item = (SmolStr, Type)>) -> Self {
        let mut fields: Vec<(SmolStr, Type)> = fields.into_iter().collect();
        fields.sort_by(|a, b| a.0.cmp(&b.0));
        Type::Object(ObjectType {
            name: name.into(),
            fields: Fields::Listed(Arc::new(fields)),
        })
    }

    /// The type of values of `decl`; objects in it are named `name` and below it by their path.
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

    /// `Object` of a mutating policy and, with a path, the objects below it: any fields.
    pub(crate) fn any_object(name: &str) -> Self {
        Type::Object(ObjectType {
            name: SmolStr::new(name),
            fields: Fields::Any,
        })
    }

    /// The type with its parameters, by the names that it has when expressions run.
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

    /// The name of the type itself, as `type(x)` shows it.
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
    /// The type of the field `name`.
    #[expect(clippy::indexing_slicing, reason = "the index was found in this very list")]
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

impl fmt::Display for Type {
    /// As compile errors show the type.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Type::Null => f.write_str("null"),
            Type::Duration => f.write_str("duration"),
            Type::Timestamp => f.write_str("timestamp"),
            Type::List(items) => write!(f, "list({items})"),
            Type::Map(keys, values) => write!(f, "map({keys}, {values})"),
            Type::Optional(inner) => write!(f, "optional_type({inner})"),
            // The type of types is named without what it is the type of.
            Type::Type(inner) if **inner == Type::Type(Type::Dyn.into()) => f.write_str("type(type)"),
            Type::Type(inner) => write!(f, "type({inner})"),
            other => f.write_str(other.type_name()),
        }
    }
}
