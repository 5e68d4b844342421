//! What is to become of a dependent, by what became of its owners
//! (<https://kubernetes.io/docs/concepts/architecture/garbage-collection/>).

use holdfast_value::Value;

use super::graph::Dying;

/// What became of an owner.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum OwnerState {
    /// It is there, and is to stay for all that is known.
    Solid,
    /// It is to go, and waits for its dependents.
    Waiting,
    /// It does not exist.
    Dangling,
    /// No such kind is served, at least for now.
    Unknown,
    /// It is in a namespace, and the dependent is in none. That is not allowed, and nothing follows from it.
    Invalid,
}

/// What is to become of a dependent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Decision {
    /// It stays.
    Keep,
    /// It stays for now; it may be known later.
    Later,
    /// It stays without the owner references at these places.
    Detach(Vec<usize>),
    /// It is deleted.
    Delete {
        /// What happens to its own dependents.
        policy: &'static str,
        /// Whether it first stops blocking its owners, as one of them may wait for it through a circle.
        unblock: bool,
    },
}

/// Decides on a dependent whose owners are in these states, in the order of its references. `owns` says that it has dependents
/// itself, `circle` that one of these waits for its own dependents.
#[expect(clippy::indexing_slicing, reason = "a number below the number of owners")]
pub(super) fn decision(owners: &[OwnerState], finalizers: &[&str], owns: bool, circle: bool) -> Decision {
    // The first owner that whose state is unknown decides.
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
        let gone = (0..owners.len()).filter(|at| owners[*at] != OwnerState::Solid);
        let gone: Vec<usize> = gone.collect();
        return if gone.is_empty() {
            Decision::Keep
        } else {
            Decision::Detach(gone)
        };
    }
    if owners.contains(&OwnerState::Waiting) && owns {
        // What waits for this one is to wait for those behind it as well.
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

/// What finalizers ask of the collector.
pub(super) fn dying<'a>(mut finalizers: impl Iterator<Item = &'a str>) -> Option<Dying> {
    finalizers.find_map(|finalizer| match finalizer {
        ORPHAN => Some(Dying::Orphan),
        FOREGROUND => Some(Dying::Foreground),
        _ => None,
    })
}

/// The finalizer of objects whose dependents are to forget them.
pub(super) const ORPHAN: &str = "orphan";

/// The finalizer of objects that wait for their dependents.
pub(super) const FOREGROUND: &str = "foregroundDeletion";

/// The finalizers of an object.
pub(super) fn finalizers(object: &Value) -> impl Iterator<Item = &str> {
    let list = object.at(&["metadata", "finalizers"]).and_then(Value::as_list);
    list.into_iter().flat_map(|list| list.iter()).filter_map(Value::as_str)
}

#[cfg(test)]
mod tests {
    use super::OwnerState::{Dangling, Invalid, Solid, Unknown, Waiting};
    use super::*;

    fn of(owners: &[OwnerState]) -> Decision {
        decision(owners, &[], false, false)
    }

    fn delete(policy: &'static str) -> Decision {
        Decision::Delete { policy, unblock: false }
    }

    #[test]
    fn one_solid_owner_keeps_a_dependent_and_the_others_are_forgotten() {
        assert_eq!(of(&[Solid, Solid]), Decision::Keep);
        assert_eq!(of(&[Dangling, Solid, Waiting]), Decision::Detach(vec![0, 2]));
    }

    #[test]
    fn without_an_owner_a_dependent_goes_as_its_finalizers_say() {
        assert_eq!(of(&[Dangling, Dangling]), delete("Background"));
        assert_eq!(of(&[Dangling, Waiting]), delete("Background"));
        assert_eq!(decision(&[Dangling], &["a/b", "orphan"], true, false), delete("Orphan"));
        assert_eq!(
            decision(&[Dangling], &["foregroundDeletion"], false, false),
            delete("Foreground")
        );
    }

    #[test]
    fn who_is_waited_for_waits_for_its_own_dependents() {
        assert_eq!(decision(&[Waiting], &[], true, false), delete("Foreground"));
        let in_circle = Decision::Delete {
            policy: "Foreground",
            unblock: true,
        };
        assert_eq!(decision(&[Waiting], &[], true, true), in_circle);
    }

    #[test]
    fn nothing_is_deleted_for_owners_that_cannot_be_judged() {
        assert_eq!(of(&[Dangling, Unknown]), Decision::Later);
        assert_eq!(of(&[Invalid, Unknown]), Decision::Keep);
        assert_eq!(of(&[Dangling, Invalid]), Decision::Keep);
        assert_eq!(of(&[]), Decision::Keep);
    }
}
