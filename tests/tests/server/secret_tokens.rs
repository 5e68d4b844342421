//! Tokens in Secrets: those of service accounts, and bootstrap tokens.

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use bytes::Bytes;
use conformance::{Binary, Client, MERGE, Server, Target};
use http::{Method, StatusCode};
use rcgen::{KeyPair, SigningKey as _};
use serde_json::{Value, json};

const ACCOUNTS: &str = "/api/v1/namespaces/default/serviceaccounts";
const SECRETS: &str = "/api/v1/namespaces/default/secrets";
const WHOAMI: &str = "/apis/authentication.k8s.io/v1/selfsubjectreviews";
const LAST_USED: &str = "kubernetes.io/legacy-token-last-used";

/// Returns a token with these claims, signed with the server's key for service accounts.
fn sign(server: &Server, claims: &Value) -> &'static str {
    let pem = std::fs::read_to_string(server.data_dir().join("pki/sa.key")).unwrap();
    let key = KeyPair::from_pem(&pem).unwrap();
    let encode = |part: &Value| URL_SAFE_NO_PAD.encode(part.to_string());
    let signed = format!("{}.{}", encode(&json!({"alg": "ES256"})), encode(claims));
    let signature = plain_signature(&key.sign(signed.as_bytes()).unwrap());
    format!("{signed}.{}", URL_SAFE_NO_PAD.encode(signature)).leak()
}

/// Converts a signature from DER, a sequence of two numbers, to two numbers of 32 bytes.
fn plain_signature(der: &[u8]) -> Vec<u8> {
    let (mut plain, mut rest) = (Vec::new(), &der[2..]);
    for _ in 0..2 {
        let length = usize::from(rest[1]);
        let signed = &rest[2..2 + length];
        let number = &signed[length.saturating_sub(32)..];
        plain.resize(plain.len() + 32 - number.len(), 0);
        plain.extend(number);
        rest = &rest[2 + length..];
    }
    plain
}

/// Response to a request for the user of a token.
struct Answer {
    status: StatusCode,
    warning: Option<String>,
    user: Value,
}

async fn whoami(server: &Server, token: &'static str) -> Answer {
    let target = Target::new(server).unwrap().with_token(token);
    let mut connection = target.connect().await.unwrap();
    let review = json!({"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"});
    let body = Bytes::from(review.to_string());
    let response = connection
        .open(Method::POST, WHOAMI, "application/json", body)
        .await
        .unwrap();
    let (parts, body) = response.into_parts();
    let body = http_body_util::BodyExt::collect(body).await.unwrap().to_bytes();
    let review: Value = serde_json::from_slice(&body).unwrap();
    Answer {
        status: parts.status,
        warning: parts
            .headers
            .get("warning")
            .map(|text| text.to_str().unwrap().to_owned()),
        user: review["status"]["userInfo"].clone(),
    }
}

/// A server with the service account `robot` and the Secret `robot-token`, which contains its token.
struct Cluster {
    server: Server,
    admin: Client,
    claims: Value,
    token: &'static str,
}

impl Cluster {
    async fn start() -> Self {
        let server = Server::start(&Binary::debug().unwrap(), &[]).unwrap();
        let mut admin = Client::new(&server).await;
        let account = json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "robot"}});
        let made = admin.make(ACCOUNTS, account).await;
        let claims = json!({
            "iss": "kubernetes/serviceaccount",
            "sub": "system:serviceaccount:default:robot",
            "kubernetes.io/serviceaccount/namespace": "default",
            "kubernetes.io/serviceaccount/secret.name": "robot-token",
            "kubernetes.io/serviceaccount/service-account.name": "robot",
            "kubernetes.io/serviceaccount/service-account.uid": made["metadata"]["uid"],
        });
        let token = sign(&server, &claims);
        let secret = json!({"apiVersion": "v1", "kind": "Secret", "type": "kubernetes.io/service-account-token",
            "metadata": {"name": "robot-token", "annotations": {"kubernetes.io/service-account.name": "robot"}},
            "data": {"token": STANDARD.encode(token)}});
        admin.make(SECRETS, secret).await;
        Self {
            server,
            admin,
            claims,
            token,
        }
    }

    async fn status(&self) -> StatusCode {
        whoami(&self.server, self.token).await.status
    }

    async fn change_secret(&mut self, change: Value) {
        let path = format!("{SECRETS}/robot-token");
        let (status, answer) = self.admin.ask(Method::PATCH, &path, MERGE, change).await;
        assert_eq!(status, StatusCode::OK, "{answer}");
    }

    /// Returns the reason that a TokenReview gives for the rejection of a token.
    async fn error(&mut self, token: &str) -> String {
        let review = json!({"apiVersion": "authentication.k8s.io/v1", "kind": "TokenReview", "spec": {"token": token}});
        let answer = self
            .admin
            .make("/apis/authentication.k8s.io/v1/tokenreviews", review)
            .await;
        assert_ne!(answer["status"]["authenticated"], true, "{answer}");
        answer["status"]["error"].as_str().unwrap().to_owned()
    }
}

