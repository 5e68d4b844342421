//! Proxy to a Service, up to the point where the reference would contact an endpoint.

use holdfast_resource::{ConnectParameter, Connecter, Connection, Refusal, WriteContext};
use holdfast_schema::Field;
use holdfast_value::Value;

use super::super::{of_core, proxied_name, proxy_parameters};

/// Proxy to a Service.
pub(crate) struct Proxy;

impl Connecter for Proxy {
    fn parameters(&self) -> &'static [ConnectParameter] {
        const { &proxy_parameters("The path to ask the service for.") }
    }

    fn connect(&self, context: &WriteContext<'_>, _options: &Value) -> Connection {
        Connection::Refused(unreached(context))
    }
}

/// Returns the error of a proxy that cannot reach the endpoints of a service.
///
/// upstream: pkg/registry/core/service/storage#REST.ResourceLocation
fn unreached(context: &WriteContext<'_>) -> Refusal {
    let (_, name, port) = proxied_name(context.name);
    let missing = || Refusal::NotFound {
        resource: of_core("services"),
        name: name.to_owned(),
    };
    let Some(service) = context.lookup.get(&of_core("services"), context.namespace, name) else {
        return missing();
    };
    let root = Field::root(&service);
    let spec = root.child("spec");
    if let Ok(number) = port.parse::<i64>() {
        let ports = spec.child("ports");
        if !ports.items().any(|known| known.child("port").number() == Some(number)) {
            return Refusal::Unavailable(format!("no service port {number} found for service {name:?}"));
        }
    }
    // The reference reports a Service without Endpoints as missing.
    let Some(endpoints) = context.lookup.get(&of_core("endpoints"), context.namespace, name) else {
        return missing();
    };
    if Field::root(&endpoints).child("subsets").is_empty() {
        return Refusal::Unavailable(format!("no endpoints available for service {name:?}"));
    }
    Refusal::Unavailable(format!("error trying to reach service: {name:?} cannot be reached"))
}
