//! Endpoints, which EndpointSlices replace: <https://kubernetes.io/docs/concepts/services-networking/service/#endpoints>.

use std::net::{IpAddr, SocketAddr};

use holdfast_kind_tables::Kind;
use holdfast_resource::table::{NamedCell, items};
use holdfast_resource::{InitialObjects, Strategy, WriteContext};
use holdfast_schema::metadata::formats::dns_label;
use holdfast_schema::metadata::new_object;
use holdfast_schema::{AnyRules, Check, Field, FieldError, Part, Rules};
use holdfast_value::Value;

use crate::cells::first_of;
use crate::config::Config;
use crate::kind::kind;
use crate::rules::EndpointsRule;
use crate::validation::addresses::{Reading, address_warning, endpoint_address, lenient_address};
use crate::validation::{Errors, report, same};

/// Rules of Endpoints only.
pub(crate) struct Endpoints {
    /// Address of the server for clients inside the cluster.
    pub(crate) server: Option<SocketAddr>,
    /// True if the object of the server exists from the start.
    pub(crate) first: bool,
    /// Strictness of address parsing.
    pub(crate) reading: Reading,
}

/// Label that names the controller of Endpoints, and the name of Kubernetes' own controller, whose addresses are
/// canonical and get no warnings.
const MANAGED_BY: &str = "endpoints.kubernetes.io/managed-by";
const ENDPOINTS_CONTROLLER: &str = "endpoint-controller";

/// Returns the kind with its capabilities.
pub(super) fn declare(config: &Config) -> Kind {
    kind(Endpoints {
        server: config.server(),
        first: config.first_endpoints,
        reading: Reading::for_features(config.features),
    })
    .initial_objects()
    .cells(CELLS)
    .deprecated("v1 Endpoints is deprecated in v1.33+; use discovery.k8s.io/v1 EndpointSlice")
    .done()
}

impl Strategy for Endpoints {
    /// upstream: pkg/registry/core/endpoint#endpointsStrategy.Validate
    fn validate(&self, context: &WriteContext<'_>, object: &Value) -> Vec<FieldError> {
        let own = own_address(self.server, context);
        let reading = self.reading;
        context.check(object, &SubsetRules { own, reading })
    }

    /// Validates only what changed: existing values that are invalid stay allowed.
    ///
    /// upstream: pkg/registry/core/endpoint#endpointsStrategy.ValidateUpdate
    fn validate_update(&self, context: &WriteContext<'_>, object: &Value, old: &Value) -> Vec<FieldError> {
        if same(object.get("subsets"), old.get("subsets")) {
            return Errors::new();
        }
        self.validate(context, object)
    }

    /// upstream: pkg/registry/core/endpoint#endpointsStrategy.WarningsOnCreate
    /// upstream: pkg/registry/core/endpoint#endpointsStrategy.WarningsOnUpdate
    fn warnings(&self, _context: &WriteContext<'_>, object: &Value, _old: Option<&Value>) -> Vec<String> {
        let mut warnings = Vec::new();
        if object.str_at(&["metadata", "labels", MANAGED_BY]) == Some(ENDPOINTS_CONTROLLER) {
            return warnings;
        }
        for subset in Field::root(object).child("subsets").items() {
            let (ready, waiting) = (subset.child("addresses"), subset.child("notReadyAddresses"));
            for address in ready.items().chain(waiting.items()) {
                warnings.extend(address_warning(&address.child("ip")));
            }
        }
        warnings
    }
}

