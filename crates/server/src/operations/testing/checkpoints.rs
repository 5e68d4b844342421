//! `/testing/checkpoints`: states of the store, to which a test can return.
//!
//! A checkpoint shares all objects with the store: it copies nothing. A restore writes and removes the objects that
//! differ, at new resource versions.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use holdfast_gotext::duration;
use holdfast_gotext::time::{Precision, Timestamp};
use holdfast_schema::GroupResource;
use holdfast_schema::metadata::formats::dns_subdomain;
use holdfast_store::{RestoreError, Restored};
use http::StatusCode;
use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use smol_str::SmolStr;
use tokio::sync::Mutex as AsyncMutex;
use tokio::time::Instant;

use super::{Call, ForkState};
use crate::api::context::Context;
use crate::http::ApiError;
use crate::http::response::Response;
use crate::http::status::TakenName;
use crate::objects::Snapshot;
use crate::runtime::watch_gate::WatchGate;

/// Maximum number of checkpoints.
pub const MAX_CHECKPOINTS: usize = 64;

/// Checkpoints of a server.
#[derive(Debug, Default)]
pub struct Checkpoints {
    kept: Mutex<BTreeMap<SmolStr, Checkpoint>>,
    /// Gate of the watches.
    pub(crate) gate: WatchGate,
    /// Lock of restores.
    restoring: AsyncMutex<()>,
}

#[derive(Clone, Debug)]
struct Checkpoint {
    snapshot: Snapshot,
    created: SystemTime,
    objects: usize,
}

/// Checkpoint as clients see it.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Report {
    name: SmolStr,
    creation_timestamp: SmolStr,
    resource_version: String,
    objects: usize,
}

#[derive(Serialize)]
struct CheckpointList {
    checkpoints: Vec<Report>,
}

/// Body of a request for a new checkpoint.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct NewCheckpoint {
    name: SmolStr,
}

/// Body of a request for a restore.
#[derive(Clone, Copy, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct RestoreOptions {
    watchers: Watchers,
}

/// Effect of a restore on the watches.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
enum Watchers {
    /// They get the changes as events.
    #[default]
    Differences,
    /// They get the error 410 and end, and nothing before the restore can be watched from or listed.
    Expire,
}

/// Result of a restore as clients see it.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct RestoreReport {
    resource_version: String,
    created: usize,
    updated: usize,
    deleted: usize,
    duration: String,
}

fn resource() -> GroupResource {
    GroupResource {
        group: SmolStr::default(),
        resource: SmolStr::new_static("checkpoints"),
    }
}

/// Lists, creates or deletes checkpoints.
pub(super) fn collection(checkpoints: &Checkpoints, context: &Context, call: &Call<'_>) -> Result<Response, ApiError> {
    match call.method.as_str() {
        "GET" => call.answer(StatusCode::OK, &checkpoints.list()),
        "POST" => {
            let NewCheckpoint { name } = call.document()?;
            call.answer(StatusCode::CREATED, &checkpoints.create(context, &name)?)
        }
        "DELETE" => {
            let list = checkpoints.list();
            checkpoints.kept.lock().clear();
            call.answer(StatusCode::OK, &list)
        }
        _ => Err(ApiError::method_not_allowed()),
    }
}

/// Returns or deletes a checkpoint.
pub(super) fn single(checkpoints: &Checkpoints, name: &str, call: &Call<'_>) -> Result<Response, ApiError> {
    let found = match call.method.as_str() {
        "GET" => checkpoints.kept.lock().get(name).cloned(),
        "DELETE" => checkpoints.kept.lock().remove(name),
        _ => return Err(ApiError::method_not_allowed()),
    };
    let checkpoint = found.ok_or_else(|| ApiError::not_found(&resource(), name))?;
    call.answer(StatusCode::OK, &checkpoint.report(name))
}

