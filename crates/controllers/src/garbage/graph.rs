//! The graph of owners and dependents: a state machine without I/O.
//!
//! The graph contains only objects with owner references, and their owners, by uid. Objects without owners and
//! dependents cost nothing, in any number.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::sync::Arc;

use holdfast_schema::GroupResource;
use smallvec::SmallVec;
use smol_str::SmolStr;

use super::uid::Uid;

/// Reference of an object: resource, namespace and name.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct ObjectRef {
    /// Resource. Shared, because thousands of objects have the same one.
    pub(super) resource: Arc<GroupResource>,
    /// Namespace; empty for cluster-scoped resources.
    pub(super) namespace: SmolStr,
    /// Name.
    pub(super) name: SmolStr,
}

/// Request of the finalizers of an object that is being deleted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Dying {
    /// `foregroundDeletion`: dependents that block it are deleted first.
    Foreground,
    /// `orphan`: dependents lose their references to it.
    Orphan,
}

/// Observed state of an object.
#[derive(Clone, Debug)]
pub(super) struct ObservedObject {
    /// Uid.
    pub(super) uid: Uid,
    /// Reference of the object.
    pub(super) place: ObjectRef,
    /// Owner references.
    pub(super) owners: Vec<ObservedOwner>,
    /// Request of its finalizers if it is being deleted.
    pub(super) dying: Option<Dying>,
}

/// Observed owner reference.
#[derive(Clone, Debug)]
pub(super) struct ObservedOwner {
    /// Uid of the owner.
    pub(super) uid: Uid,
    /// Expected reference of the owner; `None` if its kind is not served, or it cannot own this object.
    pub(super) place: Option<ObjectRef>,
    /// True if the owner must wait for this object (`blockOwnerDeletion`).
    pub(super) blocks: bool,
}

/// Work to be done.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum Task {
    /// Check whether a dependent still has an owner.
    Check(Uid),
    /// Do the work that an object being deleted waits for.
    End(Uid),
}

/// Graph of owners and dependents.
#[derive(Default)]
pub(super) struct Graph {
    dependents: HashMap<Uid, Dependent>,
    owners: HashMap<Uid, Owner>,
    dying: HashMap<Uid, (ObjectRef, Dying)>,
}

struct Dependent {
    place: ObjectRef,
    references: SmallVec<[Reference; 1]>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Reference {
    owner: Uid,
    blocks: bool,
    /// True if it describes its owner differently from the other references to it, so that it is checked separately.
    apart: bool,
}

struct Owner {
    /// Reference of the owner according to the first owner reference.
    place: Option<ObjectRef>,
    /// True if it was seen there and has not been deleted since.
    present: bool,
    /// Ordered, so that the order of the work does not depend on hashes.
    dependents: BTreeSet<Uid>,
    /// Number of dependents that it must wait for.
    blocking: usize,
}

impl Graph {
    /// Returns true if there are no dependents and no waiting objects.
    pub(super) fn is_empty(&self) -> bool {
        self.dependents.is_empty() && self.dying.is_empty()
    }

    /// Records the current state of an object. `exists` returns true if the object of that uid is at that key.
    pub(super) fn see(&mut self, seen: ObservedObject, exists: &mut dyn FnMut(&ObjectRef, &Uid) -> bool) -> Vec<Task> {
        let mut tasks = Vec::new();
        self.see_end(&seen, &mut tasks);
        let before = self.dependents.remove(&seen.uid);
        let old = before.map(|dependent| dependent.references).unwrap_or_default();
        self.take_back(&seen.uid, &old);
        let known: HashSet<&Uid> = old.iter().map(|reference| &reference.owner).collect();
        let mut references: SmallVec<[Reference; 1]> = SmallVec::new();
        let (mut named, mut doubtful) = (HashSet::new(), false);
        for owner in seen.owners {
            if !named.insert(owner.uid.clone()) {
                continue;
            }
            let (reference, sound) = self.refer(owner, &seen.uid, exists);
            doubtful |= !sound && !known.contains(&reference.owner);
            references.push(reference);
        }
        if doubtful {
            tasks.push(Task::Check(seen.uid.clone()));
        }
        self.release_owners(&old, &mut tasks);
        if !references.is_empty() {
            let dependent = Dependent {
                place: seen.place,
                references,
            };
            self.dependents.insert(seen.uid, dependent);
        }
        tasks
    }

