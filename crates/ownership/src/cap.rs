//! The bound on how many Update entries an object has.

use std::collections::BTreeMap;

use holdfast_value::SmolStr;

use crate::entry::{Entry, Operation};
use crate::managed::{self, Managed, Record};

/// How many Update entries an object may have.
const UPDATE_LIMIT: usize = 10;

/// The manager of the entries that the oldest ones are merged into, one for each version.
const OLD_UPDATES: &str = "ancient-changes";

/// Merges the oldest Update entries of one version into one until no more than the limit are left. The first of a version
/// stays as it is until a second one comes.
pub(crate) fn cap_updates(managed: &mut Managed) {
    let mut updaters: Vec<(i64, SmolStr)> = managed
        .0
        .iter()
        .filter(|(_, record)| record.entry.operation == Operation::Update)
        .map(|(identifier, record)| (managed::seconds(&record.entry), identifier.clone()))
        .collect();
    let mut count = updaters.len();
    if count <= UPDATE_LIMIT {
        return;
    }
    updaters.sort();

    let mut first_of_version: BTreeMap<SmolStr, SmolStr> = BTreeMap::new();
    for (_, identifier) in updaters {
        if count <= UPDATE_LIMIT {
            return;
        }
        let Some(version) = managed
            .0
            .get(&identifier)
            .map(|record| record.entry.api_version.clone())
        else {
            continue;
        };
        let Some(first) = first_of_version.get(&version) else {
            first_of_version.insert(version, identifier);
            continue;
        };
        let bucket = Entry {
            manager: SmolStr::new_static(OLD_UPDATES),
            operation: Operation::Update,
            api_version: version.clone(),
            subresource: SmolStr::default(),
            time: None,
        };
        let bucket_identifier = bucket.identifier();
        let partner = match managed.0.contains_key(&bucket_identifier) {
            true if identifier != bucket_identifier => &bucket_identifier,
            _ => first,
        };
        let (older, newer) = (managed.0.remove(partner), managed.0.remove(&identifier));
        let (Some(older), Some(newer)) = (older, newer) else {
            continue;
        };
        let set = newer.set.union(&older.set);
        let time = newer.entry.time;
        managed
            .0
            .insert(bucket_identifier.clone(), Record::new(Entry { time, ..bucket }, set));
        first_of_version.insert(version, bucket_identifier);
        count -= 1;
    }
}
