//! Addresses of the service `kubernetes`, which several servers maintain together: an Endpoints and an EndpointSlice
//! with the address of each running server.
//! <https://kubernetes.io/docs/concepts/architecture/control-plane-node-communication/>
//!
//! Running servers have leases in the store, one for each address, which expire when they are not renewed.
//! Alternatively, as in older clusters, the configured number of servers limits the addresses.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use futures_util::future::BoxFuture;
use holdfast_resource::Resource;
use holdfast_schema::metadata::new_object;
use holdfast_server::operations::loopback::{Client, path_of};
use holdfast_server::operations::service::Service;
use holdfast_value::Value;
use tokio::sync::Mutex;

use crate::apiserver::{self, MANAGER, Turns};

/// Interval at which the addresses are checked and leases are renewed.
const INTERVAL: Duration = Duration::from_secs(10);

const NAME: &str = "kubernetes";
const NAMESPACE: &str = "default";
const SKIP_MIRROR: &str = "endpointslice.kubernetes.io/skip-mirror";

const CHECK: &str = "poststarthook/bootstrap-controller";
const PEER_CHECK: &str = "poststarthook/peer-endpoint-reconciler-controller";

/// Leases that show which servers are running.
pub trait ServerLeases: Send + Sync + 'static {
    /// Creates or renews the lease of this server's address.
    fn renew(&self) -> BoxFuture<'_, Result<(), String>>;

    /// Removes the lease of this server's address. Returns true if it existed.
    fn remove(&self) -> BoxFuture<'_, Result<bool, String>>;

    /// Returns the addresses with a lease, in the order of the store.
    fn addresses(&self) -> Vec<String>;

    /// Creates or renews the lease by which other servers find this one by its identity.
    fn renew_identity(&self) -> BoxFuture<'_, Result<(), String>>;

    /// Removes the lease of this server's identity. Returns true if it existed.
    fn remove_identity(&self) -> BoxFuture<'_, Result<bool, String>>;
}

/// Method of maintaining the addresses: `--endpoint-reconciler-type`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reconciler {
    /// All addresses with a lease.
    Lease,
    /// At most this number of addresses; each server adds its own.
    Count(usize),
    /// No addresses are maintained.
    Nothing,
}

/// Address at which clients reach this server.
#[derive(Clone, Debug)]
pub struct Address {
    /// IP address.
    pub ip: String,
    /// Port.
    pub port: u16,
}

/// Maintains the addresses of the service `kubernetes`.
pub struct KubernetesEndpoints {
    client: Client,
    endpoints: Arc<Resource>,
    slices: Arc<Resource>,
    reconciler: Reconciler,
    address: Address,
    leases: Arc<dyn ServerLeases>,
    ends: AtomicBool,
    /// Allows one change at a time.
    turn: Mutex<()>,
}

impl KubernetesEndpoints {
    /// Maintains the addresses until the server ends; [`KubernetesEndpoints::end`] removes this server's address.
    pub fn run(
        service: &Arc<Service>,
        reconciler: Reconciler,
        address: Address,
        leases: Arc<dyn ServerLeases>,
    ) -> Option<Arc<Self>> {
        let client = Client::new(Arc::clone(service), MANAGER);
        let kept = Arc::new(Self {
            endpoints: client.resource("", "endpoints")?,
            slices: client.resource("discovery.k8s.io", "endpointslices")?,
            client,
            reconciler,
            address,
            leases,
            ends: AtomicBool::new(false),
            turn: Mutex::new(()),
        });
        let context = &service.context;
        let (background, shutdown) = (&context.background, &context.shutdown);
        background.spawn(CHECK, CHECK, shutdown, Arc::clone(&kept).keep());
        background.spawn(PEER_CHECK, PEER_CHECK, shutdown, Arc::clone(&kept).keep_identity());
        Some(kept)
    }

    async fn keep(self: Arc<Self>) {
        // The address may be left of a server that did not shut down properly; this server is not ready yet.
        log_failure(self.remove().await);
        let mut turns = Turns::new(&self.client, INTERVAL);
        while turns.next().await {
            log_failure(self.reconcile().await);
        }
    }

    async fn keep_identity(self: Arc<Self>) {
        let mut turns = Turns::new(&self.client, INTERVAL);
        while turns.next().await {
            let _turn = self.turn.lock().await;
            if !self.ends() {
                log_failure(self.leases.renew_identity().await);
            }
        }
    }

