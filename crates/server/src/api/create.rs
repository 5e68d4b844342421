//! POST to a collection.

use std::sync::Arc;

use holdfast_writes::metadata;

use super::{Sent, filled_in, read_new, written};
use crate::api::context::Context;
use crate::http::ApiError;
use crate::http::request::ResourceRequest;
use crate::http::response::Response;
use crate::write;

/// Answers a POST.
///
/// # Errors
/// If the request is rejected; the error is the answer to the client.
pub(super) async fn create(context: &Arc<Context>, mut request: ResourceRequest) -> Result<Response, ApiError> {
    let Sent {
        options,
        kind_type,
        mut decoded,
    } = read_new(context, &mut request).await?;
    let mut target = write::target(&request, options.write);
    target.body.empties = decoded.empties;
    target.body.raw_form = decoded.raw_form;
    let capabilities = &request.served.resource.capabilities;
    let reset = &target.body.reset_fields;
    if !capabilities.keeps_reset_fields_at_creation && !reset.is_empty() {
        // Fields that are written even when unset stay.
        metadata::reset_fields(&mut decoded.object, Some(&kind_type.empty()), reset);
    }
    let mut object = filled_in(kind_type.as_ref(), decoded.object)?;
    let repeated = metadata::drop_repeated_owners(&mut object, false);
    decoded.warnings.extend(repeated);
    let mut result = match write::create(&context.write, target, object).await {
        Ok(result) => result,
        // A rejection also warns of the dropped fields.
        Err(error) => return Err(error.with_warnings(decoded.warnings)),
    };
    result.warnings.splice(0..0, decoded.warnings);
    let answer = written(context, &request, &result).await;
    // The object is created even if it cannot be encoded as the client requests.
    answer.map_err(|error| error.with_warnings(result.warnings))
}
