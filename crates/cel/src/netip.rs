//! IP addresses and prefixes as Go's package `net/netip` parses them, with its error messages.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use holdfast_gotext::quote::quote;

/// Address with its zone, if it has one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ZonedAddress<'a> {
    pub(crate) address: IpAddr,
    pub(crate) zone: &'a str,
}

/// Parses an address with or without a zone.
pub(crate) fn parse_address(text: &str) -> Result<ZonedAddress<'_>, String> {
    let rejected = |why: &str| Err(format!("ParseAddr({}): {why}", quote(text)));
    match text.bytes().find(|byte| matches!(byte, b'.' | b':' | b'%')) {
        Some(b'.') => fields_of_v4(text, text).map(|fields| ZonedAddress {
            address: Ipv4Addr::from(fields).into(),
            zone: "",
        }),
        Some(b':') => {
            let (address, zone) = match text.split_once('%') {
                Some((_, "")) => return rejected("zone must be a non-empty string"),
                Some((address, zone)) => (address, zone),
                None => (text, ""),
            };
            let address = parse_v6(text, address)?.into();
            Ok(ZonedAddress { address, zone })
        }
        Some(_) => rejected("missing IPv6 address"),
        None => rejected("unable to parse IP"),
    }
}

/// Parses `address/length`.
pub(crate) fn parse_prefix(text: &str) -> Result<(IpAddr, u8), String> {
    let reject = |why: &str| format!("netip.ParsePrefix({}): {why}", quote(text));
    let (address, length) = text.rsplit_once('/').ok_or_else(|| reject("no '/'"))?;
    let address = parse_address(address).map_err(|why| reject(&why))?;
    if !address.zone.is_empty() {
        return Err(reject("IPv6 zones cannot be present in a prefix"));
    }
    let bad = || reject(&format!("bad bits after slash: {}", quote(length)));
    let leads_badly = length.len() > 1 && !length.starts_with(|first: char| ('1'..='9').contains(&first));
    if leads_badly || length.is_empty() || !length.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err(bad());
    }
    // Go rejects a number beyond 64 bits.
    let length: i64 = length.parse().map_err(|_| bad())?;
    let most = if address.address.is_ipv4() { 32 } else { 128 };
    match u8::try_from(length) {
        Ok(length) if length <= most => Ok((address.address, length)),
        _ => Err(reject("prefix length out of range")),
    }
}

/// Parses the four numbers of `fields`, which is `whole` or its end.
#[expect(
    clippy::indexing_slicing,
    reason = "at most four fields are read, and the offset is within the text"
)]
fn fields_of_v4(whole: &str, fields: &str) -> Result<[u8; 4], String> {
    let reject = |why: &str| Err(format!("ParseAddr({}): {why}", quote(whole)));
    let reject_at = |why: &str, at: usize| reject(&format!("{why} (at {})", quote(&fields[at..])));
    let bytes = fields.as_bytes();
    let (mut read, mut position, mut value, mut digits) = ([0; 4], 0, 0_u16, 0);
    for (at, byte) in bytes.iter().enumerate() {
        match byte {
            b'0'..=b'9' => {
                if digits == 1 && value == 0 {
                    return reject("IPv4 field has octet with leading zero");
                }
                value = value * 10 + u16::from(byte - b'0');
                digits += 1;
                if value > 255 {
                    return reject("IPv4 field has value >255");
                }
            }
            b'.' => {
                if at == 0 || at == bytes.len() - 1 || bytes[at - 1] == b'.' {
                    return reject_at("IPv4 field must have at least one digit", at);
                }
                if position == 3 {
                    return reject("IPv4 address too long");
                }
                read[position] = value as u8;
                (position, value, digits) = (position + 1, 0, 0);
            }
            _ => return reject_at("unexpected character", at),
        }
    }
    if position < 3 {
        return reject("IPv4 address too short");
    }
    read[3] = value as u8;
    Ok(read)
}

