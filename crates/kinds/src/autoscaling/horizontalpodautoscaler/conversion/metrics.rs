//! Metrics in `v1` and `v2`, which have the same fields in different places.

use holdfast_value::{Map, Value};

/// Fields that both versions have in different places: type of metric, path in `v2`, name in `v1`, and the `v1` value
/// if `v2` omits the field.
type Moves = &'static [(
    &'static str,
    &'static [&'static str],
    &'static str,
    Option<&'static str>,
)];

const TARGETS: Moves = &[
    ("resource", &["name"], "name", None),
    (
        "resource",
        &["target", "averageUtilization"],
        "targetAverageUtilization",
        None,
    ),
    ("resource", &["target", "averageValue"], "targetAverageValue", None),
    ("containerResource", &["name"], "name", None),
    ("containerResource", &["container"], "container", None),
    (
        "containerResource",
        &["target", "averageUtilization"],
        "targetAverageUtilization",
        None,
    ),
    (
        "containerResource",
        &["target", "averageValue"],
        "targetAverageValue",
        None,
    ),
    ("pods", &["metric", "name"], "metricName", None),
    ("pods", &["metric", "selector"], "selector", None),
    ("pods", &["target", "averageValue"], "targetAverageValue", Some("0")),
    ("object", &["describedObject"], "target", None),
    ("object", &["metric", "name"], "metricName", None),
    ("object", &["metric", "selector"], "selector", None),
    ("object", &["target", "value"], "targetValue", Some("0")),
    ("object", &["target", "averageValue"], "averageValue", None),
    ("external", &["metric", "name"], "metricName", None),
    ("external", &["metric", "selector"], "metricSelector", None),
    ("external", &["target", "value"], "targetValue", None),
    ("external", &["target", "averageValue"], "targetAverageValue", None),
];

const CURRENTS: Moves = &[
    ("resource", &["name"], "name", None),
    (
        "resource",
        &["current", "averageUtilization"],
        "currentAverageUtilization",
        None,
    ),
    (
        "resource",
        &["current", "averageValue"],
        "currentAverageValue",
        Some("0"),
    ),
    ("containerResource", &["name"], "name", None),
    ("containerResource", &["container"], "container", None),
    (
        "containerResource",
        &["current", "averageUtilization"],
        "currentAverageUtilization",
        None,
    ),
    (
        "containerResource",
        &["current", "averageValue"],
        "currentAverageValue",
        Some("0"),
    ),
    ("pods", &["metric", "name"], "metricName", None),
    ("pods", &["metric", "selector"], "selector", None),
    ("pods", &["current", "averageValue"], "currentAverageValue", Some("0")),
    ("object", &["describedObject"], "target", None),
    ("object", &["metric", "name"], "metricName", None),
    ("object", &["metric", "selector"], "selector", None),
    ("object", &["current", "value"], "currentValue", Some("0")),
    ("object", &["current", "averageValue"], "averageValue", None),
    ("external", &["metric", "name"], "metricName", None),
    ("external", &["metric", "selector"], "metricSelector", None),
    ("external", &["current", "value"], "currentValue", Some("0")),
    ("external", &["current", "averageValue"], "currentAverageValue", None),
];

pub(super) fn metric_to_v1(metric: &Value) -> Value {
    move_to_v1(metric, TARGETS)
}

pub(super) fn current_to_v1(metric: &Value) -> Value {
    move_to_v1(metric, CURRENTS)
}

fn move_to_v1(metric: &Value, moves: Moves) -> Value {
    let mut moved = sort_alone(metric);
    for (metric_type, place, name, unset) in moves {
        let Some(source) = metric.get(metric_type).filter(|source| !source.is_null()) else {
            continue;
        };
        match (source.at(place), unset) {
            (Some(value), _) => moved.set_at(&[metric_type, name], value.clone()),
            (None, Some(unset)) => moved.set_at(&[metric_type, name], (*unset).into()),
            (None, None) => {}
        }
    }
    moved
}

pub(super) fn metric_to_v2(metric: &Value) -> Value {
    let mut moved = move_to_v2(metric, TARGETS);
    // `v1` has no target type. The fields that are set imply it.
    for (metric_type, decisive, with, without) in [
        ("resource", "averageUtilization", "Utilization", "AverageValue"),
        ("containerResource", "averageUtilization", "Utilization", "AverageValue"),
        ("pods", "averageValue", "AverageValue", "AverageValue"),
        ("object", "averageValue", "AverageValue", "Value"),
        ("external", "value", "Value", "AverageValue"),
    ] {
        if moved.at(&[metric_type]).is_some_and(|source| !source.is_null()) {
            let set = moved.at(&[metric_type, "target", decisive]).is_some();
            let target_type = if set { with } else { without };
            moved.set_at(&[metric_type, "target", "type"], target_type.into());
        }
    }
    // `v1` cannot omit the value of an object metric, and `v2` must not have it together with an average.
    let target = ["object", "target"];
    if moved.str_at(&[target[0], target[1], "type"]) == Some("AverageValue")
        && moved.str_at(&[target[0], target[1], "value"]) == Some("0")
    {
        moved.remove_at(&[target[0], target[1], "value"]);
    }
    moved
}

pub(super) fn current_to_v2(metric: &Value) -> Value {
    move_to_v2(metric, CURRENTS)
}

fn move_to_v2(metric: &Value, moves: Moves) -> Value {
    let mut moved = sort_alone(metric);
    for (metric_type, place, name, unset) in moves {
        let Some(source) = metric.get(metric_type).filter(|source| !source.is_null()) else {
            continue;
        };
        let set = source.get(name).filter(|value| !value.is_null()).cloned();
        // Amounts that `v1` cannot omit are set even if the annotation has none.
        if let Some(value) = set.or_else(|| unset.map(Value::from)) {
            let mut path = vec![*metric_type];
            path.extend_from_slice(place);
            moved.set_at(&path, value);
        }
    }
    moved
}

fn sort_alone(metric: &Value) -> Value {
    let mut moved = Map::new();
    moved.insert("type", metric.get("type").cloned().unwrap_or_default());
    moved.into()
}
