//! The untyped part of protobuf's wire format.

use holdfast_value::SmolStr;

use crate::DecodeError;

/// Wire type: the framing of a field's bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Wire {
    Varint = 0,
    Fixed64 = 1,
    Bytes = 2,
    StartGroup = 3,
    EndGroup = 4,
    Fixed32 = 5,
}

impl Wire {
    fn from_tag(tag: u64) -> Result<Self, DecodeError> {
        Ok(match tag & 7 {
            0 => Self::Varint,
            1 => Self::Fixed64,
            2 => Self::Bytes,
            3 => Self::StartGroup,
            4 => Self::EndGroup,
            5 => Self::Fixed32,
            unknown => return Err(DecodeError::IllegalWireType(unknown as u8)),
        })
    }
}

/// Tag of a field. The reader of the field, or the code that skips it, checks the wire type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Tag {
    pub(crate) number: u32,
    bits: u64,
}

/// Rest of a message.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Input<'a> {
    rest: &'a [u8],
}

impl<'a> Input<'a> {
    pub(crate) fn new(bytes: &'a [u8]) -> Self {
        Self { rest: bytes }
    }

    pub(crate) fn is_empty(self) -> bool {
        self.rest.is_empty()
    }

    #[expect(clippy::indexing_slicing, reason = "this many bytes were just read")]
    pub(crate) fn varint(&mut self) -> Result<u64, DecodeError> {
        if let [first @ 0..=0x7F, rest @ ..] = self.rest {
            self.rest = rest;
            return Ok(u64::from(*first));
        }
        let mut number = 0;
        for (at, byte) in self.rest.iter().enumerate() {
            if at == 10 {
                return Err(DecodeError::Overflow);
            }
            // Only one bit of the tenth byte counts; the others are dropped, as in the reference.
            number |= u64::from(byte & 0x7F) << (7 * at);
            if byte & 0x80 == 0 {
                self.rest = &self.rest[at + 1..];
                return Ok(number);
            }
        }
        Err(DecodeError::Truncated)
    }

    /// Reads the next tag of a message of the type `of`; `None` at the end.
    pub(crate) fn tag(&mut self, of: &str) -> Result<Option<Tag>, DecodeError> {
        self.tag_of(|| of)
    }

    /// Reads the next tag of a message; `None` at the end. `of` returns the type of the message for an error.
    pub(crate) fn tag_of<'n>(&mut self, of: impl FnOnce() -> &'n str) -> Result<Option<Tag>, DecodeError> {
        let Some(tag) = self.entry_tag()? else {
            return Ok(None);
        };
        if tag.bits & 7 == Wire::EndGroup as u64 {
            return Err(DecodeError::EndGroup(SmolStr::new(of())));
        }
        if tag.number == 0 || tag.number > i32::MAX as u32 {
            return Err(DecodeError::IllegalTag {
                of: SmolStr::new(of()),
                number: tag.number.cast_signed(),
                tag: tag.bits,
            });
        }
        Ok(Some(tag))
    }

    /// Reads the next tag of a map entry, which the reference checks less strictly.
    pub(crate) fn entry_tag(&mut self) -> Result<Option<Tag>, DecodeError> {
        if self.rest.is_empty() {
            return Ok(None);
        }
        let bits = self.varint()?;
        // Bits beyond 32 are dropped, as in the reference.
        let number = (bits >> 3) as u32;
        Ok(Some(Tag { number, bits }))
    }

    /// Reads a length and the bytes after it.
    pub(crate) fn bytes(&mut self) -> Result<&'a [u8], DecodeError> {
        let length = self.varint()?;
        if length > i64::MAX as u64 {
            return Err(DecodeError::NegativeLength);
        }
        self.take(usize::try_from(length).map_err(|_| DecodeError::Truncated)?)
    }

    #[expect(clippy::indexing_slicing, reason = "this many bytes were just read")]
    pub(crate) fn fixed64(&mut self) -> Result<u64, DecodeError> {
        let bytes = self.rest.first_chunk().ok_or(DecodeError::Truncated)?;
        self.rest = &self.rest[8..];
        Ok(u64::from_le_bytes(*bytes))
    }

    fn take(&mut self, length: usize) -> Result<&'a [u8], DecodeError> {
        let (taken, rest) = self.rest.split_at_checked(length).ok_or(DecodeError::Truncated)?;
        self.rest = rest;
        Ok(taken)
    }

    /// Skips the field of `tag`.
    pub(crate) fn skip(&mut self, tag: Tag) -> Result<(), DecodeError> {
        let mut groups = 0usize;
        let mut bits = tag.bits;
        loop {
            match Wire::from_tag(bits)? {
                Wire::Varint => drop(self.varint()?),
                Wire::Fixed64 => drop(self.take(8)?),
                Wire::Bytes => drop(self.bytes()?),
                Wire::Fixed32 => drop(self.take(4)?),
                Wire::StartGroup => groups += 1,
                Wire::EndGroup => groups = groups.checked_sub(1).ok_or(DecodeError::UnexpectedEndOfGroup)?,
            }
            if groups == 0 {
                return Ok(());
            }
            bits = self.varint()?;
        }
    }
}

