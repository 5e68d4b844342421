//! The query of a URL, decoded.

use std::borrow::Cow;

/// The parameters of a URL in their order, decoded.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Query(Vec<(String, String)>);

impl Query {
    /// Parses the text after the `?` as Go's `net/url` does: invalid parts are left out.
    pub fn parse(text: &str) -> Self {
        let mut parameters = Vec::new();
        for part in text.split('&').filter(|part| !part.is_empty() && !part.contains(';')) {
            let (key, value) = part.split_once('=').unwrap_or((part, ""));
            let (Some(key), Some(value)) = (unescape(key, true), unescape(value, true)) else {
                continue;
            };
            // A parameter that is not valid text is kept: its reader rejects it instead of ignoring it.
            let text = |bytes: Cow<'_, [u8]>| String::from_utf8_lossy(&bytes).into_owned();
            parameters.push((text(key), text(value)));
        }
        Self(parameters)
    }

    /// Returns the first value of `name`.
    pub fn get(&self, name: &str) -> Option<&str> {
        let found = self.0.iter().find(|(key, _)| key == name);
        found.map(|(_, value)| value.as_str())
    }

    /// Returns every value of `name`.
    pub fn all<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a str> + 'a {
        let same = move |parameter: &&(String, String)| parameter.0 == name;
        self.0.iter().filter(same).map(|(_, value)| value.as_str())
    }

    /// Returns true if there is no parameter at all.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

/// Reason why a text with escapes is invalid.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum DecodeError {
    /// An escape is invalid.
    Escape,
    /// The bytes are not UTF-8.
    Encoding,
}

/// Decodes `%41`.
pub(crate) fn decode(text: &str) -> Result<Cow<'_, str>, DecodeError> {
    match unescape(text, false).ok_or(DecodeError::Escape)? {
        Cow::Borrowed(_) => Ok(Cow::Borrowed(text)),
        Cow::Owned(bytes) => String::from_utf8(bytes)
            .map(Cow::Owned)
            .map_err(|_| DecodeError::Encoding),
    }
}

/// Decodes `%41`, with U+FFFD for bytes that are not UTF-8. Returns `None` if an escape is invalid.
pub(crate) fn decode_lossy(text: &str) -> Option<Cow<'_, str>> {
    Some(match unescape(text, false)? {
        Cow::Borrowed(_) => Cow::Borrowed(text),
        Cow::Owned(bytes) => match String::from_utf8(bytes) {
            Ok(text) => Cow::Owned(text),
            Err(error) => Cow::Owned(String::from_utf8_lossy(error.as_bytes()).into_owned()),
        },
    })
}

/// Decodes `%41` and, in queries, `+`. Returns `None` if an escape is invalid.
fn unescape(text: &str, plus_is_blank: bool) -> Option<Cow<'_, [u8]>> {
    let special = |byte: u8| byte == b'%' || (plus_is_blank && byte == b'+');
    if !text.bytes().any(special) {
        return Some(Cow::Borrowed(text.as_bytes()));
    }
    let mut decoded = Vec::with_capacity(text.len());
    let mut bytes = text.bytes();
    while let Some(byte) = bytes.next() {
        decoded.push(match byte {
            b'%' => {
                let digit = |byte: Option<u8>| char::from(byte?).to_digit(16);
                let (high, low) = (digit(bytes.next())?, digit(bytes.next())?);
                (high * 16 + low) as u8
            }
            b'+' if plus_is_blank => b' ',
            other => other,
        });
    }
    Some(Cow::Owned(decoded))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parameters_are_decoded_and_broken_ones_left_out() {
        let query = Query::parse("a=1&b=x%20y+z&a=2&c&bad=%zz&d=%C3%A9&semi;colon=1&&");
        assert_eq!(query.get("a"), Some("1"));
        assert_eq!(query.all("a").collect::<Vec<_>>(), ["1", "2"]);
        assert_eq!(query.get("b"), Some("x y z"));
        assert_eq!(query.get("c"), Some(""));
        assert_eq!(query.get("bad"), None);
        assert_eq!(query.get("d"), Some("é"));
        assert_eq!(Query::parse("labelSelector=%ff").get("labelSelector"), Some("\u{fffd}"));
    }
}
