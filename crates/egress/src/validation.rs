//! Validation of egress configurations, with the reference's messages.

use std::path::Path;

use holdfast_schema::{FieldError, FieldPath};

use crate::configuration::{EgressConfiguration, Selection, Tcp, Tls, Transport};
use crate::dialer::Network;

/// Protocols of proxies.
pub(crate) const DIRECT: &str = "Direct";
pub(crate) const HTTP_CONNECT: &str = "HTTPConnect";
pub(crate) const GRPC: &str = "GRPC";

impl EgressConfiguration {
    /// Validates the configuration, and that its files exist.
    ///
    /// upstream: k8s.io/apiserver/pkg/server/egressselector#ValidateEgressSelectorConfiguration
    ///
    /// # Errors
    /// If it is invalid; the text has all reasons.
    pub fn validate(&self) -> Result<(), String> {
        let path = FieldPath::new("service").child("connection");
        let mut errors = Vec::new();
        for selection in &self.selections {
            validate_connection(selection, &path, &mut errors);
        }
        let mut seen: Vec<String> = Vec::new();
        for (index, selection) in self.selections.iter().enumerate() {
            let name = selection.name.to_lowercase();
            if seen.contains(&name) {
                errors.push(FieldError::duplicate(&path.index(index), name));
                continue;
            }
            if Network::from_name(&name).is_none() {
                errors.push(FieldError::not_supported(&path, name.as_str(), &Network::NAMES));
            }
            seen.push(name);
        }
        let messages: Vec<String> = errors.iter().map(ToString::to_string).collect();
        match messages.as_slice() {
            [] => Ok(()),
            [one] => Err(one.clone()),
            several => Err(format!("[{}]", several.join(", "))),
        }
    }
}

fn validate_connection(selection: &Selection, path: &FieldPath, errors: &mut Vec<FieldError>) {
    let transport = selection.transport.as_ref();
    match selection.protocol.as_str() {
        DIRECT => {
            if transport.is_some() {
                let why = "config must be absent for direct connect";
                errors.push(FieldError::invalid(&path.child("transport"), "direct", why));
            }
        }
        HTTP_CONNECT => validate_http_connect(transport, path, errors),
        GRPC => validate_grpc(transport, path, errors),
        other => {
            let supported = [DIRECT, HTTP_CONNECT, GRPC];
            errors.push(FieldError::not_supported(&path.child("protocol"), other, &supported));
        }
    }
}

fn validate_http_connect(transport: Option<&Transport>, path: &FieldPath, errors: &mut Vec<FieldError>) {
    let Some(transport) = transport else {
        let why = "transport must be set for HTTPConnect";
        errors.push(FieldError::required(&path.child("transport"), why));
        return;
    };
    match (&transport.tcp, &transport.uds) {
        (Some(tcp), Some(_)) => {
            let why = "TCP and UDS cannot both be set";
            errors.push(FieldError::invalid(&path.child("tcp"), tcp.url.as_str(), why));
        }
        (None, None) => errors.push(FieldError::required(
            &path.child("tcp"),
            "One of TCP or UDS must be set",
        )),
        (Some(tcp), None) => validate_tcp(tcp, path, errors),
        (None, Some(name)) => validate_socket(name, path, errors),
    }
}

fn validate_grpc(transport: Option<&Transport>, path: &FieldPath, errors: &mut Vec<FieldError>) {
    match transport.map(|transport| &transport.uds) {
        None => errors.push(FieldError::required(
            &path.child("transport"),
            "transport must be set for GRPC",
        )),
        Some(None) => errors.push(FieldError::required(&path.child("uds"), "UDS must be set with GRPC")),
        Some(Some(name)) => validate_socket(name, path, errors),
    }
}

fn validate_socket(name: &str, path: &FieldPath, errors: &mut Vec<FieldError>) {
    if name.is_empty() {
        let why = "must be present for UDS connections";
        errors.push(FieldError::invalid(&path.child("udsName"), "nil", why));
    }
}

fn validate_tcp(tcp: &Tcp, path: &FieldPath, errors: &mut Vec<FieldError>) {
    if tcp.url.starts_with("http://") {
        if tcp.tls.is_some() {
            let why = "config must not be present when using HTTP";
            errors.push(FieldError::invalid(&path.child("tlsConfig"), "nil", why));
        }
    } else if tcp.url.starts_with("https://") {
        match &tcp.tls {
            Some(tls) => validate_tls(tls, &path.child("tlsConfig"), errors),
            None => errors.push(FieldError::required(
                &path.child("tlsConfig"),
                "TLSConfig must be present when using HTTPS",
            )),
        }
    } else {
        let why = "supported connection protocols are http:// and https://";
        errors.push(FieldError::invalid(&path.child("url"), tcp.url.as_str(), why));
    }
}

