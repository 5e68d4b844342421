//! The body of a list, written item by item as the client takes it, in every format.
//!
//! A body that no client takes holds one run of bytes, or one object where that is larger. Protobuf has the length of
//! the list before the items, and CBOR their number: both are known before the first item is sent, without keeping what
//! was measured. The reference writes large lists so, too (KEP-5116).

use std::collections::VecDeque;
use std::sync::Arc;

use bytes::Bytes;
use futures_util::stream;
use holdfast_value::json::Indenter;
use holdfast_value::{Limits, Map, Value, cbor, json, yaml};

use crate::http::ApiError;
use crate::http::negotiation::Format;
use crate::http::protobuf::{self, ListFrame};
use crate::objects;
use crate::read::items::{ListItem, ListItems, TimeSlice};
use crate::read::list_answer::Writer;
use crate::representation::{Context, RequestedVersion, Tree};
use crate::runtime::long_work::{self, LongWork};
use crate::wire::body::ResponseBody;

/// The size at which a run of bytes is sent.
const RUN_BYTES: usize = 64 * 1024;

/// A run of this size gets all the room that it may need at once, so that it need not grow step by step.
const LONG_RUN_BYTES: usize = 8 * 1024;

/// Size up to which a protobuf list is made whole. The items of a larger list are measured first and encoded again as the
/// client takes them, but for those that are there already.
const WHOLE_BYTES: usize = 256 * 1024;

/// A NUL, which no YAML document may hold. A document that is cut off could be read otherwise.
const YAML_BREAK: &[u8] = b"\n\0";

/// The list of `items` in one of the text formats or CBOR. `writer` writes items as JSON, `head` is the JSON before them.
///
/// # Errors
/// 500 where a webhook fails that has to be asked before the first object is sent.
pub(super) async fn body(
    mut items: ListItems,
    writer: Writer,
    head: Vec<u8>,
    format: Format,
    pretty: bool,
) -> Result<ResponseBody, ApiError> {
    let mut run = Vec::new();
    let encoder = match format {
        Format::Json => {
            run = head;
            let indenter = pretty.then(Indenter::default);
            Encoder::Json { writer, indenter }
        }
        Format::Cbor => {
            let remaining = items.fork().count().await?;
            let frame = Frame::new(&writer, head)?;
            Encoder::Tree(TreeEncoder::new(writer, frame, Some(remaining)))
        }
        Format::Yaml | Format::Protobuf => {
            let frame = Frame::new(&writer, head)?;
            Encoder::Tree(TreeEncoder::new(writer, frame, None))
        }
    };
    // A webhook that fails for the first objects makes a status; after that it is too late.
    items.prepare().await?;
    Ok(ListBody::new(items, encoder, run).into_body())
}

/// The list of the objects of `items` in protobuf; `frame` has the bytes around them.
///
/// # Errors
/// 406 where objects of the kind have no protobuf form, 500 where an object does not fit its type.
pub(super) async fn protobuf_body(
    mut items: ListItems,
    messages: ItemMessages,
    frame: ListFrame,
) -> Result<ResponseBody, ApiError> {
    let (mut run, mut turn) = (Vec::new(), TimeSlice::default());
    while run.len() < WHOLE_BYTES {
        let Some(item) = items.next(&mut turn).await? else {
            let mut whole = Vec::with_capacity(run.len() + 256);
            frame.write_head(run.len(), &mut whole);
            whole.append(&mut run);
            frame.write_tail(&mut whole);
            return Ok(whole.into());
        };
        long_work::begins(item.entry.length()).await;
        frame.write_item(&messages.message(&item)?, &mut run);
    }
    let (mut remaining, mut ahead) = (0, items.fork());
    while let Some(item) = ahead.next(&mut turn).await? {
        let length = match messages.known_length(&item) {
            Some(length) => length,
            None => {
                long_work::begins(item.entry.length()).await;
                messages.message(&item)?.len()
            }
        };
        remaining += ListFrame::item_size(length);
    }
    let mut head = Vec::new();
    frame.write_head(run.len() + remaining, &mut head);
    let encoder = Encoder::Protobuf {
        messages,
        frame,
        remaining,
    };
    let mut body = ListBody::new(items, encoder, Vec::new());
    run.shrink_to_fit();
    body.ready = VecDeque::from([head.into(), run.into()]);
    Ok(body.into_body())
}

/// Protobuf messages of the items of a list.
pub(super) struct ItemMessages {
    context: Arc<Context>,
    shown: RequestedVersion,
    /// Writes the metadata of objects as JSON, where only these are shown.
    partial: Option<Writer>,
}

impl ItemMessages {
    /// Messages of whole objects, or of the objects that `partial` writes.
    pub(super) fn new(context: &Arc<Context>, shown: &RequestedVersion, partial: Option<Writer>) -> Self {
        Self {
            context: Arc::clone(context),
            shown: shown.clone(),
            partial,
        }
    }

