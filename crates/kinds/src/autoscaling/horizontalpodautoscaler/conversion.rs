//! Conversion between the versions of an autoscaler.

mod metrics;

use holdfast_value::{Limits, Map, Value, json};

use self::metrics::{current_to_v1, current_to_v2, metric_to_v1, metric_to_v2};
use super::CPU_TARGET;
use crate::defaults::is_zero;

/// Annotation with the metrics that `v1` has no fields for.
const METRICS: &str = "autoscaling.alpha.kubernetes.io/metrics";
const CURRENT_METRICS: &str = "autoscaling.alpha.kubernetes.io/current-metrics";
const CONDITIONS: &str = "autoscaling.alpha.kubernetes.io/conditions";
const BEHAVIOR: &str = "autoscaling.alpha.kubernetes.io/behavior";

/// Annotations that objects have only in `v1`. Clients cannot set them: each conversion rewrites them.
const ANNOTATIONS: [&str; 6] = [
    METRICS,
    CURRENT_METRICS,
    CONDITIONS,
    BEHAVIOR,
    "autoscaling.alpha.kubernetes.io/scale-down-tolerance",
    "autoscaling.alpha.kubernetes.io/scale-up-tolerance",
];

/// Order of the keys in annotations. Types that share keys agree on their order.
const KEY_ORDER: [&str; 39] = [
    "type",
    "status",
    "lastTransitionTime",
    "reason",
    "message",
    "object",
    "pods",
    "resource",
    "containerResource",
    "external",
    "value",
    "target",
    "metricName",
    "metricSelector",
    "kind",
    "name",
    "targetValue",
    "targetAverageUtilization",
    "targetAverageValue",
    "currentValue",
    "currentAverageUtilization",
    "currentAverageValue",
    "container",
    "selector",
    "averageValue",
    "apiVersion",
    "matchLabels",
    "matchExpressions",
    "key",
    "operator",
    "values",
    "metric",
    "describedObject",
    "current",
    "averageUtilization",
    "spec",
    "metadata",
    "labels",
    "annotations",
];

/// Returns the metric that `v1` writes as `targetCPUUtilizationPercentage`.
pub(super) fn cpu_metric(percentage: &Value) -> Value {
    let mut metric = Value::empty_map();
    metric.set_at(&["type"], "Resource".into());
    metric.set_at(&["resource", "name"], "cpu".into());
    metric.set_at(&["resource", "target", "type"], "Utilization".into());
    metric.set_at(&["resource", "target", "averageUtilization"], percentage.clone());
    metric
}

fn is_cpu(metric: &Value) -> bool {
    metric.str_at(&["type"]) == Some("Resource") && metric.str_at(&["resource", "name"]) == Some("cpu")
}

/// Converts the object to `autoscaling/v1`.
pub(super) fn to_v1(mut object: Value) -> Value {
    object.set_at(&["apiVersion"], "autoscaling/v1".into());
    drop_annotations(&mut object);
    let metrics = take_list(&mut object, &["spec", "metrics"]);
    let (mut target, mut others) = (None, Vec::new());
    for metric in metrics {
        match metric.at(&["resource", "target", "averageUtilization"]) {
            // The first CPU metric counts. The others are lost.
            Some(percentage) if is_cpu(&metric) => target = target.or_else(|| Some(percentage.clone())),
            _ => others.push(metric_to_v1(&metric)),
        }
    }
    if let Some(percentage) = target {
        object.set_at(&["spec", "targetCPUUtilizationPercentage"], percentage);
    }
    annotate(&mut object, METRICS, &others.into());
    let behavior = object.remove_at(&["spec", "behavior"]).unwrap_or_default();
    annotate_behavior(&mut object, &behavior);
    let current = take_list(&mut object, &["status", "currentMetrics"]);
    let used = current.iter().filter(|metric| is_cpu(metric));
    let percentage = used
        .filter_map(|metric| metric.at(&["resource", "current", "averageUtilization"]))
        .next_back();
    if let Some(percentage) = percentage.cloned() {
        object.set_at(&["status", "currentCPUUtilizationPercentage"], percentage);
    }
    let current: Vec<Value> = current.iter().map(current_to_v1).collect();
    annotate(&mut object, CURRENT_METRICS, &current.into());
    let conditions = take_list(&mut object, &["status", "conditions"]);
    annotate(&mut object, CONDITIONS, &conditions.into());
    for count in ["currentReplicas", "desiredReplicas"] {
        if is_zero(object.at(&["status", count])) {
            object.set_at(&["status", count], 0.into());
        }
    }
    object
}

