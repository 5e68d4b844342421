//! Decision about a dependent, from the states of its owners
//! (<https://kubernetes.io/docs/concepts/architecture/garbage-collection/>).

use holdfast_value::Value;

use super::graph::Dying;

/// State of an owner.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum OwnerState {
    /// It exists, and is not waiting for its dependents' deletion.
    Solid,
    /// It is being deleted, and waits for its dependents.
    Waiting,
    /// It does not exist.
    Dangling,
    /// Its kind is not served, or the object cannot be read, at least for now.
    Unknown,
    /// It is namespaced and the dependent is cluster-scoped. That is not allowed, and has no effect.
    Invalid,
}

/// Decision about a dependent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Decision {
    /// Keep it.
    Keep,
    /// Keep it for now; the state may be known later.
    Later,
    /// Keep it, but remove the owner references at these positions.
    Detach(Vec<usize>),
    /// Delete it.
    Delete {
        /// Propagation policy for its own dependents.
        policy: &'static str,
        /// True if it must first stop blocking its owners, because one of them may wait for it in a circle.
        unblock: bool,
    },
}

/// Decides on a dependent whose owners are in these states, in the order of its references. `owns` is true if it has
/// dependents itself, `circle` if one of these waits for its own dependents.
#[expect(clippy::indexing_slicing, reason = "a number below the number of owners")]
pub(super) fn decision(owners: &[OwnerState], finalizers: &[&str], owns: bool, circle: bool) -> Decision {
    // The first owner whose state is unknown decides.
    match owners
        .iter()
        .find(|owner| matches!(owner, OwnerState::Unknown | OwnerState::Invalid))
    {
        Some(OwnerState::Unknown) => return Decision::Later,
        Some(_) => return Decision::Keep,
        None => {}
    }
    if owners.is_empty() {
        return Decision::Keep;
    }
    if owners.contains(&OwnerState::Solid) {
        let others = (0..owners.len()).filter(|at| owners[*at] != OwnerState::Solid);
        let gone: Vec<usize> = others.collect();
        return if gone.is_empty() {
            Decision::Keep
        } else {
            Decision::Detach(gone)
        };
    }
    if owners.contains(&OwnerState::Waiting) && owns {
        // The owner waits for this object, which must wait for its own dependents as well.
        return Decision::Delete {
            policy: "Foreground",
            unblock: circle,
        };
    }
    let policy = match dying(finalizers.iter().copied()) {
        Some(Dying::Orphan) => "Orphan",
        Some(Dying::Foreground) => "Foreground",
        None => "Background",
    };
    Decision::Delete { policy, unblock: false }
}

/// Returns what the finalizers request from the garbage collector.
pub(super) fn dying<'a>(mut finalizers: impl Iterator<Item = &'a str>) -> Option<Dying> {
    finalizers.find_map(|finalizer| match finalizer {
        ORPHAN => Some(Dying::Orphan),
        FOREGROUND => Some(Dying::Foreground),
        _ => None,
    })
}

/// Finalizer of objects whose dependents are to be orphaned.
pub(super) const ORPHAN: &str = "orphan";

/// Finalizer of objects that wait for their dependents.
pub(super) const FOREGROUND: &str = "foregroundDeletion";

/// Returns the finalizers of an object.
pub(super) fn finalizers(object: &Value) -> impl Iterator<Item = &str> {
    let list = object.at(&["metadata", "finalizers"]).and_then(Value::as_list);
    list.into_iter().flat_map(|list| list.iter()).filter_map(Value::as_str)
}

#[cfg(test)]
mod tests {
    use super::OwnerState::{Dangling, Invalid, Solid, Unknown, Waiting};
    use super::*;

    fn decide(owners: &[OwnerState]) -> Decision {
        decision(owners, &[], false, false)
    }

    fn delete(policy: &'static str) -> Decision {
        Decision::Delete { policy, unblock: false }
    }

    #[test]
    fn one_solid_owner_keeps_dependent_and_others_are_detached() {
        assert_eq!(decide(&[Solid, Solid]), Decision::Keep);
        assert_eq!(decide(&[Dangling, Solid, Waiting]), Decision::Detach(vec![0, 2]));
    }

    #[test]
    fn without_an_owner_a_dependent_goes_as_its_finalizers_say() {
        assert_eq!(decide(&[Dangling, Dangling]), delete("Background"));
        assert_eq!(decide(&[Dangling, Waiting]), delete("Background"));
        assert_eq!(decision(&[Dangling], &["a/b", "orphan"], true, false), delete("Orphan"));
        assert_eq!(
            decision(&[Dangling], &["foregroundDeletion"], false, false),
            delete("Foreground")
        );
    }

    #[test]
    fn dependent_of_waiting_owner_waits_for_its_own_dependents() {
        assert_eq!(decision(&[Waiting], &[], true, false), delete("Foreground"));
        let in_circle = Decision::Delete {
            policy: "Foreground",
            unblock: true,
        };
        assert_eq!(decision(&[Waiting], &[], true, true), in_circle);
    }

    #[test]
    fn nothing_is_deleted_for_owners_that_cannot_be_judged() {
        assert_eq!(decide(&[Dangling, Unknown]), Decision::Later);
        assert_eq!(decide(&[Invalid, Unknown]), Decision::Keep);
        assert_eq!(decide(&[Dangling, Invalid]), Decision::Keep);
        assert_eq!(decide(&[]), Decision::Keep);
    }
}
