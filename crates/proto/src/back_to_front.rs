use crate::wire::Wire;

/// Buffer that is written from its end to its beginning. A length precedes the bytes that it counts, so in this
/// direction it is known when it is written, and no bytes are moved or measured twice.
#[derive(Debug, Default)]
pub(crate) struct BackToFront {
    buffer: Vec<u8>,
    /// Start of the bytes written so far.
    start: usize,
}

impl BackToFront {
    pub(crate) fn with_capacity(capacity: usize) -> Self {
        Self {
            buffer: vec![0; capacity],
            start: capacity,
        }
    }

    /// Removes all bytes, and keeps the buffer for others unless it is larger than `max_kept` bytes.
    pub(crate) fn clear(&mut self, max_kept: usize) {
        if self.buffer.len() > max_kept {
            self.buffer = Vec::new();
        }
        self.start = self.buffer.len();
    }

    /// Returns the bytes written so far.
    #[expect(
        clippy::indexing_slicing,
        reason = "the start never exceeds the length of the buffer"
    )]
    pub(crate) fn as_slice(&self) -> &[u8] {
        &self.buffer[self.start..]
    }

    /// Returns the number of bytes written so far.
    pub(crate) fn len(&self) -> usize {
        self.buffer.len() - self.start
    }

    /// Reserves `length` bytes before those written so far.
    #[expect(
        clippy::indexing_slicing,
        reason = "the start never exceeds the length of the buffer"
    )]
    #[inline]
    pub(crate) fn room(&mut self, length: usize) -> &mut [u8] {
        if length > self.start {
            self.grow(length);
        }
        let end = self.start;
        self.start -= length;
        &mut self.buffer[self.start..end]
    }

    #[cold]
    #[expect(
        clippy::indexing_slicing,
        reason = "the start never exceeds the length of the buffer"
    )]
    fn grow(&mut self, length: usize) {
        let written = self.len();
        let capacity = (self.buffer.len() * 2).max(written + length).max(256);
        let mut buffer = vec![0; capacity];
        buffer[capacity - written..].copy_from_slice(self.as_slice());
        self.start = capacity - written;
        self.buffer = buffer;
    }

    pub(crate) fn bytes(&mut self, bytes: &[u8]) {
        self.room(bytes.len()).copy_from_slice(bytes);
    }

    #[expect(
        clippy::indexing_slicing,
        reason = "the start never exceeds the length of the buffer"
    )]
    #[inline]
    pub(crate) fn varint(&mut self, mut number: u64) {
        if number < 0x80 {
            self.room(1)[0] = number as u8;
            return;
        }
        let room = self.room(crate::wire::varint_len(number));
        for byte in room.iter_mut() {
            *byte = number as u8 | 0x80;
            number >>= 7;
        }
        if let Some(last) = room.last_mut() {
            *last &= 0x7F;
        }
    }

    pub(crate) fn tag(&mut self, number: u16, wire: Wire) {
        self.varint(u64::from(number) << 3 | wire as u64);
    }

    /// Writes a varint field.
    #[inline]
    pub(crate) fn number(&mut self, field: u16, number: u64) {
        if field < 16 && number < 0x80 {
            if let [tag, value] = self.room(2) {
                *tag = (field << 3) as u8 | Wire::Varint as u8;
                *value = number as u8;
            }
            return;
        }
        self.varint(number);
        self.tag(field, Wire::Varint);
    }

    /// Writes a length-delimited field.
    #[inline]
    pub(crate) fn field(&mut self, field: u16, bytes: &[u8]) {
        if field < 16 && bytes.len() < 0x80 {
            // Tag and length have one byte each.
            if let [tag, length, content @ ..] = self.room(bytes.len() + 2) {
                *tag = (field << 3) as u8 | Wire::Bytes as u8;
                *length = bytes.len() as u8;
                content.copy_from_slice(bytes);
            }
            return;
        }
        let end = self.len();
        self.bytes(bytes);
        self.close(field, end);
    }

    /// Prepends the tag and the length of all bytes written since the length was `end`.
    #[inline]
    pub(crate) fn close(&mut self, field: u16, end: usize) {
        let written = self.len() - end;
        if field < 16 && written < 0x80 {
            if let [tag, length] = self.room(2) {
                *tag = (field << 3) as u8 | Wire::Bytes as u8;
                *length = written as u8;
            }
            return;
        }
        self.varint((self.len() - end) as u64);
        self.tag(field, Wire::Bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn last_written_bytes_come_first() {
        let mut out = BackToFront::with_capacity(3);
        let end = out.len();
        out.field(2, b"text");
        out.number(1, 300);
        out.close(17, end);
        assert_eq!(out.as_slice(), b"\x8a\x01\x09\x08\xac\x02\x12\x04text");
    }
}
