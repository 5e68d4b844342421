//! Errors of requests that do not depend on the resource: credentials, formats, size and time.

use std::fmt;

use http::StatusCode;

use super::{ApiError, Cause, Details};

/// Detail of the message for a request that exceeded its time limit, after the general text for timeouts.
const OUT_OF_TIME: &str = "request did not complete within requested timeout - context deadline exceeded";
const TIMEOUT: &str = "Timeout: ";

impl ApiError {
    /// Returns 401: the credentials are missing or invalid.
    pub fn unauthorized() -> Self {
        Self::new(StatusCode::UNAUTHORIZED, "Unauthorized", "Unauthorized", None)
    }

    /// Returns 400: the request is malformed.
    pub fn bad_request(message: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, "BadRequest", message, None)
    }

    /// Returns 406: the client accepts none of the media types `available` on the route.
    pub fn no_representation(available: &[&str]) -> Self {
        let message = format!(
            "406: Not Acceptable\n\nAvailable representations: {}",
            available.join(", ")
        );
        let details = Some(Details::default());
        Self::new(StatusCode::NOT_ACCEPTABLE, "NotAcceptable", message, details)
    }

    /// Returns 406: the object cannot be returned in the requested form; `message` states why.
    pub fn not_acceptable(message: impl Into<String>) -> Self {
        Self::new(StatusCode::NOT_ACCEPTABLE, "NotAcceptable", message, None)
    }

    /// Returns 415 for a PATCH: no patch has this content type.
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

    /// Returns 415: bodies are supported only in the media types `supported`.
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

    /// Returns 413: the body has more than `limit` bytes.
    pub fn too_large(limit: usize) -> Self {
        Self::too_large_because(format_args!("limit is {limit}"))
    }

    /// Returns 413 with the text `why` after `Request entity too large: `.
    pub fn too_large_because(why: impl fmt::Display) -> Self {
        let message = format!("Request entity too large: {why}");
        Self::new(StatusCode::PAYLOAD_TOO_LARGE, "RequestEntityTooLarge", message, None)
    }

    /// Returns 410: the resource version or the continue token is older than the history.
    pub fn expired(message: impl Into<String>) -> Self {
        Self::new(StatusCode::GONE, "Expired", message, None)
    }

    /// Adds the token of `metadata.continue` with which the client can continue.
    pub fn with_continue_token(mut self, token: String) -> Self {
        self.0.continue_token = token;
        self
    }

    /// Returns 504: the work did not complete in time.
    pub fn timeout(message: impl Into<String>, retry_after_seconds: u32) -> Self {
        let details = Details {
            retry_after_seconds,
            ..Details::default()
        };
        let message = format!("{TIMEOUT}{}", message.into());
        Self::new(StatusCode::GATEWAY_TIMEOUT, "Timeout", message, Some(details))
    }

    /// Returns 504: the request exceeded its time limit.
    pub fn out_of_time() -> Self {
        Self::timeout(OUT_OF_TIME, 0)
    }

    /// Returns true if the error means that the request exceeded its time limit.
    pub fn is_out_of_time(&self) -> bool {
        let message = self.0.message.strip_prefix(TIMEOUT);
        self.code() == StatusCode::GATEWAY_TIMEOUT && message == Some(OUT_OF_TIME)
    }

    /// Returns 504: the client requests a resource version that does not exist yet.
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

    /// Adds the advice to retry after `seconds`, unless they are zero.
    #[must_use]
    pub fn with_advice(mut self, seconds: u32) -> Self {
        if seconds > 0 {
            self.0.details.get_or_insert_default().retry_after_seconds = seconds;
        }
        self
    }

    /// Removes the advice about a retry.
    #[must_use]
    pub fn without_advice(mut self) -> Self {
        if let Some(details) = &mut self.0.details {
            details.retry_after_seconds = 0;
        }
        self
    }

    /// Returns 429: the client should retry after `retry_after_seconds`.
    pub fn too_many_requests(message: impl Into<String>, retry_after_seconds: u32) -> Self {
        let details = Details {
            retry_after_seconds,
            ..Details::default()
        };
        Self::new(StatusCode::TOO_MANY_REQUESTS, "TooManyRequests", message, Some(details))
    }

    /// Returns 503: the server cannot handle this now.
    pub fn unavailable(message: impl Into<String>) -> Self {
        Self::new(StatusCode::SERVICE_UNAVAILABLE, "ServiceUnavailable", message, None)
    }

    /// Returns 500 with the reference's prefix `Internal error occurred: …`.
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

    /// Returns 500 with a bare message and no reason, as the reference reports an error that it has no `Status` for.
    pub fn unclassified(message: impl Into<String>) -> Self {
        Self::new(StatusCode::INTERNAL_SERVER_ERROR, "", message, None)
    }
}
