//! Messages of objects from their JSON, by way of records.

use std::ops::Range;
use std::sync::{Mutex, OnceLock, PoisonError};

use holdfast_gotext::time::Precision;
use holdfast_record::{Kind, MAX_DEPTH, Node, Record, RecordBuffers, RecordTypes};
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

/// Maximum number of buffers that are kept for later use.
const MAX_KEPT_BUFFERS: usize = 8;

/// Maximum size of a buffer that is kept, in bytes.
const MAX_KEPT_BYTES: usize = 128 * 1024;

/// Records of the types of a table, and the messages that are written from them.
///
/// A message is prepared when the first record of its type is encoded.
#[derive(Debug)]
pub(crate) struct RecordMessages {
    types: RecordTypes,
    /// Messages by the index of the type; `None` for types whose records cannot be encoded.
    messages: Box<[OnceLock<Option<Message>>]>,
    buffers: Mutex<Vec<Buffers>>,
}

/// Memory for reading and encoding one object.
#[derive(Debug, Default)]
struct Buffers {
    record: RecordBuffers,
    out: BackToFront,
}

impl RecordMessages {
    pub(crate) fn new(types: RecordTypes) -> Self {
        let messages = (0..types.types().len()).map(|_| OnceLock::new()).collect();
        Self {
            types,
            messages,
            buffers: Mutex::default(),
        }
    }

    /// Runs `work` with buffers that others used before, if there are any.
    fn with_buffers<T>(&self, work: impl FnOnce(&mut Buffers) -> T) -> T {
        let kept = || self.buffers.lock().unwrap_or_else(PoisonError::into_inner);
        let mut buffers = kept().pop().unwrap_or_default();
        let result = work(&mut buffers);
        buffers.out.clear(MAX_KEPT_BYTES);
        buffers.record.shrink(MAX_KEPT_BYTES);
        let mut kept = kept();
        if kept.len() < MAX_KEPT_BUFFERS {
            kept.push(buffers);
        }
        result
    }
}

/// Message of a struct.
#[derive(Debug)]
struct Message {
    /// Parts in the order of their numbers.
    steps: Box<[Step]>,
    /// Bytes of all fields that are not set, in the same order.
    unset: Box<[u8]>,
}

/// Part of a message.
#[derive(Debug)]
struct Step {
    number: u16,
    /// Slot of the field.
    slot: u16,
    /// Bit of the field in the presence of its struct; all bits for an inlined message.
    bit: u64,
    /// Bytes of the field in [`Message::unset`].
    unset: Range<u32>,
    /// Message whose fields are fields of the struct in JSON.
    inlined: Option<Box<Message>>,
}

impl Messages {
    /// Appends the message of an object of the type `of` to `out`. `text` is its JSON. The bytes are those that
    /// [`Messages::encode`] writes for the tree of the text.
    ///
    /// `None` if the text has no [`Record`], for example because it has unknown fields; `out` is then unchanged.
    pub fn encode_text(&self, of: TypeId, text: &[u8], out: &mut Vec<u8>) -> Option<()> {
        self.records.with_buffers(|buffers| {
            self.write_text(of, text, buffers)?;
            out.extend_from_slice(buffers.out.as_slice());
            Some(())
        })
    }

    /// Returns an object of the type `of` in its [`Envelope`](crate::Envelope). `text` is its JSON.
    ///
    /// `None` if the text has no [`Record`].
    pub fn envelope_of_text(&self, of: TypeId, api_version: &str, kind: &str, text: &[u8]) -> Option<Vec<u8>> {
        self.records.with_buffers(|buffers| {
            let end = envelope::begin_at_end(&mut buffers.out);
            self.write_text(of, text, buffers)?;
            envelope::finish_at_start(api_version, kind, end, &mut buffers.out);
            Some(buffers.out.as_slice().to_vec())
        })
    }

