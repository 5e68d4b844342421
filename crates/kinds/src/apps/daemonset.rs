//! DaemonSets: <https://kubernetes.io/docs/concepts/workloads/controllers/daemonset/>.

use holdfast_kind_tables::Kind;
use holdfast_kind_tables::metadata_checks::of_core;
use holdfast_resource::{Rejection, RowRules, Strategy, WriteContext};
use holdfast_schema::metadata::labels::{LabelSelector, invalid_selector, validate_label_selector};
use holdfast_schema::{AnyRules, Changes, Check, Field, FieldError, Part, Rules};
use holdfast_value::Value;

use crate::config::Config;
use crate::defaults::set_missing_at;
use crate::kind::kind;
use crate::pod_spec::{validate_restarting, validate_selected, validate_template};
use crate::rules::{DaemonSetChange, DaemonSetRule};
use crate::validation::{Errors, numbers, same};
use crate::workload::{
    TemplateWarnings, collisions_only_grow, selects_everything, unsupported_strategy, workload_warnings,
};

/// Annotation that counts changes of the template, as a field of an older API did.
pub(super) const TEMPLATE_GENERATION: &str = "deprecated.daemonset.template.generation";

/// Strategy of DaemonSets.
pub(crate) struct DaemonSet {
    pub(crate) config: Config,
}

/// Returns the kind with its capabilities.
pub(super) fn declare(config: &Config) -> Kind {
    kind(DaemonSet { config: config.clone() })
        .read_by(super::at_rest::daemonset)
        .rows(RowRules {
            hidden_annotations: &[TEMPLATE_GENERATION],
            ..RowRules::default()
        })
        .pod_template(&["spec", "template"], TemplateWarnings::Own)
        .empty_status()
        .metadata_checks(of_core(0, 1))
        .done()
}

impl Strategy for DaemonSet {
    /// upstream: pkg/apis/apps/v1#SetDefaults_DaemonSet
    fn default_fields(&self, _version: &str, object: &mut Value) {
        let rolls = object.str_at(&["spec", "updateStrategy", "type"]) == Some("RollingUpdate");
        if rolls {
            set_missing_at(object, &["spec", "updateStrategy"], "rollingUpdate", Value::empty_map);
        }
        // Both are numbers in the reference's internal version, for other strategy types too.
        for (part, value) in [("maxUnavailable", i64::from(rolls)), ("maxSurge", 0)] {
            set_missing_at(object, &["spec", "updateStrategy", "rollingUpdate"], part, || {
                value.into()
            });
        }
        if template_generation(object).is_none() {
            set_template_generation(object, 0);
        }
    }

    /// upstream: pkg/registry/apps/daemonset#daemonSetStrategy.PrepareForCreate
    fn prepare_for_create(&self, _context: &WriteContext<'_>, object: &mut Value) -> Result<(), Rejection> {
        if template_generation(object).unwrap_or_default() < 1 {
            set_template_generation(object, 1);
        }
        Ok(())
    }

    /// upstream: pkg/registry/apps/daemonset#daemonSetStrategy.PrepareForUpdate
    /// upstream: pkg/registry/apps/daemonset#daemonSetStatusStrategy.PrepareForUpdate
    fn prepare_for_update(&self, context: &WriteContext<'_>, object: &mut Value, old: &Value) -> Result<(), Rejection> {
        // A status write has the whole old spec, which holds the count.
        let template = ["spec", "template"];
        let changed = context.subresource.is_none() && !same(object.at(&template), old.at(&template));
        let generation = template_generation(old).unwrap_or_default() + i64::from(changed);
        if template_generation(object) != Some(generation) {
            set_template_generation(object, generation);
        }
        Ok(())
    }

    fn rules<'v>(&self) -> &dyn AnyRules<'v> {
        self
    }

    /// upstream: pkg/registry/apps/daemonset#daemonSetStrategy.ValidateUpdate
    /// upstream: pkg/registry/apps/daemonset#daemonSetStatusStrategy.ValidateUpdate
    fn validate_update(&self, context: &WriteContext<'_>, object: &Value, old: &Value) -> Vec<FieldError> {
        if context.subresource == Some("status") {
            return context.check_update(object, old, self);
        }
        let mut errors = context.check_changes(object, old, self);
        errors.extend(context.check(object, self));
        errors
    }

