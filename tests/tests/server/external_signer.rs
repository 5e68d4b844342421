//! Service account tokens that an external signer signs.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use aws_lc_rs::rand::SystemRandom;
use aws_lc_rs::signature::{ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use conformance::{Binary, Client, Server, Target};
use http::{Method, StatusCode};
use rcgen::{KeyPair, PublicKeyData as _};
use serde_json::{Value, json};
use tempfile::TempDir;
use test_support::token_signer::{PublishedKey, Sign, SignerState, TokenSigner};

const ACCOUNTS: &str = "/api/v1/namespaces/default/serviceaccounts";
const TOKENS: &str = "/api/v1/namespaces/default/serviceaccounts/robot/token";
const REVIEWS: &str = "/apis/authentication.k8s.io/v1/tokenreviews";
const WHOAMI: &str = "/apis/authentication.k8s.io/v1/selfsubjectreviews";
const CONFIGURATION: &str = "/.well-known/openid-configuration";
const KEYS: &str = "/openid/v1/jwks";

/// Time limit for events that are certain to happen.
const WAIT_TIMEOUT: Duration = Duration::from_secs(60);

/// A key of a signer.
struct SigningKey {
    id: &'static str,
    pair: KeyPair,
}

impl SigningKey {
    fn new(id: &'static str) -> Arc<Self> {
        let pair = KeyPair::generate().unwrap();
        Arc::new(Self { id, pair })
    }

    fn published(&self) -> PublishedKey {
        PublishedKey {
            id: self.id.to_owned(),
            key: self.pair.subject_public_key_info(),
            is_excluded: false,
        }
    }

    /// Returns the signature of a text in Base64.
    fn sign(&self, text: &str) -> String {
        let der = self.pair.serialize_der();
        let key = EcdsaKeyPair::from_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, &der).unwrap();
        let signature = key.sign(&SystemRandom::new(), text.as_bytes()).unwrap();
        URL_SAFE_NO_PAD.encode(signature)
    }
}

/// Returns the function that signs with a key, under this header.
fn signs(key: &Arc<SigningKey>, header: Value) -> Sign {
    let (key, header) = (Arc::clone(key), URL_SAFE_NO_PAD.encode(header.to_string()));
    Arc::new(move |claims| Ok((header.clone(), key.sign(&format!("{header}.{claims}")))))
}

fn signs_with(key: &Arc<SigningKey>) -> Sign {
    signs(key, json!({"alg": "ES256", "kid": key.id, "typ": "JWT"}))
}

fn state(key: &Arc<SigningKey>) -> SignerState {
    SignerState {
        keys: vec![key.published()],
        data_seconds: 1_700_000_000,
        refresh_hint_seconds: 600,
        max_token_expiration_seconds: 3700,
        sign: signs_with(key),
        calls: BTreeMap::new(),
    }
}

/// A server with a signer, and the service account `robot`.
struct Cluster {
    signer: TokenSigner,
    server: Server,
    admin: Client,
    _folder: TempDir,
}

fn socket(folder: &TempDir) -> PathBuf {
    folder.path().join("signer.sock")
}

fn flag(folder: &TempDir) -> String {
    format!("--service-account-signing-endpoint={}", socket(folder).display())
}

