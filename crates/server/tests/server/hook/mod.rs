//! Webhooks for tests: HTTPS servers in this process that answer as configured and remember their requests.

#![allow(
    dead_code,
    missing_docs,
    unreachable_pub,
    clippy::expect_used,
    clippy::panic,
    clippy::unwrap_used
)]

use std::convert::Infallible;
use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use http::{Request, Response};
use http_body_util::{BodyExt as _, Full};
use hyper::body::Incoming;
use hyper::server::conn::{http1, http2};
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo};
use parking_lot::Mutex;
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair, SanType};
use rustls::ServerConfig;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer};
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::sync::Barrier;
use tokio_rustls::TlsAcceptor;

/// The answer of a webhook.
pub enum Reply {
    /// An AdmissionReview with this response, which needs no uid.
    Response(Value),
    /// A response with this status code and body.
    Raw(u16, String),
    /// No answer at all.
    Nothing,
    /// Permission, sent once as many calls as this barrier counts are waiting.
    Together(Arc<Barrier>),
}

/// Returns an answer that allows a write.
pub fn allow() -> Reply {
    Reply::Response(json!({"allowed": true}))
}

/// Returns an answer that denies a write.
pub fn deny(message: &str) -> Reply {
    Reply::Response(json!({"allowed": false, "status": {"message": message}}))
}

/// Returns an answer that allows a write and patches it.
pub fn patch(operations: &Value) -> Reply {
    let patch = STANDARD.encode(operations.to_string());
    Reply::Response(json!({"allowed": true, "patchType": "JSONPatch", "patch": patch}))
}

/// The certificate of a webhook and the bundle that makes it trusted.
pub struct Identity {
    certificate: CertificateDer<'static>,
    key: KeyPair,
    /// The certificate of the authority, in PEM.
    authority: String,
}

impl Identity {
    /// Creates a certificate signed by an authority, for `127.0.0.1` and `names`.
    pub fn for_names(names: &[&str]) -> Self {
        let names: Vec<SanType> = names
            .iter()
            .map(|&name| SanType::DnsName(name.try_into().unwrap()))
            .chain([SanType::IpAddress(IpAddr::V4(Ipv4Addr::LOCALHOST))])
            .collect();
        Self::with(|params| params.subject_alt_names = names)
    }

    /// Creates a certificate signed by an authority, adjusted by `adjust`.
    pub fn with(adjust: impl FnOnce(&mut CertificateParams)) -> Self {
        let mut authority = CertificateParams::default();
        authority.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let authority = CertifiedIssuer::self_signed(authority, KeyPair::generate().unwrap()).unwrap();
        let mut params = CertificateParams::default();
        adjust(&mut params);
        let key = KeyPair::generate().unwrap();
        let certificate = params.signed_by(&key, &authority).unwrap();
        Self {
            certificate: certificate.der().clone(),
            key,
            authority: authority.pem(),
        }
    }

    /// Does the same as [`Identity::with`], but trusts the certificate itself instead of its authority.
    pub fn pinned(adjust: impl FnOnce(&mut CertificateParams)) -> Self {
        let mut identity = Self::with(|params| {
            params.subject_alt_names = vec![SanType::IpAddress(IpAddr::V4(Ipv4Addr::LOCALHOST))];
            adjust(params);
        });
        let body = STANDARD.encode(&identity.certificate);
        identity.authority = format!("-----BEGIN CERTIFICATE-----\n{body}\n-----END CERTIFICATE-----\n");
        identity
    }

    /// Creates a certificate that is neither an authority nor signed by one, and is trusted by itself.
    pub fn self_signed() -> Self {
        let mut params = CertificateParams::default();
        params.subject_alt_names = vec![SanType::IpAddress(IpAddr::V4(Ipv4Addr::LOCALHOST))];
        Self::signed_by_itself(&params)
    }

    /// Creates an authority that serves with its own certificate.
    pub fn of_authority_itself() -> Self {
        let mut params = CertificateParams::default();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.subject_alt_names = vec![SanType::IpAddress(IpAddr::V4(Ipv4Addr::LOCALHOST))];
        Self::signed_by_itself(&params)
    }

    fn signed_by_itself(params: &CertificateParams) -> Self {
        let key = KeyPair::generate().unwrap();
        let certificate = params.self_signed(&key).unwrap();
        Self {
            authority: certificate.pem(),
            certificate: certificate.der().clone(),
            key,
        }
    }
}

/// A call of a webhook.
struct Call {
    /// The path with its query.
    path: String,
    /// The `Authorization` header; empty if there is none.
    authorization: String,
    /// The `traceparent` header; empty if there is none.
    trace_parent: String,
    review: Value,
}

/// A running webhook.
pub struct Hook {
    /// The port on which it listens.
    pub port: u16,
    /// The CA certificates of its certificate, as a `caBundle`.
    pub bundle: String,
    calls: Arc<Mutex<Vec<Call>>>,
    connections: Arc<AtomicUsize>,
}

type Answer = dyn Fn(&Value) -> Reply + Send + Sync;

impl Hook {
    pub async fn start(answer: impl Fn(&Value) -> Reply + Send + Sync + 'static) -> Self {
        Self::start_as(Identity::for_names(&[]), answer).await
    }

    pub async fn start_as(identity: Identity, answer: impl Fn(&Value) -> Reply + Send + Sync + 'static) -> Self {
        Self::start_with(identity, &[b"http/1.1"], answer).await
    }

    /// Starts a webhook that also supports HTTP/2.
    pub async fn start_http2(answer: impl Fn(&Value) -> Reply + Send + Sync + 'static) -> Self {
        Self::start_with(Identity::for_names(&["web.default.svc"]), &[b"h2", b"http/1.1"], answer).await
    }

