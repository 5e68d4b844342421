//! Where the services of the cluster are reached.

use std::sync::Arc;

use arc_swap::ArcSwap;
use holdfast_resource::{GroupResource, Lookup as _, Registry};
use holdfast_value::{SmolStr, Value};

use crate::lookup::SnapshotLookup;
use crate::objects::Store;

/// The services of the cluster.
pub(super) struct Services {
    pub(super) store: Arc<Store>,
    pub(super) registry: Arc<ArcSwap<Registry>>,
}

impl Services {
    /// Where `host` is reached on `port`: `NAME.NAMESPACE.svc` at an endpoint of that service, which needs no network of
    /// services, or else at its cluster address; any other host as it is.
    ///
    /// # Errors
    /// Why a service is nowhere to be reached.
    pub(super) fn place(&self, host: &str, port: u16) -> Result<(String, u16), String> {
        let parts: Vec<&str> = host.split('.').collect();
        let [name, namespace, "svc"] = parts[..] else {
            return Ok((host.to_owned(), port));
        };
        let registry = self.registry.load();
        let snapshot = self.store.snapshot();
        let lookup = SnapshotLookup {
            registry: &registry,
            snapshot: &snapshot,
            failing: false,
        };
        let core = |resource: &'static str| GroupResource {
            group: SmolStr::default(),
            resource: SmolStr::new_static(resource),
        };
        let service = lookup
            .get(&core("services"), namespace, name)
            .ok_or_else(|| format!("service {name:?} not found"))?;
        if service.str_at(&["spec", "type"]) == Some("ExternalName") {
            let external = service.str_at(&["spec", "externalName"]).unwrap_or_default();
            return Ok((external.to_owned(), port));
        }
        let number = |of: &Value| of.get("port").and_then(Value::as_i64);
        let of_port = items(service.at(&["spec", "ports"])).find(|of| number(of) == Some(i64::from(port)));
        let of_port = of_port.ok_or_else(|| format!("no service port {port} found for service {name:?}"))?;
        let endpoints = lookup.get(&core("endpoints"), namespace, name);
        if let Some(place) = endpoints.and_then(|endpoints| endpoint(&endpoints, of_port)) {
            return Ok(place);
        }
        match service.str_at(&["spec", "clusterIP"]) {
            None | Some("" | "None") => Err(format!("no endpoints available for service {name:?}")),
            Some(address) => Ok((address.to_owned(), port)),
        }
    }
}

fn items(list: Option<&Value>) -> impl Iterator<Item = &Value> {
    list.and_then(Value::as_list).into_iter().flat_map(|list| list.iter())
}

/// The first endpoint that is ready, with the port of the name that the service's port has.
fn endpoint(endpoints: &Value, of_port: &Value) -> Option<(String, u16)> {
    let name = |of: &Value| of.str_at(&["name"]).unwrap_or_default().to_owned();
    items(endpoints.get("subsets")).find_map(|subset| {
        let address = items(subset.get("addresses")).find_map(|address| address.str_at(&["ip"]))?;
        let port = items(subset.get("ports")).find(|port| name(port) == name(of_port))?;
        let port = u16::try_from(port.get("port")?.as_i64()?).ok()?;
        Some((address.to_owned(), port))
    })
}

#[cfg(test)]
mod tests {
    use holdfast_value::{Limits, yaml};

    use super::*;

    #[test]
    fn an_endpoint_is_taken_with_the_port_of_that_name() {
        let parse = |text: &str| yaml::parse(text.as_bytes(), &Limits::TRUSTED).unwrap();
        let endpoints = parse(
            "{subsets: [{notReadyAddresses: [{ip: 10.0.0.1}], ports: [{name: a, port: 1}]}, \
             {addresses: [{ip: 10.0.0.2}], ports: [{name: b, port: 2}, {name: a, port: 3}]}]}",
        );
        let found = endpoint(&endpoints, &parse("{name: a, port: 443}"));
        assert_eq!(found, Some(("10.0.0.2".to_owned(), 3)));
        assert_eq!(endpoint(&endpoints, &parse("{port: 443}")), None);
    }
}
