//! `/testing/forks`: further servers in this process, each with the state of a checkpoint and a port of its own.

use std::collections::BTreeMap;
use std::fmt::{self, Debug, Formatter};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use futures_util::future::{BoxFuture, join_all};
use holdfast_gotext::duration;
use http::{Method, StatusCode};
use parking_lot::Mutex;
use serde::Serialize;
use smol_str::SmolStr;
use tokio::time::Instant;

use super::Call;
use crate::http::ApiError;
use crate::http::response::Response;
use crate::objects::Snapshot;

/// Maximum number of forks of a server.
pub const MAX_FORKS: usize = 32;

/// State with which a fork begins.
#[derive(Clone, Debug)]
pub struct ForkState {
    /// All objects. The fork shares them.
    pub snapshot: Snapshot,
    /// Time by which the clock is ahead.
    pub ahead: Duration,
}

/// Starts forks.
pub trait StartFork: Send + Sync {
    /// Starts a server with a state. The error is the reason of a failure.
    fn start(&self, state: ForkState) -> BoxFuture<'static, Result<Box<dyn RunningFork>, String>>;
}

/// A server that was started as a fork.
pub trait RunningFork: Send {
    /// Returns the address and the credentials.
    fn address(&self) -> ForkAddress;

    /// Ends the server. The error is the reason of a failure.
    fn stop(self: Box<Self>) -> BoxFuture<'static, Result<(), String>>;
}

/// Address and credentials of a fork.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ForkAddress {
    /// URL of the server.
    pub url: String,
    /// Certificates with which clients verify the server, in PEM.
    pub certificate_authority: String,
    /// Kubeconfig of the administrator. It refers to no files.
    pub kubeconfig: String,
}

/// Forks of a server.
#[derive(Default)]
pub struct Forks {
    starter: OnceLock<Box<dyn StartFork>>,
    running: Mutex<Running>,
}

#[derive(Default)]
struct Running {
    forks: BTreeMap<u64, Fork>,
    /// Number of forks that start at present.
    starting: usize,
    last_id: u64,
    /// True once the server ends.
    is_closed: bool,
}

struct Fork {
    checkpoint: SmolStr,
    server: Box<dyn RunningFork>,
}

/// Fork as clients see it.
#[derive(Serialize)]
struct Report {
    id: u64,
    checkpoint: SmolStr,
    #[serde(flatten)]
    address: ForkAddress,
    /// Duration of the start.
    #[serde(skip_serializing_if = "Option::is_none")]
    duration: Option<String>,
}

#[derive(Serialize)]
struct ForkList {
    forks: Vec<Report>,
}

impl Debug for Forks {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.debug_struct("Forks").finish_non_exhaustive()
    }
}

/// Starts a fork with the state of a checkpoint. The start is completed even if the client disconnects.
pub(super) async fn create(
    forks: &Arc<Forks>,
    checkpoint: &str,
    state: ForkState,
    call: &Call<'_>,
) -> Result<Response, ApiError> {
    if call.method != Method::POST {
        return Err(ApiError::method_not_allowed());
    }
    let (forks, checkpoint) = (Arc::clone(forks), SmolStr::new(checkpoint));
    let started = tokio::spawn(async move { forks.start(checkpoint, state).await }).await;
    let report = started.map_err(|_| ApiError::internal("the start of the fork failed"))??;
    call.answer(StatusCode::CREATED, &report)
}

/// Lists or ends all forks.
pub(super) async fn collection(forks: &Arc<Forks>, call: &Call<'_>) -> Result<Response, ApiError> {
    let list = forks.list();
    match call.method.as_str() {
        "GET" => {}
        "DELETE" => {
            let all = std::mem::take(&mut forks.running.lock().forks);
            tokio::spawn(stop(all.into_values().collect()))
                .await
                .map_err(|_| ApiError::internal("a fork failed"))?
                .map_err(ApiError::internal)?;
        }
        _ => return Err(ApiError::method_not_allowed()),
    }
    call.answer(StatusCode::OK, &list)
}

/// Returns or ends the fork with this ID. The end is completed even if the client disconnects.
pub(super) async fn single(forks: &Arc<Forks>, id: &str, call: &Call<'_>) -> Result<Response, ApiError> {
    let id: u64 = id.parse().map_err(|_| ApiError::unknown_resource())?;
    let found = forks.running.lock().forks.get(&id).map(|fork| fork.report(id));
    let report = found.ok_or_else(ApiError::unknown_resource)?;
    match call.method.as_str() {
        "GET" => {}
        "DELETE" => {
            let removed = forks.running.lock().forks.remove(&id);
            tokio::spawn(stop(removed.into_iter().collect()))
                .await
                .map_err(|_| ApiError::internal("the fork failed"))?
                .map_err(ApiError::internal)?;
        }
        _ => return Err(ApiError::method_not_allowed()),
    }
    call.answer(StatusCode::OK, &report)
}

impl Forks {
    /// Sets what starts forks. Only the first call has an effect.
    pub fn set_starter(&self, starter: impl StartFork + 'static) {
        let _ = self.starter.set(Box::new(starter));
    }

    /// Ends all forks. No new ones start afterwards.
    pub async fn close(&self) {
        let all = {
            let mut running = self.running.lock();
            running.is_closed = true;
            std::mem::take(&mut running.forks)
        };
        if let Err(error) = stop(all.into_values().collect()).await {
            tracing::warn!(%error, "a fork failed");
        }
    }

    fn list(&self) -> ForkList {
        let running = self.running.lock();
        ForkList {
            forks: running.forks.iter().map(|(id, fork)| fork.report(*id)).collect(),
        }
    }

    async fn start(&self, checkpoint: SmolStr, state: ForkState) -> Result<Report, ApiError> {
        let is_starting = || ApiError::unavailable("the server is not ready");
        let starter = self.starter.get().ok_or_else(is_starting)?;
        {
            let mut running = self.running.lock();
            if running.forks.len() + running.starting >= MAX_FORKS {
                return Err(ApiError::bad_request(format!("a server has at most {MAX_FORKS} forks")));
            }
            running.starting += 1;
        }
        let began = Instant::now();
        let started = starter.start(state).await;
        let late = {
            let mut running = self.running.lock();
            running.starting -= 1;
            let server = started.map_err(|why| ApiError::internal(format!("the fork does not start: {why}")))?;
            if !running.is_closed {
                running.last_id += 1;
                let id = running.last_id;
                let fork = Fork { checkpoint, server };
                let mut report = fork.report(id);
                report.duration = Some(duration::text(began.elapsed()));
                running.forks.insert(id, fork);
                return Ok(report);
            }
            server
        };
        let _ = late.stop().await;
        Err(ApiError::unavailable("the server ends"))
    }
}

impl Fork {
    fn report(&self, id: u64) -> Report {
        Report {
            id,
            checkpoint: self.checkpoint.clone(),
            address: self.server.address(),
            duration: None,
        }
    }
}

/// Ends servers, and returns the first reason of a failure.
async fn stop(forks: Vec<Fork>) -> Result<(), String> {
    let outcomes = join_all(forks.into_iter().map(|fork| fork.server.stop())).await;
    outcomes.into_iter().collect()
}
