//! Ingresses stored in v1beta1, whose backends are services with name and port.

use holdfast_value::{Map, Value};

use crate::defaults::is_zero;

/// Converts a stored Ingress of any version to v1.
pub(super) fn ingress(mut object: Value) -> Value {
    let is_current = object.str_at(&["apiVersion"]) == Some("networking.k8s.io/v1");
    let Some(spec) = object.at_mut(&["spec"]).filter(|_| !is_current) else {
        return object;
    };
    if let Some(mut backend) = spec.remove_at(&["backend"]) {
        name_service(&mut backend);
        spec.set_at(&["defaultBackend"], backend);
    }
    let rules = spec.at_mut(&["rules"]).and_then(Value::as_list_mut);
    for rule in rules.into_iter().flat_map(|rules| rules.make_mut()) {
        let paths = rule.at_mut(&["http", "paths"]).and_then(Value::as_list_mut);
        for path in paths.into_iter().flat_map(|paths| paths.make_mut()) {
            if let Some(backend) = path.at_mut(&["backend"]) {
                name_service(backend);
            }
            if path.get("pathType").is_none() {
                path.set_at(&["pathType"], "ImplementationSpecific".into());
            }
        }
    }
    object
}

/// Moves name and port of a service to their fields in v1.
fn name_service(backend: &mut Value) {
    let name = backend.remove_at(&["serviceName"]);
    let port = backend.remove_at(&["servicePort"]);
    if is_zero(name.as_ref()) && matches!(port, None | Some(Value::Null | Value::Int(0))) {
        return;
    }
    let mut by = Map::new();
    match port {
        Some(Value::String(name)) if !name.is_empty() => drop(by.insert("name", name)),
        Some(Value::Int(number)) if number != 0 => drop(by.insert("number", number)),
        _ => {}
    }
    backend.set_at(&["service", "name"], name.unwrap_or_else(|| "".into()));
    backend.set_at(&["service", "port"], by.into());
}

#[cfg(test)]
mod tests {
    use holdfast_value::{Limits, json};

    use super::*;

    #[test]
    fn backends_of_v1beta1_are_services_by_name_and_port() {
        let old = r#"{"apiVersion":"extensions/v1beta1","spec":{"backend":{"serviceName":"a","servicePort":80},"rules":[{"http":{"paths":[{"backend":{"serviceName":"b","servicePort":"http"}}]}}]}}"#;
        let new = r#"{"apiVersion":"extensions/v1beta1","spec":{"defaultBackend":{"service":{"name":"a","port":{"number":80}}},"rules":[{"http":{"paths":[{"backend":{"service":{"name":"b","port":{"name":"http"}}},"pathType":"ImplementationSpecific"}]}}]}}"#;
        let read = ingress(json::parse(old.as_bytes(), &Limits::REQUEST).unwrap_or_default());
        assert_eq!(json::to_string(&read), new);
    }
}
