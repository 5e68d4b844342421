//! IngressClasses: <https://kubernetes.io/docs/concepts/services-networking/ingress/#ingress-class>.

use holdfast_resource::metadata::formats::{dns_label, dns_subdomain, domain_prefixed_path, path_segment};
use holdfast_resource::{Field, FieldError, Strategy, WriteContext};
use holdfast_value::Value;

use crate::validation::{Errors, immutable, optional_text, required_text};

/// What only IngressClasses do.
pub(crate) struct IngressClass;

const CONTROLLER_LENGTH: usize = 250;

impl Strategy for IngressClass {
    fn validate(&self, _context: &WriteContext<'_>, object: &Value) -> Vec<FieldError> {
        let root = Field::root(object);
        let spec = root.child("spec");
        let mut errors = Errors::new();
        let controller = spec.child("controller");
        if controller.text().is_empty() {
            errors.push(controller.required(""));
        } else {
            if controller.text().len() > CONTROLLER_LENGTH {
                errors.push(controller.too_long(CONTROLLER_LENGTH));
            }
            errors.extend(domain_prefixed_path(&controller.path(), controller.text()));
        }
        validate_parameters(&spec.child("parameters"), &mut errors);
        errors
    }

    fn validate_update(&self, context: &WriteContext<'_>, object: &Value, old: &Value) -> Vec<FieldError> {
        let (root, old) = (Field::root(object), Field::root(old));
        let mut errors = Errors::new();
        immutable(
            &root.child("spec").child("controller"),
            &old.child("spec").child("controller"),
            &mut errors,
        );
        if errors.is_empty() {
            errors = self.validate(context, object);
        }
        errors
    }
}

fn validate_parameters(parameters: &Field<'_, '_>, errors: &mut Errors) {
    if !parameters.is_set() {
        return;
    }
    optional_text(&parameters.child("apiGroup"), dns_subdomain, errors);
    for part in ["kind", "name"] {
        required_text(&parameters.child(part), path_segment, errors);
    }
    let (scope, namespace) = (parameters.child("scope"), parameters.child("namespace"));
    match scope.text() {
        "" => errors.push(scope.required("")),
        "Namespace" if !namespace.is_set() => {
            errors.push(namespace.required("`parameters.scope` is set to 'Namespace'"));
        }
        "Namespace" => crate::validation::report(&namespace, dns_label(namespace.text()), errors),
        "Cluster" if namespace.is_set() => {
            errors.push(namespace.forbidden("`parameters.scope` is set to 'Cluster'"));
        }
        "Cluster" => {}
        _ => errors.push(scope.not_supported(&["Cluster", "Namespace"])),
    }
}
