//! GET, PUT and PATCH of the Scale of an object.

use std::sync::Arc;

use holdfast_schema::{ScaleFields, nested_integer, nested_path};
use holdfast_value::Value;
use holdfast_writes::{Change, check_place, scale};
use http::StatusCode;

use super::{Sent, audit, get, read_body, read_replacement};
use crate::api::context::Context;
use crate::http::ApiError;
use crate::http::options::PatchOptions;
use crate::http::request::ResourceRequest;
use crate::http::response::{self, Response};
use crate::objects;
use crate::representation::{self, RequestedVersion, Tree};
use crate::write::{self, WriteResult};

/// Answers a GET.
///
/// # Errors
/// 404 if the object does not exist.
pub(super) async fn get(context: &Arc<Context>, request: ResourceRequest) -> Result<Response, ApiError> {
    let snapshot = get::snapshot(context, &request).await?;
    let entry = get::entry(&snapshot, &request)?;
    let stored = objects::tree(entry);
    if request.served.resource.conventions.untyped_scale {
        let parent = RequestedVersion::of_request(&request)
            .convert(&context.representation, stored.clone())
            .await?;
        let path = &fields(&request)?.spec_replicas;
        if nested_integer(&parent, path).map_err(ApiError::unclassified)?.is_none() {
            let path = nested_path(path);
            return Err(ApiError::internal(format!(
                "the spec replicas field {path:?} does not exist"
            )));
        }
    }
    answer(context, &request, stored).await
}

/// Answers a PUT.
///
/// # Errors
/// If the request is rejected; the error is the answer to the client.
pub(super) async fn update(context: &Arc<Context>, mut request: ResourceRequest) -> Result<Response, ApiError> {
    let Sent { options, decoded, .. } = read_replacement(context, &mut request).await?;
    let mut object = decoded.object;
    let warnings = decoded.warnings.clone();
    // A rejection also warns of the dropped fields.
    let warned = |error: ApiError| error.with_warnings(warnings.clone());
    let placed = check_place(&mut object, &request.name, &request.namespace);
    placed.map_err(|error| warned(error.into()))?;
    let change = Change::Replace {
        object,
        warnings: decoded.warnings,
    };
    let target = write::target(&request, options.write);
    let result = write::update(&context.write, target, change).await.map_err(warned)?;
    written(context, &request, &result).await
}

/// Answers a PATCH.
///
/// # Errors
/// If the request is rejected; the error is the answer to the client.
pub(super) async fn patch(context: &Arc<Context>, mut request: ResourceRequest) -> Result<Response, ApiError> {
    let patch_type = request.negotiated.patch_type()?;
    let body = read_body(&mut request).await?;
    let options = PatchOptions::parse(&request.query, patch_type)?;
    audit::patched(&request, &body);
    let change = write::read_patch(&body, patch_type, &options)?;
    let target = write::target(&request, options.write);
    written(context, &request, &write::update(&context.write, target, change).await?).await
}

async fn written(context: &Context, request: &ResourceRequest, written: &WriteResult) -> Result<Response, ApiError> {
    let mut response = answer(context, request, written.object.tree()).await?;
    response::add_warnings(response.headers_mut(), &written.warnings);
    Ok(response)
}

async fn answer(context: &Context, request: &ResourceRequest, stored: Value) -> Result<Response, ApiError> {
    let parent = RequestedVersion::of_request(request)
        .convert(&context.representation, stored)
        .await?;
    let scale = scale::from_parent(&parent, fields(request)?);
    let (query, representation) = (&request.query, &request.representation);
    let requested = RequestedVersion::of_subresource(request);
    representation::object(
        &context.representation,
        &requested,
        query,
        representation,
        StatusCode::OK,
        Tree::Stored(&scale),
    )
}

fn fields(request: &ResourceRequest) -> Result<&ScaleFields, ApiError> {
    let fields = request.subresource().and_then(|subresource| subresource.scale.as_ref());
    fields.ok_or_else(ApiError::unknown_resource)
}
