//! EndpointSlices: <https://kubernetes.io/docs/concepts/services-networking/endpoint-slices/>.

use std::collections::HashSet;
use std::net::{IpAddr, SocketAddr};

use holdfast_kind_tables::Kind;
use holdfast_kind_tables::metadata_checks::of_core;
use holdfast_resource::table::{NamedCell, items, scalar_text};
use holdfast_resource::{InitialObjects, Rejection, Strategy, WriteContext};
use holdfast_schema::metadata::formats::{Messages, dns_label, dns_subdomain, label_value};
use holdfast_schema::metadata::new_object;
use holdfast_schema::{Check, Field, FieldError, NoRules, Part, Rules};
use holdfast_value::Value;

use crate::cells::first_of;
use crate::config::Config;
use crate::core::endpoints::{own_address, port_of_server, with_parts_of};
use crate::defaults::change_items;
use crate::kind::kind;
use crate::rules::EndpointSliceRule;
use crate::validation::addresses::{Reading, address_warning, canonical_address, endpoint_address, lenient_address};
use crate::validation::{Errors, report, same};

/// Strategy of EndpointSlices.
pub(crate) struct EndpointSlice {
    /// Address at which clients in the cluster reach the server.
    pub(crate) server: Option<SocketAddr>,
    /// True if the slice is created at startup.
    pub(crate) first: bool,
    /// Parsing mode for IPv4 addresses.
    pub(crate) reading: Reading,
}

const ENDPOINTS: usize = 1000;
const ADDRESSES: usize = 100;
const PORTS: usize = 20_000;
const HINTS: usize = 8;

/// Label that names the controller of a slice, and the names of Kubernetes' own controllers, whose addresses are
/// canonical and get no warnings.
const MANAGED_BY: &str = "endpointslice.kubernetes.io/managed-by";
const CONTROLLERS: [&str; 2] = [
    "endpointslice-controller.k8s.io",
    "endpointslicemirroring-controller.k8s.io",
];

/// Returns the kind with its capabilities.
pub(super) fn declare(config: &Config) -> Kind {
    kind(EndpointSlice {
        server: config.server(),
        first: config.first_endpoints,
        reading: Reading::for_features(config.features),
    })
    .initial_objects()
    .cells(CELLS)
    .read_by(super::at_rest::endpointslice)
    .metadata_checks(of_core(1, 0))
    .counts_dropped_fields()
    .done()
}

impl Strategy for EndpointSlice {
    /// upstream: pkg/registry/discovery/endpointslice#endpointSliceStrategy.PrepareForCreate
    fn prepare_for_create(&self, _context: &WriteContext<'_>, object: &mut Value) -> Result<(), Rejection> {
        drop_topology(object);
        Ok(())
    }

    /// upstream: pkg/registry/discovery/endpointslice#endpointSliceStrategy.PrepareForUpdate
    fn prepare_for_update(
        &self,
        _context: &WriteContext<'_>,
        object: &mut Value,
        old: &Value,
    ) -> Result<(), Rejection> {
        if !same(object.get("endpoints"), old.get("endpoints")) {
            drop_topology(object);
        }
        Ok(())
    }

    /// upstream: pkg/registry/discovery/endpointslice#endpointSliceStrategy.Validate
    fn validate(&self, context: &WriteContext<'_>, object: &Value) -> Vec<FieldError> {
        self.validate_slice(context, object, HashSet::new())
    }

    /// upstream: pkg/registry/discovery/endpointslice#endpointSliceStrategy.ValidateUpdate
    fn validate_update(&self, context: &WriteContext<'_>, object: &Value, old: &Value) -> Vec<FieldError> {
        let mut errors = self.validate_slice(context, object, addresses_of(old));
        errors.extend(context.check_changes(object, old, &NoRules));
        errors
    }

