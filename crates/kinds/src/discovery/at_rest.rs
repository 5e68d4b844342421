//! EndpointSlices stored in v1beta1, where the topology of an endpoint is in labels.

use holdfast_value::Value;

const ZONE: &str = "topology.kubernetes.io/zone";
const NODE: &str = "kubernetes.io/hostname";

/// Converts a stored EndpointSlice of any version to v1.
pub(super) fn endpointslice(mut object: Value) -> Value {
    let is_current = object.str_at(&["apiVersion"]) == Some("discovery.k8s.io/v1");
    let endpoints = object.at_mut(&["endpoints"]).filter(|_| !is_current);
    for endpoint in endpoints
        .and_then(Value::as_list_mut)
        .into_iter()
        .flat_map(|list| list.make_mut())
    {
        place(endpoint);
    }
    object
}

fn place(endpoint: &mut Value) {
    let Some(mut topology) = endpoint.remove_at(&["topology"]) else {
        return;
    };
    if let Some(zone) = topology.remove_at(&[ZONE]) {
        endpoint.set_at(&["zone"], zone);
    }
    if let Some(node) = topology.get(NODE).cloned() {
        match endpoint.get("nodeName") {
            None => endpoint.set_at(&["nodeName"], node),
            // A hostname label that differs from `nodeName` stays in the deprecated topology.
            Some(known) if *known != node => return endpoint.set_at(&["deprecatedTopology"], topology),
            Some(_) => {}
        }
        topology.remove_at(&[NODE]);
    }
    if topology.as_map().is_some_and(|labels| !labels.is_empty()) {
        endpoint.set_at(&["deprecatedTopology"], topology);
    }
}

#[cfg(test)]
mod tests {
    use holdfast_value::{Limits, json};

    use super::*;

    #[test]
    fn zone_and_node_are_taken_from_the_labels_of_an_endpoint() {
        for (old, new) in [
            (
                r#"{"topology":{"kubernetes.io/hostname":"n","topology.kubernetes.io/zone":"z"}}"#,
                r#"{"nodeName":"n","zone":"z"}"#,
            ),
            (
                r#"{"nodeName":"m","topology":{"kubernetes.io/hostname":"n","x":"y"}}"#,
                r#"{"deprecatedTopology":{"kubernetes.io/hostname":"n","x":"y"},"nodeName":"m"}"#,
            ),
            ("{}", "{}"),
        ] {
            let mut endpoint = json::parse(old.as_bytes(), &Limits::REQUEST).unwrap_or_default();
            place(&mut endpoint);
            assert_eq!(json::to_string(&endpoint), new);
        }
    }
}
