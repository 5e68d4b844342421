//! Validation of the outer DER (X.690) structure of certificate requests and certificates, with the messages of Go's
//! `encoding/asn1` and `crypto/x509`.

/// Tag of a sequence, which is constructed.
const SEQUENCE: Tag = Tag {
    class: 0,
    number: 16,
    is_compound: true,
};

/// ASN.1 tag of a value.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Tag {
    class: u8,
    number: u32,
    is_compound: bool,
}

/// Header of a DER value.
struct Head {
    tag: Tag,
    /// Length of the contents in bytes.
    length: usize,
    /// Offset of the contents.
    start: usize,
}

/// Returns the error in the two outermost sequences of a certification request: the request and its signed part.
pub(super) fn request_frame_error(der: &[u8]) -> Option<String> {
    frame_error(der).err()
}

fn frame_error(der: &[u8]) -> Result<(), String> {
    let request = sequence(der, 0, "certificateRequest")?;
    let end = request.start + request.length;
    if request.length == 0 {
        return Err(truncated());
    }
    // Go counts offsets from the start of each value.
    let within = der.get(request.start..end).unwrap_or_default();
    let signed = sequence(within, 0, "tbsCertificateRequest")?;
    if signed.length == 0 || signed.start + signed.length == within.len() {
        return Err(truncated());
    }
    match der.len() > end {
        true => Err("asn1: syntax error: trailing data".to_owned()),
        false => Ok(()),
    }
}

fn truncated() -> String {
    "asn1: syntax error: sequence truncated".to_owned()
}

/// Returns the header of the sequence at `at`, whose contents must be complete.
fn sequence(der: &[u8], at: usize, go_type: &str) -> Result<Head, String> {
    if at >= der.len() {
        return Err(truncated());
    }
    let head = head(der, at)?;
    if head.tag != SEQUENCE {
        let Tag {
            class,
            number,
            is_compound,
        } = head.tag;
        return Err(format!(
            "asn1: structure error: tags don't match (16 vs {{class:{class} tag:{number} length:{} isCompound:{is_compound}}}) \
             {{optional:false explicit:false application:false private:false defaultValue:<nil> tag:<nil> stringType:0 timeType:0 \
             set:false omitEmpty:false}} {go_type} @{}",
            head.length, head.start
        ));
    }
    if head.start.saturating_add(head.length) > der.len() {
        return Err("asn1: syntax error: data truncated".to_owned());
    }
    Ok(head)
}

/// Parses tag and length (`parseTagAndLength`).
fn head(der: &[u8], at: usize) -> Result<Head, String> {
    let mut bytes = der.iter().copied().skip(at);
    let mut read = 0;
    let mut next = || {
        read += 1;
        let cut = || "asn1: syntax error: truncated tag or length".to_owned();
        bytes.next().ok_or_else(cut)
    };
    let first = next()?;
    let mut number = u32::from(first & 0x1f);
    if number == 0x1f {
        number = 0;
        loop {
            let byte = next().map_err(|_| "asn1: syntax error: truncated base 128 integer".to_owned())?;
            if number == 0 && byte == 0x80 {
                return Err("asn1: syntax error: integer is not minimally encoded".to_owned());
            }
            if number > (i32::MAX as u32) >> 7 {
                return Err("asn1: structure error: base 128 integer too large".to_owned());
            }
            number = number << 7 | u32::from(byte & 0x7f);
            if byte & 0x80 == 0 {
                break;
            }
        }
        if number < 0x1f {
            return Err("asn1: syntax error: non-minimal tag".to_owned());
        }
    }
    let short = next()?;
    let mut length = usize::from(short & 0x7f);
    if short & 0x80 != 0 {
        let count = length;
        if count == 0 {
            return Err("asn1: syntax error: indefinite length found (not DER)".to_owned());
        }
        length = 0;
        for _ in 0..count {
            let byte = next()?;
            if length >= 1 << 23 {
                return Err("asn1: structure error: length too large".to_owned());
            }
            length = length << 8 | usize::from(byte);
            if length == 0 {
                return Err("asn1: structure error: superfluous leading zeros in length".to_owned());
            }
        }
        if length < 0x80 {
            return Err("asn1: structure error: non-minimal length".to_owned());
        }
    }
    Ok(Head {
        tag: Tag {
            class: first >> 6,
            number,
            is_compound: first & 0x20 != 0,
        },
        length,
        start: at + read,
    })
}

/// Splits the concatenated certificates of `der`, or returns the error of the first invalid one.
pub(super) fn certificates(mut der: &[u8]) -> Result<Vec<&[u8]>, String> {
    let mut found = Vec::new();
    while !der.is_empty() {
        let outer = sequence(der, 0, "").map_err(|_| "x509: malformed certificate".to_owned())?;
        let (certificate, rest) = der.split_at(outer.start + outer.length);
        sequence(certificate, outer.start, "").map_err(|_| "x509: malformed tbs certificate".to_owned())?;
        found.push(certificate);
        der = rest;
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_of_the_frame_are_those_of_the_reference() {
        let message = |der: &[u8]| request_frame_error(der).unwrap_or_default();
        let tags = |of: &str, place: &str| {
            format!(
                "asn1: structure error: tags don't match (16 vs {{{of}}}) {{optional:false explicit:false application:false \
                 private:false defaultValue:<nil> tag:<nil> stringType:0 timeType:0 set:false omitEmpty:false}} {place}"
            )
        };
        assert_eq!(
            message(&[2, 1, 0]),
            tags("class:0 tag:2 length:1 isCompound:false", "certificateRequest @2")
        );
        assert_eq!(
            message(&[0x30, 3, 2, 1, 0]),
            tags("class:0 tag:2 length:1 isCompound:false", "tbsCertificateRequest @2")
        );
        assert_eq!(
            message(&[0x3f, 0x81, 1, 0]),
            tags("class:0 tag:129 length:0 isCompound:true", "certificateRequest @4")
        );
        for (der, why) in [
            (&[][..], "syntax error: sequence truncated"),
            (&[0x30, 0], "syntax error: sequence truncated"),
            (b"a", "syntax error: truncated tag or length"),
            (&[0x30, 0x80, 0, 0], "syntax error: indefinite length found (not DER)"),
            (&[0x30, 0x84, 255, 255, 255, 255], "structure error: length too large"),
            (
                &[0x30, 0x82, 0, 1],
                "structure error: superfluous leading zeros in length",
            ),
            (&[0x30, 0x81, 1, 0], "structure error: non-minimal length"),
            (&[0x30, 5, 0x30, 1], "syntax error: data truncated"),
        ] {
            assert_eq!(message(der), format!("asn1: {why}"), "{der:?}");
        }
    }

    #[test]
    fn certificates_stand_one_behind_the_other() {
        let one = [0x30, 2, 0x30, 0];
        assert_eq!(certificates(&[one, one].concat()).map(|found| found.len()), Ok(2));
        assert_eq!(certificates(&[]).map(|found| found.len()), Ok(0));
        let trailing = [&one[..], b"x"].concat();
        assert_eq!(certificates(&trailing), Err("x509: malformed certificate".to_owned()));
        assert_eq!(
            certificates(&[0x30, 0]),
            Err("x509: malformed tbs certificate".to_owned())
        );
    }
}