    /// Removes this server's address, so that clients use other servers.
    pub async fn end(&self) {
        self.ends.store(true, Ordering::Release);
        log_failure(self.remove().await);
        log_failure(self.leases.remove_identity().await);
    }

    fn ends(&self) -> bool {
        self.ends.load(Ordering::Acquire)
    }

    async fn reconcile(&self) -> Result<(), String> {
        let _turn = self.turn.lock().await;
        if self.ends() {
            return Ok(());
        }
        match self.reconciler {
            Reconciler::Nothing => Ok(()),
            Reconciler::Lease => {
                // The lease comes first, so that the other servers know of this one even if a later step fails.
                self.leases.renew().await?;
                self.show_leased(false).await
            }
            Reconciler::Count(most) => self.add_own(most).await,
        }
    }

    async fn remove(&self) -> Result<(), String> {
        let _turn = self.turn.lock().await;
        match self.reconciler {
            Reconciler::Nothing => Ok(()),
            Reconciler::Lease => {
                let is_removed = self.leases.remove().await?;
                // A server that starts as the only one does not change the endpoints: it adds its address in a moment.
                if !is_removed || (!self.ends() && self.leases.addresses().is_empty()) {
                    return Ok(());
                }
                self.show_leased(true).await
            }
            Reconciler::Count(_) => self.remove_own().await,
        }
    }

    /// Sets the addresses to those with a lease.
    async fn show_leased(&self, and_ports: bool) -> Result<(), String> {
        let stored = self.stored();
        if stored.is_none() && self.ends() {
            return Ok(());
        }
        let addresses = self.leases.addresses();
        // This server has just renewed its own lease, so an empty list is an error.
        if addresses.is_empty() && !self.ends() {
            return Err(
                "no API server IP addresses were listed in storage, refusing to erase all endpoints for the \
                 kubernetes Service"
                    .to_owned(),
            );
        }
        let mut next = stored.clone().unwrap_or_else(empty);
        let marked = skip_mirror(&mut next);
        let port = self.port();
        let seen = ExistingEndpoints::new(&next, &port, and_ports);
        let same = seen.has_form && is_same_set(&addresses_of(&next), &addresses);
        if !marked && same && seen.has_ports {
            return self.show_slice(&next).await;
        }
        if !same {
            let ports = match seen.has_form {
                true => ports_of(&next),
                false => vec![port.clone()].into(),
            };
            set_subset(&mut next, addresses, ports);
        }
        if !seen.has_ports {
            set_ports(&mut next, &port);
        }
        self.write(stored.is_none(), next).await
    }

    /// Adds this server's address to the existing ones, of which at most `most` are kept.
    async fn add_own(&self, most: usize) -> Result<(), String> {
        let (stored, port) = (self.stored(), self.port());
        let mut next = stored.clone().unwrap_or_else(empty);
        let marked = skip_mirror(&mut next);
        let seen = ExistingEndpoints::new(&next, &port, false);
        let mut addresses = addresses_of(&next);
        let own = addresses.contains(&self.address.ip) && addresses.len() <= most;
        if !seen.has_form {
            set_subset(&mut next, vec![self.address.ip.clone()], vec![port].into());
            return self.write(stored.is_none(), next).await;
        }
        if !marked && own {
            return self.show_slice(&next).await;
        }
        if !own {
            addresses.push(self.address.ip.clone());
            keep_after(&mut addresses, &self.address.ip, most);
            let ports = ports_of(&next);
            set_subset(&mut next, addresses, ports);
        }
        self.write(false, next).await
    }

    async fn remove_own(&self) -> Result<(), String> {
        let Some(mut next) = self.stored() else { return Ok(()) };
        let mut addresses = addresses_of(&next);
        if !addresses.contains(&self.address.ip) {
            return Ok(());
        }
        addresses.retain(|address| *address != self.address.ip);
        let ports = ports_of(&next);
        set_subset(&mut next, addresses, ports);
        self.write(false, next).await
    }

    fn stored(&self) -> Option<Value> {
        let stored = self.client.get(&self.endpoints, NAMESPACE, NAME);
        stored.map(|stored| stored.tree())
    }

    fn port(&self) -> Value {
        let mut port = Value::empty_map();
        port.set_at(&["name"], "https".into());
        port.set_at(&["port"], Value::Int(self.address.port.into()));
        port.set_at(&["protocol"], "TCP".into());
        port
    }

