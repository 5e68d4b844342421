//! Errors as clients see them: the only place that maps errors to a Kubernetes `Status`.
//!
//! A `Status` has a code, a reason for machines, a message for people and details. Clients rely on all of them, so the
//! texts here are those of kube-apiserver. Other parts of the server create an [`ApiError`] by the constructor for the
//! problem.

mod conflicts;
mod conversions;
mod document;
mod duplicates;
mod requests;

use std::fmt;

use holdfast_authorization::{AccessTarget, Attributes};
use holdfast_gotext::quote::quote;
use holdfast_resource::Rejection;
use holdfast_schema::field_error::{Aggregate, MESSAGE_BYTES, fits_in_message};
use holdfast_schema::{FieldError, GroupKind, GroupResource};
use holdfast_value::json;
use holdfast_writes::{Conflicts, DuplicateItems};
use http::StatusCode;
use serde::Serialize;
use smol_str::SmolStr;

pub use self::conflicts::FieldConflicts;
pub(crate) use self::conflicts::bounded;
pub use self::document::{Cause, Details, Status};
use self::document::{Document, ListMeta};
pub use self::duplicates::ItemCollisions;

/// `Status` of a successful action.
pub(crate) const CREATED: &[u8] = br#"{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Success","code":201}"#;

/// Message for a request that exceeds a limit on concurrent requests, and the advised delay of a retry in seconds.
pub(crate) const TOO_MANY: &str = "Too many requests, please try again later.";
pub(crate) const RETRY_SECONDS: u32 = 1;

/// A request that failed, as the `Status` that the client gets. One word in size, so that results stay small.
#[derive(Clone, Debug)]
pub struct ApiError(Box<Status>);

/// Message for an unknown path.
const UNKNOWN: &str = "the server could not find the requested resource";

/// Name of a new object that an existing object already has.
#[derive(Clone, Copy, Debug)]
pub struct TakenName<'n> {
    /// The name.
    pub name: &'n str,
    /// True if the other object waits for its finalizers.
    pub deleting: bool,
    /// True if the new object has a `generateName`, so that another attempt may succeed.
    pub generated: bool,
}

impl ApiError {
    /// Creates an error of any code, reason and message.
    pub fn new(
        code: StatusCode,
        reason: impl Into<SmolStr>,
        message: impl Into<String>,
        details: Option<Details>,
    ) -> Self {
        Self(Box::new(Status {
            code: code.as_u16(),
            reason: reason.into(),
            message: message.into(),
            details,
            continue_token: String::new(),
            warnings: Vec::new(),
        }))
    }

    /// Creates an error as [`ApiError::new`] does, for a code that another server sends; 400 if the code is invalid.
    fn of_code(code: u16, reason: SmolStr, message: String, details: Option<Details>) -> Self {
        let code = StatusCode::from_u16(code).unwrap_or(StatusCode::BAD_REQUEST);
        Self::new(code, reason, message, details)
    }

    /// Returns 403: the user may not do this. `reason` is the reason of the authorizer; may be empty.
    pub(crate) fn unauthorized_for(user: &str, attributes: &Attributes<'_>, reason: &str) -> Self {
        let why = attributes.rejection(user, reason);
        match attributes.target {
            AccessTarget::Path(_) => Self::forbidden_path(why),
            AccessTarget::Resource(target) => {
                let resource = GroupResource {
                    group: target.group.into(),
                    resource: target.resource.into(),
                };
                Self::forbidden(&resource, target.name, why)
            }
        }
    }

    /// Returns 404: the object `name` does not exist.
    pub fn not_found(resource: &GroupResource, name: &str) -> Self {
        let message = format!("{resource} {} not found", quote(name));
        Self::new(
            StatusCode::NOT_FOUND,
            "NotFound",
            message,
            Some(Details::new(resource, name)),
        )
    }

    /// Returns 404: no resource or subresource of that name is served, or the path is not part of the API.
    pub fn unknown_resource() -> Self {
        Self::new(StatusCode::NOT_FOUND, "NotFound", UNKNOWN, Some(Details::default()))
    }

    /// Returns true if this is [`ApiError::unknown_resource`].
    pub fn is_unknown_resource(&self) -> bool {
        self.0.message == UNKNOWN
    }