    fn write_text(&self, of: TypeId, text: &[u8], buffers: &mut Buffers) -> Option<()> {
        let Buffers { record, out } = buffers;
        let record = self.records.types.read(of, text, record)?;
        let mut writer = Writer {
            messages: self,
            record,
            out: std::mem::take(out),
        };
        let root = *writer.record.root();
        let outcome = writer.structure(&root);
        *out = writer.out;
        outcome
    }

    #[inline]
    fn message_of(&self, of: TypeId) -> Option<&Message> {
        let message = self.records.messages.get(of.index())?;
        message.get_or_init(|| self.prepare(of, &self.of_type(of))).as_ref()
    }

    fn prepare(&self, of: TypeId, nodes: &Nodes) -> Option<Message> {
        let fields = self.types().get(of).fields();
        let (mut steps, mut unset) = (Vec::new(), Vec::new());
        for node in self.nodes(nodes) {
            let number = node.number;
            let start = unset.len() as u32;
            steps.push(match &node.holds {
                Holds::Field(at) => {
                    let field = fields.get(usize::from(*at))?;
                    let mut encoder = Encoder::new(self, BackToFront::default());
                    encoder.field(number, field, None).ok()?;
                    unset.extend_from_slice(encoder.into_bytes().as_slice());
                    let slot = field.place();
                    Step {
                        number,
                        slot,
                        bit: 1_u64.checked_shl(u32::from(slot))?,
                        unset: start..unset.len() as u32,
                        inlined: None,
                    }
                }
                Holds::Inlined(inner) => Step {
                    number,
                    slot: u16::MAX,
                    bit: u64::MAX,
                    unset: start..start,
                    inlined: Some(Box::new(self.prepare(of, inner)?)),
                },
            });
        }
        Some(Message {
            steps: steps.into(),
            unset: unset.into(),
        })
    }
}

struct Writer<'m, 'r> {
    messages: &'m Messages,
    record: Record<'r>,
    out: BackToFront,
}

impl Writer<'_, '_> {
    /// Writes the fields of a struct, without its tag and length.
    fn structure(&mut self, node: &Node) -> Option<()> {
        let messages = self.messages;
        self.message(messages.message_of(node.of)?, node)
    }

    fn message(&mut self, message: &Message, node: &Node) -> Option<()> {
        // Bytes of fields that are not set are written before the next part that is, up to here.
        let mut unset_end = message.unset.len();
        // Fields are mostly in the order of their slots.
        let mut fields = self.record.nodes(node);
        for step in message.steps.iter().rev() {
            if let Some(inlined) = &step.inlined {
                self.unset(message, step.unset.end as usize, unset_end)?;
                let end = self.out.len();
                self.message(inlined, node)?;
                self.out.close(step.number, end);
            } else if !node.has(step.bit) {
                continue;
            } else {
                self.unset(message, step.unset.end as usize, unset_end)?;
                let field = match fields {
                    [rest @ .., last] if last.slot == step.slot => {
                        fields = rest;
                        last
                    }
                    _ => self.record.field(node, step.slot)?,
                };
                self.value(step.number, field)?;
            }
            unset_end = step.unset.start as usize;
        }
        self.unset(message, 0, unset_end)
    }

    /// Writes the bytes of fields that are not set.
    #[inline]
    fn unset(&mut self, message: &Message, start: usize, end: usize) -> Option<()> {
        if start < end {
            self.out.bytes(message.unset.get(start..end)?);
        }
        Some(())
    }

    /// Writes a value with its tag.
    fn value(&mut self, number: u16, node: &Node) -> Option<()> {
        let (record, out) = (&self.record, &mut self.out);
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
        let (members, _) = self.record.nodes(node).as_chunks::<2>();
        for [key, value] in members.iter().rev() {
            let end = self.out.len();
            if value.kind == Kind::List {
                // A list cannot be the value of a map entry directly: it is a message with the items in field 1.
                self.value(1, value)?;
                self.out.close(2, end);
            } else {
                self.value(2, value)?;
            }
            self.out.field(1, self.record.text(key).as_bytes());
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
