//! Endpoints, which EndpointSlices replace: <https://kubernetes.io/docs/concepts/services-networking/service/#endpoints>.

use std::borrow::Cow;

use holdfast_resource::metadata::formats::{dns_label, dns_subdomain};
use holdfast_resource::{Field, FieldError, Strategy, WriteContext};
use holdfast_value::Value;

use crate::validation::addresses::endpoint_address;
use crate::validation::ports::{PROTOCOLS, port_number};
use crate::validation::{Errors, one_of, optional_text, report};

/// What only Endpoints do.
pub(crate) struct Endpoints;

impl Strategy for Endpoints {
    fn deprecation(&self, _version: &str) -> Option<Cow<'_, str>> {
        Some("v1 Endpoints is deprecated in v1.33+; use discovery.k8s.io/v1 EndpointSlice".into())
    }

    fn validate(&self, _context: &WriteContext<'_>, object: &Value) -> Vec<FieldError> {
        let root = Field::root(object);
        let mut errors = Errors::new();
        for subset in root.child("subsets").items() {
            let (ready, waiting) = (subset.child("addresses"), subset.child("notReadyAddresses"));
            if ready.is_empty() && waiting.is_empty() {
                errors.push(subset.required("must specify `addresses` or `notReadyAddresses`"));
            }
            for address in ready.items().chain(waiting.items()) {
                validate_address(&address, &mut errors);
            }
            let ports = subset.child("ports");
            for port in ports.items() {
                validate_port(&port, ports.len() > 1, &mut errors);
            }
        }
        errors
    }
}

fn validate_address(address: &Field<'_, '_>, errors: &mut Errors) {
    let ip = address.child("ip");
    if ip.text().parse::<std::net::IpAddr>().is_err() {
        // Two checks of the reference find this, each in its own words.
        crate::validation::addresses::address(&ip, errors);
        errors.push(ip.invalid_text("must be a valid IP address"));
    } else {
        endpoint_address(&ip, errors);
    }
    optional_text(&address.child("hostname"), dns_label, errors);
    let node = address.child("nodeName");
    if node.is_set() {
        report(&node, dns_subdomain(node.text()), errors);
    }
}

fn validate_port(port: &Field<'_, '_>, needs_name: bool, errors: &mut Errors) {
    let name = port.child("name");
    if name.text().is_empty() {
        if needs_name {
            errors.push(name.required(""));
        }
    } else {
        report(&name, dns_label(name.text()), errors);
    }
    port_number(&port.child("port"), errors);
    one_of(&port.child("protocol"), &PROTOCOLS, errors);
    optional_text(
        &port.child("appProtocol"),
        holdfast_resource::metadata::formats::qualified_name,
        errors,
    );
}
