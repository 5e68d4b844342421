//! Proxy to a Service: requests are passed on to a pod among its endpoints.

use holdfast_resource::table::items;
use holdfast_resource::{ConnectParameter, Connecter, Connection, Rejection, WriteContext, is_global_unicast};
use holdfast_value::Value;

use super::super::kubelet::ProxyTarget;
use super::super::{of_core, proxy_parameters};
use crate::validation::addresses::lenient_address;

/// Proxy to a Service.
pub(crate) struct Proxy {
    /// Source of the numbers that choose among the endpoints.
    pub(crate) random: fn() -> u64,
}

impl Connecter for Proxy {
    fn parameters(&self) -> &'static [ConnectParameter] {
        const { &proxy_parameters("The path to ask the service for.") }
    }

    fn connect(&self, context: &WriteContext<'_>, options: &Value) -> Connection {
        self.destination(context, options).unwrap_or_else(Connection::Refused)
    }
}

impl Proxy {
    /// Returns the destination of a request: the address of a pod.
    ///
    /// upstream: pkg/registry/core/service/storage#REST.ResourceLocation
    fn destination(&self, context: &WriteContext<'_>, options: &Value) -> Result<Connection, Rejection> {
        let target = ProxyTarget::parse(context.name, "service")?;
        let missing = || Rejection::NotFound {
            resource: of_core("services"),
            name: target.name.to_owned(),
        };
        let port = match target.port.parse::<i64>() {
            Ok(number) => {
                let service = context.lookup.get(&of_core("services"), context.namespace, target.name);
                port_name(&service.ok_or_else(missing)?, target.name, number)?
            }
            Err(_) => target.port.to_owned(),
        };
        // The reference reports a Service without Endpoints as missing.
        let found = context
            .lookup
            .get(&of_core("endpoints"), context.namespace, target.name);
        let endpoints = found.ok_or_else(missing)?;
        let subsets = items(&endpoints, &["subsets"]);
        if subsets.is_empty() {
            return Err(no_endpoints(target.name));
        }
        let found = self.endpoint(context, subsets, &port);
        let (address, number) = found.ok_or_else(|| no_endpoints(context.name))?;
        target.destination(address, &number.to_string(), options, false)
    }

    /// Returns the address of a pod that has the port, and the number of the port.
    fn endpoint(&self, context: &WriteContext<'_>, subsets: &[Value], port: &str) -> Option<(String, i64)> {
        each_from(subsets, (self.random)()).find_map(|subset| {
            let named = |of: &&Value| of.str_at(&["name"]).unwrap_or_default() == port;
            let found = items(subset, &["ports"]).iter().find(named)?;
            let number = found.get("port").and_then(Value::as_i64)?;
            let addresses = items(subset, &["addresses"]);
            let mut of_pods = each_from(addresses, (self.random)()).filter(|address| is_pod(context, address));
            Some((of_pods.find_map(reachable_ip)?, number))
        })
    }
}

/// Returns the name of the port of a Service with that number.
fn port_name(service: &Value, name: &str, number: i64) -> Result<String, Rejection> {
    let ports = items(service, &["spec", "ports"]).iter();
    let mut numbered = ports.filter(|port| port.get("port").and_then(Value::as_i64) == Some(number));
    let found = numbered
        .next()
        .map(|port| port.str_at(&["name"]).unwrap_or_default().to_owned());
    found.ok_or_else(|| Rejection::Unavailable(format!("no service port {number} found for service {name:?}")))
}

fn no_endpoints(name: &str) -> Rejection {
    Rejection::Unavailable(format!("no endpoints available for service {name:?}"))
}

/// Returns all items, beginning with a random one.
fn each_from(items: &[Value], random: u64) -> impl Iterator<Item = &Value> {
    let first = usize::try_from(random)
        .unwrap_or_default()
        .checked_rem(items.len())
        .unwrap_or_default();
    items.iter().cycle().skip(first).take(items.len())
}

/// Returns the IP address of an endpoint in canonical form, if requests may be passed on to it. In other forms, such as
/// `0177.0.0.1`, the system may read another address than the validation did.
fn reachable_ip(address: &Value) -> Option<String> {
    let ip = lenient_address(address.str_at(&["ip"])?)?.to_canonical();
    is_global_unicast(ip).then(|| ip.to_string())
}

/// Returns true if an endpoint has the address of the pod that it refers to, in the namespace of the request.
///
/// upstream: pkg/registry/core/service/storage#isValidAddress
fn is_pod(context: &WriteContext<'_>, address: &Value) -> bool {
    let Some(target) = address.get("targetRef") else {
        return false;
    };
    if target.str_at(&["namespace"]).unwrap_or_default() != context.namespace {
        return false;
    }
    let name = target.str_at(&["name"]).unwrap_or_default();
    let Some(pod) = context.lookup.get(&of_core("pods"), context.namespace, name) else {
        return false;
    };
    let ip = address.str_at(&["ip"]);
    ip.is_some()
        && items(&pod, &["status", "podIPs"])
            .iter()
            .any(|of| of.str_at(&["ip"]) == ip)
}

#[cfg(test)]
mod tests {
    use holdfast_value::Map;

    use super::*;

    #[test]
    fn only_global_ips_of_endpoints_are_reachable() {
        for (ip, expected) in [
            ("10.0.0.1", Some("10.0.0.1")),
            ("010.0.0.1", Some("10.0.0.1")),
            ("::ffff:10.0.0.1", Some("10.0.0.1")),
            ("FD00::1", Some("fd00::1")),
            ("0177.0.0.1", Some("177.0.0.1")),
            ("127.0.0.1", None),
            ("::ffff:127.0.0.1", None),
            ("169.254.169.254", None),
            ("localhost", None),
        ] {
            let mut address = Map::new();
            address.insert("ip", ip);
            assert_eq!(reachable_ip(&Value::Map(address)).as_deref(), expected, "{ip}");
        }
    }
}