impl InitialObjects for Endpoints {
    /// Returns the endpoints of the Service `kubernetes`: the server itself.
    fn initial_objects(&self) -> Vec<Value> {
        let behind = |server: SocketAddr| {
            let mut address = Value::empty_map();
            address.set_at(&["ip"], server.ip().to_string().into());
            let mut subset = Value::empty_map();
            subset.set_at(&["addresses"], vec![address].into());
            subset.set_at(&["ports"], vec![port_of_server(server)].into());
            let mut object = new_object("v1", "Endpoints", "default", "kubernetes");
            // The server creates its EndpointSlice itself, so the slice is not a mirror.
            object.set_at(
                &["metadata", "labels", "endpointslice.kubernetes.io/skip-mirror"],
                "true".into(),
            );
            object.set_at(&["subsets"], vec![subset].into());
            object
        };
        self.server.filter(|_| self.first).map(behind).into_iter().collect()
    }

    fn reconcile(&self, stored: &Value, initial: &Value) -> Option<Value> {
        with_parts_of(stored, initial, &["subsets"])
    }
}

/// Returns the port of the server, under the name that the endpoints of its Service use.
pub(crate) fn port_of_server(server: SocketAddr) -> Value {
    let mut port = Value::empty_map();
    port.set_at(&["name"], "https".into());
    port.set_at(&["port"], Value::Int(server.port().into()));
    port.set_at(&["protocol"], "TCP".into());
    port
}

/// Returns `stored` with these parts replaced by those of `wanted`, or `None` if they are equal already.
pub(crate) fn with_parts_of(stored: &Value, wanted: &Value, parts: &[&str]) -> Option<Value> {
    let mut object = stored.clone();
    for part in parts {
        if let Some(value) = wanted.at(&[*part]) {
            object.set_at(&[*part], value.clone());
        }
    }
    (object != *stored).then_some(object)
}

/// Returns the address of the server if the write targets the endpoints of the server's own Service. A server that is
/// only reachable on its own machine has an address that no other endpoint can have.
pub(crate) fn own_address(server: Option<SocketAddr>, context: &WriteContext<'_>) -> Option<IpAddr> {
    let own = context.namespace == "default" && context.name == "kubernetes";
    server.filter(|_| own).map(|server| server.ip())
}

/// Checks of `validateEndpointSubsets` in code, with the address of the server where it is allowed.
struct SubsetRules {
    own: Option<IpAddr>,
    reading: Reading,
}

impl<'v> Rules<'v> for SubsetRules {
    type Rule = EndpointsRule;

    fn rule(&self, rule: EndpointsRule, part: &Part<'v, '_>, check: &mut Check<'_>) {
        match rule {
            EndpointsRule::Addresses => validate_some_address(part, &mut check.errors),
            EndpointsRule::Ip => self.reading.address(&part.child("ip"), &mut check.errors),
            EndpointsRule::Endpoint => validate_endpoint(&part.child("ip"), self.own, &mut check.errors),
            EndpointsRule::Ports => self.validate_ports(part, check),
        }
    }
}

impl SubsetRules {
    /// Validates the ports of a subset. Several ports need distinct names.
    ///
    /// upstream: pkg/apis/core/validation#validateEndpointPort
    fn validate_ports<'v>(&self, subset: &Part<'v, '_>, check: &mut Check<'_>) {
        let ports = subset.child("ports");
        for port in check.items(subset, "ports", &ports) {
            let name = port.child("name");
            if !name.text().is_empty() {
                report(&name, dns_label(name.text()), &mut check.errors);
            } else if ports.len() > 1 {
                check.errors.push(name.required(""));
            }
            check.values(&port, self as &dyn AnyRules<'v>);
        }
    }
}

/// upstream: pkg/apis/core/validation#validateEndpointSubsets
fn validate_some_address(subset: &Field<'_, '_>, errors: &mut Errors) {
    if subset.child("addresses").is_empty() && subset.child("notReadyAddresses").is_empty() {
        errors.push(subset.required("must specify `addresses` or `notReadyAddresses`"));
    }
}

/// upstream: pkg/apis/core/validation#validateEndpointAddress
fn validate_endpoint(ip: &Field<'_, '_>, own: Option<IpAddr>, errors: &mut Errors) {
    if lenient_address(ip.text()).is_some() {
        endpoint_address(ip, own, errors);
    } else {
        // Two checks of the reference report this, each with its own message.
        errors.push(ip.invalid_text("must be a valid IP address"));
    }
}

