//! PodTemplates: <https://kubernetes.io/docs/reference/kubernetes-api/workload-resources/pod-template-v1/>.

use holdfast_resource::{Field, FieldError, Refusal, Strategy, WriteContext};
use holdfast_value::Value;

use super::pod_spec::{default_template, template_warnings, validate_template};
use crate::config::Config;
use crate::validation::{Errors, same};
use crate::workload::drop_disabled_in_template;

/// What only PodTemplates do.
pub(crate) struct PodTemplate {
    pub(crate) config: Config,
}

impl Strategy for PodTemplate {
    fn default_fields(&self, _version: &str, object: &mut Value) {
        default_template(object, &["template"]);
    }

    fn prepare_for_create(&self, _context: &WriteContext<'_>, object: &mut Value) -> Result<(), Refusal> {
        drop_disabled_in_template(object, None, &["template"]);
        Ok(())
    }

    fn prepare_for_update(&self, _context: &WriteContext<'_>, object: &mut Value, old: &Value) -> Result<(), Refusal> {
        drop_disabled_in_template(object, Some(old), &["template"]);
        Ok(())
    }

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
