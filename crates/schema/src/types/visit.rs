//! Search for the values of certain types anywhere in an object.

use holdfast_value::Value;

use crate::types::{Shape, TypeId, TypeTable};

/// Calls a rule for every value of certain types within an object, such as each container.
///
/// A visitor is built once for a kind and its rules; a visit then walks only the fields that lead to such values.
#[derive(Clone, Debug)]
pub struct TypeVisitor {
    root: TypeId,
    /// By type: true if it is one of the wanted types.
    wanted: Vec<bool>,
    /// By type: the indices of the fields that lead to one of them.
    leading: Vec<Vec<u16>>,
}

impl TypeVisitor {
    /// Creates a visitor for the objects of type `root`, with the definition names of the wanted types. Names that the
    /// table lacks are never found.
    #[expect(clippy::indexing_slicing, reason = "a place for each type of the table")]
    pub fn new(table: &TypeTable, root: TypeId, wanted: &[&str]) -> Self {
        let mut is_wanted = vec![false; table.len()];
        for id in wanted.iter().filter_map(|name| table.id(name)) {
            is_wanted[id.index()] = true;
        }
        let mut visitor = Self {
            root,
            leading: vec![Vec::new(); table.len()],
            wanted: is_wanted,
        };
        // Types may be recursive, so the search for leading fields iterates until nothing new is found.
        let mut grew = true;
        while grew {
            grew = false;
            for (id, of) in table.iter() {
                let leads = |field: &crate::types::Field| visitor.leads(&field.shape);
                let fields: Vec<u16> = (0u16..)
                    .zip(of.fields())
                    .filter(|(_, field)| leads(field))
                    .map(|(at, _)| at)
                    .collect();
                if fields.len() > visitor.leading[id.index()].len() {
                    visitor.leading[id.index()] = fields;
                    grew = true;
                }
            }
        }
        visitor
    }

    /// Calls `rule` with each value of a wanted type, the outer ones first, and the type.
    pub fn visit(&self, table: &TypeTable, object: &mut Value, rule: &mut dyn FnMut(TypeId, &mut Value)) {
        self.visit_type(table, self.root, object, rule);
    }

    #[expect(clippy::indexing_slicing, reason = "a place for each type of the table")]
    fn leads(&self, shape: &Shape) -> bool {
        let reached = shape.type_id().map(TypeId::index);
        reached.is_some_and(|at| self.wanted[at] || !self.leading[at].is_empty())
    }

    #[expect(clippy::indexing_slicing, reason = "a place for each type of the table")]
    fn visit_type(&self, table: &TypeTable, of: TypeId, value: &mut Value, rule: &mut dyn FnMut(TypeId, &mut Value)) {
        if self.wanted[of.index()] {
            rule(of, value);
        }
        for at in &self.leading[of.index()] {
            let field = &table.get(of).fields()[usize::from(*at)];
            // Checking first keeps shared maps shared if there is nothing to visit.
            if value.get(&field.name).is_none_or(Value::is_null) {
                continue;
            }
            if let Some(value) = value.as_map_mut().and_then(|map| map.get_mut(&field.name)) {
                self.visit_shape(table, &field.shape, value, rule);
            }
        }
    }

    fn visit_shape(
        &self,
        table: &TypeTable,
        shape: &Shape,
        value: &mut Value,
        rule: &mut dyn FnMut(TypeId, &mut Value),
    ) {
        match (shape, value) {
            (Shape::Ref(id), value) => self.visit_type(table, *id, value, rule),
            (Shape::List(item), Value::List(list)) => {
                for value in list.make_mut() {
                    self.visit_shape(table, item, value, rule);
                }
            }
            (Shape::Map(of), Value::Map(map)) => {
                for (_, value) in map.values_mut() {
                    self.visit_shape(table, of, value, rule);
                }
            }
            _ => {}
        }
    }
}
