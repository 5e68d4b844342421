//! The wire format of protobuf, as far as it knows nothing of types.

use holdfast_value::SmolStr;

use crate::DecodeError;

/// How the bytes of a field are delimited.
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

/// What stands before each field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Tag {
    pub(crate) number: u32,
    pub(crate) wire: Wire,
}

/// The largest number of a field.
const MAX_NUMBER: u64 = (1 << 29) - 1;

/// What is left to read of a message.
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
            // Of the tenth byte one bit counts; the others fall off, as in the reference.
            number |= u64::from(byte & 0x7F) << (7 * at);
            if byte & 0x80 == 0 {
                self.rest = &self.rest[at + 1..];
                return Ok(number);
            }
        }
        Err(DecodeError::Truncated)
    }

    /// The next tag; `None` at the end.
    pub(crate) fn tag(&mut self) -> Result<Option<Tag>, DecodeError> {
        if self.rest.is_empty() {
            return Ok(None);
        }
        let tag = self.varint()?;
        let (number, bits) = (tag >> 3, (tag & 7) as u8);
        if number == 0 || number > MAX_NUMBER {
            return Err(DecodeError::IllegalTag { number, wire: bits });
        }
        let wire = match bits {
            0 => Wire::Varint,
            1 => Wire::Fixed64,
            2 => Wire::Bytes,
            3 => Wire::StartGroup,
            4 => Wire::EndGroup,
            5 => Wire::Fixed32,
            _ => return Err(DecodeError::IllegalWireType(bits)),
        };
        let number = number as u32;
        Ok(Some(Tag { number, wire }))
    }

    /// The bytes behind a length.
    pub(crate) fn bytes(&mut self) -> Result<&'a [u8], DecodeError> {
        let length = self.varint()?;
        if length > i64::MAX as u64 {
            return Err(DecodeError::NegativeLength);
        }
        self.take(usize::try_from(length).map_err(|_| DecodeError::Truncated)?)
    }

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

    /// Passes over the field behind `tag`.
    pub(crate) fn skip(&mut self, tag: Tag) -> Result<(), DecodeError> {
        let mut groups = 0usize;
        let mut wire = tag.wire;
        loop {
            match wire {
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
            wire = self.tag()?.ok_or(DecodeError::Truncated)?.wire;
        }
    }
}

impl Tag {
    /// Refuses a field that is not delimited as `wire`.
    pub(crate) fn expect(self, wire: Wire, field: &str) -> Result<(), DecodeError> {
        if self.wire == wire {
            return Ok(());
        }
        Err(DecodeError::WrongWireType {
            wire: self.wire as u8,
            field: SmolStr::new(field),
        })
    }
}

/// Appends a varint.
pub(crate) fn write_varint(mut number: u64, out: &mut Vec<u8>) {
    while number >= 0x80 {
        out.push(number as u8 | 0x80);
        number >>= 7;
    }
    out.push(number as u8);
}

/// How many bytes a varint takes.
pub(crate) fn varint_len(number: u64) -> usize {
    (number | 1).ilog2() as usize / 7 + 1
}

/// Appends a length-delimited field.
pub fn write_bytes(number: u32, bytes: &[u8], out: &mut Vec<u8>) {
    write_head(number, bytes.len(), out);
    out.extend_from_slice(bytes);
}

/// Appends what stands before the bytes of a length-delimited field.
pub(crate) fn write_head(number: u32, length: usize, out: &mut Vec<u8>) {
    write_varint(u64::from(number) << 3 | Wire::Bytes as u64, out);
    write_varint(length as u64, out);
}

/// How many bytes a length-delimited field with a number below 16 takes.
pub(crate) fn bytes_len(length: usize) -> usize {
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
        let tag = |bytes: &[u8]| Input::new(bytes).tag();
        assert_eq!(tag(&[]), Ok(None));
        let wire = Wire::Bytes;
        assert_eq!(tag(&[0x0A]), Ok(Some(Tag { number: 1, wire })));
        assert_eq!(tag(&[0x02]), Err(DecodeError::IllegalTag { number: 0, wire: 2 }));
        assert_eq!(tag(&[0x0E]), Err(DecodeError::IllegalWireType(6)));
        assert!(matches!(
            tag(&[0x80, 0x80, 0x80, 0x80, 0x10]),
            Err(DecodeError::IllegalTag {
                number: 0x2000_0000,
                ..
            })
        ));
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
            let tag = input.tag().unwrap().unwrap();
            assert_eq!(input.skip(tag), Ok(()));
            assert!(input.is_empty());
            let mut short = Input::new(&field[..field.len() - 1]);
            let tag = short.tag().unwrap().unwrap();
            assert_eq!(short.skip(tag), Err(DecodeError::Truncated));
        }
        let mut stray = Input::new(&[0x0C]);
        let tag = stray.tag().unwrap().unwrap();
        assert_eq!(stray.skip(tag), Err(DecodeError::UnexpectedEndOfGroup));
    }
}