    /// Records that the object of this uid is deleted.
    pub(super) fn remove(&mut self, uid: &Uid) -> Vec<Task> {
        let mut tasks = Vec::new();
        self.dying.remove(uid);
        if let Some(dependent) = self.dependents.remove(uid) {
            self.take_back(uid, &dependent.references);
            self.release_owners(&dependent.references, &mut tasks);
        }
        if let Some(owner) = self.owners.get_mut(uid) {
            owner.present = false;
            tasks.extend(owner.dependents.iter().cloned().map(Task::Check));
        }
        tasks
    }

    /// Returns the reference of the dependent with this uid, if one of its owners may be deleted.
    pub(super) fn doubtful(&self, uid: &Uid) -> Option<&ObjectRef> {
        let dependent = self.dependents.get(uid)?;
        let sound = |reference: &Reference| {
            let owner = self.owners.get(&reference.owner);
            !reference.apart && owner.is_some_and(|owner| owner.present) && !self.dying.contains_key(&reference.owner)
        };
        (!dependent.references.iter().all(sound)).then_some(&dependent.place)
    }

    /// Returns true if the object with this uid has dependents.
    pub(super) fn is_owner(&self, uid: &Uid) -> bool {
        self.owners.contains_key(uid)
    }

    /// Returns true if a dependent of the object with this uid waits for its own dependents: then the object may wait
    /// for itself.
    pub(super) fn is_in_circle(&self, uid: &Uid) -> bool {
        let owner = self.owners.get(uid);
        owner.is_some_and(|owner| {
            let waits = |dependent: &Uid| matches!(self.dying.get(dependent), Some((_, Dying::Foreground)));
            owner.dependents.iter().any(waits)
        })
    }

    /// Returns the reference and the request of an object that is being deleted.
    pub(super) fn dying(&self, uid: &Uid) -> Option<&(ObjectRef, Dying)> {
        self.dying.get(uid)
    }

    /// Returns true if the object with this uid must wait for dependents.
    pub(super) fn is_blocked(&self, uid: &Uid) -> bool {
        self.owners.get(uid).is_some_and(|owner| owner.blocking > 0)
    }

    /// Returns the dependents of an object whose references have its correct location.
    pub(super) fn dependents_of(&self, uid: &Uid) -> Vec<(Uid, ObjectRef)> {
        let dependents = self.owners.get(uid).into_iter().flat_map(|owner| &owner.dependents);
        dependents
            .filter_map(|dependent| {
                let known = self.dependents.get(dependent)?;
                let reference = known.references.iter().find(|reference| reference.owner == *uid)?;
                (!reference.apart).then(|| (dependent.clone(), known.place.clone()))
            })
            .collect()
    }

    /// Records whether and how an object is being deleted.
    fn see_end(&mut self, seen: &ObservedObject, tasks: &mut Vec<Task>) {
        let Some(dying) = seen.dying else {
            self.dying.remove(&seen.uid);
            return;
        };
        let before = self.dying.insert(seen.uid.clone(), (seen.place.clone(), dying));
        if before.is_some_and(|(_, before)| before == dying) {
            return;
        }
        tasks.push(Task::End(seen.uid.clone()));
        if dying == Dying::Foreground
            && let Some(owner) = self.owners.get(&seen.uid)
        {
            tasks.extend(owner.dependents.iter().cloned().map(Task::Check));
        }
    }

    /// Adds a reference to its owner. Returns true if the owner is known to exist.
    fn refer(
        &mut self,
        seen: ObservedOwner,
        dependent: &Uid,
        exists: &mut dyn FnMut(&ObjectRef, &Uid) -> bool,
    ) -> (Reference, bool) {
        let owner = self.owners.entry(seen.uid.clone()).or_insert_with(|| Owner {
            place: seen.place.clone(),
            present: false,
            dependents: BTreeSet::new(),
            blocking: 0,
        });
        if !owner.present && seen.place.as_ref().is_some_and(|place| exists(place, &seen.uid)) {
            owner.present = true;
            if owner.place != seen.place {
                // The earlier references were wrong.
                owner.place.clone_from(&seen.place);
                owner.blocking = 0;
                for misled in &owner.dependents {
                    let misled = self.dependents.get_mut(misled).into_iter();
                    for reference in misled.flat_map(|misled| &mut misled.references) {
                        reference.apart |= reference.owner == seen.uid;
                    }
                }
            }
        }
        let reference = Reference {
            apart: seen.place.is_none() || seen.place != owner.place,
            owner: seen.uid,
            blocks: seen.blocks,
        };
        owner.dependents.insert(dependent.clone());
        owner.blocking += usize::from(reference.counts());
        let sound = owner.present && !reference.apart && !self.dying.contains_key(&reference.owner);
        (reference, sound)
    }

