//! Repair of the stored addresses and ports of Services at intervals, and as soon as the address of a Service is removed
//! or changed. Events report the problems that a repair finds.
//!
//! upstream: pkg/registry/core/service/ipallocator/controller#RepairIPAddress
//! upstream: pkg/registry/core/service/portallocator/controller#Repair

use std::sync::Arc;
use std::time::Duration;

use holdfast_resource::{ClaimProblem, Resource};
use holdfast_server::operations::loopback::{Change, Changes, Client};
use tokio::time::{Instant, sleep_until, timeout_at};

use crate::events::{Recorder, Warning};

/// Health check of the controller, with kube-apiserver's name.
pub(crate) const CHECK: &str = "poststarthook/start-service-ip-repair-controllers";

/// Interval between repairs.
const INTERVAL: Duration = Duration::from_secs(180);
/// Minimum time between a change of an address and the repair, so that one repair serves many changes.
const DELAY: Duration = Duration::from_millis(100);

/// Runs the controller until the server ends.
pub(crate) async fn run(client: Client, host: Arc<str>) {
    let shutdown = client.shutdown();
    tokio::select! {
        () = repair_repeatedly(&client, &host) => {}
        () = shutdown.closing() => {}
    }
}

async fn repair_repeatedly(client: &Client, host: &Arc<str>) {
    let recorders = Recorders {
        addresses: Recorder::new(client.clone(), "ipallocator-repair-controller").on_host(host),
        ports: Recorder::new(client.clone(), "portallocator-repair-controller").on_host(host),
    };
    loop {
        let mut turn = Turn::new(client);
        match client.repair_claims().await {
            Ok(problems) => recorders.report(&problems).await,
            Err(error) => tracing::warn!(%error, "cannot repair the allocations of objects; will retry"),
        }
        turn.wait().await;
    }
}

/// Recorders of the events of both repairs.
struct Recorders {
    addresses: Recorder,
    ports: Recorder,
}

impl Recorders {
    async fn report(&self, problems: &[ClaimProblem]) {
        for problem in problems {
            let recorder = if problem.is_of_port {
                &self.ports
            } else {
                &self.addresses
            };
            let warning = Warning {
                object: &problem.object,
                reason: problem.reason,
                message: &problem.message,
            };
            recorder.warn_about_action(warning, problem.action).await;
        }
    }
}

/// Wait for the next repair. It notices the changes that happen from its creation.
struct Turn<'a> {
    client: &'a Client,
    resources: Option<Watched>,
}

struct Watched {
    services: Arc<Resource>,
    addresses: Arc<Resource>,
    changes: Changes,
}

impl<'a> Turn<'a> {
    fn new(client: &'a Client) -> Self {
        let watched = || {
            let (services, addresses) = (
                client.resource("", "services")?,
                client.resource("networking.k8s.io", "ipaddresses")?,
            );
            let (_, changes) = client.watch(&addresses).ok()?;
            Some(Watched {
                services,
                addresses,
                changes,
            })
        };
        Self {
            client,
            resources: watched(),
        }
    }

    /// Waits for the interval, or for the loss of an address that a Service has.
    async fn wait(&mut self) {
        let end = Instant::now() + INTERVAL;
        let Some(watched) = &mut self.resources else {
            return sleep_until(end).await;
        };
        // Missed changes are repaired with the next change or interval.
        while let Ok(Ok(change)) = timeout_at(end, watched.changes.next()).await {
            if watched.is_loss(&change, self.client) {
                return tokio::time::sleep(DELAY).await;
            }
        }
        sleep_until(end).await;
    }
}

impl Watched {
    /// Returns true if an address was removed or changed and its Service still has it.
    fn is_loss(&self, change: &Change, client: &Client) -> bool {
        let Some(before) = change.previous() else { return false };
        let address = before.tree();
        let parent = |field| address.str_at(&["spec", "parentRef", field]).unwrap_or_default();
        let service = client.get(&self.services, parent("namespace"), parent("name"));
        let Some(service) = service.map(|service| service.tree()) else {
            return false;
        };
        let name = before.name();
        let is_listed = holdfast_resource::table::items(&service, &["spec", "clusterIPs"])
            .iter()
            .any(|listed| listed.as_str() == Some(name));
        is_listed && parent("resource") == "services" && before.is_of(&self.addresses)
    }
}