impl Cluster {
    async fn start(state: SignerState, flags: &[&str]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let signer = TokenSigner::start(&socket(&folder), state).unwrap();
        let flag = flag(&folder);
        let flags: Vec<&str> = flags.iter().copied().chain([flag.as_str()]).collect();
        let server = Server::start(&Binary::debug().unwrap(), &flags).unwrap();
        let mut admin = Client::new(&server).await;
        let account = json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "robot"}});
        admin.make(ACCOUNTS, account).await;
        Self {
            signer,
            server,
            admin,
            _folder: folder,
        }
    }

    /// Requests a token, and returns the status and the response.
    async fn request(&mut self, spec: Value) -> (StatusCode, Value) {
        let request = json!({"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": spec});
        self.admin.ask(Method::POST, TOKENS, "application/json", request).await
    }

    async fn token(&mut self) -> String {
        let (status, answer) = self.request(json!({})).await;
        assert_eq!(status, StatusCode::CREATED, "{answer}");
        answer["status"]["token"].as_str().unwrap().to_owned()
    }

    /// Returns the name of the user that a token authenticates.
    async fn user(&self, token: &str) -> Result<String, StatusCode> {
        let target = Target::new(&self.server).unwrap().with_token(token);
        let mut connection = target.connect().await.unwrap();
        let review = json!({"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"});
        let response = connection
            .open(Method::POST, WHOAMI, "application/json", review.to_string().into())
            .await
            .unwrap();
        let status = response.status();
        let body = http_body_util::BodyExt::collect(response.into_body()).await.unwrap();
        let review: Value = serde_json::from_slice(&body.to_bytes()).unwrap();
        let name = review["status"]["userInfo"]["username"].as_str();
        name.map(str::to_owned).ok_or(status)
    }

    async fn metrics(&mut self) -> String {
        let (_, text) = self.admin.get("/metrics").await;
        text.as_str().unwrap().to_owned()
    }

    /// Returns the cache control of a discovery document, and the document.
    async fn document(&self, path: &str) -> (String, Value) {
        let target = Target::new(&self.server).unwrap();
        let mut connection = target.connect().await.unwrap();
        let response = connection.get(path, "*/*").await.unwrap();
        assert_eq!(response.status(), StatusCode::OK, "{path}");
        let cached = response.headers()["cache-control"].to_str().unwrap().to_owned();
        let body = http_body_util::BodyExt::collect(response.into_body()).await.unwrap();
        (cached, serde_json::from_slice(&body.to_bytes()).unwrap())
    }

    /// Returns the key ids in the discovery document.
    async fn published(&self) -> Vec<String> {
        let (_, keys) = self.document(KEYS).await;
        let keys = keys["keys"].as_array().unwrap();
        keys.iter().map(|key| key["kid"].as_str().unwrap().to_owned()).collect()
    }
}

fn claims(token: &str) -> Value {
    let part = token.split('.').nth(1).unwrap();
    serde_json::from_slice(&URL_SAFE_NO_PAD.decode(part).unwrap()).unwrap()
}

const ROBOT: &str = "system:serviceaccount:default:robot";

#[tokio::test]
async fn signer_signs_tokens_and_publishes_its_keys() {
    let key = SigningKey::new("first");
    let mut cluster = Cluster::start(state(&key), &[]).await;
    let token = cluster.token().await;
    assert_eq!(cluster.user(&token).await, Ok(ROBOT.to_owned()));
    assert_eq!(cluster.signer.calls("Metadata"), 1);
    assert_eq!(cluster.published().await, ["first"]);
    let (cached, configuration) = cluster.document(CONFIGURATION).await;
    assert_eq!(configuration["id_token_signing_alg_values_supported"], json!(["ES256"]));
    let seconds: u64 = cached.strip_prefix("public, max-age=").unwrap().parse().unwrap();
    assert!((500..=600).contains(&seconds), "{cached}");
    // The key of the data directory signs nothing.
    assert!(!cluster.server.data_dir().join("pki/sa.key").exists());
    let metrics = cluster.metrics().await;
    for line in [
        r#"apiserver_externaljwt_sign_request_total{code="OK"} 1"#,
        r#"apiserver_externaljwt_fetch_keys_request_total{code="OK"} 1"#,
        "apiserver_externaljwt_fetch_keys_data_timestamp 1700000000",
        r#"apiserver_externaljwt_request_duration_seconds_count{code="OK",method="/v1.ExternalJWTSigner/Sign"} 1"#,
    ] {
        assert!(metrics.contains(line), "{line} is missing");
    }
}

