//! Deletion of an object: immediately, after a grace period, or when its last finalizer is removed
//! (<https://kubernetes.io/docs/concepts/overview/working-with-objects/finalizers/>).

use std::time::{Duration, SystemTime};

use holdfast_resource::{GarbageCollection, Resource, WriteContext};
use holdfast_schema::{GroupKind, GroupResource};
use holdfast_value::{SmolStr, Value};

use crate::error::Error;
use crate::metadata;
use crate::options::{DeleteOptions, PropagationPolicy};

const ORPHAN: &str = "orphan";
const FOREGROUND: &str = "foregroundDeletion";

/// The result of a DELETE.
pub(crate) enum Deletion {
    /// The object is removed now. Holds its last state if deletion changed it.
    Remove(Option<Value>),
    /// The object is marked as this and stays for now.
    Mark(Value),
    /// The object stays as it is: its deletion has begun already.
    Wait,
}

/// Rejects a DELETE whose preconditions the object does not meet.
///
/// upstream: k8s.io/apiserver/pkg/storage#Preconditions.Check
///
/// # Errors
/// If a precondition fails; the error is a 409.
pub(crate) fn check_preconditions(resource: &Resource, options: &DeleteOptions, object: &Value) -> Result<(), Error> {
    let uid = metadata::uid(object);
    if let Some(wanted) = options.uid.as_deref().filter(|wanted| *wanted != uid) {
        let then = "deleted and then recreated";
        let precondition = Precondition {
            what: "UID",
            wanted,
            found: uid,
        };
        return Err(unmet(resource, object, &precondition, then));
    }
    let version = object.str_at(&["metadata", "resourceVersion"]).unwrap_or_default();
    if let Some(wanted) = options.resource_version.as_deref().filter(|wanted| *wanted != version) {
        let then = "modified";
        let precondition = Precondition {
            what: "ResourceVersion",
            wanted,
            found: version,
        };
        return Err(unmet(resource, object, &precondition, then));
    }
    Ok(())
}

/// Precondition that an object does not meet.
struct Precondition<'a> {
    /// Field of the preconditions, as messages name it.
    what: &'static str,
    wanted: &'a str,
    found: &'a str,
}

/// Returns the 409 error for a precondition that does not match the object, which may have changed since.
fn unmet(resource: &Resource, object: &Value, precondition: &Precondition<'_>, then: &str) -> Error {
    let Precondition { what, wanted, found } = precondition;
    let name = metadata::name(object);
    if resource.capabilities.deletion.checks_preconditions {
        let why = format!("Precondition failed: {what} in precondition: {wanted}, {what} in object meta: {found}");
        return Error::conflict(&resource.group_resource(), name, why);
    }
    // The reference names the kind here where other conflicts name the resource.
    let GroupKind { group, kind } = resource.stored_kind();
    let named = GroupResource { group, resource: kind };
    let why = format!(
        "the {what} in the precondition ({wanted}) does not match the {what} in record ({found}). The object might have been {then}"
    );
    Error::conflict(&named, name, why)
}

/// Begins the DELETE of `object`.
pub(crate) fn begin(
    context: &WriteContext<'_>,
    resource: &Resource,
    options: &DeleteOptions,
    object: &Value,
) -> Deletion {
    let grace = match grace_period(resource, options, object) {
        Grace::Pending => return Deletion::Wait,
        Grace::None => None,
        Grace::Seconds(seconds) => Some(seconds),
    };
    let mut marked = object.clone();
    let is_going = object.at(&["metadata", "deletionTimestamp"]).is_some();
    let heeds_policy = is_going || !resource.capabilities.deletion.first_marks_alone;
    if let Some(finalizers) = finalizers_of_policy(resource, options, object).filter(|_| heeds_policy) {
        metadata::set_finalizers(&mut marked, finalizers);
    }
    if let Some(seconds) = grace {
        start_grace(&mut marked, object, seconds, context.now());
    }
    let held = metadata::finalizers(&marked).next().is_some() || resource.capabilities.deletion.holds(&marked);
    if held {
        if grace.is_none() {
            mark(
                &mut marked,
                object,
                context.now(),
                resource.capabilities.deletion.holds(object),
            );
        }
        resource.strategy.prepare_for_delete(context, &mut marked);
        return if marked == *object {
            Deletion::Wait
        } else {
            Deletion::Mark(marked)
        };
    }
    match grace {
        Some(seconds) if seconds > 0 => Deletion::Mark(marked),
        Some(_) => Deletion::Remove(Some(marked)),
        None => Deletion::Remove(None),
    }
}

/// Returns true if the grace period of an object that is removed now begins with this DELETE and ends immediately.
/// Watchers then receive the beginning of the deletion before the removal.
pub fn is_marked_first(resource: &Resource, object: &Value, existing: &Value) -> bool {
    if !resource.rules.graceful_deletion {
        return false;
    }
    let changed = |field| object.at(&["metadata", field]) != existing.at(&["metadata", field]);
    changed("deletionTimestamp") || changed("deletionGracePeriodSeconds")
}

