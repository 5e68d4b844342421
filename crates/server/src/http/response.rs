//! Responses: a status code, a content type, warnings and a body.

use bytes::Bytes;
use holdfast_gotext::quote::quote;
use holdfast_proto::Messages;
use holdfast_value::{Limits, Value, cbor, json, yaml};
use http::header::{self, HeaderMap, HeaderName, HeaderValue};
use http::uri::PathAndQuery;
use http::{StatusCode, Uri};

use serde::Serialize;

use crate::http::ApiError;
use crate::http::negotiation::{Format, Representation};
use crate::http::protobuf;
use crate::http::request_info::RequestInfoError;
use crate::wire::body::ResponseBody;
use crate::wire::websocket;

pub use crate::wire::body::Response;

/// The content type of plain text, as Go's `net/http` names it.
pub const PLAIN_TEXT: HeaderValue = HeaderValue::from_static("text/plain; charset=utf-8");

const WARNING: HeaderName = header::WARNING;

/// Returns a response of bytes that are encoded already.
pub fn bytes(code: StatusCode, content_type: HeaderValue, body: impl Into<ResponseBody>) -> Response {
    let mut response = Response::new(body.into());
    *response.status_mut() = code;
    response.headers_mut().insert(header::CONTENT_TYPE, content_type);
    response
}

/// Returns a response of one document in the format that the client requested: JSON with the members in their order,
/// YAML, or protobuf by `messages`.
///
/// # Errors
/// If the document has no JSON form, which is a bug of the server (500), or if its kind has no protobuf form (406).
pub fn document(
    messages: &Messages,
    code: StatusCode,
    representation: &Representation,
    document: &impl Serialize,
) -> Result<Response, ApiError> {
    let body = document_bytes(messages, representation, document)?;
    Ok(bytes(code, representation.format.content_type(), body))
}

/// Returns the body of [`document`].
///
/// # Errors
/// If the document cannot be encoded, as for [`document`].
pub(crate) fn document_bytes(
    messages: &Messages,
    representation: &Representation,
    document: &impl Serialize,
) -> Result<Bytes, ApiError> {
    let detail = |error: &dyn std::fmt::Display| ApiError::internal(error.to_string());
    let body = match (representation.format, representation.pretty) {
        (Format::Json, false) => {
            let mut text = json::html_safe(serde_json::to_vec(document).map_err(|error| detail(&error))?);
            text.push(b'\n');
            text
        }
        (Format::Json, true) => {
            let text = serde_json::to_vec_pretty(document).map_err(|error| detail(&error))?;
            json::html_safe(text)
        }
        (format, _) => {
            let text = serde_json::to_vec(document).map_err(|error| detail(&error))?;
            return converted(messages, format, text.into());
        }
    };
    Ok(body.into())
}

/// Returns a response of one object whose JSON exists already, in the format that the client requested: as a line,
/// indented, as YAML, or in protobuf by `messages`.
///
/// # Errors
/// If `text` is not JSON, which is a bug of the server (500), or if the object has no protobuf form (406).
pub fn encoded(
    messages: &Messages,
    code: StatusCode,
    representation: &Representation,
    text: impl Into<Bytes>,
) -> Result<Response, ApiError> {
    let text = text.into();
    let body: ResponseBody = match (representation.format, representation.pretty) {
        (Format::Json, false) => line(text),
        (Format::Json, true) => {
            let mut out = Vec::new();
            json::Indenter::default().write(&text, &mut out);
            out.into()
        }
        (format, _) => converted(messages, format, text)?.into(),
    };
    Ok(bytes(code, representation.format.content_type(), body))
}

/// Maximum length of texts that are copied to append their line end. Longer ones are sent in two chunks.
const MAX_COPIED_BYTES: usize = 16 * 1024;

/// Returns a body of `text` and a line end, which kube-apiserver writes after JSON that is not indented.
fn line(text: Bytes) -> ResponseBody {
    if text.len() > MAX_COPIED_BYTES {
        return ResponseBody::chunks(vec![text, Bytes::from_static(b"\n")]);
    }
    let mut line = Vec::with_capacity(text.len() + 1);
    line.extend_from_slice(&text);
    line.push(b'\n');
    line.into()
}

/// Returns a response of one object in protobuf by `messages`.
///
/// # Errors
/// If the object has no protobuf form (406).
pub fn protobuf(messages: &Messages, code: StatusCode, object: &Value) -> Result<Response, ApiError> {
    let body = protobuf::of_object(messages, object)?;
    Ok(bytes(code, Format::Protobuf.content_type(), body))
}

/// Converts the object with the JSON `text` to another format.
fn converted(messages: &Messages, format: Format, text: Bytes) -> Result<Bytes, ApiError> {
    let parse = || json::parse(&text, &Limits::TRUSTED).map_err(|error| ApiError::internal(error.to_string()));
    let mut out = Vec::new();
    match format {
        Format::Json => return Ok(text),
        Format::Yaml => yaml::write(&parse()?, &mut out),
        Format::Cbor => cbor::write(&parse()?, &mut out),
        Format::Protobuf => out = protobuf::from_json(messages, &text)?,
    }
    Ok(out.into())
}

