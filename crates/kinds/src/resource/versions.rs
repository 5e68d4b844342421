//! Conversion between `resource.k8s.io/v1beta1` and the later versions. In v1beta1, a request itself has the fields of
//! `exactly`, and a device has its fields in `basic`. The later versions differ only in their names.

use holdfast_value::{Map, Value};

use crate::defaults::{change_items, is_zero};
use crate::versions::{Reshape, Versions};

const V1BETA1: &str = "resource.k8s.io/v1beta1";

const SERVED: [&str; 3] = ["resource.k8s.io/v1", "resource.k8s.io/v1beta2", V1BETA1];

/// Fields of a v1beta1 request other than its name and its alternatives.
const OF_REQUEST: [&str; 7] = [
    "deviceClassName",
    "selectors",
    "allocationMode",
    "count",
    "adminAccess",
    "tolerations",
    "capacity",
];

pub(super) const CLASSES: Versions = Versions::alike(&SERVED);
pub(super) const CLAIMS: Versions = reshaped(|object, from, to| {
    reshape_requests(object, &["spec", "devices"], from, to);
});
pub(super) const TEMPLATES: Versions = reshaped(|object, from, to| {
    reshape_requests(object, &["spec", "spec", "devices"], from, to);
});
pub(super) const SLICES: Versions = reshaped(|object, from, to| {
    let Some(spec) = object.at_mut(&["spec"]) else { return };
    match (from, to) {
        (V1BETA1, _) => change_items(spec, "devices", is_map, take_out),
        (_, V1BETA1) => change_items(spec, "devices", is_map, put_in),
        _ => return,
    }
    // Only one of the two versions distinguishes unset from empty.
    for name in ["nodeName", "allNodes"] {
        if is_zero(spec.get(name)) {
            spec.remove_at(&[name]);
        }
    }
});
pub(super) const TAINT_RULES: Versions = Versions::alike(&["resource.k8s.io/v1alpha3", "resource.k8s.io/v1beta2"]);

const fn reshaped(reshape: Reshape) -> Versions {
    Versions {
        known: &SERVED,
        reshape,
    }
}

fn is_map(value: &Value) -> bool {
    value.as_map().is_some()
}

/// Moves the fields of requests from their place in one version to that in the other.
fn reshape_requests(object: &mut Value, path: &[&str], from: &str, to: &str) {
    let Some(devices) = object.at_mut(path) else { return };
    match (from, to) {
        (V1BETA1, _) => change_items(devices, "requests", is_map, ask_exactly),
        (_, V1BETA1) => change_items(devices, "requests", is_map, ask_plainly),
        _ => {}
    }
}

/// Moves the fields of a v1beta1 request to `exactly`, as in later versions.
pub(super) fn ask_exactly(request: &mut Value) {
    let mut exactly = Map::new();
    for name in OF_REQUEST {
        if let Some(value) = request.remove_at(&[name]) {
            exactly.insert(name, value);
        }
    }
    if exactly.iter().any(|(name, value)| is_given(name, value)) {
        if exactly.get("deviceClassName").is_none() {
            exactly.insert("deviceClassName", "");
        }
        request.set_at(&["exactly"], exactly.into());
    }
}

/// Returns true if the request has the field `name`.
fn is_given(name: &str, value: &Value) -> bool {
    match name {
        "deviceClassName" | "allocationMode" | "count" => !is_zero(Some(value)),
        _ => !value.is_null(),
    }
}

fn ask_plainly(request: &mut Value) {
    if let Some(Value::Map(exactly)) = request.remove_at(&["exactly"]) {
        for (name, value) in exactly.iter().filter(|(name, value)| is_given(name, value)) {
            request.set_at(&[name.as_str()], value.clone());
        }
    }
    // In v1beta1 the field is always present.
    if request.get("deviceClassName").is_none() {
        request.set_at(&["deviceClassName"], "".into());
    }
}

/// Moves the fields of a v1beta1 device out of `basic`.
fn take_out(device: &mut Value) {
    let Some(Value::Map(basic)) = device.remove_at(&["basic"]) else {
        return;
    };
    for (name, value) in basic.iter().filter(|(name, _)| *name != "name") {
        device.set_at(&[name.as_str()], value.clone());
    }
}

fn put_in(device: &mut Value) {
    let mut basic = device.as_map().cloned().unwrap_or_default();
    let mut named = Map::new();
    if let Some(name) = basic.remove("name") {
        named.insert("name", name);
    }
    named.insert("basic", Value::Map(basic));
    *device = named.into();
}

#[cfg(test)]
mod tests {
    use holdfast_resource::Converts as _;
    use holdfast_value::{Limits, json};

    use super::*;

    fn convert(versions: &Versions, from: &str, text: &str, to: &str) -> String {
        let mut object = json::parse(text.as_bytes(), &Limits::REQUEST).unwrap_or_default();
        object.set_at(&["apiVersion"], from.into());
        let mut converted = versions.convert(object, to).unwrap_or_default();
        converted.remove_at(&["apiVersion"]);
        json::to_string(&converted)
    }

    #[test]
    fn requests_move_and_come_back() {
        let old = r#"{"spec":{"devices":{"requests":[{"count":1,"deviceClassName":"c","name":"a"},{"deviceClassName":"","firstAvailable":[{"name":"x"}],"name":"b"}]}}}"#;
        let new = r#"{"spec":{"devices":{"requests":[{"exactly":{"count":1,"deviceClassName":"c"},"name":"a"},{"firstAvailable":[{"name":"x"}],"name":"b"}]}}}"#;
        assert_eq!(convert(&CLAIMS, V1BETA1, old, "resource.k8s.io/v1"), new);
        assert_eq!(convert(&CLAIMS, "resource.k8s.io/v1", new, V1BETA1), old);
        assert_eq!(
            convert(&CLAIMS, "resource.k8s.io/v1beta2", new, "resource.k8s.io/v1"),
            new
        );
    }

    #[test]
    fn devices_move_and_come_back() {
        let old = r#"{"spec":{"devices":[{"basic":{"attributes":{"a":{"int":1}}},"name":"d"},{"basic":{},"name":"e"}],"nodeName":"n"}}"#;
        let new = r#"{"spec":{"devices":[{"attributes":{"a":{"int":1}},"name":"d"},{"name":"e"}],"nodeName":"n"}}"#;
        assert_eq!(convert(&SLICES, V1BETA1, old, "resource.k8s.io/v1"), new);
        assert_eq!(convert(&SLICES, "resource.k8s.io/v1", new, V1BETA1), old);
        let unset = r#"{"spec":{"allNodes":false,"nodeName":""}}"#;
        assert_eq!(convert(&SLICES, "resource.k8s.io/v1", unset, V1BETA1), r#"{"spec":{}}"#);
    }

    #[test]
    fn versions_that_the_kind_lacks_are_refused() {
        let object = |version: &str| {
            let mut object = Value::empty_map();
            object.set_at(&["apiVersion"], version.into());
            object
        };
        assert!(
            CLAIMS
                .convert(object("resource.k8s.io/v1"), "resource.k8s.io/v1alpha3")
                .is_err()
        );
        assert!(CLAIMS.convert(object("apps/v1"), "resource.k8s.io/v1").is_err());
    }
}