/// Returns true if an update of a terminating object removed the last reason for which the deletion waited.
pub(crate) fn completes(resource: &Resource, object: &Value, old: &Value) -> bool {
    // Kinds that hold their objects themselves, such as namespaces, set no grace period.
    let grace = old
        .at(&["metadata", "deletionGracePeriodSeconds"])
        .and_then(Value::as_i64);
    let waits_for_finalizers = old.at(&["metadata", "deletionTimestamp"]).is_some() && grace.unwrap_or_default() == 0;
    waits_for_finalizers
        && metadata::finalizers(object).next().is_none()
        && !resource.capabilities.deletion.holds(object)
}

enum Grace {
    /// The kind knows no grace, or it is over.
    None,
    /// A grace period runs that is no longer than the requested one.
    Pending,
    Seconds(i64),
}

fn grace_period(resource: &Resource, options: &DeleteOptions, object: &Value) -> Grace {
    if !resource.rules.graceful_deletion {
        return Grace::None;
    }
    // A negative period means the shortest that is one.
    let requested = options
        .grace_period_seconds
        .map(|seconds| if seconds < 0 { 1 } else { seconds });
    if object.at(&["metadata", "deletionTimestamp"]).is_none() {
        return Grace::Seconds(resource.capabilities.deletion.grace_period(object, requested));
    }
    let running = object
        .at(&["metadata", "deletionGracePeriodSeconds"])
        .and_then(Value::as_i64);
    match (running.unwrap_or_default(), requested) {
        (0, _) => Grace::None,
        (running, Some(shorter)) if shorter < running => Grace::Seconds(shorter),
        _ => Grace::Pending,
    }
}

fn start_grace(marked: &mut Value, object: &Value, seconds: i64, now: SystemTime) {
    let begun = object.at(&["metadata", "deletionTimestamp"]).is_some();
    let end = now + Duration::from_secs(seconds.max(0).unsigned_abs());
    marked.set_at(&["metadata", "deletionTimestamp"], metadata::rfc3339(end).into());
    marked.set_at(&["metadata", "deletionGracePeriodSeconds"], Value::Int(seconds));
    if !begun && generation(object) > 0 {
        metadata::raise_generation(marked, object);
    }
}

/// Marks an object that its finalizers keep as terminating. `of_kind` is true if the kind keeps it too; then it gets
/// neither a grace period nor a new generation.
fn mark(marked: &mut Value, object: &Value, now: SystemTime, of_kind: bool) {
    if object.at(&["metadata", "deletionTimestamp"]).is_none() {
        marked.set_at(&["metadata", "deletionTimestamp"], metadata::rfc3339(now).into());
        if generation(object) > 0 && !of_kind {
            metadata::raise_generation(marked, object);
        }
    }
    if !of_kind {
        marked.set_at(&["metadata", "deletionGracePeriodSeconds"], Value::Int(0));
    }
}

fn generation(object: &Value) -> i64 {
    let generation = object.at(&["metadata", "generation"]).and_then(Value::as_i64);
    generation.unwrap_or_default()
}

/// Returns the finalizers with those of the garbage collector according to the policy; `None` if nothing changes.
fn finalizers_of_policy(resource: &Resource, options: &DeleteOptions, object: &Value) -> Option<Vec<SmolStr>> {
    let wanted = wanted_finalizer(resource, options, object);
    let before: Vec<&str> = metadata::finalizers(object).collect();
    let is_policy = |name: &&str| *name == ORPHAN || *name == FOREGROUND;
    let now: Vec<&str> = before.iter().copied().filter(is_policy).collect();
    if now == wanted.into_iter().collect::<Vec<_>>() {
        return None;
    }
    let others = before.into_iter().filter(|name| !is_policy(name));
    Some(others.chain(wanted).map(SmolStr::new).collect())
}

/// Returns the finalizer that tells the garbage collector how to handle dependents.
fn wanted_finalizer(resource: &Resource, options: &DeleteOptions, object: &Value) -> Option<&'static str> {
    if resource.rules.garbage_collection == GarbageCollection::Unsupported {
        return None;
    }
    if let Some(orphan) = options.orphan_dependents {
        return orphan.then_some(ORPHAN);
    }
    if let Some(policy) = options.propagation_policy {
        return match policy {
            PropagationPolicy::Orphan => Some(ORPHAN),
            PropagationPolicy::Foreground => Some(FOREGROUND),
            PropagationPolicy::Background => None,
        };
    }
    let present =
        metadata::finalizers(object).find_map(|name| [ORPHAN, FOREGROUND].into_iter().find(|known| *known == name));
    let by_default = resource.rules.garbage_collection == GarbageCollection::Orphan;
    present.or(by_default.then_some(ORPHAN))
}
