//! Execution of requests that change objects other than the one that their path names.

use std::sync::Arc;

use holdfast_resource::{ActionStep, Operation, Rejection, Resource, SubresourceAction};
use holdfast_schema::GroupResource;
use holdfast_store::Transaction;
use holdfast_value::{SmolStr, Value};
use holdfast_writes::{AfterCommit, Change, DeleteOptions, Target, metadata};
use http::StatusCode;

use super::commit::{Failure, commit};
use super::delete::delete_in_turn;
use super::environment::{lookup, stage};
use super::turns::Turn;
use super::update::update_in_turn;
use crate::http::ApiError;
use crate::objects::{self, Snapshot};
use crate::write::Context;

/// Executes `request`, which is decoded, typed and defaulted, as `action` plans it. Returns the warnings for the
/// client.
///
/// # Errors
/// If the request is rejected; the error is the one that the client gets.
pub(crate) async fn perform(
    context: &Arc<Context>,
    target: Target,
    action: &dyn SubresourceAction,
    mut request: Value,
) -> Result<Vec<String>, ApiError> {
    let mut warnings = admit(context, &target, action, &mut request).await?;
    if !target.name.is_empty() {
        target.check_key()?;
    }
    warnings.extend(perform_in_turn(context, &target, action, &request).await?);
    Ok(warnings)
}

async fn admit(
    context: &Context,
    target: &Target,
    action: &dyn SubresourceAction,
    request: &mut Value,
) -> Result<Vec<String>, ApiError> {
    let snapshot = context.shared.store.snapshot();
    let lookup = lookup(context, target.registry.outside_run(), &snapshot);
    Ok(stage(context, target, &lookup).admit_action(action, request).await?)
}

/// Turns that a request holds, with the keys of their objects.
type Held<'a> = Vec<(String, Turn<'a>)>;

/// Waits for the turn at the object of the request, then for the turn at the object that the first step changes, which
/// may be a budget that many share. Then plans over the current state and executes the plan.
async fn perform_in_turn(
    context: &Arc<Context>,
    target: &Target,
    action: &dyn SubresourceAction,
    request: &Value,
) -> Result<Vec<String>, ApiError> {
    let mut held: Held<'_> = Vec::new();
    if target.resource.storage.is_some() {
        held.push((target.key(&target.name), context.turn(target).await?));
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
        if !target.request.dry_run && held.iter().all(|(known, _)| *known != key) {
            held.truncate(own);
            let turn = context.turns.take(&key, target.request.deadline).await?;
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

/// Returns true if one of the objects differs from its state in `snapshot`.
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
    let lookup = lookup(context, target.registry.outside_run(), snapshot);
    let stage = stage(context, target, &lookup);
    let call = stage.call(Operation::Create, &target.name);
    let planned = action.plan(&call, request);
    let steps = planned.map_err(|rejection| call.refused(stage.rejection(rejection, &target.name)))?;
    let warnings = call.warnings();
    call.after_commit().stored();
    Ok((steps, warnings))
}

/// Returns the key of the object that a step changes.
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

/// Reason why the steps were not all executed.
struct Stopped {
    error: ApiError,
    /// True if nothing was changed.
    at_start: bool,
}

async fn carry_out<'a>(
    context: &'a Arc<Context>,
    target: &Target,
    steps: Vec<ActionStep>,
    held: &mut Held<'a>,
) -> Result<(), Stopped> {
    let mut at_start = true;
    // A later step may require the version that an earlier step stored.
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
            // Others share the object, and the remaining steps do not need it.
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
            let deletion = Deletion {
                resource: &resource,
                namespace: &namespace,
                name: &name,
                options: &options,
                conflict,
            };
            deletion.execute(context, target, turn).await?;
        }
    }
    Ok(())
}

/// Replaces a precondition on the version of an object that an earlier step replaced by one on the version that it
/// stored.
fn require_stored(options: &mut Value, stored: Option<&(String, String)>) {
    const VERSION: [&str; 2] = ["preconditions", "resourceVersion"];
    if let Some((before, now)) = stored
        && options.str_at(&VERSION) == Some(before)
    {
        options.set_at(&VERSION, now.as_str().into());
    }
}

