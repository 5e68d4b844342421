//! Logs, commands and proxies of Pods, up to the point where the reference would contact the node.

use holdfast_kind_tables::features::{Feature, Features};
use holdfast_resource::ParameterForm::{Flag, Number, Ports, Text, Texts, Time};
use holdfast_resource::{ConnectParameter, Connecter, Connection, Refusal, WriteContext};
use holdfast_schema::{Field, FieldError, FieldPath, GroupKind};
use holdfast_value::Value;

use super::super::{of_core, proxied_name, proxy_parameters};

/// Subresource that connects requests to the node of a Pod.
#[derive(Clone, Copy)]
pub(crate) struct OfPod {
    pub(crate) name: &'static str,
    parameters: &'static [ConnectParameter],
    /// Verb that a request needs in addition to that of its method.
    also_needs: Option<&'static str>,
}

/// Returns the subresources that connect requests to the node of a Pod, with these features enabled.
pub(crate) fn of_pod(features: Features) -> [OfPod; 5] {
    let checks = features.has(Feature::AuthorizePodWebsocketUpgradeCreatePermission);
    OF_POD.map(|of| OfPod {
        also_needs: of.also_needs.filter(|_| checks),
        ..of
    })
}

/// Verb for acting within a Pod: `create`, even for a GET, which starts a WebSocket
/// (<https://github.com/kubernetes/kubernetes/issues/133515>).
const ACTS: Option<&str> = Some("create");

const OF_POD: [OfPod; 5] = [
    OfPod {
        name: "attach",
        parameters: &[CONTAINER_TO_ATTACH_TO, STDERR, STDIN, STDOUT, TTY],
        also_needs: ACTS,
    },
    OfPod {
        name: "exec",
        parameters: &[
            ConnectParameter::new("command", Texts, "The command and its arguments; no shell reads it."),
            CONTAINER_TO_RUN_IN,
            STDERR,
            STDIN,
            STDOUT,
            TTY,
        ],
        also_needs: ACTS,
    },
    OfPod {
        name: LOG,
        parameters: &[
            ConnectParameter::new(
                "container",
                Text,
                "The container whose log is requested. Defaults to the only one.",
            ),
            ConnectParameter::new("follow", Flag, "Whether to go on with what is logged later."),
            ConnectParameter::new(
                "insecureSkipTLSVerifyBackend",
                Flag,
                "Whether to trust any certificate of the node.",
            ),
            ConnectParameter::new("limitBytes", Number, "The most bytes of log to give."),
            ConnectParameter::new(
                "previous",
                Flag,
                "Whether the log of the container's last run is meant.",
            ),
            ConnectParameter::new(
                "sinceSeconds",
                Number,
                "Only what was logged in so many seconds before now.",
            ),
            ConnectParameter::new("sinceTime", Time, "Only what was logged since then."),
            ConnectParameter::new("stream", Text, "Which streams to give: All, Stdout or Stderr."),
            ConnectParameter::new("tailLines", Number, "Only so many lines from the end."),
            ConnectParameter::new("timestamps", Flag, "Whether the time stands before each line."),
        ],
        also_needs: None,
    },
    OfPod {
        name: "portforward",
        parameters: &[ConnectParameter::new("ports", Ports, "The ports to forward.")],
        also_needs: ACTS,
    },
    OfPod {
        name: PROXY,
        parameters: &proxy_parameters("The path to ask the pod for."),
        also_needs: None,
    },
];

const LOG: &str = "log";
const PROXY: &str = "proxy";
const CONTAINER_TO_ATTACH_TO: ConnectParameter = ConnectParameter::new(
    "container",
    Text,
    "The container to attach to. Defaults to the only one.",
);
const CONTAINER_TO_RUN_IN: ConnectParameter = ConnectParameter::new(
    "container",
    Text,
    "The container to run the command in. Defaults to the only one.",
);
const STDERR: ConnectParameter = ConnectParameter::new("stderr", Flag, "Whether the standard error is streamed.");
const STDIN: ConnectParameter = ConnectParameter::new("stdin", Flag, "Whether the standard input is streamed.");
const STDOUT: ConnectParameter = ConnectParameter::new("stdout", Flag, "Whether the standard output is streamed.");
const TTY: ConnectParameter = ConnectParameter::new("tty", Flag, "Whether a terminal is made for the call.");

impl Connecter for OfPod {
    fn parameters(&self) -> &'static [ConnectParameter] {
        self.parameters
    }

    fn connects(&self) -> bool {
        self.name != LOG
    }

    fn also_needs(&self) -> Option<&'static str> {
        self.also_needs
    }

    fn connect(&self, context: &WriteContext<'_>, options: &Value) -> Connection {
        answer(context, self.name, options).unwrap_or_else(Connection::Refused)
    }
}

