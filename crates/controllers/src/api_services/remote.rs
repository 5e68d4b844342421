//! Discovery and OpenAPI documents of other servers, read when their APIServices change, and every minute.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::BoxFuture;
use holdfast_resource::Resource;
use holdfast_server::operations::aggregation::Aggregator;
use holdfast_server::operations::loopback::{Change, Changes, Client, Lost, Object, Objects};
use holdfast_value::SmolStr;
use tokio::time::Instant;

use super::{api_services, is_remote};
use crate::queue::Queue;
use crate::reconcile::{self, Reconcile, Work};

/// Interval at which a responding server is read.
const PERIOD: Duration = Duration::from_secs(60);

/// Reads discovery until the server ends.
pub(crate) async fn run_discovery(client: Client) {
    let refresh: Refresh = |aggregator, name| Box::pin(async move { aggregator.refresh_discovery(&name).await });
    run(client, "discovery-manager", refresh, Duration::from_millis(500)).await;
}

/// Reads OpenAPI documents until the server ends.
pub(crate) async fn run_openapi(client: Client) {
    let refresh: Refresh = |aggregator, name| Box::pin(async move { aggregator.refresh_openapi(&name).await });
    run(
        client,
        "open_api_aggregation_controller",
        refresh,
        Duration::from_secs(1),
    )
    .await;
}

type Refresh = fn(Arc<Aggregator>, SmolStr) -> BoxFuture<'static, Result<(), String>>;

async fn run(client: Client, queue: &'static str, refresh: Refresh, first_delay: Duration) {
    let (Some(aggregator), Some(api_services)) = (client.aggregator(), api_services(&client)) else {
        return client.shutdown().closing().await;
    };
    let controller = Remote {
        client: client.clone(),
        aggregator,
        api_services,
        queue,
        refresh,
        first_delay,
        failures: HashMap::new(),
    };
    reconcile::run(client, controller).await;
}

struct Remote {
    client: Client,
    aggregator: Arc<Aggregator>,
    api_services: Arc<Resource>,
    /// Name of the queue in metrics.
    queue: &'static str,
    refresh: Refresh,
    /// Delay before a server that did not respond is read again; it doubles each time, up to [`PERIOD`].
    first_delay: Duration,
    failures: HashMap<SmolStr, u32>,
}

impl Reconcile for Remote {
    /// Name of an APIService.
    type Item = SmolStr;
    /// True if the server responded.
    type Outcome = bool;

    const NAME: &'static str = "remote-api-services";
    const PARALLEL: usize = 5;

    fn queue(&self) -> &'static str {
        self.queue
    }

    fn watch(&mut self, client: &Client) -> Result<(Objects, Changes), Lost> {
        client.watch(&self.api_services)
    }

    fn seen(&mut self, api_service: &Object, queue: &mut Queue<SmolStr>) {
        queue.push(api_service.name().into());
    }

    fn changed(&mut self, change: &Change, queue: &mut Queue<SmolStr>) {
        let object = change.current();
        if change.is_removal() {
            self.failures.remove(object.name());
        } else {
            queue.push(object.name().into());
        }
    }

    fn work(&mut self, name: &SmolStr, _queue: &mut Queue<SmolStr>) -> Option<Work<bool>> {
        let api_service = self.client.get(&self.api_services, "", name)?;
        if !is_remote(&api_service.tree()) {
            return None;
        }
        let (refreshed, name) = ((self.refresh)(Arc::clone(&self.aggregator), name.clone()), name.clone());
        Some(Box::pin(async move {
            let refreshed = refreshed.await;
            if let Err(why) = &refreshed {
                tracing::debug!(api_service = %name, %why, "an aggregated server did not answer; will retry");
            }
            Ok(refreshed.is_ok())
        }))
    }

    fn finished(&mut self, name: &SmolStr, answered: bool, queue: &mut Queue<SmolStr>) {
        let delay = if answered {
            self.failures.remove(name);
            PERIOD
        } else {
            let failures = self.failures.entry(name.clone()).or_default();
            let delay = self.first_delay.saturating_mul(1 << (*failures).min(20));
            *failures += 1;
            delay.min(PERIOD)
        };
        queue.push_at(name.clone(), Instant::now() + delay);
    }
}
