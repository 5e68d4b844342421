//! Deployments: <https://kubernetes.io/docs/concepts/workloads/controllers/deployment/>.

use holdfast_kind_tables::Kind;
use holdfast_kind_tables::metadata_checks::of_core;
use holdfast_resource::Strategy;
use holdfast_schema::{AnyChanges, AnyRules, Changes, Check, Field, Part, Rules};
use holdfast_value::Value;

use crate::config::Config;
use crate::defaults::set_missing_at;
use crate::kind::kind;
use crate::rules::{DeploymentChange, DeploymentRule};
use crate::validation::{Errors, numbers};
use crate::workload::{
    SelectorRules, TemplateWarnings, at_most_count, collisions_only_grow, unsupported_strategy,
    validate_selector_and_template,
};

/// Strategy of Deployments.
pub(crate) struct Deployment {
    pub(crate) config: Config,
}

/// Returns the kind with its capabilities.
pub(super) fn declare(config: &Config) -> Kind {
    kind(Deployment { config: config.clone() })
        .read_by(super::at_rest::deployment)
        .pod_template(&["spec", "template"], TemplateWarnings::OfWorkload { names_pods: true })
        .empty_status()
        .metadata_checks(of_core(0, 1))
        .done()
}

impl Strategy for Deployment {
    /// upstream: pkg/apis/apps/v1#SetDefaults_Deployment
    fn default_fields(&self, _version: &str, object: &mut Value) {
        if object.str_at(&["spec", "strategy", "type"]) == Some("RollingUpdate") {
            set_missing_at(object, &["spec", "strategy"], "rollingUpdate", Value::empty_map);
            for part in ["maxSurge", "maxUnavailable"] {
                set_missing_at(object, &["spec", "strategy", "rollingUpdate"], part, || "25%".into());
            }
        }
    }

    fn rules<'v>(&self) -> &dyn AnyRules<'v> {
        self
    }

    fn changes<'v>(&self) -> &dyn AnyChanges<'v> {
        self
    }
}

impl<'v> Rules<'v> for Deployment {
    type Rule = DeploymentRule;

    fn rule(&self, rule: DeploymentRule, part: &Part<'v, '_>, check: &mut Check<'_>) {
        match rule {
            DeploymentRule::SelectorAndTemplate => {
                let rules = SelectorRules::for_replica_sets(self.config.pods());
                validate_selector_and_template(part, &rules, check);
            }
            DeploymentRule::Strategy => validate_strategy(&part.child("strategy"), &mut check.errors),
            DeploymentRule::Deadline => validate_deadline(part, &mut check.errors),
            DeploymentRule::Bounds => validate_bounds(part, &mut check.errors),
        }
    }
}

impl<'v> Changes<'v> for Deployment {
    type Change = DeploymentChange;

    fn change(&self, change: DeploymentChange, part: &Part<'v, '_>, old: &Part<'v, '_>, check: &mut Check<'_>) {
        match change {
            DeploymentChange::Collisions => collisions_only_grow(part, old, &mut check.errors),
        }
    }
}

/// Validates that the progress deadline is longer than `minReadySeconds`.
///
/// upstream: pkg/apis/apps/validation#ValidateDeploymentSpec
fn validate_deadline(spec: &Field<'_, '_>, errors: &mut Errors) {
    let (ready, deadline) = (spec.child("minReadySeconds"), spec.child("progressDeadlineSeconds"));
    if deadline
        .number()
        .is_some_and(|seconds| seconds <= ready.number().unwrap_or_default())
    {
        errors.push(deadline.invalid("must be greater than minReadySeconds"));
    }
}

/// upstream: pkg/apis/apps/validation#ValidateDeploymentStrategy
fn validate_strategy(strategy: &Field<'_, '_>, errors: &mut Errors) {
    let rolling = strategy.child("rollingUpdate");
    match strategy.child("type").text() {
        "Recreate" => {
            if rolling.is_set() {
                errors.push(rolling.forbidden("may not be specified when strategy `type` is 'Recreate'"));
            }
        }
        "RollingUpdate" => {
            if rolling.is_set() {
                validate_rolling_update(&rolling, errors);
            } else {
                errors.push(rolling.required("this should be defaulted and never be nil"));
            }
        }
        _ => errors.push(unsupported_strategy(strategy, &["Recreate", "RollingUpdate"])),
    }
}

/// upstream: pkg/apis/apps/validation#ValidateRollingUpdateDeployment
fn validate_rolling_update(rolling: &Field<'_, '_>, errors: &mut Errors) {
    let (unavailable, surge) = (rolling.child("maxUnavailable"), rolling.child("maxSurge"));
    numbers::number_or_percent(&unavailable, errors);
    numbers::number_or_percent(&surge, errors);
    if numbers::count(&unavailable) == 0 && numbers::count(&surge) == 0 {
        errors.push(unavailable.invalid("may not be 0 when `maxSurge` is 0"));
    }
    numbers::at_most_all(&unavailable, errors);
}

/// upstream: pkg/apis/apps/validation#ValidateDeploymentStatus
fn validate_bounds(status: &Field<'_, '_>, errors: &mut Errors) {
    let of_all = ["updatedReplicas", "readyReplicas", "availableReplicas"];
    at_most_count(status, &of_all, "replicas", "status.replicas", errors);
    at_most_count(status, &["availableReplicas"], "readyReplicas", "readyReplicas", errors);
}

