//! Continue tokens: the position of the next chunk of a list
//! (<https://kubernetes.io/docs/reference/using-api/api-concepts/#retrieving-large-results-sets-in-chunks>).
//!
//! A token has the reference's form: the revision of the list, and the key at which to continue, below the prefix of
//! the list. It is neither signed nor bound to its original list, and need not be: with any token, the list stays
//! within the prefix of the request's path, whose reading was authorized. Keys that climb out of it are rejected.

use base64::alphabet::URL_SAFE;
use base64::engine::general_purpose::{GeneralPurpose, NO_PAD};
use base64::{DecodeError, Engine as _};
use holdfast_value::{Limits, Value, json};
use serde::Serialize;

use crate::http::ApiError;
use crate::http::options::ListOptions;

/// The base64 variant of Go's library: it ignores the bits of the last letter beyond whole bytes.
const GO: GeneralPurpose = GeneralPurpose::new(&URL_SAFE, NO_PAD.with_decode_allow_trailing_bits(true));

/// The version of the token format.
const VERSION: &str = "meta.k8s.io/v1";

/// A marker instead of a revision: the list continues with the newest objects, because those of its own revision are
/// gone.
const NEWEST: i64 = -1;

/// The content of a continue token.
#[derive(Debug, PartialEq, Eq, Serialize)]
pub(super) struct ContinueToken {
    v: &'static str,
    rv: i64,
    /// The first key of the next chunk, relative to the prefix of the list.
    start: String,
    /// The number of remaining objects, if it is known: the value of `remainingItemCount` is counted once for all
    /// chunks.
    #[serde(skip_serializing_if = "Option::is_none")]
    remaining: Option<usize>,
}

impl ContinueToken {
    /// Creates the token of a list at `revision` that continues at `start` with `remaining` objects.
    pub(super) fn new(revision: u64, start: String, remaining: Option<usize>) -> Self {
        Self {
            v: VERSION,
            rv: revision.try_into().unwrap_or(NEWEST),
            start,
            remaining,
        }
    }

    /// Parses the token in the options of a list, if there is one.
    ///
    /// # Errors
    /// 400 if it cannot be parsed, or if the options also name a resource version.
    pub(super) fn read(options: &ListOptions) -> Result<Option<Self>, ApiError> {
        if options.continue_token.is_empty() {
            return Ok(None);
        }
        let token = Self::parse(&options.continue_token).map_err(|why| {
            ApiError::bad_request(format!("invalid continue token: continue key is not valid: {why}"))
        })?;
        if !matches!(options.resource_version.as_str(), "" | "0") {
            return Err(ApiError::bad_request(
                "specifying resource version is not allowed when using continue",
            ));
        }
        Ok(Some(token))
    }

    fn parse(text: &str) -> Result<Self, String> {
        let bytes = GO.decode(text).map_err(|error| {
            let at = match error {
                DecodeError::InvalidByte(at, _) | DecodeError::InvalidLastSymbol(at, _) => at,
                // There is one letter too many.
                DecodeError::InvalidLength(_) => text.len().saturating_sub(1),
                DecodeError::InvalidPadding => text.find('=').unwrap_or_default(),
            };
            format!("illegal base64 data at input byte {at}")
        })?;
        let value = json::parse(&bytes, &Limits::REQUEST).map_err(|error| error.to_string())?;
        let version = value.str_at(&["v"]).unwrap_or_default();
        if version != VERSION {
            return Err(format!("server does not recognize this encoded version {version}"));
        }
        let number = |name| value.get(name).and_then(Value::as_i64);
        let token = Self {
            v: VERSION,
            rv: number("rv").unwrap_or_default(),
            start: value.str_at(&["start"]).unwrap_or_default().to_owned(),
            remaining: number("remaining").and_then(|count| count.try_into().ok()),
        };
        if token.rv == 0 || token.rv < NEWEST {
            return Err(format!("incorrect encoded start resourceVersion (version {VERSION})"));
        }
        if token.start.is_empty() {
            return Err(format!("encoded start key empty (version {VERSION})"));
        }
        let below = token.start.strip_prefix('/').unwrap_or(&token.start);
        if below.split('/').any(|segment| matches!(segment, "" | "." | "..")) {
            return Err(token.start);
        }
        Ok(token)
    }

