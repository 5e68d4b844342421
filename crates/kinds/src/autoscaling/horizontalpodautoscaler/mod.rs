//! HorizontalPodAutoscalers: <https://kubernetes.io/docs/tasks/run-application/horizontal-pod-autoscale/>.
//!
//! Objects are stored as `autoscaling/v2`. In `v1`, fields that this version lacks are in annotations.

mod cells;
mod conversion;
mod validation;

pub(super) use cells::CELLS;
use validation::AutoscalerRules;

use holdfast_kind_tables::Kind;
use holdfast_kind_tables::features::Features;
use holdfast_kind_tables::metadata_checks::of_core;
use holdfast_resource::{ConversionError, Converts, Rejection, RowRules, Strategy, WriteContext};
use holdfast_schema::{Field, FieldError};
use holdfast_value::{Map, Value};

use crate::config::Config;
use crate::defaults::{is_zero, put_at, set_missing, set_missing_at};
use crate::kind::kind;

/// Strategy of HorizontalPodAutoscalers.
pub(crate) struct HorizontalPodAutoscaler {
    /// Enabled features.
    pub(crate) features: Features,
}

/// Default target utilization of CPU if there is no metric, in percent of the request.
const CPU_TARGET: i64 = 80;

/// Returns the kind with its capabilities.
pub(super) fn declare(config: &Config) -> Kind {
    kind(HorizontalPodAutoscaler {
        features: config.features,
    })
    .converts()
    .cells(CELLS)
    .read_by(from_rest)
    .rows(RowRules {
        of_stored_version: true,
        ..RowRules::default()
    })
    .empty_status()
    .keeps_reset_fields_at_creation()
    .metadata_checks(of_core(0, 1))
    .done()
}

impl Strategy for HorizontalPodAutoscaler {
    /// upstream: pkg/apis/autoscaling/v2#SetDefaults_HorizontalPodAutoscaler
    fn default_fields(&self, version: &str, object: &mut Value) {
        if version == "v1" {
            // An invalid annotation counts as missing.
            if conversion::annotated_metrics(object).is_empty() {
                set_missing_at(object, &["spec"], "targetCPUUtilizationPercentage", || {
                    CPU_TARGET.into()
                });
            }
            return;
        }
        conversion::drop_annotations(object);
        if object.get("spec").is_some() && is_zero(object.at(&["spec", "metrics"])) {
            object.set_at(
                &["spec", "metrics"],
                vec![conversion::cpu_metric(&CPU_TARGET.into())].into(),
            );
        }
        if object
            .at(&["spec", "behavior"])
            .is_some_and(|behavior| !behavior.is_null())
        {
            default_behavior(object);
        }
    }

    /// upstream: pkg/registry/autoscaling/horizontalpodautoscaler#autoscalerStatusStrategy.PrepareForUpdate
    /// upstream: pkg/registry/autoscaling/horizontalpodautoscaler#autoscalerStrategy.PrepareForUpdate
    fn prepare_for_update(&self, context: &WriteContext<'_>, object: &mut Value, old: &Value) -> Result<(), Rejection> {
        // A version with fields in annotations cannot express that they are unchanged.
        let kept = match context.subresource {
            None => "status",
            Some(_) => "spec",
        };
        put_at(object, &[kept], old.get(kept).cloned());
        Ok(())
    }

    /// upstream: pkg/registry/autoscaling/horizontalpodautoscaler#autoscalerStrategy.Validate
    fn validate(&self, context: &WriteContext<'_>, object: &Value) -> Vec<FieldError> {
        context.check(object, &AutoscalerRules::new(self.features, None))
    }

    /// upstream: pkg/registry/autoscaling/horizontalpodautoscaler#autoscalerStrategy.ValidateUpdate
    /// upstream: pkg/registry/autoscaling/horizontalpodautoscaler#autoscalerStatusStrategy.ValidateUpdate
    fn validate_update(&self, context: &WriteContext<'_>, object: &Value, old: &Value) -> Vec<FieldError> {
        context.check(object, &AutoscalerRules::new(self.features, Some(&Field::root(old))))
    }
}

/// Converts an autoscaler that was stored in v1.
pub(super) fn from_rest(object: Value) -> Value {
    match object.str_at(&["apiVersion"]) {
        Some("autoscaling/v1") => conversion::to_v2(object),
        _ => object,
    }
}

impl Converts for HorizontalPodAutoscaler {
    fn convert(&self, object: Value, to_api_version: &str) -> Result<Value, ConversionError> {
        let from = object.str_at(&["apiVersion"]).unwrap_or_default();
        match (from, to_api_version) {
            (from, to) if from == to => Ok(object),
            ("autoscaling/v1", "autoscaling/v2") => Ok(conversion::to_v2(object)),
            ("autoscaling/v2", "autoscaling/v1") => Ok(conversion::to_v1(object)),
            (from, to) => Err(ConversionError::Unknown {
                from: from.to_owned(),
                to: to.to_owned(),
            }),
        }
    }