    /// Returns 405: the address exists, but not for this method.
    pub fn method_not_allowed() -> Self {
        let message = "the server does not allow this method on the requested resource";
        let details = Some(Details::default());
        Self::new(StatusCode::METHOD_NOT_ALLOWED, "MethodNotAllowed", message, details)
    }

    /// Returns 405: the kind does not support `action`, such as `patch` or `update`.
    pub fn method_not_supported(resource: &GroupResource, action: &str) -> Self {
        let message = format!("{action} is not supported on resources of kind \"{resource}\"");
        let details = Some(Details::new(resource, ""));
        Self::new(StatusCode::METHOD_NOT_ALLOWED, "MethodNotAllowed", message, details)
    }

    /// Returns 409: an object of that name exists already.
    pub fn already_exists(resource: &GroupResource, taken: &TakenName<'_>) -> Self {
        let begin = if taken.deleting {
            "object is being deleted: "
        } else {
            ""
        };
        let end = if taken.generated {
            ", the server was not able to generate a unique name for the object"
        } else {
            ""
        };
        let message = format!("{begin}{resource} {} already exists{end}", quote(taken.name));
        let details = Details {
            retry_after_seconds: u32::from(taken.generated),
            ..Details::new(resource, taken.name)
        };
        Self::new(StatusCode::CONFLICT, "AlreadyExists", message, Some(details))
    }

    /// Returns 409: the write conflicts with the current object.
    pub fn conflict(resource: &GroupResource, name: &str, why: impl fmt::Display) -> Self {
        let message = format!("Operation cannot be fulfilled on {resource} {}: {why}", quote(name));
        Self::new(
            StatusCode::CONFLICT,
            "Conflict",
            message,
            Some(Details::new(resource, name)),
        )
    }

    /// Returns 409: the resource version of the client differs from that of the object.
    pub fn modified(resource: &GroupResource, name: &str) -> Self {
        const WHY: &str = "the object has been modified; please apply your changes to the latest version and try again";
        Self::conflict(resource, name, WHY)
    }

    /// Returns 409: other managers own fields that an apply changes. Conflicts of one manager are adjacent.
    pub fn apply_conflict(conflicts: &Conflicts) -> Self {
        let causes = conflicts.iter().map(|conflict| Cause {
            reason: "FieldManagerConflict".to_owned(),
            message: conflict.message(),
            field: conflict.path.clone(),
        });
        let details = Details {
            conflicts: FieldConflicts::new(conflicts),
            ..Details::of_causes(causes.collect())
        };
        Self::new(StatusCode::CONFLICT, "Conflict", conflicts.to_string(), Some(details))
    }

    /// Returns 500: items of an applied configuration have the same key. The reference has no reason for this error.
    pub(crate) fn apply_duplicates(duplicates: DuplicateItems) -> Self {
        let message = duplicates.message.clone();
        let details = Details {
            duplicates: Some(Box::new(ItemCollisions::new(duplicates))),
            ..Details::default()
        };
        Self::new(StatusCode::INTERNAL_SERVER_ERROR, "", message, Some(details))
    }

    /// Returns 422: fields of the object are invalid. `kind` is the kind of the object, whose name may be empty.
    pub fn invalid(kind: &GroupKind, name: &str, errors: &[FieldError]) -> Self {
        let mut left = MESSAGE_BYTES;
        let all_causes = errors.iter().map(|error| Cause {
            reason: error.reason().to_owned(),
            message: error.message(),
            field: error.field.to_string(),
        });
        let causes = all_causes.take_while(|cause| fits_in_message(&mut left, &cause.message));
        let details = Details {
            name: name.to_owned(),
            group: kind.group.clone(),
            kind: kind.kind.clone(),
            causes: causes.collect(),
            ..Details::default()
        };
        let message = format!("{kind} {} is invalid: {}", quote(name), Aggregate(errors));
        Self::new(StatusCode::UNPROCESSABLE_ENTITY, "Invalid", message, Some(details))
    }

    /// Returns 422: query parameters are invalid; `options` is their kind in `meta.k8s.io`, such as `PatchOptions`.
    pub fn invalid_options(options: &'static str, errors: &[FieldError]) -> Self {
        let kind = GroupKind {
            group: SmolStr::new_static("meta.k8s.io"),
            kind: SmolStr::new_static(options),
        };
        Self::invalid(&kind, "", errors)
    }

