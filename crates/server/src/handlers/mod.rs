//! What the verbs of the API do, one file a verb.

use std::sync::Arc;

use crate::ApiError;
use crate::request::ResourceRequest;
use crate::response::Response;
use crate::state::Context;

/// Does what `request` asks for.
///
/// # Errors
/// What the client is to be told of a failure.
pub(crate) async fn handle(context: &Arc<Context>, request: ResourceRequest) -> Result<Response, ApiError> {
    let _ = context;
    Err(ApiError::method_not_supported(
        &request.served.resource.group_resource(),
        request.verb.name(),
    ))
}
