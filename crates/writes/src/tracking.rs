//! Field management of a write: records what an update changes, and merges an apply.

use std::sync::Arc;
use std::time::SystemTime;

use holdfast_ownership::{Applied, ApplyError, ApplyOptions, FieldManager, LAST_APPLIED, Versions};
use holdfast_resource::ConversionWebhook;
use holdfast_value::Value;

use crate::error::{Error, ErrorKind};
use crate::field_managers::FieldManagers;
use crate::metadata;
use crate::stage::Stage;
use crate::staged::Existing;
use crate::target::Target;
use crate::webhook_versions::WebhookVersions;

pub(crate) use holdfast_ownership::keep_times;
pub use holdfast_ownership::manager_name;

/// Records in `updated`, which replaces `existing`, which fields each manager changed.
pub(crate) async fn update(stage: &Stage<'_>, existing: Option<Existing<'_>>, updated: &mut Value) {
    let managers = stage.environment.field_managers();
    let requested = existing.map(|existing| existing.object);
    let Some(webhook) = webhook(stage.target) else {
        let valid = existing.filter(|existing| existing.provenance.has_requested_type());
        return match valid.zip(managers.for_target(stage.target)) {
            Some((valid, manager)) => {
                let (name, now) = (
                    &stage.target.writer.manager,
                    stage.environment.time_of_change(stage.target),
                );
                note(stage.target, updated, |new| {
                    manager.update_valid(valid.object, new, name, now)
                });
            }
            None => {
                let now = stage.environment.time_of_change(stage.target);
                update_as(managers, stage.target, now, requested, updated);
            }
        };
    };
    let (new, name) = (std::mem::take(updated), &stage.target.writer.manager);
    let now = stage.environment.time_of_change(stage.target);
    let run = |manager: &FieldManager| manager.update(requested, new.clone(), name, now);
    *updated = Box::pin(with_webhook(stage, webhook, run)).await;
}

/// Tracks an update by a write that is not a run of its own, and whose kind has one version.
pub fn update_as(
    field_managers: &FieldManagers,
    target: &Target,
    now: SystemTime,
    existing: Option<&Value>,
    updated: &mut Value,
) {
    if let Some(manager) = field_managers.for_target(target) {
        let name = &target.writer.manager;
        note(target, updated, |new| manager.update(existing, new, name, now));
    }
}

/// Calls `record` to write the managers into an updated object. `record` receives the object after conversion through
/// other versions, which may lose some of its fields.
fn note(target: &Target, updated: &mut Value, record: impl FnOnce(Value) -> Value) {
    if target.resource.capabilities.converts.is_none() {
        *updated = record(std::mem::take(updated));
        return;
    }
    let noted = record(target.resource.round_trip(updated.clone()));
    metadata::take(updated, &noted, &["metadata", "managedFields"]);
}

/// Returns `stored` with the managers of `updated`, which is the same object in another version: an apply that changes
/// no field keeps the stored object, even if conversion through other versions would change it.
pub(crate) fn with_managers_of(stored: &Value, updated: &Value) -> Value {
    let mut kept = stored.clone();
    for path in [
        &["metadata", "managedFields"][..],
        &["metadata", "annotations", LAST_APPLIED],
    ] {
        match updated.at(path) {
            Some(value) => kept.set_at(path, value.clone()),
            None => drop(kept.remove_at(path)),
        }
    }
    kept
}

/// Merges an applied configuration into the existing object.
pub(crate) async fn apply(
    stage: &Stage<'_>,
    existing: Option<&Value>,
    applied: &Value,
    options: &ApplyOptions,
) -> Result<Applied, Error> {
    let target = stage.target;
    let (name, now) = (&target.writer.manager, stage.environment.time_of_change(target));
    let run = |manager: &FieldManager| manager.apply_with(existing, applied, name, options, now);
    let merged = match webhook(target) {
        Some(webhook) => Box::pin(with_webhook(stage, webhook, run)).await,
        None => {
            let manager = stage.environment.field_managers().for_target(target);
            run(manager
                .ok_or_else(|| Error::internal("the kind has no types"))?
                .as_ref())
        }
    };
    merged.map_err(refused)
}

