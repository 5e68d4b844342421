//! ReplicationControllers: <https://kubernetes.io/docs/concepts/workloads/controllers/replicationcontroller/>.

use holdfast_resource::metadata::labels::LabelSelector;
use holdfast_resource::{Field, FieldError, Strategy, WriteContext};
use holdfast_value::Value;

use super::pod_spec::{Template, validate_template_of_replicas};
use crate::apps::replicaset::validate_replica_status;
use crate::config::Config;
use crate::defaults::is_zero;
use crate::validation::{Errors, numbers};

/// What only ReplicationControllers do.
pub(crate) struct ReplicationController {
    pub(crate) config: Config,
}

impl Strategy for ReplicationController {
    fn default_fields(&self, _version: &str, object: &mut Value) {
        let labels = object.at(&["spec", "template", "metadata", "labels"]).cloned();
        let Some(labels) = labels.filter(|labels| !is_zero(Some(labels))) else {
            return;
        };
        for place in [&["spec", "selector"], &["metadata", "labels"]] {
            if is_zero(object.at(place)) {
                object.set_at(place, labels.clone());
            }
        }
    }

    fn validate(&self, _context: &WriteContext<'_>, object: &Value) -> Vec<FieldError> {
        let root = Field::root(object);
        let spec = root.child("spec");
        let mut errors = Errors::new();
        numbers::not_negative(&spec.child("minReadySeconds"), &mut errors);
        let selector = spec.child("selector");
        if selector.is_empty() {
            errors.push(selector.required(""));
        }
        let replicas = spec.child("replicas");
        if replicas.is_set() {
            numbers::not_negative(&replicas, &mut errors);
        } else {
            errors.push(replicas.required(""));
        }
        let template = spec.child("template");
        if !template.is_set() {
            errors.push(template.required(""));
            return errors;
        }
        let of = Template {
            workload: "ReplicationController",
            allow_privileged: self.config.allow_privileged,
        };
        validate_template_of_replicas(&template, &LabelSelector::of_labels(&selector), &of, &mut errors);
        errors
    }

    fn validate_update(&self, context: &WriteContext<'_>, object: &Value, _old: &Value) -> Vec<FieldError> {
        if context.subresource == Some("status") {
            let mut errors = Errors::new();
            validate_replica_status(&Field::root(object).child("status"), &mut errors);
            return errors;
        }
        self.validate(context, object)
    }
}

#[cfg(test)]
mod tests {
    use crate::harness::{Harness, at};

    const OLD: &str = "
apiVersion: v1
kind: ReplicationController
metadata: {name: old}
spec:
  template:
    metadata: {labels: {app: old}}
    spec: {containers: [{name: c, image: i}]}
";

    #[test]
    fn selector_and_labels_are_those_of_the_template() {
        let created = Harness::new().create(OLD);
        assert_eq!(at(&created, "spec.selector"), r#"{"app":"old"}"#);
        assert_eq!(at(&created, "metadata.labels"), r#"{"app":"old"}"#);
        assert!(Harness::new().errors(OLD).is_empty());
    }

    #[test]
    fn without_template_nothing_is_selected() {
        assert_eq!(
            Harness::new().errors("{apiVersion: v1, kind: ReplicationController, metadata: {name: a}, spec: {}}"),
            ["spec.selector: Required value", "spec.template: Required value"]
        );
    }
}
