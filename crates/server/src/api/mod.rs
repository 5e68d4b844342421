//! The verbs of the API, one file for each verb.

mod action;
pub(crate) mod audit;
mod authorized;
mod computed;
mod connect;
pub mod context;
mod create;
mod delete;
mod get;
mod list;
mod patch;
mod review;
pub mod router;
mod scale;
mod unsafe_delete;
mod update;
mod watch;

use std::future::ready;
use std::sync::Arc;

use bytes::Bytes;
use futures_util::future::BoxFuture;
use holdfast_resource::{RawForm, Resource, Responder, Verb};
use holdfast_schema::KindType;
use holdfast_value::Value;
use holdfast_writes::{FieldValidation, WriteOptions};

use crate::api::context::Context;
use crate::http::ApiError;
use crate::http::negotiation::Format;
use crate::http::options::{CreateOptions, UpdateOptions};
use crate::http::request::ResourceRequest;
use crate::http::response::{self, Response};
use crate::representation::{self, RequestedVersion};
use crate::runtime::{boxed, long_work};
use crate::wire::body::RequestBody;
use crate::write::WriteResult;
use crate::write::decode::{self, Decoded};

/// Executes `request`.
///
/// # Errors
/// If the request fails; the error is the answer to the client.
pub(crate) async fn handle(context: &Arc<Context>, request: ResourceRequest) -> Result<Response, ApiError> {
    let version = &request.version().group_version.version;
    let Some(deprecation) = &request.version().deprecation else {
        return dispatch(context, request).await;
    };
    let resource = &request.served.resource;
    audit::deprecated(&request);
    let deprecation = deprecation.to_string();
    let metrics = &context.shared.metrics;
    let removed = &request.version().removed_release;
    metrics.deprecated([
        &resource.group,
        removed,
        &resource.plural,
        &request.subresource,
        version,
    ]);
    // Rejections carry warnings too, so they are converted to answers here.
    let errors = request.negotiated.errors();
    let outcome = dispatch(context, request).await;
    let mut answer = outcome.unwrap_or_else(|error| response::error(context.messages(), &error, &errors));
    response::put_warning_first(answer.headers_mut(), deprecation);
    Ok(answer)
}

/// Returns the future of the request's verb. Each verb is boxed separately: one future for all would have the size of
/// the largest, and every read would move it.
fn dispatch(context: &Arc<Context>, mut request: ResourceRequest) -> BoxFuture<'_, Result<Response, ApiError>> {
    if let Some(denied) = request.denied.take() {
        if !authorized::can_restrict(&request) {
            return Box::pin(ready(Err(denied)));
        }
        request.denied = Some(denied);
    }
    match request.served.resource.capabilities.responder(&request.subresource) {
        Some(Responder::Review(review)) => {
            let review = Arc::clone(review);
            return boxed(|| review::create(context, request, review));
        }
        Some(Responder::Computed(objects)) => {
            let objects = Arc::clone(objects);
            return boxed(|| async move { computed::read(context, &request, objects.as_ref()) });
        }
        Some(Responder::Action(action)) if request.verb == Verb::Create => {
            let action = Arc::clone(action);
            return boxed(|| action::handle(context, request, action));
        }
        Some(Responder::Connect(connecter)) => {
            let connecter = Arc::clone(connecter);
            return boxed(|| async move { connect::connect(context, request, connecter.as_ref()).await });
        }
        Some(Responder::Action(_)) | None => {}
    }
    if request.served.resource.storage.is_none() {
        return Box::pin(ready(Err(unsupported(&request))));
    }
    let of_object = request.subresource.is_empty();
    let of_parent = request
        .subresource()
        .is_some_and(|subresource| subresource.kind.kind == request.served.resource.kind);
    let of_scale = request
        .subresource()
        .is_some_and(|subresource| subresource.scale.is_some());
    match request.verb {
        Verb::Get if of_scale => boxed(|| scale::get(context, request)),
        Verb::Update if of_scale => boxed(|| scale::update(context, request)),
        Verb::Patch if of_scale => boxed(|| scale::patch(context, request)),
        Verb::Get if of_object || of_parent => boxed(|| get::get(context, request)),
        Verb::Update if of_object || of_parent => boxed(|| update::update(context, request)),
        Verb::Patch if of_object || of_parent => boxed(|| patch::patch(context, request)),
        Verb::Create if of_object => boxed(|| create::create(context, request)),
        Verb::Delete if of_object => boxed(|| delete::delete(context, request)),
        Verb::DeleteCollection if of_object => boxed(|| delete::delete_collection(context, request)),
        Verb::List if of_object => boxed(|| list::list(context, request)),
        Verb::Watch if of_object => boxed(|| watch::watch(context, request)),
        _ => Box::pin(ready(Err(unsupported(&request)))),
    }
}

fn unsupported(request: &ResourceRequest) -> ApiError {
    ApiError::method_not_supported(&request.served.resource.group_resource(), request.verb.name())
}

