//! PATCH of one object or of a subresource, including Server-Side Apply.

use std::sync::Arc;

use super::{audit, read_body, written};
use crate::api::context::Context;
use crate::http::ApiError;
use crate::http::negotiation::PatchType;
use crate::http::options::PatchOptions;
use crate::http::request::ResourceRequest;
use crate::http::response::Response;
use crate::write;

/// Answers a PATCH.
///
/// # Errors
/// If the request is rejected; the error is the answer to the client.
pub(super) async fn patch(context: &Arc<Context>, mut request: ResourceRequest) -> Result<Response, ApiError> {
    let patch_type = request.negotiated.patch_type()?;
    let body = read_body(&mut request).await?;
    let options = PatchOptions::parse(&request.query, patch_type)?;
    audit::patched(&request, &body);
    let mut target = write::target(&request, options.write.clone());
    target.request.patches = true;
    let sent = match patch_type {
        PatchType::Apply => {
            let fingerprints = &context.write.fingerprints;
            fingerprints.describe(&context.shared.store, &target, &options, &body)
        }
        _ => None,
    };
    if let Some(result) = sent.and_then(|sent| write::noop_answer(&context.write, &target, sent)) {
        return written(context, &request, &result).await;
    }
    let change = write::read_patch(&body, patch_type, &options)?;
    let result = write::apply(&context.write, target, change, sent).await?;
    written(context, &request, &result).await
}
