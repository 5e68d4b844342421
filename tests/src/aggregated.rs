//! Backend of a server that aggregates: certificates for both sides, and a small server of `metrics.k8s.io` like
//! metrics-server.

#![allow(
    clippy::unwrap_used,
    clippy::missing_panics_doc,
    reason = "what fails here is the test"
)]

use std::net::{IpAddr, Ipv4Addr};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use http::{Request, Response, StatusCode};
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use parking_lot::Mutex;
use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DnType, ExtendedKeyUsagePurpose, IsCa, KeyPair, SanType,
};
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::WebPkiClientVerifier;
use rustls::{RootCertStore, ServerConfig};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;

/// Common name with which the front server authenticates to aggregated servers.
pub const PROXY_NAME: &str = "front-proxy-client";

type Issuer = CertifiedIssuer<'static, KeyPair>;

/// Certificates, in files: `proxy-ca.crt`, `proxy.crt` and `proxy.key` for the front server, `back-ca.crt`, `back.crt`
/// and `back.key` for the backend.
pub struct Certificates {
    folder: TempDir,
    proxies: Issuer,
}

fn issuer(name: &str) -> Issuer {
    let mut params = CertificateParams::default();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    params.distinguished_name.push(DnType::CommonName, name);
    CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap()
}

impl Certificates {
    /// Certificates for a server behind the service of that name in the namespace `default`.
    pub fn new(service: &str) -> Self {
        let certificates = Self {
            folder: TempDir::new().unwrap(),
            proxies: issuer("proxies"),
        };
        let servers = issuer("servers");
        certificates.write("proxy-ca.crt", &certificates.proxies.pem());
        certificates.write("back-ca.crt", &servers.pem());
        let mut params = CertificateParams::default();
        let name = format!("{service}.default.svc");
        params.subject_alt_names = vec![
            SanType::DnsName(name.try_into().unwrap()),
            SanType::IpAddress(IpAddr::V4(Ipv4Addr::LOCALHOST)),
        ];
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        certificates.sign("back", &params, &servers);
        certificates.name_proxy(PROXY_NAME);
        certificates
    }

    /// Gives the server before a certificate of that name.
    pub fn name_proxy(&self, name: &str) {
        let mut params = CertificateParams::default();
        params.distinguished_name.push(DnType::CommonName, name);
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
        self.sign("proxy", &params, &self.proxies);
    }

    fn sign(&self, name: &str, params: &CertificateParams, issuer: &Issuer) {
        let key = KeyPair::generate().unwrap();
        let certificate = params.signed_by(&key, issuer).unwrap();
        self.write(&format!("{name}.crt"), &certificate.pem());
        self.write(&format!("{name}.key"), &key.serialize_pem());
    }

    /// Writes a file to the folder of the certificates.
    pub fn write(&self, name: &str, text: &str) {
        std::fs::write(self.path(name), text).unwrap();
    }

    /// Returns the path of a file.
    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn flag(&self, flag: &str, name: &str) -> String {
        format!("--{flag}={}", self.path(name).display())
    }

    /// Returns the issuer of the backend's certificates as a `caBundle`.
    pub fn bundle(&self) -> String {
        STANDARD.encode(std::fs::read(self.path("back-ca.crt")).unwrap())
    }

    /// Returns the flags of the server before.
    pub fn before(&self) -> Vec<String> {
        vec![
            self.flag("proxy-client-cert-file", "proxy.crt"),
            self.flag("proxy-client-key-file", "proxy.key"),
        ]
    }

    /// Returns the flags of the server behind.
    pub fn behind(&self) -> Vec<String> {
        let mut flags = self.trusting_proxies();
        flags.push(self.flag("tls-cert-file", "back.crt"));
        flags.push(self.flag("tls-private-key-file", "back.key"));
        flags
    }

    /// Returns the flags of a server that believes front proxies.
    pub fn trusting_proxies(&self) -> Vec<String> {
        vec![
            self.flag("requestheader-client-ca-file", "proxy-ca.crt"),
            format!("--requestheader-allowed-names={PROXY_NAME}"),
            "--requestheader-username-headers=X-Remote-User".to_owned(),
            "--requestheader-uid-headers=X-Remote-Uid".to_owned(),
            "--requestheader-group-headers=X-Remote-Group".to_owned(),
            "--requestheader-extra-headers-prefix=X-Remote-Extra-".to_owned(),
        ]
    }

