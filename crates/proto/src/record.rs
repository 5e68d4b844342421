//! Messages of objects from their JSON, by way of records.

use std::sync::OnceLock;

use holdfast_gotext::time::Precision;
use holdfast_record::{Kind, MAX_DEPTH, Node, Record, RecordTypes};
use holdfast_schema::types::{Shape, TypeId};
use holdfast_value::{Limits, json};

use crate::Messages;
use crate::back_to_front::BackToFront;
use crate::encode::{Encoder, write_base64, write_int_or_string, write_string_or_int, write_time};
use crate::envelope;
use crate::layout::{Holds, Nodes};
use crate::wire::Wire;

/// Limits on free JSON within a record. With the depth of the record around it, none is deeper than a tree may be.
const FREE_JSON_LIMITS: Limits = Limits {
    max_depth: Limits::TRUSTED.max_depth - MAX_DEPTH as usize,
    ..Limits::TRUSTED
};

/// Records of the types of a table, and the messages that are written from them.
///
/// A message is prepared when the first record of its type is encoded.
#[derive(Debug)]
pub(crate) struct RecordMessages {
    types: RecordTypes,
    /// Messages by the index of the type; `None` for types whose records cannot be encoded.
    messages: Box<[OnceLock<Option<Message>>]>,
}

impl RecordMessages {
    pub(crate) fn new(types: RecordTypes) -> Self {
        let messages = (0..types.types().len()).map(|_| OnceLock::new()).collect();
        Self { types, messages }
    }
}

/// Message of a struct.
type Message = Box<[Step]>;

/// Part of a message.
#[derive(Debug)]
struct Step {
    number: u16,
    part: Part,
}

#[derive(Debug)]
enum Part {
    /// A field of the struct.
    Field {
        slot: u16,
        /// Bytes of the field if it is not set.
        unset: Box<[u8]>,
    },
    /// A message whose fields are fields of the struct in JSON.
    Inlined(Message),
}

impl Messages {
    /// Appends the message of an object of the type `of` to `out`. `text` is its JSON. The bytes are those that
    /// [`Messages::encode`] writes for the tree of the text.
    ///
    /// `None` if the text has no [`Record`], for example because it has unknown fields; `out` is then unchanged.
    pub fn encode_text(&self, of: TypeId, text: &[u8], out: &mut Vec<u8>) -> Option<()> {
        let written = self.write_text(of, text, BackToFront::with_capacity(text.len()))?;
        out.extend_from_slice(written.as_slice());
        Some(())
    }

    /// Returns an object of the type `of` in its [`Envelope`](crate::Envelope). `text` is its JSON.
    ///
    /// `None` if the text has no [`Record`].
    pub fn envelope_of_text(&self, of: TypeId, api_version: &str, kind: &str, text: &[u8]) -> Option<Vec<u8>> {
        let mut out = BackToFront::with_capacity(text.len() + api_version.len() + kind.len() + 32);
        let end = envelope::begin_at_end(&mut out);
        let mut out = self.write_text(of, text, out)?;
        envelope::finish_at_start(api_version, kind, end, &mut out);
        Some(out.as_slice().to_vec())
    }

    fn write_text(&self, of: TypeId, text: &[u8], out: BackToFront) -> Option<BackToFront> {
        let record = self.records.types.read(of, text)?;
        let mut writer = Writer {
            messages: self,
            record: &record,
            out,
        };
        writer.structure(record.root())?;
        Some(writer.out)
    }

    fn message_of(&self, of: TypeId) -> Option<&Message> {
        let message = self.records.messages.get(of.index())?;
        message.get_or_init(|| self.prepare(of, &self.of_type(of))).as_ref()
    }

