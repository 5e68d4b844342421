//! PUT of one object or of a part of it.

use std::sync::Arc;

use super::{read_object, written};
use crate::ApiError;
use crate::options::UpdateOptions;
use crate::request::ResourceRequest;
use crate::response::Response;
use crate::state::Context;
use crate::write::{self, Change, Target};

/// Answers a PUT.
///
/// # Errors
/// What the client is to be told of a refusal.
pub(super) async fn update(context: &Arc<Context>, mut request: ResourceRequest) -> Result<Response, ApiError> {
    let options = UpdateOptions::parse(&request.query)?;
    let (kind_type, decoded) = read_object(context, &mut request, &options.write).await?;
    let mut object = kind_type.with_defaults(decoded.object);
    write::check_place(&mut object, &request.name, &request.namespace)?;
    let change = Change::Replace {
        object,
        warnings: decoded.warnings,
    };
    let target = Target::of_request(&request, &options.write);
    let result = write::update(context, target, change).await?;
    written(context, &request, &result).await
}