#[tokio::test]
async fn token_lifetime_is_bounded_by_the_signer() {
    let key = SigningKey::new("first");
    let mut cluster = Cluster::start(state(&key), &[]).await;
    let (_, answer) = cluster.request(json!({"expirationSeconds": 9000})).await;
    assert_eq!(answer["spec"]["expirationSeconds"], 3700);
    let pods = "/api/v1/namespaces/default/pods";
    let pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"},
        "spec": {"serviceAccountName": "robot", "containers": [{"name": "c", "image": "i"}]}});
    cluster.admin.make(pods, pod).await;
    let bound = json!({"apiVersion": "v1", "kind": "Pod", "name": "p"});
    let (_, answer) = cluster
        .request(json!({"expirationSeconds": 3607, "boundObjectRef": bound}))
        .await;
    let claims = claims(answer["status"]["token"].as_str().unwrap());
    let life = claims["exp"].as_u64().unwrap() - claims["iat"].as_u64().unwrap();
    assert_eq!(life, 3700, "a year is more than the signer supports");
    let binary = Binary::debug().unwrap();
    let folder = tempfile::tempdir().unwrap();
    let _signer = TokenSigner::start(&socket(&folder), state(&key)).unwrap();
    let rejection = binary
        .rejection(&[flag(&folder), "--service-account-max-token-expiration=2h".to_owned()])
        .unwrap();
    let why = "cannot be set longer than the token expiration supported by service-account-signing-endpoint: 2h0m0s > \
               1h1m40s";
    assert!(rejection.contains(why), "{rejection}");
}

#[tokio::test]
async fn token_of_a_new_key_fetches_the_keys() {
    let (first, second) = (SigningKey::new("first"), SigningKey::new("second"));
    let mut cluster = Cluster::start(state(&first), &[]).await;
    let old = cluster.token().await;
    // Another server has a token of the new key.
    let header = URL_SAFE_NO_PAD.encode(json!({"alg": "ES256", "kid": "second", "typ": "JWT"}).to_string());
    let signed = format!("{header}.{}", old.split('.').nth(1).unwrap());
    let new = format!("{signed}.{}", second.sign(&signed));
    assert_eq!(cluster.user(&new).await, Err(StatusCode::UNAUTHORIZED));
    let fetches = cluster.signer.calls("FetchKeys");
    cluster.signer.with(|state| {
        state.keys = vec![
            second.published(),
            PublishedKey {
                is_excluded: true,
                ..first.published()
            },
        ];
    });
    assert_eq!(cluster.user(&new).await, Ok(ROBOT.to_owned()));
    assert_eq!(cluster.signer.calls("FetchKeys"), fetches + 1);
    assert_eq!(cluster.published().await, ["second"]);
    assert_eq!(
        cluster.user(&old).await,
        Ok(ROBOT.to_owned()),
        "excluded keys still verify"
    );
    let review = json!({"apiVersion": "authentication.k8s.io/v1", "kind": "TokenReview", "spec": {"token": new}});
    let answer = cluster.admin.make(REVIEWS, review).await;
    assert_eq!(answer["status"]["authenticated"], true, "{answer}");
    // The next signature with an excluded key is rejected.
    let (status, answer) = cluster.request(json!({})).await;
    assert_eq!(status, StatusCode::INTERNAL_SERVER_ERROR);
    let why = "failed to generate token: while validating header: key used for signing JWT (kid: first) is excluded from \
               OIDC discovery docs";
    assert!(answer["message"].as_str().unwrap().contains(why), "{answer}");
}