#[cfg(test)]
mod tests {
    use crate::harness::{Harness, at};

    const WEB: &str = "
apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
spec:
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec:
      containers: [{name: main, image: nginx}]
";

    fn with_spec(line: &str) -> String {
        WEB.replace("spec:\n  selector", &format!("spec:\n  {line}\n  selector"))
    }

    #[test]
    fn a_rolling_update_moves_a_quarter_at_a_time() {
        let created = Harness::new().create(WEB);
        assert_eq!(
            at(&created, "spec.strategy"),
            r#"{"rollingUpdate":{"maxSurge":"25%","maxUnavailable":"25%"},"type":"RollingUpdate"}"#
        );
        let recreate = Harness::new().create(&with_spec("strategy: {type: Recreate}"));
        assert_eq!(at(&recreate, "spec.strategy"), r#"{"type":"Recreate"}"#);
    }

    #[test]
    fn templates_get_the_defaults_of_pods_but_what_only_pods_get() {
        let created = Harness::new().create(WEB);
        assert_eq!(
            at(&created, "spec.template.spec.containers.0.imagePullPolicy"),
            r#""Always""#
        );
        assert_eq!(at(&created, "spec.template.spec.securityContext"), "{}");
        assert_eq!(at(&created, "spec.template.spec.enableServiceLinks"), "nothing");
    }

    #[test]
    fn status_on_create_is_dropped() {
        let created = Harness::new().create(&format!("{WEB}status: {{replicas: 7}}\n"));
        assert_eq!(at(&created, "status"), "{}");
    }

    #[test]
    fn an_empty_deployment_lacks_selector_labels_and_containers() {
        assert_eq!(
            Harness::new().errors("{apiVersion: apps/v1, kind: Deployment, metadata: {name: web}}"),
            [
                "spec.selector: Required value",
                "spec.template.metadata.labels: Invalid value: null: `selector` does not match template `labels`",
                "spec.template.spec.containers: Required value",
            ]
        );
    }

    #[test]
    fn numbers_and_strategies_have_bounds() {
        let harness = Harness::new();
        for (line, error) in [
            (
                "replicas: -1",
                "spec.replicas: Invalid value: -1: must be greater than or equal to 0",
            ),
            (
                "minReadySeconds: 600",
                "spec.progressDeadlineSeconds: Invalid value: 600: must be greater than minReadySeconds",
            ),
            (
                "strategy: {type: Recreate, rollingUpdate: {maxSurge: 1}}",
                "spec.strategy.rollingUpdate: Forbidden: may not be specified when strategy `type` is 'Recreate'",
            ),
            (
                "strategy: {type: odd, rollingUpdate: {maxSurge: 1}}",
                "spec.strategy: Unsupported value: {\"Type\":\"odd\",\"RollingUpdate\":{\"MaxUnavailable\":0,\"MaxSurge\":1}}: supported values: \"Recreate\", \"RollingUpdate\"",
            ),
            (
                "strategy: {rollingUpdate: {maxSurge: 0, maxUnavailable: 0}}",
                "spec.strategy.rollingUpdate.maxUnavailable: Invalid value: 0: may not be 0 when `maxSurge` is 0",
            ),
            (
                "strategy: {rollingUpdate: {maxUnavailable: 101%}}",
                "spec.strategy.rollingUpdate.maxUnavailable: Invalid value: \"101%\": must not be greater than 100%",
            ),
        ] {
            assert_eq!(harness.errors(&with_spec(line)), [error]);
        }
        assert!(harness.errors(WEB).is_empty());
    }

    #[test]
    fn the_selector_stays() {
        let other = WEB.replace("app: web}", "app: other}");
        assert_eq!(
            Harness::new().update_errors(WEB, &other),
            [r#"spec.selector: Invalid value: {"matchLabels":{"app":"other"}}: field is immutable"#]
        );
    }

    #[test]
    fn counts_of_the_status_fit_together() {
        let status = format!("{WEB}status: {{replicas: 1, readyReplicas: 0, availableReplicas: 2}}\n");
        assert_eq!(
            Harness::new().subresource_errors(Some("status"), WEB, &status),
            [
                "status.availableReplicas: Invalid value: 2: cannot be greater than status.replicas",
                "status.availableReplicas: Invalid value: 2: cannot be greater than readyReplicas",
            ]
        );
    }

    #[test]
    fn warnings_name_names_labels_and_hidden_variables() {
        let odd = WEB.replace("name: web", "name: a.b").replace(
            "image: nginx}]",
            "image: nginx, env: [{name: A, value: a}, {name: A, value: b}]}]\n      \
             nodeSelector: {beta.kubernetes.io/os: linux}\n      terminationGracePeriodSeconds: -1",
        );
        assert_eq!(
            Harness::new().warnings(&odd),
            [
                "metadata.name: this is used in Pod names and hostnames, which can result in surprising behavior; a DNS \
                 label is recommended: [must not contain dots]",
                "spec.template.spec.nodeSelector[beta.kubernetes.io/os]: deprecated since v1.14; use \
                 \"kubernetes.io/os\" instead",
                "spec.template.spec.containers[0].env[1]: hides previous definition of \"A\", which may be dropped when \
                 using apply",
                "spec.template.spec.terminationGracePeriodSeconds: must be >= 0; negative values are invalid and will be \
                 treated as 1",
            ]
        );
    }
}
