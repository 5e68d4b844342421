//! Events about owner references to another namespace, which are always invalid
//! (<https://kubernetes.io/docs/concepts/architecture/garbage-collection/#owners-dependents>).

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use holdfast_limits::LruMap;
use holdfast_resource::Resource;
use holdfast_schema::GroupResource;
use holdfast_server::operations::loopback::{Client, Object};
use holdfast_value::Value;
use memchr::memmem;
use parking_lot::Mutex;
use smol_str::SmolStr;

use super::graph::ObjectRef;
use super::uid::Uid;
use super::uid_of;
use crate::events::{Recorder, Warning};

/// Minimum number of remembered owners and references.
const REMEMBERED: usize = 1 << 14;
/// Maximum number of events of a dependent at a time, as in the reference's recorder.
const MAX_REPORTED: usize = 25;
/// Number of objects after which the task yields to others.
const RUN: usize = 512;

/// Creates events about owner references to another namespace.
#[derive(Clone)]
pub(super) struct Report {
    client: Client,
    recorder: Recorder,
    known: Arc<Mutex<EarlierSearches>>,
}

/// Results of earlier searches.
struct EarlierSearches {
    /// Namespaces of owners, if they have one. Thousands of dependents may have lost the same owner.
    owners: LruMap<Uid, Option<SmolStr>>,
    /// Dependents and owners that an event has reported.
    reported: LruMap<(Uid, Uid)>,
}

/// A reference whose owner is not at the expected place, and the owner's resource.
pub(super) type Missing<'a> = (&'a Value, Arc<Resource>);

impl Report {
    pub(super) fn new(client: Client) -> Self {
        let known = EarlierSearches {
            owners: LruMap::new(REMEMBERED),
            reported: LruMap::new(REMEMBERED),
        };
        Self {
            recorder: Recorder::new(client.clone(), super::NAME),
            client,
            known: Arc::new(Mutex::new(known)),
        }
    }

    /// Reports, by events, which of the missing owners are in another namespace.
    pub(super) async fn emit(&self, dependent: &Value, place: &ObjectRef, missing: Vec<Missing<'_>>) {
        let missing: Vec<Missing<'_>> = missing.into_iter().filter(|(_, owner)| owner.namespaced()).collect();
        self.look_into(&missing).await;
        let misplaced = self.misplaced(&uid_of(dependent), place, &missing);
        for reference in misplaced.into_iter().take(MAX_REPORTED) {
            let warning = Warning {
                object: dependent,
                reason: "OwnerRefInvalidNamespace",
                message: &message(place, reference),
            };
            self.recorder.warn(warning).await;
        }
    }

    /// Returns the references that an event must report.
    fn misplaced<'a>(&self, dependent: &Uid, place: &ObjectRef, missing: &[Missing<'a>]) -> Vec<&'a Value> {
        let mut known = self.known.lock();
        let mut misplaced = Vec::new();
        for (reference, _) in missing {
            let owner = uid_in(reference);
            let namespace = known.owners.get(&owner).and_then(Option::as_ref);
            let elsewhere = namespace.is_some_and(|namespace| *namespace != place.namespace);
            if elsewhere && known.reported.insert((dependent.clone(), owner), ()).is_none() {
                misplaced.push(*reference);
            }
        }
        misplaced
    }

    /// Searches for the namespaces of owners that are not known yet: all owners of a resource in one pass.
    async fn look_into(&self, missing: &[Missing<'_>]) {
        let mut searches: HashMap<GroupResource, (Arc<Resource>, Search)> = HashMap::new();
        {
            let mut known = self.known.lock();
            for (reference, resource) in missing {
                let uid = uid_in(reference);
                if known.owners.get(&uid).is_none() {
                    let begin = || (Arc::clone(resource), Search::default());
                    let search = searches.entry(resource.group_resource()).or_insert_with(begin);
                    search.1.wanted.insert(uid);
                }
            }
        }
        for (resource, mut search) in searches.into_values() {
            self.run(&resource, &mut search).await;
            let mut known = self.known.lock();
            for uid in search.wanted {
                known.owners.insert(uid, None);
            }
            for (uid, namespace) in search.found {
                known.owners.insert(uid, Some(namespace));
            }
        }
    }

    /// Searches all objects of a resource, in runs.
    async fn run(&self, resource: &Resource, search: &mut Search) {
        let objects = self.client.list(resource, "");
        let mut last = None;
        while !search.wanted.is_empty() {
            let mut looked = 0;
            let from: Option<Object> = last.take();
            for object in objects.after(from.as_ref()).take(RUN) {
                search.look(&object.bytes(), object.namespace(resource));
                looked += 1;
                last = Some(object);
            }
            if looked < RUN {
                return;
            }
            tokio::task::yield_now().await;
        }
    }
}

fn uid_in(reference: &Value) -> Uid {
    Uid::new(reference.str_at(&["uid"]).unwrap_or_default())
}

/// A search for objects by their uids that parses no object.
#[derive(Default)]
struct Search {
    wanted: HashSet<Uid>,
    found: Vec<(Uid, SmolStr)>,
}

impl Search {
    /// Checks an object. Its uid is in its metadata, which precede all other fields that could contain a member of that
    /// name.
    fn look(&mut self, bytes: &[u8], namespace: &str) {
        const MEMBER: &[u8] = br#""uid":""#;
        let Some(start) = memmem::find(bytes, MEMBER).map(|at| at + MEMBER.len()) else {
            return;
        };
        let rest = bytes.get(start..).unwrap_or_default();
        let end = memchr::memchr(b'"', rest).unwrap_or_default();
        let text = std::str::from_utf8(rest.get(..end).unwrap_or_default()).unwrap_or_default();
        if let Some(uid) = self.wanted.take(&Uid::new(text)) {
            self.found.push((uid, namespace.into()));
        }
    }
}

/// Returns the message about an owner reference to another namespace.
fn message(place: &ObjectRef, reference: &Value) -> String {
    let text = |key: &str| reference.str_at(&[key]).unwrap_or_default();
    format!(
        "ownerRef [{}/{}, namespace: {}, name: {}, uid: {}] does not exist in namespace \"{}\"",
        text("apiVersion"),
        text("kind"),
        place.namespace,
        text("name"),
        text("uid"),
        place.namespace,
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_owners_of_a_resource_are_found_in_one_pass() {
        let mut search = Search {
            wanted: (0..10_000).map(|n| Uid::new(&format!("uid-{n}"))).collect(),
            found: Vec::new(),
        };
        for n in 9_998..10_003 {
            let object = format!(r#"{{"kind":"ConfigMap","metadata":{{"name":"c","uid":"uid-{n}"}},"data":{{}}}}"#);
            search.look(object.as_bytes(), "elsewhere");
        }
        search.look(br#"{"kind":"ConfigMap","metadata":{"name":"c"}}"#, "elsewhere");
        search.look(br#"{"metadata":{"uid":"#, "elsewhere");
        let found: Vec<Uid> = search.found.into_iter().map(|(uid, _)| uid).collect();
        assert_eq!(found, [Uid::new("uid-9998"), Uid::new("uid-9999")]);
        assert_eq!(search.wanted.len(), 9_998);
    }
}