    fn round_trip(&self, object: Value) -> Value {
        if object.str_at(&["apiVersion"]) == Some("autoscaling/v1") {
            conversion::to_v1(conversion::to_v2(object))
        } else {
            object
        }
    }
}

/// upstream: pkg/apis/autoscaling/v2#SetDefaults_HorizontalPodAutoscalerBehavior
fn default_behavior(object: &mut Value) {
    let policy = |policy_type: &str, value: i64| {
        let mut policy = Map::new();
        policy.insert("type", policy_type);
        policy.insert("value", value);
        policy.insert("periodSeconds", 15);
        Value::Map(policy)
    };
    let Some(behavior) = object.at_mut(&["spec", "behavior"]) else {
        return;
    };
    for part in ["scaleUp", "scaleDown"] {
        set_missing(behavior, part, Value::empty_map);
        set_missing_at(behavior, &[part], "selectPolicy", || "Max".into());
    }
    set_missing_at(behavior, &["scaleUp"], "stabilizationWindowSeconds", || 0.into());
    let up = || vec![policy("Pods", 4), policy("Percent", 100)];
    set_missing_at(behavior, &["scaleUp"], "policies", || up().into());
    set_missing_at(behavior, &["scaleDown"], "policies", || {
        vec![policy("Percent", 100)].into()
    });
}

#[cfg(test)]
mod tests {
    use holdfast_kind_tables::features::Features;
    use holdfast_resource::Converts as _;

    use super::HorizontalPodAutoscaler;
    use crate::harness::{Harness, at};

    fn autoscaler() -> HorizontalPodAutoscaler {
        let features = Features::default();
        HorizontalPodAutoscaler { features }
    }

    fn autoscaler_text(version: &str, spec: &str) -> String {
        format!(
            "{{apiVersion: autoscaling/{version}, kind: HorizontalPodAutoscaler, metadata: {{name: a}}, spec: {{{spec}}}}}"
        )
    }

    const TARGET: &str = "scaleTargetRef: {apiVersion: apps/v1, kind: Deployment, name: d}";

    #[test]
    fn the_use_of_cpu_is_the_metric_where_none_is_given() {
        let harness = Harness::new();
        let newer = harness.read(&autoscaler_text("v2", &format!("{TARGET}, maxReplicas: 3")));
        assert_eq!(
            at(&newer, "spec.metrics"),
            r#"[{"resource":{"name":"cpu","target":{"averageUtilization":80,"type":"Utilization"}},"type":"Resource"}]"#
        );
        let older = harness.read(&autoscaler_text("v1", &format!("{TARGET}, maxReplicas: 3")));
        assert_eq!(at(&older, "spec.targetCPUUtilizationPercentage"), "80");
    }

    #[test]
    fn the_older_version_annotates_what_it_has_no_field_for() {
        let used = autoscaler_text("v1", &format!("{TARGET}, maxReplicas: 3")).replace(
            "spec:",
            "status: {currentCPUUtilizationPercentage: 42, currentReplicas: 1, desiredReplicas: 2}, spec:",
        );
        let noted = autoscaler().round_trip(Harness::new().read(&used));
        let annotation = at(&noted, "metadata.annotations");
        assert!(
            annotation.contains("current-metrics") && annotation.contains("42"),
            "{annotation}"
        );
        assert_eq!(at(&noted, "status.currentCPUUtilizationPercentage"), "42");
        assert_eq!(autoscaler().round_trip(noted.clone()), noted);
    }