    /// Returns 422: a patch cannot be applied to the object.
    pub fn unprocessable_patch() -> Self {
        let message = "the server rejected our request due to an error in our request";
        let details = Some(Details::default());
        Self::new(StatusCode::UNPROCESSABLE_ENTITY, "Invalid", message, details)
    }

    /// Returns 403: admission or the kind itself rejects the write. An empty name is left out of the message.
    pub fn forbidden(resource: &GroupResource, name: &str, why: impl fmt::Display) -> Self {
        Self::forbidden_with_causes(resource, name, why, Vec::new())
    }

    /// Returns 403 like [`ApiError::forbidden`], with causes.
    pub fn forbidden_with_causes(
        resource: &GroupResource,
        name: &str,
        why: impl fmt::Display,
        causes: Vec<Cause>,
    ) -> Self {
        let message = match (resource.group.as_str(), resource.resource.as_str(), name) {
            ("", "", _) => format!("forbidden: {why}"),
            (_, _, "") => format!("{resource} is forbidden: {why}"),
            _ => format!("{resource} {} is forbidden: {why}", quote(name)),
        };
        let details = Details {
            causes,
            ..Details::new(resource, name)
        };
        Self::new(StatusCode::FORBIDDEN, "Forbidden", message, Some(details))
    }

    /// Returns 403: the user may not access the path, which is not a resource.
    pub fn forbidden_path(why: impl fmt::Display) -> Self {
        let message = format!("forbidden: {why}");
        Self::new(StatusCode::FORBIDDEN, "Forbidden", message, Some(Details::default()))
    }

    /// Converts the rejection by a kind or an admission plugin to an error about the object that is written.
    pub fn rejection(rejection: Rejection, resource: &GroupResource, kind: &GroupKind, name: &str) -> Self {
        match rejection {
            Rejection::Invalid(errors) => Self::invalid(kind, name, &errors),
            Rejection::Forbidden { message, causes } => {
                let causes = causes
                    .into_iter()
                    .map(|(reason, message, field)| Cause { reason, message, field });
                // An object that admission denies before it has a name is reported under this name.
                let name = if name.is_empty() { "Unknown" } else { name };
                Self::forbidden_with_causes(resource, name, message, causes.collect())
            }
            Rejection::ForbiddenOn {
                resource,
                name,
                message,
            } => Self::forbidden(&resource, &name, message),
            Rejection::NotFound { resource, name } => Self::not_found(&resource, &name),
            Rejection::Conflict(why) => Self::conflict(resource, name, why),
            Rejection::ConflictOn { resource, name, why } => Self::conflict(&resource, &name, why),
            Rejection::InvalidAs { kind, name, errors } => Self::invalid(&kind, &name, &errors),
            Rejection::BadRequest(message) => Self::bad_request(message),
            Rejection::TooManyRequests {
                message,
                retry_after_seconds,
                causes,
            } => {
                // A limit of events has only a message.
                let says_more = retry_after_seconds != 0 || !causes.is_empty();
                let causes = causes.into_iter().map(|(reason, message)| Cause {
                    reason,
                    message,
                    field: String::new(),
                });
                let all_details = Details {
                    causes: causes.collect(),
                    retry_after_seconds,
                    ..Details::default()
                };
                let details = says_more.then_some(all_details);
                Self::new(StatusCode::TOO_MANY_REQUESTS, "TooManyRequests", message, details)
            }
            Rejection::Unavailable(message) => Self::unavailable(message),
            Rejection::Internal(why) => Self::internal(why),
            Rejection::Failed(message) => Self::unclassified(message),
        }
    }

    /// Returns the `Status`.
    pub fn status(&self) -> &Status {
        &self.0
    }

    /// Returns the `Status` for modification.
    pub fn status_mut(&mut self) -> &mut Status {
        &mut self.0
    }

    /// Returns the owners and values of the fields that conflict, if the error has them.
    pub(crate) fn conflicts(&self) -> FieldConflicts {
        let details = self.0.details.as_ref();
        details.map(|details| details.conflicts.clone()).unwrap_or_default()
    }

