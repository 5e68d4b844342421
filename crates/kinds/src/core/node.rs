//! Nodes: <https://kubernetes.io/docs/concepts/architecture/nodes/>.

use std::collections::HashSet;

use holdfast_resource::metadata::formats::{label_value, qualified_name};
use holdfast_resource::{
    ConnectParameter, Connecter, Connection, Field, FieldError, FieldPath, Refusal, Strategy, WriteContext,
};
use holdfast_value::Value;

use super::pod_spec::validate_taint_effect;
use crate::defaults::{is_zero, set_missing_at};
use crate::validation::addresses::{Block, block};
use crate::validation::{Errors, report, same};

/// What only Nodes do.
pub(crate) struct Node;

/// The proxy to a node.
struct Proxy;

impl Connecter for Proxy {
    fn parameters(&self) -> &'static [ConnectParameter] {
        const { &super::proxy_parameters("The path to ask the node for.") }
    }

    fn connect(&self, context: &WriteContext<'_>, _options: &Value) -> Connection {
        let (_, name, _) = super::proxied_name(context.name);
        if context.lookup.get(&super::of_core("nodes"), "", name).is_none() {
            return Connection::Refused(Refusal::NotFound {
                resource: super::of_core("nodes"),
                name: name.to_owned(),
            });
        }
        Connection::Refused(Refusal::Unavailable(format!(
            "error trying to reach service: node {name:?} cannot be reached"
        )))
    }
}

impl Strategy for Node {
    fn connecter(&self, subresource: &str) -> Option<&dyn Connecter> {
        (subresource == "proxy").then_some(&Proxy)
    }

    fn keeps_reset_fields_at_creation(&self) -> bool {
        true
    }

    fn default_fields(&self, _version: &str, object: &mut Value) {
        if let Some(capacity) = object
            .at(&["status", "capacity"])
            .filter(|capacity| !is_zero(Some(capacity)))
        {
            let capacity = capacity.clone();
            set_missing_at(object, &["status"], "allocatable", || capacity);
        }
        // The older field and the first of the newer list stand for each other.
        let one = object
            .at(&["spec", "podCIDR"])
            .filter(|one| !is_zero(Some(one)))
            .cloned();
        let list = object.at(&["spec", "podCIDRs"]).and_then(Value::as_list);
        match (one, list.and_then(|list| list.first()).cloned()) {
            (Some(one), None) => object.set_at(&["spec", "podCIDRs"], vec![one].into()),
            (None, Some(first)) => object.set_at(&["spec", "podCIDR"], first),
            _ => {}
        }
    }

    fn validate(&self, _context: &WriteContext<'_>, object: &Value) -> Vec<FieldError> {
        let mut errors = Errors::new();
        validate_node(&Field::root(object), &mut errors);
        errors
    }

    fn validate_update(&self, context: &WriteContext<'_>, object: &Value, old: &Value) -> Vec<FieldError> {
        let mut errors = Errors::new();
        if context.subresource == Some("status") {
            return errors;
        }
        let (root, old_root) = (Field::root(object), Field::root(old));
        let (spec, old_spec) = (root.child("spec"), old_root.child("spec"));
        for (part, shown) in [("podCIDRs", "podCIDR"), ("providerID", "providerID")] {
            let (new, old) = (spec.child(part), old_spec.child(part));
            if !is_zero(old.value()) && !same(new.value(), old.value()) {
                let detail = format!("node updates may not change {shown} except from \"\" to valid");
                errors.push(new.forbidden(detail));
            }
        }
        // The reference checks the whole node, and what an update may change once more.
        validate_node(&root, &mut errors);
        validate_node(&root, &mut errors);
        let external = spec.child("externalID");
        if !same(external.value(), old_spec.child("externalID").value()) {
            errors.push(external.forbidden("may not be updated"));
        }
        errors
    }

    fn warnings(&self, _context: &WriteContext<'_>, object: &Value, old: Option<&Value>) -> Vec<String> {
        let mut warnings = Vec::new();
        let source = |object: &Value| object.at(&["spec", "configSource"]).is_some();
        if source(object) && !old.is_some_and(source) {
            warnings.push("spec.configSource: the feature is removed".to_owned());
        }
        let external = |object: &Value| !is_zero(object.at(&["spec", "externalID"]));
        if external(object) && !old.is_some_and(external) {
            warnings.push("spec.externalID: this field is deprecated, and is unused by Kubernetes".to_owned());
        }
        warnings
    }
}

fn validate_node(node: &Field<'_, '_>, errors: &mut Errors) {
    let spec = node.child("spec");
    // The reference reports taints below the metadata.
    let place = FieldPath::new("metadata.taints");
    let taints = spec.child("taints");
    validate_taints(&Field::placed(taints.value(), place.as_str()), errors);
    let blocks = spec.child("podCIDRs");
    let before = errors.len();
    for one in blocks.items() {
        block(&one, errors);
    }
    if errors.len() == before && blocks.len() > 1 {
        let families: HashSet<bool> = blocks
            .items()
            .filter_map(|one| Block::read(one.text()))
            .map(|block| block.is_ipv4())
            .collect();
        if blocks.len() > 2 || families.len() < blocks.len() {
            errors.push(blocks.invalid("may specify no more than one CIDR for each IP family"));
        }
    }
}

fn validate_taints(taints: &Field<'_, '_>, errors: &mut Errors) {
    let mut seen = HashSet::new();
    for taint in taints.items() {
        let (key, value, effect) = (taint.child("key"), taint.child("value"), taint.child("effect"));
        report(&key, qualified_name(key.text()), errors);
        let faults = label_value(value.text());
        if !faults.is_empty() {
            errors.push(value.invalid_text(faults.join(";")));
        }
        validate_taint_effect(&effect, errors);
        if !seen.insert((key.text(), effect.text())) {
            errors.push(taint.duplicate());
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::harness::{Harness, at};

    #[test]
    fn blocks_and_amounts_are_mirrored() {
        let created = Harness::new().create(
            "{apiVersion: v1, kind: Node, metadata: {name: one}, spec: {podCIDR: 10.1.0.0/24}, status: {capacity: {cpu: 2}}}",
        );
        assert_eq!(at(&created, "spec.podCIDRs"), r#"["10.1.0.0/24"]"#);
        assert_eq!(at(&created, "status.allocatable"), r#"{"cpu":"2"}"#);
    }

    #[test]
    fn taints_are_told_apart_by_key_and_effect() {
        let errors = Harness::new().errors(
            "{apiVersion: v1, kind: Node, metadata: {name: one}, spec: {taints: [{key: a, effect: NoSchedule}, \
             {key: a, effect: NoExecute}, {key: a, value: x, effect: NoSchedule}, {key: b, effect: Odd}]}}",
        );
        assert_eq!(
            errors,
            [
                r#"metadata.taints[2]: Duplicate value: {"effect":"NoSchedule","key":"a","value":"x"}"#,
                r#"metadata.taints[3].effect: Unsupported value: "Odd": supported values: "NoSchedule", "PreferNoSchedule", "NoExecute""#,
            ]
        );
    }
}
