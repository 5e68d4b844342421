//! POST to a collection.

use std::sync::Arc;

use holdfast_resource::KindType;
use holdfast_value::{SmolStr, Value};
use holdfast_writes::metadata;

use super::{filled_in, read_object, written};
use crate::api::context::Context;
use crate::http::ApiError;
use crate::http::options::CreateOptions;
use crate::http::request::ResourceRequest;
use crate::http::response::Response;
use crate::write;

/// Answers a POST.
///
/// # Errors
/// The refusal, as the client gets it.
pub(super) async fn create(context: &Arc<Context>, mut request: ResourceRequest) -> Result<Response, ApiError> {
    let options = CreateOptions::parse(&request.query)?;
    let (kind_type, mut decoded) = read_object(context, &mut request, &options.write).await?;
    let mut target = write::target(&request, options.write);
    target.body.empties = decoded.empties;
    target.body.raw_as_sent = decoded.raw_as_sent;
    let capabilities = &request.served.resource.capabilities;
    let object = if capabilities.keeps_reset_fields_at_creation {
        decoded.object
    } else {
        without(kind_type.as_ref(), decoded.object, &target.body.reset_fields)?
    };
    let mut object = filled_in(kind_type.as_ref(), object)?;
    let repeated = metadata::drop_repeated_owners(&mut object, false);
    decoded.warnings.extend(repeated);
    let mut result = match write::create(&context.write, target, object).await {
        Ok(result) => result,
        // A refusal warns of the fields that were dropped as well.
        Err(error) => return Err(error.with_warnings(decoded.warnings)),
    };
    result.warnings.splice(0..0, decoded.warnings);
    written(context, &request, &result).await
}

/// Takes out of a typed object what stands at `paths`; what is written even when unset stays.
fn without(kind_type: &dyn KindType, mut object: Value, paths: &[Vec<SmolStr>]) -> Result<Value, ApiError> {
    if paths.is_empty() {
        return Ok(object);
    }
    metadata::reset_fields(&mut object, None, paths);
    let typed = kind_type.decode(&object).map_err(ApiError::internal)?;
    Ok(typed.object)
}
