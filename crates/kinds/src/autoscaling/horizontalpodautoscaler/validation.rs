//! What is wrong with an autoscaler.

use holdfast_resource::metadata::formats::path_segment;
use holdfast_resource::{Field, GroupVersion};

use crate::validation::resources::quantity;
use crate::validation::{Errors, numbers, required_text};

const SORTS: [&str; 5] = ["ContainerResource", "External", "Object", "Pods", "Resource"];
const SOURCES: [&str; 5] = ["object", "external", "pods", "resource", "containerResource"];
const STABILIZATION_MOST: i64 = 3600;
const PERIOD_MOST: i64 = 1800;

/// Checks an autoscaler.
pub(super) fn validate_autoscaler(autoscaler: &Field<'_, '_>) -> Errors {
    let mut errors = Errors::new();
    let spec = autoscaler.child("spec");
    let (least, most) = (spec.child("minReplicas"), spec.child("maxReplicas"));
    if least.number().is_some_and(|number| number < 1) {
        errors.push(least.invalid("must be greater than or equal to 1"));
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
    validate_api_version(&target, &mut errors);
    let metrics = spec.child("metrics");
    for metric in metrics.items() {
        validate_metric(&metric, &mut errors);
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

fn validate_api_version(target: &Field<'_, '_>, errors: &mut Errors) {
    let version = target.child("apiVersion");
    match GroupVersion::parse(version.text()) {
        None if !version.text().is_empty() => {
            errors.push(version.invalid(format!("unexpected GroupVersion string: {}", version.text())))
        }
        Some(parsed) if !parsed.group.is_empty() => {}
        _ if target.child("kind").text() == "ReplicationController" => {}
        _ => errors.push(version.invalid_text("apiVersion must specify API group")),
    }
}

fn validate_metric(metric: &Field<'_, '_>, errors: &mut Errors) {
    let sort = metric.child("type");
    if sort.text().is_empty() {
        errors.push(sort.required("must specify a metric source type"));
    }
    let known = SORTS.contains(&sort.text());
    if !known {
        errors.push(sort.not_supported(&SORTS));
    }
    let mut expected = sort.text().to_owned();
    if let Some(first) = expected.get_mut(..1) {
        first.make_ascii_lowercase();
    }
    let mut found = false;
    for name in SOURCES {
        let source = metric.child(name);
        if !source.is_set() {
            continue;
        }
        found |= name == expected;
        if name != expected {
            errors.push(source.forbidden("must populate the given metric source only"));
        }
        validate_source(name, &source, errors);
    }
    if !found && SOURCES.contains(&expected.as_str()) {
        let source = metric.child(&expected);
        errors.push(source.required("must populate information for the given metric source"));
    }
    if !known {
        // The reference says it again where it looks for what the type needs.
        errors.push(sort.not_supported(&SORTS));
    }
}

fn validate_source(name: &str, source: &Field<'_, '_>, errors: &mut Errors) {
    let target = source.child("target");
    let (utilization, average, value) = (
        target.child("averageUtilization"),
        target.child("averageValue"),
        target.child("value"),
    );
    match name {
        "resource" | "containerResource" => {
            let named = source.child("name");
            if named.text().is_empty() {
                errors.push(named.required("must specify a resource name"));
            }
            let container = source.child("container");
            if name == "containerResource" && container.text().is_empty() {
                errors.push(container.required("must specify a container"));
            }
            validate_target(&target, errors);
            if !utilization.is_set() && !average.is_set() {
                errors.push(utilization.required("must set either a target raw value or a target utilization"));
            }
            if utilization.is_set() && average.is_set() {
                errors.push(average.forbidden("may not set both a target raw value and a target utilization"));
            }
        }
        "pods" => {
            validate_identifier(&source.child("metric"), errors);
            validate_target(&target, errors);
            if !quantity(&average).is_some_and(|amount| amount.is_positive()) {
                errors.push(average.required("must specify a positive target averageValue"));
            }
        }
        _ => {
            if name == "object" {
                validate_reference(&source.child("describedObject"), errors);
            }
            validate_identifier(&source.child("metric"), errors);
            validate_target(&target, errors);
            if !value.is_set() && !average.is_set() {
                errors.push(average.required(if name == "object" {
                    "must set either a target value or averageValue"
                } else {
                    "must set either a target value for metric or a per-pod target"
                }));
            }
            if name == "external" && value.is_set() && average.is_set() {
                errors.push(value.forbidden("may not set both a target value for metric and a per-pod target"));
            }
        }
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
    numbers::not_negative(&window, errors);
    if window.number().is_some_and(|seconds| seconds > STABILIZATION_MOST) {
        errors.push(window.invalid(format!("must be less than or equal to {STABILIZATION_MOST}")));
    }
    let select = rules.child("selectPolicy");
    const SELECTS: [&str; 3] = ["Disabled", "Max", "Min"];
    if select.is_set() && !SELECTS.contains(&select.text()) {
        errors.push(select.not_supported(&SELECTS));
    }
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
