//! URLs, read as Go's `net/url` reads the URI of a request.

#![expect(
    clippy::indexing_slicing,
    reason = "a call gets as many arguments as the overload declares that was chosen for it"
)]

use std::collections::BTreeMap;

use holdfast_gotext::quote::quote;
use smol_str::SmolStr;

use crate::error::EvaluationError::{self, NoSuchOverload};
use crate::functions::{Context, Cost, Function};
use crate::value::{CelValue, MapKey, MapValue, Outcome};

pub(crate) const FUNCTIONS: &[Function] = &[
    Function {
        name: "url",
        call: |_, args| {
            let text = args[0].as_str().ok_or(NoSuchOverload)?;
            let url = Url::parse(text).map_err(|why| {
                EvaluationError::failed(format!(
                    "URL parse error during conversion from string: parse {}: {why}",
                    quote(text)
                ))
            })?;
            Ok(CelValue::Url(url.into()))
        },
        cost: Cost::Traverse,
        signatures: &["(string) url"],
    },
    Function {
        name: "isURL",
        call: |_, args| {
            let text = args[0].as_str().ok_or(NoSuchOverload)?;
            Ok(CelValue::Bool(Url::parse(text).is_ok()))
        },
        cost: Cost::Fixed(1),
        signatures: &["(string) bool"],
    },
    Function {
        name: "getScheme",
        call: |_, args| part(args, |url| url.scheme.clone()),
        cost: Cost::Fixed(1),
        signatures: &["url.() string"],
    },
    Function {
        name: "getHost",
        call: |_, args| part(args, |url| url.host.clone()),
        cost: Cost::Fixed(1),
        signatures: &["url.() string"],
    },
    Function {
        name: "getHostname",
        call: |_, args| part(args, |url| url.split_host().0.to_owned()),
        cost: Cost::Fixed(1),
        signatures: &["url.() string"],
    },
    Function {
        name: "getPort",
        call: |_, args| part(args, |url| url.split_host().1.to_owned()),
        cost: Cost::Fixed(1),
        signatures: &["url.() string"],
    },
    Function {
        name: "getEscapedPath",
        call: |_, args| part(args, |url| url.escaped_path.clone()),
        cost: Cost::Fixed(1),
        signatures: &["url.() string"],
    },
    Function {
        name: "getQuery",
        call: query,
        cost: Cost::Fixed(1),
        signatures: &["url.() map(string, list(string))"],
    },
];

/// The parts of a URL that expressions ask for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Url {
    scheme: String,
    host: String,
    escaped_path: String,
    query: String,
}

fn part(args: &[CelValue], of: fn(&Url) -> String) -> Outcome {
    match &args[0] {
        CelValue::Url(url) => Ok(CelValue::text(of(url))),
        _ => Err(NoSuchOverload),
    }
}

fn query(_: &Context<'_>, args: &[CelValue]) -> Outcome {
    let CelValue::Url(url) = &args[0] else {
        return Err(NoSuchOverload);
    };
    let mut values: BTreeMap<MapKey, Vec<CelValue>> = BTreeMap::new();
    // Pairs that do not decode are left out, as are those with a semicolon.
    for pair in url
        .query
        .split('&')
        .filter(|pair| !pair.is_empty() && !pair.contains(';'))
    {
        let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
        let decode = |part: &str| unescape(&part.replace('+', " "));
        if let (Some(key), Some(value)) = (decode(key), decode(value)) {
            let key = MapKey::String(SmolStr::from(key));
            values.entry(key).or_default().push(CelValue::text(value));
        }
    }
    let lists = values
        .into_iter()
        .map(|(key, values)| (key, CelValue::list(values)))
        .collect();
    Ok(CelValue::Map(MapValue::Built(std::sync::Arc::new(lists))))
}

/// Whether `text` is the URI of a request.
pub(crate) fn is_request_uri(text: &str) -> bool {
    Url::parse(text).is_ok()
}

impl Url {
    /// Reads the URI of a request: an absolute URL or an absolute path.
    fn parse(text: &str) -> Result<Self, String> {
        if text.bytes().any(|byte| byte < 0x20 || byte == 0x7f) {
            return Err("net/url: invalid control character in URL".to_owned());
        }
        if text.is_empty() {
            return Err("empty url".to_owned());
        }
        let (scheme, rest) = split_scheme(text)?;
        let (rest, query) = rest.split_once('?').unwrap_or((rest, ""));
        let mut url = Url {
            scheme: scheme.to_ascii_lowercase(),
            host: String::new(),
            escaped_path: String::new(),
            query: query.to_owned(),
        };
        if !rest.starts_with('/') {
            // `mailto:x` names no path; what names no scheme either is no request.
            return if url.scheme.is_empty() {
                Err("invalid URI for request".to_owned())
            } else {
                Ok(url)
            };
        }
        let mut path = rest;
        if let Some(after) = rest.strip_prefix("//").filter(|_| !url.scheme.is_empty()) {
            let end = after.find('/').unwrap_or(after.len());
            let authority = &after[..end];
            path = &after[end..];
            let host = authority.rsplit_once('@').map_or(authority, |(_, host)| host);
            url.host = read_host(host)?;
        }
        let decoded = unescape(path).ok_or_else(|| bad_escape(path))?;
        url.escaped_path = if path.bytes().all(may_stand_in_path) {
            path.to_owned()
        } else {
            escape_path(&decoded)
        };
        Ok(url)
    }