    fn prepare(&self, of: TypeId, nodes: &Nodes) -> Option<Message> {
        let fields = self.types().get(of).fields();
        let step = |(number, holds): (u16, &Holds)| {
            let part = match holds {
                Holds::Field(at) => {
                    let field = fields.get(usize::from(*at))?;
                    let mut encoder = Encoder::new(self, BackToFront::default());
                    encoder.field(number, field, None).ok()?;
                    Part::Field {
                        slot: field.place(),
                        unset: encoder.into_bytes().as_slice().into(),
                    }
                }
                Holds::Inlined(inner) => Part::Inlined(self.prepare(of, inner)?),
            };
            Some(Step { number, part })
        };
        let nodes = self.nodes(nodes).iter().map(|node| (node.number, &node.holds));
        nodes.map(step).collect()
    }
}

struct Writer<'m, 'r, 't> {
    messages: &'m Messages,
    record: &'r Record<'t>,
    out: BackToFront,
}

impl Writer<'_, '_, '_> {
    /// Writes the fields of a struct, without its tag and length.
    fn structure(&mut self, node: &Node) -> Option<()> {
        let messages = self.messages;
        self.steps(messages.message_of(node.of)?, node)
    }

    fn steps(&mut self, steps: &[Step], node: &Node) -> Option<()> {
        let record = self.record;
        for step in steps.iter().rev() {
            match &step.part {
                Part::Field { slot, unset } => match record.field(node, *slot) {
                    Some(field) => self.value(step.number, field)?,
                    None if unset.is_empty() => {}
                    None => self.out.bytes(unset),
                },
                Part::Inlined(steps) => {
                    let end = self.out.len();
                    self.steps(steps, node)?;
                    self.out.close(step.number, end);
                }
            }
        }
        Some(())
    }

    /// Writes a value with its tag.
    fn value(&mut self, number: u16, node: &Node) -> Option<()> {
        let (record, out) = (self.record, &mut self.out);
        match node.kind {
            Kind::String => out.field(number, record.text(node).as_bytes()),
            Kind::Int => out.number(number, node.int().cast_unsigned()),
            Kind::Bool => out.number(number, u64::from(node.flag())),
            Kind::Double => {
                out.bytes(&node.double().to_le_bytes());
                out.tag(number, Wire::Fixed64);
            }
            Kind::List => {
                for item in record.nodes(node).iter().rev() {
                    self.value(number, item)?;
                }
            }
            Kind::Map => self.map(number, node)?,
            Kind::Free => self.free(number, node)?,
            _ => {
                let end = out.len();
                match node.kind {
                    Kind::Struct => self.structure(node)?,
                    Kind::Quantity | Kind::FieldsV1 => out.field(1, record.text(node).as_bytes()),
                    Kind::Time => write_time(record.text(node), Precision::Seconds, out)?,
                    Kind::MicroTime => write_time(record.text(node), Precision::Micros, out)?,
                    Kind::IntOrString => write_int_or_string(node.int(), out),
                    Kind::StringOrInt => write_string_or_int(record.text(node), out),
                    _ => write_base64(record.text(node), out)?,
                }
                self.out.close(number, end);
            }
        }
        Some(())
    }

    fn map(&mut self, number: u16, node: &Node) -> Option<()> {
        let record = self.record;
        let (members, _) = record.nodes(node).as_chunks::<2>();
        for [key, value] in members.iter().rev() {
            let end = self.out.len();
            if value.kind == Kind::List {
                // A list cannot be the value of a map entry directly: it is a message with the items in field 1.
                self.value(1, value)?;
                self.out.close(2, end);
            } else {
                self.value(2, value)?;
            }
            self.out.field(1, record.text(key).as_bytes());
            self.out.close(number, end);
        }
        Some(())
    }

    /// Writes free JSON by way of its tree.
    fn free(&mut self, number: u16, node: &Node) -> Option<()> {
        let value = json::parse(self.record.text(node).as_bytes(), &FREE_JSON_LIMITS).ok()?;
        let mut encoder = Encoder::new(self.messages, std::mem::take(&mut self.out));
        encoder.value(number, &Shape::Ref(node.of), &value).ok()?;
        self.out = encoder.into_bytes();
        Some(())
    }
}
