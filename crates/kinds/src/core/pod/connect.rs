//! Logs, commands and proxies of Pods: destinations of requests that are passed on to the node or to the Pod.

use holdfast_kind_tables::features::Feature;
use holdfast_resource::ParameterForm::{Flag, Number, Ports, Text, Texts, Time};
use holdfast_resource::table::items;
use holdfast_resource::{
    BackendTls, CommandStreams, ConnectParameter, Connecter, Connection, ExchangeKind, Rejection, WriteContext,
    is_global_unicast,
};
use holdfast_schema::{FieldError, FieldPath, GroupKind};
use holdfast_value::Value;

use super::super::kubelet::{Kubelet, Kubelets, ProxyTarget};
use super::super::{of_core, proxy_parameters};
use crate::config::Config;
use crate::validation::addresses::lenient_address;

/// Subresource that connects requests to the node of a Pod, or to the Pod.
pub(crate) struct OfPod {
    pub(crate) name: &'static str,
    endpoint: Endpoint,
    kubelets: Kubelets,
}

/// Facts about such a subresource.
#[derive(Clone, Copy)]
struct Endpoint {
    name: &'static str,
    parameters: &'static [ConnectParameter],
    /// Verb that a request needs in addition to that of its method.
    also_needs: Option<&'static str>,
}

/// Returns the subresources that connect requests to the node of a Pod.
pub(crate) fn of_pod(config: &Config) -> [OfPod; 5] {
    let checks = config
        .features
        .has(Feature::AuthorizePodWebsocketUpgradeCreatePermission);
    OF_POD.map(|endpoint| OfPod {
        name: endpoint.name,
        endpoint: Endpoint {
            also_needs: endpoint.also_needs.filter(|_| checks),
            ..endpoint
        },
        kubelets: Kubelets::new(config),
    })
}

/// Verb for acting within a Pod: `create`, even for a GET, which starts a WebSocket
/// (<https://github.com/kubernetes/kubernetes/issues/133515>).
const ACTS: Option<&str> = Some("create");

const OF_POD: [Endpoint; 5] = [
    Endpoint {
        name: ATTACH,
        parameters: &[CONTAINER_TO_ATTACH_TO, STDERR, STDIN, STDOUT, TTY],
        also_needs: ACTS,
    },
    Endpoint {
        name: EXEC,
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
    Endpoint {
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
    Endpoint {
        name: PORT_FORWARD,
        parameters: &[ConnectParameter::new("ports", Ports, "The ports to forward.")],
        also_needs: ACTS,
    },
    Endpoint {
        name: PROXY,
        parameters: &proxy_parameters("The path to ask the pod for."),
        also_needs: None,
    },
];

const ATTACH: &str = "attach";
const EXEC: &str = "exec";
const LOG: &str = "log";
const PORT_FORWARD: &str = "portforward";
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
        self.endpoint.parameters
    }

    fn connects(&self) -> bool {
        self.name != LOG
    }

    fn also_needs(&self) -> Option<&'static str> {
        self.endpoint.also_needs
    }

    fn connect(&self, context: &WriteContext<'_>, options: &Value) -> Connection {
        let outcome = match self.name {
            PROXY => proxy(context, options),
            _ => self.to_kubelet(context, options),
        };
        outcome.unwrap_or_else(Connection::Refused)
    }
}

impl OfPod {
    /// Returns the destination of a request to the kubelet of a Pod.
    ///
    /// upstream: pkg/registry/core/pod#LogLocation
    /// upstream: pkg/registry/core/pod#streamLocation
    /// upstream: pkg/registry/core/pod#PortForwardLocation
    fn to_kubelet(&self, context: &WriteContext<'_>, options: &Value) -> Result<Connection, Rejection> {
        if self.name == LOG {
            check_log_options(context.name, options)?;
        }
        let name = context.name;
        let found = context.lookup.get(&of_core("pods"), context.namespace, name);
        let pod = found.ok_or_else(|| missing_pod(name))?;
        let container = match self.name {
            PORT_FORWARD => String::new(),
            _ => container(&pod, options.str_at(&["container"]).unwrap_or_default())?,
        };
        let node_name = pod.str_at(&["spec", "nodeName"]).unwrap_or_default();
        match (node_name, self.name) {
            ("", LOG) => return Ok(Connection::Nothing),
            ("", _) => {
                return Err(Rejection::BadRequest(format!(
                    "pod {name} does not have a host assigned"
                )));
            }
            _ => {}
        }
        // The reference reports a missing pod of the name of the node.
        let node = context.lookup.get(&of_core("nodes"), "", node_name);
        let kubelet = self.kubelets.find(&node.ok_or_else(|| missing_pod(node_name))?)?;
        let of_pod = format!("{}/{name}", context.namespace);
        let flag = |name: &str| options.at(&[name]) == Some(&Value::Bool(true));
        Ok(match self.name {
            LOG => log(kubelet, format!("/containerLogs/{of_pod}/{container}"), options),
            PORT_FORWARD => {
                let exchange = ExchangeKind::PortForward {
                    unpacks: kubelet.unpacks_tunnels,
                };
                kubelet.destination(format!("/portForward/{of_pod}"), ports(options), exchange)
            }
            action => {
                let streams = CommandStreams {
                    stdin: flag("stdin"),
                    stdout: flag("stdout"),
                    stderr: flag("stderr"),
                    tty: flag("tty"),
                };
                let exchange = ExchangeKind::Command {
                    streams,
                    translates: kubelet.translates_commands,
                };
                let query = command_query(streams, options);
                kubelet.destination(format!("/{action}/{of_pod}/{container}"), query, exchange)
            }
        })
    }
}