    /// The host without port and brackets, and the port.
    fn split_host(&self) -> (&str, &str) {
        let host = self.host.as_str();
        if let Some(inner) = host.strip_prefix('[')
            && let Some((inner, port)) = inner.split_once(']')
        {
            return (inner, port.strip_prefix(':').unwrap_or(""));
        }
        host.rsplit_once(':').unwrap_or((host, ""))
    }
}

fn split_scheme(text: &str) -> Result<(&str, &str), String> {
    for (at, byte) in text.bytes().enumerate() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' => {}
            b'0'..=b'9' | b'+' | b'-' | b'.' if at > 0 => {}
            b':' if at == 0 => return Err("missing protocol scheme".to_owned()),
            b':' => return Ok((&text[..at], &text[at + 1..])),
            _ => break,
        }
    }
    Ok(("", text))
}

fn read_host(host: &str) -> Result<String, String> {
    let after = match host.strip_prefix('[') {
        Some(inner) => inner.split_once(']').ok_or("missing ']' in host")?.1,
        None => host.rfind(':').map_or("", |at| &host[at..]),
    };
    let valid_port = after.is_empty()
        || after
            .strip_prefix(':')
            .is_some_and(|port| port.bytes().all(|byte| byte.is_ascii_digit()));
    if !valid_port {
        return Err(format!("invalid port {after:?} after host"));
    }
    let bad = host.chars().find(|&character| {
        character.is_ascii() && !character.is_ascii_alphanumeric() && !"-_.~!$&'()*+,;=:[]<>\"%".contains(character)
    });
    if let Some(bad) = bad {
        return Err(format!("invalid character {:?} in host name", bad.to_string()));
    }
    unescape(host).ok_or_else(|| bad_escape(host))
}

fn bad_escape(text: &str) -> String {
    let at = text.find('%').unwrap_or(0);
    let shown: String = text[at..].chars().take(3).collect();
    format!("invalid URL escape {shown:?}")
}

/// Decodes `%41`; `None` where an escape is broken.
fn unescape(text: &str) -> Option<String> {
    if !text.contains('%') {
        return Some(text.to_owned());
    }
    let bytes = text.as_bytes();
    let mut decoded = Vec::with_capacity(bytes.len());
    let mut at = 0;
    while at < bytes.len() {
        if bytes[at] == b'%' {
            let digits = text.get(at + 1..at + 3)?;
            if !digits.bytes().all(|byte| byte.is_ascii_hexdigit()) {
                return None;
            }
            decoded.push(u8::from_str_radix(digits, 16).ok()?);
            at += 3;
        } else {
            decoded.push(bytes[at]);
            at += 1;
        }
    }
    Some(String::from_utf8_lossy(&decoded).into_owned())
}

fn may_stand_in_path(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"!$&'()*+,;=:@[]-_.~/%".contains(&byte)
}

fn escape_path(path: &str) -> String {
    let mut escaped = String::with_capacity(path.len());
    for byte in path.bytes() {
        if byte.is_ascii_alphanumeric() || b"-_.~$&+,/:;=@".contains(&byte) {
            escaped.push(char::from(byte));
        } else {
            escaped.push_str(&format!("%{byte:02X}"));
        }
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_are_taken_apart() {
        let url = Url::parse("https://user@a.example:8080/a b?k=v&k=w");
        let url = url.map(|url| {
            let (name, port) = url.split_host();
            (
                url.scheme.clone(),
                url.host.clone(),
                name.to_owned(),
                port.to_owned(),
                url.escaped_path.clone(),
            )
        });
        let expected = ["https", "a.example:8080", "a.example", "8080", "/a%20b"].map(str::to_owned);
        assert_eq!(url, Ok(expected.into()));
        let v6 = Url::parse("http://[::1]:80/").map(|url| url.split_host().0.to_owned());
        assert_eq!(v6.as_deref(), Ok("::1"));
    }

    #[test]
    fn what_no_request_names_is_no_url() {
        for text in [
            "",
            "not a url",
            "a.example/x",
            "http://a b/",
            "http://a:x/",
            "/%zz",
            "http://[::1",
            ":x",
            "a\u{7f}",
        ] {
            assert!(Url::parse(text).is_err(), "{text}");
        }
        for text in ["/path", "https://a", "mailto:x", "https://a/?q"] {
            assert!(Url::parse(text).is_ok(), "{text}");
        }
    }
}
