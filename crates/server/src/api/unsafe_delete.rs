//! DELETE of an object that cannot be read, by users with a special permission
//! (`ignoreStoreReadErrorWithClusterBreakingPotential`, <https://kep.k8s.io/3926>): finalizers, admission and
//! dependents are ignored, since they are unknown.

use std::sync::Arc;

use holdfast_authorization::{AccessTarget, Attributes, ResourceTarget};
use holdfast_resource::AuditAnnotations as _;
use holdfast_schema::{FieldError, FieldPath, GroupKind};
use holdfast_writes::DeleteOptions;
use http::StatusCode;

use super::get;
use crate::api::context::Context;
use crate::http::ApiError;
use crate::http::request::ResourceRequest;
use crate::http::response::{self, Response};
use crate::http::status::{self, Details};
use crate::objects;
use crate::write;

const OPTION: &str = "ignoreStoreReadErrorWithClusterBreakingPotential";
const VERB: &str = "unsafe-delete-ignore-read-errors";

/// Rejects options that cannot be combined with the one for unreadable objects.
///
/// upstream: k8s.io/apimachinery/pkg/apis/meta/v1/validation#ValidateIgnoreStoreReadError
///
/// # Errors
/// 422 if such an option is set.
pub(super) fn check(options: &DeleteOptions, of_collection: bool) -> Result<(), ApiError> {
    if !options.ignores_read_error {
        return Ok(());
    }
    let others = [
        (options.dry_run, "cannot be set together with .dryRun"),
        (
            options.propagation_policy.is_some(),
            "cannot be set together with .propagationPolicy",
        ),
        (
            options.orphan_dependents.is_some(),
            "cannot be set together with .orphanDependents",
        ),
        (
            options.grace_period_seconds.is_some(),
            "cannot be set together with .gracePeriodSeconds",
        ),
        (
            options.uid.is_some() || options.resource_version.is_some(),
            "cannot be set together with .preconditions",
        ),
    ];
    let field = FieldPath::new(OPTION);
    let mut errors: Vec<FieldError> = others
        .into_iter()
        .filter(|(is_set, _)| *is_set)
        .map(|(_, why)| FieldError::invalid(&field, true, why))
        .collect();
    if errors.is_empty() && of_collection {
        const WHY: &str = "is not allowed with DELETECOLLECTION, try again after removing the option";
        errors.push(FieldError::invalid(&field, true, WHY));
    }
    match errors.is_empty() {
        true => Ok(()),
        false => Err(ApiError::invalid_options("DeleteOptions", &errors)),
    }
}

/// Deletes the object, if it cannot be read.
///
/// upstream: k8s.io/apiserver/pkg/registry/generic/registry#corruptObjectDeleter.Delete
///
/// # Errors
/// 403 if the user lacks the permission, 422 if the object can be read or does not exist.
pub(super) async fn delete(context: &Arc<Context>, request: &ResourceRequest) -> Result<Response, ApiError> {
    if let Some(audit) = &request.audit {
        audit.annotate("apiserver.k8s.io/unsafe-delete-ignore-read-error", String::new());
    }
    authorize(context, request)?;
    let resource = &request.served.resource;
    let entry = get::stored(&context.shared.store.newest(), request).cloned();
    let Some(entry) = entry.filter(|entry| objects::check_readable(entry).is_err()) else {
        const WHY: &str = "is exclusively used to delete corrupt object(s), try again by removing this option";
        let error = FieldError::invalid(&FieldPath::new(OPTION), true, WHY);
        // The reference uses the resource name as the kind.
        let named = GroupKind {
            group: resource.group.clone(),
            kind: resource.plural.clone(),
        };
        return Err(ApiError::invalid(&named, &request.name, &[error]));
    };
    tracing::warn!(key = %entry.key(), user = %request.user.name, "deleting an object that cannot be read");
    write::remove_unread(&context.write, &entry).await?;
    let status = gone(request);
    response::encoded(context.messages(), StatusCode::OK, &request.representation, status)
}

/// Checks that the user has the separate permission for such a deletion.
///
/// upstream: k8s.io/apiserver/pkg/endpoints/handlers#authorizeUnsafeDelete
fn authorize(context: &Context, request: &ResourceRequest) -> Result<(), ApiError> {
    let resource = &request.served.resource;
    let reject = |why: String| Err(ApiError::forbidden(&resource.group_resource(), &request.name, why));
    if !request.subresource.is_empty() {
        return reject(format!(
            "{OPTION} delete option is not allowed on a subresource or non-resource request"
        ));
    }
    let target = ResourceTarget {
        group: &resource.group,
        version: &request.version().group_version.version,
        resource: &resource.plural,
        subresource: "",
        namespace: &request.namespace,
        name: &request.name,
        field_selector: &[],
        label_selector: "",
    };
    let attributes = Attributes {
        verb: VERB,
        target: AccessTarget::Resource(target),
    };
    let decision = context.shared.authorizer.authorize(&request.user, &attributes);
    match decision.allows() {
        true => Ok(()),
        false => reject(format!("not permitted to do {VERB:?}, reason: {}", decision.reason())),
    }
}

/// Returns the `Status` that reports a deleted object that was never read.
fn gone(request: &ResourceRequest) -> Vec<u8> {
    let details = Details {
        name: request.name.to_string(),
        kind: request.served.resource.kind.clone(),
        ..Details::default()
    };
    status::success(&details, Some(StatusCode::OK))
}