#[tokio::test]
async fn keys_are_fetched_at_the_intervals_of_the_signer() {
    let (first, second) = (SigningKey::new("first"), SigningKey::new("second"));
    let hasty = SignerState {
        refresh_hint_seconds: 1,
        ..state(&first)
    };
    let cluster = Cluster::start(hasty, &[]).await;
    cluster
        .signer
        .with(|state| state.keys = vec![first.published(), second.published()]);
    let end = Instant::now() + WAIT_TIMEOUT;
    while cluster.published().await.len() != 2 {
        assert!(Instant::now() < end, "the new key is not published");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    // Keys that cannot be used leave the old ones.
    cluster.signer.with(|state| state.keys = Vec::new());
    cluster.server.until_logged(&["found no keys"]).await.unwrap();
    assert_eq!(cluster.published().await, ["first", "second"]);
}

#[tokio::test]
async fn invalid_signatures_of_a_signer_are_errors() {
    let key = SigningKey::new("first");
    let mut cluster = Cluster::start(state(&key), &[]).await;
    let invalid = [
        (
            json!({"alg": "ES256", "kid": "first"}),
            "while validating header: bad type",
        ),
        (
            json!({"alg": "ES256", "typ": "JWT"}),
            "while validating header: key id missing",
        ),
        (
            json!({"alg": "none", "kid": "first", "typ": "JWT"}),
            "while validating header: bad signing algorithm \"none\"",
        ),
        (
            json!({"alg": "ES256", "kid": "first", "typ": "JWT", "jku": "x"}),
            "while validating header: while parsing header JSON: ",
        ),
        (
            json!({"alg": "ES256", "kid": "a".repeat(1025), "typ": "JWT"}),
            "while validating header: key id longer than 1 kb",
        ),
    ];
    for (header, why) in invalid {
        cluster.signer.with(|state| state.sign = signs(&key, header));
        let (status, answer) = cluster.request(json!({})).await;
        assert_eq!(status, StatusCode::INTERNAL_SERVER_ERROR, "{answer}");
        let message = answer["message"].as_str().unwrap();
        assert!(
            message.contains(&format!("failed to generate token: {why}")),
            "{message}"
        );
    }
    cluster
        .signer
        .with(|state| state.sign = Arc::new(|_| Err("the device is locked".to_owned())));
    let (_, answer) = cluster.request(json!({})).await;
    let message = answer["message"].as_str().unwrap();
    let why = "while signing jwt: rpc error: code = Unknown desc = the device is locked";
    assert!(message.contains(why), "{message}");
    let metrics = cluster.metrics().await;
    assert!(metrics.contains(r#"apiserver_externaljwt_sign_request_total{code="Unknown"} 1"#));
    assert!(metrics.contains(r#"apiserver_externaljwt_sign_request_total{code="unknown-non-grpc"} 5"#));
}

#[tokio::test]
async fn signer_with_invalid_answers_ends_the_start() {
    let (binary, key) = (Binary::debug().unwrap(), SigningKey::new("first"));
    let valid = || state(&key);
    let unreadable = PublishedKey {
        key: b"no key".to_vec(),
        ..key.published()
    };
    let invalid = [
        (
            SignerState {
                refresh_hint_seconds: 0,
                ..valid()
            },
            "found invalid refresh hint (0s)",
        ),
        (
            SignerState {
                keys: Vec::new(),
                ..valid()
            },
            "found no keys",
        ),
        (
            SignerState {
                keys: vec![PublishedKey {
                    id: String::new(),
                    ..key.published()
                }],
                ..valid()
            },
            "found invalid public key id \"\"",
        ),
        (
            SignerState {
                keys: vec![unreadable],
                ..valid()
            },
            "while parsing external public keys: ",
        ),
        (
            SignerState {
                data_seconds: i64::MAX,
                ..valid()
            },
            "invalid data timestamp: timestamp (seconds:9223372036854775807) after 9999-12-31",
        ),
        (
            SignerState {
                max_token_expiration_seconds: 599,
                ..valid()
            },
            "max token life supported by external-jwt-signer (599s) is less than acceptable (min 600s)",
        ),
    ];
    for (state, why) in invalid {
        let folder = tempfile::tempdir().unwrap();
        let _signer = TokenSigner::start(&socket(&folder), state).unwrap();
        let rejection = binary.rejection(&[flag(&folder)]).unwrap();
        assert!(
            rejection.contains("while setting up external-jwt-signer: "),
            "{rejection}"
        );
        assert!(rejection.contains(why), "{rejection}");
    }
    let exclusive = ["--service-account-signing-endpoint=/a", "--service-account-key-file=/b"];
    let rejection = binary.rejection(&exclusive).unwrap();
    assert!(rejection.contains("(They are mutually exclusive)"), "{rejection}");
    let invalid_name = binary.rejection(&["--service-account-signing-endpoint=@a/b"]).unwrap();
    assert!(
        invalid_name.contains("must be a valid abstract socket name"),
        "{invalid_name}"
    );
}
