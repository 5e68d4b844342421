//! Objects that are computed when they are read, and never stored.

use holdfast_resource::{ComputedObjects, Operation, Verb};
use holdfast_writes::WriteOptions;
use http::StatusCode;

use super::unsupported;
use crate::api::context::Context;
use crate::http::ApiError;
use crate::http::options::{GetOptions, ListOptions};
use crate::http::request::ResourceRequest;
use crate::http::response::Response;
use crate::read::list;
use crate::read::list_answer;
use crate::representation::{self, RequestedVersion, Tree};
use crate::write;

/// Answers a request that reads an object that `kind` computes.
///
/// # Errors
/// If the request is rejected; the error is the answer to the client.
pub(super) fn read(
    context: &Context,
    request: &ResourceRequest,
    kind: &dyn ComputedObjects,
) -> Result<Response, ApiError> {
    let target = write::target(request, WriteOptions::default());
    let (requested, query, representation) = (
        RequestedVersion::of_subresource(request),
        &request.query,
        &request.representation,
    );
    match request.verb {
        Verb::Get => {
            GetOptions::parse(query)?;
            let object = write::compute(&context.write, &target, Operation::Update, |stage, call| {
                let object = kind.get(call, &request.name);
                object.map_err(|rejection| stage.rejection_of_answer(rejection, None).into())
            })?;
            representation::object(
                &context.representation,
                &requested,
                query,
                representation,
                StatusCode::OK,
                Tree::Stored(&object),
            )
        }
        Verb::List => {
            let options = ListOptions::parse(query, context.config.lists)?;
            let selection = list::selection(request, &options)?;
            let mut objects = write::compute(&context.write, &target, Operation::Update, |stage, call| {
                let objects = kind.list(call);
                objects.map_err(|rejection| stage.rejection_of_answer(rejection, None).into())
            })?;
            objects.retain(|object| selection.selects_tree(&request.served.resource, object));
            list_answer::of_trees(
                &context.representation,
                &requested,
                query,
                representation,
                "{}",
                &objects,
            )
        }
        _ => Err(unsupported(request)),
    }
}
