//! GET of a collection: the objects of one namespace or of all, at one revision.

use std::sync::Arc;

use crate::api::authorized;
use crate::api::context::Context;
use crate::http::ApiError;
use crate::http::options::ListOptions;
use crate::http::request::ResourceRequest;
use crate::http::response::Response;
use crate::read::list::{page, selection};
use crate::read::list_answer;
use crate::representation::RequestedVersion;

/// Answers a GET of a collection.
///
/// # Errors
/// 400 for invalid selectors and versions, 410 for compacted versions, 504 for future versions.
pub(super) async fn list(context: &Arc<Context>, mut request: ResourceRequest) -> Result<Response, ApiError> {
    let readable = authorized::readable(context, &mut request).await?;
    let options = ListOptions::parse(&request.query, context.config.lists)?;
    let mut selection = selection(&request, &options)?;
    selection.authorized = readable.map(|readable| readable.objects);
    let page = page(&context.read, &request, &options, &selection).await?;
    let requested = RequestedVersion::of_request(&request);
    list_answer::answer(
        &context.representation,
        &requested,
        &request.query,
        &request.representation,
        page,
    )
    .await
}
