//! NetworkPolicies: <https://kubernetes.io/docs/concepts/services-networking/network-policies/>.

use holdfast_resource::metadata::labels::validate_label_selector;
use holdfast_resource::{Field, FieldError, Strategy, WriteContext};
use holdfast_value::Value;

use crate::defaults::is_zero;
use crate::validation::addresses::{Block, block};
use crate::validation::ports::{port_name, port_number};
use crate::validation::{Errors, report};

/// What only NetworkPolicies do.
pub(crate) struct NetworkPolicy;

impl Strategy for NetworkPolicy {
    fn default_fields(&self, _version: &str, object: &mut Value) {
        if object.get("spec").is_some() && is_zero(object.at(&["spec", "policyTypes"])) {
            let mut types = vec![Value::from("Ingress")];
            if !is_zero(object.at(&["spec", "egress"])) {
                types.push("Egress".into());
            }
            object.set_at(&["spec", "policyTypes"], types.into());
        }
    }

    fn validate(&self, _context: &WriteContext<'_>, object: &Value) -> Vec<FieldError> {
        let root = Field::root(object);
        let spec = root.child("spec");
        let mut errors = Errors::new();
        validate_label_selector(&spec.child("podSelector"), &mut errors);
        for (direction, peers) in [("ingress", "from"), ("egress", "to")] {
            for rule in spec.child(direction).items() {
                for port in rule.child("ports").items() {
                    validate_port(&port, &mut errors);
                }
                for peer in rule.child(peers).items() {
                    validate_peer(&peer, &mut errors);
                }
            }
        }
        let types = spec.child("policyTypes");
        if types.len() > 2 {
            errors.push(types.invalid("may not specify more than two policyTypes"));
        } else {
            for one in types.items() {
                if !matches!(one.text(), "Ingress" | "Egress") {
                    errors.push(one.not_supported(&["Ingress", "Egress"]));
                }
            }
        }
        errors
    }
}

fn validate_port(port: &Field<'_, '_>, errors: &mut Errors) {
    let protocol = port.child("protocol");
    if protocol.is_set() && !matches!(protocol.text(), "TCP" | "UDP" | "SCTP") {
        errors.push(protocol.not_supported(&["TCP", "UDP", "SCTP"]));
    }
    let (first, last) = (port.child("port"), port.child("endPort"));
    match first.value() {
        None => {
            if last.is_set() {
                errors.push(last.invalid("may not be specified when `port` is not specified"));
            }
        }
        Some(Value::String(name)) => {
            if last.is_set() {
                errors.push(last.invalid("may not be specified when `port` is non-numeric"));
            }
            report(&first, port_name(name), errors);
        }
        Some(_) => {
            port_number(&first, errors);
            if last.is_set() {
                if last.number() < first.number() {
                    // The reference shows the first port here.
                    let shown = first.number().unwrap_or_default();
                    errors.push(last.invalid_as(shown, "must be greater than or equal to `port`"));
                }
                port_number(&last, errors);
            }
        }
    }
}

fn validate_peer(peer: &Field<'_, '_>, errors: &mut Errors) {
    let (pods, namespaces, addresses) = (
        peer.child("podSelector"),
        peer.child("namespaceSelector"),
        peer.child("ipBlock"),
    );
    validate_label_selector(&pods, errors);
    validate_label_selector(&namespaces, errors);
    let selects = pods.is_set() || namespaces.is_set();
    if addresses.is_set() {
        validate_addresses(&addresses, errors);
        if selects {
            errors.push(peer.forbidden("may not specify both ipBlock and another peer"));
        }
    } else if !selects {
        errors.push(peer.required("must specify a peer"));
    }
}

fn validate_addresses(addresses: &Field<'_, '_>, errors: &mut Errors) {
    let whole = addresses.child("cidr");
    if whole.text().is_empty() {
        errors.push(whole.required(""));
        return;
    }
    block(&whole, errors);
    let Some(outer) = Block::read(whole.text()) else {
        return;
    };
    for except in addresses.child("except").items() {
        let before = errors.len();
        block(&except, errors);
        if errors.len() == before
            && let Some(inner) = Block::read(except.text())
            && !inner.is_strictly_within(&outer)
        {
            errors.push(except.invalid("must be a strict subset of `cidr`"));
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::harness::{Harness, at};

    fn policy(spec: &str) -> String {
        format!(
            "{{apiVersion: networking.k8s.io/v1, kind: NetworkPolicy, metadata: {{name: p}}, spec: {{podSelector: {{}}{spec}}}}}"
        )
    }

    #[test]
    fn types_follow_from_the_rules() {
        let harness = Harness::new();
        assert_eq!(at(&harness.read(&policy("")), "spec.policyTypes"), r#"["Ingress"]"#);
        assert_eq!(
            at(&harness.read(&policy(", egress: [{}]")), "spec.policyTypes"),
            r#"["Ingress","Egress"]"#
        );
    }

    #[test]
    fn the_last_port_is_not_before_the_first() {
        let ports = |ports: &str| Harness::new().errors(&policy(&format!(", ingress: [{{ports: [{{{ports}}}]}}]")));
        assert_eq!(
            ports("port: 80, endPort: 1"),
            ["spec.ingress[0].ports[0].endPort: Invalid value: 80: must be greater than or equal to `port`"]
        );
        assert_eq!(
            ports("port: 65536, endPort: 200"),
            [
                "spec.ingress[0].ports[0].port: Invalid value: 65536: must be between 1 and 65535, inclusive",
                "spec.ingress[0].ports[0].endPort: Invalid value: 65536: must be greater than or equal to `port`",
            ]
        );
    }

    #[test]
    fn peers_are_selected_or_addressed() {
        let harness = Harness::new();
        assert_eq!(
            harness.errors(&policy(", ingress: [{from: [{}]}]")),
            ["spec.ingress[0].from[0]: Required value: must specify a peer"]
        );
        assert_eq!(
            harness.errors(&policy(
                ", ingress: [{from: [{ipBlock: {cidr: 10.0.0.0/8, except: [11.0.0.0/9]}}]}]"
            )),
            [
                r#"spec.ingress[0].from[0].ipBlock.except[0]: Invalid value: "11.0.0.0/9": must be a strict subset of `cidr`"#
            ]
        );
    }
}
