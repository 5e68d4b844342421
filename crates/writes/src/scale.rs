//! The Scale of an object: a view of its number of replicas that can be written to
//! (<https://kubernetes.io/docs/reference/kubernetes-api/autoscaling-resources/scale-v1/>).

use holdfast_resource::selector::LabelSelector;
use holdfast_schema::ScaleFields;
use holdfast_value::{SmolStr, Value};

use crate::metadata;

pub(crate) const KIND: &str = "Scale";
const API_VERSION: &str = "autoscaling/v1";

/// Placeholder for missing replicas in the Scale of a custom resource during the write. No client may send it.
pub(crate) const UNSET: i64 = i32::MIN as i64;

/// The metadata of an object that its Scale shows.
const METADATA: [&str; 5] = ["creationTimestamp", "name", "namespace", "resourceVersion", "uid"];

/// Returns the Scale of `parent`.
pub fn from_parent(parent: &Value, fields: &ScaleFields) -> Value {
    let mut scale = Value::empty_map();
    scale.set_at(&["kind"], KIND.into());
    scale.set_at(&["apiVersion"], API_VERSION.into());
    scale.set_at(&["metadata"], Value::empty_map());
    for field in METADATA {
        metadata::take(&mut scale, parent, &["metadata", field]);
    }
    scale.set_at(&["spec"], Value::empty_map());
    let number = |path: &[SmolStr]| at(parent, path).and_then(Value::as_i64).unwrap_or_default();
    let wanted = number(&fields.spec_replicas);
    if wanted != 0 {
        scale.set_at(&["spec", "replicas"], Value::Int(wanted));
    }
    scale.set_at(&["status", "replicas"], Value::Int(number(&fields.status_replicas)));
    let selector = fields
        .selector
        .as_deref()
        .and_then(|path| at(parent, path))
        .map(selector_text);
    if let Some(text) = selector.filter(|text| !text.is_empty()) {
        scale.set_at(&["status", "selector"], text.into());
    }
    scale
}

/// Returns the text of a selector that is a string, a map of labels, or a label selector.
fn selector_text(selector: &Value) -> String {
    match selector {
        Value::String(text) => text.to_string(),
        Value::Map(map) if map.contains_key("matchLabels") || map.contains_key("matchExpressions") => {
            LabelSelector::from_object(selector).to_string()
        }
        labels => LabelSelector::from_labels(labels).to_string(),
    }
}

/// Returns the node at a path of object fields.
pub(crate) fn at<'a>(object: &'a Value, path: &[SmolStr]) -> Option<&'a Value> {
    path.iter().try_fold(object, |node, key| node.get(key))
}

#[cfg(test)]
mod tests {
    use holdfast_value::{Limits, json};

    use super::*;

    #[test]
    fn a_scale_shows_identity_numbers_and_selector() {
        let text = r#"{"metadata":{"name":"a","uid":"u","labels":{"x":"y"}},"spec":{"replicas":2,
            "selector":{"matchLabels":{"app":"a"}}},"status":{}}"#;
        let parent = json::parse(text.as_bytes(), &Limits::TRUSTED).unwrap();
        let path = |names: [&'static str; 2]| names.map(SmolStr::new_static).to_vec();
        let fields = ScaleFields {
            spec_replicas: path(["spec", "replicas"]),
            status_replicas: path(["status", "replicas"]),
            selector: Some(path(["spec", "selector"])),
        };
        assert_eq!(
            json::to_string(&from_parent(&parent, &fields)),
            r#"{"apiVersion":"autoscaling/v1","kind":"Scale","metadata":{"name":"a","uid":"u"},"spec":{"replicas":2},"status":{"replicas":0,"selector":"app=a"}}"#
        );
    }
}