/// Replaces an object and returns its versions before and after, if something was stored.
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
    let existing = snapshot.get(key.as_bytes()).ok_or_else(lost)?;
    let seen = object.str_at(&["metadata", "resourceVersion"]).unwrap_or_default();
    if existing.mod_revision().to_string() != seen {
        return Err(lost());
    }
    if target.request.dry_run {
        return Ok(None);
    }
    let index = objects::index_of(target.registry.outside_run(), &resource, &object, "");
    let transaction = Transaction::new()
        .guard(key.as_str(), existing.mod_revision())
        .put_indexed(key.as_str(), objects::encode(context.types(), &object), index);
    match commit(context, transaction, AfterCommit::default()).await {
        Ok(committed) => {
            let entry = committed.entries.into_iter().next().flatten();
            Ok(entry.map(|entry| (seen.to_owned(), entry.mod_revision().to_string())))
        }
        Err(Failure::Lost) => Err(lost()),
        Err(Failure::TooLarge(error) | Failure::Rejected(error)) => Err(error),
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
    let at_collection = Target::of_server(
        target.registry.outside_run(),
        &resource,
        "status",
        *target.request.now.outside_run(),
    )
    .ok_or_else(|| unknown(&resource.group_resource()))?;
    let mut server = at_collection.at_object(&object);
    server.request = target.request.inner();
    let change = Change::Replace {
        object,
        warnings: Vec::new(),
    };
    update_in_turn(context, &server, &change, turn, None).await.map(|_| ())
}

/// Deletion of an object as a step of an action.
struct Deletion<'a> {
    resource: &'a GroupResource,
    namespace: &'a str,
    name: &'a str,
    options: &'a Value,
    /// Error for the client if another write changed the object.
    conflict: Option<Rejection>,
}

impl Deletion<'_> {
    async fn execute(self, context: &Arc<Context>, target: &Target, turn: &mut Turn<'_>) -> Result<(), ApiError> {
        let resource = known(target, self.resource)?;
        let options = DeleteOptions::from_object(self.options)?;
        let server = Target::of_server(
            target.registry.outside_run(),
            &resource,
            "",
            *target.request.now.outside_run(),
        )
        .ok_or_else(|| unknown(&resource.group_resource()))?;
        let mut of_user = server.at(self.namespace, self.name);
        of_user.writer.user = Arc::clone(&target.writer.user);
        of_user.request = target.request.inner();
        of_user.request.dry_run |= options.dry_run;
        let outcome = delete_in_turn(context, &of_user, &options, turn).await;
        match (outcome, self.conflict) {
            (Ok(_), _) => Ok(()),
            (Err(error), Some(rejection)) if error.code() == StatusCode::CONFLICT => Err(ApiError::rejection(
                rejection,
                &resource.group_resource(),
                &resource.stored_kind(),
                self.name,
            )),
            (Err(error), _) => Err(error),
        }
    }
}

fn known(target: &Target, resource: &GroupResource) -> Result<Arc<Resource>, ApiError> {
    target
        .registry
        .outside_run()
        .resource(resource)
        .cloned()
        .ok_or_else(|| unknown(resource))
}

fn unknown(resource: &GroupResource) -> ApiError {
    ApiError::internal(format!("{resource} is not served"))
}

#[cfg(test)]
mod tests {
    use super::super::testing::{CONFIG, World, rejection, tree};
    use super::*;

    /// Action that plans these steps.
    struct Steps(Vec<ActionStep>);

    impl SubresourceAction for Steps {
        fn plan(&self, _: &holdfast_resource::WriteContext<'_>, _: &Value) -> Result<Vec<ActionStep>, Rejection> {
            Ok(self.0.clone())
        }
    }

    fn config_maps() -> GroupResource {
        GroupResource {
            group: "".into(),
            resource: "configmaps".into(),
        }
    }

