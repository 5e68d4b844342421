//! Resources that are answered immediately and never stored, such as reviews.

use std::sync::Arc;

use holdfast_resource::{Review, Verb};
use http::StatusCode;

use super::{Sent, filled_in, read_new, unsupported};
use crate::api::context::Context;
use crate::http::ApiError;
use crate::http::request::ResourceRequest;
use crate::http::response::{self, Response};
use crate::representation::{self, RequestedVersion, Tree};
use crate::write;

/// Answers a POST to a resource, or a subresource, with the result of `review`.
///
/// # Errors
/// If the request is rejected; the error is the answer to the client.
pub(super) async fn create(
    context: &Arc<Context>,
    mut request: ResourceRequest,
    review: Arc<dyn Review>,
) -> Result<Response, ApiError> {
    if request.verb != Verb::Create {
        return Err(unsupported(&request));
    }
    let Sent {
        options,
        kind_type,
        decoded,
    } = read_new(context, &mut request).await?;
    let target = write::target(&request, options.write);
    let object = filled_in(kind_type.as_ref(), decoded.object)?;
    let answered = write::answer(&context.write, &target, review.as_ref(), object).await;
    let (object, warnings) = answered.map_err(|error| error.with_warnings(decoded.warnings.clone()))?;
    let (requested, representation) = (RequestedVersion::of_subresource(&request), &request.representation);
    let code = StatusCode::CREATED;
    let warnings = [decoded.warnings, warnings].concat();
    let outcome = representation::object(
        &context.representation,
        &requested,
        &request.query,
        representation,
        code,
        Tree::Stored(&object),
    );
    let mut answer = outcome.map_err(|error| error.with_warnings(warnings.clone()))?;
    response::add_warnings(answer.headers_mut(), &warnings);
    Ok(answer)
}
