//! Carrying out what a request does to other objects than the one that its path names.

use std::sync::Arc;

use holdfast_resource::{ActionStep, GroupResource, Operation, Refusal, Resource, SubresourceAction};
use holdfast_store::Transaction;
use holdfast_value::{SmolStr, Value};
use holdfast_writes::{AfterCommit, Change, DeleteOptions, Target, metadata};
use http::StatusCode;

use super::commit::{Failure, commit, delete_in_turn, turn, update_in_turn};
use super::environment::{lookup, stage};
use super::turns::Turn;
use crate::http::ApiError;
use crate::objects::{self, Snapshot};
use crate::write::Context;

/// Carries out `request`, which is decoded, typed and has its defaults, as `action` plans it. Says what the client is to be
/// warned of.
///
/// # Errors
/// What the client is to be told of a refusal.
pub(crate) async fn perform(
    context: &Arc<Context>,
    target: Target,
    action: &dyn SubresourceAction,
    mut request: Value,
) -> Result<Vec<String>, ApiError> {
    let mut warnings = admit(context, &target, &mut request).await?;
    if !target.name.is_empty() {
        target.check_key()?;
    }
    warnings.extend(perform_in_turn(context, &target, action, &request).await?);
    Ok(warnings)
}

async fn admit(context: &Context, target: &Target, request: &mut Value) -> Result<Vec<String>, ApiError> {
    let snapshot = context.shared.store.snapshot();
    let lookup = lookup(context, &target.registry, &snapshot);
    Ok(stage(context, target, &lookup).admit_action(request).await?)
}

/// The turns that a request has, with the keys of their objects.
type Held<'a> = Vec<(String, Turn<'a>)>;

/// Has its turn with the object that the request is about and then with the one that the first step changes, which may be a
/// budget that many share; plans by the state as it is then, and carries that out.
async fn perform_in_turn(
    context: &Arc<Context>,
    target: &Target,
    action: &dyn SubresourceAction,
    request: &Value,
) -> Result<Vec<String>, ApiError> {
    let mut held: Held<'_> = Vec::new();
    if target.resource.storage.is_some() {
        held.push((target.key(&target.name), turn(context, target).await?));
    }
    let own = held.len();
    loop {
        target.check_deadline()?;
        for (_, turn) in &mut held {
            turn.retake().await?;
        }
        let prefix = objects::key_prefix(&target.resource);
        let snapshot = context.shared.store.latest_with(prefix.as_bytes()).await?;
        let (steps, warnings) = plan(context, target, &snapshot, action, request)?;
        let key = steps
            .first()
            .map_or(Ok(String::new()), |step| key_of_step(target, step))?;
        if !target.dry_run && held.iter().all(|(known, _)| *known != key) {
            held.truncate(own);
            let turn = context.turns.take(&key, target.deadline).await?;
            held.push((key, turn));
            if has_changed(context, &snapshot, &held) {
                continue;
            }
        }
        match carry_out(context, target, steps, &mut held).await {
            Err(Stopped { error, at_start: true })
                if error.code() == StatusCode::CONFLICT && has_changed(context, &snapshot, &held) => {}
            outcome => return outcome.map(|()| warnings).map_err(|stopped| stopped.error),
        }
    }
}

/// Whether one of the objects is another by now than in `snapshot`.
fn has_changed(context: &Context, snapshot: &Snapshot, held: &Held<'_>) -> bool {
    let now = context.shared.store.snapshot();
    held.iter().any(|(key, _)| {
        let revision = |snapshot: &Snapshot| snapshot.get(key.as_bytes()).map(|entry| entry.mod_revision());
        revision(snapshot) != revision(&now)
    })
}

fn plan(
    context: &Context,
    target: &Target,
    snapshot: &Snapshot,
    action: &dyn SubresourceAction,
    request: &Value,
) -> Result<(Vec<ActionStep>, Vec<String>), ApiError> {
    let lookup = lookup(context, &target.registry, snapshot);
    let stage = stage(context, target, &lookup);
    let call = stage.call(Operation::Create, &target.name);
    let steps = action.plan(&call, request);
    let steps = steps.map_err(|refusal| call.refused(stage.refusal(refusal, &target.name)))?;
    let warnings = call.warnings();
    call.after_commit().stored();
    Ok((steps, warnings))
}

