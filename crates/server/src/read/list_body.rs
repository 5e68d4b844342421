//! Body of a list, written item by item as the client reads it, in every format.
//!
//! An unread body holds one chunk, or one object if that is larger. Protobuf has the length of the list before the
//! items, and CBOR their number: a first pass determines both before the first item is sent, and keeps no item. The
//! reference streams large lists as well (KEP-5116).

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

/// Size in bytes at which a chunk is sent.
const RUN_BYTES: usize = 64 * 1024;

/// Size in bytes from which a chunk gets its full capacity at once, so that it need not grow step by step.
const LONG_RUN_BYTES: usize = 8 * 1024;

/// Size in bytes up to which a protobuf list is built as a whole. The items of a larger list are measured first, and
/// encoded again as the client reads them, except those that are encoded already.
const WHOLE_BYTES: usize = 256 * 1024;

/// NUL, which is invalid in a YAML document. Without it a truncated document could be valid.
const YAML_BREAK: &[u8] = b"\n\0";

/// Returns the list of `items` in one of the text formats or CBOR. `writer` writes items as JSON; `head` is the JSON
/// before them.
///
/// # Errors
/// 500 if a webhook that is needed before the first object fails.
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
    // A webhook error for the first objects becomes a status. Later errors cannot, because the answer has begun.
    items.prepare().await?;
    Ok(ListBody::new(items, encoder, run).into_body())
}

/// Returns the list of `items` in protobuf; `frame` has the bytes around them.
///
/// # Errors
/// 406 if objects of the kind have no protobuf form, 500 if an object does not fit its type.
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
    requested: RequestedVersion,
    /// Writer of partial metadata as JSON; `None` for whole objects.
    partial: Option<Writer>,
}

impl ItemMessages {
    /// Creates the messages of whole objects, or of the objects that `partial` writes.
    pub(super) fn new(context: &Arc<Context>, requested: &RequestedVersion, partial: Option<Writer>) -> Self {
        Self {
            context: Arc::clone(context),
            requested: requested.clone(),
            partial,
        }
    }

    /// Returns the length of the message of an object, if it was encoded before.
    fn known_length(&self, item: &ListItem) -> Option<usize> {
        let length = item.entry.encoded_length()?;
        self.is_stored_whole(item).then_some(length)
    }

    fn is_stored_whole(&self, item: &ListItem) -> bool {
        self.partial.is_none() && self.requested.is_stored_whole(&item.entry)
    }

    fn message(&self, item: &ListItem) -> Result<Vec<u8>, ApiError> {
        let (messages, requested) = (&self.context.messages, &self.requested);
        if let Some(writer) = &self.partial {
            let mut text = Vec::new();
            writer.item(item, &mut text)?;
            let (api_version, kind) = ("meta.k8s.io/v1", "PartialObjectMetadata");
            return match protobuf::message_of_text(messages, api_version, kind, &text) {
                Some(message) => Ok(message),
                None => protobuf::message(messages, api_version, kind, &parsed(&text)?),
            };
        }
        let is_stored_whole = self.is_stored_whole(item);
        if is_stored_whole {
            let text = item.entry.bytes_once();
            let message = protobuf::message_of_text(messages, &requested.api_version, &requested.kind, &text);
            if let Some(message) = message {
                item.entry.set_encoded_length(message.len());
                return Ok(message);
            }
        }
        let stored = objects::tree(&item.entry);
        if is_stored_whole {
            let message = protobuf::message(messages, &requested.api_version, &requested.kind, &stored)?;
            item.entry.set_encoded_length(message.len());
            return Ok(message);
        }
        let tree = requested.answered(Tree::Stored(&stored))?;
        protobuf::message(messages, &requested.api_version, &requested.kind, &tree)
    }
}

fn parsed(text: &[u8]) -> Result<Value, ApiError> {
    json::parse(text, &Limits::TRUSTED).map_err(|error| ApiError::internal(error.to_string()))
}

/// Parts of a list around its items, in formats whose members are sorted.
struct Frame {
    /// The list without items.
    empty: Value,
    /// Members before the one with the items.
    before: Map,
    /// Name of the member with the items.
    member: &'static str,
    /// Members after the one with the items.
    after: Map,
}

impl Frame {
    /// Creates the frame of a list whose JSON begins with `head`.
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

/// Encoder of a list as YAML or CBOR.
struct TreeEncoder {
    writer: Writer,
    frame: Frame,
    /// Number of items that follow, for CBOR, which has their number before them.
    remaining: Option<usize>,
    /// Buffer for the JSON of an item.
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
            // The buffer of a large object is freed while the client waits.
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

/// Returns the error if a webhook converts objects differently in the second pass.
fn changed() -> ApiError {
    ApiError::internal("the objects of a list are not those that were measured")
}

/// Encoder of a list in one format.
enum Encoder {
    Json {
        writer: Writer,
        indenter: Option<Indenter>,
    },
    Tree(TreeEncoder),
    Protobuf {
        messages: ItemMessages,
        frame: ListFrame,
        /// Size in bytes of the items that follow.
        remaining: usize,
    },
}

impl Encoder {
    /// True if the item is read and not just copied, so that a large one is long work.
    fn parses(&self, item: &ListItem) -> bool {
        match self {
            Self::Json { writer, .. } => !writer.copies(item),
            Self::Tree(_) | Self::Protobuf { .. } => true,
        }
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

    /// Writes bytes that make a truncated list invalid.
    fn break_off(&self, out: &mut Vec<u8>) {
        if let Self::Tree(TreeEncoder { remaining: None, .. }) = self {
            out.extend_from_slice(YAML_BREAK);
        }
    }
}

/// List that is being sent to its client.
struct ListBody {
    items: ListItems,
    encoder: Encoder,
    /// Chunks that precede all others.
    ready: VecDeque<Bytes>,
    run: Vec<u8>,
    /// Time slice, which continues from chunk to chunk: the connection's work on a chunk counts as well.
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

    /// Returns the next chunk.
    async fn next(&mut self) -> Option<Bytes> {
        if let Some(run) = self.ready.pop_front() {
            return Some(run);
        }
        while !self.ended && self.run.len() < RUN_BYTES {
            if self.run.len() >= LONG_RUN_BYTES && self.run.capacity() < RUN_BYTES {
                self.run.reserve_exact(RUN_BYTES + LONG_RUN_BYTES - self.run.len());
            }
            if let Err(error) = self.write_next().await {
                // The status is already sent; the client cannot parse a truncated list.
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
            match &self.long_work {
                Some(long_work) => long_work.run(run.len(), || indenter.write(&run, &mut indented)).await,
                None => indenter.write(&run, &mut indented),
            }
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
        let size = item.entry.length();
        match &self.long_work {
            Some(long_work) if size >= long_work::LARGE && encoder.parses(&item) => {
                long_work.run(size, || encoder.item(&item, is_first, run)).await
            }
            _ => encoder.item(&item, is_first, run),
        }
    }
}
