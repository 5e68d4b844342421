use std::borrow::Cow;

use crate::DecodeError;
use crate::back_to_front::BackToFront;
use crate::wire::{Input, Wire, field_length, varint_len, write_bytes, write_field_head};

/// Prefix of every object in protobuf, in storage and in transit.
pub const MAGIC: [u8; 4] = *b"k8s\0";

/// Suffix of every object in protobuf: the empty `contentEncoding` and `contentType` of its envelope.
pub const TAIL: [u8; 4] = [0x1A, 0, 0x22, 0];

/// Field numbers of `runtime.Unknown` and its messages.
mod number {
    pub(super) const TYPE_META: u32 = 1;
    pub(super) const API_VERSION: u32 = 1;
    pub(super) const KIND: u32 = 2;
    pub(super) const RAW: u32 = 2;
    pub(super) const LIST_META: u32 = 1;
    pub(super) const ITEMS: u32 = 2;
    pub(super) const EVENT_TYPE: u32 = 1;
    pub(super) const EVENT_OBJECT: u32 = 2;
    pub(super) const EVENT_RAW: u32 = 1;
}

/// Envelope of an object's message: the magic number, then `runtime.Unknown` with `apiVersion` and `kind`.
///
/// ```
/// use holdfast_proto::{Envelope, write_envelope};
///
/// let mut bytes = Vec::new();
/// write_envelope("v1", "ConfigMap", b"message", &mut bytes);
/// let envelope = Envelope::read(&bytes)?;
/// assert_eq!((envelope.api_version.as_ref(), envelope.kind.as_ref()), ("v1", "ConfigMap"));
/// assert_eq!(envelope.message, b"message");
/// # Ok::<(), holdfast_proto::DecodeError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Envelope<'a> {
    /// The `apiVersion`; may be empty.
    pub api_version: Cow<'a, str>,
    /// The `kind`; may be empty.
    pub kind: Cow<'a, str>,
    /// Message of the object.
    pub message: &'a [u8],
}

impl<'a> Envelope<'a> {
    /// Reads an envelope.
    ///
    /// # Errors
    /// Returns the reference's message if there is none.
    pub fn read(bytes: &'a [u8]) -> Result<Self, DecodeError> {
        if bytes.is_empty() {
            return Err(DecodeError::Empty);
        }
        let body = bytes.strip_prefix(&MAGIC).ok_or(DecodeError::NoMagic)?;
        if body.is_empty() {
            return Err(DecodeError::EmptyBody);
        }
        let mut envelope = Self {
            api_version: Cow::Borrowed(""),
            kind: Cow::Borrowed(""),
            message: &[],
        };
        let mut input = Input::new(body);
        while let Some(tag) = input.tag("Unknown")? {
            match tag.number {
                number::TYPE_META => {
                    tag.expect(Wire::Bytes, "typeMeta")?;
                    envelope.read_type_meta(Input::new(input.bytes()?))?;
                }
                number::RAW => {
                    tag.expect(Wire::Bytes, "raw")?;
                    envelope.message = input.bytes()?;
                }
                _ => input.skip(tag)?,
            }
        }
        Ok(envelope)
    }

    fn read_type_meta(&mut self, mut input: Input<'a>) -> Result<(), DecodeError> {
        while let Some(tag) = input.tag("TypeMeta")? {
            let (place, name) = match tag.number {
                number::API_VERSION => (&mut self.api_version, "apiVersion"),
                number::KIND => (&mut self.kind, "kind"),
                _ => {
                    input.skip(tag)?;
                    continue;
                }
            };
            tag.expect(Wire::Bytes, name)?;
            *place = String::from_utf8_lossy(input.bytes()?);
        }
        Ok(())
    }
}

/// Appends an object: `message` in its envelope.
pub fn write_envelope(api_version: &str, kind: &str, message: &[u8], out: &mut Vec<u8>) {
    out.reserve(message.len() + api_version.len() + kind.len() + 32);
    write_envelope_head(api_version, kind, message.len(), out);
    out.extend_from_slice(message);
    out.extend_from_slice(&TAIL);
}