/// Returns a response without content.
pub fn no_content() -> Response {
    let mut response = Response::new(ResponseBody::empty());
    *response.status_mut() = StatusCode::NO_CONTENT;
    response
}

/// Returns a response of plain text.
pub fn text(code: StatusCode, text: impl Into<Bytes>) -> Response {
    let mut response = bytes(code, PLAIN_TEXT, text.into());
    let headers = response.headers_mut();
    headers.insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    response
}

/// Returns the response to a request that exceeded its time limit. The reference sends it from outside of all handlers:
/// a status without its kind and as plain text. Clients do not parse it and report the timeout in their own words.
pub fn out_of_time() -> Response {
    const STATUS: &str = concat!(
        r#"{"metadata":{},"status":"Failure","message":"Timeout: request did not complete within the allotted timeout","#,
        r#""reason":"Timeout","details":{},"code":504}"#,
        "\n"
    );
    bytes(
        StatusCode::GATEWAY_TIMEOUT,
        PLAIN_TEXT,
        Bytes::from_static(STATUS.as_bytes()),
    )
}

/// Returns the response to a request for `uri` whose path is rejected before authentication: plain text, because no
/// handler sees it.
pub fn unread(error: RequestInfoError, uri: &Uri) -> Response {
    match error {
        RequestInfoError::Unreadable => bytes(StatusCode::BAD_REQUEST, PLAIN_TEXT, Bytes::from(error.to_string())),
        RequestInfoError::NoResource => {
            let target = uri.path_and_query().map_or("/", PathAndQuery::as_str);
            internal_error(uri, &format!("failed to create RequestInfo: {error}, {target}"))
        }
    }
}

/// Returns the response to a request for `uri` that fails in the server outside of all handlers: plain text.
pub(crate) fn internal_error(uri: &Uri, why: &str) -> Response {
    let target = uri.path_and_query().map_or("/", PathAndQuery::as_str);
    let message = format!("Internal Server Error: {}: {why}\n", quote(target));
    // The text is harmless if it is interpreted as HTML.
    let escaped = message.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;");
    text(StatusCode::INTERNAL_SERVER_ERROR, escaped)
}

/// Returns the response to a request for a WebSocket whose handshake is rejected.
pub(crate) fn handshake_refused(rejection: websocket::Rejection) -> Response {
    let mut answer = text(rejection.code, rejection.why);
    let version = HeaderValue::from_static(websocket::VERSION);
    answer.headers_mut().insert(header::SEC_WEBSOCKET_VERSION, version);
    answer
}

/// Returns the response for an unknown path, in the words of Go's `net/http`.
pub fn page_not_found() -> Response {
    text(StatusCode::NOT_FOUND, "404 page not found\n")
}

/// Returns the response of an error, in the form that the client requests; in protobuf by `messages`.
pub fn error(messages: &Messages, error: &ApiError, representation: &Representation) -> Response {
    let code = error.code();
    // A Status consists of numbers and text, which every format can encode.
    let encoded = match representation.format {
        Format::Protobuf => encoded(messages, code, representation, error.to_json()),
        _ => document(messages, code, representation, &error.document()),
    };
    let mut response = encoded.unwrap_or_else(|_| text(code, error.to_string()));
    let details = error.status().details.as_ref();
    let retry_after = details.map_or(0, |details| details.retry_after_seconds);
    if retry_after > 0 {
        response.headers_mut().insert(header::RETRY_AFTER, retry_after.into());
    }
    add_warnings(response.headers_mut(), &error.status().warnings);
    response
}

/// Total length of warnings above which each is truncated, and the length after truncation, in characters.
const WARNING_CHARACTERS: usize = 4096;
const CUT_WARNING: usize = 256;

/// Inserts a warning before the existing ones: warnings about the whole resource come first.
pub fn put_warning_first(headers: &mut HeaderMap, warning: String) {
    let others: Vec<HeaderValue> = headers.get_all(WARNING).iter().cloned().collect();
    headers.remove(WARNING);
    add_warnings(headers, &[warning]);
    for other in others {
        headers.append(WARNING, other);
    }
}

