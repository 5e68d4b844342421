//! States of the owners that a dependent names, with as few lookups as possible.
//!
//! A dependent may name thousands of owners. Each reference is looked up once while a dependent is checked. An absent
//! owner is remembered for later dependents: uids are unique, so it never appears again.

use std::collections::HashMap;
use std::sync::Arc;

use holdfast_limits::LruMap;
use parking_lot::Mutex;

use super::decision::OwnerState;
use super::graph::{Dying, ObjectRef};
use super::uid::Uid;

/// Minimum number of absent owners that are remembered.
const REMEMBERED: usize = 1 << 14;

/// Owners that are known to be absent.
#[derive(Clone, Debug)]
pub(super) struct AbsentOwners(Arc<Mutex<LruMap<(Uid, ObjectRef)>>>);

impl Default for AbsentOwners {
    fn default() -> Self {
        Self(Arc::new(Mutex::new(LruMap::new(REMEMBERED))))
    }
}

/// The object that currently has a reference.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Occupant {
    pub(super) uid: Uid,
    /// Request of its finalizers if it is being deleted.
    pub(super) dying: Option<Dying>,
}

/// References that were looked up for one dependent.
#[derive(Debug, Default)]
pub(super) struct Looks(HashMap<ObjectRef, Option<Occupant>>);

impl Looks {
    /// Returns the object with this reference, looked up at most once.
    pub(super) fn occupant(&mut self, place: &ObjectRef, look: impl FnOnce() -> Option<Occupant>) -> Option<&Occupant> {
        self.0.entry(place.clone()).or_insert_with(look).as_ref()
    }
}

impl AbsentOwners {
    /// Returns the state of the owner with that uid, which has the reference `place` if it exists.
    pub(super) fn standing(
        &self,
        uid: Uid,
        place: ObjectRef,
        looks: &mut Looks,
        look: impl FnOnce() -> Option<Occupant>,
    ) -> OwnerState {
        let owner = (uid, place);
        if self.0.lock().get(&owner).is_some() {
            return OwnerState::Dangling;
        }
        let occupant = looks.occupant(&owner.1, look);
        match occupant.filter(|occupant| occupant.uid == owner.0) {
            None => {
                self.0.lock().insert(owner, ());
                OwnerState::Dangling
            }
            Some(occupant) if occupant.dying == Some(Dying::Foreground) => OwnerState::Waiting,
            Some(_) => OwnerState::Solid,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    #[test]
    fn owner_is_looked_up_once_and_absent_owner_is_remembered() {
        let (absent, looked) = (AbsentOwners::default(), Cell::new(0));
        let collector = |looks: &mut Looks| {
            for n in 0..10_000 {
                let standing = absent.standing(Uid::new(&n.to_string()), ObjectRef::config_map("taken"), looks, || {
                    looked.set(looked.get() + 1);
                    let uid = Uid::new("7");
                    Some(Occupant { uid, dying: None })
                });
                assert_eq!(standing == OwnerState::Solid, n == 7);
            }
        };
        collector(&mut Looks::default());
        assert_eq!(looked.get(), 1);
        collector(&mut Looks::default());
        assert_eq!(looked.get(), 2, "only who is there is looked at again");
    }

    #[test]
    fn ten_thousand_absent_owners_are_ten_thousand_looks_in_all() {
        let (absent, looked) = (AbsentOwners::default(), Cell::new(0));
        for _ in 0..3 {
            let mut looks = Looks::default();
            for n in 0..10_000 {
                let name = n.to_string();
                let standing = absent.standing(Uid::new(&name), ObjectRef::config_map(&name), &mut looks, || {
                    looked.set(looked.get() + 1);
                    None
                });
                assert_eq!(standing, OwnerState::Dangling);
            }
        }
        assert_eq!(looked.get(), 10_000);
    }
}