    /// Returns the HTTP status code.
    pub fn code(&self) -> StatusCode {
        StatusCode::from_u16(self.0.code).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR)
    }

    /// Returns the same error with these warnings before its other warnings.
    #[must_use]
    pub fn with_warnings(mut self, warnings: Vec<String>) -> Self {
        self.0.warnings.splice(0..0, warnings);
        self
    }

    /// Returns the reason, empty if there is none.
    pub fn reason(&self) -> &str {
        &self.0.reason
    }

    /// Returns the `Status` for serialization, with its fields in the order of the reference.
    pub fn document(&self) -> impl Serialize + '_ {
        Document {
            kind: "Status",
            api_version: "v1",
            metadata: ListMeta {
                continue_token: &self.0.continue_token,
            },
            status: "Failure",
            message: &self.0.message,
            reason: &self.0.reason,
            details: self.0.details.as_ref(),
            code: Some(self.0.code),
        }
    }

    /// Returns the `Status` as compact JSON text, as error events of watches contain it. It has only the fields of the
    /// reference.
    pub fn to_json(&self) -> Vec<u8> {
        // Text and numbers always have a JSON form.
        let text = match self.0.details.as_ref().filter(|details| details.has_own_fields()) {
            None => serde_json::to_vec(&self.document()),
            Some(details) => {
                let mut plain = self.clone();
                plain.0.details = Some(details.without_own_fields());
                serde_json::to_vec(&plain.document())
            }
        };
        json::html_safe(text.unwrap_or_default())
    }
}

/// Returns the `Status` that reports success with `details`, as compact JSON text. Not every one states its code.
pub(crate) fn success(details: &Details, code: Option<StatusCode>) -> Vec<u8> {
    let document = Document {
        kind: "Status",
        api_version: "v1",
        metadata: ListMeta { continue_token: "" },
        status: "Success",
        message: "",
        reason: "",
        details: Some(details),
        code: code.map(|code| code.as_u16()),
    };
    json::html_safe(serde_json::to_vec(&document).unwrap_or_default())
}

impl fmt::Display for ApiError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.message)
    }
}

impl std::error::Error for ApiError {}

#[cfg(test)]
mod tests {
    use holdfast_schema::FieldPath;
    use holdfast_writes::Conflict;

    use super::*;
    use crate::wire::body::BodyError;

    #[test]
    fn success_names_its_subject_and_the_stated_code() {
        let details = Details {
            name: "a&b".to_owned(),
            kind: "pods".into(),
            uid: "u".to_owned(),
            ..Details::default()
        };
        let text = |code| String::from_utf8(success(&details, code)).unwrap();
        let bare = r#"{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Success","details":{"name":"a\u0026b","kind":"pods","uid":"u"}"#;
        assert_eq!(text(None), format!("{bare}}}"));
        assert_eq!(text(Some(StatusCode::OK)), format!("{bare},\"code\":200}}"));
    }

    #[test]
    fn a_body_that_is_not_read_is_refused_by_its_cause() {
        let rejection = |error| {
            let error = ApiError::from(error);
            (error.code().as_u16(), error.to_string())
        };
        let large = "Request entity too large: limit is 3145728";
        assert_eq!(rejection(BodyError::TooLarge(3 << 20)), (413, large.to_owned()));
        let broken = std::io::Error::other("connection reset");
        assert_eq!(
            rejection(BodyError::Broken(broken)),
            (400, "connection reset".to_owned())
        );
        assert_eq!(rejection(BodyError::Slow).0, 408);
        assert_eq!(rejection(BodyError::TooMany), (429, TOO_MANY.to_owned()));
    }

    fn resource(group: &str, plural: &str) -> GroupResource {
        GroupResource {
            group: group.into(),
            resource: plural.into(),
        }
    }

    #[test]
    fn not_found_names_the_resource_with_its_group() {
        let error = ApiError::not_found(&resource("apps", "deployments"), "web");
        assert_eq!(
            String::from_utf8(error.to_json()).unwrap(),
            r#"{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure","message":"deployments.apps \"web\" not found","reason":"NotFound","details":{"name":"web","group":"apps","kind":"deployments"},"code":404}"#
        );
    }

    #[test]
    fn advice_can_be_left_out() {
        let error = ApiError::too_large_resource_version(9, 1).without_advice();
        let details = error.status().details.as_ref().unwrap();
        assert_eq!((details.retry_after_seconds, details.causes.len()), (0, 1));
    }