    #[test]
    fn a_behavior_is_completed() {
        let read = Harness::new().read(&autoscaler_text(
            "v2",
            &format!("{TARGET}, maxReplicas: 3, behavior: {{scaleDown: {{selectPolicy: Min}}}}"),
        ));
        assert_eq!(at(&read, "spec.behavior.scaleUp.stabilizationWindowSeconds"), "0");
        assert_eq!(at(&read, "spec.behavior.scaleUp.policies.1.type"), r#""Percent""#);
        assert_eq!(at(&read, "spec.behavior.scaleDown.selectPolicy"), r#""Min""#);
        assert_eq!(
            at(&read, "spec.behavior.scaleDown.stabilizationWindowSeconds"),
            "nothing"
        );
    }

    fn metric_errors(metric: &str) -> Vec<String> {
        let spec = format!("{TARGET}, maxReplicas: 3, metrics: [{{{metric}}}]");
        Harness::new().errors(&autoscaler_text("v2", &spec))
    }

    #[test]
    fn the_first_source_is_looked_at_and_others_are_refused_last() {
        assert_eq!(
            metric_errors("type: ContainerResource, containerResource: {}, pods: {}"),
            [
                "spec.metrics[0].pods.metric.name: Required value: must specify a metric name",
                "spec.metrics[0].pods.target.type: Required value: must specify a metric target type",
                "spec.metrics[0].pods.target.type: Invalid value: \"\": must be either Utilization, Value, or AverageValue",
                "spec.metrics[0].pods.target.averageValue: Required value: must specify a positive target averageValue",
                "spec.metrics[0].pods: Forbidden: must populate the given metric source only",
            ]
        );
        let unknown = "spec.metrics[0].type: Unsupported value: \"Odd\": supported values: \"ContainerResource\", \"External\", \
                       \"Object\", \"Pods\", \"Resource\"";
        assert_eq!(metric_errors("type: Odd"), [unknown; 2]);
        assert_eq!(
            metric_errors(
                "type: ContainerResource, containerResource: {name: a.b, container: C, target: {type: Value, averageValue: -1}}"
            )
            .iter()
            .map(|error| error.split(": ").next().unwrap_or_default())
            .collect::<Vec<_>>(),
            [
                "spec.metrics[0].containerResource.name",
                "spec.metrics[0].containerResource.name",
                "spec.metrics[0].containerResource.container",
                "spec.metrics[0].containerResource.target.averageValue",
            ]
        );
    }

    #[test]
    fn reference_version_is_validated_unless_old_is_invalid() {
        let of_object = |version: &str| {
            let described = format!("describedObject: {{apiVersion: {version}, kind: K, name: o}}");
            let object = format!("{{{described}, metric: {{name: m}}, target: {{type: Value, value: 1}}}}");
            autoscaler_text(
                "v2",
                &format!("{TARGET}, maxReplicas: 3, metrics: [{{type: Object, object: {object}}}]"),
            )
        };
        let harness = Harness::new();
        for version in ["v1", "apps/", "/"] {
            assert_eq!(harness.errors(&of_object(version)), Vec::<String>::new(), "{version}");
        }
        assert_eq!(
            harness.update_errors(&of_object("v1"), &of_object("a/b/c")),
            [
                "spec.metrics[0].object.describedObject.apiVersion: Invalid value: \"a/b/c\": unexpected GroupVersion string: a/b/c"
            ]
        );
        assert_eq!(
            harness.update_errors(&of_object("d/e/f"), &of_object("a/b/c")),
            Vec::<String>::new()
        );
    }

    #[test]
    fn a_list_of_no_policies_is_refused() {
        let spec = format!("{TARGET}, maxReplicas: 3, behavior: {{scaleUp: {{policies: []}}}}");
        assert_eq!(
            Harness::new().errors(&autoscaler_text("v2", &spec)),
            ["spec.behavior.scaleUp.policies: Required value: must specify at least one Policy"]
        );
    }

    #[test]
    fn rules_of_scaling_are_checked() {
        let rules = "stabilizationWindowSeconds: -1, selectPolicy: Odd, tolerance: '-1', policies: [{}]";
        let spec = format!("{TARGET}, maxReplicas: 3, behavior: {{scaleUp: {{{rules}}}}}");
        assert_eq!(
            Harness::new().errors(&autoscaler_text("v2", &spec)),
            [
                "spec.behavior.scaleUp.stabilizationWindowSeconds: Invalid value: -1: must be greater than or equal to zero",
                "spec.behavior.scaleUp.selectPolicy: Unsupported value: \"Odd\": supported values: \"Disabled\", \"Max\", \"Min\"",
                "spec.behavior.scaleUp.policies[0].type: Unsupported value: \"\": supported values: \"Percent\", \"Pods\"",
                "spec.behavior.scaleUp.policies[0].value: Invalid value: 0: must be greater than zero",
                "spec.behavior.scaleUp.policies[0].periodSeconds: Invalid value: 0: must be greater than zero",
                "spec.behavior.scaleUp.tolerance: Invalid value: \"-1\": must be greater than or equal to 0",
            ]
        );
    }

    #[test]
    fn an_annotation_that_cannot_be_read_is_no_metric() {
        let odd = autoscaler_text("v1", &format!("{TARGET}, maxReplicas: 3")).replace(
            "{name: a}",
            "{name: a, annotations: {autoscaling.alpha.kubernetes.io/metrics: '{'}}",
        );
        assert_eq!(
            at(&Harness::new().read(&odd), "spec.targetCPUUtilizationPercentage"),
            "80"
        );
    }

    #[test]
    fn bounds_and_target_are_checked() {
        assert_eq!(
            Harness::new().errors(&autoscaler_text("v2", "maxReplicas: 0")),
            [
                "spec.maxReplicas: Required value: must be set and greater than 0",
                "spec.maxReplicas: Invalid value: 0: must be greater than or equal to `minReplicas`",
                "spec.scaleTargetRef.kind: Required value",
                "spec.scaleTargetRef.name: Required value",
                "spec.scaleTargetRef.apiVersion: Invalid value: \"\": apiVersion must specify API group",
            ]
        );
        assert_eq!(
            Harness::new().errors(&autoscaler_text(
                "v2",
                &format!("{TARGET}, maxReplicas: 3, metrics: [{{type: Pods}}]")
            )),
            ["spec.metrics[0].pods: Required value: must populate information for the given metric source"]
        );
    }
}
