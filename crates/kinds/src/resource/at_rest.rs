//! ResourceClaims stored in v1beta1, where a request itself has the fields of `exactly`.

use holdfast_value::Value;

use super::versions::ask_exactly;

/// Converts a stored claim of any version to v1.
pub(super) fn claim(mut object: Value) -> Value {
    exactly(&mut object, &["spec", "devices", "requests"]);
    object
}

/// Converts a stored claim template of any version to v1.
pub(super) fn template(mut object: Value) -> Value {
    exactly(&mut object, &["spec", "spec", "devices", "requests"]);
    object
}

/// Moves the fields of requests to `exactly`, as in v1.
fn exactly(object: &mut Value, path: &[&str]) {
    if object.str_at(&["apiVersion"]) != Some("resource.k8s.io/v1beta1") {
        return;
    }
    let requests = object.at_mut(path).and_then(Value::as_list_mut);
    for request in requests.into_iter().flat_map(|requests| requests.make_mut()) {
        ask_exactly(request);
    }
}

#[cfg(test)]
mod tests {
    use holdfast_value::{Limits, json};

    use super::*;

    #[test]
    fn a_request_of_v1beta1_asks_exactly() {
        let kept = r#"{"apiVersion":"resource.k8s.io/v1beta1","spec":{"devices":{"requests":[{"count":1,"deviceClassName":"c","name":"a"},{"firstAvailable":[{"name":"x"}],"name":"b"}]}}}"#;
        let shown = r#"{"apiVersion":"resource.k8s.io/v1beta1","spec":{"devices":{"requests":[{"exactly":{"count":1,"deviceClassName":"c"},"name":"a"},{"firstAvailable":[{"name":"x"}],"name":"b"}]}}}"#;
        let read = claim(json::parse(kept.as_bytes(), &Limits::REQUEST).unwrap_or_default());
        assert_eq!(json::to_string(&read), shown);
    }
}