/// Appends the start of an envelope: all that precedes a message of `message` bytes. The [`TAIL`] follows the message.
pub fn write_envelope_head(api_version: &str, kind: &str, message: usize, out: &mut Vec<u8>) {
    out.extend_from_slice(&MAGIC);
    let type_meta = field_length(api_version.len()) + field_length(kind.len());
    write_field_head(number::TYPE_META, type_meta, out);
    write_bytes(number::API_VERSION, api_version.as_bytes(), out);
    write_bytes(number::KIND, kind.as_bytes(), out);
    write_field_head(number::RAW, message, out);
}

/// Writes what follows the message of an object in its envelope, and returns the place where the message ends.
pub(crate) fn begin_at_end(out: &mut BackToFront) -> usize {
    out.bytes(&TAIL);
    out.len()
}

/// Writes what precedes the message of an object in its envelope. The message is all that was written since `end`.
pub(crate) fn finish_at_start(api_version: &str, kind: &str, end: usize, out: &mut BackToFront) {
    out.close(number::RAW as u16, end);
    let end = out.len();
    out.field(number::KIND as u16, kind.as_bytes());
    out.field(number::API_VERSION as u16, api_version.as_bytes());
    out.close(number::TYPE_META as u16, end);
    out.bytes(&MAGIC);
}

/// Framing of a list and its items, so that previously encoded items are sent unchanged: the head, then for each item
/// its [`ListHead::item`] and its message, then the [`TAIL`].
///
/// ```
/// use holdfast_proto::{ListHead, TAIL, write_list};
///
/// let items: [&[u8]; 2] = [b"one", b"two"];
/// let mut whole = Vec::new();
/// write_list("v1", "PodList", b"", items.into_iter(), &mut whole);
///
/// // The same list in pieces.
/// let mut head = ListHead::default();
/// items.iter().for_each(|item| head.add(item.len()));
/// let mut pieces = Vec::new();
/// head.write("v1", "PodList", b"", &mut pieces);
/// for item in items {
///     ListHead::item(item.len(), &mut pieces);
///     pieces.extend_from_slice(item);
/// }
/// pieces.extend_from_slice(&TAIL);
/// assert_eq!(pieces, whole);
/// ```
#[derive(Clone, Copy, Debug, Default)]
pub struct ListHead {
    /// Total size of the items in bytes, including their framing.
    items: usize,
}

impl ListHead {
    /// Adds an item whose message has `message` bytes. Add all items before the head is written, because it contains
    /// the total length.
    pub fn add(&mut self, message: usize) {
        self.items += field_length(message);
    }

    /// Returns the size of the list in bytes, from its head to its tail.
    pub fn len_of_list(self, api_version: &str, kind: &str, metadata: &[u8]) -> usize {
        let type_meta = field_length(api_version.len()) + field_length(kind.len());
        let message = field_length(metadata.len()) + self.items;
        MAGIC.len() + field_length(type_meta) + 1 + varint_len(message as u64) + message + TAIL.len()
    }

    /// Appends the head of a list of that version and kind (`v1`, `PodList`) with the message of its `ListMeta`.
    pub fn write(self, api_version: &str, kind: &str, metadata: &[u8], out: &mut Vec<u8>) {
        let message = field_length(metadata.len()) + self.items;
        write_envelope_head(api_version, kind, message, out);
        write_bytes(number::LIST_META, metadata, out);
    }

    /// Appends the bytes before an item whose message has `message` bytes.
    pub fn item(message: usize, out: &mut Vec<u8>) {
        write_field_head(number::ITEMS, message, out);
    }
}

/// Appends a whole list of that version and kind (`v1`, `PodList`): `metadata` is the message of its `ListMeta`,
/// `items` are the messages of its items.
pub fn write_list<'i>(
    api_version: &str,
    kind: &str,
    metadata: &[u8],
    items: impl Iterator<Item = &'i [u8]> + Clone,
    out: &mut Vec<u8>,
) {
    let mut head = ListHead::default();
    items.clone().for_each(|item| head.add(item.len()));
    out.reserve(head.len_of_list(api_version, kind, metadata));
    head.write(api_version, kind, metadata, out);
    for item in items {
        ListHead::item(item.len(), out);
        out.extend_from_slice(item);
    }
    out.extend_from_slice(&TAIL);
}

