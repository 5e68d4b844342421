//! An OpenID Connect issuer for tests, and a webhook that reviews tokens: an HTTPS server in this process with the documents
//! of both.

#![allow(
    clippy::unwrap_used,
    clippy::missing_panics_doc,
    reason = "what fails here is the test"
)]

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use aws_lc_rs::rand::SystemRandom;
use aws_lc_rs::rsa::KeySize;
use aws_lc_rs::signature::{KeyPair as _, RSA_PKCS1_SHA256, RsaKeyPair};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use bytes::Bytes;
use http::{Request, Response};
use http_body_util::{BodyExt as _, Full};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use parking_lot::Mutex;
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair, SanType};
use rustls::ServerConfig;
use rustls::pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;

/// Path of the discovery document.
const DISCOVERY: &str = "/.well-known/openid-configuration";
const KEYS: &str = "/keys";

/// A private key of the issuer.
pub struct TokenKey {
    id: &'static str,
    pair: RsaKeyPair,
}

impl TokenKey {
    /// Creates a key with that id.
    pub fn new(id: &'static str) -> Self {
        Self {
            id,
            pair: RsaKeyPair::generate(KeySize::Rsa2048).unwrap(),
        }
    }

    fn public(&self) -> Value {
        let (key, encode) = (self.pair.public_key(), |bytes: &[u8]| URL_SAFE_NO_PAD.encode(bytes));
        json!({"kty": "RSA", "use": "sig", "alg": "RS256", "kid": self.id,
            "n": encode(key.modulus().big_endian_without_leading_zero()),
            "e": encode(key.exponent().big_endian_without_leading_zero())})
    }

    /// Returns a token with these claims.
    pub fn sign(&self, claims: &Value) -> String {
        let header = json!({"alg": "RS256", "kid": self.id, "typ": "JWT"});
        let part = |value: &Value| URL_SAFE_NO_PAD.encode(value.to_string());
        let signed = format!("{}.{}", part(&header), part(claims));
        let mut signature = vec![0; self.pair.public_modulus_len()];
        let random = SystemRandom::new();
        self.pair
            .sign(&RSA_PKCS1_SHA256, &random, signed.as_bytes(), &mut signature)
            .unwrap();
        format!("{signed}.{}", URL_SAFE_NO_PAD.encode(signature))
    }
}

/// A running issuer.
pub struct TestIssuer {
    /// URL of the issuer.
    pub url: String,
    /// Certificate of its authority in PEM.
    pub authority: String,
    /// Documents by path.
    documents: Documents,
    /// Requests: the path, and the body if there is one.
    requests: Arc<Mutex<Vec<(String, Value)>>>,
}

type Documents = Arc<Mutex<BTreeMap<String, (u16, String)>>>;

impl TestIssuer {
    /// Starts an issuer without documents, so that its discovery fails.
    pub async fn start() -> Self {
        let mut authority = CertificateParams::default();
        authority.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let authority = CertifiedIssuer::self_signed(authority, KeyPair::generate().unwrap()).unwrap();
        let mut params = CertificateParams::default();
        params.subject_alt_names = vec![SanType::IpAddress(IpAddr::V4(Ipv4Addr::LOCALHOST))];
        let key = KeyPair::generate().unwrap();
        let certificate = params.signed_by(&key, &authority).unwrap();
        let blank = ServerConfig::builder_with_provider(Arc::new(rustls::crypto::aws_lc_rs::default_provider()));
        let builder = blank.with_safe_default_protocol_versions().unwrap();
        let key = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(key.serialize_der()));
        let tls = builder
            .with_no_client_auth()
            .with_single_cert(vec![certificate.der().clone()], key);
        let acceptor = TlsAcceptor::from(Arc::new(tls.unwrap()));
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
        let issuer = Self {
            url: format!("https://127.0.0.1:{}", listener.local_addr().unwrap().port()),
            authority: authority.pem(),
            documents: Arc::default(),
            requests: Arc::default(),
        };
        let (documents, requests) = (Arc::clone(&issuer.documents), Arc::clone(&issuer.requests));
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let (acceptor, documents, requests) = (acceptor.clone(), Arc::clone(&documents), Arc::clone(&requests));
                tokio::spawn(async move {
                    let Ok(stream) = acceptor.accept(stream).await else {
                        return;
                    };
                    let service = service_fn(|request| respond(request, &documents, &requests));
                    let connection = http1::Builder::new().serve_connection(TokioIo::new(stream), service);
                    let _ = connection.await;
                });
            }
        });
        issuer
    }

    /// Answers requests for `path` with this status and document from now on.
    pub fn serve(&self, path: &str, status: u16, document: &Value) {
        self.documents
            .lock()
            .insert(path.to_owned(), (status, document.to_string()));
    }

    /// Publishes the discovery document and these keys.
    pub fn publish(&self, keys: &[&TokenKey]) {
        let discovery = json!({"issuer": self.url, "jwks_uri": format!("{}{KEYS}", self.url)});
        self.serve(DISCOVERY, 200, &discovery);
        let keys: Vec<Value> = keys.iter().map(|key| key.public()).collect();
        self.serve(KEYS, 200, &json!({"keys": keys}));
    }

    /// Returns the bodies of the requests for `path`, without its query.
    pub fn requests(&self, path: &str) -> Vec<Value> {
        let all = self.requests.lock();
        let requests = all.iter().filter(|(requested, _)| requested == path);
        requests.map(|(_, body)| body.clone()).collect()
    }

    /// Returns claims of a token that expires after this number of seconds, with further members.
    pub fn claims(&self, audience: &str, seconds: i64, more: &Value) -> Value {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs();
        let end = i64::try_from(now).unwrap() + seconds;
        let mut claims = json!({"iss": self.url, "aud": audience, "exp": end, "iat": now});
        for (name, value) in more.as_object().unwrap() {
            claims[name] = value.clone();
        }
        claims
    }
}

async fn respond(
    request: Request<Incoming>,
    documents: &Documents,
    requests: &Mutex<Vec<(String, Value)>>,
) -> Result<Response<Full<Bytes>>, Infallible> {
    let path = request.uri().path().to_owned();
    let bytes = request
        .into_body()
        .collect()
        .await
        .map(http_body_util::Collected::to_bytes);
    let body = serde_json::from_slice(&bytes.unwrap_or_default()).unwrap_or_default();
    requests.lock().push((path.clone(), body));
    let found = documents.lock().get(&path).cloned();
    let (status, document) = found.unwrap_or((503, "not yet".to_owned()));
    let response = Response::builder()
        .status(status)
        .header("content-type", "application/json");
    Ok(response.body(Full::new(document.into())).unwrap())
}
