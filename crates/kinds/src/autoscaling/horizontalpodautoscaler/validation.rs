//! Validation of autoscalers.

use holdfast_kind_tables::features::{Feature, Features};
use holdfast_schema::{Check, Field, Part, Rules};

use crate::rules::HorizontalPodAutoscalerRule;
use crate::validation::Errors;
use crate::validation::resources::{is_negative, quantity, validate_container_name};

const TYPES: [&str; 5] = ["ContainerResource", "External", "Object", "Pods", "Resource"];
const SOURCES: [&str; 5] = ["object", "external", "pods", "resource", "containerResource"];

/// Validation rules that validation tags do not cover, and exceptions for existing objects:
/// `validationOptionsForHorizontalPodAutoscaler`.
pub(super) struct AutoscalerRules {
    /// Minimum of `minReplicas`.
    least_replicas: i64,
    /// True if the `apiVersion` of the target may be invalid or without a group.
    keeps_target_version: bool,
    /// True if the `apiVersion` of a metric's object may be invalid.
    keeps_object_version: bool,
}

impl AutoscalerRules {
    /// Returns the rules for an autoscaler that replaces `old`, if any.
    pub(super) fn new(features: Features, old: Option<&Field<'_, '_>>) -> Self {
        let odd_object = |metric: Field<'_, '_>| {
            let described = metric.child("object");
            metric.child("type").text() == "Object"
                && version_error(&described.child("describedObject"), true).is_some()
        };
        let before = |is: &dyn Fn(&Field<'_, '_>) -> bool| old.is_some_and(|old| is(&old.child("spec")));
        let had_none = before(&|spec| spec.child("minReplicas").number() == Some(0));
        Self {
            least_replicas: i64::from(!features.has(Feature::HPAScaleToZero) && !had_none),
            keeps_target_version: before(&|spec| version_error(&spec.child("scaleTargetRef"), false).is_some()),
            keeps_object_version: before(&|spec| spec.child("metrics").items().any(odd_object)),
        }
    }
}

impl<'v> Rules<'v> for AutoscalerRules {
    type Rule = HorizontalPodAutoscalerRule;

    fn rule(&self, rule: HorizontalPodAutoscalerRule, part: &Part<'v, '_>, check: &mut Check<'_>) {
        let errors = &mut check.errors;
        match rule {
            HorizontalPodAutoscalerRule::LeastReplicas => {
                let (least, bound) = (part.child("minReplicas"), self.least_replicas);
                if least.number().is_some_and(|number| number < bound) {
                    errors.push(least.invalid(format!("must be greater than or equal to {bound}")));
                }
            }
            HorizontalPodAutoscalerRule::Replicas => validate_bounds(part, errors),
            HorizontalPodAutoscalerRule::TargetVersion if self.keeps_target_version => {}
            HorizontalPodAutoscalerRule::TargetVersion => {
                validate_api_version(&part.child("scaleTargetRef"), false, errors)
            }
            HorizontalPodAutoscalerRule::Metric => self.validate_metric(part, check),
            HorizontalPodAutoscalerRule::ScalingToZero => validate_scaling_to_zero(part, errors),
            HorizontalPodAutoscalerRule::Policies => {
                // Unset policies get defaults. An empty list is rejected.
                let policies = part.child("policies");
                if check.provenance.empty_at(&policies).is_some() {
                    errors.push(policies.required("must specify at least one Policy"));
                }
            }
            HorizontalPodAutoscalerRule::ObjectVersion if self.keeps_object_version => {}
            HorizontalPodAutoscalerRule::ObjectVersion => {
                validate_api_version(&part.child("describedObject"), true, errors)
            }
            HorizontalPodAutoscalerRule::ContainerResource => {
                let resource = part.child("name");
                if !resource.text().is_empty() {
                    validate_container_name(resource.text(), &resource, errors);
                }
            }
            HorizontalPodAutoscalerRule::Target => validate_target(part, errors),
            HorizontalPodAutoscalerRule::Utilization => validate_utilization(&part.child("target"), errors),
            HorizontalPodAutoscalerRule::Average => {
                let target = part.child("target");
                let average = target.child("averageValue");
                if !average.is_set() {
                    errors.push(average.required("must specify a positive target averageValue"));
                }
            }
            HorizontalPodAutoscalerRule::ObjectValue => {
                validate_value(
                    &part.child("target"),
                    "must set either a target value or averageValue",
                    errors,
                );
            }
            HorizontalPodAutoscalerRule::ExternalValue => validate_external_value(&part.child("target"), errors),
            HorizontalPodAutoscalerRule::Tolerance => {
                let tolerance = part.child("tolerance");
                if is_negative(&tolerance) {
                    errors.push(tolerance.invalid("must be greater than or equal to 0"));
                }
            }
        }
    }
}

