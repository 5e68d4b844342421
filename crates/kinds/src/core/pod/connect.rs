//! Logs, commands and proxies of Pods, as far as they come where no node is behind the server.

use holdfast_resource::{Connection, Field, Parameter, Refusal, WriteContext};
use holdfast_value::Value;

use super::super::{of_core, proxied_name};

/// The subresources that lead on to the node of a Pod.
pub(super) const LEAD_ON: [&str; 5] = ["attach", "exec", "log", "portforward", "proxy"];

/// How far a request comes.
pub(super) fn connect(context: &WriteContext<'_>, parameter: &Parameter<'_>) -> Connection {
    answer(context, parameter).unwrap_or_else(Connection::Refused)
}

fn answer(context: &WriteContext<'_>, parameter: &Parameter<'_>) -> Result<Connection, Refusal> {
    let subresource = context.subresource.unwrap_or_default();
    let proxied = subresource == "proxy";
    let name = if proxied {
        proxied_name(context.name).1
    } else {
        context.name
    };
    let missing = |resource: &'static str, name: &str| Refusal::NotFound {
        resource: of_core(resource),
        name: name.to_owned(),
    };
    let pod = context.lookup.get(&of_core("pods"), context.namespace, name);
    let pod = pod.ok_or_else(|| missing("pods", name))?;
    if proxied {
        return Err(match pod.str_at(&["status", "podIP"]) {
            None | Some("") => Refusal::BadRequest("address not allowed".to_owned()),
            Some(address) => unreachable_at(address),
        });
    }
    if subresource != "portforward" {
        check_container(&pod, parameter("container").unwrap_or_default().as_str())?;
    }
    let node = pod.str_at(&["spec", "nodeName"]).unwrap_or_default();
    match (node, subresource) {
        ("", "log") => return Ok(Connection::Nothing),
        ("", _) => return Err(Refusal::BadRequest(format!("pod {name} does not have a host assigned"))),
        _ => {}
    }
    if context.lookup.get(&of_core("nodes"), "", node).is_none() {
        return Err(missing("nodes", node));
    }
    Err(unreachable_at(node))
}

fn unreachable_at(place: &str) -> Refusal {
    Refusal::Unavailable(format!("error trying to reach service: {place:?} cannot be reached"))
}

/// The container must be one of the Pod, and must be named where there are several.
fn check_container(pod: &Value, asked: &str) -> Result<(), Refusal> {
    const DEFAULT: &str = "kubectl.kubernetes.io/default-container";
    let (root, name) = (Field::root(pod), pod.str_at(&["metadata", "name"]).unwrap_or_default());
    let spec = root.child("spec");
    let names = |list: &str| -> Vec<String> {
        let list = spec.child(list);
        let named = list.items().map(|one| one.child("name").text().to_owned());
        named.collect()
    };
    let (containers, initial, later) = (
        names("containers"),
        names("initContainers"),
        names("ephemeralContainers"),
    );
    if !asked.is_empty() {
        let known = containers.iter().chain(&initial).chain(&later).any(|one| one == asked);
        return if known {
            Ok(())
        } else {
            Err(Refusal::BadRequest(format!(
                "container {asked} is not valid for pod {name}"
            )))
        };
    }
    let preferred = pod.str_at(&["metadata", "annotations", DEFAULT]);
    if containers.len() < 2 || preferred.is_some_and(|preferred| containers.iter().any(|one| one == preferred)) {
        return Ok(());
    }
    let mut choice = format!("choose one of: [{}]", containers.join(" "));
    if !initial.is_empty() {
        choice.push_str(&format!(" or one of the init containers: [{}]", initial.join(" ")));
    }
    Err(Refusal::BadRequest(format!(
        "a container name must be specified for pod {name}, {choice}"
    )))
}

#[cfg(test)]
mod tests {
    use crate::harness::Harness;

    fn connect(subresource: &str, spec: &str, parameter: Option<(&str, &str)>) -> String {
        let pod = format!(
            "{{apiVersion: v1, kind: Pod, metadata: {{name: a, namespace: default}}, spec: {{{spec}}}, status: {{}}}}"
        );
        Harness::new().with(&pod).connect("pods", subresource, "a", parameter)
    }

    const ONE: &str = "containers: [{name: c, image: i}]";
    const TWO: &str = "containers: [{name: c, image: i}, {name: d, image: i}]";

    #[test]
    fn a_pod_without_a_node_has_no_log_and_runs_nothing() {
        assert_eq!(connect("log", ONE, None), "Nothing");
        assert!(connect("exec", ONE, None).contains("pod a does not have a host assigned"));
        assert!(connect("proxy", ONE, None).contains("address not allowed"));
        assert!(connect("log", &format!("{ONE}, nodeName: one"), None).contains("NotFound"));
    }

    #[test]
    fn of_several_containers_one_must_be_named() {
        assert!(
            connect("log", TWO, None).contains("a container name must be specified for pod a, choose one of: [c d]")
        );
        assert!(connect("log", TWO, Some(("container", "x"))).contains("container x is not valid for pod a"));
        assert_eq!(connect("log", TWO, Some(("container", "d"))), "Nothing");
    }
}
