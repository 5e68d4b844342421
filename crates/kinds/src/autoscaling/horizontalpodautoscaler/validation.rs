//! What is wrong with an autoscaler.

use holdfast_resource::metadata::formats::{dns_label, path_segment};
use holdfast_resource::{Field, GroupVersion};

use crate::features::{Feature, Features};
use crate::validation::resources::{is_negative, quantity, validate_container_name};
use crate::validation::{Errors, numbers, required_text, set_one_of};

const SORTS: [&str; 5] = ["ContainerResource", "External", "Object", "Pods", "Resource"];
const SOURCES: [&str; 5] = ["object", "external", "pods", "resource", "containerResource"];
const STABILIZATION_MOST: i64 = 3600;
const PERIOD_MOST: i64 = 1800;

/// What an autoscaler that was there before may keep: `validationOptionsForHorizontalPodAutoscaler`.
#[derive(Default)]
struct Kept {
    /// A target in a version that cannot be read or has no group.
    target_version: bool,
    /// An object of a metric in a version that cannot be read.
    object_version: bool,
}

impl Kept {
    fn of(old: Option<&Field<'_, '_>>) -> Self {
        let Some(old) = old else {
            return Self::default();
        };
        let spec = old.child("spec");
        let odd_object = |metric: Field<'_, '_>| {
            let described = metric.child("object");
            metric.child("type").text() == "Object"
                && version_fault(&described.child("describedObject"), true).is_some()
        };
        let odd_object = spec.child("metrics").items().any(odd_object);
        Self {
            target_version: version_fault(&spec.child("scaleTargetRef"), false).is_some(),
            object_version: odd_object,
        }
    }
}

/// Checks an autoscaler, which takes the place of `old` if there is one.
pub(super) fn validate_autoscaler(
    autoscaler: &Field<'_, '_>,
    old: Option<&Field<'_, '_>>,
    features: Features,
) -> Errors {
    let mut errors = Errors::new();
    let kept = Kept::of(old);
    let spec = autoscaler.child("spec");
    let (least, most) = (spec.child("minReplicas"), spec.child("maxReplicas"));
    let had_none = old.is_some_and(|old| old.child("spec").child("minReplicas").number() == Some(0));
    let bound = i64::from(!features.has(Feature::HPAScaleToZero) && !had_none);
    if least.number().is_some_and(|number| number < bound) {
        errors.push(least.invalid(format!("must be greater than or equal to {bound}")));
    }
    let number = most.number().unwrap_or_default();
    if number == 0 {
        errors.push(most.required("must be set and greater than 0"));
    } else if number < 1 {
        errors.push(most.invalid("must be greater than or equal to 1"));
    }
    if least.number().is_some_and(|least| number < least) {
        errors.push(most.invalid_as(number, "must be greater than or equal to `minReplicas`"));
    }
    let target = spec.child("scaleTargetRef");
    validate_reference(&target, &mut errors);
    if !kept.target_version {
        validate_api_version(&target, false, &mut errors);
    }
    let metrics = spec.child("metrics");
    for metric in metrics.items() {
        validate_metric(&metric, &kept, &mut errors);
    }
    let reaches_zero = least.number() == Some(0);
    let by_outside = |metric: Field<'_, '_>| matches!(metric.child("type").text(), "Object" | "External");
    if reaches_zero && !metrics.items().any(by_outside) {
        let detail = "must specify at least one Object or External metric to support scaling to zero replicas";
        errors.push(metrics.forbidden(detail));
    }
    let behavior = spec.child("behavior");
    for part in ["scaleUp", "scaleDown"] {
        validate_rules(&behavior.child(part), &mut errors);
    }
    errors
}

fn validate_reference(reference: &Field<'_, '_>, errors: &mut Errors) {
    required_text(&reference.child("kind"), path_segment, errors);
    required_text(&reference.child("name"), path_segment, errors);
}