    /// upstream: pkg/registry/discovery/endpointslice#endpointSliceStrategy.WarningsOnCreate
    /// upstream: pkg/registry/discovery/endpointslice#endpointSliceStrategy.WarningsOnUpdate
    fn warnings(&self, _context: &WriteContext<'_>, object: &Value, old: Option<&Value>) -> Vec<String> {
        let mut warnings = Vec::new();
        if old.is_none() && object.str_at(&["addressType"]) == Some("FQDN") {
            warnings.push("spec.addressType: FQDN endpoints are deprecated".to_owned());
        }
        let controller = object.str_at(&["metadata", "labels", MANAGED_BY]).unwrap_or_default();
        if CONTROLLERS.contains(&controller) {
            return warnings;
        }
        for endpoint in Field::root(object).child("endpoints").items() {
            let addresses = endpoint.child("addresses");
            warnings.extend(addresses.items().filter_map(|address| address_warning(&address)));
        }
        warnings
    }
}

impl InitialObjects for EndpointSlice {
    /// Returns the endpoints of the service `kubernetes`: the server itself.
    fn initial_objects(&self) -> Vec<Value> {
        let behind = |server: SocketAddr| {
            let mut endpoint = Value::empty_map();
            endpoint.set_at(&["addresses"], vec![Value::from(server.ip().to_string())].into());
            endpoint.set_at(&["conditions", "ready"], true.into());
            let mut object = new_object("discovery.k8s.io/v1", "EndpointSlice", "default", "kubernetes");
            object.set_at(
                &["metadata", "labels", "kubernetes.io/service-name"],
                "kubernetes".into(),
            );
            let address_type = if server.is_ipv4() { "IPv4" } else { "IPv6" };
            object.set_at(&["addressType"], address_type.into());
            object.set_at(&["endpoints"], vec![endpoint].into());
            object.set_at(&["ports"], vec![port_of_server(server)].into());
            object
        };
        self.server.filter(|_| self.first).map(behind).into_iter().collect()
    }

    fn reconcile(&self, stored: &Value, initial: &Value) -> Option<Value> {
        with_parts_of(stored, initial, &["endpoints", "ports"])
    }
}

impl EndpointSlice {
    /// Validates a slice. The addresses in `kept` are those of the old object and stay valid.
    ///
    /// upstream: pkg/apis/discovery/validation#ValidateEndpointSlice
    fn validate_slice(&self, context: &WriteContext<'_>, object: &Value, kept: HashSet<&str>) -> Errors {
        let address_type = object.str_at(&["addressType"]).unwrap_or_default();
        let own = own_address(self.server, context);
        context.check(
            object,
            &SliceRules {
                address_type,
                kept,
                own,
                reading: self.reading,
            },
        )
    }
}

/// Context for the validation of endpoints.
struct SliceRules<'a> {
    /// Type of the addresses.
    address_type: &'a str,
    /// Addresses of the old object.
    kept: HashSet<&'a str>,
    /// Address of the server itself.
    own: Option<IpAddr>,
    reading: Reading,
}

impl<'v> Rules<'v> for SliceRules<'_> {
    type Rule = EndpointSliceRule;

    fn rule(&self, rule: EndpointSliceRule, part: &Part<'v, '_>, check: &mut Check<'_>) {
        match rule {
            EndpointSliceRule::Content => {
                self.validate_ports(part, check);
                self.validate_endpoints(part, check);
            }
            EndpointSliceRule::Addresses => self.validate_addresses(&part.child("addresses"), &mut check.errors),
            EndpointSliceRule::Hints => {
                let hints = part.child("hints");
                if validate_hints(&hints.child("forZones"), label_value, &mut check.errors) {
                    validate_hints(&hints.child("forNodes"), dns_subdomain, &mut check.errors);
                }
            }
        }
    }
}

