//! Addresses of aggregated servers, and checks of their services
//! (<https://kubernetes.io/docs/concepts/extend-kubernetes/api-extension/apiserver-aggregation/>).

use std::cmp::Reverse;

use holdfast_aggregation::Unreachable;
use holdfast_value::Value;

use super::services::{
    Services, each_slice, is_ready, items, no_endpoints, no_port, not_found, numbered, port_name, service,
};
use crate::objects::lookup::SnapshotLookup;

/// Route of requests to the service of an aggregated server.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Routing {
    /// To its cluster IP, or to its external name.
    #[default]
    ClusterIp,
    /// To its endpoints.
    Endpoints,
}

/// The types of services that have a cluster IP.
const WITH_CLUSTER_IP: [&str; 3] = ["ClusterIP", "LoadBalancer", "NodePort"];

impl Services {
    /// Resolves a service and `port` to a host and port.
    ///
    /// # Errors
    /// If the service has no address; the text is the reason.
    pub(crate) fn resolve(
        &self,
        routing: Routing,
        namespace: &str,
        name: &str,
        port: u16,
    ) -> Result<(String, u16), String> {
        self.look(|lookup| {
            let service = service(lookup, namespace, name).ok_or_else(|| not_found(name))?;
            match routing {
                Routing::ClusterIp => cluster_address(&service, name, port),
                Routing::Endpoints => {
                    let slices = slices(lookup, namespace, name);
                    endpoint_address(&service, slices, name, port, self.next())
                }
            }
        })
    }

    /// Checks that a service and its endpoints can serve `port`.
    ///
    /// # Errors
    /// If they cannot; the error is for the condition of the APIService.
    pub(crate) fn check(&self, namespace: &str, name: &str, port: u16) -> Result<(), Unreachable> {
        self.look(|lookup| {
            let Some(service) = service(lookup, namespace, name) else {
                let message = format!("service/{name} in {namespace:?} is not present");
                let reason = "ServiceNotFound";
                return Err(Unreachable { reason, message });
            };
            check_service(&service, || slices(lookup, namespace, name), namespace, name, port)
        })
    }
}

/// Returns the endpoint slices of a service.
fn slices(lookup: &SnapshotLookup<'_>, namespace: &str, name: &str) -> Vec<Value> {
    let mut slices = Vec::new();
    each_slice(lookup, namespace, name, |slice| slices.push(slice.clone()));
    slices
}

fn service_type(service: &Value) -> &str {
    service.str_at(&["spec", "type"]).unwrap_or("ClusterIP")
}

fn cluster_address(service: &Value, name: &str, port: u16) -> Result<(String, u16), String> {
    let cluster_ip = service.str_at(&["spec", "clusterIP"]).unwrap_or_default();
    match service_type(service) {
        "ClusterIP" if cluster_ip == "None" => Err("cannot route to service with ClusterIP \"None\"".to_owned()),
        with if WITH_CLUSTER_IP.contains(&with) => match port_name(service, port) {
            Some(_) => Ok((cluster_ip.to_owned(), port)),
            None => Err(no_port(name, port)),
        },
        "ExternalName" => {
            let external = service.str_at(&["spec", "externalName"]).unwrap_or_default();
            Ok((external.to_owned(), port))
        }
        other => Err(format!("unsupported service type {other:?}")),
    }
}

/// Returns a ready address; those of the service's first address family come first. `turn` chooses among them.
fn endpoint_address(
    service: &Value,
    mut slices: Vec<Value>,
    name: &str,
    port: u16,
    turn: usize,
) -> Result<(String, u16), String> {
    let of_type = service_type(service);
    if !WITH_CLUSTER_IP.contains(&of_type) {
        return Err(format!("unsupported service type {of_type:?}"));
    }
    let port_name = port_name(service, port).ok_or_else(|| no_port(name, port))?;
    let none = || no_endpoints(name);
    if slices.is_empty() {
        return Err(none());
    }
    let count = slices.len();
    slices.rotate_left(turn % count);
    let family = items(service.at(&["spec", "ipFamilies"])).find_map(Value::as_str);
    slices.sort_by_key(|slice| Reverse(slice.str_at(&["addressType"]) == family));
    for slice in &slices {
        let Some(number) = numbered(slice.get("ports"), port_name) else {
            continue;
        };
        let ready: Vec<&Value> = items(slice.get("endpoints"))
            .filter(|endpoint| is_ready(endpoint))
            .collect();
        let Some(endpoint) = ready.get(turn % ready.len().max(1)) else {
            continue;
        };
        if let Some(address) = items(endpoint.get("addresses")).find_map(Value::as_str) {
            return Ok((address.to_owned(), number));
        }
    }
    Err(none())
}

