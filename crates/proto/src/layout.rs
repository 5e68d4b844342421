use std::ops::Range;
use std::sync::Arc;

use holdfast_record::RecordTypes;
use holdfast_schema::types::{Field, Scalar, Shape, Type, TypeId, TypeKind, TypeTable};

use crate::record::RecordMessages;

/// Protobuf messages of the types of a table.
///
/// Created once per table and shared; costs about a word per field.
///
/// ```
/// use std::sync::Arc;
/// use holdfast_proto::{Envelope, Messages, write_envelope};
/// use holdfast_schema::GroupVersionKind;
/// use holdfast_value::{Limits, json};
///
/// let messages = Messages::new(Arc::new(holdfast_kind_tables::types().unwrap()));
/// let config_map = messages.types().id("io.k8s.api.core.v1.ConfigMap").unwrap();
/// let value = json::parse(br#"{"data":{"a":"b"},"metadata":{"name":"settings"}}"#, &Limits::REQUEST)?;
///
/// let (mut message, mut bytes) = (Vec::new(), Vec::new());
/// messages.encode(config_map, &value, &mut message)?;
/// write_envelope("v1", "ConfigMap", &message, &mut bytes);
///
/// let envelope = Envelope::read(&bytes)?;
/// let decoded = messages.decode(config_map, envelope.message, &Limits::REQUEST)?;
/// assert_eq!(decoded.at(&["data"]), value.at(&["data"]));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct Messages {
    types: Arc<TypeTable>,
    nodes: Vec<Node>,
    /// Nodes of each type's message, by the type's index.
    of_types: Vec<Nodes>,
    /// Records of the types and their messages.
    pub(crate) records: Arc<RecordMessages>,
}

/// Range of the nodes of one message.
pub(crate) type Nodes = Range<u32>;

/// Field number of a message with its content.
#[derive(Clone, Debug)]
pub(crate) struct Node {
    pub(crate) number: u16,
    pub(crate) holds: Holds,
}

/// Content of a node.
#[derive(Clone, Debug)]
pub(crate) enum Holds {
    /// The field at this index among the fields of the type.
    Field(u16),
    /// A message whose fields are fields of the type in JSON.
    Inlined(Nodes),
}

impl Messages {
    /// Creates the messages of the types of `types`.
    pub fn new(types: Arc<TypeTable>) -> Self {
        let mut messages = Self {
            nodes: Vec::new(),
            of_types: Vec::with_capacity(types.len()),
            records: Arc::new(RecordMessages::new(RecordTypes::new(Arc::clone(&types)))),
            types: Arc::clone(&types),
        };
        for (_, of) in types.iter() {
            let nodes = messages.lay_out(of);
            messages.of_types.push(nodes);
        }
        messages
    }

    /// Returns the table of the types.
    pub fn types(&self) -> &TypeTable {
        &self.types
    }

    /// True if values of the shape are quantities.
    pub(crate) fn is_quantity(&self, shape: &Shape) -> bool {
        let Shape::Ref(of) = shape else { return false };
        matches!(self.types.get(*of).kind, TypeKind::Scalar(Scalar::Quantity))
    }

    /// Returns the nodes of a type's message in the order of their numbers.
    pub(crate) fn of_type(&self, id: TypeId) -> Nodes {
        self.of_types.get(id.index()).cloned().unwrap_or_default()
    }

    pub(crate) fn nodes(&self, range: &Nodes) -> &[Node] {
        self.nodes
            .get(range.start as usize..range.end as usize)
            .unwrap_or_default()
    }

    fn lay_out(&mut self, of: &Type) -> Nodes {
        let mut fields: Vec<(u16, &Field)> = (0..).zip(of.fields()).collect();
        fields.retain(|(_, field)| !field.proto.numbers().is_empty());
        fields.sort_by_key(|(_, field)| field.proto.numbers());
        self.lay_out_level(&fields, 0)
    }

    /// Lays out fields whose first `level` numbers are equal.
    fn lay_out_level(&mut self, fields: &[(u16, &Field)], level: usize) -> Nodes {
        let number = |field: &Field| field.proto.numbers().get(level).copied().unwrap_or_default();
        let mut nodes = Vec::new();
        for group in fields.chunk_by(|(_, a), (_, b)| number(a) == number(b)) {
            let Some((at, first)) = group.first() else { continue };
            let holds = match first.proto.numbers().len() == level + 1 {
                true => Holds::Field(*at),
                false => Holds::Inlined(self.lay_out_level(group, level + 1)),
            };
            let number = number(first);
            nodes.push(Node { number, holds });
        }
        let start = self.nodes.len() as u32;
        self.nodes.append(&mut nodes);
        start..self.nodes.len() as u32
    }
}