    /// The length of the message of an object, if it was encoded before.
    fn known_length(&self, item: &ListItem) -> Option<usize> {
        let length = item.entry.encoded_length()?;
        self.is_stored_whole(item).then_some(length)
    }

    fn is_stored_whole(&self, item: &ListItem) -> bool {
        self.partial.is_none() && self.shown.is_stored_whole(&item.entry)
    }

    fn message(&self, item: &ListItem) -> Result<Vec<u8>, ApiError> {
        let (messages, shown) = (&self.context.messages, &self.shown);
        if let Some(writer) = &self.partial {
            let mut text = Vec::new();
            writer.item(item, &mut text)?;
            return protobuf::message(messages, "meta.k8s.io/v1", "PartialObjectMetadata", &parsed(&text)?);
        }
        let stored = objects::tree(&item.entry);
        if self.is_stored_whole(item) {
            let message = protobuf::message(messages, &shown.api_version, &shown.kind, &stored)?;
            item.entry.set_encoded_length(message.len());
            return Ok(message);
        }
        let tree = shown.answered(Tree::Stored(&stored))?;
        protobuf::message(messages, &shown.api_version, &shown.kind, &tree)
    }
}

fn parsed(text: &[u8]) -> Result<Value, ApiError> {
    json::parse(text, &Limits::TRUSTED).map_err(|error| ApiError::internal(error.to_string()))
}

/// What surrounds the items of a list in formats whose members are sorted.
struct Frame {
    /// The whole list where it has no items.
    empty: Value,
    /// The members before that with the items.
    before: Map,
    /// The name of the member with the items.
    member: &'static str,
    /// The members after it.
    after: Map,
}

impl Frame {
    /// The frame of a list whose JSON begins with `head`.
    fn new(writer: &Writer, head: Vec<u8>) -> Result<Self, ApiError> {
        let mut text = head;
        writer.end(true, &mut text);
        let empty = parsed(&text)?;
        let member = writer.member();
        let members = empty.as_map().into_iter().flat_map(|members| members.iter());
        let (before, after) = members
            .filter(|(name, _)| *name != member)
            .cloned()
            .partition::<Vec<_>, _>(|(name, _)| name.as_str() < member);
        Ok(Self {
            empty,
            before: Map::from_sorted(before),
            member,
            after: Map::from_sorted(after),
        })
    }

    fn len(&self) -> usize {
        self.before.len() + 1 + self.after.len()
    }
}

/// Encodes a list as YAML or CBOR.
struct TreeEncoder {
    writer: Writer,
    frame: Frame,
    /// The number of items to come, in CBOR, which has their number before them.
    remaining: Option<usize>,
    /// The JSON of an item; kept for its memory.
    text: Vec<u8>,
}

impl TreeEncoder {
    fn new(writer: Writer, frame: Frame, remaining: Option<usize>) -> Self {
        Self {
            writer,
            frame,
            remaining,
            text: Vec::new(),
        }
    }

    fn begin(&self, out: &mut Vec<u8>) {
        let frame = &self.frame;
        match self.remaining {
            None => {
                if !frame.before.is_empty() {
                    yaml::write(&Value::Map(frame.before.clone()), out);
                }
                out.extend_from_slice(frame.member.as_bytes());
                out.extend_from_slice(b":\n");
            }
            Some(items) => {
                out.extend_from_slice(&cbor::SELF_DESCRIBED);
                cbor::write_map_head(frame.len(), out);
                write_cbor_members(&frame.before, out);
                cbor::write_item(&frame.member.into(), out);
                cbor::write_list_head(items, out);
            }
        }
    }

    fn item(&mut self, item: &ListItem, out: &mut Vec<u8>) -> Result<(), ApiError> {
        self.text.clear();
        self.writer.item(item, &mut self.text)?;
        let tree = parsed(&self.text)?;
        if self.text.capacity() > RUN_BYTES {
            // A large object must not keep its room while the client waits.
            self.text = Vec::new();
        }
        match &mut self.remaining {
            None => yaml::write(&vec![tree].into(), out),
            Some(remaining) => {
                *remaining = remaining.checked_sub(1).ok_or_else(changed)?;
                cbor::write_item(&tree, out);
            }
        }
        Ok(())
    }

    fn end(&self, is_empty: bool, out: &mut Vec<u8>) -> Result<(), ApiError> {
        match self.remaining {
            None if is_empty => yaml::write(&self.frame.empty, out),
            None if self.frame.after.is_empty() => {}
            None => yaml::write(&Value::Map(self.frame.after.clone()), out),
            Some(1..) => return Err(changed()),
            Some(0) if is_empty => cbor::write(&self.frame.empty, out),
            Some(0) => write_cbor_members(&self.frame.after, out),
        }
        Ok(())
    }
}

