//! Removes LeaseCandidates whose owners have not renewed them for a long time.
//!
//! upstream: pkg/controlplane/controller/leaderelection#LeaseCandidateGCController

use std::time::Duration;

use holdfast_resource::Resource;
use holdfast_server::operations::loopback::{Client, RequestError, path_of};
use tokio::time::{Instant, sleep_until};

use super::candidate::is_expired;
use super::candidates_of;
use crate::rejection::delete_unchanged;

/// Interval between two collections.
const COLLECTION_INTERVAL: Duration = Duration::from_secs(30 * 60);

/// Runs the controller until the server ends.
pub(crate) async fn collect(client: Client) {
    let shutdown = client.shutdown();
    let Some(candidates) = candidates_of(&client) else {
        return shutdown.closing().await;
    };
    let (mut advances, mut turn) = (client.advances(), Instant::now());
    loop {
        tokio::select! {
            biased;
            () = shutdown.closing() => return,
            by = advances.next() => turn = turn.checked_sub(by).unwrap_or_else(Instant::now),
            () = sleep_until(turn) => {
                turn = Instant::now() + COLLECTION_INTERVAL;
                if let Err(error) = collect_once(&client, &candidates).await {
                    tracing::warn!(%error, "cannot remove expired lease candidates; will retry");
                }
            }
        }
    }
}

async fn collect_once(client: &Client, candidates: &Resource) -> Result<(), RequestError> {
    let now = client.time();
    let all = client.list(candidates, "");
    let expired: Vec<_> = all.iter().filter(|object| is_expired(&object.tree(), now)).collect();
    drop(all);
    let mut outcome = Ok(());
    for object in expired {
        let path = path_of(candidates, object.namespace(candidates), object.name()).unwrap_or_default();
        // A candidate that was renewed meanwhile is kept.
        let deleted = delete_unchanged(client, &path, &object.tree()).await;
        outcome = outcome.and(deleted);
    }
    outcome
}
