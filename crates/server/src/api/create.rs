//! POST to a collection.

use std::sync::Arc;

use super::{read_object, written};
use crate::api::context::Context;
use crate::http::ApiError;
use crate::http::options::CreateOptions;
use crate::http::request::ResourceRequest;
use crate::http::response::Response;
use crate::write::{self, Target};

/// Answers a POST.
///
/// # Errors
/// What the client is to be told of a refusal.
pub(super) async fn create(context: &Arc<Context>, mut request: ResourceRequest) -> Result<Response, ApiError> {
    let options = CreateOptions::parse(&request.query)?;
    let (kind_type, mut decoded) = read_object(context, &mut request, &options.write).await?;
    let target = Target::of_request(&request, options.write);
    let capabilities = &request.served.resource.capabilities;
    let object = if capabilities.keeps_reset_fields_at_creation {
        decoded.object
    } else {
        kind_type.without(decoded.object, &target.reset_fields)?
    };
    let mut object = kind_type.with_defaults(object)?;
    let repeated = write::metadata::drop_repeated_owners(&mut object, false);
    decoded.warnings.extend(repeated);
    let mut result = match write::create(context, target, object).await {
        Ok(result) => result,
        // What was left out of the object is told even where the rest is refused.
        Err(error) => return Err(error.with_warnings(decoded.warnings)),
    };
    result.warnings.splice(0..0, decoded.warnings);
    written(context, &request, &result).await
}