impl AutoscalerRules {
    /// Validates the first source that is set, whatever the type is.
    ///
    /// upstream: pkg/apis/autoscaling/validation#validateMetricSpec
    fn validate_metric<'v>(&self, metric: &Part<'v, '_>, check: &mut Check<'_>) {
        let source_type = metric.child("type");
        if source_type.text().is_empty() {
            check
                .errors
                .push(source_type.required("must specify a metric source type"));
        }
        let known = TYPES.contains(&source_type.text());
        if !known {
            check.errors.push(source_type.not_supported(&TYPES));
        }
        let present: Vec<&str> = SOURCES.into_iter().filter(|name| metric.child(name).is_set()).collect();
        if let Some(first) = present.first() {
            check.field(metric, first, self);
        }
        let mut expected = source_type.text().to_owned();
        if let Some(first) = expected.get_mut(..1) {
            first.make_ascii_lowercase();
        }
        if !known {
            check.errors.push(source_type.not_supported(&TYPES));
        } else if !present.contains(&expected.as_str()) {
            let source = metric.child(&expected);
            let detail = "must populate information for the given metric source";
            check.errors.push(source.required(detail));
        }
        if present.len() > 1 {
            for name in present.into_iter().filter(|name| *name != expected) {
                let source = metric.child(name);
                let detail = "must populate the given metric source only";
                check.errors.push(source.forbidden(detail));
            }
        }
    }
}

/// upstream: pkg/apis/autoscaling/validation#validateHorizontalPodAutoscalerSpec
fn validate_bounds(spec: &Field<'_, '_>, errors: &mut Errors) {
    let most = spec.child("maxReplicas");
    let number = most.number().unwrap_or_default();
    if spec.child("minReplicas").number().is_some_and(|least| number < least) {
        errors.push(most.invalid_number("must be greater than or equal to `minReplicas`"));
    }
}

/// upstream: pkg/apis/autoscaling/validation#validateMetrics
fn validate_scaling_to_zero(spec: &Field<'_, '_>, errors: &mut Errors) {
    let metrics = spec.child("metrics");
    let by_outside = |metric: Field<'_, '_>| matches!(metric.child("type").text(), "Object" | "External");
    if spec.child("minReplicas").number() == Some(0) && !metrics.items().any(by_outside) {
        let detail = "must specify at least one Object or External metric to support scaling to zero replicas";
        errors.push(metrics.forbidden(detail));
    }
}

/// upstream: pkg/apis/autoscaling/validation#ValidateAPIVersion
fn validate_api_version(reference: &Field<'_, '_>, takes_core: bool, errors: &mut Errors) {
    if let Some(message) = version_error(reference, takes_core) {
        errors.push(reference.child("apiVersion").invalid_text(message));
    }
}

/// Returns the error in the version of a reference. If `takes_core`, the group is optional.
///
/// upstream: pkg/apis/autoscaling/validation#ValidateAPIVersion
fn version_error(reference: &Field<'_, '_>, takes_core: bool) -> Option<String> {
    let version = reference.child("apiVersion").text();
    match version.split_once('/') {
        Some((_, number)) if number.contains('/') => Some(format!("unexpected GroupVersion string: {version}")),
        Some((group, _)) if !group.is_empty() => None,
        _ if takes_core || reference.child("kind").text() == "ReplicationController" => None,
        _ => Some("apiVersion must specify API group".to_owned()),
    }
}

/// Validates that a target has exactly one of a raw value and a utilization.
///
/// upstream: pkg/apis/autoscaling/validation#validateContainerResourceSource
/// upstream: pkg/apis/autoscaling/validation#validateResourceSource
fn validate_utilization(target: &Field<'_, '_>, errors: &mut Errors) {
    let (utilization, average) = (target.child("averageUtilization"), target.child("averageValue"));
    match (utilization.is_set(), average.is_set()) {
        (false, false) => {
            errors.push(utilization.required("must set either a target raw value or a target utilization"));
        }
        (true, true) => errors.push(average.forbidden("may not set both a target raw value and a target utilization")),
        _ => {}
    }
}

/// Validates that a target has a total or a per-Pod value. Reports `missing` if not.
///
/// upstream: pkg/apis/autoscaling/validation#validateObjectSource
/// upstream: pkg/apis/autoscaling/validation#validatePodsSource
fn validate_value(target: &Field<'_, '_>, missing: &str, errors: &mut Errors) {
    let average = target.child("averageValue");
    if !target.child("value").is_set() && !average.is_set() {
        errors.push(average.required(missing));
    }
}

/// upstream: pkg/apis/autoscaling/validation#validateExternalSource
fn validate_external_value(target: &Field<'_, '_>, errors: &mut Errors) {
    validate_value(
        target,
        "must set either a target value for metric or a per-pod target",
        errors,
    );
    let value = target.child("value");
    if value.is_set() && target.child("averageValue").is_set() {
        errors.push(value.forbidden("may not set both a target value for metric and a per-pod target"));
    }
}

/// upstream: pkg/apis/autoscaling/validation#validateMetricTarget
fn validate_target(target: &Field<'_, '_>, errors: &mut Errors) {
    let target_type = target.child("type");
    if target_type.text().is_empty() {
        errors.push(target_type.required("must specify a metric target type"));
    }
    if !matches!(target_type.text(), "Utilization" | "Value" | "AverageValue") {
        errors.push(target_type.invalid_text("must be either Utilization, Value, or AverageValue"));
    }
    for part in ["value", "averageValue"] {
        let field = target.child(part);
        if quantity(&field).is_some_and(|amount| !amount.is_positive()) {
            errors.push(field.invalid("must be positive"));
        }
    }
}