fn validate_api_version(reference: &Field<'_, '_>, takes_core: bool, errors: &mut Errors) {
    if let Some(fault) = version_fault(reference, takes_core) {
        errors.push(reference.child("apiVersion").invalid_text(fault));
    }
}

/// `ValidateAPIVersion`: what is wrong with the version of a reference. `takes_core` says whether it needs no group.
fn version_fault(reference: &Field<'_, '_>, takes_core: bool) -> Option<String> {
    let version = reference.child("apiVersion").text();
    match GroupVersion::parse(version) {
        None if !version.is_empty() => Some(format!("unexpected GroupVersion string: {version}")),
        Some(parsed) if !parsed.group.is_empty() => None,
        _ if takes_core || reference.child("kind").text() == "ReplicationController" => None,
        _ => Some("apiVersion must specify API group".to_owned()),
    }
}

/// `validateMetricSpec`: looks into the first source that is there, whatever the type says.
fn validate_metric(metric: &Field<'_, '_>, kept: &Kept, errors: &mut Errors) {
    let sort = metric.child("type");
    if sort.text().is_empty() {
        errors.push(sort.required("must specify a metric source type"));
    }
    let known = SORTS.contains(&sort.text());
    if !known {
        errors.push(sort.not_supported(&SORTS));
    }
    let present: Vec<&str> = SOURCES.into_iter().filter(|name| metric.child(name).is_set()).collect();
    if let Some(first) = present.first() {
        validate_source(first, &metric.child(first), kept, errors);
    }
    let mut expected = sort.text().to_owned();
    if let Some(first) = expected.get_mut(..1) {
        first.make_ascii_lowercase();
    }
    if !known {
        errors.push(sort.not_supported(&SORTS));
    } else if !present.contains(&expected.as_str()) {
        let source = metric.child(&expected);
        errors.push(source.required("must populate information for the given metric source"));
    }
    if present.len() > 1 {
        for name in present.into_iter().filter(|name| *name != expected) {
            let source = metric.child(name);
            errors.push(source.forbidden("must populate the given metric source only"));
        }
    }
}

fn validate_source(name: &str, source: &Field<'_, '_>, kept: &Kept, errors: &mut Errors) {
    match name {
        "resource" => validate_resource_source(source, errors),
        "containerResource" => {
            validate_container_source(source, errors);
            validate_resource_target(&source.child("target"), errors);
        }
        "pods" => {
            validate_identifier(&source.child("metric"), errors);
            let target = source.child("target");
            validate_target(&target, errors);
            let average = target.child("averageValue");
            if !average.is_set() {
                errors.push(average.required("must specify a positive target averageValue"));
            }
        }
        "object" => {
            let described = source.child("describedObject");
            validate_reference(&described, errors);
            if !kept.object_version {
                validate_api_version(&described, true, errors);
            }
            validate_value_source(source, "must set either a target value or averageValue", errors);
        }
        _ => {
            validate_value_source(
                source,
                "must set either a target value for metric or a per-pod target",
                errors,
            );
            let target = source.child("target");
            let value = target.child("value");
            if value.is_set() && target.child("averageValue").is_set() {
                errors.push(value.forbidden("may not set both a target value for metric and a per-pod target"));
            }
        }
    }
}

fn validate_resource_source(source: &Field<'_, '_>, errors: &mut Errors) {
    let name = source.child("name");
    if name.text().is_empty() {
        errors.push(name.required("must specify a resource name"));
    }
    validate_resource_target(&source.child("target"), errors);
}

fn validate_container_source(source: &Field<'_, '_>, errors: &mut Errors) {
    let (name, container) = (source.child("name"), source.child("container"));
    if name.text().is_empty() {
        errors.push(name.required("must specify a resource name"));
    } else {
        validate_container_name(name.text(), &name, errors);
    }
    if container.text().is_empty() {
        errors.push(container.required("must specify a container"));
    } else {
        crate::validation::report(&container, dns_label(container.text()), errors);
    }
}

