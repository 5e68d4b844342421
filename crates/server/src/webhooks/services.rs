//! Resolution of the services of the cluster to addresses.

use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use arc_swap::ArcSwap;
use holdfast_resource::{Lookup as _, Registry};
use holdfast_schema::GroupResource;
use holdfast_value::{SmolStr, Value};

use crate::objects::Store;
use crate::objects::Trees;
use crate::objects::lookup::SnapshotLookup;

/// The services of the cluster.
pub(crate) struct Services {
    store: Arc<Store>,
    registry: Arc<ArcSwap<Registry>>,
    trees: Trees,
    /// Number of endpoints chosen so far: each call uses the next one.
    resolved: AtomicUsize,
}

/// Label of an EndpointSlice with the name of its service.
const SERVICE_NAME: &str = "kubernetes.io/service-name";

impl Services {
    pub(crate) fn new(store: Arc<Store>, registry: Arc<ArcSwap<Registry>>) -> Self {
        Self {
            store,
            registry,
            trees: Trees::default(),
            resolved: AtomicUsize::default(),
        }
    }

    /// Resolves `host`, which is `NAME.NAMESPACE.svc`, and `port` to an endpoint of that service, which needs no
    /// service network, or else to its cluster address.
    ///
    /// # Errors
    /// If the service has no address; the text is the reason.
    pub(super) fn place(&self, host: &str, port: u16) -> Result<(String, u16), String> {
        let mut parts = host.splitn(3, '.');
        let (name, namespace) = (parts.next().unwrap_or_default(), parts.next().unwrap_or_default());
        self.look(|lookup| self.endpoint(lookup, namespace, name, port))
    }