#[tokio::test]
async fn token_in_secret_is_accepted_and_its_use_noted() {
    let mut cluster = Cluster::start().await;
    let answer = whoami(&cluster.server, cluster.token).await;
    assert_eq!((answer.status, answer.warning), (StatusCode::CREATED, None));
    assert_eq!(answer.user["username"], "system:serviceaccount:default:robot");
    let groups = [
        "system:serviceaccounts",
        "system:serviceaccounts:default",
        "system:authenticated",
    ];
    assert_eq!(answer.user["groups"], json!(groups));
    assert_eq!(
        answer.user["uid"],
        cluster.claims["kubernetes.io/serviceaccount/service-account.uid"]
    );
    let label = |secret: &Value| secret["metadata"]["labels"][LAST_USED].as_str().map(str::len);
    let path = format!("{SECRETS}/robot-token");
    let noted = cluster.admin.until(&path, |_, secret| label(secret) == Some(10)).await;
    assert_eq!(noted["metadata"]["managedFields"][1]["manager"], "kube-apiserver");
    // A day is noted once.
    assert_eq!(cluster.status().await, StatusCode::CREATED);
    let version = |secret: &Value| secret["metadata"]["resourceVersion"].clone();
    let (_, same) = cluster.admin.get(&path).await;
    assert_eq!(version(&same), version(&noted));
    let (_, metrics) = cluster.admin.get("/metrics").await;
    let metrics = metrics.as_str().unwrap().to_owned();
    for line in [
        "serviceaccount_legacy_tokens_total 2",
        "serviceaccount_legacy_manual_token_uses_total 2",
        "serviceaccount_legacy_auto_token_uses_total 0",
    ] {
        assert!(metrics.lines().any(|known| known == line), "{line}");
    }
}

#[tokio::test]
async fn token_of_an_autogenerated_secret_is_warned_of() {
    let mut cluster = Cluster::start().await;
    let lists = json!({"secrets": [{"name": "robot-token"}]});
    let path = format!("{ACCOUNTS}/robot");
    cluster.admin.ask(Method::PATCH, &path, MERGE, lists).await;
    let answer = whoami(&cluster.server, cluster.token).await;
    assert_eq!(answer.status, StatusCode::CREATED);
    assert_eq!(
        answer.warning.unwrap(),
        "299 - \"Use tokens from the TokenRequest API or manually created secret-based tokens instead of auto-generated \
         secret-based tokens.\""
    );
}

#[tokio::test]
async fn token_is_rejected_unless_secret_and_account_match() {
    let mut cluster = Cluster::start().await;
    let with = |cluster: &Cluster, claim: &str, value: Value| {
        let mut claims = cluster.claims.clone();
        claims[claim] = value;
        sign(&cluster.server, &claims)
    };
    for (claim, value, why) in [
        ("sub", json!(""), "sub claim is missing"),
        (
            "sub",
            json!("system:serviceaccount:default:other"),
            "sub claim is invalid",
        ),
        (
            "kubernetes.io/serviceaccount/secret.name",
            json!("other"),
            "Token has been invalidated",
        ),
        (
            "kubernetes.io/serviceaccount/service-account.uid",
            json!("other"),
            "Token does not match server's copy",
        ),
        (
            "aud",
            json!(["elsewhere"]),
            "token audiences [\"elsewhere\"] is invalid for the target audiences [\"https://kubernetes.default.svc\"]",
        ),
    ] {
        let token = with(&cluster, claim, value);
        assert_eq!(cluster.error(token).await, format!("[invalid bearer token, {why}]"));
    }
    let (signed, _) = cluster.token.rsplit_once('.').unwrap();
    let forged = format!("{signed}.{}", URL_SAFE_NO_PAD.encode([1; 64]));
    let why = "[invalid bearer token, failed to verify signature]";
    assert_eq!(cluster.error(&forged).await, why);
    assert_eq!(cluster.status().await, StatusCode::CREATED);
    cluster.admin.delete(&format!("{ACCOUNTS}/robot"), Value::Null).await;
    assert_eq!(cluster.status().await, StatusCode::UNAUTHORIZED);
}

