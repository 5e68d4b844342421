//! What is answered at once and never stored: reviews and the like.

use std::sync::Arc;

use holdfast_resource::{Operation, Verb, Virtual};
use http::StatusCode;

use super::{read_object, unsupported};
use crate::api::context::Context;
use crate::http::ApiError;
use crate::http::options::{CreateOptions, GetOptions, ListOptions, WriteOptions};
use crate::http::request::ResourceRequest;
use crate::http::response::{self, Response};
use crate::read::list;
use crate::representation::{self, Shown, Tree};
use crate::write::{self, Target};

/// Answers a request for a resource, or a subresource, that its kind calls virtual.
///
/// # Errors
/// What the client is to be told of a refusal.
pub(super) async fn handle(context: &Arc<Context>, mut request: ResourceRequest) -> Result<Response, ApiError> {
    if request.verb == Verb::Create {
        return create(context, &mut request).await;
    }
    let resource = Arc::clone(&request.served.resource);
    let Some(kind) = resource.strategy.virtual_resource(&request.subresource) else {
        return Err(unsupported(&request));
    };
    read(context, &request, kind)
}

async fn create(context: &Arc<Context>, request: &mut ResourceRequest) -> Result<Response, ApiError> {
    let options = CreateOptions::parse(&request.query)?;
    let (kind_type, decoded) = read_object(context, request, &options.write).await?;
    let target = Target::of_request(request, options.write);
    let resource = Arc::clone(&request.served.resource);
    let Some(kind) = resource.strategy.virtual_resource(&request.subresource) else {
        return Err(unsupported(request));
    };
    let object = kind_type.with_defaults(decoded.object)?;
    let answered = write::answer(context, &target, kind, object).await;
    let (object, warnings) = answered.map_err(|error| error.with_warnings(decoded.warnings.clone()))?;
    let (shown, representation) = (Shown::of_subresource(request), &request.representation);
    let code = StatusCode::CREATED;
    let mut answer = representation::object(
        context,
        &shown,
        &request.query,
        representation,
        code,
        Tree::Stored(&object),
    )?;
    let warnings = [decoded.warnings, warnings].concat();
    response::add_warnings(answer.headers_mut(), &warnings);
    Ok(answer)
}

fn read(context: &Context, request: &ResourceRequest, kind: &dyn Virtual) -> Result<Response, ApiError> {
    let target = Target::of_request(request, WriteOptions::default());
    let (shown, query, representation) = (Shown::of_subresource(request), &request.query, &request.representation);
    match request.verb {
        Verb::Get => {
            GetOptions::parse(query)?;
            let object = write::ask(context, &target, Operation::Update, |pipeline, call| {
                let object = kind.get(call, &request.name);
                object.map_err(|refusal| pipeline.refusal_of_answer(refusal, kind))
            })?;
            representation::object(
                context,
                &shown,
                query,
                representation,
                StatusCode::OK,
                Tree::Stored(&object),
            )
        }
        Verb::List => {
            let options = ListOptions::parse(query)?;
            let selection = list::selection(request, &options)?;
            let mut objects = write::ask(context, &target, Operation::Update, |pipeline, call| {
                let objects = kind.list(call);
                objects.map_err(|refusal| pipeline.refusal_of_answer(refusal, kind))
            })?;
            objects.retain(|object| selection.selects_tree(&request.served.resource, object));
            representation::list_of_trees(context, &shown, query, representation, "{}", &objects)
        }
        _ => Err(unsupported(request)),
    }
}
