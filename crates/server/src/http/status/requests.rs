//! Errors of requests, whichever resource they are about: who asks, in which form, how large, and in which time.

use std::fmt;

use http::StatusCode;

use super::{ApiError, Cause, Details};

/// Detail of the message for a request that exceeded its time limit, after the general text for timeouts.
const OUT_OF_TIME: &str = "request did not complete within requested timeout - context deadline exceeded";
const TIMEOUT: &str = "Timeout: ";

impl ApiError {
    /// 401: who asks is not known.
    pub fn unauthorized() -> Self {
        Self::new(StatusCode::UNAUTHORIZED, "Unauthorized", "Unauthorized", None)
    }

    /// 400: the request cannot be read.
    pub fn bad_request(message: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, "BadRequest", message, None)
    }

    /// 406: the route makes none of the media types that the client accepts; it makes those of `available`.
    pub fn no_representation(available: &[&str]) -> Self {
        let message = format!(
            "406: Not Acceptable\n\nAvailable representations: {}",
            available.join(", ")
        );
        let details = Some(Details::default());
        Self::new(StatusCode::NOT_ACCEPTABLE, "NotAcceptable", message, details)
    }

    /// 406: the object cannot be returned in the requested form; `message` states why.
    pub fn not_acceptable(message: impl Into<String>) -> Self {
        Self::new(StatusCode::NOT_ACCEPTABLE, "NotAcceptable", message, None)
    }

    /// 415 of a PATCH: no patch has this content type.
    pub fn unsupported_patch_type() -> Self {
        let message = "415: Unsupported Media Type";
        let details = Some(Details::default());
        Self::new(
            StatusCode::UNSUPPORTED_MEDIA_TYPE,
            "UnsupportedMediaType",
            message,
            details,
        )
    }

    /// 415: bodies are read in the media types `supported` only.
    pub fn unsupported_body_type(supported: &[&str]) -> Self {
        let message = format!(
            "the body of the request was in an unknown format - accepted media types include: {}",
            supported.join(", ")
        );
        Self::new(
            StatusCode::UNSUPPORTED_MEDIA_TYPE,
            "UnsupportedMediaType",
            message,
            None,
        )
    }

    /// 413: the body has more than `limit` bytes.
    pub fn too_large(limit: usize) -> Self {
        Self::too_large_because(format_args!("limit is {limit}"))
    }

    /// 413 with the words `why` behind `Request entity too large: `.
    pub fn too_large_because(why: impl fmt::Display) -> Self {
        let message = format!("Request entity too large: {why}");
        Self::new(StatusCode::PAYLOAD_TOO_LARGE, "RequestEntityTooLarge", message, None)
    }

    /// 410: the resource version or the continue token is older than what is kept.
    pub fn expired(message: impl Into<String>) -> Self {
        Self::new(StatusCode::GONE, "Expired", message, None)
    }

    /// The same with the token of `metadata.continue` that lets the client go on.
    pub fn with_continue_token(mut self, token: String) -> Self {
        self.0.continue_token = token;
        self
    }

    /// 504: the work was not done in time.
    pub fn timeout(message: impl Into<String>, retry_after_seconds: u32) -> Self {
        let details = Details {
            retry_after_seconds,
            ..Details::default()
        };
        let message = format!("{TIMEOUT}{}", message.into());
        Self::new(StatusCode::GATEWAY_TIMEOUT, "Timeout", message, Some(details))
    }

    /// 504: the request took longer than it may.
    pub fn out_of_time() -> Self {
        Self::timeout(OUT_OF_TIME, 0)
    }

    /// Returns true if the error means that the request exceeded its time limit.
    pub fn is_out_of_time(&self) -> bool {
        let message = self.0.message.strip_prefix(TIMEOUT);
        self.code() == StatusCode::GATEWAY_TIMEOUT && message == Some(OUT_OF_TIME)
    }

    /// 504: the client asks for a resource version that is yet to come.
    pub fn too_large_resource_version(wanted: u64, current: u64) -> Self {
        let cause = Cause {
            reason: "ResourceVersionTooLarge".to_owned(),
            message: "Too large resource version".to_owned(),
            field: String::new(),
        };
        let details = Details {
            causes: vec![cause],
            retry_after_seconds: 1,
            ..Details::default()
        };
        let message = format!("Timeout: Too large resource version: {wanted}, current: {current}");
        Self::new(StatusCode::GATEWAY_TIMEOUT, "Timeout", message, Some(details))
    }

    /// The same error without advice when to come back.
    #[must_use]
    pub fn without_advice(mut self) -> Self {
        if let Some(details) = &mut self.0.details {
            details.retry_after_seconds = 0;
        }
        self
    }

    /// 429: come back after `retry_after_seconds`.
    pub fn too_many_requests(message: impl Into<String>, retry_after_seconds: u32) -> Self {
        let details = Details {
            retry_after_seconds,
            ..Details::default()
        };
        Self::new(StatusCode::TOO_MANY_REQUESTS, "TooManyRequests", message, Some(details))
    }

    /// 503: the server cannot do this now.
    pub fn unavailable(message: impl Into<String>) -> Self {
        Self::new(StatusCode::SERVICE_UNAVAILABLE, "ServiceUnavailable", message, None)
    }

    /// 500 that the reference words `Internal error occurred: …`.
    pub fn internal(why: impl Into<String>) -> Self {
        let why = why.into();
        let message = format!("Internal error occurred: {why}");
        let cause = Cause {
            message: why,
            ..Cause::default()
        };
        let details = Details::of_causes(vec![cause]);
        Self::new(
            StatusCode::INTERNAL_SERVER_ERROR,
            "InternalError",
            message,
            Some(details),
        )
    }

    /// 500 with a bare message and no reason: what the reference makes of an error that it has no `Status` for.
    pub fn unclassified(message: impl Into<String>) -> Self {
        Self::new(StatusCode::INTERNAL_SERVER_ERROR, "", message, None)
    }
}