/// Returns the webhook that converts for managers of other versions.
fn webhook(target: &Target) -> Option<&ConversionWebhook> {
    let webhook = target.resource.conversion_webhook()?;
    (target.body.kind == target.resource.kind).then_some(webhook)
}

/// Runs `run` with a field manager that has the conversions by the webhook so far. Merging is synchronous: it fails if
/// an object is not converted yet, and runs again after the conversion.
async fn with_webhook<T>(stage: &Stage<'_>, webhook: &ConversionWebhook, run: impl Fn(&FieldManager) -> T) -> T {
    let (managers, target) = (stage.environment.field_managers(), stage.target);
    let (resource, own) = (&target.resource, &target.api_version);
    let versions = Arc::new(WebhookVersions::new(managers.versions(resource), own.clone()));
    let known: Arc<dyn Versions> = versions.clone();
    let manager = managers.make(resource, own, &target.subresource, known);
    loop {
        let outcome = run(&manager);
        let Some(wanted) = versions.wanted() else {
            return outcome;
        };
        drop(outcome);
        let objects = [wanted.object.clone()];
        let converted = stage
            .environment
            .callers()
            .convert(webhook, &objects, &wanted.api_version)
            .await
            .map(|mut objects| objects.pop().unwrap_or_default());
        versions.learn(wanted, converted.map_err(|failure| failure.message));
    }
}

/// Returns the error of a failed apply.
fn refused(error: ApplyError) -> Error {
    match error {
        ApplyError::Conflicts(conflicts) => ErrorKind::ApplyConflict(conflicts).into(),
        ApplyError::Duplicates(duplicates) => ErrorKind::ApplyDuplicates(duplicates).into(),
        ApplyError::WrongKind(_) | ApplyError::ManagedFieldsInConfiguration | ApplyError::Unset(_) => {
            Error::bad_request(error.to_string())
        }
        ApplyError::Decode(_) | ApplyError::Failed(_) => Error::unclassified(error.to_string()),
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "what fails here is the test")]
mod tests {
    use holdfast_schema::GroupResource;
    use holdfast_value::{Limits, yaml};

    use super::*;
    use crate::testing::World;

    fn tree(text: &str) -> Value {
        yaml::parse(text.as_bytes(), &Limits::REQUEST).unwrap()
    }

    /// Returns the target of a Deployment, and of its `subresource`.
    fn target(world: &World, subresource: &str) -> Target {
        let object = tree("{apiVersion: apps/v1, kind: Deployment, metadata: {name: a}}");
        let group_resource = GroupResource {
            group: "apps".into(),
            resource: "deployments".into(),
        };
        let mut resources = world.registry.resources();
        let resource = resources.find(|known| known.group_resource() == group_resource);
        world.target(resource.unwrap(), &object, subresource)
    }

    #[test]
    fn field_manager_is_cached_until_its_resource_is_forgotten() {
        let world = World::new(holdfast_kinds::registry(&holdfast_kinds::Config::default()).unwrap());
        let managers = FieldManagers::new(Arc::clone(world.registry.types()));
        let (object, status) = (target(&world, ""), target(&world, "status"));
        let first = managers.for_target(&object).unwrap();
        assert!(Arc::ptr_eq(&first, &managers.for_target(&object).unwrap()));
        assert!(!Arc::ptr_eq(&first, &managers.for_target(&status).unwrap()));
        managers.forget(&object.resource);
        assert!(!Arc::ptr_eq(&first, &managers.for_target(&object).unwrap()));
    }

    #[test]
    fn apply_that_changes_no_field_changes_only_managers() {
        let stored = tree(
            "{metadata: {name: a, managedFields: [{manager: x}], annotations: {kubectl.kubernetes.io/last-applied-configuration: \
             old, b: c}}, spec: {stored: 1}}",
        );
        let shown =
            tree("{metadata: {name: a, managedFields: [{manager: y}], annotations: {b: other}}, spec: {shown: 1}}");
        assert_eq!(
            with_managers_of(&stored, &shown),
            tree("{metadata: {name: a, managedFields: [{manager: y}], annotations: {b: c}}, spec: {stored: 1}}")
        );
    }
}
