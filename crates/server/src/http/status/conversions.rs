//! Conversions of the errors of lower layers to a `Status`.

use holdfast_authorization::{AccessTarget, Attributes, ResourceTarget};
use holdfast_resource::ConversionError;
use holdfast_store::ReadError;
use holdfast_writes::ErrorKind;
use http::StatusCode;

use super::{ApiError, Cause, Details, RETRY_SECONDS, TOO_MANY};
use crate::wire::body::BodyError;

impl From<ReadError> for ApiError {
    fn from(error: ReadError) -> Self {
        match error {
            ReadError::Etcd(text) => Self::unclassified(&*text),
            ReadError::Closed => Self::unavailable("the server is shutting down"),
        }
    }
}

impl From<ConversionError> for ApiError {
    fn from(error: ConversionError) -> Self {
        match error {
            ConversionError::Unknown { .. } => Self::internal(error.to_string()),
            ConversionError::Overgrown(error) => Self::too_large_because(error),
            ConversionError::NoSuchTarget(_) | ConversionError::NoSuchSource(_) | ConversionError::Webhook(_) => {
                Self::unclassified(error.to_string())
            }
        }
    }
}

impl From<holdfast_writes::Error> for ApiError {
    fn from(error: holdfast_writes::Error) -> Self {
        let (kind, warnings) = error.into_parts();
        Self::from(kind).with_warnings(warnings)
    }
}

impl From<ErrorKind> for ApiError {
    fn from(kind: ErrorKind) -> Self {
        match kind {
            ErrorKind::NotFound(resource, name) => Self::not_found(&resource, &name),
            ErrorKind::Conflict { resource, name, why } => Self::conflict(&resource, &name, why),
            ErrorKind::Modified(resource, name) => Self::modified(&resource, &name),
            ErrorKind::ApplyConflict(conflicts) => Self::apply_conflict(&conflicts),
            ErrorKind::ApplyDuplicates(duplicates) => Self::apply_duplicates(*duplicates),
            ErrorKind::Invalid { kind, name, errors } => Self::invalid(&kind, &name, &errors),
            ErrorKind::UnprocessablePatch => Self::unprocessable_patch(),
            ErrorKind::Forbidden { resource, name, why } => Self::forbidden(&resource, &name, why),
            ErrorKind::Unauthorized {
                verb,
                user,
                resource,
                namespace,
                name,
                reason,
            } => {
                let target = AccessTarget::Resource(ResourceTarget {
                    group: &resource.group,
                    resource: &resource.resource,
                    namespace: &namespace,
                    name: &name,
                    ..ResourceTarget::default()
                });
                Self::unauthorized_for(&user, &Attributes { verb, target }, &reason)
            }
            ErrorKind::Rejection {
                rejection,
                resource,
                kind,
                name,
            } => Self::rejection(rejection, &resource, &kind, &name),
            ErrorKind::Denied {
                resource,
                name,
                code,
                reason,
                message,
                causes,
            } => {
                let causes = causes.into_iter().map(|message| Cause {
                    message,
                    ..Cause::default()
                });
                let details = Details {
                    causes: causes.collect(),
                    ..Details::new(&resource, &name)
                };
                Self::of_code(code, reason, message, Some(details))
            }
            ErrorKind::Rejected {
                code,
                reason,
                message,
                details,
            } => Self::of_code(code, reason, message, details.as_ref().map(Details::from_status)),
            ErrorKind::Unconverted(error) => error.into(),
            ErrorKind::BadRequest(message) => Self::bad_request(message),
            ErrorKind::TooLarge(why) => Self::too_large_because(why),
            ErrorKind::OutOfTime => Self::out_of_time(),
            ErrorKind::Internal(why) => Self::internal(why),
            ErrorKind::Unclassified(message) => Self::unclassified(message),
        }
    }
}

impl From<BodyError> for ApiError {
    fn from(error: BodyError) -> Self {
        match error {
            BodyError::TooLarge(limit) => Self::too_large(limit),
            BodyError::Broken(error) => Self::bad_request(error.to_string()),
            BodyError::Slow => {
                let message = "timed out reading the body of the request";
                Self::new(StatusCode::REQUEST_TIMEOUT, "Timeout", message, None)
            }
            BodyError::TooMany => Self::too_many_requests(TOO_MANY, RETRY_SECONDS),
        }
    }
}
