//! VolumeAttributesClasses: <https://kubernetes.io/docs/concepts/storage/volume-attributes-classes/>.

use holdfast_resource::metadata::formats::qualified_name;
use holdfast_resource::{Field, FieldError, Strategy, WriteContext};
use holdfast_value::Value;

use super::storageclass::validate_parameters;
use crate::validation::{Errors, same};

/// What only VolumeAttributesClasses do.
pub(crate) struct VolumeAttributesClass;

impl Strategy for VolumeAttributesClass {
    fn validate(&self, _context: &WriteContext<'_>, object: &Value) -> Vec<FieldError> {
        let root = Field::root(object);
        let mut errors = Errors::new();
        let (driver, parameters) = (root.child("driverName"), root.child("parameters"));
        if driver.text().is_empty() {
            errors.push(driver.required(""));
        } else {
            let lower = driver.text().to_lowercase();
            let faults = qualified_name(&lower);
            errors.extend(faults.into_iter().map(|fault| driver.invalid_as(lower.as_str(), fault)));
        }
        if parameters.is_empty() {
            errors.push(parameters.required("must contain at least one key/value pair"));
        } else {
            validate_parameters(&parameters, &mut errors);
        }
        errors
    }

    fn validate_update(&self, context: &WriteContext<'_>, object: &Value, old: &Value) -> Vec<FieldError> {
        let root = Field::root(object);
        let mut errors = Errors::new();
        for part in ["driverName", "parameters"] {
            let field = root.child(part);
            if !same(field.value(), old.get(part)) {
                errors.push(field.forbidden(format!("updates to {part} are forbidden.")));
            }
        }
        errors.extend(self.validate(context, object));
        errors
    }
}

#[cfg(test)]
mod tests {
    use crate::harness::Harness;

    #[test]
    fn what_a_class_asks_for_stays_and_is_checked_again() {
        let class = "{apiVersion: storage.k8s.io/v1, kind: VolumeAttributesClass, metadata: {name: a}, driverName: d, \
                     parameters: {a: b}}";
        assert_eq!(
            Harness::new().update_errors(class, &class.replace("parameters: {a: b}", "parameters: {}")),
            [
                "parameters: Forbidden: updates to parameters are forbidden.",
                "parameters: Required value: must contain at least one key/value pair",
            ]
        );
    }
}
