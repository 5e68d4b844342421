//! CSINodes: the CSI drivers on a node.

use std::collections::HashSet;

use holdfast_kind_tables::Kind;
use holdfast_kind_tables::metadata_checks::{of_core, with_status};
use holdfast_resource::{Rejection, Strategy, WriteContext};
use holdfast_schema::metadata::formats::qualified_name;
use holdfast_schema::{AnyRules, Check, Field, FieldError, Part, Rules};
use holdfast_value::Value;

use crate::defaults::{change_items, none_if_empty};
use crate::kind::kind;
use crate::rules::CsiNodeRule;
use crate::validation::{Errors, same};

/// Strategy of CSINodes.
pub(crate) struct CsiNode;

const NODE_ID_LENGTH: usize = 256;
/// Immutable fields of a driver.
const KEPT: [&str; 2] = ["nodeID", "topologyKeys"];

/// Returns the kind with its capabilities.
pub(super) fn declare() -> Kind {
    kind(CsiNode).metadata_checks(with_status(of_core(1, 0), 1, 0)).done()
}

impl Strategy for CsiNode {
    /// upstream: pkg/registry/storage/csinode#csiNodeStrategy.PrepareForCreate
    fn prepare_for_create(&self, _context: &WriteContext<'_>, object: &mut Value) -> Result<(), Rejection> {
        prepare(object);
        Ok(())
    }

    /// upstream: pkg/registry/storage/csinode#csiNodeStrategy.PrepareForUpdate
    fn prepare_for_update(
        &self,
        _context: &WriteContext<'_>,
        object: &mut Value,
        _old: &Value,
    ) -> Result<(), Rejection> {
        prepare(object);
        Ok(())
    }

    fn rules<'v>(&self) -> &dyn AnyRules<'v> {
        self
    }

    /// upstream: pkg/registry/storage/csinode#csiNodeStrategy.ValidateUpdate
    fn validate_update(&self, context: &WriteContext<'_>, object: &Value, old: &Value) -> Vec<FieldError> {
        let (root, old) = (Field::root(object), Field::root(old));
        let (spec, old_spec) = (root.child("spec"), old.child("spec"));
        let mut errors = self.validate(context, object);
        // Drivers may be added and removed. Of an existing driver only `allocatable` may change.
        let drivers = spec.child("drivers");
        for before in old_spec.child("drivers").slice() {
            let name = before.str_at(&["name"]);
            let now = drivers.slice().iter().filter(|now| now.str_at(&["name"]) == name);
            for changed in now.filter(|now| KEPT.iter().any(|part| !same(now.get(part), before.get(part)))) {
                errors.push(drivers.invalid_as(changed.clone(), "field is immutable"));
            }
        }
        errors
    }
}

/// upstream: pkg/registry/storage/csinode#csiNodeStrategy.PrepareForCreate
fn prepare(object: &mut Value) {
    none_if_empty(object, &["spec", "drivers"]);
    let empty = |driver: &Value| matches!(driver.get("topologyKeys"), Some(Value::List(keys)) if keys.is_empty());
    if let Some(spec) = object.at_mut(&["spec"]) {
        change_items(spec, "drivers", empty, |driver| {
            none_if_empty(driver, &["topologyKeys"])
        });
    }
}

impl<'v> Rules<'v> for CsiNode {
    type Rule = CsiNodeRule;

    fn rule(&self, rule: CsiNodeRule, part: &Part<'v, '_>, check: &mut Check<'_>) {
        match rule {
            CsiNodeRule::Drivers => {
                let drivers = part.child("drivers");
                let mut names = HashSet::new();
                for driver in check.items(part, "drivers", &drivers) {
                    check.values(&driver, self);
                    let name = driver.child("name");
                    if !names.insert(name.text()) {
                        check.errors.push(name.duplicate());
                    }
                    validate_topology_keys(&driver, &mut check.errors);
                }
            }
            CsiNodeRule::Node => validate_node_id(&part.child("nodeID"), &mut check.errors),
        }
    }
}

/// upstream: pkg/apis/storage/validation#validateCSINodeDriverNodeID
fn validate_node_id(node: &Field<'_, '_>, errors: &mut Errors) {
    if node.text().is_empty() {
        errors.push(node.required(""));
    } else if node.text().len() > NODE_ID_LENGTH {
        errors.push(node.invalid(format!("must be {NODE_ID_LENGTH} characters or less")));
    }
}

/// Validates the topology keys of `validateCSINodeDriver`. The errors are at the driver.
///
/// upstream: pkg/apis/storage/validation#validateCSINodeDriver
fn validate_topology_keys(driver: &Field<'_, '_>, errors: &mut Errors) {
    let mut keys = HashSet::new();
    for key in driver.child("topologyKeys").items() {
        let key = key.text();
        if key.is_empty() {
            errors.push(driver.required(""));
        }
        if !keys.insert(key) {
            errors.push(FieldError::duplicate(&driver.path(), key));
        }
        let messages = qualified_name(key);
        errors.extend(messages.into_iter().map(|message| driver.invalid_as(key, message)));
    }
}

#[cfg(test)]
mod tests {
    use crate::harness::Harness;

    fn node(drivers: &str) -> String {
        format!(
            "{{apiVersion: storage.k8s.io/v1, kind: CSINode, metadata: {{name: a}}, spec: {{drivers: [{drivers}]}}}}"
        )
    }

    #[test]
    fn drivers_are_distinguished_by_their_names() {
        let driver = "{name: d, nodeID: one, topologyKeys: [a, a, '']}";
        let errors = Harness::new().errors(&node(&format!("{driver}, {{name: d}}")));
        let fields: Vec<&str> = errors.iter().filter_map(|error| error.split(": ").next()).collect();
        let (first, second) = ("spec.drivers[0]", ["spec.drivers[1].nodeID", "spec.drivers[1].name"]);
        assert_eq!(fields, [first, first, first, first, second[0], second[1]]);
    }

    #[test]
    fn drivers_have_names_in_any_case() {
        let errors = |name: &str| Harness::new().errors(&node(&format!("{{name: '{name}', nodeID: one}}")));
        assert!(errors("D.example.com").is_empty());
        assert_eq!(errors(""), ["spec.drivers[0].name: Required value"]);
        let long = errors(&"d".repeat(64));
        assert_eq!(long, ["spec.drivers[0].name: Too long: may not be more than 63 bytes"]);
        assert!(errors("a b")[0].starts_with("spec.drivers[0].name: Invalid value: \"a b\": "));
    }

    #[test]
    fn a_driver_that_stays_changes_in_what_it_takes_alone() {
        let harness = Harness::new();
        let old = node("{name: d, nodeID: one, topologyKeys: [a]}");
        assert!(
            harness
                .update_errors(
                    &old,
                    &old.replace("nodeID: one", "nodeID: one, allocatable: {count: 3}")
                )
                .is_empty()
        );
        let moved = harness.update_errors(&old, &old.replace("nodeID: one", "nodeID: other"));
        assert!(
            moved.len() == 1 && moved[0].starts_with("spec.drivers: Invalid value: {"),
            "{moved:?}"
        );
        assert!(harness.update_errors(&old, &node("")).is_empty());
    }
}