/// Moves the body out of a request and reads it.
fn read_body(request: &mut ResourceRequest) -> BoxFuture<'static, Result<Bytes, ApiError>> {
    let body = std::mem::replace(&mut request.body, RequestBody::from_bytes(Bytes::new()));
    Box::pin(async {
        let bytes = body.read().await?;
        long_work::begins(bytes.len()).await;
        Ok(bytes)
    })
}

/// The content of a POST or a PUT: its options, and the object with the type of the kind that the endpoint accepts.
struct Sent<O> {
    options: O,
    kind_type: Arc<dyn KindType>,
    decoded: Decoded,
}

/// Moves the body out of a POST and reads it. Like the reference, it checks the format before the options.
async fn read_new(context: &Context, request: &mut ResourceRequest) -> Result<Sent<CreateOptions>, ApiError> {
    let format = request.body_format()?;
    let body = read_body(request).await?;
    let options = CreateOptions::parse(&request.query)?;
    let (kind_type, decoded) = read_object(context, request, &body, format, &options.write)?;
    Ok(Sent {
        options,
        kind_type,
        decoded,
    })
}

/// Moves the body out of a PUT and reads it. Like the reference, it checks the format after the options.
async fn read_replacement(context: &Context, request: &mut ResourceRequest) -> Result<Sent<UpdateOptions>, ApiError> {
    let body = read_body(request).await?;
    let options = UpdateOptions::parse(&request.query)?;
    let format = request.body_format()?;
    let (kind_type, decoded) = read_object(context, request, &body, format, &options.write)?;
    Ok(Sent {
        options,
        kind_type,
        decoded,
    })
}

/// Decodes the object in a body.
fn read_object(
    context: &Context,
    request: &ResourceRequest,
    body: &Bytes,
    format: Format,
    options: &WriteOptions,
) -> Result<(Arc<dyn KindType>, Decoded), ApiError> {
    let kind_type = kind_type(context, request)?;
    let resource = &request.served.resource;
    let decoded = decode_object(
        context,
        resource,
        kind_type.as_ref(),
        body,
        format,
        options.field_validation,
    )?;
    audit::sent(context, request, kind_type.as_ref(), &decoded.object);
    Ok((kind_type, decoded))
}

/// Decodes an object of `resource` whose type is `kind_type`.
///
/// # Errors
/// 400 if it cannot be decoded or fails strict validation.
pub(crate) fn decode_object(
    context: &Context,
    resource: &Resource,
    kind_type: &dyn KindType,
    body: &Bytes,
    format: Format,
    validation: FieldValidation,
) -> Result<Decoded, ApiError> {
    let mut decoded = decode::object(body, format, context.write.body_types(), kind_type, validation)?;
    if let Some(raw) = resource.capabilities.raw {
        decoded.raw_form = match format {
            Format::Json => {
                raw.keep_texts(&mut decoded.object, body);
                Some(raw.form_in(body))
            }
            Format::Protobuf => Some(raw.form_of(&decoded.object)),
            // The reference converts YAML to JSON through a parsed object.
            Format::Yaml => Some(RawForm::Marshalled),
            _ => None,
        };
    }
    Ok(decoded)
}

/// Returns the type of the objects that the endpoint accepts.
fn kind_type(context: &Context, request: &ResourceRequest) -> Result<Arc<dyn KindType>, ApiError> {
    let Some(subresource) = request.subresource() else {
        return Ok(Arc::clone(&request.version().kind_type));
    };
    let (api_version, kind) = (subresource.kind.group_version.api_version(), &subresource.kind.kind);
    let types = context.write.field_managers.types();
    let resource = &request.served.resource;
    resource
        .body_type(types, &api_version, kind)
        .ok_or_else(|| ApiError::internal(format!("{kind} in {api_version} has no type")))
}

/// Returns the object with its defaults.
///
/// # Errors
/// 413 if it has become too large.
pub(crate) fn filled_in(kind_type: &dyn KindType, object: Value) -> Result<Value, ApiError> {
    kind_type.fill_in(object).map_err(ApiError::too_large_because)
}

/// Returns the answer to a write, which contains the current object.
async fn written(context: &Context, request: &ResourceRequest, written: &WriteResult) -> Result<Response, ApiError> {
    use crate::write::WrittenObject;
    let requested = RequestedVersion::of_request(request);
    let code = if written.created {
        http::StatusCode::CREATED
    } else {
        http::StatusCode::OK
    };
    let (query, representation) = (&request.query, &request.representation);
    let mut answer = match &written.object {
        WrittenObject::Stored(entry, tree) => {
            let context = &context.representation;
            representation::entry(context, &requested, query, representation, code, entry, tree.as_ref()).await?
        }
        WrittenObject::Tree(tree) => {
            representation::tree(
                &context.representation,
                &requested,
                query,
                representation,
                code,
                tree.clone(),
            )
            .await?
        }
    };
    response::add_warnings(answer.headers_mut(), &written.warnings);
    Ok(answer)
}