fn check_service(
    service: &Value,
    slices: impl FnOnce() -> Vec<Value>,
    namespace: &str,
    name: &str,
    port: u16,
) -> Result<(), Unreachable> {
    // The addresses of services of other types are unknown.
    if service_type(service) != "ClusterIP" {
        return Ok(());
    }
    let error = |reason, message| Err(Unreachable { reason, message });
    let Some(port_name) = port_name(service, port) else {
        let message = format!("service/{name} in {namespace:?} is not listening on port {port}");
        return error("ServicePortError", message);
    };
    let slices = slices();
    if slices.is_empty() {
        let message = format!("cannot find endpointslices for service/{name} in {namespace:?}");
        return error("EndpointsNotFound", message);
    }
    let active = |slice: &Value| {
        items(slice.get("endpoints")).any(is_ready) && numbered(slice.get("ports"), port_name).is_some()
    };
    if slices.iter().any(active) {
        return Ok(());
    }
    let message =
        format!("endpointslices for service/{name} in {namespace:?} have no addresses with port name {port_name:?}");
    error("MissingEndpoints", message)
}

#[cfg(test)]
mod tests {
    use holdfast_value::{Limits, yaml};

    use super::*;

    fn parse(text: &str) -> Value {
        yaml::parse(text.as_bytes(), &Limits::TRUSTED).unwrap()
    }

    fn place(address: &str, port: u16) -> Result<(String, u16), String> {
        Ok((address.to_owned(), port))
    }

    fn rejected(why: &str) -> Result<(String, u16), String> {
        Err(why.to_owned())
    }

    const PORTS: &str = "ports: [{name: web, port: 443}]";

    #[test]
    fn a_service_is_reached_at_its_cluster_ip_or_by_its_other_name() {
        let at = |spec: &str, port| cluster_address(&parse(&format!("{{spec: {{{spec}}}}}")), "s", port);
        let clustered = format!("type: NodePort, clusterIP: 10.0.0.5, {PORTS}");
        assert_eq!(at(&clustered, 443), place("10.0.0.5", 443));
        assert_eq!(
            at(&clustered, 80),
            rejected("no service port 80 found for service \"s\"")
        );
        assert_eq!(
            at(&format!("type: ClusterIP, clusterIP: None, {PORTS}"), 443),
            rejected("cannot route to service with ClusterIP \"None\"")
        );
        assert_eq!(
            at("type: ExternalName, externalName: a.example", 7),
            place("a.example", 7)
        );
        assert_eq!(at("type: Odd", 7), rejected("unsupported service type \"Odd\""));
    }

    #[test]
    fn endpoints_are_those_that_are_ready_of_the_first_family_first() {
        let service = parse(&format!(
            "{{spec: {{type: ClusterIP, ipFamilies: [IPv6, IPv4], {PORTS}}}}}"
        ));
        let slice = |family: &str, address: &str, ready: bool| {
            parse(&format!(
                "{{addressType: {family}, ports: [{{name: web, port: 8443}}], endpoints: [{{addresses: [{address:?}], \
                 conditions: {{ready: {ready}}}}}]}}"
            ))
        };
        let at = |slices: Vec<Value>, turn| endpoint_address(&service, slices, "s", 443, turn);
        let both = || vec![slice("IPv4", "10.0.0.1", true), slice("IPv6", "fd00::1", true)];
        for turn in 0..3 {
            assert_eq!(at(both(), turn), place("fd00::1", 8443));
        }
        let one_ready = vec![slice("IPv4", "10.0.0.1", true), slice("IPv6", "fd00::1", false)];
        assert_eq!(at(one_ready, 0), place("10.0.0.1", 8443));
        let none = rejected("no endpoints available for service \"s\"");
        assert_eq!(at(vec![slice("IPv4", "10.0.0.1", false)], 0), none);
        assert_eq!(at(Vec::new(), 0), none);
        let external = parse("{spec: {type: ExternalName}}");
        assert_eq!(
            endpoint_address(&external, Vec::new(), "s", 443, 0),
            rejected("unsupported service type \"ExternalName\"")
        );
    }

    #[test]
    fn service_problem_is_reported_in_the_reference_words() {
        let error_text = |service: &str, slices: &[&str]| {
            let slices = slices.iter().map(|slice| parse(slice)).collect();
            let error = check_service(&parse(service), || slices, "ns", "s", 443);
            error.map_err(|error| format!("{}: {}", error.reason, error.message))
        };
        let service = format!("{{spec: {{type: ClusterIP, {PORTS}}}}}");
        let ready = "{ports: [{name: web, port: 1}], endpoints: [{addresses: [10.0.0.1]}]}";
        assert_eq!(error_text(&service, &[ready]), Ok(()));
        assert_eq!(error_text("{spec: {type: ExternalName}}", &[]), Ok(()));
        let fails =
            |service: &str, slices: &[&str], why: &str| assert_eq!(error_text(service, slices).unwrap_err(), why);
        fails(
            "{spec: {type: ClusterIP, ports: [{port: 80}]}}",
            &[],
            "ServicePortError: service/s in \"ns\" is not listening on port 443",
        );
        fails(
            &service,
            &[],
            "EndpointsNotFound: cannot find endpointslices for service/s in \"ns\"",
        );
        let missing =
            "MissingEndpoints: endpointslices for service/s in \"ns\" have no addresses with port name \"web\"";
        fails(&service, &["{ports: [{name: web, port: 1}]}"], missing);
        fails(
            &service,
            &["{ports: [{name: other, port: 1}], endpoints: [{addresses: [10.0.0.1]}]}"],
            missing,
        );
    }
}