impl SliceRules<'_> {
    /// upstream: pkg/apis/discovery/validation#validateEndpoints
    fn validate_endpoints<'v>(&self, slice: &Part<'v, '_>, check: &mut Check<'_>) {
        let endpoints = slice.child("endpoints");
        if endpoints.len() > ENDPOINTS {
            check.errors.push(endpoints.too_many(ENDPOINTS));
            return;
        }
        for endpoint in check.items(slice, "endpoints", &endpoints) {
            check.values(&endpoint, self);
        }
    }

    /// upstream: pkg/apis/discovery/validation#validateEndpoints
    fn validate_addresses(&self, addresses: &Field<'_, '_>, errors: &mut Errors) {
        if addresses.is_empty() {
            errors.push(addresses.required("must contain at least 1 address"));
        } else if addresses.len() > ADDRESSES {
            errors.push(addresses.too_many(ADDRESSES));
        }
        if !matches!(self.address_type, "IPv4" | "IPv6" | "FQDN") {
            return;
        }
        for address in addresses.items().filter(|address| !self.kept.contains(address.text())) {
            self.validate_address(addresses, &address, errors);
        }
    }

    /// Validates an address of a known type.
    ///
    /// upstream: pkg/apis/discovery/validation#validateEndpoints
    fn validate_address(&self, all: &Field<'_, '_>, address: &Field<'_, '_>, errors: &mut Errors) {
        let before = errors.len();
        let wants_ipv4 = match self.address_type {
            "IPv4" => {
                self.reading.address(address, errors);
                true
            }
            "IPv6" => {
                canonical_address(address, errors);
                false
            }
            _ => return validate_domain(address, errors),
        };
        if errors.len() > before {
            return;
        }
        // An IPv4-mapped IPv6 address counts as IPv4.
        if lenient_address(address.text()).is_some_and(|parsed| parsed.to_canonical().is_ipv4() != wants_ipv4) {
            // The reference reports the list rather than the item.
            errors.push(all.invalid_as(address.text(), format!("must be an {} address", self.address_type)));
        }
        endpoint_address(address, self.own, errors);
    }

    /// upstream: pkg/apis/discovery/validation#validatePorts
    fn validate_ports<'v>(&self, slice: &Part<'v, '_>, check: &mut Check<'_>) {
        let ports = slice.child("ports");
        if ports.len() > PORTS {
            check.errors.push(ports.too_many(PORTS));
            return;
        }
        let mut names = HashSet::new();
        for port in check.items(slice, "ports", &ports) {
            let name = port.child("name");
            if !name.text().is_empty() {
                report(&name, dns_label(name.text()), &mut check.errors);
            }
            if !names.insert(name.text()) {
                check.errors.push(FieldError::duplicate(&name.path(), name.text()));
            }
            check.values(&port, self);
        }
    }
}

/// Returns all addresses of a slice.
fn addresses_of(slice: &Value) -> HashSet<&str> {
    let endpoints = slice.get("endpoints").and_then(Value::as_list).into_iter();
    let addresses = endpoints
        .flat_map(|endpoints| endpoints.iter())
        .filter_map(|endpoint| endpoint.get("addresses")?.as_list());
    addresses
        .flat_map(|addresses| addresses.iter())
        .filter_map(Value::as_str)
        .collect()
}

/// Removes the deprecated topology, which only an earlier version of the kind accepted.
///
/// upstream: pkg/registry/discovery/endpointslice#dropTopologyOnV1
fn drop_topology(object: &mut Value) {
    let has_one = |endpoint: &Value| endpoint.get("deprecatedTopology").is_some();
    change_items(object, "endpoints", has_one, |endpoint| {
        endpoint.remove_at(&["deprecatedTopology"]);
    });
}

/// upstream: k8s.io/apimachinery/pkg/util/validation#IsFullyQualifiedDomainName
fn validate_domain(domain: &Field<'_, '_>, errors: &mut Errors) {
    let name = domain.text().strip_suffix('.').unwrap_or(domain.text());
    let messages = dns_subdomain(name);
    if domain.text().is_empty() {
        errors.push(domain.required(""));
    } else if !messages.is_empty() {
        errors.push(domain.invalid_as(name, messages.join(",")));
    } else if !name.contains('.') {
        errors.push(domain.invalid_as(name, "should be a domain with at least two segments separated by dots"));
    } else {
        for label in name.split('.') {
            let messages = dns_label(label);
            if !messages.is_empty() {
                errors.push(domain.invalid_as(label, messages.join(",")));
            }
        }
    }
}

/// Validates hints of one type. Returns true if their number is within the limit, so that validation continues.
///
/// upstream: pkg/apis/discovery/validation#validateHints
fn validate_hints(hints: &Field<'_, '_>, form: impl Fn(&str) -> Messages, errors: &mut Errors) -> bool {
    if hints.len() > HINTS {
        errors.push(hints.too_many(HINTS));
        return false;
    }
    let mut names = HashSet::new();
    for hint in hints.items() {
        let name = hint.child("name");
        if !names.insert(name.text()) {
            errors.push(name.duplicate());
        }
        report(&name, form(name.text()), errors);
    }
    true
}