    /// upstream: pkg/registry/apps/daemonset#daemonSetStrategy.WarningsOnCreate
    /// upstream: pkg/registry/apps/daemonset#daemonSetStrategy.WarningsOnUpdate
    fn warnings(&self, context: &WriteContext<'_>, object: &Value, old: Option<&Value>) -> Vec<String> {
        const TEMPLATE: [&str; 2] = ["spec", "template"];
        if old.is_some_and(|old| old.at(&TEMPLATE) == object.at(&TEMPLATE)) {
            return Vec::new();
        }
        workload_warnings(context, object, old, &TEMPLATE, false)
    }
}

fn template_generation(object: &Value) -> Option<i64> {
    object
        .str_at(&["metadata", "annotations", TEMPLATE_GENERATION])
        .and_then(|text| text.parse().ok())
}

fn set_template_generation(object: &mut Value, generation: i64) {
    object.set_at(
        &["metadata", "annotations", TEMPLATE_GENERATION],
        generation.to_string().into(),
    );
}

impl<'v> Rules<'v> for DaemonSet {
    type Rule = DaemonSetRule;

    fn rule(&self, rule: DaemonSetRule, part: &Part<'v, '_>, check: &mut Check<'_>) {
        match rule {
            DaemonSetRule::SelectorAndTemplate => self.validate_selector_and_template(part, check),
            DaemonSetRule::Strategy => validate_strategy(&part.child("updateStrategy"), &mut check.errors),
        }
    }
}

impl<'v> Changes<'v> for DaemonSet {
    type Change = DaemonSetChange;

    fn change(&self, change: DaemonSetChange, part: &Part<'v, '_>, old: &Part<'v, '_>, check: &mut Check<'_>) {
        match change {
            DaemonSetChange::Collisions => collisions_only_grow(part, old, &mut check.errors),
        }
    }
}

impl DaemonSet {
    /// upstream: pkg/apis/apps/validation#ValidateDaemonSetSpec
    fn validate_selector_and_template(&self, spec: &Part<'_, '_>, check: &mut Check<'_>) {
        let selector = spec.child("selector");
        let Some(template) = check.child(spec, "template") else {
            return;
        };
        validate_label_selector(&selector, &mut check.errors);
        if let Some(read) = LabelSelector::read(&selector) {
            validate_selected(&template, &read, &mut check.errors);
        }
        if selects_everything(&selector) {
            let error = invalid_selector(&selector, "empty selector is invalid for daemonset");
            check.errors.push(error);
        }
        validate_template(&template, self.config.pods(), check);
        validate_restarting(&template, "DaemonSet", &mut check.errors);
    }
}

/// upstream: pkg/apis/apps/validation#ValidateDaemonSetUpdateStrategy
fn validate_strategy(strategy: &Field<'_, '_>, errors: &mut Errors) {
    let rolling = strategy.child("rollingUpdate");
    match strategy.child("type").text() {
        "OnDelete" => {}
        "RollingUpdate" if !rolling.is_set() => errors.push(rolling.required("")),
        "RollingUpdate" => validate_rolling_update(&rolling, errors),
        _ => errors.push(unsupported_strategy(strategy, &["RollingUpdate", "OnDelete"])),
    }
}

