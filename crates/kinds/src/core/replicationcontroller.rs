//! ReplicationControllers: <https://kubernetes.io/docs/concepts/workloads/controllers/replicationcontroller/>.

use holdfast_kind_tables::Kind;
use holdfast_kind_tables::metadata_checks::{generating_any_name, of_core};
use holdfast_resource::{Strategy, WriteContext};
use holdfast_schema::metadata::labels::LabelSelector;
use holdfast_schema::{AnyRules, Check, Part, Parts, Rules};
use holdfast_value::Value;

use crate::config::Config;
use crate::defaults::is_zero;
use crate::kind::kind;
use crate::pod_spec::{Template, template_warnings, validate_template_of_replicas};
use crate::rules::ReplicationControllerRule;
use crate::workload::{TemplateWarnings, validate_replica_bounds, warns_of_spec, workload_warnings};

const TEMPLATE: [&str; 2] = ["spec", "template"];

/// Rules of ReplicationControllers only.
pub(crate) struct ReplicationController {
    pub(crate) config: Config,
}

/// Returns the kind with its capabilities.
pub(super) fn declare(config: &Config) -> Kind {
    kind(ReplicationController { config: config.clone() })
        .counted_by_plural()
        .pod_template(&["spec", "template"], TemplateWarnings::Own)
        .empty_status()
        .metadata_checks(generating_any_name(of_core(0, 1)))
        .done()
}

impl Strategy for ReplicationController {
    /// upstream: pkg/apis/core/v1#SetDefaults_ReplicationController
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

    fn rules<'v>(&self) -> &dyn AnyRules<'v> {
        self
    }

    /// upstream: pkg/registry/core/replicationcontroller#rcStrategy.WarningsOnCreate
    /// upstream: pkg/registry/core/replicationcontroller#rcStrategy.WarningsOnUpdate
    fn warnings(&self, context: &WriteContext<'_>, object: &Value, old: Option<&Value>) -> Vec<String> {
        match old {
            None => workload_warnings(context, object, None, &TEMPLATE, true),
            // The reference swaps both templates: an update returns the warnings of the template that it replaces. They
            // do not apply to the new template, so they are not cached.
            Some(old) if warns_of_spec(context, object, Some(old)) => {
                template_warnings(&Parts::default(), old, &TEMPLATE)
            }
            Some(_) => Vec::new(),
        }
    }
}

impl<'v> Rules<'v> for ReplicationController {
    type Rule = ReplicationControllerRule;

    fn rule(&self, rule: ReplicationControllerRule, part: &Part<'v, '_>, check: &mut Check<'_>) {
        match rule {
            ReplicationControllerRule::Template => self.validate_template(part, check),
            ReplicationControllerRule::Bounds => validate_replica_bounds(part, &mut check.errors),
        }
    }
}

impl ReplicationController {
    /// Validates the template of a ReplicationController.
    ///
    /// upstream: pkg/apis/core/validation#ValidatePodTemplateSpecForRC
    fn validate_template(&self, spec: &Part<'_, '_>, check: &mut Check<'_>) {
        let Some(template) = check.child(spec, "template").filter(|template| template.is_set()) else {
            check.errors.push(spec.child("template").required(""));
            return;
        };
        let kind = Template {
            workload: "ReplicationController",
            settings: self.config.pods(),
        };
        let selector = LabelSelector::from_labels(&spec.child("selector"));
        validate_template_of_replicas(&template, &selector, &kind, check);
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

    #[test]
    fn update_warns_of_the_replaced_template() {
        let generation = |text: &str, generation: u8| {
            text.replace(
                "metadata: {name: old}",
                &format!("metadata: {{name: old, generation: {generation}}}"),
            )
        };
        let deprecated = OLD.replace(
            "{containers",
            "{nodeSelector: {beta.kubernetes.io/os: linux}, containers",
        );
        let warning = "spec.template.spec.nodeSelector[beta.kubernetes.io/os]: deprecated since v1.14; use \
                       \"kubernetes.io/os\" instead";
        let harness = Harness::new();
        assert_eq!(harness.warnings(&deprecated), [warning]);
        let update = |old: &str, new: &str| harness.update_warnings(&generation(old, 1), &generation(new, 2));
        assert_eq!(update(&deprecated, OLD), [warning]);
        assert!(update(OLD, &deprecated).is_empty());
        assert!(harness.update_warnings(&deprecated, &deprecated).is_empty());
    }
}
