//! Reader of records: one pass over the JSON of an object.

use holdfast_schema::types::TypeId;
use holdfast_value::{Limits, Value, json};

use crate::RecordTypes;
use crate::layout::{Form, Layout, Slot, Values};
use crate::node::{Kind, Node, Record, RecordBuffers};

/// Maximum nesting of values in a record. Reading and writing records is recursive, so this bounds the stack.
pub const MAX_DEPTH: u32 = 96;

/// Maximum size of a text with a record in bytes. Offsets have 32 bits.
const MAX_BYTES: usize = 1 << 30;

/// Nesting of the field sets of an object's managers: the object, its metadata, the list, an entry.
const OWNED_FIELDS_DEPTH: u32 = 4;

impl RecordTypes {
    /// Reads the record of an object of the type `of` from its JSON, in the memory of `buffers`.
    ///
    /// `None` if the text has no record, because it is not JSON of the usual form or not of this type.
    pub fn read<'t>(&self, of: TypeId, text: &'t [u8], buffers: &'t mut RecordBuffers) -> Option<Record<'t>> {
        if text.len() > MAX_BYTES {
            return None;
        }
        let text = std::str::from_utf8(text).ok()?;
        buffers.nodes.clear();
        buffers.open.clear();
        buffers.unescaped.clear();
        let mut reader = Reader {
            types: self,
            text,
            bytes: text.as_bytes(),
            at: 0,
            buffers,
            is_in_metadata: false,
        };
        reader.skip_space();
        if reader.next()? != b'{' {
            return None;
        }
        reader.structure(of, 0, 0)?;
        reader.skip_space();
        if reader.at < reader.bytes.len() {
            return None;
        }
        let root = reader.buffers.open.pop()?;
        Some(Record { text, buffers, root })
    }
}

struct Reader<'t, 'r, 'b> {
    types: &'r RecordTypes,
    text: &'t str,
    bytes: &'t [u8],
    at: usize,
    buffers: &'b mut RecordBuffers,
    /// True while the metadata of the object are read.
    is_in_metadata: bool,
}