/// Restores a checkpoint. The restore is completed even if the client disconnects.
pub(super) async fn restore(
    checkpoints: &Arc<Checkpoints>,
    context: &Arc<Context>,
    name: &str,
    call: &Call<'_>,
) -> Result<Response, ApiError> {
    if call.method != http::Method::POST {
        return Err(ApiError::method_not_allowed());
    }
    let options: RestoreOptions = match call.body.is_empty() {
        true => RestoreOptions::default(),
        false => call.document()?,
    };
    let kept = checkpoints.kept.lock().get(name).cloned();
    let snapshot = kept.ok_or_else(|| ApiError::not_found(&resource(), name))?.snapshot;
    let (checkpoints, context) = (Arc::clone(checkpoints), Arc::clone(context));
    let work = async move { checkpoints.restore(&context, &snapshot, options.watchers).await };
    let ended = tokio::spawn(work).await;
    let report = ended.map_err(|_| ApiError::internal("the restore failed"))??;
    call.answer(StatusCode::OK, &report)
}

impl Checkpoints {
    fn list(&self) -> CheckpointList {
        let kept = self.kept.lock();
        CheckpointList {
            checkpoints: kept.iter().map(|(name, checkpoint)| checkpoint.report(name)).collect(),
        }
    }

    fn create(&self, context: &Context, name: &str) -> Result<Report, ApiError> {
        if let Some(message) = dns_subdomain(name).first() {
            return Err(ApiError::bad_request(format!("name: {message}")));
        }
        let store = &context.shared.store;
        if store.is_shared() {
            return Err(failed(RestoreError::Shared));
        }
        let snapshot = store.snapshot();
        let checkpoint = Checkpoint {
            objects: snapshot.len(),
            snapshot,
            created: context.shared.clock.now(),
        };
        let report = checkpoint.report(name);
        let mut kept = self.kept.lock();
        if kept.contains_key(name) {
            let taken = TakenName {
                name,
                deleting: false,
                generated: false,
            };
            return Err(ApiError::already_exists(&resource(), &taken));
        }
        if kept.len() >= MAX_CHECKPOINTS {
            return Err(ApiError::bad_request(format!(
                "a server has at most {MAX_CHECKPOINTS} checkpoints"
            )));
        }
        kept.insert(name.into(), checkpoint);
        Ok(report)
    }

    /// Returns the state of a checkpoint for a fork, whose clock is ahead by `ahead`.
    ///
    /// # Errors
    /// 404 if there is no such checkpoint.
    pub(super) fn state(&self, name: &str, ahead: Duration) -> Result<ForkState, ApiError> {
        let kept = self.kept.lock().get(name).cloned();
        let checkpoint = kept.ok_or_else(|| ApiError::not_found(&resource(), name))?;
        Ok(ForkState {
            snapshot: checkpoint.snapshot,
            ahead,
        })
    }

    async fn restore(
        &self,
        context: &Context,
        snapshot: &Snapshot,
        watchers: Watchers,
    ) -> Result<RestoreReport, ApiError> {
        let _turn = self.restoring.lock().await;
        let began = Instant::now();
        let store = &context.shared.store;
        let definitions = context.crds.stored_revisions();
        self.gate.close();
        let outcome = store.restore(snapshot).await;
        let expired = outcome.as_ref().ok().filter(|_| watchers == Watchers::Expire);
        if let Some(restored) = expired {
            // A controller may have written since. The client can watch from the revision of the restore.
            store.begin_history_at(restored.revision);
        }
        self.gate.open(expired.is_some());
        let Restored {
            revision,
            created,
            updated,
            deleted,
        } = outcome.map_err(failed)?;
        if context.crds.stored_revisions() != definitions {
            // The client may use the custom resources immediately.
            context.crds.committed(revision).await;
        }
        Ok(RestoreReport {
            resource_version: revision.to_string(),
            created,
            updated,
            deleted,
            duration: duration::text(began.elapsed()),
        })
    }
}

impl Checkpoint {
    fn report(&self, name: &str) -> Report {
        Report {
            name: name.into(),
            creation_timestamp: Timestamp::from(self.created).text(Precision::Seconds),
            resource_version: self.snapshot.revision().to_string(),
            objects: self.objects,
        }
    }
}

fn failed(error: RestoreError) -> ApiError {
    match error {
        RestoreError::Shared => ApiError::bad_request(error.to_string()),
        RestoreError::Unreadable(_) | RestoreError::Commit(_) => ApiError::internal(error.to_string()),
    }
}
