//! The elector makes the next step of the election for each Lease that has candidates.
//!
//! upstream: pkg/controlplane/controller/leaderelection#Controller

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use futures_util::future::join_all;
use holdfast_resource::Resource;
use holdfast_server::operations::loopback::{Change, Changes, Client, Lost, Object, Objects};
use tokio::time::Instant;

use super::candidate::{Candidate, LeaseState, is_pending};
use super::decision::{Outcome, Step, Undecided, lease_with, new_lease, next_step, pinged};
use super::{GROUP, LeaseName, NAME, candidates_of};
use crate::apiserver::put;
use crate::queue::Queue;
use crate::reconcile::{self, Reconcile, Work};

/// Interval at which a Lease with candidates is checked: it may expire without any change.
const CHECK_INTERVAL: Duration = Duration::from_secs(5);

/// Runs the elector until the server ends.
pub(crate) async fn elect(client: Client) {
    let (Some(leases), Some(candidates)) = (client.resource(GROUP, "leases"), candidates_of(&client)) else {
        tracing::warn!(
            "no leaders are elected: the gate CoordinatedLeaderElection needs \
             --runtime-config=coordination.k8s.io/v1beta1=true"
        );
        return client.shutdown().closing().await;
    };
    let controller = Elector {
        client: client.clone(),
        leases,
        candidates,
    };
    reconcile::run(client, controller).await;
}

#[derive(Clone)]
struct Elector {
    client: Client,
    leases: Arc<Resource>,
    candidates: Arc<Resource>,
}

impl Reconcile for Elector {
    type Item = LeaseName;
    type Outcome = ();

    const NAME: &'static str = NAME;
    const PARALLEL: usize = 1;

    fn watch(&mut self, client: &Client) -> Result<(Objects, Changes), Lost> {
        let changes = client.watch_both(&self.leases, &self.candidates)?;
        // They are read after the watch began, so that no change is missed.
        Ok((client.list(&self.candidates, ""), changes))
    }

    fn seen(&mut self, candidate: &Object, queue: &mut Queue<LeaseName>) {
        queue.push(self.lease_of(candidate));
    }

    fn changed(&mut self, change: &Change, queue: &mut Queue<LeaseName>) {
        let object = change.current();
        if object.is_of(&self.leases) {
            queue.push(LeaseName {
                namespace: object.namespace(&self.leases).into(),
                name: object.name().into(),
            });
        } else if object.is_of(&self.candidates) && !is_pending(&object.tree()) {
            // The election that made a candidate pending is in progress.
            queue.push(self.lease_of(&object));
        }
    }

    fn work(&mut self, lease: &LeaseName, queue: &mut Queue<LeaseName>) -> Option<Work<()>> {
        let now = self.client.time();
        let candidates = self.candidates_for(lease, now);
        let object = self.client.get(&self.leases, &lease.namespace, &lease.name);
        let existing = object.map(|object| object.tree());
        let state = existing.as_ref().map(LeaseState::from_object);
        let step = match next_step(&candidates, state.as_ref(), now) {
            Ok(Step::Rest) => return None,
            Ok(step) => step,
            Err(reason) => {
                tracing::warn!(?lease, %reason, "cannot elect a leader");
                if matches!(reason, Undecided::Preliminary(_)) {
                    queue.push_at(lease.clone(), Instant::now() + CHECK_INTERVAL);
                }
                return None;
            }
        };
        queue.push_at(lease.clone(), Instant::now() + CHECK_INTERVAL);
        let elector = self.clone();
        match step {
            Step::Rest | Step::Wait => None,
            Step::Ping(unasked) => {
                let objects: Vec<_> = unasked.into_iter().map(|candidate| pinged(candidate, now)).collect();
                Some(Box::pin(async move {
                    let writes = objects
                        .iter()
                        .map(|object| put(&elector.client, &elector.candidates, false, object));
                    join_all(writes)
                        .await
                        .into_iter()
                        .try_for_each(|written| written.map(drop))
                }))
            }
            Step::Elect(outcome) => {
                let (is_new, object) = match existing {
                    None => (true, new_lease(&outcome, lease, now)),
                    Some(existing) => (false, lease_with(&outcome, &existing, now)?),
                };
                let lease = lease.clone();
                Some(Box::pin(async move {
                    put(&elector.client, &elector.leases, is_new, &object).await?;
                    log(&lease, &outcome);
                    Ok(())
                }))
            }
        }
    }
}

impl Elector {
    /// Returns the Lease of a LeaseCandidate.
    fn lease_of(&self, candidate: &Object) -> LeaseName {
        LeaseName {
            namespace: candidate.namespace(&self.candidates).into(),
            name: candidate
                .tree()
                .str_at(&["spec", "leaseName"])
                .unwrap_or_default()
                .into(),
        }
    }

    /// Returns the unexpired candidates for a Lease, in the order of their names.
    ///
    /// upstream: pkg/controlplane/controller/leaderelection#Controller.listAdmissableCandidates
    fn candidates_for(&self, lease: &LeaseName, now: SystemTime) -> Vec<Candidate> {
        let all = self.client.list(&self.candidates, &lease.namespace);
        all.iter()
            .map(|object| object.tree())
            .filter(|tree| tree.str_at(&["spec", "leaseName"]) == Some(&lease.name))
            .filter_map(|tree| Candidate::from_object(tree, now))
            .collect()
    }
}

fn log(lease: &LeaseName, outcome: &Outcome) {
    let LeaseName { namespace, name } = lease;
    match &outcome.leader {
        Some(leader) => tracing::info!(%namespace, %name, %leader, "elected the leader of a lease"),
        None => tracing::info!(%namespace, %name, "left the choice of the leader of a lease to a third party"),
    }
}
