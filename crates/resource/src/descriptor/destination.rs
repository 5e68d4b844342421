//! Destinations of requests that are passed on to a node, a pod or a service.

use std::net::IpAddr;

/// Destination of a request that is passed on to a node, a pod or a service.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Destination {
    /// Verification of the other server. `None` for plain HTTP.
    pub tls: Option<BackendTls>,
    /// Host name or IP address, without brackets.
    pub host: String,
    /// Port. `None` for that of the protocol.
    pub port: Option<u16>,
    /// Path, without percent encoding. Empty for the root.
    pub path: String,
    /// Parameters of a log or a command, without percent encoding. A proxy passes those of the client.
    pub query: Vec<(&'static str, String)>,
    /// Kind of the request.
    pub exchange: ExchangeKind,
}

/// Verification of the server at a destination.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BackendTls {
    /// A kubelet: its certificate is verified if authorities are configured, and it gets the client certificate.
    Kubelet,
    /// A kubelet that gets the client certificate and whose own certificate is not verified.
    UnverifiedKubelet,
    /// A pod, or another server on a node: no certificate is verified or presented.
    Unverified,
}

/// Kind of a request that is passed on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExchangeKind {
    /// The log of a container.
    Log,
    /// A command in a container, or an attachment to it. The connection switches to another protocol.
    Command {
        /// Streams of the command.
        streams: CommandStreams,
        /// True if requests over WebSockets are translated to SPDY for the kubelet.
        translates: bool,
    },
    /// Forwarding of ports. The connection switches to another protocol.
    PortForward {
        /// True if SPDY that is tunnelled in WebSockets is unpacked for the kubelet.
        unpacks: bool,
    },
    /// Any request. It may switch to another protocol.
    Proxy {
        /// True if all addresses of the host must be global unicast addresses.
        checks_addresses: bool,
    },
}

/// Streams of a command in a container.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CommandStreams {
    /// True if the client sends standard input.
    pub stdin: bool,
    /// True if the client receives standard output.
    pub stdout: bool,
    /// True if the client receives standard error.
    pub stderr: bool,
    /// True if the command has a terminal.
    pub tty: bool,
}

/// Returns true if requests may be passed on to `address`: it is neither unspecified, loopback, link-local, multicast
/// nor broadcast. This is the rule of `IP.IsGlobalUnicast` in Go.
pub fn is_global_unicast(address: IpAddr) -> bool {
    match address.to_canonical() {
        IpAddr::V4(address) => {
            !(address.is_unspecified()
                || address.is_loopback()
                || address.is_link_local()
                || address.is_multicast()
                || address.is_broadcast())
        }
        IpAddr::V6(address) => {
            !(address.is_unspecified()
                || address.is_loopback()
                || address.is_unicast_link_local()
                || address.is_multicast())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn loopback_and_link_local_are_not_global() {
        for (address, expected) in [
            ("10.0.0.1", true),
            ("fd00::1", true),
            ("0.0.0.0", false),
            ("127.0.0.9", false),
            ("169.254.169.254", false),
            ("224.0.0.1", false),
            ("255.255.255.255", false),
            ("::", false),
            ("::1", false),
            ("::ffff:127.0.0.1", false),
            ("::ffff:10.0.0.1", true),
            ("fe80::1", false),
            ("ff02::1", false),
        ] {
            assert_eq!(is_global_unicast(address.parse().unwrap()), expected, "{address}");
        }
    }
}
