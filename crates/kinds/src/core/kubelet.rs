//! Addresses of kubelets, and destinations of requests that are passed on to them.

use std::sync::Arc;

use holdfast_kind_tables::features::Feature;
use holdfast_resource::table::items;
use holdfast_resource::{BackendTls, Connection, Destination, ExchangeKind, Rejection};
use holdfast_value::Value;

use crate::config::{Config, KubeletAddresses};

/// Rules for requests to kubelets.
#[derive(Clone, Debug)]
pub(crate) struct Kubelets {
    addresses: Arc<KubeletAddresses>,
    /// True if commands over WebSockets are translated for kubelets that do not support it.
    translates_commands: bool,
    /// True if tunnelled port forwarding is unpacked for kubelets that do not support it.
    unpacks_tunnels: bool,
    /// True if kubelets that declare support for WebSockets get them unchanged.
    extends_websockets: bool,
}

/// Kubelet of a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Kubelet {
    /// Preferred address in the status of the node.
    pub(crate) host: String,
    /// Port that the status reports, or the configured one.
    pub(crate) port: u16,
    /// True if commands over WebSockets are translated for it.
    pub(crate) translates_commands: bool,
    /// True if tunnelled port forwarding is unpacked for it.
    pub(crate) unpacks_tunnels: bool,
}

/// Feature that a kubelet declares if it supports all WebSocket protocols.
const WEBSOCKETS: &str = "ExtendWebSocketsToKubelet";

impl Kubelets {
    pub(crate) fn new(config: &Config) -> Self {
        Self {
            addresses: Arc::clone(&config.kubelets),
            translates_commands: config.features.has(Feature::TranslateStreamCloseWebsocketRequests),
            unpacks_tunnels: config.features.has(Feature::PortForwardWebsockets),
            extends_websockets: config.features.has(Feature::ExtendWebSocketsToKubelet),
        }
    }

    /// Returns the kubelet of a node.
    ///
    /// upstream: pkg/kubelet/client#NodeConnectionInfoGetter.GetConnectionInfo
    ///
    /// # Errors
    /// If the node has no address of a preferred type.
    pub(crate) fn find(&self, node: &Value) -> Result<Kubelet, Rejection> {
        let host = self.address(node)?;
        let endpoint = ["status", "daemonEndpoints", "kubeletEndpoint", "Port"];
        let reported = node.at(&endpoint).and_then(Value::as_i64).filter(|port| *port > 0);
        let port = match reported {
            Some(port) => {
                u16::try_from(port).map_err(|_| Rejection::Failed(format!("invalid port {port} of a node")))?
            }
            None => self.addresses.port,
        };
        let declared = items(node, &["status", "declaredFeatures"])
            .iter()
            .any(|name| name.as_str() == Some(WEBSOCKETS));
        let speaks_websockets = self.extends_websockets && declared;
        Ok(Kubelet {
            host,
            port,
            translates_commands: self.translates_commands && !speaks_websockets,
            unpacks_tunnels: self.unpacks_tunnels && !speaks_websockets,
        })
    }

    /// Returns the first address of the most preferred type.
    ///
    /// upstream: pkg/util/node#GetPreferredNodeAddress
    fn address(&self, node: &Value) -> Result<String, Rejection> {
        let known: Vec<(&str, &str)> = items(node, &["status", "addresses"])
            .iter()
            .map(|one| {
                let text = |field: &str| one.str_at(&[field]).unwrap_or_default();
                (text("type"), text("address"))
            })
            .collect();
        for preferred in &self.addresses.preferred_types {
            if let Some((_, address)) = known.iter().find(|(kind, _)| kind == preferred) {
                return Ok((*address).to_owned());
            }
        }
        let pairs: Vec<String> = known
            .iter()
            .map(|(kind, address)| format!("{{{kind} {address}}}"))
            .collect();
        let shown = pairs.join(" ");
        Err(Rejection::Failed(format!(
            "no preferred addresses found; known addresses: [{shown}]"
        )))
    }
}

impl Kubelet {
    /// Returns the destination of a request to the kubelet.
    pub(crate) fn destination(
        self,
        path: String,
        query: Vec<(&'static str, String)>,
        exchange: ExchangeKind,
    ) -> Connection {
        Connection::Open(Box::new(Destination {
            tls: Some(BackendTls::Kubelet),
            host: self.host,
            port: Some(self.port),
            path,
            query,
            exchange,
        }))
    }
}

/// Target of a proxy request: `https:web:443`, `web:443` or `web`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ProxyTarget<'n> {
    /// True if the scheme is `https`.
    pub(crate) secure: bool,
    /// Name of the object.
    pub(crate) name: &'n str,
    /// Port as a number or name. Empty if it is omitted.
    pub(crate) port: &'n str,
}

