//! Answers: a status code, a content type, warnings and a body.

use bytes::Bytes;
use http::StatusCode;
use http::header::{self, HeaderMap, HeaderName, HeaderValue};

use crate::ApiError;
use crate::body::ResponseBody;
use crate::negotiation::{Format, Representation};

/// An answer to a request.
pub type Response = http::Response<ResponseBody>;

/// The content type of plain text, as Go's `net/http` names it.
pub const PLAIN_TEXT: HeaderValue = HeaderValue::from_static("text/plain; charset=utf-8");

const WARNING: HeaderName = header::WARNING;

/// An answer of bytes that are encoded already.
pub fn bytes(code: StatusCode, content_type: HeaderValue, body: impl Into<ResponseBody>) -> Response {
    let mut response = Response::new(body.into());
    *response.status_mut() = code;
    response.headers_mut().insert(header::CONTENT_TYPE, content_type);
    response
}

/// An answer of JSON text, turned into what the client asked for: as it is, indented, or as YAML. `json` is one document.
///
/// # Errors
/// 500 where `json` is no JSON, which is a fault of the server.
pub fn document(
    code: StatusCode,
    representation: &Representation,
    json: impl Into<Bytes>,
) -> Result<Response, ApiError> {
    let json = json.into();
    let body = match (representation.format, representation.pretty) {
        (Format::Json, false) => json,
        (format, _) => {
            let value = holdfast_value::json::parse(&json, &holdfast_value::Limits::TRUSTED)
                .map_err(|error| ApiError::internal(error.to_string()))?;
            crate::negotiation::encode(&value, format, representation.pretty)
        }
    };
    Ok(bytes(code, representation.format.content_type(), body))
}

/// Plain text.
pub fn text(code: StatusCode, text: impl Into<Bytes>) -> Response {
    bytes(code, PLAIN_TEXT, text.into())
}

/// The answer that tells the client of an error, as JSON or as YAML.
pub fn error(error: &ApiError, representation: &Representation) -> Response {
    let json = error.to_json();
    let code = error.code();
    // A Status made here is JSON, so that encoding it anew cannot fail.
    let mut response = document(code, representation, json).unwrap_or_else(|_| text(code, error.to_string()));
    let retry_after = error
        .status()
        .details
        .as_ref()
        .map_or(0, |details| details.retry_after_seconds);
    if retry_after > 0 {
        response.headers_mut().insert(header::RETRY_AFTER, retry_after.into());
    }
    response
}

/// Adds `warnings` as Warning headers (RFC 7234, code 299), each text once.
pub fn add_warnings(headers: &mut HeaderMap, warnings: &[String]) {
    for (at, text) in warnings.iter().enumerate() {
        if warnings[..at].contains(text) {
            continue;
        }
        let mut quoted = String::with_capacity(text.len() + 10);
        quoted.push_str("299 - \"");
        for character in text.chars() {
            match character {
                '"' | '\\' => {
                    quoted.push('\\');
                    quoted.push(character);
                }
                // What cannot stand in a header is left out.
                control if control.is_control() => {}
                other => quoted.push(other),
            }
        }
        quoted.push('"');
        if let Ok(value) = HeaderValue::from_bytes(quoted.as_bytes()) {
            headers.append(WARNING, value);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn warnings_are_quoted_and_said_once() {
        let mut headers = HeaderMap::new();
        let warnings = ["unknown field \"spec.a\"", "b\n", "unknown field \"spec.a\""].map(str::to_owned);
        add_warnings(&mut headers, &warnings);
        let all: Vec<_> = headers.get_all(header::WARNING).iter().collect();
        assert_eq!(all, [r#"299 - "unknown field \"spec.a\"""#, r#"299 - "b""#]);
    }

    #[test]
    fn an_error_with_advice_says_when_to_come_back() {
        let response = error(&ApiError::too_large_resource_version(9, 1), &Representation::default());
        assert_eq!(response.status(), StatusCode::GATEWAY_TIMEOUT);
        assert_eq!(response.headers()[header::RETRY_AFTER], "1");
    }
}