/// Returns the metrics in the annotation of an `autoscaling/v1` object.
pub(super) fn annotated_metrics(object: &Value) -> Vec<Value> {
    annotated_list(object, METRICS)
}

/// Converts the object to `autoscaling/v2`.
pub(super) fn to_v2(mut object: Value) -> Value {
    object.set_at(&["apiVersion"], "autoscaling/v2".into());
    let mut metrics: Vec<Value> = annotated_metrics(&object).iter().map(metric_to_v2).collect();
    if let Some(percentage) = object.remove_at(&["spec", "targetCPUUtilizationPercentage"]) {
        metrics.push(cpu_metric(&percentage));
    }
    if metrics.is_empty() {
        // The default belongs to the conversion, so an apply that gives up the metrics still gets it.
        metrics.push(cpu_metric(&CPU_TARGET.into()));
    }
    object.set_at(&["spec", "metrics"], metrics.into());
    if let Some(behavior @ Value::Map(_)) = annotated(&object, BEHAVIOR).map(|found| with_lower_names(&found))
        && !is_zero(Some(&behavior))
    {
        object.set_at(&["spec", "behavior"], behavior);
        super::default_behavior(&mut object);
    }
    let current = current_metrics_to_v2(&mut object);
    object.set_at(
        &["status", "currentMetrics"],
        if current.is_empty() {
            Value::Null
        } else {
            current.into()
        },
    );
    let conditions = annotated_list(&object, CONDITIONS);
    if !conditions.is_empty() {
        object.set_at(&["status", "conditions"], conditions.into());
    }
    if is_zero(object.at(&["status", "currentReplicas"])) {
        object.remove_at(&["status", "currentReplicas"]);
    }
    drop_annotations(&mut object);
    object
}

/// Returns the current metrics of `v2`. A valid annotation has precedence over the CPU utilization.
fn current_metrics_to_v2(object: &mut Value) -> Vec<Value> {
    let percentage = object.remove_at(&["status", "currentCPUUtilizationPercentage"]);
    match (annotated(object, CURRENT_METRICS), percentage) {
        (Some(Value::List(current)), _) => current.iter().map(current_to_v2).collect(),
        (Some(Value::Null), _) | (_, None) => Vec::new(),
        (_, Some(percentage)) => {
            let mut metric = Value::empty_map();
            metric.set_at(&["type"], "Resource".into());
            metric.set_at(&["resource", "name"], "cpu".into());
            metric.set_at(&["resource", "current", "averageUtilization"], percentage);
            vec![metric]
        }
    }
}

/// Removes the annotations that hold fields in `v1`.
///
/// upstream: pkg/apis/autoscaling#DropRoundTripHorizontalPodAutoscalerAnnotations
pub(super) fn drop_annotations(object: &mut Value) {
    const PLACE: [&str; 2] = ["metadata", "annotations"];
    let Some(annotations) = object.at(&PLACE).and_then(Value::as_map) else {
        return;
    };
    if !ANNOTATIONS.iter().any(|name| annotations.contains_key(name)) {
        return;
    }
    for name in ANNOTATIONS {
        object.remove_at(&[PLACE[0], PLACE[1], name]);
    }
    if is_zero(object.at(&PLACE)) {
        object.remove_at(&PLACE);
    }
}

fn take_list(object: &mut Value, path: &[&str]) -> Vec<Value> {
    match object.remove_at(path) {
        Some(Value::List(list)) => list.to_vec(),
        _ => Vec::new(),
    }
}

fn annotate(object: &mut Value, annotation: &str, value: &Value) {
    if is_zero(Some(value)) {
        return;
    }
    let mut text = Vec::new();
    write_ordered(value, &mut text);
    if let Ok(text) = String::from_utf8(text) {
        object.set_at(&["metadata", "annotations", annotation], text.into());
    }
}

/// Writes a behavior into an annotation, with the Go field names of the reference and `null` for unset fields.
fn annotate_behavior(object: &mut Value, behavior: &Value) {
    const RULES: [&str; 4] = ["stabilizationWindowSeconds", "selectPolicy", "policies", "tolerance"];
    const POLICY: [&str; 3] = ["type", "value", "periodSeconds"];
    if is_zero(Some(behavior)) {
        return;
    }
    let mut text = String::new();
    write_named(behavior, &["scaleUp", "scaleDown"], &mut text, |_, rules, text| {
        write_named(rules, &RULES, text, |name, value, text| match (name, value) {
            ("policies", Value::List(policies)) => {
                text.push('[');
                for (at, policy) in policies.iter().enumerate() {
                    text.push_str(if at == 0 { "" } else { "," });
                    write_named(policy, &POLICY, text, |_, value, text| {
                        text.push_str(&json::to_string(value))
                    });
                }
                text.push(']');
            }
            _ => text.push_str(&json::to_string(value)),
        });
    });
    object.set_at(&["metadata", "annotations", BEHAVIOR], text.into());
}