impl<'n> ProxyTarget<'n> {
    /// Parses the name in a path; `kind` is that of the error message.
    ///
    /// upstream: k8s.io/apimachinery/pkg/util/net#SplitSchemeNamePort
    ///
    /// # Errors
    /// If there are too many parts, no name, or an unknown scheme.
    pub(crate) fn parse(text: &'n str, kind: &str) -> Result<Self, Rejection> {
        let parts: Vec<&str> = text.split(':').collect();
        let (scheme, name, port) = match parts.as_slice() {
            [name] => ("", *name, ""),
            [name, port] => ("", *name, *port),
            [scheme, name, port] => (*scheme, *name, *port),
            _ => ("", "", ""),
        };
        if name.is_empty() || !matches!(scheme, "" | "http" | "https") {
            return Err(Rejection::BadRequest(format!("invalid {kind} request {text:?}")));
        }
        Ok(Self {
            secure: scheme == "https",
            name,
            port,
        })
    }

    /// Returns the destination of a request to a server at `host` with the path of `options`. No certificate of such a
    /// server is verified.
    ///
    /// # Errors
    /// If `port` is not a number.
    pub(crate) fn destination(
        self,
        host: String,
        port: &str,
        options: &Value,
        checks_addresses: bool,
    ) -> Result<Connection, Rejection> {
        let number = match port {
            "" => None,
            port => Some(port.parse().map_err(|_| unknown_port(port))?),
        };
        Ok(Connection::Open(Box::new(Destination {
            tls: self.secure.then_some(BackendTls::Unverified),
            host,
            port: number,
            path: proxied_path(options),
            query: Vec::new(),
            exchange: ExchangeKind::Proxy { checks_addresses },
        })))
    }
}

fn unknown_port(port: &str) -> Rejection {
    Rejection::Unavailable(format!(
        "error trying to reach service: dial tcp: lookup tcp/{port}: unknown port"
    ))
}

/// Returns the path of the options of a proxy, without empty and dot segments. A slash at its end stays.
///
/// upstream: k8s.io/apimachinery/pkg/util/net#JoinPreservingTrailingSlash
pub(crate) fn proxied_path(options: &Value) -> String {
    let path = options.str_at(&["path"]).unwrap_or_default();
    if path.is_empty() {
        return String::new();
    }
    let mut segments = Vec::new();
    for segment in path.split('/') {
        match segment {
            "" | "." => {}
            ".." => drop(segments.pop()),
            segment => segments.push(segment),
        }
    }
    let mut clean = format!("/{}", segments.join("/"));
    if path.ends_with('/') && !clean.ends_with('/') {
        clean.push('/');
    }
    clean
}

#[cfg(test)]
mod tests {
    use holdfast_value::{Limits, Map, yaml};

    use super::*;

    fn found(node: &str) -> Result<Kubelet, Rejection> {
        let node = yaml::parse(node.as_bytes(), &Limits::TRUSTED).unwrap();
        Kubelets::new(&Config::default()).find(&node)
    }

    const ADDRESSES: &str = "addresses: [{type: InternalIP, address: 10.0.0.1}, {type: Hostname, address: one}]";

    #[test]
    fn kubelet_has_preferred_address_and_reported_port() {
        let kubelet = found(&format!("{{status: {{{ADDRESSES}}}}}")).unwrap();
        assert_eq!((kubelet.host.as_str(), kubelet.port), ("one", 10250));
        let port = "daemonEndpoints: {kubeletEndpoint: {Port: 7}}";
        let kubelet = found(&format!("{{status: {{{ADDRESSES}, {port}}}}}")).unwrap();
        assert_eq!(kubelet.port, 7);
        let unknown = found("{status: {addresses: [{type: Odd, address: a}]}}").unwrap_err();
        assert!(format!("{unknown:?}").contains("no preferred addresses found; known addresses: [{Odd a}]"));
    }

    #[test]
    fn kubelet_that_speaks_websockets_gets_them_unchanged() {
        let declared = "declaredFeatures: [ExtendWebSocketsToKubelet]";
        let kubelet = found(&format!("{{status: {{{ADDRESSES}, {declared}}}}}")).unwrap();
        assert!(!kubelet.translates_commands && !kubelet.unpacks_tunnels);
        let kubelet = found(&format!("{{status: {{{ADDRESSES}}}}}")).unwrap();
        assert!(kubelet.translates_commands && kubelet.unpacks_tunnels);
    }

    #[test]
    fn proxy_target_has_scheme_name_and_port() {
        let parse = |text| ProxyTarget::parse(text, "pod").map(|target| (target.secure, target.name, target.port));
        assert_eq!(parse("a").unwrap(), (false, "a", ""));
        assert_eq!(parse("a:80").unwrap(), (false, "a", "80"));
        assert_eq!(parse("https:a:web").unwrap(), (true, "a", "web"));
        for text in ["a:b:c", ":80", "https::1", "a:b:c:d"] {
            let refused = format!("{:?}", parse(text).unwrap_err());
            assert!(refused.contains("invalid pod request"), "{text}: {refused}");
        }
    }

    #[test]
    fn path_of_proxy_is_clean_and_keeps_last_slash() {
        for (path, expected) in [
            ("", ""),
            ("/", "/"),
            ("/a//b/./c", "/a/b/c"),
            ("/../../a/", "/a/"),
            ("a", "/a"),
        ] {
            let mut options = Map::new();
            options.insert("path", path);
            assert_eq!(proxied_path(&Value::Map(options)), expected, "{path}");
        }
    }
}
