//! POST requests that change stored objects rather than creating one: bindings, evictions.

use std::sync::Arc;

use holdfast_resource::SubresourceAction;
use http::StatusCode;

use super::{audit, filled_in, kind_type, read_body};
use crate::api::context::Context;
use crate::http::ApiError;
use crate::http::options::CreateOptions;
use crate::http::request::ResourceRequest;
use crate::http::response::{self, Response};
use crate::http::status;
use crate::write::{self, decode};

/// Answers a POST to a resource, or a subresource, that its kind declares as an action.
///
/// # Errors
/// If the request is rejected; the error is the answer to the client.
pub(super) async fn handle(
    context: &Arc<Context>,
    mut request: ResourceRequest,
    action: Arc<dyn SubresourceAction>,
) -> Result<Response, ApiError> {
    let format = request.body_format()?;
    let body = read_body(&mut request).await?;
    let options = CreateOptions::parse(&request.query)?;
    let kind_type = kind_type(context, &request)?;
    let types = context.write.body_types();
    let validation = options.write.field_validation;
    let decoded = decode::object_of(
        &body,
        format,
        types,
        kind_type.as_ref(),
        validation,
        action.other_versions(),
    )?;
    audit::sent(context, &request, kind_type.as_ref(), &decoded.object);
    let target = write::target(&request, options.write);
    let object = filled_in(kind_type.as_ref(), decoded.object)?;
    let performed = write::perform(&context.write, target, action.as_ref(), object).await;
    let warnings = performed.map_err(|error| error.with_warnings(decoded.warnings.clone()))?;
    let representation = &request.representation;
    let mut answer = response::encoded(
        context.messages(),
        StatusCode::CREATED,
        representation,
        status::CREATED.to_vec(),
    )?;
    let warnings = [decoded.warnings, warnings].concat();
    response::add_warnings(answer.headers_mut(), &warnings);
    Ok(answer)
}