/// Appends a frame of a watch stream: its length in four bytes, most significant first, then a `WatchEvent` of that
/// type (`ADDED`) without its own envelope. `object` is in its envelope.
///
/// ```
/// let mut frame = Vec::new();
/// holdfast_proto::write_watch_event("ADDED", b"object", &mut frame);
/// let length = u32::from_be_bytes(frame[..4].try_into()?);
/// assert_eq!(length as usize, frame.len() - 4);
/// # Ok::<(), std::array::TryFromSliceError>(())
/// ```
pub fn write_watch_event(event_type: &str, object: &[u8], out: &mut Vec<u8>) {
    let raw = field_length(object.len());
    let length = field_length(event_type.len()) + field_length(raw);
    out.reserve(4 + length);
    // An object is far smaller than four gigabytes.
    out.extend_from_slice(&(length as u32).to_be_bytes());
    write_bytes(number::EVENT_TYPE, event_type.as_bytes(), out);
    write_field_head(number::EVENT_OBJECT, raw, out);
    write_bytes(number::EVENT_RAW, object, out);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn object_is_written_in_its_envelope() {
        let mut out = Vec::new();
        write_envelope("v1", "Pod", b"message", &mut out);
        assert_eq!(
            out,
            b"k8s\0\x0a\x09\x0a\x02v1\x12\x03Pod\x12\x07message\x1a\x00\x22\x00"
        );
        let envelope = Envelope::read(&out).unwrap();
        assert_eq!((&*envelope.api_version, &*envelope.kind), ("v1", "Pod"));
        assert_eq!(envelope.message, b"message");
    }

    #[test]
    fn invalid_envelope_gives_reference_error() {
        let error = |bytes: &[u8]| Envelope::read(bytes).unwrap_err().to_string();
        assert_eq!(error(b""), "empty data");
        assert_eq!(error(b"k8s\0"), "empty body");
        assert_eq!(
            error(b"not protobuf"),
            "provided data does not appear to be a protobuf message, expected prefix [107 56 115 0]"
        );
        assert_eq!(error(b"k8s\0\x0a\x09\x0a"), "unexpected EOF");
        assert_eq!(error(b"k8s\0\x08\x00"), "proto: wrong wireType = 0 for field TypeMeta");
    }

    #[test]
    fn missing_envelope_fields_are_empty() {
        let envelope = Envelope::read(b"k8s\0\x1a\x00").unwrap();
        assert_eq!((&*envelope.api_version, &*envelope.kind), ("", ""));
        assert!(envelope.message.is_empty());
    }

    #[test]
    fn a_list_is_put_together_of_items_that_were_written_before() {
        let items: [&[u8]; 3] = [b"first", &[7; 300], b""];
        let mut out = Vec::new();
        write_list("v1", "PodList", b"meta", items.into_iter(), &mut out);
        let mut head = ListHead::default();
        items.iter().for_each(|item| head.add(item.len()));
        assert_eq!(out.len(), head.len_of_list("v1", "PodList", b"meta"));
        let envelope = Envelope::read(&out).unwrap();
        assert_eq!(envelope.kind, "PodList");
        let mut input = Input::new(envelope.message);
        let mut fields = Vec::new();
        while let Some(tag) = input.tag("PodList").unwrap() {
            fields.push((tag.number, input.bytes().unwrap()));
        }
        assert_eq!(fields, [(1, &b"meta"[..]), (2, items[0]), (2, items[1]), (2, items[2])]);
        assert_eq!(out[out.len() - 4..], TAIL);
    }

    #[test]
    fn a_watch_event_is_a_frame_with_its_length() {
        let mut out = Vec::new();
        write_watch_event("ADDED", b"object", &mut out);
        assert_eq!(out, b"\0\0\0\x11\x0a\x05ADDED\x12\x08\x0a\x06object");
    }
}
