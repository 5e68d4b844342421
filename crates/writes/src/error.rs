use std::fmt;

use holdfast_ownership::{Conflicts, DuplicateItems};
use holdfast_resource::{ConversionError, Rejection};
use holdfast_schema::{FieldError, GroupKind, GroupResource};
use holdfast_value::{SmolStr, Value};

/// Error of a rejected write. One word in size, so that results stay small.
#[derive(Clone, Debug)]
pub struct Error(Box<Refused>);

#[derive(Clone, Debug)]
struct Refused {
    kind: ErrorKind,
    warnings: Vec<String>,
}

/// Reason for which a write is rejected. The server converts each to a `Status`.
#[derive(Clone, Debug)]
pub enum ErrorKind {
    /// 404: the object does not exist.
    NotFound(GroupResource, String),
    /// 409: the write does not fit the object as it is now.
    Conflict {
        /// The resource.
        resource: GroupResource,
        /// The name of the object.
        name: String,
        /// Reason.
        why: String,
    },
    /// 409: the resource version that the client names is not that of the object.
    Modified(GroupResource, String),
    /// 409: other managers own fields that an apply changes.
    ApplyConflict(Conflicts),
    /// 500: items of an applied configuration have the same key.
    ApplyDuplicates(Box<DuplicateItems>),
    /// 422: fields of the object are wrong.
    Invalid {
        /// The kind of the object.
        kind: GroupKind,
        /// Its name; may be empty.
        name: String,
        /// Validation errors.
        errors: Vec<FieldError>,
    },
    /// 422: a patch cannot be carried out on the object.
    UnprocessablePatch,
    /// 403: the write is rejected; an empty name is left out of the message.
    Forbidden {
        /// The resource.
        resource: GroupResource,
        /// The name of the object.
        name: String,
        /// Reason.
        why: String,
    },
    /// 403: the user lacks an additional permission that the write needs.
    Unauthorized {
        /// The verb that is needed.
        verb: &'static str,
        /// The user.
        user: String,
        /// The resource.
        resource: GroupResource,
        /// The namespace; empty for cluster-scoped resources.
        namespace: SmolStr,
        /// The name of the object.
        name: String,
        /// Reason from the authorizer; may be empty.
        reason: String,
    },
    /// A kind or an admission plugin rejects the write; the message names the written object.
    Rejection {
        /// Reason.
        rejection: Rejection,
        /// The resource.
        resource: GroupResource,
        /// Kind that the message names.
        kind: GroupKind,
        /// The name of the object.
        name: String,
    },
    /// An admission policy denies the write.
    Denied {
        /// The resource.
        resource: GroupResource,
        /// The name of the object.
        name: String,
        /// The code.
        code: u16,
        /// The reason.
        reason: SmolStr,
        /// The message.
        message: String,
        /// Messages of all policies that deny it.
        causes: Vec<String>,
    },
    /// An admission webhook rejects the write.
    Rejected {
        /// The code, from 400 to 999.
        code: u16,
        /// The reason; may be empty.
        reason: SmolStr,
        /// The message.
        message: String,
        /// The `details` of its `Status`.
        details: Option<Value>,
    },
    /// An object cannot be converted to another version.
    Unconverted(ConversionError),
    /// 400: the request is invalid.
    BadRequest(String),
    /// 413: the object is too large, or becomes so.
    TooLarge(String),
    /// 504: the request took longer than it may.
    OutOfTime,
    /// 500: `Internal error occurred: …`.
    Internal(String),
    /// 500 with a bare message and no reason.
    Unclassified(String),
}

impl From<ErrorKind> for Error {
    fn from(kind: ErrorKind) -> Self {
        Self(Box::new(Refused {
            kind,
            warnings: Vec::new(),
        }))
    }
}

impl From<ConversionError> for Error {
    fn from(error: ConversionError) -> Self {
        ErrorKind::Unconverted(error).into()
    }
}

impl Error {
    /// Returns the error for an object `name` that does not exist.
    pub fn not_found(resource: &GroupResource, name: &str) -> Self {
        ErrorKind::NotFound(resource.clone(), name.to_owned()).into()
    }

    /// Returns the error for a write that conflicts with the current object.
    pub fn conflict(resource: &GroupResource, name: &str, why: impl fmt::Display) -> Self {
        let (resource, name, why) = (resource.clone(), name.to_owned(), why.to_string());
        ErrorKind::Conflict { resource, name, why }.into()
    }

    /// Returns the error for a resource version in the request that is not that of the object.
    pub fn modified(resource: &GroupResource, name: &str) -> Self {
        ErrorKind::Modified(resource.clone(), name.to_owned()).into()
    }

    /// Fields of the object are wrong.
    pub fn invalid(kind: &GroupKind, name: &str, errors: Vec<FieldError>) -> Self {
        let (kind, name) = (kind.clone(), name.to_owned());
        ErrorKind::Invalid { kind, name, errors }.into()
    }

    /// Returns the error of a forbidden write.
    pub fn forbidden(resource: &GroupResource, name: &str, why: impl fmt::Display) -> Self {
        let (resource, name, why) = (resource.clone(), name.to_owned(), why.to_string());
        ErrorKind::Forbidden { resource, name, why }.into()
    }

    /// Returns the error for an invalid request.
    pub fn bad_request(message: impl Into<String>) -> Self {
        ErrorKind::BadRequest(message.into()).into()
    }

    /// Returns the error for an object that is or becomes too large.
    pub fn too_large_because(why: impl fmt::Display) -> Self {
        ErrorKind::TooLarge(why.to_string()).into()
    }

    /// Returns an internal error of the server.
    pub fn internal(why: impl Into<String>) -> Self {
        ErrorKind::Internal(why.into()).into()
    }

    /// Returns an error for which the reference has no `Status`.
    pub fn unclassified(message: impl Into<String>) -> Self {
        ErrorKind::Unclassified(message.into()).into()
    }

    /// Returns the same error with these warnings before its own.
    #[must_use]
    pub fn with_warnings(mut self, warnings: Vec<String>) -> Self {
        self.0.warnings.splice(0..0, warnings);
        self
    }

    /// Returns the reason.
    pub fn kind(&self) -> &ErrorKind {
        &self.0.kind
    }

    /// Returns the reason, and the warnings for the client.
    pub fn into_parts(self) -> (ErrorKind, Vec<String>) {
        (self.0.kind, self.0.warnings)
    }
}