    /// Returns the TLS of a server that requires a certificate of the front proxies.
    pub fn acceptor(&self) -> TlsAcceptor {
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let mut roots = RootCertStore::empty();
        let authority = CertificateDer::from_pem_file(self.path("proxy-ca.crt")).unwrap();
        roots.add(authority).unwrap();
        let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), Arc::clone(&provider));
        let builder = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_client_cert_verifier(verifier.build().unwrap());
        let chain = vec![CertificateDer::from_pem_file(self.path("back.crt")).unwrap()];
        let key = PrivateKeyDer::from_pem_file(self.path("back.key")).unwrap();
        TlsAcceptor::from(Arc::new(builder.with_single_cert(chain, key).unwrap()))
    }
}

/// Server of `metrics.k8s.io/v1beta1` that only trusts front proxies. On a request for `closed`, it closes a connection
/// on which it has responded before.
pub struct MetricsServer {
    /// Port that it listens on.
    pub port: u16,
    /// The requests that it got, each as `USER METHOD PATH`.
    requests: Arc<Mutex<Vec<String>>>,
}

impl MetricsServer {
    /// Starts it in this process.
    pub async fn start(certificates: &Certificates) -> Self {
        let acceptor = certificates.acceptor();
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
        let server = Self {
            port: listener.local_addr().unwrap().port(),
            requests: Arc::default(),
        };
        let requests = Arc::clone(&server.requests);
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let (acceptor, requests) = (acceptor.clone(), Arc::clone(&requests));
                tokio::spawn(async move {
                    let Ok(stream) = acceptor.accept(stream).await else {
                        return;
                    };
                    let served = AtomicBool::new(false);
                    let service = service_fn(move |request: Request<Incoming>| {
                        let again = served.swap(true, Ordering::Relaxed);
                        let answer = if again && request.uri().path().ends_with("/closed") {
                            Err(std::io::Error::other("the connection is closed"))
                        } else if request.headers().contains_key("upgrade") {
                            Ok(echo(request))
                        } else {
                            Ok(answer(&request, &requests))
                        };
                        async move { answer }
                    });
                    let _ = http1::Builder::new()
                        .serve_connection(TokioIo::new(stream), service)
                        .with_upgrades()
                        .await;
                });
            }
        });
        server
    }

    /// Returns the requests that it got, each as `USER METHOD PATH`.
    pub fn requests(&self) -> Vec<String> {
        self.requests.lock().clone()
    }
}

const GROUP: &str = "/apis/metrics.k8s.io/v1beta1";

/// Upgrades a connection as requested, and echoes its bytes from then on.
fn echo(request: Request<Incoming>) -> Response<Full<Bytes>> {
    let protocol = request.headers()["upgrade"].clone();
    let received = headers_as_json(&request);
    tokio::spawn(async move {
        let connection = hyper::upgrade::on(request).await.unwrap();
        let (mut from, mut to) = tokio::io::split(TokioIo::new(connection));
        let _ = tokio::io::copy(&mut from, &mut to).await;
    });
    let response = Response::builder()
        .status(101)
        .header("Connection", "Upgrade")
        .header("X-Received-Headers", received.to_string());
    response.header("Upgrade", protocol).body(Full::default()).unwrap()
}

/// Returns the values of each header of a request.
fn headers_as_json(request: &Request<Incoming>) -> Value {
    let values = |name| -> Vec<String> {
        let values = request.headers().get_all(name).iter();
        values
            .map(|value| String::from_utf8_lossy(value.as_bytes()).into_owned())
            .collect()
    };
    let headers = request
        .headers()
        .keys()
        .map(|name| (name.to_string(), json!(values(name))));
    Value::Object(headers.collect())
}

