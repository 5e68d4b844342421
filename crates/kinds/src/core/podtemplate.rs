//! PodTemplates: <https://kubernetes.io/docs/reference/kubernetes-api/workload-resources/pod-template-v1/>.

use holdfast_resource::{Field, FieldError, Strategy, WriteContext};
use holdfast_value::Value;

use super::pod_spec::{template_warnings, validate_template};
use crate::config::Config;
use crate::validation::{Errors, same};

/// What only PodTemplates do.
pub(crate) struct PodTemplate {
    pub(crate) config: Config,
}

impl Strategy for PodTemplate {
    fn validate(&self, _context: &WriteContext<'_>, object: &Value) -> Vec<FieldError> {
        let mut errors = Errors::new();
        validate_template(
            &Field::root(object).child("template"),
            self.config.allow_privileged,
            &mut errors,
        );
        errors
    }

    fn warnings(&self, _context: &WriteContext<'_>, object: &Value, old: Option<&Value>) -> Vec<String> {
        if old.is_some_and(|old| same(object.get("template"), old.get("template"))) {
            return Vec::new();
        }
        template_warnings(object, &["template"])
    }
}
