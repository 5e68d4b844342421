//! The status of new objects whose writers have no say in it.

use holdfast_value::{Map, Value};

/// What the zero value of a status holds.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Zero {
    Number,
    False,
    Null,
    Struct,
}

/// The empty status that shows these fields.
pub(crate) fn empty_status(fields: &[(&'static str, Zero)]) -> Value {
    let zero = |zero: &Zero| match zero {
        Zero::Number => Value::Int(0),
        Zero::False => Value::Bool(false),
        Zero::Null => Value::Null,
        Zero::Struct => Value::empty_map(),
    };
    let status: Map = fields.iter().map(|(name, of)| ((*name).into(), zero(of))).collect();
    status.into()
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use holdfast_resource::GroupVersionKind;
    use holdfast_resource::schema::Shape;

    use crate::{Config, registry, tables};

    #[test]
    fn an_initial_status_is_the_zero_value_of_its_type() {
        let types = tables::types().unwrap();
        for resource in registry(&Config::default()).unwrap().resources() {
            let Some(status) = &resource.rules.initial_status else {
                continue;
            };
            let kind = GroupVersionKind {
                group_version: resource.versions[0].group_version.clone(),
                kind: resource.kind.clone(),
            };
            let of = types.get(types.id_of_kind(&kind).unwrap());
            let Shape::Ref(of) = of.field("status").unwrap().shape else {
                unreachable!()
            };
            assert_eq!(*status, types.get(of).zero(), "{}", resource.plural);
        }
    }
}