    /// Calls `look` with the current objects.
    pub(super) fn look<T>(&self, look: impl FnOnce(&SnapshotLookup<'_>) -> T) -> T {
        let registry = self.registry.load();
        let snapshot = self.store.snapshot();
        look(&SnapshotLookup {
            registry: &registry,
            snapshot: &snapshot,
            trees: &self.trees,
            failing: false,
        })
    }

    /// Returns a different number each time.
    pub(super) fn next(&self) -> usize {
        self.resolved.fetch_add(1, Ordering::Relaxed)
    }

    fn endpoint(
        &self,
        lookup: &SnapshotLookup<'_>,
        namespace: &str,
        name: &str,
        port: u16,
    ) -> Result<(String, u16), String> {
        let service = service(lookup, namespace, name).ok_or_else(|| not_found(name))?;
        if service.str_at(&["spec", "type"]) == Some("ExternalName") {
            let external = service.str_at(&["spec", "externalName"]).unwrap_or_default();
            return Ok((external.to_owned(), port));
        }
        let port_name = port_name(&service, port).ok_or_else(|| no_port(name, port))?;
        let mut places = Vec::new();
        each_slice(lookup, namespace, name, |slice| in_slice(slice, port_name, &mut places));
        if places.is_empty()
            && let Some(endpoints) = lookup.get(&resource("", "endpoints"), namespace, name)
        {
            in_endpoints(&endpoints, port_name, &mut places);
        }
        if !places.is_empty() {
            let next = self.next() % places.len();
            return Ok(places.swap_remove(next));
        }
        match service.str_at(&["spec", "clusterIP"]) {
            None | Some("" | "None") => Err(no_endpoints(name)),
            Some(address) => Ok((address.to_owned(), port)),
        }
    }
}

pub(super) fn service(lookup: &SnapshotLookup<'_>, namespace: &str, name: &str) -> Option<Value> {
    lookup.get(&resource("", "services"), namespace, name)
}

/// Passes each endpoint slice of a service to `show`.
pub(super) fn each_slice(lookup: &SnapshotLookup<'_>, namespace: &str, name: &str, mut show: impl FnMut(&Value)) {
    lookup.list(
        &resource("discovery.k8s.io", "endpointslices"),
        namespace,
        &mut |slice| {
            if slice.str_at(&["metadata", "labels", SERVICE_NAME]) == Some(name) {
                show(slice);
            }
            ControlFlow::Continue(())
        },
    );
}

/// Returns the name of the service port with that number.
pub(super) fn port_name(service: &Value, port: u16) -> Option<&str> {
    let number = |of: &Value| of.get("port").and_then(Value::as_i64);
    let of_port = items(service.at(&["spec", "ports"])).find(|of| number(of) == Some(i64::from(port)))?;
    Some(of_port.str_at(&["name"]).unwrap_or_default())
}

pub(super) fn is_ready(endpoint: &Value) -> bool {
    endpoint.at(&["conditions", "ready"]).and_then(Value::as_bool) != Some(false)
}

pub(super) fn not_found(name: &str) -> String {
    format!("service {name:?} not found")
}

pub(super) fn no_port(name: &str, port: u16) -> String {
    format!("no service port {port} found for service {name:?}")
}

pub(super) fn no_endpoints(name: &str) -> String {
    format!("no endpoints available for service {name:?}")
}

fn resource(group: &'static str, resource: &'static str) -> GroupResource {
    GroupResource {
        group: SmolStr::new_static(group),
        resource: SmolStr::new_static(resource),
    }
}

pub(super) fn items(list: Option<&Value>) -> impl Iterator<Item = &Value> {
    list.and_then(Value::as_list).into_iter().flat_map(|list| list.iter())
}

/// Returns the number of the port with that name.
pub(super) fn numbered(ports: Option<&Value>, name: &str) -> Option<u16> {
    let named = items(ports).find(|port| port.str_at(&["name"]).unwrap_or_default() == name)?;
    u16::try_from(named.get("port")?.as_i64()?).ok()
}

/// Adds the ready endpoints of a slice to `places`.
fn in_slice(slice: &Value, port_name: &str, places: &mut Vec<(String, u16)>) {
    let Some(port) = numbered(slice.get("ports"), port_name) else {
        return;
    };
    for endpoint in items(slice.get("endpoints")) {
        let address = items(endpoint.get("addresses")).find_map(Value::as_str);
        if let Some(address) = address.filter(|_| is_ready(endpoint)) {
            places.push((address.to_owned(), port));
        }
    }
}

/// Adds the ready endpoints to `places`.
fn in_endpoints(endpoints: &Value, port_name: &str, places: &mut Vec<(String, u16)>) {
    for subset in items(endpoints.get("subsets")) {
        let Some(port) = numbered(subset.get("ports"), port_name) else {
            continue;
        };
        let addresses = items(subset.get("addresses")).filter_map(|address| address.str_at(&["ip"]));
        places.extend(addresses.map(|address| (address.to_owned(), port)));
    }
}

#[cfg(test)]
mod tests {
    use holdfast_value::{Limits, yaml};

    use super::*;

    fn parse(text: &str) -> Value {
        yaml::parse(text.as_bytes(), &Limits::TRUSTED).unwrap()
    }

    fn place(address: &str, port: u16) -> (String, u16) {
        (address.to_owned(), port)
    }

    #[test]
    fn endpoints_are_taken_with_the_port_of_that_name() {
        let endpoints = parse(
            "{subsets: [{notReadyAddresses: [{ip: 10.0.0.1}], ports: [{name: a, port: 1}]}, \
             {addresses: [{ip: 10.0.0.2}], ports: [{name: b, port: 2}, {name: a, port: 3}]}]}",
        );
        let (mut named, mut unnamed) = (Vec::new(), Vec::new());
        in_endpoints(&endpoints, "a", &mut named);
        in_endpoints(&endpoints, "", &mut unnamed);
        assert_eq!(named, [place("10.0.0.2", 3)]);
        assert_eq!(unnamed, []);
    }

    #[test]
    fn slices_count_as_ready_what_is_not_said_to_be_otherwise() {
        let slice = parse(
            "{ports: [{port: 9443}], endpoints: [{addresses: [10.0.0.1], conditions: {ready: false}}, \
             {addresses: [10.0.0.2]}, {addresses: [10.0.0.3, 10.0.0.4], conditions: {ready: true}}]}",
        );
        let mut places = Vec::new();
        in_slice(&slice, "", &mut places);
        assert_eq!(places, [place("10.0.0.2", 9443), place("10.0.0.3", 9443)]);
    }
}
