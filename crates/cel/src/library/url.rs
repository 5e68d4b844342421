//! URLs as Go's `net/url` parses them.

#![expect(
    clippy::indexing_slicing,
    reason = "a call has the number of arguments of its chosen overload"
)]

use std::collections::BTreeMap;

use holdfast_gotext::url::{Url, parse, parse_request_uri, unescape};
use smol_str::SmolStr;

use crate::error::EvaluationError::{self, NoSuchOverload};
use crate::functions::{Context, Cost, Function};
use crate::value::{CelValue, MapKey, MapValue, Outcome};

pub(crate) const FUNCTIONS: &[Function] = &[
    Function {
        name: "url",
        call: |_, args| {
            let text = args[0].as_str().ok_or(NoSuchOverload)?;
            // Only the URI of a request is a URL here, but fragments are split off nevertheless.
            let url = parse_request_uri(text).and_then(|_| parse(text)).map_err(|why| {
                EvaluationError::failed(format!("URL parse error during conversion from string: {why}"))
            })?;
            Ok(CelValue::Url(url.into()))
        },
        cost: Cost::SameSize,
        signatures: &["(string) url"],
    },
    Function {
        name: "isURL",
        call: |_, args| {
            let text = args[0].as_str().ok_or(NoSuchOverload)?;
            Ok(CelValue::Bool(is_request_uri(text)))
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
        call: |_, args| part(args, |url| split_host(url).0.to_owned()),
        cost: Cost::Fixed(1),
        signatures: &["url.() string"],
    },
    Function {
        name: "getPort",
        call: |_, args| part(args, |url| split_host(url).1.to_owned()),
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
    // Pairs that cannot be decoded, and those with a semicolon, are omitted.
    for pair in url
        .query
        .split('&')
        .filter(|pair| !pair.is_empty() && !pair.contains(';'))
    {
        let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
        let decode = |part: &str| unescape(&part.replace('+', " "));
        if let (Ok(key), Ok(value)) = (decode(key), decode(value)) {
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

/// True if `text` is the URI of a request.
pub(crate) fn is_request_uri(text: &str) -> bool {
    parse_request_uri(text).is_ok()
}

/// Returns the host without port and brackets, and the port.
fn split_host(url: &Url) -> (&str, &str) {
    let host = url.host.as_str();
    if let Some(inner) = host.strip_prefix('[')
        && let Some((inner, port)) = inner.split_once(']')
    {
        return (inner, port.strip_prefix(':').unwrap_or(""));
    }
    host.rsplit_once(':').unwrap_or((host, ""))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_host_is_split_from_its_port() {
        let split = |text: &str| {
            let url = parse(text).unwrap();
            let (host, port) = split_host(&url);
            (host.to_owned(), port.to_owned())
        };
        let pair = |host: &str, port: &str| (host.to_owned(), port.to_owned());
        assert_eq!(split("https://a.example:8080/"), pair("a.example", "8080"));
        assert_eq!(split("http://[::1]:80/"), pair("::1", "80"));
        assert_eq!(split("//host/path"), pair("host", ""));
    }
}
