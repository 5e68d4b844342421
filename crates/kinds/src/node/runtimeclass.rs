//! RuntimeClasses: <https://kubernetes.io/docs/concepts/containers/runtime-class/>.

use std::collections::HashSet;

use holdfast_kind_tables::Kind;
use holdfast_kind_tables::metadata_checks::{in_order, of_apimachinery};
use holdfast_resource::{Strategy, WriteContext};
use holdfast_schema::{AnyRules, Check, Field, FieldError, Part, Rules, UpdateOrder};
use holdfast_value::{Value, json};

use crate::kind::kind;
use crate::pod_spec::{deprecated_node_label, validate_tolerations};
use crate::rules::RuntimeClassRule;
use crate::validation::resources::validate_overhead;

/// Strategy of RuntimeClasses.
pub(crate) struct RuntimeClass;

/// Returns the kind with its capabilities.
pub(super) fn declare() -> Kind {
    kind(RuntimeClass)
        .metadata_checks(in_order(UpdateOrder::ObjectFirst, of_apimachinery(1, 1)))
        .done()
}

impl Strategy for RuntimeClass {
    fn rules<'v>(&self) -> &dyn AnyRules<'v> {
        self
    }

    /// upstream: pkg/registry/node/runtimeclass#strategy.WarningsOnCreate
    /// upstream: pkg/registry/node/runtimeclass#strategy.WarningsOnUpdate
    fn warnings(&self, _context: &WriteContext<'_>, object: &Value, _old: Option<&Value>) -> Vec<String> {
        let root = Field::root(object);
        let scheduling = root.child("scheduling");
        let selector = scheduling.child("nodeSelector");
        // The reference does not name the label.
        let texts = selector.entries().filter_map(|(label, _)| deprecated_node_label(label));
        texts.map(|text| format!("{}: {text}", selector.path())).collect()
    }
}

impl<'v> Rules<'v> for RuntimeClass {
    type Rule = RuntimeClassRule;

    fn rule(&self, rule: RuntimeClassRule, part: &Part<'v, '_>, check: &mut Check<'_>) {
        match rule {
            RuntimeClassRule::Overhead => {
                let fixed = part.child("overhead").child("podFixed").value();
                // The reference does not name the inner field.
                validate_overhead(&Field::placed(fixed, "overhead"), &mut check.errors);
            }
            RuntimeClassRule::Tolerations => {
                let tolerations = part.child("tolerations");
                validate_tolerations(&tolerations, false, &mut check.errors);
                let mut seen = HashSet::new();
                for toleration in tolerations.items() {
                    // Tolerations that differ only in their seconds are duplicates.
                    let key = ["key", "operator", "value", "effect"].map(|name| toleration.child(name).text());
                    if !seen.insert(key) {
                        check.errors.push(shown_twice(&toleration));
                    }
                }
            }
        }
    }
}

/// Returns the error for a duplicate toleration. Its value has the reference's field names and order.
fn shown_twice(toleration: &Field<'_, '_>) -> FieldError {
    let part = |name: &str| json::to_string(&toleration.child(name).text().into());
    let field = toleration.child("tolerationSeconds");
    let seconds = field
        .number()
        .map_or_else(|| "null".to_owned(), |seconds| seconds.to_string());
    let shown = format!(
        "{{\"Key\":{},\"Operator\":{},\"Value\":{},\"Effect\":{},\"TolerationSeconds\":{seconds}}}",
        part("key"),
        part("operator"),
        part("value"),
        part("effect")
    );
    FieldError {
        value: None,
        ..toleration.duplicate()
    }
    .with_detail(shown)
}

#[cfg(test)]
mod tests {
    use crate::harness::Harness;

    const CLASS: &str = "{apiVersion: node.k8s.io/v1, kind: RuntimeClass, metadata: {name: r}, handler: h, scheduling: \
                         {tolerations: [{key: k, operator: Exists}]}, overhead: {podFixed: {cpu: 1}}}";

    #[test]
    fn an_update_is_checked_as_a_new_class_is() {
        let harness = Harness::new();
        let twice = CLASS.replace("Exists}", "Exists}, {key: k, operator: Exists}");
        assert_eq!(
            harness.update_errors(CLASS, &twice),
            ["scheduling.tolerations[1]: Duplicate value: \
                 {\"Key\":\"k\",\"Operator\":\"Exists\",\"Value\":\"\",\"Effect\":\"\",\"TolerationSeconds\":null}"]
        );
        let seconds = CLASS.replace(
            "Exists}",
            "Exists, effect: NoExecute}, {key: k, operator: Exists, effect: NoExecute, tolerationSeconds: 5}",
        );
        assert_eq!(
            harness.update_errors(CLASS, &seconds),
            ["scheduling.tolerations[1]: Duplicate value: \
                 {\"Key\":\"k\",\"Operator\":\"Exists\",\"Value\":\"\",\"Effect\":\"NoExecute\",\"TolerationSeconds\":5}"]
        );
        assert_eq!(
            harness
                .update_errors(CLASS, &CLASS.replace("handler: h", "handler: ''"))
                .len(),
            2
        );
    }

    #[test]
    fn overhead_is_checked_as_limits_are() {
        let pages = CLASS.replace("cpu: 1", "hugepages-2Mi: 1Mi");
        assert_eq!(
            Harness::new().errors(&pages),
            [
                "overhead.limits[hugepages-2Mi]: Invalid value: \"1Mi\": 1Mi is not positive integer multiple of hugepages-2Mi",
                "overhead: Forbidden: HugePages require cpu or memory",
            ]
        );
    }

    #[test]
    fn deprecated_labels_of_nodes_are_warned_of() {
        let class = "{apiVersion: node.k8s.io/v1, kind: RuntimeClass, metadata: {name: r}, handler: h, scheduling: \
                     {nodeSelector: {a: b, beta.kubernetes.io/os: linux}}}";
        assert_eq!(
            Harness::new().warnings(class),
            [r#"scheduling.nodeSelector: deprecated since v1.14; use "kubernetes.io/os" instead"#]
        );
    }
}
