//! The Content-Type header: the formats of bodies, and the types of patches.

use std::borrow::Cow;

use http::header::{self, HeaderMap};

use super::formats::{Format, JSON, formats, named_types};
use crate::http::ApiError;
use crate::http::headers;

/// Returns the format of a body by its content type, without parameters. Bodies of objects without a content type are
/// JSON; `cbor` is true if CBOR is accepted.
///
/// # Errors
/// If the content type is not supported for objects (415).
pub fn body_format(headers: &HeaderMap, cbor: bool) -> Result<Format, ApiError> {
    let bare = content_type(headers).filter(|_| has_parameters_to_read(headers));
    let stated = headers.get(header::CONTENT_TYPE).is_some_and(|value| !value.is_empty());
    let bare = bare.as_deref().unwrap_or(if stated { "" } else { JSON });
    // Media types are case-insensitive here, while the router's check of patches is exact.
    let mut read = formats(cbor).iter().copied();
    let found = read.find(|format| bare.eq_ignore_ascii_case(format.media_type()));
    found.ok_or_else(|| ApiError::unsupported_body_type(named_types(cbor)))
}

/// The types of patches, by the content type of their bodies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PatchType {
    /// `application/json-patch+json` (RFC 6902).
    Json,
    /// `application/merge-patch+json` (RFC 7396).
    Merge,
    /// `application/strategic-merge-patch+json`.
    Strategic,
    /// `application/apply-patch+yaml`: Server-Side Apply.
    Apply,
    /// `application/apply-patch+cbor`: Server-Side Apply, in CBOR.
    ApplyCbor,
}

impl PatchType {
    /// Returns true for Server-Side Apply.
    pub fn applies(self) -> bool {
        matches!(self, Self::Apply | Self::ApplyCbor)
    }
}

/// The content types of patches, in the order in which messages name them.
pub const PATCH_TYPES: [(&str, PatchType); 5] = [
    ("application/json-patch+json", PatchType::Json),
    ("application/merge-patch+json", PatchType::Merge),
    ("application/strategic-merge-patch+json", PatchType::Strategic),
    ("application/apply-patch+yaml", PatchType::Apply),
    ("application/apply-patch+cbor", PatchType::ApplyCbor),
];

/// Returns the patch type of a body; `None` if its content type is not that of a patch. `cbor` is true if CBOR is
/// accepted.
pub(super) fn patch_type(headers: &HeaderMap, cbor: bool) -> Option<PatchType> {
    let bare = content_type(headers)?;
    let (_, patch_type) = PATCH_TYPES.iter().find(|(name, _)| *name == bare)?;
    Some(*patch_type).filter(|patch_type| cbor || *patch_type != PatchType::ApplyCbor)
}

/// Returns the bare content type of a body, if one is stated.
fn content_type(headers: &HeaderMap) -> Option<Cow<'_, str>> {
    let text = headers::text(headers, header::CONTENT_TYPE).filter(|text| !text.is_empty())?;
    let bare = |text: &str| text.split(';').next().map_or(0, str::len);
    Some(match text {
        Cow::Borrowed(text) => Cow::Borrowed(text[..bare(text)].trim()),
        Cow::Owned(text) => Cow::Owned(text[..bare(&text)].trim().to_owned()),
    })
}

/// Returns true if the text after the media type in Content-Type parses as parameters: each a name and a value. If it
/// does not, a parser of the whole header recognises no format.
fn has_parameters_to_read(headers: &HeaderMap) -> bool {
    let text = headers::text(headers, header::CONTENT_TYPE).unwrap_or_default();
    let mut parameters = text.split(';').skip(1).map(str::trim).peekable();
    while let Some(parameter) = parameters.next() {
        let last = parameters.peek().is_none();
        let named = parameter
            .split_once('=')
            .is_some_and(|(name, value)| !name.is_empty() && !value.is_empty() && name.bytes().all(is_token_byte));
        if !(named || last && parameter.is_empty()) {
            return false;
        }
    }
    true
}

/// Returns true if the name of a parameter may contain the byte (RFC 9110).
fn is_token_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte)
}