fn validate_tls(tls: &Tls, path: &FieldPath, errors: &mut Vec<FieldError>) {
    if !tls.ca_bundle.is_empty() && !Path::new(&tls.ca_bundle).exists() {
        let why = "TLS config ca bundle does not exist";
        errors.push(FieldError::invalid(
            &path.child("caBundle"),
            tls.ca_bundle.as_str(),
            why,
        ));
    }
    for (name, file, absent, missing) in [
        (
            "clientCert",
            &tls.client_cert,
            "Using TLS requires clientCert",
            "TLS client cert does not exist",
        ),
        (
            "clientKey",
            &tls.client_key,
            "Using TLS requires requires clientKey",
            "TLS client key does not exist",
        ),
    ] {
        if file.is_empty() {
            errors.push(FieldError::invalid(&path.child(name), "nil", absent));
        } else if !Path::new(file).exists() {
            errors.push(FieldError::invalid(&path.child(name), file.as_str(), missing));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(selections: &str) -> Result<(), String> {
        let text = format!(
            "apiVersion: apiserver.k8s.io/v1beta1\nkind: EgressSelectorConfiguration\negressSelections: [{selections}]\n"
        );
        EgressConfiguration::decode(text.as_bytes())?.validate()
    }

    #[test]
    fn invalid_selections_have_the_messages_of_the_reference() {
        let uds = "transport: {uds: {udsName: /a}}";
        for (selections, why) in [
            ("{name: cluster, connection: {proxyProtocol: Direct}}".to_owned(), ""),
            (
                format!("{{name: Etcd, connection: {{proxyProtocol: GRPC, {uds}}}}}"),
                "",
            ),
            (
                format!("{{name: etcd, connection: {{proxyProtocol: Direct, {uds}}}}}"),
                "service.connection.transport: Invalid value: \"direct\": config must be absent for direct connect",
            ),
            (
                "{name: etcd, connection: {proxyProtocol: Socks}}".to_owned(),
                "service.connection.protocol: Unsupported value: \"Socks\": supported values: \"Direct\", \
                 \"HTTPConnect\", \"GRPC\"",
            ),
            (
                "{name: etcd, connection: {proxyProtocol: HTTPConnect}}".to_owned(),
                "service.connection.transport: Required value: transport must be set for HTTPConnect",
            ),
            (
                "{name: etcd, connection: {proxyProtocol: HTTPConnect, transport: {tcp: {url: 'ftp://a'}}}}".to_owned(),
                "service.connection.url: Invalid value: \"ftp://a\": supported connection protocols are http:// and https://",
            ),
            (
                "{name: etcd, connection: {proxyProtocol: GRPC, transport: {tcp: {url: 'http://a'}}}}".to_owned(),
                "service.connection.uds: Required value: UDS must be set with GRPC",
            ),
            (
                "{name: nodes, connection: {proxyProtocol: Direct}}".to_owned(),
                "service.connection: Unsupported value: \"nodes\": supported values: \"cluster\", \"controlplane\", \"etcd\"",
            ),
            (
                "{name: etcd, connection: {proxyProtocol: Direct}}, {name: ETCD, connection: {proxyProtocol: Direct}}"
                    .to_owned(),
                "service.connection[1]: Duplicate value: \"etcd\"",
            ),
            (
                "{name: etcd, port: 1}".to_owned(),
                "strict decoding error: unknown field \"egressSelections[0].port\"",
            ),
            (
                "{name: 1}".to_owned(),
                "json: cannot unmarshal number into Go struct field EgressSelection.egressSelections.name of type string",
            ),
        ] {
            assert_eq!(check(&selections).err().unwrap_or_default(), why, "{selections}");
        }
    }

    #[test]
    fn files_of_proxy_must_exist() {
        let tls = "{name: etcd, connection: {proxyProtocol: HTTPConnect, transport: {tcp: {url: 'https://a', tlsConfig: \
                   {caBundle: /none/ca, clientCert: /none/cert}}}}}";
        let error = check(tls).unwrap_err();
        for why in [
            "service.connection.tlsConfig.caBundle: Invalid value: \"/none/ca\": TLS config ca bundle does not exist",
            "service.connection.tlsConfig.clientCert: Invalid value: \"/none/cert\": TLS client cert does not exist",
            "service.connection.tlsConfig.clientKey: Invalid value: \"nil\": Using TLS requires requires clientKey",
        ] {
            assert!(error.contains(why), "{error}");
        }
    }
}