impl Reader<'_, '_, '_> {
    /// Reads the rest of a struct after its brace.
    fn structure(&mut self, of: TypeId, slot: u16, depth: u32) -> Option<()> {
        let layout = self.types.layout(of)?;
        let first = self.buffers.open.len();
        let (mut found, mut present, mut is_sorted) = (0_u64, 0_u64, true);
        self.skip_space();
        if self.peek() == Some(b'}') {
            self.at += 1;
        } else {
            loop {
                let (slot, field) = self.name(layout)?;
                let bit = 1_u64.checked_shl(u32::from(slot))?;
                if found & bit != 0 {
                    // The rules for repeated fields are those of the tree.
                    return None;
                }
                is_sorted &= found < bit;
                found |= bit;
                if depth == 0 {
                    self.is_in_metadata = field.is_metadata();
                }
                match field.text {
                    Some(kind) if self.peek() == Some(b'"') => {
                        self.string(kind, field.form.of, slot)?;
                        present |= bit;
                    }
                    _ if self.value(field.form, slot, depth + 1)? => present |= bit,
                    _ => {}
                }
                if !self.another(b'}')? {
                    break;
                }
                self.skip_space();
            }
        }
        if !is_sorted {
            self.buffers
                .open
                .get_mut(first..)?
                .sort_unstable_by_key(|node| node.slot);
        }
        self.close(first, Kind::Struct, of, slot, present)
    }

    /// Reads the name of a field and its colon.
    #[inline]
    fn name<'r>(&mut self, layout: &'r Layout) -> Option<(u16, &'r Slot)> {
        if self.next()? != b'"' {
            return None;
        }
        let rest = self.bytes.get(self.at..)?;
        let word = match rest.first_chunk() {
            Some(word) => u64::from_le_bytes(*word),
            None => last_word(rest),
        };
        let length = first_quote(word);
        let (length, found) = if length < 8 {
            let mask = (1_u64 << (8 * length)) - 1;
            (length, layout.short_field(word & mask, length))
        } else {
            // A name with an escape is not that of a field.
            let length = json::plain_run(rest);
            if rest.get(length) != Some(&b'"') {
                return None;
            }
            (length, layout.field(rest.get(..length)?))
        };
        self.at += length + 1;
        self.skip_space();
        if self.next()? != b':' {
            return None;
        }
        self.skip_space();
        found
    }

    /// Reads a value with the space around it and adds its node. Returns false for `null`, which has no node.
    fn value(&mut self, form: Form, slot: u16, depth: u32) -> Option<bool> {
        let first = self.peek()?;
        if first == b'n' {
            self.word(b"null")?;
            return Some(false);
        }
        if form.values == Values::Free {
            let start = self.at;
            self.at = json::end_of_value(self.bytes, start)?;
            self.add(Kind::Free, form.of, slot, start, self.at);
            return Some(true);
        }
        match first {
            b'"' => {
                self.string(form.text()?, form.of, slot)?;
            }
            b'{' => match form.values {
                Values::FieldsV1 => self.fields_v1(form.of, slot, depth)?,
                Values::Struct | Values::Map if depth >= MAX_DEPTH => return None,
                Values::Struct => {
                    self.at += 1;
                    self.structure(form.of, slot, depth)?;
                }
                Values::Map => {
                    self.at += 1;
                    self.map(form.of_items(), slot, depth)?;
                }
                _ => return None,
            },
            b'[' if form.values == Values::List && depth < MAX_DEPTH => {
                self.at += 1;
                self.list(form.of_items(), slot, depth)?;
            }
            b't' | b'f' if form.values == Values::Bool => {
                let is_true = first == b't';
                self.word(if is_true { b"true" } else { b"false" })?;
                self.scalar(Kind::Bool, form.of, slot, u64::from(is_true));
            }
            b'-' | b'0'..=b'9' => self.number(form, slot)?,
            _ => return None,
        }
        Some(true)
    }

    /// Reads the items of a list after its bracket.
    fn list(&mut self, items: Form, slot: u16, depth: u32) -> Option<()> {
        let first = self.buffers.open.len();
        self.skip_space();
        if self.peek() == Some(b']') {
            self.at += 1;
        } else {
            loop {
                self.skip_space();
                if !self.value(items, 0, depth + 1)? {
                    return None;
                }
                if !self.another(b']')? {
                    break;
                }
            }
        }
        self.close(first, Kind::List, items.of, slot, 0)
    }

    /// Reads the members of a map after its brace.
    fn map(&mut self, values: Form, slot: u16, depth: u32) -> Option<()> {
        let first = self.buffers.open.len();
        let mut is_sorted = true;
        self.skip_space();
        if self.peek() == Some(b'}') {
            self.at += 1;
        } else {
            loop {
                self.skip_space();
                if self.peek()? != b'"' {
                    return None;
                }
                let key_at = self.buffers.open.len();
                self.string(Kind::String, values.of, 0)?;
                is_sorted = is_sorted && (key_at == first || self.is_before(key_at - 2, key_at));
                self.skip_space();
                if self.next()? != b':' {
                    return None;
                }
                self.skip_space();
                if !self.value(values, 0, depth + 1)? {
                    return None;
                }
                if !self.another(b'}')? {
                    break;
                }
            }
        }
        if !is_sorted {
            self.sort_map(first)?;
        }
        self.close(first, Kind::Map, values.of, slot, 0)
    }

    /// True if the key of the open node at one index is less than that at another.
    fn is_before(&self, before: usize, behind: usize) -> bool {
        match (self.buffers.open.get(before), self.buffers.open.get(behind)) {
            (Some(before), Some(behind)) => self.text_of(before) < self.text_of(behind),
            _ => false,
        }
    }

    /// Sorts the members of the map whose first key is the open node at this index. `None` if a key is repeated.
    fn sort_map(&mut self, first: usize) -> Option<()> {
        let mut open = std::mem::take(&mut self.buffers.open);
        let (members, _) = open.get_mut(first..).unwrap_or_default().as_chunks_mut::<2>();
        members.sort_by(|[a, _], [b, _]| self.text_of(a).cmp(self.text_of(b)));
        let is_unique = members.is_sorted_by(|[a, _], [b, _]| self.text_of(a) < self.text_of(b));
        self.buffers.open = open;
        is_unique.then_some(())
    }

    fn text_of(&self, node: &Node) -> &str {
        let buffer = if node.was_escaped {
            &self.buffers.unescaped
        } else {
            self.text
        };
        buffer.get(node.start as usize..node.end as usize).unwrap_or_default()
    }

    /// Reads a string.
    #[inline(always)]
    fn string(&mut self, kind: Kind, of: TypeId, slot: u16) -> Option<()> {
        let start = self.at + 1;
        let end = start + json::plain_run(self.bytes.get(start..)?);
        if self.bytes.get(end) == Some(&b'"') {
            self.at = end + 1;
            self.add(kind, of, slot, start, end);
            return Some(());
        }
        self.string_with_escapes(kind, of, slot)
    }

    #[cold]
    fn string_with_escapes(&mut self, kind: Kind, of: TypeId, slot: u16) -> Option<()> {
        let start = self.buffers.unescaped.len();
        self.at = json::unescape(self.text, self.at, &mut self.buffers.unescaped)?;
        self.add(kind, of, slot, start, self.buffers.unescaped.len());
        if let Some(node) = self.buffers.open.last_mut() {
            node.was_escaped = true;
        }
        Some(())
    }

    /// Skips a field set. That of a manager of the object itself stays the text that was stored.
    fn fields_v1(&mut self, of: TypeId, slot: u16, depth: u32) -> Option<()> {
        let start = self.at;
        self.at = json::end_of_value(self.bytes, start)?;
        let text = self.text.get(start..self.at)?;
        let is_stored_so =
            self.is_in_metadata && depth == OWNED_FIELDS_DEPTH && text != "{}" && json::escapes_only_quotes(text);
        let kind = if is_stored_so { Kind::FieldsV1 } else { Kind::Free };
        self.add(kind, of, slot, start, self.at);
        Some(())
    }

    fn number(&mut self, form: Form, slot: u16) -> Option<()> {
        let start = self.at;
        let rest = self.bytes.get(start..)?;
        let is_part = |byte: &u8| matches!(byte, b'0'..=b'9' | b'-' | b'+' | b'.' | b'e' | b'E');
        let length = rest.iter().position(|byte| !is_part(byte))?;
        self.at += length;
        let text = rest.get(..length)?;
        let (kind, bits) = match form.values {
            Values::Int64 => (Kind::Int, whole(text)?),
            Values::Int32 => (Kind::Int, i32::try_from(whole(text)?).ok()?.into()),
            Values::IntOrString => (Kind::IntOrString, i32::try_from(whole(text)?).ok()?.into()),
            Values::Double => (Kind::Double, double(text)?.to_bits().cast_signed()),
            _ => return None,
        };
        self.scalar(kind, form.of, slot, bits.cast_unsigned());
        Some(())
    }

    fn scalar(&mut self, kind: Kind, of: TypeId, slot: u16, bits: u64) {
        self.buffers.open.push(Node {
            kind,
            was_escaped: false,
            slot,
            of,
            start: 0,
            end: 0,
            bits,
        });
    }

    /// Adds the node of a text.
    #[inline]
    fn add(&mut self, kind: Kind, of: TypeId, slot: u16, start: usize, end: usize) {
        // The size of the text is limited, so offsets fit.
        self.buffers.open.push(Node {
            kind,
            was_escaped: false,
            slot,
            of,
            start: start as u32,
            end: end as u32,
            bits: 0,
        });
    }

    /// Closes a container: moves its nodes, the open ones from the index `first`, and adds its own.
    #[inline]
    fn close(&mut self, first: usize, kind: Kind, of: TypeId, slot: u16, bits: u64) -> Option<()> {
        let start = self.buffers.nodes.len() as u32;
        self.buffers.nodes.extend_from_slice(self.buffers.open.get(first..)?);
        self.buffers.open.truncate(first);
        self.buffers.open.push(Node {
            kind,
            was_escaped: false,
            slot,
            of,
            start,
            end: self.buffers.nodes.len() as u32,
            bits,
        });
        Some(())
    }

    /// Reads the comma before another member (true) or the bracket after the last one (false).
    #[inline]
    fn another(&mut self, closing: u8) -> Option<bool> {
        self.skip_space();
        let byte = self.next()?;
        if byte == b',' {
            return Some(true);
        }
        (byte == closing).then_some(false)
    }

    #[inline]
    fn skip_space(&mut self) {
        if self.peek().is_some_and(|byte| byte <= b' ') {
            self.skip_spaces();
        }
    }

    #[cold]
    fn skip_spaces(&mut self) {
        while let Some(b' ' | b'\n' | b'\r' | b'\t') = self.peek() {
            self.at += 1;
        }
    }

    fn word(&mut self, word: &[u8]) -> Option<()> {
        if !self.bytes.get(self.at..)?.starts_with(word) {
            return None;
        }
        self.at += word.len();
        Some(())
    }

    #[inline]
    fn peek(&self) -> Option<u8> {
        self.bytes.get(self.at).copied()
    }

    #[inline]
    fn next(&mut self) -> Option<u8> {
        let byte = self.peek()?;
        self.at += 1;
        Some(byte)
    }
}