fn answer(request: &Request<Incoming>, requests: &Mutex<Vec<String>>) -> Response<Full<Bytes>> {
    let header = |name: &str| {
        let value = request.headers().get(name).and_then(|value| value.to_str().ok());
        value.unwrap_or_default().to_owned()
    };
    let path = request.uri().path();
    let line = format!("{} {} {path}", header("x-remote-user"), request.method());
    requests.lock().push(line);
    if path == "/openapi/v2" {
        let response = Response::builder().header("Content-Type", "application/json");
        return response.body(Full::new(Bytes::from(openapi().to_string()))).unwrap();
    }
    let (code, body) = match path.strip_prefix(GROUP) {
        Some("" | "/") => (StatusCode::OK, resources()),
        Some("/forwarded") => (
            StatusCode::OK,
            json!({"kind": "Forwarded", "headers": headers_as_json(request)}),
        ),
        Some("/closed") => (StatusCode::OK, json!({"kind": "Closed"})),
        Some("/nodes") => (StatusCode::OK, list("NodeMetricsList", vec![node()])),
        Some("/switched") => {
            let response = Response::builder().status(101).header("Connection", "Upgrade");
            return response.header("Upgrade", "other").body(Full::default()).unwrap();
        }
        Some("/redirected") => {
            let response = Response::builder().status(302).header("Location", "/elsewhere");
            return response.body(Full::default()).unwrap();
        }
        Some("/pods" | "/namespaces/default/pods") => {
            let accept = header("accept");
            match accept.contains("as=Table") {
                true => (StatusCode::OK, table()),
                false => (StatusCode::OK, list("PodMetricsList", vec![pod()])),
            }
        }
        _ => (
            StatusCode::NOT_FOUND,
            json!({"kind": "Status", "apiVersion": "v1", "code": 404}),
        ),
    };
    let response = Response::builder()
        .status(code)
        .header("Content-Type", "application/json");
    response.body(Full::new(Bytes::from(body.to_string()))).unwrap()
}

/// Returns the one OpenAPI document, of version 2.
fn openapi() -> Value {
    let reference = json!({"$ref": "#/definitions/NodeMetrics"});
    let get = json!({"operationId": "readNodes", "produces": ["application/json"],
        "responses": {"200": {"description": "OK", "schema": reference}}});
    json!({"swagger": "2.0", "info": {"title": "metrics", "version": "1"},
        "paths": {"/apis/metrics.k8s.io/v1beta1/nodes": {"get": get}},
        "definitions": {"NodeMetrics": {"type": "object", "properties": {"window": {"type": "string"}}}}})
}

fn resources() -> Value {
    let resource = |name: &str, kind: &str, namespaced: bool| json!({"name": name, "singularName": "", "namespaced": namespaced, "kind": kind, "verbs": ["get", "list"]});
    json!({"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": "metrics.k8s.io/v1beta1",
        "resources": [resource("nodes", "NodeMetrics", false), resource("pods", "PodMetrics", true)]})
}

fn list(kind: &str, items: Vec<Value>) -> Value {
    json!({"kind": kind, "apiVersion": "metrics.k8s.io/v1beta1", "metadata": {}, "items": items})
}

fn node() -> Value {
    json!({"metadata": {"name": "node-1", "creationTimestamp": "2026-01-01T00:00:00Z"},
        "timestamp": "2026-01-01T00:00:00Z", "window": "15s", "usage": {"cpu": "250m", "memory": "1Gi"}})
}

fn pod() -> Value {
    json!({"metadata": {"name": "web", "namespace": "default", "creationTimestamp": "2026-01-01T00:00:00Z"},
        "timestamp": "2026-01-01T00:00:00Z", "window": "15s",
        "containers": [{"name": "c", "usage": {"cpu": "100m", "memory": "64Mi"}}]})
}

fn table() -> Value {
    let column = |name: &str| json!({"name": name, "type": "string", "format": "", "description": "", "priority": 0});
    json!({"kind": "Table", "apiVersion": "meta.k8s.io/v1", "metadata": {},
        "columnDefinitions": [column("Name"), column("cpu"), column("memory")],
        "rows": [{"cells": ["web", "100m", "64Mi"], "object": {"kind": "PartialObjectMetadata",
            "apiVersion": "meta.k8s.io/v1", "metadata": {"name": "web", "namespace": "default"}}}]})
}