/// Writes the fields `names` of a map, each with an uppercase first letter; `null` for a value that is not a map.
fn write_named(map: &Value, names: &[&str], text: &mut String, field: impl Fn(&str, &Value, &mut String)) {
    if map.as_map().is_none() {
        text.push_str("null");
        return;
    }
    for (at, name) in names.iter().enumerate() {
        text.push(if at == 0 { '{' } else { ',' });
        text.push('"');
        text.push_str(&name[..1].to_ascii_uppercase());
        text.push_str(&name[1..]);
        text.push_str("\":");
        match map.get(name) {
            Some(value) => field(name, value, text),
            None => text.push_str("null"),
        }
    }
    text.push('}');
}

/// Returns `value` with lowercase first letters of names and without `null` fields.
fn with_lower_names(value: &Value) -> Value {
    match value {
        Value::Map(map) => {
            let set = map.iter().filter(|(_, value)| !value.is_null());
            let lower = |key: &str| {
                let mut key = key.to_owned();
                if let Some(first) = key.get_mut(..1) {
                    first.make_ascii_lowercase();
                }
                key
            };
            let entries: Map = set
                .map(|(key, value)| (lower(key).into(), with_lower_names(value)))
                .collect();
            entries.into()
        }
        Value::List(list) => Value::List(list.iter().map(with_lower_names).collect()),
        other => other.clone(),
    }
}

/// Returns the parsed value of an annotation. An invalid one counts as missing, as in the reference.
fn annotated(object: &Value, annotation: &str) -> Option<Value> {
    let text = object.str_at(&["metadata", "annotations", annotation])?;
    json::parse(text.as_bytes(), &Limits::default()).ok()
}

fn annotated_list(object: &Value, annotation: &str) -> Vec<Value> {
    match annotated(object, annotation) {
        Some(Value::List(list)) => list.to_vec(),
        _ => Vec::new(),
    }
}