fn answer(context: &WriteContext<'_>, subresource: &str, options: &Value) -> Result<Connection, Refusal> {
    if subresource == LOG {
        check_log_options(context.name, options)?;
    }
    let proxied = subresource == PROXY;
    let name = if proxied {
        proxied_name(context.name).1
    } else {
        context.name
    };
    let missing = |resource: &'static str, name: &str| Refusal::NotFound {
        resource: of_core(resource),
        name: name.to_owned(),
    };
    let pod = context
        .lookup
        .get(&of_core("pods"), context.namespace, name)
        .ok_or_else(|| missing("pods", name))?;
    if proxied {
        return Err(match pod.str_at(&["status", "podIP"]) {
            None | Some("") => Refusal::BadRequest("address not allowed".to_owned()),
            Some(address) => unreachable_at(address),
        });
    }
    if subresource != "portforward" {
        check_container(&pod, options.str_at(&["container"]).unwrap_or_default())?;
    }
    let node = pod.str_at(&["spec", "nodeName"]).unwrap_or_default();
    match (node, subresource) {
        ("", LOG) => return Ok(Connection::Nothing),
        ("", _) => return Err(Refusal::BadRequest(format!("pod {name} does not have a host assigned"))),
        _ => {}
    }
    if context.lookup.get(&of_core("nodes"), "", node).is_none() {
        // The reference reports a missing pod of this name.
        return Err(missing("pods", node));
    }
    Err(unreachable_at(node))
}

/// Rejects invalid log options.
///
/// upstream: pkg/apis/core/validation#ValidatePodLogOptions
fn check_log_options(name: &str, options: &Value) -> Result<(), Refusal> {
    let number = |field: &str| options.at(&[field]).and_then(Value::as_i64);
    let mut errors = Vec::new();
    let mut at_least = |field: &str, least: i64, detail: &str| {
        if let Some(number) = number(field).filter(|number| *number < least) {
            errors.push(FieldError::invalid(&FieldPath::new(field), number, detail));
        }
    };
    at_least("tailLines", 0, "must be greater than or equal to 0");
    at_least("limitBytes", 1, "must be greater than 0");
    let both = number("sinceSeconds").is_some() && options.at(&["sinceTime"]).is_some();
    if !both {
        at_least("sinceSeconds", 1, "must be greater than 0");
    } else {
        const ONE: &str = "at most one of `sinceTime` or `sinceSeconds` may be specified";
        errors.push(FieldError::forbidden(&FieldPath::new("[]"), ONE));
    }
    if options.at(&["stream"]).is_some() {
        errors.push(FieldError::forbidden(&FieldPath::new("stream"), "may not be specified"));
    }
    if errors.is_empty() {
        return Ok(());
    }
    let kind = GroupKind {
        group: "".into(),
        kind: "PodLogOptions".into(),
    };
    Err(Refusal::InvalidAs {
        kind,
        name: name.to_owned(),
        errors,
    })
}

fn unreachable_at(place: &str) -> Refusal {
    Refusal::Unavailable(format!("error trying to reach service: {place:?} cannot be reached"))
}

/// Checks that the container belongs to the Pod and is named if there are several.
///
/// upstream: pkg/registry/core/pod#validateContainer
fn check_container(pod: &Value, requested: &str) -> Result<(), Refusal> {
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
    if !requested.is_empty() {
        let known = containers
            .iter()
            .chain(&initial)
            .chain(&later)
            .any(|one| one == requested);
        return if known {
            Ok(())
        } else {
            Err(Refusal::BadRequest(format!(
                "container {requested} is not valid for pod {name}"
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
    fn acting_in_pod_requires_create_while_gate_is_enabled() {
        use holdfast_kind_tables::features::FeatureGates;
        use holdfast_resource::Connecter as _;

        let needing = |on: bool| -> Vec<&str> {
            let gate = format!("AuthorizePodWebsocketUpgradeCreatePermission={on}");
            let features = FeatureGates::set(&[gate]).unwrap().features();
            let all = super::of_pod(features);
            let needing = all.iter().filter(|of| of.also_needs() == Some("create"));
            needing.map(|of| of.name).collect()
        };
        assert_eq!(needing(true), ["attach", "exec", "portforward"]);
        assert_eq!(needing(false), [""; 0]);
    }

    #[test]
    fn a_pod_without_a_node_has_no_log_and_runs_nothing() {
        assert_eq!(connect("log", ONE, None), "Nothing");
        assert!(connect("exec", ONE, None).contains("pod a does not have a host assigned"));
        assert!(connect("proxy", ONE, None).contains("address not allowed"));
        assert!(connect("log", &format!("{ONE}, nodeName: one"), None).contains("NotFound"));
    }

    #[test]
    fn log_options_are_validated_before_pod_lookup() {
        for (name, value, why) in [
            ("tailLines", "-1", "must be greater than or equal to 0"),
            ("limitBytes", "0", "must be greater than 0"),
            ("sinceSeconds", "0", "must be greater than 0"),
            ("stream", "All", "may not be specified"),
        ] {
            let refused = connect("log", ONE, Some((name, value)));
            assert!(
                refused.contains(why) && refused.contains("PodLogOptions"),
                "{name}: {refused}"
            );
        }
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
