//! Table cells of HorizontalPodAutoscalers.

use holdfast_resource::table::{NamedCell, items, scalar_text};
use holdfast_value::Value;

/// Table cells that are not just the value at a path.
pub(in crate::autoscaling) const CELLS: &[NamedCell] =
    &[("autoscaler-targets", |object, _| autoscaler_targets(object))];

/// Returns current and target values of the first two metrics, and the number of further ones.
fn autoscaler_targets(autoscaler: &Value) -> Value {
    let (metrics, current) = (
        items(autoscaler, &["spec", "metrics"]),
        items(autoscaler, &["status", "currentMetrics"]),
    );
    if metrics.is_empty() {
        return "<none>".into();
    }
    let texts = metrics
        .iter()
        .enumerate()
        .map(|(at, metric)| autoscaler_target(metric, current.get(at)));
    let mut text = texts.take(2).collect::<Vec<_>>().join(", ");
    if metrics.len() > 2 {
        text.push_str(&format!(" + {} more...", metrics.len() - 2));
    }
    text.into()
}

fn autoscaler_target(metric: &Value, current: Option<&Value>) -> String {
    // The field of the source is named after the type.
    let metric_type = metric.str_at(&["type"]).unwrap_or_default();
    let mut letters = metric_type.chars();
    let field: String = letters
        .next()
        .map(|first| first.to_ascii_lowercase())
        .into_iter()
        .chain(letters)
        .collect();
    let by_resource = matches!(metric_type, "Resource" | "ContainerResource");
    let target = metric.at(&[field.as_str(), "target"]).unwrap_or(&Value::Null);
    let now = current
        .and_then(|current| current.at(&[field.as_str(), "current"]))
        .unwrap_or(&Value::Null);
    let text = |value: &Value, name: &str| value.get(name).map(scalar_text).filter(|text| !text.is_empty());
    let unknown = || "<unknown>".to_owned();
    if by_resource {
        let name = metric.str_at(&[field.as_str(), "name"]).unwrap_or_default();
        return match text(target, "averageValue") {
            Some(average) => format!(
                "{name}: {}/{average}",
                text(now, "averageValue").unwrap_or_else(unknown)
            ),
            None => {
                let percent = |value: &Value| text(value, "averageUtilization").map(|number| format!("{number}%"));
                let wanted = percent(target).unwrap_or_else(|| "<auto>".to_owned());
                format!("{name}: {}/{wanted}", percent(now).unwrap_or_else(unknown))
            }
        };
    }
    match text(target, "averageValue") {
        Some(average) => {
            let of_average = if metric_type == "Pods" { "" } else { " (avg)" };
            format!(
                "{}/{average}{of_average}",
                text(now, "averageValue").unwrap_or_else(unknown)
            )
        }
        None => {
            let wanted = text(target, "value").unwrap_or_default();
            format!("{}/{wanted}", text(now, "value").unwrap_or_else(unknown))
        }
    }
}