fn missing_pod(name: &str) -> Rejection {
    Rejection::NotFound {
        resource: of_core("pods"),
        name: name.to_owned(),
    }
}

/// Returns the destination of a request to a Pod.
///
/// upstream: pkg/registry/core/pod#ResourceLocation
fn proxy(context: &WriteContext<'_>, options: &Value) -> Result<Connection, Rejection> {
    let target = ProxyTarget::parse(context.name, "pod")?;
    let found = context.lookup.get(&of_core("pods"), context.namespace, target.name);
    let pod = found.ok_or_else(|| missing_pod(target.name))?;
    let port = match target.port {
        "" => first_port(&pod).map(|port| port.to_string()).unwrap_or_default(),
        port => port.to_owned(),
    };
    let first = items(&pod, &["status", "podIPs"]).first();
    let address = first
        .and_then(|ip| lenient_address(ip.str_at(&["ip"])?))
        .filter(|address| is_global_unicast(*address))
        .ok_or_else(|| Rejection::BadRequest("address not allowed".to_owned()))?;
    target.destination(address.to_string(), &port, options, false)
}

/// Returns the first port of the first container that has ports.
fn first_port(pod: &Value) -> Option<i64> {
    let containers = items(pod, &["spec", "containers"]).iter();
    let mut ports = containers.filter_map(|container| items(container, &["ports"]).first());
    ports.next()?.get("containerPort").and_then(Value::as_i64)
}

/// Returns the destination of a request for a log.
fn log(kubelet: Kubelet, path: String, options: &Value) -> Connection {
    const FLAGS: [&str; 3] = ["follow", "previous", "timestamps"];
    const VALUES: [&str; 4] = ["sinceSeconds", "sinceTime", "tailLines", "limitBytes"];
    let mut query = Vec::new();
    for flag in FLAGS {
        if options.at(&[flag]) == Some(&Value::Bool(true)) {
            query.push((flag, "true".to_owned()));
        }
    }
    for name in VALUES {
        match options.at(&[name]) {
            Some(Value::Int(number)) => query.push((name, number.to_string())),
            Some(value) => query.extend(value.as_str().map(|text| (name, text.to_owned()))),
            None => {}
        }
    }
    let unverified = options.at(&["insecureSkipTLSVerifyBackend"]) == Some(&Value::Bool(true));
    let mut connection = kubelet.destination(path, query, ExchangeKind::Log);
    if let Connection::Open(destination) = &mut connection
        && unverified
    {
        destination.tls = Some(BackendTls::UnverifiedKubelet);
    }
    connection
}

/// Returns the parameters of a command.
///
/// upstream: pkg/registry/core/pod#streamParams
fn command_query(streams: CommandStreams, options: &Value) -> Vec<(&'static str, String)> {
    let one = || "1".to_owned();
    // The names of kubelets for the streams.
    let named = [
        ("input", streams.stdin),
        ("output", streams.stdout),
        ("error", streams.stderr),
        ("tty", streams.tty),
    ];
    let requested = named.iter().filter(|(_, requested)| *requested);
    let mut query: Vec<(&'static str, String)> = requested.map(|(name, _)| (*name, one())).collect();
    let words = items(options, &["command"]).iter().filter_map(Value::as_str);
    query.extend(words.map(|word| ("command", word.to_owned())));
    query
}

/// Returns the parameter of the ports to forward.
fn ports(options: &Value) -> Vec<(&'static str, String)> {
    let numbers = items(options, &["ports"]).iter().filter_map(Value::as_i64);
    let ports: Vec<String> = numbers.map(|port| port.to_string()).collect();
    match ports.is_empty() {
        true => Vec::new(),
        false => vec![("port", ports.join(","))],
    }
}

/// Rejects invalid log options.
///
/// upstream: pkg/apis/core/validation#ValidatePodLogOptions
fn check_log_options(name: &str, options: &Value) -> Result<(), Rejection> {
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
    Err(Rejection::InvalidAs {
        kind,
        name: name.to_owned(),
        errors,
    })
}

/// Returns the requested container of a Pod, or its only one.
///
/// upstream: pkg/registry/core/pod#validateContainer
fn container(pod: &Value, requested: &str) -> Result<String, Rejection> {
    let name = pod.str_at(&["metadata", "name"]).unwrap_or_default();
    let names = |list: &str| {
        let list = items(pod, &["spec", list]).iter();
        list.map(|one| one.str_at(&["name"]).unwrap_or_default())
    };
    let all = || {
        names("initContainers")
            .chain(names("containers"))
            .chain(names("ephemeralContainers"))
    };
    if !requested.is_empty() {
        return match all().any(|known| known == requested) {
            true => Ok(requested.to_owned()),
            false => Err(Rejection::BadRequest(format!(
                "container {requested} is not valid for pod {name}"
            ))),
        };
    }
    let mut containers = names("containers");
    match (containers.next(), containers.next()) {
        (Some(only), None) => Ok(only.to_owned()),
        (None, _) => Err(Rejection::BadRequest(format!(
            "a container name must be specified for pod {name}"
        ))),
        _ => {
            let choice: Vec<&str> = all().collect();
            Err(Rejection::BadRequest(format!(
                "a container name must be specified for pod {name}, choose one of: [{}]",
                choice.join(" ")
            )))
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::config::Config;
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
            let config = Config {
                features: FeatureGates::set(&[gate]).unwrap().features(),
                ..Config::default()
            };
            let all = super::of_pod(&config);
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
