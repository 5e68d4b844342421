//! PodTemplates: <https://kubernetes.io/docs/reference/kubernetes-api/workload-resources/pod-template-v1/>.

use holdfast_kind_tables::Kind;
use holdfast_kind_tables::metadata_checks::of_core;
use holdfast_resource::{Strategy, WriteContext};
use holdfast_schema::{AnyRules, Check, Part, Rules};
use holdfast_value::Value;

use crate::config::Config;
use crate::kind::kind;
use crate::pod_spec::{template_warnings, validate_template};
use crate::rules::PodTemplateRule;
use crate::validation::same;
use crate::workload::TemplateWarnings;

/// Rules of PodTemplates only.
pub(crate) struct PodTemplate {
    pub(crate) config: Config,
}

/// Returns the kind with its capabilities.
pub(super) fn declare(config: &Config) -> Kind {
    kind(PodTemplate { config: config.clone() })
        .pod_template(&["template"], TemplateWarnings::Own)
        .metadata_checks(of_core(0, 1))
        .done()
}

impl Strategy for PodTemplate {
    fn rules<'v>(&self) -> &dyn AnyRules<'v> {
        self
    }

    /// upstream: pkg/registry/core/podtemplate#podTemplateStrategy.WarningsOnCreate
    /// upstream: pkg/registry/core/podtemplate#podTemplateStrategy.WarningsOnUpdate
    fn warnings(&self, context: &WriteContext<'_>, object: &Value, old: Option<&Value>) -> Vec<String> {
        if old.is_some_and(|old| same(object.get("template"), old.get("template"))) {
            return Vec::new();
        }
        template_warnings(&context.parts, object, &["template"])
    }
}

impl<'v> Rules<'v> for PodTemplate {
    type Rule = PodTemplateRule;

    fn rule(&self, rule: PodTemplateRule, root: &Part<'v, '_>, check: &mut Check<'_>) {
        let PodTemplateRule::Template = rule;
        if let Some(template) = check.child(root, "template") {
            validate_template(&template, self.config.pods(), check);
        }
    }
}