/// The key of the object that a step changes.
fn key_of_step(target: &Target, step: &ActionStep) -> Result<String, ApiError> {
    let (resource, namespace, name) = match step {
        ActionStep::Replace { resource, object } | ActionStep::Status { resource, object } => {
            let namespace = object.str_at(&["metadata", "namespace"]).unwrap_or_default();
            (resource, namespace, metadata::name(object))
        }
        ActionStep::Delete {
            resource,
            namespace,
            name,
            ..
        } => (resource, namespace.as_str(), name.as_str()),
    };
    let known = known(target, resource)?;
    let storage = known.storage.as_ref().ok_or_else(|| unknown(resource))?;
    Ok(storage.key(namespace, name))
}

/// Why steps were not carried out to the end.
struct Stopped {
    error: ApiError,
    /// Whether nothing was changed.
    at_start: bool,
}

async fn carry_out<'a>(
    context: &'a Arc<Context>,
    target: &Target,
    steps: Vec<ActionStep>,
    held: &mut Held<'a>,
) -> Result<(), Stopped> {
    let mut at_start = true;
    // What a step stored is what a later one may require.
    let mut stored: Option<(String, String)> = None;
    for step in steps {
        let outcome = do_step(context, target, step, held, &mut stored).await;
        outcome.map_err(|error| Stopped { error, at_start })?;
        at_start = false;
    }
    Ok(())
}

#[expect(clippy::indexing_slicing, reason = "the index was found in this very list")]
async fn do_step<'a>(
    context: &'a Arc<Context>,
    target: &Target,
    step: ActionStep,
    held: &mut Held<'a>,
    stored: &mut Option<(String, String)>,
) -> Result<(), ApiError> {
    let key = key_of_step(target, &step)?;
    let at = held.iter().position(|(known, _)| *known == key);
    let mut none = context.turns.none();
    let turn = at.map_or(&mut none, |at| &mut held[at].1);
    match step {
        ActionStep::Replace { resource, object } => *stored = replace(context, target, &resource, key, object).await?,
        ActionStep::Status { resource, object } => {
            write_status(context, target, &resource, object, turn).await?;
            // Others share it, and the rest of the steps has nothing to do with it.
            turn.give_up();
        }
        ActionStep::Delete {
            resource,
            namespace,
            name,
            mut options,
            conflict,
        } => {
            require_stored(&mut options, stored.as_ref());
            let place = (namespace.as_str(), name.as_str());
            delete(context, target, &resource, place, &options, conflict, turn).await?;
        }
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
    key: String,
    object: Value,
) -> Result<Option<(String, String)>, ApiError> {
    let (resource, name) = (known(target, resource)?, SmolStr::new(metadata::name(&object)));
    let snapshot = context.shared.store.snapshot();
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
        objects::encode(context.types(), &object),
        index,
    );
    match commit(context, transaction, AfterCommit::default()).await {
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
    turn: &mut Turn<'_>,
) -> Result<(), ApiError> {
    let resource = known(target, resource)?;
    let server = Target::of_server(&target.registry, &resource, "status", target.now)
        .ok_or_else(|| unknown(&resource.group_resource()))?;
    let server = Target {
        namespace: object.str_at(&["metadata", "namespace"]).unwrap_or_default().into(),
        name: metadata::name(&object).into(),
        dry_run: target.dry_run,
        deadline: target.deadline,
        audit: target.audit.clone(),
        ..server
    };
    let change = Change::Replace {
        object,
        warnings: Vec::new(),
    };
    update_in_turn(context, &server, &change, turn, None).await.map(|_| ())
}

async fn delete(
    context: &Arc<Context>,
    target: &Target,
    resource: &GroupResource,
    (namespace, name): (&str, &str),
    options: &Value,
    conflict: Option<Refusal>,
    turn: &mut Turn<'_>,
) -> Result<(), ApiError> {
    let resource = known(target, resource)?;
    let options = DeleteOptions::from_object(options)?;
    let server = Target::of_server(&target.registry, &resource, "", target.now)
        .ok_or_else(|| unknown(&resource.group_resource()))?;
    let of_user = Target {
        namespace: namespace.into(),
        name: name.into(),
        user: Arc::clone(&target.user),
        dry_run: target.dry_run || options.dry_run,
        deadline: target.deadline,
        audit: target.audit.clone(),
        ..server
    };
    let outcome = delete_in_turn(context, &of_user, &options, turn).await;
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
