//! CSINodes: which storage drivers run on a node.

use std::collections::{HashMap, HashSet};

use holdfast_resource::metadata::formats::qualified_name;
use holdfast_resource::{Field, FieldError, Refusal, Strategy, WriteContext};
use holdfast_value::Value;

use crate::defaults::none_if_empty;
use crate::validation::{Errors, numbers, same};

/// What only CSINodes do.
pub(crate) struct CsiNode;

const NODE_ID_LENGTH: usize = 256;

impl Strategy for CsiNode {
    fn prepare_for_create(&self, _context: &WriteContext<'_>, object: &mut Value) -> Result<(), Refusal> {
        none_if_empty(object, &["spec", "drivers"]);
        Ok(())
    }

    fn prepare_for_update(&self, _context: &WriteContext<'_>, object: &mut Value, _old: &Value) -> Result<(), Refusal> {
        none_if_empty(object, &["spec", "drivers"]);
        Ok(())
    }

    fn validate(&self, _context: &WriteContext<'_>, object: &Value) -> Vec<FieldError> {
        let root = Field::root(object);
        let spec = root.child("spec");
        let mut errors = Errors::new();
        let mut names = HashSet::new();
        for driver in spec.child("drivers").items() {
            validate_driver(&driver, &mut errors);
            let name = driver.child("name");
            if !names.insert(name.text()) {
                errors.push(name.duplicate());
            }
        }
        errors
    }

    fn validate_update(&self, context: &WriteContext<'_>, object: &Value, old: &Value) -> Vec<FieldError> {
        let (root, old) = (Field::root(object), Field::root(old));
        let (spec, old_spec) = (root.child("spec"), old.child("spec"));
        let mut errors = Errors::new();
        // Drivers come and go; one that stays does not change.
        let drivers = spec.child("drivers");
        let by_name: HashMap<&str, &Value> = drivers
            .slice()
            .iter()
            .filter_map(|driver| Some((driver.str_at(&["name"])?, driver)))
            .collect();
        let changed = |before: Field<'_, '_>| {
            let now = by_name.get(before.child("name").text());
            now.is_some_and(|now| !same(Some(now), before.value()))
        };
        if old_spec.child("drivers").items().any(changed) {
            errors.push(drivers.invalid("field is immutable"));
        }
        errors.extend(self.validate(context, object));
        errors
    }
}

fn validate_driver(driver: &Field<'_, '_>, errors: &mut Errors) {
    let (name, node) = (driver.child("name"), driver.child("nodeID"));
    if name.text().is_empty() {
        errors.push(name.required(""));
    } else {
        // The reference reports the driver rather than its name.
        let faults = qualified_name(&name.text().to_lowercase());
        errors.extend(faults.into_iter().map(|fault| driver.invalid_as(name.text(), fault)));
    }
    if node.text().is_empty() {
        errors.push(node.required(""));
    } else if node.text().len() > NODE_ID_LENGTH {
        errors.push(node.invalid(format!("must be {NODE_ID_LENGTH} characters or less")));
    }
    numbers::not_negative(&driver.child("allocatable").child("count"), errors);
    let mut keys = HashSet::new();
    for key in driver.child("topologyKeys").items() {
        if !keys.insert(key.text()) {
            errors.push(key.duplicate());
        }
        let faults = qualified_name(key.text());
        errors.extend(faults.into_iter().map(|fault| driver.invalid_as(key.text(), fault)));
    }
}