    fn replacing(object: Value) -> ActionStep {
        ActionStep::Replace {
            resource: config_maps(),
            object,
        }
    }

    fn deleting(options: &str, conflict: Option<Rejection>) -> ActionStep {
        ActionStep::Delete {
            resource: config_maps(),
            namespace: "default".to_owned(),
            name: "a".to_owned(),
            options: tree(options),
            conflict,
        }
    }

    async fn perform_steps(world: &World, steps: Vec<ActionStep>, dry_run: bool) -> Result<Vec<String>, ApiError> {
        let mut target = world.target(CONFIG, "");
        target.request.dry_run = dry_run;
        perform(&world.context, target, &Steps(steps), tree("{}")).await
    }

    #[tokio::test]
    async fn an_object_is_replaced_as_it_is_planned() {
        let world = World::new();
        let made = world.create(CONFIG).await;
        let mut object = objects::tree(&made);
        let owners = object.at(&["metadata", "managedFields"]).cloned();
        object.set_at(&["data", "k"], "2".into());
        assert!(
            perform_steps(&world, vec![replacing(object.clone())], true)
                .await
                .is_ok()
        );
        assert_eq!(
            objects::tree(&world.entry(CONFIG).unwrap()).str_at(&["data", "k"]),
            Some("1")
        );
        assert!(
            perform_steps(&world, vec![replacing(object.clone())], false)
                .await
                .is_ok()
        );
        let stored = objects::tree(&world.entry(CONFIG).unwrap());
        assert_eq!(stored.str_at(&["data", "k"]), Some("2"));
        assert_eq!(
            stored.at(&["metadata", "managedFields"]).cloned(),
            owners,
            "it has no new owner"
        );
        let (code, _) = rejection(perform_steps(&world, vec![replacing(object)], false).await);
        assert_eq!(code, 409, "it is of an older version by now");
    }

    #[tokio::test]
    async fn a_later_step_may_require_what_an_earlier_one_stored() {
        let world = World::new();
        let entry = world.create(CONFIG).await;
        let options = format!("{{preconditions: {{resourceVersion: '{}'}}}}", entry.mod_revision());
        let mut object = objects::tree(&entry);
        object.set_at(&["data", "k"], "2".into());
        let steps = vec![replacing(object), deleting(&options, None)];
        assert!(perform_steps(&world, steps, false).await.is_ok());
        assert!(world.entry(CONFIG).is_none());
    }

    #[tokio::test]
    async fn a_conflict_of_a_deletion_is_reported_as_it_is_planned() {
        let world = World::new();
        world.create(CONFIG).await;
        let options = "{preconditions: {uid: other}}";
        let plain = perform_steps(&world, vec![deleting(options, None)], false).await;
        assert_eq!(rejection(plain).0, 409);
        let planned = Rejection::forbidden("it is another one by now");
        let dry = perform_steps(&world, vec![deleting(options, Some(planned))], false).await;
        assert_eq!(rejection(dry).0, 403);
        assert!(world.entry(CONFIG).is_some());
    }

    #[tokio::test]
    async fn a_dry_run_deletes_nothing() {
        let world = World::new();
        world.create(CONFIG).await;
        assert!(perform_steps(&world, vec![deleting("{}", None)], true).await.is_ok());
        assert!(world.entry(CONFIG).is_some());
    }

    #[test]
    fn precondition_on_replaced_version_follows_the_stored_one() {
        let replaced = ("3".to_owned(), "4".to_owned());
        for (required, expected) in [("3", "4"), ("2", "2")] {
            let mut options = tree(&format!("{{preconditions: {{resourceVersion: '{required}'}}}}"));
            require_stored(&mut options, Some(&replaced));
            assert_eq!(options.str_at(&["preconditions", "resourceVersion"]), Some(expected));
        }
        let mut none = tree("{}");
        require_stored(&mut none, Some(&replaced));
        assert_eq!(none, tree("{}"));
    }
}
