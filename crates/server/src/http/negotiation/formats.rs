//! Formats of bodies and responses, and the media types in messages.

use http::header::HeaderValue;

/// Wire format of trees.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Format {
    /// `application/json`.
    #[default]
    Json,
    /// `application/yaml`.
    Yaml,
    /// `application/vnd.kubernetes.protobuf`; only of built-in kinds.
    Protobuf,
    /// `application/cbor`; only of objects, and only if flags enable it.
    Cbor,
}

impl Format {
    /// Returns the media type for Content-Type.
    pub fn content_type(self) -> HeaderValue {
        HeaderValue::from_static(self.media_type())
    }

    /// Returns the media type.
    pub fn media_type(self) -> &'static str {
        match self {
            Self::Json => JSON,
            Self::Yaml => YAML,
            Self::Protobuf => PROTOBUF,
            Self::Cbor => CBOR,
        }
    }
}

pub(super) const JSON: &str = "application/json";
const YAML: &str = "application/yaml";
const PROTOBUF: &str = "application/vnd.kubernetes.protobuf";
const CBOR: &str = "application/cbor";

/// Formats, in the order in which the first that a clause accepts is chosen.
const FORMATS: [Format; 4] = [Format::Json, Format::Yaml, Format::Protobuf, Format::Cbor];

/// Returns the formats of objects, with or without CBOR. Documents have those without.
pub(crate) fn formats(cbor: bool) -> &'static [Format] {
    if cbor { &FORMATS } else { &FORMATS[..3] }
}

/// Media types in messages, as in the reference.
pub const NAMED_TYPES: [&str; 3] = [JSON, YAML, PROTOBUF];

/// Returns the media types in messages about objects, with or without CBOR.
pub fn named_types(cbor: bool) -> &'static [&'static str] {
    const WITH_CBOR: [&str; 4] = [JSON, YAML, PROTOBUF, CBOR];
    if cbor { &WITH_CBOR } else { &NAMED_TYPES }
}

/// Returns the media types in messages about watches, with or without CBOR.
pub fn stream_types(cbor: bool) -> &'static [&'static str] {
    if cbor { &STREAM_TYPES } else { &STREAM_TYPES[..2] }
}

const JSON_STREAM: &str = "application/json;stream=watch";
pub(crate) const PROTOBUF_STREAM: &str = "application/vnd.kubernetes.protobuf;stream=watch";
pub(crate) const CBOR_SEQUENCE: &str = "application/cbor-seq";
const STREAM_TYPES: [&str; 3] = [JSON_STREAM, PROTOBUF_STREAM, CBOR_SEQUENCE];

/// Returns the media types in messages about routes that can be watched, with or without CBOR.
pub fn named_watch_types(cbor: bool) -> &'static [&'static str] {
    const WITHOUT_CBOR: [&str; 5] = [JSON, YAML, PROTOBUF, JSON_STREAM, PROTOBUF_STREAM];
    const WITH_CBOR: [&str; 7] = [JSON, YAML, PROTOBUF, CBOR, JSON_STREAM, PROTOBUF_STREAM, CBOR_SEQUENCE];
    if cbor { &WITH_CBOR } else { &WITHOUT_CBOR }
}

/// Returns the media types of the routes of logs, with or without CBOR.
pub fn log_types(cbor: bool) -> &'static [&'static str] {
    const WITH_CBOR: [&str; 5] = ["text/plain", JSON, YAML, PROTOBUF, CBOR];
    if cbor { &WITH_CBOR } else { &WITH_CBOR[..4] }
}
