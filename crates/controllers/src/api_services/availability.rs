//! The condition `Available` of APIServices: local ones are always available; other servers are checked every half
//! minute and whenever their service or its endpoints change.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use holdfast_resource::Resource;
use holdfast_server::operations::aggregation::{Aggregator, Availability as State};
use holdfast_server::operations::loopback::{Change, Changes, Client, Lost, Object, Objects, RequestError, path_of};
use holdfast_value::{SmolStr, Value};
use tokio::time::Instant;

use super::{api_services, is_remote};
use crate::apiserver::MANAGER;
use crate::conditions::{self, Condition};
use crate::queue::Queue;
use crate::reconcile::{self, Reconcile, Work};

/// Interval of the checks of an available server.
const PERIOD: Duration = Duration::from_secs(30);

/// Delay before an unavailable server is checked again; it doubles each time, up to [`PERIOD`].
const FIRST_DELAY: Duration = Duration::from_millis(5);

/// Runs the controller until the server ends.
pub(crate) async fn run(client: Client) {
    let (Some(aggregator), Some(api_services)) = (client.aggregator(), api_services(&client)) else {
        return client.shutdown().closing().await;
    };
    let controller = Availability {
        client: client.clone(),
        aggregator,
        services: client.resource("", "services"),
        slices: client.resource("discovery.k8s.io", "endpointslices"),
        remote: HashMap::new(),
        failures: HashMap::new(),
        api_services,
    };
    reconcile::run(client, controller).await;
}

struct Availability {
    client: Client,
    aggregator: Arc<Aggregator>,
    api_services: Arc<Resource>,
    services: Option<Arc<Resource>>,
    slices: Option<Arc<Resource>>,
    /// Namespaces and names of the services of APIServices.
    remote: HashMap<SmolStr, (SmolStr, SmolStr)>,
    /// Number of consecutive failed checks of a server.
    failures: HashMap<SmolStr, u32>,
}

/// Label by which an EndpointSlice names its service.
const SERVICE_NAME: &str = "kubernetes.io/service-name";

impl Availability {
    fn note(&mut self, api_service: &Object) {
        let tree = api_service.tree();
        let text = |field: &str| SmolStr::new(tree.str_at(&["spec", "service", field]).unwrap_or_default());
        let name = SmolStr::new(api_service.name());
        match is_remote(&tree) {
            true => drop(self.remote.insert(name, (text("namespace"), text("name")))),
            false => drop(self.remote.remove(&name)),
        }
    }

    /// Queues the APIServices of a service.
    fn push_of(&self, namespace: &str, service: &str, queue: &mut Queue<SmolStr>) {
        for (name, (of_namespace, of_service)) in &self.remote {
            if of_namespace == namespace && of_service == service {
                queue.push(name.clone());
            }
        }
    }
}

impl Reconcile for Availability {
    /// Name of an APIService.
    type Item = SmolStr;
    /// Availability, if another server serves it.
    type Outcome = Option<bool>;

    const NAME: &'static str = "available-condition-controller";
    const QUEUE: &'static str = "RemoteAvailabilityController";
    const PARALLEL: usize = 5;

    fn watch(&mut self, client: &Client) -> Result<(Objects, Changes), Lost> {
        let (_, changes) = client.watch_everything()?;
        Ok((client.list(&self.api_services, ""), changes))
    }

    fn seen(&mut self, api_service: &Object, queue: &mut Queue<SmolStr>) {
        self.note(api_service);
        queue.push(api_service.name().into());
    }

    fn changed(&mut self, change: &Change, queue: &mut Queue<SmolStr>) {
        let object = change.current();
        if object.is_of(&self.api_services) {
            if change.is_removal() {
                self.remote.remove(object.name());
                self.failures.remove(object.name());
            } else {
                self.seen(&object, queue);
            }
            return;
        }
        if self.remote.is_empty() {
            return;
        }
        if let Some(services) = self.services.as_ref().filter(|services| object.is_of(services)) {
            self.push_of(object.namespace(services), object.name(), queue);
        } else if let Some(slices) = self.slices.as_ref().filter(|slices| object.is_of(slices)) {
            let tree = object.tree();
            let service = tree.str_at(&["metadata", "labels", SERVICE_NAME]).unwrap_or_default();
            self.push_of(object.namespace(slices), service, queue);
        }
    }

    fn work(&mut self, name: &SmolStr, _queue: &mut Queue<SmolStr>) -> Option<Work<Option<bool>>> {
        let stored = self.client.get(&self.api_services, "", name)?.tree();
        let at = path_of(&self.api_services, "", name)?;
        let (client, aggregator, name) = (self.client.clone(), Arc::clone(&self.aggregator), name.clone());
        Some(Box::pin(async move {
            let Some(state) = aggregator.check(&name).await else {
                // The APIService is not known yet, or no longer.
                return Err(not_known(&name));
            };
            let remote = is_remote(&stored);
            if remote != (state.reason != "Local") {
                return Err(not_known(&name));
            }
            write(&client, &aggregator, &name, &at, stored, &state).await?;
            Ok(remote.then_some(state.available))
        }))
    }

    fn finished(&mut self, name: &SmolStr, available: Option<bool>, queue: &mut Queue<SmolStr>) {
        let delay = match available {
            None => return,
            Some(true) => {
                self.failures.remove(name);
                PERIOD
            }
            Some(false) => {
                let failures = self.failures.entry(name.clone()).or_default();
                let delay = FIRST_DELAY.saturating_mul(1 << (*failures).min(20));
                *failures += 1;
                delay.min(PERIOD)
            }
        };
        queue.push_at(name.clone(), Instant::now() + delay);
    }
}

/// The informers of APIServices may be at different revisions for a moment.
fn not_known(name: &str) -> RequestError {
    RequestError {
        code: 404,
        reason: "NotFound".into(),
        message: format!("the APIService {name} is not known as it is stored"),
    }
}

/// Writes the condition if it changes.
async fn write(
    client: &Client,
    aggregator: &Aggregator,
    name: &str,
    at: &str,
    mut object: Value,
    state: &State,
) -> Result<(), RequestError> {
    let was_available = conditions::holds(&object, "Available");
    let condition = Condition {
        of: "Available",
        holds: state.available,
        reason: state.reason,
        message: &state.message,
    };
    let changed = conditions::set(&mut object, condition, &client.now());
    if changed {
        client
            .update(&format!("{at}/status?fieldManager={MANAGER}"), &object)
            .await?;
    }
    aggregator.count(name, state, was_available);
    Ok(())
}
