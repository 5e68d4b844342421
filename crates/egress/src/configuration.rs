//! Reader of egress configurations.

use holdfast_schema::FieldPath;
use holdfast_value::{Limits, Value, yaml};

/// Versions in which a configuration may be declared.
const VERSIONS: [&str; 2] = ["apiserver.k8s.io/v1beta1", "apiserver.k8s.io/v1alpha1"];

const KIND: &str = "EgressSelectorConfiguration";

/// `EgressSelectorConfiguration` of `apiserver.k8s.io`.
///
/// ```
/// use holdfast_egress::EgressConfiguration;
///
/// let text = "
/// apiVersion: apiserver.k8s.io/v1beta1
/// kind: EgressSelectorConfiguration
/// egressSelections:
/// - name: cluster
///   connection:
///     proxyProtocol: HTTPConnect
///     transport: {uds: {udsName: /run/proxy.sock}}
/// ";
/// let configuration = EgressConfiguration::decode(text.as_bytes()).unwrap();
/// assert!(configuration.validate().is_ok());
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct EgressConfiguration {
    /// Proxies of the networks.
    pub(crate) selections: Vec<Selection>,
}

/// Proxy of a network.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Selection {
    /// Name of the network.
    pub(crate) name: String,
    pub(crate) protocol: String,
    pub(crate) transport: Option<Transport>,
}

/// Way to a proxy.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Transport {
    pub(crate) tcp: Option<Tcp>,
    /// Unix socket.
    pub(crate) uds: Option<String>,
}

/// Proxy at a URL.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Tcp {
    pub(crate) url: String,
    pub(crate) tls: Option<Tls>,
}

/// Files for TLS with a proxy, and the name of its certificate.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Tls {
    pub(crate) ca_bundle: String,
    pub(crate) client_key: String,
    pub(crate) client_cert: String,
    pub(crate) server_name: String,
}

impl EgressConfiguration {
    /// Reads YAML or JSON. The result is not validated.
    ///
    /// upstream: k8s.io/apiserver/pkg/server/egressselector#ReadEgressSelectorConfiguration
    ///
    /// # Errors
    /// If the text is not a configuration, or has unknown or repeated fields.
    pub fn decode(text: &[u8]) -> Result<Self, String> {
        let parsed = yaml::parse_with_findings(text, &Limits::REQUEST).map_err(|error| error.to_string())?;
        check_kind(&parsed.value)?;
        let mut unknown: Vec<String> = parsed.findings.iter().map(ToString::to_string).collect();
        let root = Node {
            value: &parsed.value,
            path: FieldPath::default(),
        };
        root.expect_only(&["apiVersion", "kind", "egressSelections"], &mut unknown)?;
        let mut selections = Vec::new();
        for selection in root.items("egressSelections")? {
            selections.push(read_selection(&selection, &mut unknown)?);
        }
        match unknown.is_empty() {
            true => Ok(Self { selections }),
            false => Err(format!("strict decoding error: {}", unknown.join(", "))),
        }
    }
}

fn check_kind(value: &Value) -> Result<(), String> {
    if value.as_map().is_none() {
        return Err("couldn't get version/kind; the file is not an object".to_owned());
    }
    let text = |name| value.str_at(&[name]).unwrap_or_default();
    match (text("apiVersion"), text("kind")) {
        (_, "") => Err("Object 'Kind' is missing".to_owned()),
        ("", _) => Err("Object 'apiVersion' is missing".to_owned()),
        (version, KIND) if VERSIONS.contains(&version) => Ok(()),
        (version, kind) => Err(format!("no kind {kind:?} is registered for version {version:?}")),
    }
}

fn read_selection(node: &Node<'_>, unknown: &mut Vec<String>) -> Result<Selection, String> {
    node.expect_only(&["name", "connection"], unknown)?;
    let mut selection = Selection {
        name: node.text("name")?,
        ..Selection::default()
    };
    if let Some(connection) = node.child("connection") {
        connection.expect_only(&["proxyProtocol", "transport"], unknown)?;
        selection.protocol = connection.text("proxyProtocol")?;
        if let Some(transport) = connection.child("transport") {
            selection.transport = Some(read_transport(&transport, unknown)?);
        }
    }
    Ok(selection)
}

fn read_transport(node: &Node<'_>, unknown: &mut Vec<String>) -> Result<Transport, String> {
    node.expect_only(&["tcp", "uds"], unknown)?;
    let mut transport = Transport::default();
    if let Some(uds) = node.child("uds") {
        uds.expect_only(&["udsName"], unknown)?;
        transport.uds = Some(uds.text("udsName")?);
    }
    if let Some(tcp) = node.child("tcp") {
        tcp.expect_only(&["url", "tlsConfig"], unknown)?;
        let mut read = Tcp {
            url: tcp.text("url")?,
            tls: None,
        };
        if let Some(tls) = tcp.child("tlsConfig") {
            tls.expect_only(&["caBundle", "clientKey", "clientCert", "tlsServerName"], unknown)?;
            read.tls = Some(Tls {
                ca_bundle: tls.text("caBundle")?,
                client_key: tls.text("clientKey")?,
                client_cert: tls.text("clientCert")?,
                server_name: tls.text("tlsServerName")?,
            });
        }
        transport.tcp = Some(read);
    }
    Ok(transport)
}

/// Value with its path.
struct Node<'v> {
    value: &'v Value,
    path: FieldPath,
}

impl<'v> Node<'v> {
    /// Returns a member; null counts as absent.
    fn child(&self, name: &str) -> Option<Self> {
        let value = self.value.get(name).filter(|value| !value.is_null())?;
        Some(Self {
            value,
            path: self.path.child(name),
        })
    }

    /// Checks that the value is an object, and records its members that are not among `known`.
    fn expect_only(&self, known: &[&str], unknown: &mut Vec<String>) -> Result<(), String> {
        let map = self.value.as_map().ok_or_else(|| self.mismatch("an object"))?;
        for (key, _) in map.iter().filter(|(key, _)| !known.contains(&key.as_ref())) {
            unknown.push(format!("unknown field {:?}", self.path.child(key).as_str()));
        }
        Ok(())
    }

    fn text(&self, name: &str) -> Result<String, String> {
        let Some(child) = self.child(name) else {
            return Ok(String::new());
        };
        let text = child.value.as_str().ok_or_else(|| child.mismatch("a string"))?;
        Ok(text.to_owned())
    }

    fn items(&self, name: &str) -> Result<Vec<Self>, String> {
        let Some(child) = self.child(name) else {
            return Ok(Vec::new());
        };
        let list = child.value.as_list().ok_or_else(|| child.mismatch("a list"))?;
        let items = list.iter().enumerate().map(|(index, value)| Self {
            value,
            path: child.path.index(index),
        });
        Ok(items.collect())
    }

    fn mismatch(&self, expected: &str) -> String {
        format!("{} must be {expected}", self.path.as_str())
    }
}