/// upstream: pkg/apis/apps/validation#ValidateRollingUpdateDaemonSet
fn validate_rolling_update(rolling: &Field<'_, '_>, errors: &mut Errors) {
    let (unavailable, surge) = (rolling.child("maxUnavailable"), rolling.child("maxSurge"));
    let (some_unavailable, some_surge) = (numbers::count(&unavailable) != 0, numbers::count(&surge) != 0);
    for part in [&unavailable, &surge] {
        numbers::number_or_percent(part, errors);
        numbers::at_most_all(part, errors);
    }
    match (some_unavailable, some_surge) {
        (true, true) => errors.push(surge.invalid("may not be set when maxUnavailable is non-zero")),
        (false, false) => errors.push(unavailable.required("cannot be 0 when maxSurge is 0")),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use crate::harness::{Harness, at};

    const AGENT: &str = "
apiVersion: apps/v1
kind: DaemonSet
metadata: {name: agent}
spec:
  selector: {matchLabels: {app: agent}}
  template:
    metadata: {labels: {app: agent}}
    spec:
      containers: [{name: main, image: agent:1}]
";

    #[test]
    fn the_generation_of_the_template_grows_with_the_template_alone() {
        let harness = Harness::new();
        let place = "metadata.annotations";
        let created = harness.create(AGENT);
        assert_eq!(
            at(&created, place),
            r#"{"deprecated.daemonset.template.generation":"1"}"#
        );
        let same = harness.update(
            &created,
            &AGENT.replace("spec:\n  sel", "spec:\n  minReadySeconds: 3\n  sel"),
        );
        assert_eq!(at(&same, place), r#"{"deprecated.daemonset.template.generation":"1"}"#);
        let changed = harness.update(&same, &AGENT.replace("agent:1", "agent:2"));
        assert_eq!(
            at(&changed, place),
            r#"{"deprecated.daemonset.template.generation":"2"}"#
        );
    }

    #[test]
    fn invalid_selector_has_one_error() {
        let harness = Harness::new();
        assert_eq!(
            harness.errors(&AGENT.replace(
                "{matchLabels: {app: agent}}",
                "{matchExpressions: [{key: app, operator: Odd}]}"
            )),
            ["spec.selector.matchExpressions[0].operator: Invalid value: \"Odd\": not a valid selector operator"]
        );
        assert_eq!(
            harness.errors(&AGENT.replace("  selector: {matchLabels: {app: agent}}\n", "")),
            [
                "spec.template.metadata.labels: Invalid value: {\"app\":\"agent\"}: `selector` does not match template `labels`"
            ]
        );
    }

    #[test]
    fn names_tried_before_stay_tried() {
        let status = |text: &str| format!("{AGENT}status: {{{text}}}\n");
        let (old, new) = (
            Harness::new().read(&status("collisionCount: 2")),
            Harness::new().read(&status("")),
        );
        assert_eq!(
            Harness::new().check_update(Some("status"), &old, &new),
            ["status.collisionCount: Invalid value: 0: cannot be decremented"]
        );
    }

    #[test]
    fn a_rolling_update_that_is_not_in_use_has_numbers() {
        let idle = AGENT.replace(
            "spec:\n  sel",
            "spec:\n  updateStrategy: {type: OnDelete, rollingUpdate: {}}\n  sel",
        );
        assert_eq!(
            at(&Harness::new().create(&idle), "spec.updateStrategy.rollingUpdate"),
            r#"{"maxSurge":0,"maxUnavailable":0}"#
        );
    }

    #[test]
    fn an_update_moves_either_old_or_new_pods() {
        let harness = Harness::new();
        let rolling = |part: &str| {
            AGENT.replace(
                "spec:\n  sel",
                &format!("spec:\n  updateStrategy: {{rollingUpdate: {part}}}\n  sel"),
            )
        };
        assert_eq!(
            at(&harness.create(AGENT), "spec.updateStrategy.rollingUpdate"),
            r#"{"maxSurge":0,"maxUnavailable":1}"#
        );
        assert_eq!(
            harness.errors(&rolling("{maxUnavailable: 0}")),
            ["spec.updateStrategy.rollingUpdate.maxUnavailable: Required value: cannot be 0 when maxSurge is 0"]
        );
        assert_eq!(
            harness.errors(&rolling("{maxSurge: 1}")),
            [
                "spec.updateStrategy.rollingUpdate.maxSurge: Invalid value: 1: may not be set when maxUnavailable is non-zero"
            ]
        );
    }

    #[test]
    fn a_status_write_keeps_the_count_of_templates() {
        let mut old = Harness::new().create(AGENT);
        old.set_at(&["metadata", "annotations", super::TEMPLATE_GENERATION], "7".into());
        let mut new = old.clone();
        new.remove_at(&["metadata", "annotations"]);
        let kept = Harness::new().shaped(Some("status"), &old, new);
        assert_eq!(super::template_generation(&kept), Some(7));
    }
}
