//! ReplicaSets: <https://kubernetes.io/docs/concepts/workloads/controllers/replicaset/>.

use holdfast_resource::{Check, Part, Rules, Strategy};

use crate::config::Config;
use crate::workload::{SelectorRules, validate_replica_bounds, validate_selector_and_template};

/// Strategy of ReplicaSets.
pub(crate) struct ReplicaSet {
    pub(crate) config: Config,
}

impl Strategy for ReplicaSet {
    fn rules<'v>(&self) -> &dyn Rules<'v> {
        self
    }
}

impl<'v> Rules<'v> for ReplicaSet {
    fn rule(&self, name: &str, part: &Part<'v, '_>, check: &mut Check<'_>) {
        match name {
            "selector_and_template" => {
                let rules = SelectorRules::of_replica_sets(self.config.pods());
                validate_selector_and_template(part, &rules, check);
            }
            "bounds" => validate_replica_bounds(part, &mut check.errors),
            _ => check.unknown_rule(name, part),
        }
    }
}
