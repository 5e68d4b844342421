//! ControllerRevisions: <https://kubernetes.io/docs/reference/kubernetes-api/workload-resources/controller-revision-v1/>.

use holdfast_resource::{Field, FieldError, Strategy, WriteContext};
use holdfast_value::Value;

use crate::validation::{Errors, numbers};

/// What only ControllerRevisions do.
pub(crate) struct ControllerRevision;

impl Strategy for ControllerRevision {
    fn validate(&self, _context: &WriteContext<'_>, object: &Value) -> Vec<FieldError> {
        let root = Field::root(object);
        let mut errors = Errors::new();
        let data = root.child("data");
        match data.value() {
            None => errors.push(data.required("data is mandatory")),
            Some(Value::Map(_)) => {}
            Some(_) => errors.push(data.required("data must be a valid JSON object")),
        }
        numbers::not_negative(&root.child("revision"), &mut errors);
        errors
    }

    fn validate_update(&self, _context: &WriteContext<'_>, object: &Value, old: &Value) -> Vec<FieldError> {
        let root = Field::root(object);
        let mut errors = Errors::new();
        numbers::not_negative(&root.child("revision"), &mut errors);
        // Not as `validation::same` compares: the data is what its writer wrote, empty parts included.
        let data = root.child("data");
        if data.value() != old.get("data") {
            errors.push(data.invalid("field is immutable"));
        }
        errors
    }
}
