//! Headers as text. The value of a header is bytes, which Go interprets as UTF-8; no value counts as absent because of
//! its bytes.

use std::borrow::Cow;

use http::header::{AsHeaderName, HeaderMap, HeaderValue};

use crate::http::ApiError;

/// Returns the first value of a header, if there is one. Bytes that are not UTF-8 become U+FFFD, as when Go iterates
/// over runes: they match no media type and no encoding.
pub(crate) fn text(headers: &HeaderMap, name: impl AsHeaderName) -> Option<Cow<'_, str>> {
    headers.get(name).map(lossy)
}

/// Returns a value with U+FFFD for bytes that are not UTF-8.
pub(crate) fn lossy(value: &HeaderValue) -> Cow<'_, str> {
    String::from_utf8_lossy(value.as_bytes())
}

/// Returns a value that identifies the client, which must be used exactly or not at all.
///
/// # Errors
/// If it is not UTF-8 (400).
pub(crate) fn exact<'h>(name: &str, value: &'h HeaderValue) -> Result<&'h str, ApiError> {
    std::str::from_utf8(value.as_bytes())
        .map_err(|_| ApiError::bad_request(format!("the header {name:?} cannot be read: it is not UTF-8")))
}