/// Returns the last bytes of a text, which are fewer than eight, followed by zeros.
#[cold]
fn last_word(rest: &[u8]) -> u64 {
    let mut word = [0; 8];
    for (place, byte) in word.iter_mut().zip(rest) {
        *place = *byte;
    }
    u64::from_le_bytes(word)
}

/// Returns the index of the first quote among the bytes of a word, or 8.
#[inline]
fn first_quote(word: u64) -> usize {
    const ONES: u64 = u64::from_ne_bytes([1; 8]);
    let quotes = word ^ (ONES * b'"' as u64);
    // The lowest byte that is zero has the high bit set.
    let stops = quotes.wrapping_sub(ONES) & !quotes & (ONES << 7);
    stops.trailing_zeros() as usize / 8
}

/// Returns the whole number in a text of a number in JSON, if it has one.
fn whole(text: &[u8]) -> Option<i64> {
    let (is_negative, digits) = match text {
        [b'-', digits @ ..] => (true, digits),
        digits => (false, digits),
    };
    if digits.is_empty() || (digits.len() > 1 && digits.first() == Some(&b'0')) {
        return None;
    }
    let mut number = 0_i64;
    for digit in digits {
        let digit = digit.wrapping_sub(b'0');
        if digit > 9 {
            return None;
        }
        let next = number.checked_mul(10)?;
        number = match is_negative {
            true => next.checked_sub(i64::from(digit))?,
            false => next.checked_add(i64::from(digit))?,
        };
    }
    Some(number)
}

fn double(text: &[u8]) -> Option<f64> {
    match json::parse(text, &Limits::TRUSTED).ok()? {
        Value::Int(number) => Some(number as f64),
        Value::UInt(number) => Some(number as f64),
        Value::Float(number) => Some(number),
        _ => None,
    }
}
