//! Claims: values that at most one object may hold. They are written together with the objects if several servers share
//! a store, and repaired at intervals: other servers write them before or after the objects, and a store that one
//! server had to itself has none.

use std::cell::Cell;
use std::sync::Arc;

use holdfast_resource::{Claim, ClaimProblem, ClaimRepair, Claims, Registry};
use holdfast_store::{CommitError, Op, Transaction};
use holdfast_value::{Limits, SmolStr, Value, json};

use super::{Objects, Snapshot, Store, readable};
use crate::runtime::{Clock as _, SystemClock};

/// Number of checks in a row: a claim that is made again is removed first.
const ROUNDS: usize = 3;

/// Error of a repair.
#[derive(Debug, thiserror::Error)]
enum RepairError {
    /// An object cannot be read. It may hold claims, so that none is removed.
    #[error("objects cannot be read")]
    Unreadable,
    /// The store cannot be used.
    #[error("{0}")]
    Store(String),
}

/// Returns the prefixes of the keys of objects with claims.
pub(super) fn prefixes(registry: &Registry) -> Vec<SmolStr> {
    let claiming = registry
        .resources()
        .filter(|resource| resource.capabilities.claims.is_some());
    let storages = claiming.filter_map(|resource| resource.storage.as_ref());
    storages.map(|storage| storage.prefix.clone()).collect()
}

/// Repairs the claims of all kinds once, and returns the problems that it found. A store that an older version wrote, or
/// that another server shares, may lack claims. Claims of a kind with objects that cannot be read stay unchanged.
///
/// # Errors
/// If the store cannot be used; the text is the reason.
pub async fn repair(store: &Store, registry: &Registry) -> Result<Vec<ClaimProblem>, String> {
    let is_kept = |claim: &Claim| store.is_shared() || is_served(registry, claim);
    let mut problems = Vec::new();
    for resource in registry.resources() {
        if let (Some(kind), Some(storage)) = (&resource.capabilities.claims, &resource.storage) {
            match mend(store, kind, &storage.namespace_prefix(""), &is_kept).await {
                Ok(found) => problems.extend(found),
                Err(error @ RepairError::Unreadable) => {
                    tracing::error!(%error, prefix = %storage.prefix, "the allocations of objects are not repaired");
                }
                Err(RepairError::Store(error)) => return Err(error),
            }
        }
    }
    Ok(problems)
}

/// Returns true if the claim is an object of a served resource. Other claims are for servers that share a store.
fn is_served(registry: &Registry, claim: &Claim) -> bool {
    !registry.stored_around(claim.key.as_bytes()).is_empty()
}

/// Repairs the claims of a kind whose keys begin with `prefix`. Returns the problems that the first check found: later
/// ones see intermediate states.
async fn mend(
    store: &Store,
    kind: &Arc<dyn Claims>,
    prefix: &str,
    is_kept: &(dyn Fn(&Claim) -> bool + Sync),
) -> Result<Vec<ClaimProblem>, RepairError> {
    let mut problems = None;
    for round in 0..ROUNDS {
        let latest = store.latest().await;
        let snapshot = latest.map_err(|error| RepairError::Store(error.to_string()))?;
        let repair = check(kind, prefix, &snapshot).await?;
        problems.get_or_insert(repair.problems);
        let mut claims = repair.claims;
        claims.retain(is_kept);
        if claims.is_empty() {
            break;
        }
        tracing::info!(
            claims = claims.len(),
            prefix,
            round,
            "repairs the allocations of objects"
        );
        for claim in claims {
            let transaction = written(Transaction::new(), claim, &snapshot);
            match store.commit(transaction).await {
                // Another client writes it.
                Ok(_) | Err(CommitError::GuardFailed { .. }) => {}
                Err(error) => return Err(RepairError::Store(error.to_string())),
            }
        }
    }
    Ok(problems.unwrap_or_default())
}

/// Checks the claims of a kind whose keys begin with `prefix`, outside of the threads that answer requests.
///
/// # Errors
/// If one of the objects on which they depend cannot be read.
async fn check(kind: &Arc<dyn Claims>, prefix: &str, snapshot: &Snapshot) -> Result<ClaimRepair, RepairError> {
    let (kind, prefix, snapshot) = (Arc::clone(kind), prefix.to_owned(), snapshot.clone());
    let checked = tokio::task::spawn_blocking(move || repairs(&*kind, &prefix, &snapshot)).await;
    checked.map_err(|error| RepairError::Store(error.to_string()))?
}

/// Returns the writes that repair the claims of a kind whose keys begin with `prefix`, and the problems.
///
/// # Errors
/// If one of the objects on which they depend cannot be read.
fn repairs(kind: &dyn Claims, prefix: &str, snapshot: &Snapshot) -> Result<ClaimRepair, RepairError> {
    let is_complete = Cell::new(true);
    let below = |prefix: &str| {
        let entries = snapshot.range(prefix.as_bytes());
        let read = entries.filter_map(|entry| {
            let object = readable(entry);
            if object.is_none() {
                is_complete.set(false);
            }
            object
        });
        read.collect::<Vec<Value>>()
    };
    let repair = kind.repair(&below(prefix), &below, SystemClock.now());
    match is_complete.get() {
        true => Ok(repair),
        false => Err(RepairError::Unreadable),
    }
}

/// Adds the write of a claim to a transaction.
fn written(transaction: Transaction<Objects>, claim: Claim, state: &Snapshot) -> Transaction<Objects> {
    let Claim { key, object, is_new } = claim;
    let there = state.get(key.as_bytes()).filter(|_| !is_new);
    let transaction = transaction.guard(key.as_str(), there.map_or(0, |entry| entry.mod_revision()));
    match object {
        Some(object) => transaction.put(key.as_str(), value_of(object)),
        None => transaction.delete(key.as_str()),
    }
}

/// Adds the claims of the objects that a transaction writes; in a store that is not shared, only claims that are
/// objects of served resources. If another server was faster, a guard fails, and the write is repeated over the newer
/// state.
pub(super) fn complete(
    registry: &Registry,
    transaction: Transaction<Objects>,
    state: &Snapshot,
    is_shared: bool,
) -> Transaction<Objects> {
    let read = |key: &str| readable(state.get(key.as_bytes())?);
    let mut claims = Vec::new();
    for op in &transaction.ops {
        let around = registry.stored_around(op.key()).iter();
        let Some(kind) = around
            .filter_map(|resource| resource.capabilities.claims.as_ref())
            .next()
        else {
            continue;
        };
        let old = state.get(op.key()).and_then(|entry| readable(entry));
        let new = match op {
            Op::Put { value, .. } => json::parse(value.bytes(), &Limits::TRUSTED).ok(),
            Op::Delete { .. } => None,
        };
        claims.extend(kind.beside(old.as_ref(), new.as_ref(), &read, SystemClock.now()));
    }
    claims
        .into_iter()
        .filter(|claim| is_shared || is_served(registry, claim))
        .fold(transaction, |transaction, claim| written(transaction, claim, state))
}

/// Returns the store value of an object whose resource version is an empty text.
fn value_of(object: String) -> holdfast_store::Value {
    const ROOM: &str = "\"resourceVersion\":\"";
    let at = object.find(ROOM).and_then(|at| u32::try_from(at + ROOM.len()).ok());
    match at {
        Some(at) => holdfast_store::Value::object(object.into_bytes(), at),
        None => holdfast_store::Value::plain(object.into_bytes()),
    }
}