    async fn write(&self, is_new: bool, next: Value) -> Result<(), String> {
        tracing::info!(addresses = ?addresses_of(&next), "the servers behind the service kubernetes");
        self.put(&self.endpoints, is_new, &next).await?;
        self.show_slice(&next).await
    }

    /// Updates the slice to match the endpoints.
    async fn show_slice(&self, endpoints: &Value) -> Result<(), String> {
        let wanted = slice_of(endpoints);
        let Some(stored) = self.client.get(&self.slices, NAMESPACE, NAME) else {
            return self.put(&self.slices, true, &wanted).await;
        };
        let stored = stored.tree();
        if stored.at(&["addressType"]) != wanted.at(&["addressType"]) {
            let path = path_of(&self.slices, NAMESPACE, NAME).unwrap_or_default();
            let deleted = self.client.delete(&path, &Value::empty_map()).await;
            deleted.map_err(|error| error.to_string())?;
            return self.put(&self.slices, true, &wanted).await;
        }
        let alike = |path: &[&str]| {
            let is_there = |part: &&Value| part.as_list().is_none_or(|list| !list.is_empty());
            let list = |object: &Value| object.at(path).filter(is_there).cloned();
            list(&stored) == list(&wanted)
        };
        if alike(&["endpoints"]) && alike(&["ports"]) && alike(&["metadata", "labels"]) {
            return Ok(());
        }
        self.put(&self.slices, false, &wanted).await
    }

    async fn put(&self, resource: &Resource, is_new: bool, object: &Value) -> Result<(), String> {
        match apiserver::put(&self.client, resource, is_new, object).await {
            // Another server was faster.
            Err(error) if is_new && error.is_conflict() => Ok(()),
            written => written.map(drop).map_err(|error| error.to_string()),
        }
    }
}

fn log_failure<T>(outcome: Result<T, String>) {
    if let Err(error) = outcome {
        tracing::warn!(
            error,
            "cannot update the endpoints of the service kubernetes; will retry"
        );
    }
}

/// Returns Endpoints without addresses.
fn empty() -> Value {
    new_object("v1", "Endpoints", NAMESPACE, NAME)
}

/// Sets the label that excludes the Endpoints from mirroring, because the slice is written separately. Returns true if
/// the label was missing.
fn skip_mirror(endpoints: &mut Value) -> bool {
    let path = ["metadata", "labels", SKIP_MIRROR];
    let marked = endpoints.str_at(&path) == Some("true");
    if !marked {
        endpoints.set_at(&path, "true".into());
    }
    !marked
}

/// Properties of the existing Endpoints that need no change.
struct ExistingEndpoints {
    /// True if there is exactly one subset.
    has_form: bool,
    /// True if the subset has only this server's port, or if ports do not matter.
    has_ports: bool,
}

impl ExistingEndpoints {
    fn new(endpoints: &Value, port: &Value, and_ports: bool) -> Self {
        let subsets = endpoints.at(&["subsets"]).and_then(Value::as_list);
        let has_form = subsets.is_some_and(|subsets| subsets.len() == 1);
        let same = || ports_of(endpoints) == Value::from(vec![port.clone()]);
        Self {
            has_form,
            has_ports: has_form && (!and_ports || same()),
        }
    }
}

fn subset(endpoints: &Value) -> Option<&Value> {
    endpoints.at(&["subsets"])?.as_list()?.first()
}

fn addresses_of(endpoints: &Value) -> Vec<String> {
    let addresses = subset(endpoints).and_then(|subset| subset.at(&["addresses"])?.as_list());
    let ip = |address: &Value| address.str_at(&["ip"]).map(str::to_owned);
    addresses
        .into_iter()
        .flat_map(|list| list.iter().filter_map(ip))
        .collect()
}

fn ports_of(endpoints: &Value) -> Value {
    let ports = subset(endpoints).and_then(|subset| subset.at(&["ports"]));
    ports.cloned().unwrap_or_else(|| Vec::<Value>::new().into())
}

/// Sets the only subset: addresses in the order of their texts; no subset if there is no address.
fn set_subset(endpoints: &mut Value, mut addresses: Vec<String>, ports: Value) {
    addresses.sort_unstable();
    addresses.dedup();
    let address = |ip: &String| {
        let mut address = Value::empty_map();
        address.set_at(&["ip"], ip.as_str().into());
        address
    };
    let shown: Vec<Value> = addresses.iter().map(address).collect();
    if shown.is_empty() {
        endpoints.remove_at(&["subsets"]);
        return;
    }
    let mut subset = Value::empty_map();
    subset.set_at(&["addresses"], shown.into());
    subset.set_at(&["ports"], ports);
    endpoints.set_at(&["subsets"], vec![subset].into());
}