/// Table cells that are not just the value at a path.
pub(super) const CELLS: &[NamedCell] = &[
    ("slice-endpoints", |object, _| of_slice(object)),
    ("slice-ports", |object, _| ports_of_slice(object)),
];

/// Returns the addresses of all endpoints of a slice.
fn of_slice(slice: &Value) -> Value {
    let endpoints = items(slice, &["endpoints"]).iter();
    let addresses = endpoints.flat_map(|endpoint| items(endpoint, &["addresses"]));
    or_unset(&addresses.map(scalar_text).collect::<Vec<_>>())
}

/// Returns the ports of a slice: numbers, or names if there is no number.
fn ports_of_slice(slice: &Value) -> Value {
    let port = |port: &Value| {
        // An empty name counts as a name.
        let name = port.str_at(&["name"]);
        let number = port.get("port").and_then(Value::as_i64);
        number.map_or_else(|| name.unwrap_or("*").to_owned(), |number| number.to_string())
    };
    or_unset(&items(slice, &["ports"]).iter().map(port).collect::<Vec<_>>())
}

fn or_unset(all: &[String]) -> Value {
    if all.is_empty() {
        "<unset>".into()
    } else {
        first_of(all).into()
    }
}

#[cfg(test)]
mod tests {
    use holdfast_resource::InitialObjects as _;
    use holdfast_value::{Limits, Value, json};

    use super::{EndpointSlice, of_slice, ports_of_slice};
    use crate::core::endpoints::Endpoints;
    use crate::harness::{Harness, at};
    use crate::validation::addresses::Reading;

    fn slice(address_type: &str, address: &str) -> String {
        format!(
            "{{apiVersion: discovery.k8s.io/v1, kind: EndpointSlice, metadata: {{name: s}}, addressType: {address_type}, \
             endpoints: [{{addresses: ['{address}']}}]}}"
        )
    }