    #[test]
    fn names_are_quoted_and_resources_without_a_name_left_out() {
        let error = ApiError::not_found(&resource("", "configmaps"), "a\0\"b");
        assert_eq!(error.to_string(), r#"configmaps "a\x00\"b" not found"#);
        let error = ApiError::forbidden(&resource("", ""), "namespaces", "no");
        assert_eq!(error.to_string(), "forbidden: no");
        assert_eq!(error.status().details.as_ref().unwrap().name, "namespaces");
        let kind = GroupKind {
            group: "".into(),
            kind: "Pod".into(),
        };
        let error = ApiError::rejection(Rejection::forbidden("no"), &resource("", "pods"), &kind, "");
        assert_eq!(error.to_string(), r#"pods "Unknown" is forbidden: no"#);
    }

    #[test]
    fn invalid_says_equal_texts_once_but_lists_every_cause() {
        let kind = GroupKind {
            group: "apps".into(),
            kind: "Deployment".into(),
        };
        let (a, b) = (FieldPath::new("a"), FieldPath::new("b"));
        let errors = [
            FieldError::required(&a, ""),
            FieldError::required(&a, ""),
            FieldError::required(&b, ""),
        ];
        let error = ApiError::invalid(&kind, "web", &errors);
        assert_eq!(
            error.to_string(),
            "Deployment.apps \"web\" is invalid: [a: Required value, b: Required value]"
        );
        assert_eq!(error.status().details.as_ref().unwrap().causes.len(), 3);
        let single = ApiError::invalid(&kind, "", &errors[..2]);
        assert_eq!(single.to_string(), "Deployment.apps \"\" is invalid: a: Required value");
    }

    #[test]
    fn very_many_errors_are_listed_as_far_as_there_is_room() {
        let kind = GroupKind {
            group: SmolStr::default(),
            kind: "Pod".into(),
        };
        let errors = |count: usize, text: &str| -> Vec<FieldError> {
            let root = FieldPath::new("spec");
            (0..count)
                .map(|at| FieldError::required(&root.index(at), text))
                .collect()
        };
        // Comparing each error with all others would be too slow.
        let error = ApiError::invalid(&kind, "", &errors(200_000, ""));
        let message = error.to_string();
        assert!(message.len() < 2 * MESSAGE_BYTES && message.ends_with(" more errors]"));
        let large = "x".repeat(MESSAGE_BYTES);
        let error = ApiError::invalid(&kind, "", &errors(3, &large));
        assert_eq!(error.status().details.as_ref().unwrap().causes.len(), 1);
        assert!(error.to_string().ends_with("x, 2 more errors]"));
    }

    #[test]
    fn apply_conflicts_are_grouped_by_manager() {
        let conflicts = |pairs: &[(&str, &str)]| {
            let conflicts = pairs.iter().map(|(manager, field)| Conflict {
                manager: (*manager).to_owned(),
                path: (*field).to_owned(),
                details: None,
            });
            ApiError::apply_conflict(&conflicts.collect())
        };
        let one = conflicts(&[("\"other\" using v1", ".data.a")]);
        assert_eq!(
            one.to_string(),
            "Apply failed with 1 conflict: conflict with \"other\" using v1: .data.a"
        );
        let several = conflicts(&[
            ("\"alpha\"", ".data.a"),
            ("\"alpha\"", ".data.b"),
            ("\"bravo\"", ".data.c"),
        ]);
        assert_eq!(
            several.to_string(),
            "Apply failed with 3 conflicts: conflicts with \"alpha\":\n- .data.a\n- .data.b\nconflicts with \"bravo\":\n- .data.c"
        );
    }

    #[test]
    fn a_taken_name_that_was_made_up_may_be_tried_again() {
        let rejection = |generated| {
            let taken = TakenName {
                name: "a",
                deleting: true,
                generated,
            };
            let error = ApiError::already_exists(&resource("", "events"), &taken);
            let seconds = error.status().details.as_ref().unwrap().retry_after_seconds;
            (error.to_string(), seconds)
        };
        let plain = "object is being deleted: events \"a\" already exists";
        assert_eq!(rejection(false), (plain.to_owned(), 0));
        let generated = format!("{plain}, the server was not able to generate a unique name for the object");
        assert_eq!(rejection(true), (generated, 1));
    }

    #[test]
    fn an_unclassified_error_has_no_reason_and_no_details() {
        let text = String::from_utf8(ApiError::unclassified("no luck").to_json()).unwrap();
        assert_eq!(
            text,
            r#"{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure","message":"no luck","code":500}"#
        );
    }
}
