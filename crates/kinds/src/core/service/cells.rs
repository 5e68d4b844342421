//! Cells of Services in tables.

use holdfast_resource::table::{NamedCell, items, scalar_text};
use holdfast_value::Value;

use crate::cells::ingress_addresses;

/// Table cells that show more than the value at one path.
pub(in crate::core) const CELLS: &[NamedCell] = &[
    ("service-external-ip", |object, _| service_external_ip(object)),
    ("service-ports", |object, _| service_ports(object)),
];

fn service_external_ip(service: &Value) -> Value {
    let mut external: Vec<String> = items(service, &["spec", "externalIPs"])
        .iter()
        .map(scalar_text)
        .collect();
    let (text, missing) = match service.str_at(&["spec", "type"]).unwrap_or_default() {
        "ExternalName" => (
            service.str_at(&["spec", "externalName"]).unwrap_or_default().to_owned(),
            "",
        ),
        "LoadBalancer" => {
            let mut all = ingress_addresses(service);
            all.append(&mut external);
            (all.join(","), "<pending>")
        }
        _ => (external.join(","), "<none>"),
    };
    if text.is_empty() { missing.into() } else { text.into() }
}

fn service_ports(service: &Value) -> Value {
    let ports = items(service, &["spec", "ports"]).iter().map(|port| {
        let number = |field| port.get(field).and_then(Value::as_i64).unwrap_or_default();
        let protocol = port.str_at(&["protocol"]).unwrap_or("TCP");
        match number("nodePort") {
            0 => format!("{}/{protocol}", number("port")),
            node_port => format!("{}:{node_port}/{protocol}", number("port")),
        }
    });
    let text = ports.collect::<Vec<_>>().join(",");
    if text.is_empty() { "<none>".into() } else { text.into() }
}
