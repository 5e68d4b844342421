//! PodDisruptionBudgets stored in v1beta1, where an empty selector selects nothing.

use holdfast_value::{Limits, Value, json};

/// Selector that selects everything in v1beta1.
const EVERYTHING: &[u8] = br#"{"matchExpressions":[{"key":"pdb.kubernetes.io/deprecated-v1beta1-empty-selector-match","operator":"DoesNotExist"}]}"#;
/// Selector that selects nothing in all other versions.
const NOTHING: &[u8] =
    br#"{"matchExpressions":[{"key":"pdb.kubernetes.io/deprecated-v1beta1-empty-selector-match","operator":"Exists"}]}"#;

/// Converts a stored PodDisruptionBudget of any version to v1.
pub(super) fn poddisruptionbudget(mut object: Value) -> Value {
    if object.str_at(&["apiVersion"]) != Some("policy/v1beta1") {
        return object;
    }
    let selector = |text: &[u8]| json::parse(text, &Limits::REQUEST).unwrap_or_default();
    let read = match object.at(&["spec", "selector"]) {
        Some(Value::Map(labels)) if labels.is_empty() => selector(NOTHING),
        Some(found) if *found == selector(EVERYTHING) => Value::empty_map(),
        _ => return object,
    };
    object.set_at(&["spec", "selector"], read);
    object
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_empty_selector_of_v1beta1_selects_nothing() {
        for (version, kept, read) in [
            ("policy/v1beta1", &b"{}"[..], NOTHING),
            ("policy/v1beta1", EVERYTHING, b"{}"),
            ("policy/v1", b"{}", b"{}"),
        ] {
            let mut object = Value::empty_map();
            object.set_at(&["apiVersion"], version.into());
            let selector = json::parse(kept, &Limits::REQUEST).unwrap_or_default();
            object.set_at(&["spec", "selector"], selector);
            let converted = poddisruptionbudget(object);
            let found = converted.at(&["spec", "selector"]).map(json::to_string);
            assert_eq!(found.unwrap_or_default().as_bytes(), read);
        }
    }
}
