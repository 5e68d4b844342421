//! IP addresses as Go read them before version 1.17, which Kubernetes still accepts in older fields and formats.

use std::net::IpAddr;

/// Parses an IP address whose numbers may have leading zeros.
///
/// upstream: k8s.io/utils/net#ParseIPSloppy
///
/// ```
/// use holdfast_gotext::address::lenient_address;
///
/// assert_eq!(lenient_address("010.1.2.3"), lenient_address("10.1.2.3"));
/// assert_eq!(lenient_address("10.1.2"), None);
/// ```
pub fn lenient_address(text: &str) -> Option<IpAddr> {
    text.parse().ok().or_else(|| {
        let (head, tail) = text.rsplit_once(':').unwrap_or(("", text));
        let parts: Vec<&str> = tail.split('.').map(without_leading_zeros).collect();
        let tail = parts.join(".");
        let text = if head.is_empty() && !text.contains(':') {
            tail
        } else {
            let head: Vec<&str> = head.split(':').map(without_leading_zeros).collect();
            format!("{}:{tail}", head.join(":"))
        };
        text.parse().ok()
    })
}

/// Returns a number without leading zeros. The last zero stays.
pub fn without_leading_zeros(number: &str) -> &str {
    match number.trim_start_matches('0') {
        "" if !number.is_empty() => "0",
        rest => rest,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_may_have_leading_zeros() {
        for (text, expected) in [
            ("010.1.002.000", "10.1.2.0"),
            ("::ffff:010.1.2.3", "::ffff:10.1.2.3"),
            ("2001:0db8::00001", "2001:db8::1"),
        ] {
            assert_eq!(lenient_address(text), expected.parse().ok(), "{text}");
        }
        for text in [
            "",
            "0",
            "256.1.1.1",
            "1.2.3",
            "1.2.3.4.5",
            "1..2.3",
            "a.1.1.1",
            ":1",
            "1.2.3.4%eth0",
        ] {
            assert_eq!(lenient_address(text), None, "{text}");
        }
    }
}
