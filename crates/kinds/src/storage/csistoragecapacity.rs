//! CSIStorageCapacities: <https://kubernetes.io/docs/concepts/storage/storage-capacity/>.

use holdfast_kind_tables::Kind;
use holdfast_kind_tables::metadata_checks::{COMMON_CHECKS, in_order};
use holdfast_resource::{Strategy, WriteContext};
use holdfast_schema::{AnyRules, Check, Field, Part, Rules, UpdateOrder};
use holdfast_value::Value;

use crate::kind::kind;
use crate::pod_spec::node_label_selector_warnings;
use crate::rules::CsiStorageCapacityRule;
use crate::validation::resources::validate_amount;

/// Strategy of CSIStorageCapacities.
pub(crate) struct CsiStorageCapacity;

/// Returns the kind with its capabilities.
pub(super) fn declare() -> Kind {
    kind(CsiStorageCapacity)
        .metadata_checks(in_order(UpdateOrder::ObjectFirst, COMMON_CHECKS))
        .done()
}

impl Strategy for CsiStorageCapacity {
    fn rules<'v>(&self) -> &dyn AnyRules<'v> {
        self
    }

    /// upstream: pkg/registry/storage/csistoragecapacity#csiStorageCapacityStrategy.WarningsOnCreate
    /// upstream: pkg/registry/storage/csistoragecapacity#csiStorageCapacityStrategy.WarningsOnUpdate
    fn warnings(&self, _context: &WriteContext<'_>, object: &Value, _old: Option<&Value>) -> Vec<String> {
        node_label_selector_warnings(&Field::root(object).child("nodeTopology"))
    }
}

impl<'v> Rules<'v> for CsiStorageCapacity {
    type Rule = CsiStorageCapacityRule;

    fn rule(&self, rule: CsiStorageCapacityRule, part: &Part<'v, '_>, check: &mut Check<'_>) {
        match rule {
            CsiStorageCapacityRule::Capacity => validate_amount("storage", &part.child("capacity"), &mut check.errors),
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::harness::Harness;

    #[test]
    fn the_topology_stays_and_is_shown_labels_first() {
        let old = "{apiVersion: storage.k8s.io/v1, kind: CSIStorageCapacity, metadata: {name: a}, storageClassName: c}";
        let selector = "{matchExpressions: [{key: k, operator: Exists}], matchLabels: {a: b}}";
        let new = old.replace(
            "storageClassName",
            &format!("nodeTopology: {selector}, storageClassName"),
        );
        assert_eq!(
            Harness::new().update_errors(old, &new),
            [
                "nodeTopology: Invalid value: {\"matchLabels\":{\"a\":\"b\"},\"matchExpressions\":[{\"key\":\"k\",\
                 \"operator\":\"Exists\"}]}: field is immutable"
            ]
        );
    }

    #[test]
    fn topology_with_deprecated_labels_warns() {
        let capacity = "{apiVersion: storage.k8s.io/v1, kind: CSIStorageCapacity, metadata: {name: a}, storageClassName: c,
            nodeTopology: {matchLabels: {beta.kubernetes.io/os: linux, kubernetes.io/os: linux},
            matchExpressions: [{key: kubernetes.io/os, operator: Exists}, {key: node-role.kubernetes.io/master, operator: Exists}]}}";
        let expected = [
            "nodeTopology.matchExpressions[1].key: node-role.kubernetes.io/master is use \
             \"node-role.kubernetes.io/control-plane\" instead",
            "nodeTopology.matchLabels.beta.kubernetes.io/os: deprecated since v1.14; use \"kubernetes.io/os\" instead",
        ];
        let harness = Harness::new();
        assert_eq!(harness.warnings(capacity), expected);
        assert_eq!(harness.update_warnings(capacity, capacity), expected);
    }
}