/// Table cells that show more than the value at one path.
pub(super) const CELLS: &[NamedCell] = &[("endpoints", |object, _| of_subsets(object))];

/// Returns the ready addresses of all subsets, each combined with each port of its subset.
fn of_subsets(endpoints: &Value) -> Value {
    let subsets = items(endpoints, &["subsets"]);
    if subsets.is_empty() {
        return "<none>".into();
    }
    let mut all = Vec::new();
    for subset in subsets {
        let (ports, addresses) = (items(subset, &["ports"]), items(subset, &["addresses"]));
        let address = |address: &Value| address.str_at(&["ip"]).unwrap_or_default().to_owned();
        if ports.is_empty() {
            all.extend(addresses.iter().map(address));
        }
        for port in ports {
            let number = port.get("port").and_then(Value::as_i64).unwrap_or_default();
            all.extend(addresses.iter().map(|of| match address(of) {
                ip if ip.contains(':') => format!("[{ip}]:{number}"),
                ip => format!("{ip}:{number}"),
            }));
        }
    }
    first_of(&all).into()
}

#[cfg(test)]
mod tests {
    use holdfast_value::{Limits, Value, json};

    use super::of_subsets;
    use super::*;
    use crate::harness::{Harness, at};

    fn server(address: &str) -> Option<SocketAddr> {
        Some(address.parse().unwrap())
    }

    #[test]
    fn addresses_of_the_controller_get_no_warnings() {
        let endpoints = |labels: &str| {
            format!(
                "{{apiVersion: v1, kind: Endpoints, metadata: {{name: a, labels: {{{labels}}}}}, subsets: [{{addresses: [{{ip: \
                 010.1.2.3}}], ports: [{{port: 1}}]}}]}}"
            )
        };
        let harness = Harness::new();
        assert_eq!(harness.warnings(&endpoints("")).len(), 1);
        let managed = endpoints("endpoints.kubernetes.io/managed-by: endpoint-controller");
        assert!(harness.warnings(&managed).is_empty());
    }

    #[test]
    fn a_server_that_moved_is_found_where_it_is() {
        let (before, after) = (server("10.1.2.3:6443"), server("10.1.2.4:6443"));
        let stored = Endpoints {
            server: before,
            first: true,
            reading: Reading::Strict,
        }
        .initial_objects()
        .remove(0);
        let now = Endpoints {
            server: after,
            first: true,
            reading: Reading::Strict,
        };
        let wanted = now.initial_objects().remove(0);
        let mended = now.reconcile(&stored, &wanted).unwrap();
        assert_eq!(at(&mended, "subsets.0.addresses.0.ip"), r#""10.1.2.4""#);
        assert_eq!(now.reconcile(&mended, &wanted), None);
    }

    fn object(text: &str) -> Value {
        json::parse(text.as_bytes(), &Limits::TRUSTED).unwrap()
    }

    #[test]
    fn of_many_addresses_three_are_shown_and_the_others_counted() {
        for (subsets, shown) in [
            ("[]", "<none>"),
            (r#"[{"ports":[{"port":80}]}]"#, ""),
            (r#"[{"addresses":[{"ip":"10.0.0.1"}]}]"#, "10.0.0.1"),
            (
                r#"[{"addresses":[{"ip":"10.0.0.1"},{"ip":"::1"}],"ports":[{"port":80},{"port":81}]}]"#,
                "10.0.0.1:80,[::1]:80,10.0.0.1:81 + 1 more...",
            ),
        ] {
            let endpoints = object(&format!(r#"{{"subsets":{subsets}}}"#));
            assert_eq!(of_subsets(&endpoints), shown.into(), "{subsets}");
        }
    }
}