impl Tag {
    /// True if the field has the wire type `wire`.
    pub(crate) fn is(self, wire: Wire) -> bool {
        self.bits & 7 == wire as u64
    }

    /// Returns the tag of the items packed in this field, each with the wire type `wire`.
    pub(crate) fn of_packed(self, wire: Wire) -> Self {
        let bits = self.bits & !7 | wire as u64;
        Self { bits, ..self }
    }

    /// Rejects a field with a wire type other than `wire`. `field` is its JSON name.
    pub(crate) fn expect(self, wire: Wire, field: &str) -> Result<(), DecodeError> {
        if self.is(wire) {
            return Ok(());
        }
        Err(DecodeError::WrongWireType {
            wire: (self.bits & 7) as u8,
            field: go_name(field),
        })
    }
}

/// Initialisms that the reference capitalizes at the start of field names.
const CAPITALS: [&str; 36] = [
    "api", "aws", "ca", "cidr", "csi", "dns", "fc", "fs", "gce", "gmsa", "grpc", "http", "id", "ip", "iqn", "iscsi",
    "kms", "nfs", "os", "pd", "qos", "rbd", "sctp", "se", "tcp", "tls", "tty", "ttl", "udp", "uid", "uri", "url", "vm",
    "wwn", "x509", "yaml",
];

/// Returns the name of a field in the reference's structs for its JSON name.
fn go_name(field: &str) -> SmolStr {
    if field == "metadata" {
        return SmolStr::new_static("ObjectMeta");
    }
    let word = field
        .find(|letter: char| letter.is_ascii_uppercase())
        .unwrap_or(field.len());
    let (word, rest) = field.split_at(word);
    if CAPITALS.contains(&word) {
        return SmolStr::from(format!("{}{rest}", word.to_ascii_uppercase()));
    }
    let (first, others) = word.split_at(word.chars().next().map_or(0, char::len_utf8));
    SmolStr::from(format!("{}{others}{rest}", first.to_ascii_uppercase()))
}

/// Appends a varint.
pub(crate) fn write_varint(mut number: u64, out: &mut Vec<u8>) {
    while number >= 0x80 {
        out.push(number as u8 | 0x80);
        number >>= 7;
    }
    out.push(number as u8);
}

/// Returns the size of a varint in bytes.
pub(crate) fn varint_len(number: u64) -> usize {
    (number | 1).ilog2() as usize / 7 + 1
}

/// Appends a length-delimited field.
pub fn write_bytes(number: u32, bytes: &[u8], out: &mut Vec<u8>) {
    write_field_head(number, bytes.len(), out);
    out.extend_from_slice(bytes);
}

/// Appends the number and the length of a length-delimited field, which precede its bytes.
pub fn write_field_head(number: u32, length: usize, out: &mut Vec<u8>) {
    write_varint(u64::from(number) << 3 | Wire::Bytes as u64, out);
    write_varint(length as u64, out);
}

