//! GET of one object.

use std::sync::Arc;

use http::StatusCode;

use crate::api::context::Context;
use crate::http::ApiError;
use crate::http::options::GetOptions;
use crate::http::request::ResourceRequest;
use crate::http::response::Response;
use crate::objects::{self, Entry, Snapshot};
use crate::read::list::{fresh, revision};
use crate::representation::{self, RequestedVersion};

/// Answers a GET of one object.
///
/// # Errors
/// 404 if it does not exist, 504 if the requested revision is not reached in time.
pub(super) async fn get(context: &Arc<Context>, request: ResourceRequest) -> Result<Response, ApiError> {
    let snapshot = snapshot(context, &request).await?;
    let entry = entry(&snapshot, &request)?;
    let (query, representation) = (&request.query, &request.representation);
    let requested = RequestedVersion::of_request(&request);
    representation::entry(
        &context.representation,
        &requested,
        query,
        representation,
        StatusCode::OK,
        entry,
        None,
    )
    .await
}

/// Returns the state from which a GET of one object is answered.
///
/// # Errors
/// 400 if the options cannot be parsed, 504 if the requested revision is not reached in time, 500 if no server reports
/// the most recent revision.
pub(super) async fn snapshot(context: &Context, request: &ResourceRequest) -> Result<Snapshot, ApiError> {
    let options = GetOptions::parse(&request.query)?;
    let prefix = objects::key_prefix(&request.served.resource);
    let store = context.shared.store.for_key(prefix.as_bytes());
    fresh(store, revision(&options.resource_version)?).await
}

/// Returns the object that the request names.
///
/// # Errors
/// 400 if the name is impossible, 404 if the object does not exist, 500 if it cannot be read.
pub(super) fn entry<'a>(snapshot: &'a Snapshot, request: &ResourceRequest) -> Result<&'a Arc<Entry>, ApiError> {
    let resource = &request.served.resource;
    objects::check_key(resource, &request.namespace, &request.name)?;
    let entry =
        stored(snapshot, request).ok_or_else(|| ApiError::not_found(&resource.group_resource(), &request.name))?;
    objects::check_readable(entry)?;
    Ok(entry)
}

/// Returns the stored entry of the object that the request names, even if it cannot be read.
pub(super) fn stored<'a>(snapshot: &'a Snapshot, request: &ResourceRequest) -> Option<&'a Arc<Entry>> {
    let storage = request.served.resource.storage.as_ref()?;
    snapshot.get(storage.key(&request.namespace, &request.name).as_bytes())
}
