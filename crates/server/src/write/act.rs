//! Carrying out what a request does to other objects than the one that its path names.

use std::sync::Arc;

use holdfast_resource::{Action, GroupResource, Operation, Refusal, Resource, Step};
use holdfast_store::Transaction;
use holdfast_value::{SmolStr, Value};
use http::StatusCode;

use super::commit::{Failure, admit_request, commit};
use super::outcome::Outcome;
use super::pipeline::Pipeline;
use super::{Change, Target, metadata, pipeline};
use crate::ApiError;
use crate::objects;
use crate::options::DeleteOptions;
use crate::state::Context;

/// How often a plan is made anew when others change its objects.
const ATTEMPTS: usize = 5;

/// Carries out `request`, which is decoded, typed and has its defaults, as `action` plans it. Says what the client is to be
/// warned of.
///
/// # Errors
/// What the client is to be told of a refusal.
pub(crate) async fn act(
    context: &Arc<Context>,
    target: Target,
    action: &dyn Action,
    mut request: Value,
) -> Result<Vec<String>, ApiError> {
    pipeline::check_namespace(&mut request, &target.namespace)?;
    let mut attempt = 1;
    loop {
        let (steps, warnings) = plan(context, &target, action, request.clone()).await?;
        match carry_out(context, &target, steps).await {
            Err(Stopped { error, at_start: true }) if error.code() == StatusCode::CONFLICT && attempt < ATTEMPTS => {
                attempt += 1;
            }
            outcome => return outcome.map(|()| warnings).map_err(|stopped| stopped.error),
        }
    }
}

async fn plan(
    context: &Context,
    target: &Target,
    action: &dyn Action,
    mut request: Value,
) -> Result<(Vec<Step>, Vec<String>), ApiError> {
    let snapshot = context.store.snapshot();
    let pipeline = Pipeline::new(context, target, &snapshot)?;
    let call = pipeline.call(Operation::Create, &target.name);
    let refuse = |refusal| pipeline.refusal(refusal, &target.name);
    let admitted = admit_request(&pipeline, &call, &mut request, &refuse).await;
    let steps = admitted.and_then(|()| action.plan(&call, &request).map_err(refuse));
    let steps = steps.map_err(|error| call.refused(error))?;
    let warnings = call.warnings();
    call.outcome().stored();
    Ok((steps, warnings))
}

/// Why steps were not carried out to the end.
struct Stopped {
    error: ApiError,
    /// Whether nothing was changed.
    at_start: bool,
}

async fn carry_out(context: &Arc<Context>, target: &Target, steps: Vec<Step>) -> Result<(), Stopped> {
    let mut at_start = true;
    // What a step stored is what a later one may require.
    let mut stored: Option<(String, String)> = None;
    for step in steps {
        let outcome = match step {
            Step::Replace { resource, object } => {
                let replaced = replace(context, target, &resource, object).await;
                replaced.map(|versions| stored = versions)
            }
            Step::Status { resource, object } => write_status(context, target, &resource, object).await,
            Step::Delete {
                resource,
                namespace,
                name,
                mut options,
                conflict,
            } => {
                require_stored(&mut options, stored.as_ref());
                delete(context, target, &resource, (&namespace, &name), &options, conflict).await
            }
        };
        outcome.map_err(|error| Stopped { error, at_start })?;
        at_start = false;
    }
    Ok(())
}

/// A precondition on the version of an object that an earlier step replaced is one on the version that it stored.
fn require_stored(options: &mut Value, stored: Option<&(String, String)>) {
    const VERSION: [&str; 2] = ["preconditions", "resourceVersion"];
    if let Some((before, now)) = stored
        && options.str_at(&VERSION) == Some(before)
    {
        options.set_at(&VERSION, now.as_str().into());
    }
}

/// The versions before and after, where something was stored.
async fn replace(
    context: &Arc<Context>,
    target: &Target,
    resource: &GroupResource,
    object: Value,
) -> Result<Option<(String, String)>, ApiError> {
    let (resource, name) = (known(target, resource)?, SmolStr::new(metadata::name(&object)));
    let storage = resource
        .storage
        .as_ref()
        .ok_or_else(|| unknown(&resource.group_resource()))?;
    let key = storage.key(object.str_at(&["metadata", "namespace"]).unwrap_or_default(), &name);
    let snapshot = context.store.snapshot();
    let lost = || ApiError::modified(&resource.group_resource(), &name);
    let live = snapshot.get(key.as_bytes()).ok_or_else(lost)?;
    let seen = object.str_at(&["metadata", "resourceVersion"]).unwrap_or_default();
    if live.mod_revision().to_string() != seen {
        return Err(lost());
    }
    if target.dry_run {
        return Ok(None);
    }
    let index = objects::index_of(&target.registry, &resource, &object, "");
    let transaction = Transaction::new().guard(key.as_str(), live.mod_revision()).put_indexed(
        key.as_str(),
        objects::encode(&object),
        index,
    );
    match commit(context, transaction, Outcome::default()).await {
        Ok(committed) => {
            let entry = committed.entries.into_iter().next().flatten();
            Ok(entry.map(|entry| (seen.to_owned(), entry.mod_revision().to_string())))
        }
        Err(Failure::Lost) => Err(lost()),
        Err(Failure::Refused(error)) => Err(error),
    }
}

async fn write_status(
    context: &Arc<Context>,
    target: &Target,
    resource: &GroupResource,
    object: Value,
) -> Result<(), ApiError> {
    let resource = known(target, resource)?;
    let server =
        Target::of_server(&target.registry, &resource, "status").ok_or_else(|| unknown(&resource.group_resource()))?;
    let server = Target {
        namespace: object.str_at(&["metadata", "namespace"]).unwrap_or_default().into(),
        name: metadata::name(&object).into(),
        dry_run: target.dry_run,
        ..server
    };
    let change = Change::Replace {
        object,
        warnings: Vec::new(),
    };
    super::update(context, server, change).await.map(|_| ())
}

async fn delete(
    context: &Arc<Context>,
    target: &Target,
    resource: &GroupResource,
    (namespace, name): (&str, &str),
    options: &Value,
    conflict: Option<Refusal>,
) -> Result<(), ApiError> {
    let resource = known(target, resource)?;
    let options = DeleteOptions::from_object(options)?;
    let server =
        Target::of_server(&target.registry, &resource, "").ok_or_else(|| unknown(&resource.group_resource()))?;
    let of_user = Target {
        namespace: namespace.into(),
        name: name.into(),
        user: Arc::clone(&target.user),
        dry_run: target.dry_run || options.dry_run,
        ..server
    };
    let outcome = super::delete(context, of_user, options).await;
    match (outcome, conflict) {
        (Ok(_), _) => Ok(()),
        (Err(error), Some(refusal)) if error.code() == StatusCode::CONFLICT => Err(ApiError::refusal(
            refusal,
            &resource.group_resource(),
            &resource.stored_kind(),
            name,
        )),
        (Err(error), _) => Err(error),
    }
}

fn known(target: &Target, resource: &GroupResource) -> Result<Arc<Resource>, ApiError> {
    target
        .registry
        .resource(resource)
        .cloned()
        .ok_or_else(|| unknown(resource))
}

fn unknown(resource: &GroupResource) -> ApiError {
    ApiError::internal(format!("{resource} is not served"))
}