fn set_ports(endpoints: &mut Value, port: &Value) {
    let addresses = addresses_of(endpoints);
    set_subset(endpoints, addresses, vec![port.clone()].into());
}

fn is_same_set(one: &[String], other: &[String]) -> bool {
    one.len() == other.len() && one.iter().all(|address| other.contains(address))
}

/// Reduces the sorted addresses to `own` and at most `most` in total: the addresses that follow `own` are removed
/// first.
fn keep_after(addresses: &mut Vec<String>, own: &str, most: usize) {
    addresses.sort_unstable();
    addresses.dedup();
    while addresses.len() > most.max(1) {
        let at = addresses.iter().position(|address| address == own).unwrap_or_default();
        addresses.remove((at + 1) % addresses.len());
    }
}

/// Returns the EndpointSlice of the Endpoints.
fn slice_of(endpoints: &Value) -> Value {
    let addresses = addresses_of(endpoints);
    let is_v6 = |address: &String| address.contains(':');
    let of_v6 = !addresses.is_empty() && addresses.iter().all(is_v6);
    let endpoint = |ip: &String| {
        let mut endpoint = Value::empty_map();
        endpoint.set_at(&["addresses"], vec![Value::from(ip.as_str())].into());
        endpoint.set_at(&["conditions", "ready"], true.into());
        endpoint
    };
    let shown: Vec<Value> = addresses
        .iter()
        .filter(|address| is_v6(address) == of_v6)
        .map(endpoint)
        .collect();
    let mut slice = new_object("discovery.k8s.io/v1", "EndpointSlice", NAMESPACE, NAME);
    slice.set_at(&["metadata", "labels", "kubernetes.io/service-name"], NAME.into());
    slice.set_at(&["addressType"], if of_v6 { "IPv6" } else { "IPv4" }.into());
    slice.set_at(&["endpoints"], shown.into());
    slice.set_at(&["ports"], ports_of(endpoints));
    slice
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(addresses: &[&str]) -> Vec<String> {
        addresses.iter().map(ToString::to_string).collect()
    }

    fn with(addresses: &[&str]) -> Value {
        let mut endpoints = empty();
        let mut port = Value::empty_map();
        port.set_at(&["port"], 6443.into());
        set_subset(&mut endpoints, texts(addresses), vec![port].into());
        endpoints
    }

    #[test]
    fn addresses_stand_in_the_order_of_their_texts_once_each() {
        let endpoints = with(&["10.0.0.9", "10.0.0.10", "10.0.0.9"]);
        assert_eq!(addresses_of(&endpoints), ["10.0.0.10", "10.0.0.9"]);
        assert_eq!(with(&[]).at(&["subsets"]), None);
    }

    #[test]
    fn of_too_many_addresses_those_behind_ones_own_go() {
        let mut all = texts(&["a", "b", "c", "d"]);
        keep_after(&mut all, "c", 2);
        assert_eq!(all, ["b", "c"]);
        let mut one = texts(&["a"]);
        keep_after(&mut one, "a", 1);
        assert_eq!(one, ["a"]);
    }

    #[test]
    fn a_slice_has_addresses_of_one_family() {
        let slice = slice_of(&with(&["10.0.0.1", "fd00::1"]));
        assert_eq!(slice.str_at(&["addressType"]), Some("IPv4"));
        assert_eq!(
            slice.at(&["endpoints"]).and_then(Value::as_list).map(|list| list.len()),
            Some(1)
        );
        let slice = slice_of(&with(&["fd00::1", "fd00::2"]));
        assert_eq!(slice.str_at(&["addressType"]), Some("IPv6"));
        assert_eq!(
            slice.at(&["endpoints"]).and_then(Value::as_list).map(|list| list.len()),
            Some(2)
        );
    }

    #[test]
    fn endpoints_without_single_subset_are_replaced() {
        let port = Value::empty_map();
        assert!(!ExistingEndpoints::new(&empty(), &port, true).has_form);
        let seen = ExistingEndpoints::new(&with(&["a"]), &port, true);
        assert!(seen.has_form && !seen.has_ports);
        assert!(ExistingEndpoints::new(&with(&["a"]), &port, false).has_ports);
        let mut marked = empty();
        assert!(skip_mirror(&mut marked));
        assert!(!skip_mirror(&mut marked));
    }
}
