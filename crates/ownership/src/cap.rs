//! The bound on how many Update entries an object has.

use std::collections::BTreeMap;

use holdfast_merge::Set;
use holdfast_value::SmolStr;

use crate::entry::{Entry, Operation};
use crate::managed::{self, Managed, Record};
use crate::timestamp::Timestamp;

/// How many Update entries an object may have.
const UPDATE_LIMIT: usize = 10;

/// The manager of the entries that the oldest ones are merged into, one for each version.
const OLD_UPDATES: &str = "ancient-changes";

/// What is merged of one version.
#[derive(Default)]
struct Bucket {
    /// The oldest entry. It stays as it is unless a second one is to be merged.
    first: Option<SmolStr>,
    /// The sets of the entries that are merged.
    sets: Vec<Set>,
    /// The time of the newest of them.
    time: Option<Timestamp>,
}

/// Merges the oldest Update entries, version by version, until no more than the limit are left.
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

    let mut buckets: BTreeMap<SmolStr, Bucket> = BTreeMap::new();
    for (_, identifier) in updaters {
        if count <= UPDATE_LIMIT {
            break;
        }
        // A bucket of earlier writes may be merged already.
        let Some(record) = managed.0.get(&identifier) else {
            continue;
        };
        let version = record.entry.api_version.clone();
        let bucket = buckets.entry(version.clone()).or_default();
        if bucket.sets.is_empty() {
            let Some(first) = bucket.first.clone() else {
                bucket.first = Some(identifier);
                continue;
            };
            // The first goes into the bucket, unless there is one: that is merged with what is newer alone.
            let earlier = Some(bucket_entry(version).identifier());
            let earlier = earlier.filter(|earlier| *earlier != identifier && managed.0.contains_key(earlier));
            let partner = managed.0.remove(&earlier.unwrap_or(first));
            bucket.sets.extend(partner.map(|record| record.set));
        }
        if let Some(record) = managed.0.remove(&identifier) {
            bucket.sets.push(record.set);
            bucket.time = record.entry.time;
            count -= 1;
        }
    }
    for (version, bucket) in buckets {
        if !bucket.sets.is_empty() {
            let mut entry = bucket_entry(version);
            entry.time = bucket.time;
            managed
                .0
                .insert(entry.identifier(), Record::new(entry, union(bucket.sets)));
        }
    }
}

fn bucket_entry(api_version: SmolStr) -> Entry {
    Entry {
        manager: SmolStr::new_static(OLD_UPDATES),
        operation: Operation::Update,
        api_version,
        subresource: SmolStr::default(),
        time: None,
    }
}

/// The union of many sets, in pairs: an object that comes with thousands of entries must not take the square of that.
fn union(mut sets: Vec<Set>) -> Set {
    while sets.len() > 1 {
        sets = sets
            .chunks(2)
            .map(|pair| match pair {
                [a, b] => a.union(b),
                _ => pair.first().cloned().unwrap_or_default(),
            })
            .collect();
    }
    sets.pop().unwrap_or_default()
}