    #[test]
    fn addresses_are_of_the_type_and_reachable() {
        let harness = Harness::new();
        assert!(harness.errors(&slice("IPv4", "10.1.2.3")).is_empty());
        let empty = slice("Odd", "x")
            .replace("['x']", "[]")
            .replace("endpoints:", "ports: [{protocol: Odd}], endpoints:");
        let fields: Vec<String> = harness
            .errors(&empty)
            .iter()
            .filter_map(|error| Some(error.split_once(": ")?.0.to_owned()))
            .collect();
        assert_eq!(
            fields,
            ["addressType", "ports[0].protocol", "endpoints[0].addresses"],
            "ports come first, whatever the type of the addresses"
        );
        assert_eq!(
            harness.errors(&slice("IPv6", "1.2.3.4")),
            [r#"endpoints[0].addresses: Invalid value: "1.2.3.4": must be an IPv6 address"#]
        );
        assert_eq!(
            harness.errors(&slice("IPv4", "127.0.0.1")),
            [
                "endpoints[0].addresses[0]: Invalid value: \"127.0.0.1\": may not be in the loopback range (127.0.0.0/8, \
              ::1/128)"
            ]
        );
        assert_eq!(
            harness.update_errors(&slice("IPv4", "10.1.2.3"), &slice("IPv6", "2001:db8::1")),
            [r#"addressType: Invalid value: "IPv6": field is immutable"#]
        );
        // Addresses of the old object are not validated again.
        assert_eq!(
            harness.update_errors(&slice("IPv4", "10.1.2.3"), &slice("IPv6", "10.1.2.3")),
            [r#"addressType: Invalid value: "IPv6": field is immutable"#]
        );
        assert_eq!(
            harness.errors(&slice("IPv4", "2001:DB8::1")),
            [r#"endpoints[0].addresses: Invalid value: "2001:DB8::1": must be an IPv4 address"#]
        );
        assert_eq!(
            harness.errors(&slice("IPv6", "2001:DB8::1")),
            [r#"endpoints[0].addresses[0]: Invalid value: "2001:DB8::1": must be in canonical form ("2001:db8::1")"#]
        );
        assert_eq!(
            harness.errors(&slice("IPv4", "::ffff:1.2.3.4")),
            [r#"endpoints[0].addresses[0]: Invalid value: "::ffff:1.2.3.4": must not be an IPv4-mapped IPv6 address"#]
        );
    }

    #[test]
    fn a_domain_has_two_labels_at_least() {
        let harness = Harness::new();
        assert!(harness.errors(&slice("FQDN", "a.example.com.")).is_empty());
        assert_eq!(
            harness.errors(&slice("FQDN", "")),
            ["endpoints[0].addresses[0]: Required value"]
        );
        assert_eq!(
            harness.errors(&slice("FQDN", "x")),
            [
                r#"endpoints[0].addresses[0]: Invalid value: "x": should be a domain with at least two segments separated by dots"#
            ]
        );
        assert_eq!(
            harness.warnings(&slice("FQDN", "010.1.2.3")),
            [
                "spec.addressType: FQDN endpoints are deprecated",
                r#"endpoints[0].addresses[0]: non-standard IP address "010.1.2.3" is invalid: use "10.1.2.3""#
            ]
        );
        for (controller, warnings) in [
            ("endpointslice-controller.k8s.io", 0),
            ("endpointslicemirroring-controller.k8s.io", 0),
            ("other", 1),
        ] {
            let metadata = format!("metadata: {{labels: {{endpointslice.kubernetes.io/managed-by: {controller}}}, ");
            let managed = slice("IPv4", "010.1.2.3").replace("metadata: {", &metadata);
            assert_eq!(harness.warnings(&managed).len(), warnings, "{controller}");
        }
    }

    #[test]
    fn deprecated_topology_is_dropped_and_hints_are_validated() {
        let harness = Harness::new();
        let with = |more: &str| slice("IPv4", "10.1.2.3").replace("'10.1.2.3']", &format!("'10.1.2.3'], {more}"));
        let created = harness.create(&with("deprecatedTopology: {'a b': c}"));
        assert_eq!(at(&created, "endpoints.0.deprecatedTopology"), "nothing");
        assert!(harness.errors(&with("hints: {forZones: [{name: ''}]}")).is_empty());
        let refused = harness.errors(&with("hints: {forZones: [{name: -a}], forNodes: [{name: ''}]}"));
        assert!(refused[0].starts_with("endpoints[0].hints.forZones[0].name: Invalid value: \"-a\": a valid label"));
        assert!(
            refused[1].starts_with("endpoints[0].hints.forNodes[0].name: Invalid value: \"\": a lowercase RFC 1123")
        );
    }

    fn object(text: &str) -> Value {
        json::parse(text.as_bytes(), &Limits::TRUSTED).unwrap()
    }

    #[test]
    fn a_slice_shows_addresses_and_ports_by_number_or_name() {
        let slice = object(r#"{"endpoints":[{"addresses":["a","b"]}],"ports":[{"port":80},{"name":"z"},{}]}"#);
        assert_eq!(of_slice(&slice), "a,b".into());
        assert_eq!(ports_of_slice(&slice), "80,z,*".into());
        assert_eq!(
            ports_of_slice(&object(r#"{"ports":[{"port":80},{"name":""}]}"#)),
            "80,".into()
        );
        assert_eq!(ports_of_slice(&object("{}")), "<unset>".into());
    }

    #[test]
    fn server_is_behind_its_service() {
        let (first, reading) = (true, Reading::Strict);
        let objects = |server| {
            (
                Endpoints { server, first, reading }.initial_objects(),
                EndpointSlice { server, first, reading }.initial_objects(),
            )
        };
        assert_eq!(
            objects(None),
            (Vec::new(), Vec::new()),
            "it is not reachable from elsewhere"
        );
        let (endpoints, slices) = objects(Some("10.1.2.3:6443".parse().unwrap()));
        let port = r#"{"name":"https","port":6443,"protocol":"TCP"}"#;
        assert_eq!(
            at(&endpoints[0], "subsets"),
            format!(r#"[{{"addresses":[{{"ip":"10.1.2.3"}}],"ports":[{port}]}}]"#)
        );
        assert_eq!(
            (at(&slices[0], "endpoints"), at(&slices[0], "ports")),
            (
                r#"[{"addresses":["10.1.2.3"],"conditions":{"ready":true}}]"#.to_owned(),
                format!("[{port}]")
            )
        );
        assert_eq!(at(&slices[0], "addressType"), r#""IPv4""#);
    }
}
