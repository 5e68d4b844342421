//! Built-in types in expressions.

use std::collections::HashMap;
use std::sync::Arc;

use holdfast_cel::{DeclField, DeclType, ListType as CelListType};

use super::{Field, ListType, Scalar, Shape, TypeId, TypeKind, TypeTable};

/// Returns the type of the objects in expressions, for a type of the table; `None` if expressions do not support it,
/// such as a type that holds any JSON. A recursive type is there an object without fields, and a quantity may be any
/// value.
pub fn decl_type(types: &TypeTable, of: TypeId) -> Option<Arc<DeclType>> {
    let mut walk = Declarer {
        types,
        known: HashMap::new(),
    };
    walk.of_type(of)
}

struct Declarer<'t> {
    types: &'t TypeTable,
    /// Declared types; while a type is being declared, it is an object without fields.
    known: HashMap<TypeId, Option<Arc<DeclType>>>,
}

impl Declarer<'_> {
    fn of_type(&mut self, of: TypeId) -> Option<Arc<DeclType>> {
        if let Some(known) = self.known.get(&of) {
            return known.clone();
        }
        self.known.insert(of, Some(Arc::new(DeclType::object([]))));
        let types = self.types;
        let declared = match &types.get(of).kind {
            TypeKind::Scalar(scalar) => of_scalar(*scalar),
            TypeKind::Struct(fields) => {
                let fields: Vec<DeclField> = fields.iter().filter_map(|field| self.of_field(field)).collect();
                Some(DeclType::object(fields))
            }
        };
        let declared = declared.map(Arc::new);
        self.known.insert(of, declared.clone());
        declared
    }

    fn of_field(&mut self, field: &Field) -> Option<DeclField> {
        let list_type = match field.list_type {
            Some(ListType::Set) => CelListType::Set,
            Some(ListType::Map) => CelListType::Map(field.keys.iter().map(|key| key.name.clone()).collect()),
            Some(ListType::Atomic) | None => CelListType::Atomic,
        };
        let decl = self.of_shape(&field.shape, list_type)?;
        DeclField::new(field.name.clone(), decl, field.required && field.default.is_none())
    }

    fn of_shape(&mut self, shape: &Shape, list_type: CelListType) -> Option<Arc<DeclType>> {
        Some(Arc::new(match shape {
            Shape::String => DeclType::string(None),
            Shape::Int32 | Shape::Int64 => DeclType::int(),
            Shape::Bool => DeclType::bool(),
            Shape::Double => DeclType::double(),
            Shape::Bytes => DeclType::bytes(None),
            Shape::Any => return None,
            Shape::Ref(of) => return self.of_type(*of),
            Shape::List(items) => DeclType::list(self.of_shape(items, CelListType::Atomic)?, None, list_type),
            Shape::Map(values) => DeclType::map(self.of_shape(values, CelListType::Atomic)?, None),
        }))
    }
}

fn of_scalar(scalar: Scalar) -> Option<DeclType> {
    match scalar {
        Scalar::Quantity => Some(DeclType::dyn_()),
        Scalar::IntOrString => Some(DeclType::int_or_string(None)),
        Scalar::Time | Scalar::MicroTime => Some(DeclType::date_time()),
        Scalar::RawExtension | Scalar::FieldsV1 => Some(DeclType::opaque()),
        Scalar::Json
        | Scalar::JsonSchemaOrBool
        | Scalar::JsonSchemaOrArray
        | Scalar::JsonSchemaOrStringArray
        | Scalar::Patch => None,
    }
}

#[cfg(test)]
mod tests {
    use holdfast_cel::Environment;

    use super::*;
    use crate::types::tests::builtin;

    #[test]
    fn built_in_objects_have_the_types_of_the_table() {
        let types = builtin();
        let id = types.id("io.k8s.api.apps.v1.Deployment").unwrap();
        let decl = decl_type(&types, id).unwrap();
        let environment = Environment::new().with_object("object", decl);
        for (expression, expected) in [
            ("object.spec.replicas", "int"),
            ("object.metadata.labels", "map(string, string)"),
            ("object.metadata.creationTimestamp", "timestamp"),
            ("object.spec.template.spec.containers[0].image", "string"),
            ("object.spec.strategy.rollingUpdate.maxSurge", "dyn"),
            ("object.spec.replica", "ERROR: <input>:1:12: undefined field 'replica'"),
        ] {
            let found = match environment.compile(expression, &[]) {
                Ok(program) => program.output_type().to_string(),
                Err(error) => error.to_string().lines().next().unwrap_or_default().to_owned(),
            };
            assert_eq!(
                found.trim_start_matches("compilation failed: "),
                expected,
                "{expression}"
            );
        }
    }

    #[test]
    fn a_type_that_holds_itself_ends() {
        let types = builtin();
        assert!(decl_type(&types, types.json_schema().unwrap()).is_some());
    }
}