/// Adds `warnings` as Warning headers (RFC 7234, code 299), each text once. If they are too long in total, each is
/// truncated, and those that are still too much are left out.
pub fn add_warnings(headers: &mut HeaderMap, warnings: &[String]) {
    // Characters that a header cannot contain, and empty warnings, are left out.
    let is_printable = |byte: u8| matches!(byte, b' '..=b'~');
    let sayable =
        |text: &str| !text.is_empty() && (text.bytes().all(is_printable) || !text.chars().any(char::is_control));
    let mut included: Vec<&str> = Vec::with_capacity(warnings.len().min(WARNING_CHARACTERS));
    let mut length = 0;
    for text in warnings {
        if length >= WARNING_CHARACTERS && included.len() * CUT_WARNING >= WARNING_CHARACTERS {
            break;
        }
        if sayable(text) && !included.contains(&text.as_str()) {
            length += text.chars().count();
            included.push(text);
        }
    }
    let cut = length > WARNING_CHARACTERS;
    let mut length = 0;
    for text in included {
        if cut && length >= WARNING_CHARACTERS {
            return;
        }
        let text = match cut.then(|| text.char_indices().nth(CUT_WARNING)).flatten() {
            Some((end, _)) => text.get(..end).unwrap_or_default(),
            None => text,
        };
        length += text.chars().count();
        let escaped = text.replace('\\', "\\\\").replace('"', "\\\"");
        let quoted = ["299 - \"", &escaped, "\""].concat();
        if let Ok(value) = HeaderValue::from_bytes(quoted.as_bytes()) {
            headers.append(WARNING, value);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    #[test]
    fn warnings_are_quoted_and_said_once() {
        let mut headers = HeaderMap::new();
        let warnings = [
            "unknown field \"spec.a\"",
            "b",
            "two\nlines",
            "",
            "unknown field \"spec.a\"",
        ]
        .map(str::to_owned);
        add_warnings(&mut headers, &warnings);
        let all: Vec<_> = headers.get_all(header::WARNING).iter().collect();
        assert_eq!(all, [r#"299 - "unknown field \"spec.a\"""#, r#"299 - "b""#]);
    }

    #[tokio::test]
    async fn an_old_path_without_a_resource_is_reported_with_its_query() {
        use http_body_util::BodyExt as _;

        let uri = "/api/v1/watch?a=1&b=2".parse().unwrap();
        let answer = unread(RequestInfoError::NoResource, &uri);
        assert_eq!(
            (answer.status().as_u16(), &answer.headers()[header::CONTENT_TYPE]),
            (500, &PLAIN_TEXT)
        );
        let text = answer.into_body().collect().await.unwrap().to_bytes();
        assert_eq!(
            text,
            "Internal Server Error: \"/api/v1/watch?a=1&amp;b=2\": failed to create RequestInfo: unable to determine \
             kind and namespace from url, /api/v1/watch?a=1&amp;b=2\n"
        );
    }

    #[tokio::test]
    async fn json_ends_with_a_line_end_unless_indented() {
        use http_body_util::BodyExt as _;

        let messages = Messages::new(Arc::new(holdfast_kind_tables::types().unwrap()));
        let long = format!(r#"{{"a":"{}"}}"#, "x".repeat(MAX_COPIED_BYTES));
        for (text, pretty, expected) in [
            (r#"{"a":1}"#, false, "{\"a\":1}\n".to_owned()),
            (r#"{"a":1}"#, true, "{\n  \"a\": 1\n}".to_owned()),
            (&long, false, format!("{long}\n")),
        ] {
            let representation = Representation {
                pretty,
                ..Representation::default()
            };
            let answer = encoded(&messages, StatusCode::OK, &representation, text.to_owned()).unwrap();
            assert_eq!(answer.body().length(), Some(expected.len() as u64));
            let body = answer.into_body().collect().await.unwrap().to_bytes();
            assert_eq!(body, expected);
        }
    }

    #[test]
    fn an_error_warns_once() {
        let messages = Messages::new(Arc::new(holdfast_kind_tables::types().unwrap()));
        let rejection = ApiError::bad_request("no").with_warnings(vec!["odd".to_owned()]);
        let response = error(&messages, &rejection, &Representation::default());
        assert_eq!(response.headers().get_all(header::WARNING).iter().count(), 1);
    }

    #[test]
    fn warnings_that_are_long_together_are_cut_short() {
        let lengths = |warnings: &[String]| -> Vec<usize> {
            let mut headers = HeaderMap::new();
            add_warnings(&mut headers, warnings);
            let all = headers.get_all(WARNING).iter();
            all.map(|value| value.len() - r#"299 - """#.len()).collect()
        };
        let text = |at: usize, length: usize| format!("{at:04}{}", "x".repeat(length - 4));
        assert_eq!(lengths(&[text(0, 4000), text(1, 96)]), [4000, 96]);
        assert_eq!(lengths(&[text(0, 4000), text(1, 97), text(2, 300)]), [256, 97, 256]);
        let many: Vec<String> = (0..5000).map(|at| text(at, 1000)).collect();
        assert_eq!(lengths(&many), [256; 16]);
    }

    #[test]
    fn a_warning_of_the_resource_stands_before_those_of_the_object() {
        let mut headers = HeaderMap::new();
        add_warnings(&mut headers, &["unknown field \"a\"".to_owned(), "b".to_owned()]);
        put_warning_first(&mut headers, "deprecated".to_owned());
        let all: Vec<_> = headers.get_all(WARNING).iter().collect();
        assert_eq!(
            all,
            [
                "299 - \"deprecated\"",
                "299 - \"unknown field \\\"a\\\"\"",
                "299 - \"b\""
            ]
        );
    }

    #[test]
    fn an_error_with_advice_says_when_to_come_back() {
        let messages = Messages::new(Arc::new(holdfast_kind_tables::types().unwrap()));
        let rejection = ApiError::too_large_resource_version(9, 1);
        let response = error(&messages, &rejection, &Representation::default());
        assert_eq!(response.status(), StatusCode::GATEWAY_TIMEOUT);
        assert_eq!(response.headers()[header::RETRY_AFTER], "1");
    }
}
