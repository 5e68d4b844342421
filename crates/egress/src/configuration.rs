//! Reader of egress configurations.

use holdfast_schema::{GoField, read_go_file};

/// Versions and kind in which a configuration may be declared.
const KINDS: [(&str, &str); 2] = [
    ("apiserver.k8s.io/v1beta1", "EgressSelectorConfiguration"),
    ("apiserver.k8s.io/v1alpha1", "EgressSelectorConfiguration"),
];

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
        read_go_file(text, &KINDS, |file, unknown| {
            file.check_members(
                "v1beta1.EgressSelectorConfiguration",
                &["apiVersion", "kind", "egressSelections"],
                unknown,
            )?;
            let selections = file.child("EgressSelectorConfiguration", "egressSelections");
            let items = selections.items("v1beta1.EgressSelection")?;
            let read = items.iter().map(|selection| read_selection(selection, unknown));
            Ok(Self {
                selections: read.collect::<Result<_, _>>()?,
            })
        })
    }
}

fn read_selection(field: &GoField<'_>, unknown: &mut Vec<String>) -> Result<Selection, String> {
    field.check_members("v1beta1.EgressSelection", &["name", "connection"], unknown)?;
    let connection = field.child("EgressSelection", "connection");
    connection.check_members("v1beta1.Connection", &["proxyProtocol", "transport"], unknown)?;
    Ok(Selection {
        name: text(&field.child("EgressSelection", "name"))?,
        protocol: text(&connection.child("Connection", "proxyProtocol"))?,
        transport: read_transport(&connection.child("Connection", "transport"), unknown)?,
    })
}

fn read_transport(field: &GoField<'_>, unknown: &mut Vec<String>) -> Result<Option<Transport>, String> {
    if field.value.is_none() {
        return Ok(None);
    }
    field.check_members("v1beta1.Transport", &["tcp", "uds"], unknown)?;
    let uds = field.child("Transport", "uds");
    uds.check_members("v1beta1.UDSTransport", &["udsName"], unknown)?;
    let uds_name = text(&uds.child("UDSTransport", "udsName"))?;
    Ok(Some(Transport {
        tcp: read_tcp(&field.child("Transport", "tcp"), unknown)?,
        uds: uds.value.map(|_| uds_name),
    }))
}

fn read_tcp(field: &GoField<'_>, unknown: &mut Vec<String>) -> Result<Option<Tcp>, String> {
    if field.value.is_none() {
        return Ok(None);
    }
    field.check_members("v1beta1.TCPTransport", &["url", "tlsConfig"], unknown)?;
    Ok(Some(Tcp {
        url: text(&field.child("TCPTransport", "url"))?,
        tls: read_tls(&field.child("TCPTransport", "tlsConfig"), unknown)?,
    }))
}

fn read_tls(field: &GoField<'_>, unknown: &mut Vec<String>) -> Result<Option<Tls>, String> {
    if field.value.is_none() {
        return Ok(None);
    }
    let known = ["caBundle", "clientKey", "clientCert", "tlsServerName"];
    field.check_members("v1beta1.TLSConfig", &known, unknown)?;
    let member = |name| text(&field.child("TLSConfig", name));
    Ok(Some(Tls {
        ca_bundle: member("caBundle")?,
        client_key: member("clientKey")?,
        client_cert: member("clientCert")?,
        server_name: member("tlsServerName")?,
    }))
}

fn text(field: &GoField<'_>) -> Result<String, String> {
    field.text("string").map(str::to_owned)
}
