//! PUT of one object or of a subresource.

use std::sync::Arc;

use holdfast_writes::{Change, Error, check_place, metadata};

use super::{Sent, filled_in, read_replacement, written};
use crate::api::context::Context;
use crate::http::ApiError;
use crate::http::request::ResourceRequest;
use crate::http::response::Response;
use crate::write;

/// Answers a PUT.
///
/// # Errors
/// If the request is rejected; the error is the answer to the client.
pub(super) async fn update(context: &Arc<Context>, mut request: ResourceRequest) -> Result<Response, ApiError> {
    let Sent {
        options,
        kind_type,
        mut decoded,
    } = read_replacement(context, &mut request).await?;
    let mut object = filled_in(kind_type.as_ref(), decoded.object)?;
    let repeated = metadata::drop_repeated_owners(&mut object, false);
    decoded.warnings.extend(repeated);
    let warnings = decoded.warnings.clone();
    // A rejection also warns of the dropped fields.
    let warned = |error: ApiError| error.with_warnings(warnings.clone());
    let rejected = |error: Error| warned(error.into());
    check_place(&mut object, &request.name, &request.namespace).map_err(rejected)?;
    let change = Change::Replace {
        object,
        warnings: decoded.warnings,
    };
    let mut target = write::target(&request, options.write);
    target.body.empties = decoded.empties;
    target.body.raw_form = decoded.raw_form;
    let result = write::update(&context.write, target, change).await.map_err(warned)?;
    written(context, &request, &result).await
}