#[tokio::test]
async fn token_of_an_invalid_or_deleted_secret_is_rejected() {
    let mut cluster = Cluster::start().await;
    let label = "kubernetes.io/legacy-token-invalid-since";
    cluster
        .change_secret(json!({"metadata": {"labels": {label: "2026-01-01"}}}))
        .await;
    assert_eq!(cluster.status().await, StatusCode::UNAUTHORIZED);
    let token = cluster.token;
    let why = cluster.error(token).await;
    let told = "the token in secret default/robot-token for service account default/robot has been marked invalid.";
    assert!(why.contains(told), "{why}");
    // Attempts count as uses, as in the reference.
    let path = format!("{SECRETS}/robot-token");
    let is_noted = |_, secret: &Value| secret["metadata"]["labels"][LAST_USED].is_string();
    cluster.admin.until(&path, is_noted).await;
    cluster
        .change_secret(json!({"metadata": {"labels": {label: null}}}))
        .await;
    assert_eq!(cluster.status().await, StatusCode::CREATED);
    cluster.admin.delete(&path, Value::Null).await;
    assert_eq!(cluster.status().await, StatusCode::UNAUTHORIZED);
}

#[tokio::test]
async fn bootstrap_token_joins_with_its_groups_until_it_expires() {
    const TOKEN: &str = "abcdef.0123456789abcdef";
    let enabled = Server::start(&Binary::debug().unwrap(), &["--enable-bootstrap-token-auth"]).unwrap();
    let disabled = Server::start(&Binary::debug().unwrap(), &[]).unwrap();
    let secret = json!({"apiVersion": "v1", "kind": "Secret", "type": "bootstrap.kubernetes.io/token",
        "metadata": {"name": "bootstrap-token-abcdef"},
        "stringData": {"token-id": "abcdef", "token-secret": "0123456789abcdef", "usage-bootstrap-authentication": "true",
            "auth-extra-groups": "system:bootstrappers:kubeadm:default-node-token"}});
    for (server, status) in [(&enabled, StatusCode::CREATED), (&disabled, StatusCode::UNAUTHORIZED)] {
        assert_eq!(whoami(server, TOKEN).await.status, StatusCode::UNAUTHORIZED);
        let mut admin = Client::new(server).await;
        admin
            .make("/api/v1/namespaces/kube-system/secrets", secret.clone())
            .await;
        assert_eq!(whoami(server, TOKEN).await.status, status);
    }
    let answer = whoami(&enabled, TOKEN).await;
    assert_eq!(answer.user["username"], "system:bootstrap:abcdef");
    let groups = [
        "system:bootstrappers",
        "system:bootstrappers:kubeadm:default-node-token",
        "system:authenticated",
    ];
    assert_eq!(answer.user["groups"], json!(groups));
    assert_eq!(
        whoami(&enabled, "abcdef.0123456789abcdee").await.status,
        StatusCode::UNAUTHORIZED
    );
    let mut admin = Client::new(&enabled).await;
    let path = "/api/v1/namespaces/kube-system/secrets/bootstrap-token-abcdef";
    let past = json!({"stringData": {"expiration": "2020-01-01T00:00:00Z"}});
    let (status, answer) = admin.ask(Method::PATCH, path, MERGE, past).await;
    assert_eq!(status, StatusCode::OK, "{answer}");
    assert_eq!(whoami(&enabled, TOKEN).await.status, StatusCode::UNAUTHORIZED);
}
