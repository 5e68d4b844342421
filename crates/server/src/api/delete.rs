//! DELETE of one object and of a collection.

use std::sync::Arc;

use futures_util::{StreamExt as _, stream};
use holdfast_writes::{DeleteOptions, Target, WriteOptions, metadata};
use http::StatusCode;

use super::{audit, read_body, unsafe_delete, written};
use crate::api::context::Context;
use crate::http::ApiError;
use crate::http::options::{self, ListOptions};
use crate::http::request::ResourceRequest;
use crate::http::response::{self, Response};
use crate::http::status::{self, Details};
use crate::objects::{self, Entry};
use crate::read::list;
use crate::read::list_answer;
use crate::representation::RequestedVersion;
use crate::representation::conversion;
use crate::write::{self, WriteResult, WrittenObject, decode};

/// Answers a DELETE of one object.
///
/// # Errors
/// If the request is rejected; the error is the answer to the client.
pub(super) async fn delete(context: &Arc<Context>, mut request: ResourceRequest) -> Result<Response, ApiError> {
    let options = read_options(context, &mut request).await?;
    unsafe_delete::check(&options, false)?;
    if options.ignores_read_error {
        return unsafe_delete::delete(context, &request).await;
    }
    let own_warnings = warnings(&request, &options);
    let outcome = write::delete(&context.write, target(&request, &options), options.clone()).await;
    // Rejections carry warnings too.
    let result = outcome.map_err(|error| error.with_warnings(own_warnings.clone()))?;
    let mut answer = if result.removed && !request.served.resource.rules.delete_returns_object {
        let status = success(&request, &result);
        let mut answer = response::encoded(context.messages(), StatusCode::OK, &request.representation, status)?;
        response::add_warnings(answer.headers_mut(), &result.warnings);
        answer
    } else {
        written(context, &request, &result).await?
    };
    // The older option for deleting dependents first reports by the status code that the object still exists.
    if !result.removed && options.orphan_dependents == Some(false) {
        *answer.status_mut() = StatusCode::ACCEPTED;
    }
    response::add_warnings(answer.headers_mut(), &own_warnings);
    Ok(answer)
}

/// Answers a DELETE of a collection: each selected object is deleted separately.
///
/// # Errors
/// If a deletion is rejected: the error of the first one. Objects that were deleted before stay deleted.
pub(super) async fn delete_collection(
    context: &Arc<Context>,
    mut request: ResourceRequest,
) -> Result<Response, ApiError> {
    let list_options = ListOptions::parse(&request.query, context.config.lists)?;
    let selection = list::selection(&request, &list_options)?;
    let options = read_options(context, &mut request).await?;
    unsafe_delete::check(&options, true)?;
    let mut page = list::page(&context.read, &request, &list_options, &selection).await?;
    let entries = page.entries().await?;
    check_can_be_shown(context, &request, &entries).await?;
    // Watches receive the deletions in the order of the list. A shared store preserves this order only for sequential
    // deletions.
    let together = match context.shared.store.is_shared() {
        true => context.config.deletion_workers,
        false => DELETED_TOGETHER,
    };
    let mut deletions = stream::iter(entries)
        .map(|entry| {
            let mut target = target(&request, &options);
            target.name = objects::name_of_key(entry.key()).into();
            target.request.of_collection = true;
            write::delete(&context.write, target, options.clone())
        })
        .buffered(together);
    let mut warnings = Vec::new();
    while let Some(outcome) = deletions.next().await {
        match outcome {
            Ok(deleted) => warnings.extend(deleted.warnings),
            // Another write was faster.
            Err(error) if error.code() == StatusCode::NOT_FOUND => {}
            Err(error) => return Err(error.with_warnings(warnings)),
        }
    }
    drop(deletions);
    let requested = RequestedVersion::of_request(&request);
    let mut answer = list_answer::answer(
        &context.representation,
        &requested,
        &request.query,
        &request.representation,
        page,
    )
    .await?;
    response::add_warnings(answer.headers_mut(), &warnings);
    response::add_warnings(answer.headers_mut(), &self::warnings(&request, &options));
    Ok(answer)
}

/// Rejects the deletion of the collection if the conversion webhook cannot convert its objects to the requested
/// version.
async fn check_can_be_shown(
    context: &Context,
    request: &ResourceRequest,
    entries: &[Arc<Entry>],
) -> Result<(), ApiError> {
    let requested = RequestedVersion::of_request(request);
    let others: Vec<&Entry> = entries
        .iter()
        .map(AsRef::as_ref)
        .filter(|entry| requested.needs_webhook(entry))
        .collect();
    for together in others.chunks(conversion::TOGETHER) {
        conversion::stored(&context.representation, &requested, together).await?;
    }
    Ok(())
}

/// The number of objects of a collection that are deleted concurrently if no other server writes to the store: they
/// share the wait for the disk, and are still deleted in order.
const DELETED_TOGETHER: usize = 16;

/// Returns the warnings for a client that does not specify the deletion of dependents.
fn warnings(request: &ResourceRequest, options: &DeleteOptions) -> Vec<String> {
    let said = options.propagation_policy.is_some() || options.orphan_dependents.is_some();
    let warning = request.served.resource.capabilities.deletion.warning;
    warning.filter(|_| !said).map(str::to_owned).into_iter().collect()
}

fn target(request: &ResourceRequest, options: &DeleteOptions) -> Target {
    let write_options = WriteOptions {
        dry_run: options.dry_run,
        ..WriteOptions::default()
    };
    write::target(request, write_options)
}

/// Reads the options from the body if there is one, otherwise from the query.
async fn read_options(context: &Context, request: &mut ResourceRequest) -> Result<DeleteOptions, ApiError> {
    let body = read_body(request).await?;
    let mut options = match body.is_empty() {
        true => options::delete_options(&request.query)?,
        false => {
            let format = request.body_format()?;
            let object = decode::delete_options(&body, format, context.write.body_types())?;
            audit::delete_options(context, request, &object);
            DeleteOptions::from_object(&object)?
        }
    };
    options.ignores_read_error &= context.config.unsafe_deletion;
    Ok(options)
}

/// Returns the `Status` that reports a deleted object.
fn success(request: &ResourceRequest, result: &WriteResult) -> Vec<u8> {
    let resource = &request.served.resource;
    let uid = match &result.object {
        WrittenObject::Stored(entry, _) => objects::uid(entry).to_string(),
        WrittenObject::Tree(tree) => metadata::uid(tree).to_owned(),
    };
    let details = Details {
        uid,
        ..Details::new(&resource.group_resource(), &request.name)
    };
    status::success(&details, None)
}