    /// Returns the revision of the list; `None` for the newest one.
    pub(super) fn revision(&self) -> Option<u64> {
        self.rv.try_into().ok()
    }

    /// Returns the first key of the next chunk, relative to the prefix of the list.
    pub(super) fn start(&self) -> &[u8] {
        self.start.strip_prefix('/').unwrap_or(&self.start).as_bytes()
    }

    /// Returns the number of remaining objects, if it is known.
    pub(super) fn remaining(&self) -> Option<usize> {
        self.remaining
    }

    /// Returns the token that continues at the same key with the newest objects.
    pub(super) fn inconsistent(&self) -> String {
        Self {
            v: VERSION,
            rv: NEWEST,
            start: self.start.clone(),
            remaining: None,
        }
        .text()
    }

    /// Returns the token in its encoded form.
    pub(super) fn text(&self) -> String {
        // Numbers and strings can always be encoded as JSON.
        GO.encode(serde_json::to_vec(self).unwrap_or_default())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(json: &str) -> Result<ContinueToken, String> {
        ContinueToken::parse(&GO.encode(json))
    }

    #[test]
    fn a_token_is_read_as_it_was_written() {
        let token = ContinueToken::new(7, "ns/web\0".to_owned(), Some(3));
        assert_eq!(ContinueToken::parse(&token.text()).unwrap(), token);
        let newest = ContinueToken::parse(&token.inconsistent()).unwrap();
        assert_eq!((newest.revision(), newest.start()), (None, &b"ns/web\0"[..]));
        assert_eq!(newest.remaining(), None);
    }

    #[test]
    fn a_token_of_the_reference_is_read() {
        let token = parse(r#"{"v":"meta.k8s.io/v1","rv":5,"start":"a\u0000"}"#).unwrap();
        assert_eq!((token.revision(), token.start()), (Some(5), &b"a\0"[..]));
    }

    #[test]
    fn a_token_that_is_no_base64_is_refused_as_by_go() {
        let rejected = |text: &str| ContinueToken::parse(text).unwrap_err();
        for (text, at) in [("x", 0), ("abcde", 4), ("a*c", 1), ("abc=", 3)] {
            assert_eq!(
                rejected(text),
                format!("illegal base64 data at input byte {at}"),
                "{text}"
            );
        }
        assert_eq!(rejected("ab"), "invalid character 'i' looking for beginning of value");
    }

    #[test]
    fn a_token_that_climbs_out_of_its_list_is_refused() {
        for start in ["../secrets/a", "a/../../b", "a//b", "./a", "a/", "//a", "/"] {
            let error = parse(&format!(r#"{{"v":"meta.k8s.io/v1","rv":5,"start":"{start}"}}"#)).unwrap_err();
            assert_eq!(error, start);
        }
    }

    #[test]
    fn a_token_without_what_it_needs_is_refused() {
        let cases = [
            ("{}", "server does not recognize this encoded version "),
            (
                r#"{"v":"meta.k8s.io/v1"}"#,
                "incorrect encoded start resourceVersion (version meta.k8s.io/v1)",
            ),
            (
                r#"{"v":"meta.k8s.io/v1","rv":-2,"start":"a"}"#,
                "incorrect encoded start resourceVersion (version meta.k8s.io/v1)",
            ),
            (
                r#"{"v":"meta.k8s.io/v1","rv":5}"#,
                "encoded start key empty (version meta.k8s.io/v1)",
            ),
        ];
        for (json, error) in cases {
            assert_eq!(parse(json).unwrap_err(), error, "{json}");
        }
    }
}
