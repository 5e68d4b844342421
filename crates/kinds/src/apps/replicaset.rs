//! ReplicaSets: <https://kubernetes.io/docs/concepts/workloads/controllers/replicaset/>.

use holdfast_kind_tables::Kind;
use holdfast_kind_tables::metadata_checks::of_core;
use holdfast_resource::Strategy;
use holdfast_schema::{AnyRules, Check, Part, Rules};

use crate::config::Config;
use crate::kind::kind;
use crate::rules::ReplicaSetRule;
use crate::workload::{SelectorRules, TemplateWarnings, validate_replica_bounds, validate_selector_and_template};

/// Strategy of ReplicaSets.
pub(crate) struct ReplicaSet {
    pub(crate) config: Config,
}

/// Returns the kind with its capabilities.
pub(super) fn declare(config: &Config) -> Kind {
    kind(ReplicaSet { config: config.clone() })
        .read_by(super::at_rest::with_selector)
        .pod_template(&["spec", "template"], TemplateWarnings::OfWorkload { names_pods: true })
        .empty_status()
        .metadata_checks(of_core(0, 1))
        .done()
}

impl Strategy for ReplicaSet {
    fn rules<'v>(&self) -> &dyn AnyRules<'v> {
        self
    }
}

impl<'v> Rules<'v> for ReplicaSet {
    type Rule = ReplicaSetRule;

    fn rule(&self, rule: ReplicaSetRule, part: &Part<'v, '_>, check: &mut Check<'_>) {
        match rule {
            ReplicaSetRule::SelectorAndTemplate => {
                let rules = SelectorRules::for_replica_sets(self.config.pods());
                validate_selector_and_template(part, &rules, check);
            }
            ReplicaSetRule::Bounds => validate_replica_bounds(part, &mut check.errors),
        }
    }
}
