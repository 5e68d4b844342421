//! The types of a type table for strategic merge.

use super::{PatchMember, PatchStrategy, PatchType};
use crate::types::{PatchMarks, Shape, Type, TypeId, TypeTable};

/// A type of a type table.
#[derive(Clone, Copy)]
pub struct TablePatchType<'a> {
    table: &'a TypeTable,
    of: Of<'a>,
}

#[derive(Clone, Copy)]
enum Of<'a> {
    /// A struct or scalar of the table.
    Type(&'a Type),
    /// A map with free keys and values of this shape.
    Map(&'a Shape),
    /// A type without fields.
    Other,
}

impl<'a> TablePatchType<'a> {
    /// Creates the type `id` of `table`.
    pub fn new(table: &'a TypeTable, id: TypeId) -> Self {
        Self {
            table,
            of: Of::Type(table.get(id)),
        }
    }

    /// Returns the type of values of `shape`; of its items if they are lists.
    fn from_shape(table: &'a TypeTable, shape: &'a Shape) -> Self {
        let target = match shape {
            Shape::List(items) => return Self::from_shape(table, items),
            Shape::Ref(id) => Of::Type(table.get(*id)),
            Shape::Map(values) => Of::Map(values),
            _ => Of::Other,
        };
        Self { table, of: target }
    }
}

impl PatchType for TablePatchType<'_> {
    fn member(&self, name: &str) -> Option<PatchMember<Self>> {
        match self.of {
            Of::Type(of) => {
                let field = of.field(name)?;
                Some(PatchMember {
                    value: Self::from_shape(self.table, &field.shape),
                    strategy: strategy(&field.patch),
                    merge_key: field.patch.merge_key.clone(),
                })
            }
            Of::Map(values) => Some(PatchMember {
                value: Self::from_shape(self.table, values),
                strategy: PatchStrategy::Usual,
                merge_key: None,
            }),
            Of::Other => None,
        }
    }

    fn name(&self) -> &str {
        match self.of {
            Of::Type(of) => of.short_name(),
            Of::Map(_) | Of::Other => "",
        }
    }
}

fn strategy(tags: &PatchMarks) -> PatchStrategy {
    match tags {
        PatchMarks { merge: true, .. } => PatchStrategy::Merge,
        PatchMarks { replace: true, .. } => PatchStrategy::Replace,
        _ => PatchStrategy::Usual,
    }
}

#[cfg(test)]
mod tests {
    use holdfast_value::{Limits, SmolStr, json};

    use super::super::strategic_merge;
    use super::*;
    use crate::types::Field;

    #[test]
    fn table_tags_define_merge_of_lists_and_maps() {
        let mut builder = TypeTable::builder();
        let item = builder.reference("test.Item");
        let spec = builder.reference("test.Spec");
        let merged = |merge_key: Option<&str>| PatchMarks {
            merge: true,
            merge_key: merge_key.map(SmolStr::new),
            ..PatchMarks::default()
        };
        let list = |name: &str, of: Shape, patch: PatchMarks| {
            let mut field = Field::new(name, Shape::List(Box::new(of)));
            field.patch = patch;
            field
        };
        let mut replaced = Field::new("replaced", Shape::Map(Box::new(Shape::String)));
        replaced.patch.replace = true;
        builder
            .add_struct("test.Item", vec![Field::new("name", Shape::String)])
            .unwrap();
        builder
            .add_struct(
                "test.Spec",
                vec![
                    list("items", Shape::Ref(item), merged(Some("name"))),
                    list("plain", Shape::Ref(item), PatchMarks::default()),
                    list("tags", Shape::String, merged(None)),
                    Field::new("labels", Shape::Map(Box::new(Shape::Map(Box::new(Shape::String))))),
                    replaced,
                ],
            )
            .unwrap();
        let table = builder.build().unwrap();
        let value = |text: &str| json::parse(text.as_bytes(), &Limits::default()).unwrap();

        let original = r#"{"items":[{"name":"a"}],"plain":[{"name":"a"}],"tags":["a"],"labels":{"m":{"a":"1"}},"replaced":{"a":"1"}}"#;
        let patch = r#"{"items":[{"name":"b"}],"plain":[{"name":"b"}],"tags":["b"],"labels":{"m":{"b":"1"}},"replaced":{"b":"1"}}"#;
        let expected = r#"{"items":[{"name":"b"},{"name":"a"}],"plain":[{"name":"b"}],"tags":["b","a"],
            "labels":{"m":{"a":"1","b":"1"}},"replaced":{"b":"1"}}"#;
        let merged = strategic_merge(value(original), &value(patch), &TablePatchType::new(&table, spec)).unwrap();
        assert_eq!(merged, value(expected));

        let unknown = strategic_merge(
            value(r#"{"x":{}}"#),
            &value(r#"{"x":{}}"#),
            &TablePatchType::new(&table, spec),
        );
        assert_eq!(
            unknown.unwrap_err().to_string(),
            r#"unable to find api field in struct Spec for the json field "x""#
        );
    }
}