fn write_ordered(value: &Value, out: &mut Vec<u8>) {
    match value {
        Value::List(list) => {
            out.push(b'[');
            for (at, item) in list.iter().enumerate() {
                if at > 0 {
                    out.push(b',');
                }
                write_ordered(item, out);
            }
            out.push(b']');
        }
        Value::Map(map) => {
            let rank = |key: &str| {
                KEY_ORDER
                    .iter()
                    .position(|known| *known == key)
                    .unwrap_or(KEY_ORDER.len())
            };
            let mut entries: Vec<_> = map.iter().collect();
            entries.sort_by_key(|(key, _)| rank(key));
            out.push(b'{');
            for (at, (key, item)) in entries.into_iter().enumerate() {
                if at > 0 {
                    out.push(b',');
                }
                json::write_string(key, out);
                out.push(b':');
                write_ordered(item, out);
            }
            out.push(b'}');
        }
        other => json::write(other, out),
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn read(text: &str) -> Value {
        json::parse(text.as_bytes(), &Limits::default()).unwrap()
    }

    const V2: &str = r#"{"apiVersion":"autoscaling/v2","kind":"HorizontalPodAutoscaler","metadata":{"name":"a"},"spec":{
        "maxReplicas":3,"metrics":[
        {"type":"Pods","pods":{"metric":{"name":"rps","selector":{"matchLabels":{"a":"b"}}},"target":{"type":"AverageValue","averageValue":"1500m"}}},
        {"type":"Object","object":{"describedObject":{"kind":"Service","name":"s","apiVersion":"v1"},"metric":{"name":"q"},"target":{"type":"Value","value":"30"}}},
        {"type":"Resource","resource":{"name":"cpu","target":{"type":"Utilization","averageUtilization":60}}}]},
        "status":{"currentMetrics":null,"desiredReplicas":0}}"#;

    #[test]
    fn fields_missing_in_v1_become_annotations() {
        let v1 = to_v1(read(V2));
        assert_eq!(
            v1.at(&["spec", "targetCPUUtilizationPercentage"]),
            Some(&Value::Int(60))
        );
        assert_eq!(v1.at(&["spec", "metrics"]), None);
        assert_eq!(
            v1.str_at(&["metadata", "annotations", METRICS]).unwrap(),
            concat!(
                r#"[{"type":"Pods","pods":{"metricName":"rps","targetAverageValue":"1500m","selector":{"matchLabels":{"a":"b"}}}},"#,
                r#"{"type":"Object","object":{"target":{"kind":"Service","name":"s","apiVersion":"v1"},"metricName":"q","targetValue":"30"}}]"#
            )
        );
        assert_eq!(to_v2(v1), read(V2));
    }

    #[test]
    fn use_of_cpu_is_shown_in_both_versions() {
        let v1 = r#"{"apiVersion":"autoscaling/v1","metadata":{},"spec":{"targetCPUUtilizationPercentage":80},
            "status":{"currentReplicas":1,"desiredReplicas":2,"currentCPUUtilizationPercentage":42}}"#;
        let v2 = to_v2(read(v1));
        let current = v2.at(&["status", "currentMetrics"]).unwrap();
        assert_eq!(
            *current,
            read(r#"[{"type":"Resource","resource":{"name":"cpu","current":{"averageUtilization":42}}}]"#)
        );
        let back = to_v1(v2);
        assert_eq!(
            back.at(&["status", "currentCPUUtilizationPercentage"]),
            Some(&Value::Int(42))
        );
        assert_eq!(
            back.str_at(&["metadata", "annotations", CURRENT_METRICS]).unwrap(),
            r#"[{"type":"Resource","resource":{"name":"cpu","currentAverageUtilization":42,"currentAverageValue":"0"}}]"#
        );
    }

    #[test]
    fn a_behavior_is_written_with_the_names_of_the_reference() {
        let mut v2 = read(V2);
        let behavior =
            r#"{"scaleUp":{"selectPolicy":"Max","policies":[{"type":"Pods","value":4,"periodSeconds":15}]}}"#;
        v2.set_at(&["spec", "behavior"], read(behavior));
        let v1 = to_v1(v2.clone());
        assert_eq!(
            v1.str_at(&["metadata", "annotations", BEHAVIOR]).unwrap(),
            concat!(
                r#"{"ScaleUp":{"StabilizationWindowSeconds":null,"SelectPolicy":"Max","Policies":"#,
                r#"[{"Type":"Pods","Value":4,"PeriodSeconds":15}],"Tolerance":null},"ScaleDown":null}"#
            )
        );
        super::super::default_behavior(&mut v2);
        assert_eq!(to_v2(v1), v2, "what the annotation leaves out is completed");
    }

    #[test]
    fn v1_has_first_cpu_target_and_last_cpu_utilization() {
        let mut v2 = read(V2);
        let metric = |percentage: i64| cpu_metric(&percentage.into());
        v2.set_at(&["spec", "metrics"], vec![metric(3), metric(70)].into());
        let used = |percentage: i64| {
            read(&format!(
                r#"{{"type":"Resource","resource":{{"name":"cpu","current":{{"averageUtilization":{percentage}}}}}}}"#
            ))
        };
        v2.set_at(&["status", "currentMetrics"], vec![used(1), used(2)].into());
        let v1 = to_v1(v2);
        let at = |path: &[&str]| v1.at(path).and_then(Value::as_i64);
        assert_eq!(at(&["spec", "targetCPUUtilizationPercentage"]), Some(3));
        assert_eq!(at(&["status", "currentCPUUtilizationPercentage"]), Some(2));
    }

    #[test]
    fn an_average_of_an_object_has_no_value_beside_it() {
        let mut v1 = read(r#"{"apiVersion":"autoscaling/v1","metadata":{},"spec":{}}"#);
        let metrics = r#"[{"type":"Object","object":{"target":{"kind":"S","name":"s"},"metricName":"m","targetValue":"0","averageValue":"2"}}]"#;
        v1.set_at(&["metadata", "annotations", METRICS], metrics.into());
        let v2 = to_v2(v1);
        let target = v2
            .at(&["spec", "metrics"])
            .and_then(|metrics| metrics.as_list()?.first()?.at(&["object", "target"]));
        assert_eq!(target, Some(&read(r#"{"averageValue":"2","type":"AverageValue"}"#)));
    }

    #[test]
    fn no_client_sets_the_annotations_of_v1() {
        let mut v2 = read(V2);
        v2.set_at(&["metadata", "annotations", BEHAVIOR], "{}".into());
        drop_annotations(&mut v2);
        assert_eq!(v2, read(V2));
    }

    #[test]
    fn unreadable_annotations_are_passed_over() {
        let mut v1 = read(r#"{"apiVersion":"autoscaling/v1","metadata":{},"spec":{}}"#);
        v1.set_at(&["metadata", "annotations", METRICS], "[{".into());
        let default = cpu_metric(&CPU_TARGET.into());
        assert_eq!(to_v2(v1).at(&["spec", "metrics"]), Some(&vec![default].into()));
    }
}