fn validate_resource_target(target: &Field<'_, '_>, errors: &mut Errors) {
    validate_target(target, errors);
    let (utilization, average) = (target.child("averageUtilization"), target.child("averageValue"));
    match (utilization.is_set(), average.is_set()) {
        (false, false) => {
            errors.push(utilization.required("must set either a target raw value or a target utilization"));
        }
        (true, true) => errors.push(average.forbidden("may not set both a target raw value and a target utilization")),
        _ => {}
    }
}

/// Checks a source whose target is a value, in all or for each Pod; where there is neither, that is told as `missing` says.
fn validate_value_source(source: &Field<'_, '_>, missing: &str, errors: &mut Errors) {
    validate_identifier(&source.child("metric"), errors);
    let target = source.child("target");
    validate_target(&target, errors);
    let average = target.child("averageValue");
    if !target.child("value").is_set() && !average.is_set() {
        errors.push(average.required(missing));
    }
}

fn validate_identifier(metric: &Field<'_, '_>, errors: &mut Errors) {
    let name = metric.child("name");
    if name.text().is_empty() {
        errors.push(name.required("must specify a metric name"));
    } else {
        crate::validation::report(&name, path_segment(name.text()), errors);
    }
}

fn validate_target(target: &Field<'_, '_>, errors: &mut Errors) {
    let sort = target.child("type");
    if sort.text().is_empty() {
        errors.push(sort.required("must specify a metric target type"));
    }
    if !matches!(sort.text(), "Utilization" | "Value" | "AverageValue") {
        errors.push(sort.invalid_text("must be either Utilization, Value, or AverageValue"));
    }
    for part in ["value", "averageValue"] {
        let field = target.child(part);
        if quantity(&field).is_some_and(|amount| !amount.is_positive()) {
            errors.push(field.invalid("must be positive"));
        }
    }
    let utilization = target.child("averageUtilization");
    if utilization.number().is_some_and(|number| number < 1) {
        errors.push(utilization.invalid("must be greater than 0"));
    }
}

fn validate_rules(rules: &Field<'_, '_>, errors: &mut Errors) {
    if !rules.is_set() {
        return;
    }
    let window = rules.child("stabilizationWindowSeconds");
    if window.number().is_some_and(|seconds| seconds < 0) {
        errors.push(window.invalid("must be greater than or equal to zero"));
    }
    if window.number().is_some_and(|seconds| seconds > STABILIZATION_MOST) {
        errors.push(window.invalid(format!("must be less than or equal to {STABILIZATION_MOST}")));
    }
    set_one_of(&rules.child("selectPolicy"), &["Disabled", "Max", "Min"], errors);
    let policies = rules.child("policies");
    if policies.is_empty() {
        errors.push(policies.required("must specify at least one Policy"));
    }
    for policy in policies.items() {
        let sort = policy.child("type");
        if !matches!(sort.text(), "Percent" | "Pods") {
            errors.push(sort.not_supported(&["Percent", "Pods"]));
        }
        let (value, period) = (policy.child("value"), policy.child("periodSeconds"));
        for field in [&value, &period] {
            let number = field.number().unwrap_or_default();
            if number <= 0 {
                errors.push(field.invalid_as(number, "must be greater than zero"));
            }
        }
        if period.number().is_some_and(|seconds| seconds > PERIOD_MOST) {
            errors.push(period.invalid(format!("must be less than or equal to {PERIOD_MOST}")));
        }
    }
    let tolerance = rules.child("tolerance");
    if is_negative(&tolerance) {
        errors.push(tolerance.invalid("must be greater than or equal to 0"));
    }
}

/// Checks the status of an autoscaler.
pub(super) fn validate_status(autoscaler: &Field<'_, '_>) -> Errors {
    let mut errors = Errors::new();
    let status = autoscaler.child("status");
    for count in ["currentReplicas", "desiredReplicas"] {
        numbers::not_negative(&status.child(count), &mut errors);
    }
    errors
}