    /// Removes the references of a dependent from their owners.
    fn take_back(&mut self, dependent: &Uid, references: &[Reference]) {
        for reference in references {
            if let Some(owner) = self.owners.get_mut(&reference.owner) {
                owner.blocking -= usize::from(reference.counts());
                owner.dependents.remove(dependent);
            }
        }
    }

    /// Removes owners without references, and queues those that no dependent blocks any more.
    fn release_owners(&mut self, references: &[Reference], tasks: &mut Vec<Task>) {
        for Reference { owner: uid, .. } in references {
            let Some(owner) = self.owners.get(uid) else {
                continue;
            };
            if owner.blocking == 0 && self.dying.contains_key(uid) {
                tasks.push(Task::End(uid.clone()));
            }
            if owner.dependents.is_empty() {
                self.owners.remove(uid);
            }
        }
    }
}

impl Reference {
    /// Returns true if the owner waits for it. A reference with a wrong location of its owner does not block.
    fn counts(&self) -> bool {
        self.blocks && !self.apart
    }
}

#[cfg(test)]
impl ObjectRef {
    /// Returns the reference of a ConfigMap in the namespace `n`.
    pub(super) fn config_map(name: &str) -> Self {
        let resource = GroupResource {
            group: "".into(),
            resource: "configmaps".into(),
        };
        Self {
            resource: Arc::new(resource),
            namespace: "n".into(),
            name: name.into(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn uid(name: &str) -> Uid {
        Uid::new(name)
    }

    /// Returns an object whose uid is its name, with such owners; `!` before a name means that it blocks the owner.
    fn seen(name: &str, owners: &[&str]) -> ObservedObject {
        let owner = |text: &&str| {
            let name = text.trim_start_matches('!');
            ObservedOwner {
                uid: uid(name),
                place: Some(ObjectRef::config_map(name)),
                blocks: text.starts_with('!'),
            }
        };
        ObservedObject {
            uid: uid(name),
            place: ObjectRef::config_map(name),
            owners: owners.iter().map(owner).collect(),
            dying: None,
        }
    }

    fn dying(name: &str, owners: &[&str], dying: Dying) -> ObservedObject {
        ObservedObject {
            dying: Some(dying),
            ..seen(name, owners)
        }
    }

    fn check(name: &str) -> Task {
        Task::Check(uid(name))
    }

    fn end(name: &str) -> Task {
        Task::End(uid(name))
    }

    /// Records an object whose owners all exist, or do not exist.
    fn see(graph: &mut Graph, seen: ObservedObject, owners_exist: bool) -> Vec<Task> {
        graph.see(seen, &mut |_, _| owners_exist)
    }

    const ALL: bool = true;
    const NONE: bool = false;

    #[test]
    fn objects_without_owners_leave_no_trace() {
        let mut graph = Graph::default();
        assert!(see(&mut graph, seen("a", &[]), ALL).is_empty());
        assert!(graph.is_empty());
        see(&mut graph, seen("b", &["a"]), ALL);
        see(&mut graph, seen("b", &[]), ALL);
        assert!(graph.is_empty() && graph.owners.is_empty());
    }

    #[test]
    fn a_dependent_is_checked_when_its_owner_goes_and_not_before() {
        let mut graph = Graph::default();
        assert!(see(&mut graph, seen("child", &["owner"]), ALL).is_empty());
        assert!(graph.doubtful(&uid("child")).is_none());
        assert_eq!(graph.remove(&uid("owner")), [check("child")]);
        assert_eq!(graph.doubtful(&uid("child")), Some(&ObjectRef::config_map("child")));
        assert!(graph.remove(&uid("child")).is_empty());
        assert!(graph.is_empty() && graph.owners.is_empty());
    }

    #[test]
    fn an_owner_that_was_never_there_is_noticed_at_once() {
        let mut graph = Graph::default();
        assert_eq!(see(&mut graph, seen("child", &["nobody"]), NONE), [check("child")]);
        assert!(
            see(&mut graph, seen("child", &["nobody"]), NONE).is_empty(),
            "and reported once"
        );
    }

    #[test]
    fn reference_with_other_owner_place_is_checked_separately() {
        let mut graph = Graph::default();
        see(&mut graph, seen("child", &["owner"]), ALL);
        let mut other = seen("other", &["!owner"]);
        other.owners[0].place = Some(ObjectRef::config_map("misplaced"));
        assert_eq!(see(&mut graph, other, ALL), [check("other")]);
        assert!(graph.doubtful(&uid("other")).is_some());
        assert!(!graph.is_blocked(&uid("owner")), "it blocks none");
        assert_eq!(
            graph.dependents_of(&uid("owner")),
            [(uid("child"), ObjectRef::config_map("child"))]
        );
    }

    #[test]
    fn first_misplaced_reference_does_not_affect_others() {
        let mut graph = Graph::default();
        let there = &mut |at: &ObjectRef, _: &Uid| *at == ObjectRef::config_map("owner");
        let mut wrong = seen("wrong", &["!owner"]);
        wrong.owners[0].place = Some(ObjectRef::config_map("misplaced"));
        assert_eq!(graph.see(wrong, there), [check("wrong")]);
        assert!(graph.see(seen("right", &["!owner"]), there).is_empty());
        assert_eq!(
            graph.dependents_of(&uid("owner")),
            [(uid("right"), ObjectRef::config_map("right"))]
        );
        graph.remove(&uid("right"));
        assert!(!graph.is_blocked(&uid("owner")));
        assert!(graph.doubtful(&uid("wrong")).is_some());
    }

    #[test]
    fn an_owner_in_the_foreground_waits_for_those_who_block_it() {
        let mut graph = Graph::default();
        see(&mut graph, seen("blocking", &["!owner"]), ALL);
        see(&mut graph, seen("free", &["owner"]), ALL);
        let mut tasks = see(&mut graph, dying("owner", &[], Dying::Foreground), ALL);
        assert_eq!(tasks.remove(0), end("owner"));
        assert!(tasks.contains(&check("blocking")) && tasks.contains(&check("free")));
        assert!(graph.is_blocked(&uid("owner")));
        assert!(graph.doubtful(&uid("blocking")).is_some(), "its owner is about to go");
        assert_eq!(graph.remove(&uid("blocking")), [end("owner")]);
        assert!(!graph.is_blocked(&uid("owner")));
        assert!(see(&mut graph, dying("owner", &[], Dying::Foreground), ALL).is_empty());
        assert_eq!(graph.remove(&uid("owner")), [check("free")]);
    }

    #[test]
    fn a_dependent_that_lets_its_owner_go_blocks_it_no_more() {
        let mut graph = Graph::default();
        see(&mut graph, seen("child", &["!owner"]), ALL);
        see(&mut graph, dying("owner", &[], Dying::Foreground), ALL);
        assert_eq!(see(&mut graph, seen("child", &["owner"]), ALL), [end("owner")]);
        assert_eq!(
            see(&mut graph, seen("late", &["!owner"]), ALL),
            [check("late")],
            "who comes late is to go too"
        );
        assert!(graph.is_blocked(&uid("owner")));
    }

    #[test]
    fn a_circle_of_owners_is_seen() {
        let mut graph = Graph::default();
        see(&mut graph, seen("a", &["!b"]), ALL);
        see(&mut graph, seen("b", &["!a"]), ALL);
        assert!(!graph.is_in_circle(&uid("b")));
        see(&mut graph, dying("a", &["!b"], Dying::Foreground), ALL);
        assert!(graph.is_in_circle(&uid("b")));
    }

    #[test]
    fn the_end_of_an_orphaning_owner_is_reported_once() {
        let mut graph = Graph::default();
        see(&mut graph, seen("child", &["owner"]), ALL);
        assert_eq!(see(&mut graph, dying("owner", &[], Dying::Orphan), ALL), [end("owner")]);
        assert_eq!(
            graph.dying(&uid("owner")),
            Some(&(ObjectRef::config_map("owner"), Dying::Orphan))
        );
        assert!(see(&mut graph, seen("owner", &[]), ALL).is_empty());
        assert!(graph.dying(&uid("owner")).is_none());
    }

    #[test]
    fn each_owner_is_looked_up_once_however_often_it_is_named() {
        let mut graph = Graph::default();
        let names: Vec<String> = (0..10_000).map(|n| format!("o{}", n % 5_000)).collect();
        let owners: Vec<&str> = names.iter().map(String::as_str).collect();
        let mut questions = 0;
        let tasks = graph.see(seen("child", &owners), &mut |_, _| {
            questions += 1;
            false
        });
        assert_eq!((tasks, questions), (vec![check("child")], 5_000));
        assert!(graph.remove(&uid("child")).is_empty());
        assert!(graph.is_empty() && graph.owners.is_empty());
    }
}