fn write_cbor_members(members: &Map, out: &mut Vec<u8>) {
    for (name, value) in members.iter() {
        cbor::write_item(&name.clone().into(), out);
        cbor::write_item(value, out);
    }
}

/// The error where a webhook answers otherwise than before.
fn changed() -> ApiError {
    ApiError::internal("the objects of a list are not those that were measured")
}

/// Writes a list in one format.
enum Encoder {
    Json {
        writer: Writer,
        indenter: Option<Indenter>,
    },
    Tree(TreeEncoder),
    Protobuf {
        messages: ItemMessages,
        frame: ListFrame,
        /// Size of the items to come.
        remaining: usize,
    },
}

impl Encoder {
    /// True if an item is more than copied, so that a large one takes long.
    fn parses(&self) -> bool {
        !matches!(self, Self::Json { .. })
    }

    fn item(&mut self, item: &ListItem, is_first: bool, out: &mut Vec<u8>) -> Result<(), ApiError> {
        match self {
            Self::Json { writer, .. } => {
                writer.before(is_first, out);
                writer.item(item, out)
            }
            Self::Tree(encoder) => {
                if is_first {
                    encoder.begin(out);
                }
                encoder.item(item, out)
            }
            Self::Protobuf {
                messages,
                frame,
                remaining,
            } => {
                let message = messages.message(item)?;
                let size = ListFrame::item_size(message.len());
                *remaining = remaining.checked_sub(size).ok_or_else(changed)?;
                frame.write_item(&message, out);
                Ok(())
            }
        }
    }

    fn end(&mut self, is_empty: bool, out: &mut Vec<u8>) -> Result<(), ApiError> {
        match self {
            Self::Json { writer, indenter } => {
                writer.end(is_empty, out);
                if indenter.is_none() {
                    out.push(b'\n');
                }
            }
            Self::Tree(encoder) => encoder.end(is_empty, out)?,
            Self::Protobuf { remaining: 1.., .. } => return Err(changed()),
            Self::Protobuf { frame, .. } => frame.write_tail(out),
        }
        Ok(())
    }

    /// Writes what makes the list unreadable where it has to end early.
    fn break_off(&self, out: &mut Vec<u8>) {
        if let Self::Tree(TreeEncoder { remaining: None, .. }) = self {
            out.extend_from_slice(YAML_BREAK);
        }
    }
}

/// A list on its way to its client.
struct ListBody {
    items: ListItems,
    encoder: Encoder,
    /// Runs that precede all others.
    ready: VecDeque<Bytes>,
    run: Vec<u8>,
    /// Goes on from run to run: what the connection does with one counts as well.
    turn: TimeSlice,
    is_first: bool,
    ended: bool,
    long_work: Option<LongWork>,
}

impl ListBody {
    fn new(items: ListItems, encoder: Encoder, run: Vec<u8>) -> Self {
        Self {
            items,
            encoder,
            ready: VecDeque::new(),
            run,
            turn: TimeSlice::default(),
            is_first: true,
            ended: false,
            long_work: LongWork::current(),
        }
    }

    fn into_body(self) -> ResponseBody {
        ResponseBody::stream(stream::unfold(self, |mut body| async move {
            let run = body.next().await?;
            Some((run, body))
        }))
    }

    /// The next run of bytes.
    async fn next(&mut self) -> Option<Bytes> {
        if let Some(run) = self.ready.pop_front() {
            return Some(run);
        }
        while !self.ended && self.run.len() < RUN_BYTES {
            if self.run.len() >= LONG_RUN_BYTES && self.run.capacity() < RUN_BYTES {
                self.run.reserve_exact(RUN_BYTES + LONG_RUN_BYTES - self.run.len());
            }
            if let Err(error) = self.write_next().await {
                // It is too late for another status; a list that breaks off cannot be read.
                tracing::error!(%error, "a list ends before its last object");
                self.encoder.break_off(&mut self.run);
                self.ended = true;
            }
        }
        let mut run = std::mem::take(&mut self.run);
        if let Encoder::Json {
            indenter: Some(indenter),
            ..
        } = &mut self.encoder
        {
            let mut indented = Vec::new();
            indenter.write(&run, &mut indented);
            run = indented;
        }
        (!run.is_empty()).then(|| Bytes::from(run))
    }

    async fn write_next(&mut self) -> Result<(), ApiError> {
        let Some(item) = self.items.next(&mut self.turn).await? else {
            self.ended = true;
            return self.encoder.end(self.is_first, &mut self.run);
        };
        let is_first = std::mem::replace(&mut self.is_first, false);
        let (encoder, run) = (&mut self.encoder, &mut self.run);
        match &self.long_work {
            Some(long_work) if encoder.parses() => {
                let size = item.entry.length();
                long_work.run(size, || encoder.item(&item, is_first, run)).await
            }
            _ => encoder.item(&item, is_first, run),
        }
    }
}
