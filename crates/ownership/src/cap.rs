//! Limit on the number of Update entries of an object.

use std::collections::BTreeMap;

use holdfast_merge::Set;
use holdfast_value::SmolStr;

use crate::entry::{Entry, Operation};
use crate::managed::{self, Managed, Record};
use crate::timestamp::Timestamp;

/// Maximum number of Update entries of an object.
const UPDATE_LIMIT: usize = 10;

/// Manager of the entries that the oldest ones are merged into, one for each version.
const OLD_UPDATES: &str = "ancient-changes";

/// Merged entries of one version.
#[derive(Default)]
struct Bucket {
    /// Oldest entry. It is unchanged unless a second one is merged.
    first: Option<SmolStr>,
    /// Sets of the merged entries.
    sets: Vec<Set>,
    /// Time of the newest merged entry.
    time: Option<Timestamp>,
}

/// Merges the oldest Update entries, version by version, until at most the limit remains.
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
        // An earlier write may have merged into this bucket already.
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
            // The first entry is merged into the bucket, unless an earlier bucket exists: that is merged only with
            // newer entries.
            let bucket_identifier = Some(bucket_entry(version).identifier());
            let earlier = bucket_identifier.filter(|bucket| *bucket != identifier && managed.0.contains_key(bucket));
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

/// Returns the union of many sets, combined in pairs: an object with thousands of entries must not cost quadratic time.
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