/// Parses `address`, which is `whole` without its zone.
fn parse_v6(whole: &str, address: &str) -> Result<Ipv6Addr, String> {
    let reject = |why: &str| Err(format!("ParseAddr({}): {why}", quote(whole)));
    let reject_at = |why: &str, rest: &str| reject(&format!("{why} (at {})", quote(rest)));
    let mut octets = Vec::with_capacity(16);
    let mut ellipsis = None;
    let mut rest = address;
    if let Some(after) = rest.strip_prefix("::") {
        ellipsis = Some(0);
        rest = after;
    }
    while octets.len() < 16 && !(rest.is_empty() && ellipsis == Some(octets.len())) {
        let length = rest.bytes().take_while(u8::is_ascii_hexdigit).count();
        if length > 4 {
            return reject_at("each group must have 4 or less digits", rest);
        }
        let Ok(group) = u16::from_str_radix(&rest[..length], 16) else {
            return reject_at("each colon-separated field must have at least one digit", rest);
        };
        if rest[length..].starts_with('.') {
            if ellipsis.is_none() && octets.len() != 12 {
                return reject_at(
                    "embedded IPv4 address must replace the final 2 fields of the address",
                    rest,
                );
            }
            if octets.len() + 4 > 16 {
                return reject_at(
                    "too many hex fields to fit an embedded IPv4 at the end of the address",
                    rest,
                );
            }
            octets.extend(fields_of_v4(whole, rest)?);
            rest = "";
            break;
        }
        octets.extend(group.to_be_bytes());
        rest = &rest[length..];
        if rest.is_empty() {
            break;
        }
        let Some(after) = rest.strip_prefix(':') else {
            return reject_at("unexpected character, want colon", rest);
        };
        if after.is_empty() {
            return reject_at("colon must be followed by more characters", rest);
        }
        rest = after;
        if let Some(after) = rest.strip_prefix(':') {
            if ellipsis.is_some() {
                return reject_at("multiple :: in address", rest);
            }
            ellipsis = Some(octets.len());
            rest = after;
        }
    }
    if !rest.is_empty() {
        return reject_at("trailing garbage after address", rest);
    }
    match (16 - octets.len(), ellipsis) {
        (0, None) => {}
        (0, Some(_)) => return reject("the :: must expand to at least one field of zeros"),
        (_, None) => return reject("address string too short"),
        (missing, Some(at)) => {
            octets.splice(at..at, std::iter::repeat_n(0, missing));
        }
    }
    let octets: [u8; 16] = octets.try_into().unwrap_or_default();
    Ok(octets.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_those_of_go() {
        for (text, shown) in [
            ("1.2.3.4", "1.2.3.4"),
            ("::", "::"),
            ("::1", "::1"),
            ("1::", "1::"),
            ("2001:DB8::1.2.3.4", "2001:db8::102:304"),
            ("1:2:3:4:5:6:7:8", "1:2:3:4:5:6:7:8"),
        ] {
            assert_eq!(
                parse_address(text).map(|read| read.address.to_string()).as_deref(),
                Ok(shown)
            );
        }
        assert_eq!(parse_address("fe80::1%eth0").map(|read| read.zone), Ok("eth0"));
    }

    #[test]
    fn invalid_address_gives_go_error() {
        for (text, why) in [
            ("", "unable to parse IP"),
            ("%eth0", "missing IPv6 address"),
            ("::1%", "zone must be a non-empty string"),
            ("1.2.3", "IPv4 address too short"),
            ("1.2.3.4.5", "IPv4 address too long"),
            ("1..3.4", "IPv4 field must have at least one digit (at \".3.4\")"),
            ("01.2.3.4", "IPv4 field has octet with leading zero"),
            ("256.1.1.1", "IPv4 field has value >255"),
            ("1.2.3.4/8", "unexpected character (at \"/8\")"),
            (
                ":::",
                "each colon-separated field must have at least one digit (at \":\")",
            ),
            ("::12345", "each group must have 4 or less digits (at \"12345\")"),
            ("1::2::3", "multiple :: in address (at \":3\")"),
            ("1:2", "address string too short"),
            ("1:2:3:4:5:6:7:8:9", "trailing garbage after address (at \"9\")"),
            ("1:2:3:4:5:6:7::8", "the :: must expand to at least one field of zeros"),
            ("1:", "colon must be followed by more characters (at \":\")"),
        ] {
            let message = parse_address(text).err().unwrap_or_default();
            assert_eq!(message, format!("ParseAddr({text:?}): {why}"));
        }
    }

    #[test]
    fn prefixes_are_those_of_go() {
        assert_eq!(parse_prefix("10.0.0.0/8").map(|(_, length)| length), Ok(8));
        for (text, why) in [
            ("10.0.0.0", "no '/'"),
            ("10.0.0.0/08", "bad bits after slash: \"08\""),
            ("10.0.0.0/", "bad bits after slash: \"\""),
            ("10.0.0.0/33", "prefix length out of range"),
            ("a/8", "ParseAddr(\"a\"): unable to parse IP"),
            ("fe80::%a/64", "IPv6 zones cannot be present in a prefix"),
        ] {
            let message = parse_prefix(text).err().unwrap_or_default();
            assert_eq!(message, format!("netip.ParsePrefix({text:?}): {why}"));
        }
    }
}