/// Returns the size of a length-delimited field of `length` bytes, number and length included. The number is below 16.
pub fn field_length(length: usize) -> usize {
    1 + varint_len(length as u64) + length
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn varints_are_read_as_written() {
        for number in [0, 1, 127, 128, 300, 1 << 35, u64::MAX >> 1, u64::MAX] {
            let mut bytes = Vec::new();
            write_varint(number, &mut bytes);
            assert_eq!(bytes.len(), varint_len(number));
            let mut input = Input::new(&bytes);
            assert_eq!(input.varint(), Ok(number));
            assert!(input.is_empty());
            for end in 0..bytes.len() {
                assert_eq!(Input::new(&bytes[..end]).varint(), Err(DecodeError::Truncated));
            }
        }
        assert_eq!(Input::new(&[0xFF; 11]).varint(), Err(DecodeError::Overflow));
        assert_eq!(Input::new(&[0x80; 10]).varint(), Err(DecodeError::Truncated));
    }

    #[test]
    fn tags_are_checked() {
        let tag = |bytes: &[u8]| Input::new(bytes).tag("Pod").map_err(|error| error.to_string());
        assert_eq!(tag(&[]), Ok(None));
        assert_eq!(tag(&[0x0A]), Ok(Some(Tag { number: 1, bits: 10 })));
        assert_eq!(tag(&[0x02]).unwrap_err(), "proto: Pod: illegal tag 0 (wire type 2)");
        assert_eq!(
            tag(&[0x0C]).unwrap_err(),
            "proto: Pod: wiretype end group for non-group"
        );
        let negative = tag(&[0x80, 0x80, 0x80, 0x80, 0x40]).unwrap_err();
        assert_eq!(negative, "proto: Pod: illegal tag -2147483648 (wire type 17179869184)");
        let unknown = Input::new(&[0x0E]).tag("Pod").unwrap().unwrap();
        assert_eq!(Input::new(&[]).skip(unknown), Err(DecodeError::IllegalWireType(6)));
        let wrong = unknown.expect(Wire::Bytes, "metadata").unwrap_err();
        assert_eq!(wrong.to_string(), "proto: wrong wireType = 6 for field ObjectMeta");
    }

    #[test]
    fn fields_have_the_names_of_the_reference() {
        for (field, name) in [
            ("gracePeriodSeconds", "GracePeriodSeconds"),
            ("uid", "UID"),
            ("dnsPolicy", "DNSPolicy"),
            ("hostIP", "HostIP"),
            ("", ""),
        ] {
            assert_eq!(go_name(field), name);
        }
    }

    #[test]
    fn lengths_stay_within_the_input() {
        assert_eq!(Input::new(&[2, 7]).bytes(), Err(DecodeError::Truncated));
        let negative = [0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 1];
        assert_eq!(Input::new(&negative).bytes(), Err(DecodeError::NegativeLength));
        let huge = [0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0x7F];
        assert_eq!(Input::new(&huge).bytes(), Err(DecodeError::Truncated));
    }

    #[test]
    fn fields_of_every_wire_type_are_passed_over() {
        let fields: &[&[u8]] = &[
            &[0x08, 0x96, 0x01],
            &[0x09, 1, 2, 3, 4, 5, 6, 7, 8],
            &[0x0A, 2, 1, 2],
            &[0x0D, 1, 2, 3, 4],
            &[0x0B, 0x10, 1, 0x1B, 0x1C, 0x0C],
        ];
        for field in fields {
            let mut input = Input::new(field);
            let tag = input.entry_tag().unwrap().unwrap();
            assert_eq!(input.skip(tag), Ok(()));
            assert!(input.is_empty());
            let mut short = Input::new(&field[..field.len() - 1]);
            let tag = short.entry_tag().unwrap().unwrap();
            assert_eq!(short.skip(tag), Err(DecodeError::Truncated));
        }
        let mut stray = Input::new(&[0x0C]);
        let tag = stray.entry_tag().unwrap().unwrap();
        assert_eq!(stray.skip(tag), Err(DecodeError::UnexpectedEndOfGroup));
    }
}
