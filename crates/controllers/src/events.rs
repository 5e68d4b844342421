//! Events that report problems of objects (<https://kubernetes.io/docs/reference/kubernetes-api/cluster-resources/event-v1/>).

use holdfast_server::operations::loopback::Client;
use holdfast_value::Value;

/// A warning about an object.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Warning<'a> {
    /// The object.
    pub(crate) object: &'a Value,
    pub(crate) reason: &'a str,
    pub(crate) message: &'a str,
    /// Name of the controller.
    pub(crate) component: &'a str,
}

impl Warning<'_> {
    /// Sends the event. It is informational; nothing waits for it.
    pub(crate) async fn send(self, client: &Client) {
        let event = self.event(&client.now());
        let namespace = event.str_at(&["metadata", "namespace"]).unwrap_or_default();
        let path = format!("/api/v1/namespaces/{namespace}/events");
        if let Err(error) = client.create(&path, &event).await {
            tracing::debug!(%error, "an event was lost");
        }
    }

    /// Returns the event. Events about cluster-scoped objects are in the namespace `default`.
    fn event(self, now: &str) -> Value {
        let of_object = |keys: &[&str]| self.object.str_at(keys).unwrap_or_default();
        let (name, namespace) = (of_object(&["metadata", "name"]), of_object(&["metadata", "namespace"]));
        let place = if namespace.is_empty() { "default" } else { namespace };
        let mut event = Value::empty_map();
        for (path, value) in [
            (&["apiVersion"][..], "v1"),
            (&["kind"], "Event"),
            (&["metadata", "namespace"], place),
            (&["metadata", "generateName"], &format!("{name}.")),
            (&["involvedObject", "apiVersion"], of_object(&["apiVersion"])),
            (&["involvedObject", "kind"], of_object(&["kind"])),
            (&["involvedObject", "namespace"], namespace),
            (&["involvedObject", "name"], name),
            (&["involvedObject", "uid"], of_object(&["metadata", "uid"])),
            (&["type"], "Warning"),
            (&["reason"], self.reason),
            (&["message"], self.message),
            (&["source", "component"], self.component),
            (&["firstTimestamp"], now),
            (&["lastTimestamp"], now),
        ] {
            event.set_at(path, value.into());
        }
        event.set_at(&["count"], Value::Int(1));
        event
    }
}