    async fn start_with(
        identity: Identity,
        protocols: &[&[u8]],
        answer: impl Fn(&Value) -> Reply + Send + Sync + 'static,
    ) -> Self {
        let key = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(identity.key.serialize_der()));
        let with_provider =
            ServerConfig::builder_with_provider(Arc::new(rustls::crypto::aws_lc_rs::default_provider()));
        let builder = with_provider
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth();
        let mut tls = builder.with_single_cert(vec![identity.certificate], key).unwrap();
        tls.alpn_protocols = protocols.iter().map(|protocol| protocol.to_vec()).collect();
        let acceptor = TlsAcceptor::from(Arc::new(tls));
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
        let hook = Self {
            port: listener.local_addr().unwrap().port(),
            bundle: STANDARD.encode(identity.authority),
            calls: Arc::default(),
            connections: Arc::default(),
        };
        let (answer, calls, connections): (Arc<Answer>, _, _) =
            (Arc::new(answer), Arc::clone(&hook.calls), Arc::clone(&hook.connections));
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let (acceptor, answer, calls) = (acceptor.clone(), Arc::clone(&answer), Arc::clone(&calls));
                connections.fetch_add(1, Ordering::Relaxed);
                tokio::spawn(async move {
                    let Ok(stream) = acceptor.accept(stream).await else {
                        return;
                    };
                    let service = service_fn(move |request| {
                        let (answer, calls) = (Arc::clone(&answer), Arc::clone(&calls));
                        async move { respond(request, answer.as_ref(), &calls).await }
                    });
                    let http2 = stream.get_ref().1.alpn_protocol() == Some(b"h2");
                    let stream = TokioIo::new(stream);
                    let _ = match http2 {
                        true => {
                            http2::Builder::new(TokioExecutor::new())
                                .serve_connection(stream, service)
                                .await
                        }
                        false => http1::Builder::new().serve_connection(stream, service).await,
                    };
                });
            }
        });
        hook
    }

    /// Returns the URL of the webhook at that path.
    pub fn url(&self, path: &str) -> String {
        format!("https://127.0.0.1:{}{path}", self.port)
    }

    /// Returns the reviews that the webhook received, in order.
    pub fn calls(&self) -> Vec<Value> {
        self.calls.lock().iter().map(|call| call.review.clone()).collect()
    }

    /// Returns the paths that were called, with their queries.
    pub fn paths(&self) -> Vec<String> {
        self.calls.lock().iter().map(|call| call.path.clone()).collect()
    }

    /// Returns the `Authorization` headers of the calls; empty for a call without one.
    pub fn authorizations(&self) -> Vec<String> {
        self.calls
            .lock()
            .iter()
            .map(|call| call.authorization.clone())
            .collect()
    }

    /// Returns the `traceparent` headers of the calls; empty for a call without one.
    pub fn trace_parents(&self) -> Vec<String> {
        self.calls.lock().iter().map(|call| call.trace_parent.clone()).collect()
    }

    /// Returns the number of connections.
    pub fn connections(&self) -> usize {
        self.connections.load(Ordering::Relaxed)
    }

    /// Returns a webhook configuration of that name for these operations and resources (`GROUP/VERSION/RESOURCE`), with
    /// the fields of `more`.
    pub fn webhook(&self, name: &str, operations: &[&str], resource: &str, more: Value) -> Value {
        let parts: Vec<&str> = resource.splitn(3, '/').collect();
        let mut webhook = json!({
            "name": name,
            "clientConfig": {"url": self.url("/hook"), "caBundle": self.bundle},
            "rules": [{
                "operations": operations, "apiGroups": [parts[0]], "apiVersions": [parts[1]], "resources": [parts[2]],
            }],
            "sideEffects": "None",
            "admissionReviewVersions": ["v1"],
        });
        for (key, value) in more.as_object().cloned().unwrap_or_default() {
            webhook[key] = value;
        }
        webhook
    }
}

async fn respond(
    request: Request<Incoming>,
    answer: &Answer,
    calls: &Mutex<Vec<Call>>,
) -> Result<Response<Full<Bytes>>, Infallible> {
    let path = request.uri().to_string();
    let header = |name: &str| {
        let value = request.headers().get(name).and_then(|value| value.to_str().ok());
        value.unwrap_or_default().to_owned()
    };
    let (authorization, trace_parent) = (header("authorization"), header("traceparent"));
    let body = request.into_body().collect().await.unwrap().to_bytes();
    let review: Value = serde_json::from_slice(&body).unwrap();
    let reply = answer(&review);
    calls.lock().push(Call {
        path,
        authorization,
        trace_parent,
        review: review.clone(),
    });
    let media_type = match reply {
        Reply::Raw(..) => "text/plain",
        _ => "application/json",
    };
    let (code, body) = match reply {
        Reply::Response(mut response) => {
            response["uid"] = review["request"]["uid"].clone();
            let answer = json!({"apiVersion": review["apiVersion"], "kind": "AdmissionReview", "response": response});
            (200, answer.to_string())
        }
        Reply::Raw(code, body) => (code, body),
        Reply::Together(barrier) => {
            barrier.wait().await;
            let response = json!({"uid": review["request"]["uid"], "allowed": true});
            let answer = json!({"apiVersion": review["apiVersion"], "kind": "AdmissionReview", "response": response});
            (200, answer.to_string())
        }
        Reply::Nothing => {
            tokio::time::sleep(Duration::from_secs(3600)).await;
            (200, String::new())
        }
    };
    let answer = Response::builder().status(code).header("Content-Type", media_type);
    Ok(answer.body(Full::new(Bytes::from(body))).unwrap())
}
