//! Workloads stored in older versions, whose former fields are annotations now.

use holdfast_value::Value;

use super::daemonset::TEMPLATE_GENERATION;

const ROLLBACK_TO: &str = "deprecated.deployment.rollback.to";
const CURRENT: &str = "apps/v1";

/// Converts a stored DaemonSet of any version to v1.
pub(super) fn daemonset(mut object: Value) -> Value {
    if object.str_at(&["apiVersion"]) == Some("extensions/v1beta1") {
        let generation = object
            .remove_at(&["spec", "templateGeneration"])
            .as_ref()
            .and_then(Value::as_i64)
            .unwrap_or_default();
        let annotation = ["metadata", "annotations", TEMPLATE_GENERATION];
        object.set_at(&annotation, generation.to_string().into());
    }
    with_selector(object)
}

/// Converts a stored Deployment of any version to v1.
pub(super) fn deployment(mut object: Value) -> Value {
    if let Some(rollback) = object.remove_at(&["spec", "rollbackTo"]) {
        let revision = rollback.get("revision").and_then(Value::as_i64).unwrap_or_default();
        object.set_at(&["metadata", "annotations", ROLLBACK_TO], revision.to_string().into());
    }
    with_selector(object)
}

/// Converts a stored workload of any version to v1: a missing selector becomes the labels of the template.
pub(super) fn with_selector(mut object: Value) -> Value {
    let is_current = object.str_at(&["apiVersion"]) == Some(CURRENT);
    if is_current
        || object
            .at(&["spec", "selector"])
            .is_some_and(|selector| !selector.is_null())
    {
        return object;
    }
    if let Some(labels) = object.at(&["spec", "template", "metadata", "labels"]).cloned() {
        object.set_at(&["spec", "selector", "matchLabels"], labels);
    }
    object
}

#[cfg(test)]
mod tests {
    use holdfast_value::{Limits, json};

    use super::*;

    fn read(by: fn(Value) -> Value, kept: &str) -> String {
        json::to_string(&by(json::parse(kept.as_bytes(), &Limits::REQUEST).unwrap_or_default()))
    }

    #[test]
    fn fields_of_older_versions_become_annotations() {
        let kept = r#"{"apiVersion":"extensions/v1beta1","metadata":{},"spec":{"selector":{},"templateGeneration":3}}"#;
        let shown = r#"{"apiVersion":"extensions/v1beta1","metadata":{"annotations":{"deprecated.daemonset.template.generation":"3"}},"spec":{"selector":{}}}"#;
        assert_eq!(read(daemonset, kept), shown);
        let kept = r#"{"apiVersion":"apps/v1beta1","metadata":{},"spec":{"rollbackTo":{"revision":2},"selector":{}}}"#;
        let shown = r#"{"apiVersion":"apps/v1beta1","metadata":{"annotations":{"deprecated.deployment.rollback.to":"2"}},"spec":{"selector":{}}}"#;
        assert_eq!(read(deployment, kept), shown);
    }

    #[test]
    fn missing_selector_becomes_the_template_labels() {
        let kept = r#"{"apiVersion":"extensions/v1beta1","spec":{"template":{"metadata":{"labels":{"a":"b"}}}}}"#;
        let shown = r#"{"apiVersion":"extensions/v1beta1","spec":{"selector":{"matchLabels":{"a":"b"}},"template":{"metadata":{"labels":{"a":"b"}}}}}"#;
        assert_eq!(read(with_selector, kept), shown);
    }
}
