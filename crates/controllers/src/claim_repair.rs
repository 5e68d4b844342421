//! Repair of the stored addresses and ports of Services at intervals, and as soon as the address of a Service is removed
//! or changed. Events report the problems that a repair finds.
//!
//! upstream: pkg/registry/core/service/ipallocator/controller#RepairIPAddress
//! upstream: pkg/registry/core/service/portallocator/controller#Repair

use std::sync::Arc;
use std::time::Duration;

use holdfast_resource::table::items;
use holdfast_resource::{ClaimProblem, Resource};
use holdfast_server::operations::loopback::{Change, Changes, Client};

use crate::apiserver::Turns;
use crate::events::{Recorder, Warning};

/// Health check of the controller, with kube-apiserver's name.
pub(crate) const CHECK: &str = "poststarthook/start-service-ip-repair-controllers";

/// Interval between repairs.
const INTERVAL: Duration = Duration::from_secs(180);
/// Minimum time between a change of an address and the repair, so that one repair serves many changes.
const DELAY: Duration = Duration::from_millis(100);

/// Runs the controller until the server ends.
pub(crate) async fn run(client: Client, host: Arc<str>) {
    let recorders = Recorders {
        addresses: Recorder::new(client.clone(), "ipallocator-repair-controller").on_host(&host),
        ports: Recorder::new(client.clone(), "portallocator-repair-controller").on_host(&host),
    };
    let mut turns = Turns::new(&client, INTERVAL);
    let mut is_due = turns.next().await;
    while is_due {
        // Losses during the repair are noticed, too.
        let mut losses = Losses::watch(&client);
        match client.repair_claims().await {
            Ok(problems) => recorders.report(&problems).await,
            Err(error) => tracing::warn!(%error, "cannot repair the allocations of objects; will retry"),
        }
        is_due = tokio::select! {
            biased;
            goes_on = turns.next() => goes_on,
            () = losses.next() => true,
        };
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

/// Changes of IPAddresses by which a Service loses an address.
struct Losses<'a> {
    client: &'a Client,
    /// Resource of Services, and the changes of IPAddresses; `None` if one of them is not served.
    watched: Option<(Arc<Resource>, Changes)>,
}

impl<'a> Losses<'a> {
    /// Starts to watch IPAddresses.
    fn watch(client: &'a Client) -> Self {
        let watched = || {
            let services = client.resource("", "services")?;
            let addresses = client.resource("networking.k8s.io", "ipaddresses")?;
            let (_, changes) = client.watch(&addresses).ok()?;
            Some((services, changes))
        };
        Self {
            client,
            watched: watched(),
        }
    }

    /// Waits for the loss of an address that a Service has. After missed changes it waits forever.
    async fn next(&mut self) {
        if let Some((services, changes)) = &mut self.watched {
            while let Ok(change) = changes.next().await {
                if is_loss(&change, services, self.client) {
                    return tokio::time::sleep(DELAY).await;
                }
            }
        }
        std::future::pending().await
    }
}

/// Returns true if an IPAddress was removed or changed and its Service still has the address.
fn is_loss(change: &Change, services: &Resource, client: &Client) -> bool {
    let Some(before) = change.previous() else { return false };
    let address = before.tree();
    let parent = |field| address.str_at(&["spec", "parentRef", field]).unwrap_or_default();
    if parent("resource") != "services" {
        return false;
    }
    let Some(service) = client.get(services, parent("namespace"), parent("name")) else {
        return false;
    };
    items(&service.tree(), &["spec", "clusterIPs"])
        .iter()
        .any(|listed| listed.as_str() == Some(before.name()))
}
