//! Groups of the server's flags in `--help`, in the order of kube-apiserver's groups where it has the same.

/// Group of flags.
pub(crate) struct Group {
    /// Heading in `--help`.
    pub(crate) heading: &'static str,
    /// Names of flags, or prefixes of names followed by `*`.
    flags: &'static [&'static str],
}

impl Group {
    /// True if the flag `name` is in the group.
    fn contains(&self, name: &str) -> bool {
        self.flags.iter().any(|flag| matches(flag, name))
    }
}

/// True if the flag `name` has the name `pattern`, or begins with it up to its `*`.
fn matches(pattern: &str, name: &str) -> bool {
    match pattern.strip_suffix('*') {
        Some(prefix) => name.starts_with(prefix),
        None => name == pattern,
    }
}

/// All groups. A flag is in the first group that contains it.
const GROUPS: [Group; 17] = [
    Group {
        heading: "Compatibility with kube-apiserver",
        flags: &[
            "default-watch-cache-size",
            "enable-garbage-collector",
            "etcd-count-metric-poll-period",
            "storage-backend",
            "watch-cache",
            "watch-cache-sizes",
        ],
    },
    Group {
        heading: "Storage",
        flags: &[
            "accept-data-loss",
            "data-dir",
            "delete-collection-workers",
            "encryption-provider-*",
            "etcd-*",
            "event-ttl",
            "history-retention",
            "history-retention-bytes",
            "lease-reuse-duration-seconds",
            "max-object-bytes",
            "storage-media-type",
            "unsafe-no-fsync",
        ],
    },
    Group {
        heading: "Serving",
        flags: &[
            "advertise-address",
            "bind-address",
            "cert-dir",
            "cors-allowed-origins",
            "disable-http2-serving",
            "goaway-chance",
            "http2-*",
            "livez-grace-period",
            "max-connections-per-address",
            "min-request-timeout",
            "permit-port-sharing",
            "ready-file",
            "request-timeout",
            "secure-port",
            "shutdown-*",
            "strict-transport-*",
            "tls-*",
            "ui",
            "worker-threads",
        ],
    },
    Group {
        heading: "Authentication",
        flags: &[
            "anonymous-auth",
            "api-audiences",
            "authentication-*",
            "client-ca-file",
            "enable-bootstrap-token-auth",
            "oidc-*",
            "requestheader-*",
            "service-account-*",
            "token-auth-file",
        ],
    },
    Group {
        heading: "Authorization",
        flags: &["authorization-*"],
    },
    Group {
        heading: "Admission",
        flags: &[
            "admission-control-*",
            "allow-privileged",
            "default-not-ready-toleration-seconds",
            "default-unreachable-toleration-seconds",
            "disable-admission-plugins",
            "enable-admission-plugins",
        ],
    },
    Group {
        heading: "Audit",
        flags: &["audit-*"],
    },
    Group {
        heading: "Priority and fairness",
        flags: &[
            "enable-priority-and-fairness",
            "max-mutating-requests-inflight",
            "max-requests-inflight",
        ],
    },
    Group {
        heading: "Controllers",
        flags: &[
            "controllers",
            "coordinated-leadership-*",
            "leader-elect",
            "leader-elect-*",
            "resource-quota-*",
        ],
    },
    Group {
        heading: "Aggregated API servers",
        flags: &["aggregator-*", "enable-aggregator-routing", "proxy-client-*"],
    },
    Group {
        heading: "Proxies",
        flags: &["egress-selector-config-file"],
    },
    Group {
        heading: "Services",
        flags: &[
            "apiserver-count",
            "endpoint-reconciler-type",
            "service-cluster-*",
            "service-node-*",
        ],
    },
    Group {
        heading: "Nodes",
        flags: &["kubelet-*"],
    },
    Group {
        heading: "Metrics, profiles and traces",
        flags: &[
            "disabled-metrics",
            "profiling",
            "show-hidden-metrics-for-version",
            "tracing-config-file",
        ],
    },
    Group {
        heading: "Tests",
        flags: &["record", "testing-*"],
    },
    Group {
        heading: "APIs and features",
        flags: &["feature-gates", "holdfast-apis", "runtime-config"],
    },
    Group {
        heading: "Logs",
        flags: &["logging-format", "v"],
    },
];

/// Flags that `-h` shows, with descriptions that fit on a line.
const COMMON: [(&str, &str); 9] = [
    ("authorization-mode", "Authorizers, in order"),
    ("bind-address", "IP address to listen on"),
    ("client-ca-file", "Further authorities of client certificates (PEM)"),
    ("controllers", "Controllers to run; * for the default ones"),
    ("data-dir", "Objects, certificates, kubeconfig"),
    ("etcd-servers", "Store objects in this etcd"),
    ("feature-gates", "Feature gates, as Name=true"),
    ("secure-port", "Port of HTTPS; 0 for a free one"),
    ("v", "Log verbosity, from 0 to 5"),
];

/// Returns the position of the group of the flag `name`, and its heading.
pub(crate) fn group(name: &str) -> Option<(usize, &'static str)> {
    let found = GROUPS.iter().enumerate().find(|(_, group)| group.contains(name));
    // Flags without effect are the least interesting.
    found.map(|(position, group)| (if position == 0 { GROUPS.len() } else { position }, group.heading))
}

/// Returns the description of the flag `name` in `-h`; `None` if `-h` does not show it.
pub(crate) fn brief(name: &str) -> Option<&'static str> {
    COMMON.iter().find(|(common, _)| *common == name).map(|(_, help)| *help)
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    use super::*;
    use crate::flags::Arguments;

    #[test]
    fn every_flag_has_a_group_and_every_row_a_flag() {
        let command = Arguments::command();
        let flags: Vec<&str> = command.get_arguments().filter_map(clap::Arg::get_long).collect();
        for flag in &flags {
            assert!(group(flag).is_some(), "--{flag} is in no group");
        }
        let rows = GROUPS.iter().flat_map(|group| group.flags).copied();
        for row in rows.chain(COMMON.map(|(name, _)| name)) {
            assert!(flags.iter().any(|flag| matches(row, flag)), "{row} names no flag");
        }
    }
}
