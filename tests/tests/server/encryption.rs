//! Encryption at rest: what is on disk and in etcd, rotation, reload, copies, and a plugin of a key management service.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use conformance::{Binary, Client, MERGE, Server, USER_TOKEN};
use http::{Method, StatusCode};
use serde_json::{Value, json};
use tempfile::TempDir;
use test_support::etcd::Etcd;
use test_support::kms_plugin::KmsPlugin;
use test_support::needs;

const SECRETS: &str = "/api/v1/namespaces/default/secrets";
const SECRET: &str = "/api/v1/namespaces/default/secrets/token";
const CONFIG_MAPS: &str = "/api/v1/namespaces/default/configmaps";
/// Text that no file may contain, as it is in the Secret and as it is in JSON.
const TEXT: &str = "the-plain-text-of-a-secret";

const KEY_ONE: &str = "AQIDBAUGBwgJCgsMDQ4PEBESExQVFhcYGRobHB0eHyA=";
const KEY_TWO: &str = "ISIjJCUmJygpKissLS4vMDEyMzQ1Njc4OTo7PD0+P0A=";

/// Time limit for events that are certain to happen.
const WAIT_TIMEOUT: Duration = Duration::from_secs(60);

/// A configuration file and the flag that names it.
struct Configuration {
    folder: TempDir,
}

impl Configuration {
    fn new(providers: &str) -> Self {
        let configuration = Self {
            folder: tempfile::tempdir().unwrap(),
        };
        configuration.set(providers);
        configuration
    }

    /// Replaces the providers of Secrets.
    fn set(&self, providers: &str) {
        let header = "kind: EncryptionConfiguration\napiVersion: apiserver.config.k8s.io/v1\nresources:\n";
        let text = format!("{header}- resources: [secrets]\n  providers:\n{providers}");
        std::fs::write(self.path(), text).unwrap();
    }

    fn path(&self) -> PathBuf {
        self.folder.path().join("encryption.yaml")
    }

    fn flag(&self) -> String {
        format!("--encryption-provider-config={}", self.path().display())
    }
}

fn provider(kind: &str, name: &str, secret: &str) -> String {
    format!("  - {kind}: {{keys: [{{name: {name}, secret: {secret}}}]}}\n")
}

fn secret(name: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name}, "stringData": {"t": TEXT}})
}

fn start(flags: &[&str]) -> Server {
    Server::start(&Binary::debug().unwrap(), flags).unwrap()
}

/// Returns true if the text is in any file of a directory, as it is or in Base64.
fn is_on_disk(directory: &Path, text: &str) -> bool {
    let forms = [text.as_bytes().to_vec(), STANDARD.encode(text).into_bytes()];
    let files = std::fs::read_dir(directory).unwrap();
    files
        .filter_map(|file| std::fs::read(file.unwrap().path()).ok())
        .any(|bytes| {
            forms
                .iter()
                .any(|form| bytes.windows(form.len()).any(|window| window == form))
        })
}

async fn text_of(client: &mut Client, path: &str) -> String {
    let (status, found) = client.get(path).await;
    assert_eq!(status, StatusCode::OK, "{found}");
    let data = STANDARD.decode(found["data"]["t"].as_str().unwrap()).unwrap();
    String::from_utf8(data).unwrap()
}

fn version(object: &Value) -> String {
    object["metadata"]["resourceVersion"].as_str().unwrap().to_owned()
}

/// Sends a change that changes nothing, and returns true if the object was written nevertheless.
async fn is_rewritten(client: &mut Client, path: &str) -> bool {
    let (_, before) = client.get(path).await;
    let (status, after) = client.ask(Method::PATCH, path, MERGE, json!({})).await;
    assert_eq!(status, StatusCode::OK, "{after}");
    version(&before) != version(&after)
}

#[tokio::test]
async fn secret_is_never_plain_on_disk() {
    for kind in ["secretbox", "aesgcm", "aescbc"] {
        let configuration = Configuration::new(&provider(kind, "key1", KEY_ONE));
        let flag = configuration.flag();
        let server = start(&[&flag]);
        let mut client = Client::new(&server).await;
        client.make(SECRETS, secret("token")).await;
        client.make(SECRETS, secret("gone")).await;
        client.delete(&format!("{SECRETS}/gone"), json!({})).await;
        client.config_map("default", json!({"name": "plain-config-map"})).await;
        let patch = json!({"metadata": {"labels": {"a": "b"}}});
        client.ask(Method::PATCH, SECRET, MERGE, patch).await;
        let data = server.data_dir();
        assert!(!is_on_disk(&data, TEXT), "{kind}: in the file or its log");
        assert!(is_on_disk(&data, "plain-config-map"));
        assert!(is_on_disk(&data, &format!("k8s:enc:{kind}:v1:key1:")));
        assert!(!is_rewritten(&mut client, SECRET).await);
        let snapshot = configuration.folder.path().join("snapshots");
        std::fs::create_dir(&snapshot).unwrap();
        let (file, directory) = (snapshot.join("snapshot"), data.clone());
        let arguments = ["snapshot", "save"];
        let saved = server
            .binary()
            .command()
            .args(arguments)
            .arg(&file)
            .arg("--data-dir")
            .arg(&directory)
            .output();
        assert!(saved.unwrap().status.success());
        assert!(!is_on_disk(&snapshot, TEXT), "{kind}: in a snapshot");
        let server = server.kill_and_restart(&[&flag]).unwrap();
        assert_eq!(text_of(&mut Client::new(&server).await, SECRET).await, TEXT);
        let server = server.restart(&[&flag]).unwrap();
        let mut client = Client::new(&server).await;
        assert_eq!(text_of(&mut client, SECRET).await, TEXT);
        assert!(!is_rewritten(&mut client, SECRET).await);
        assert!(!is_on_disk(&data, TEXT), "{kind}: after restarts");
    }
}

#[tokio::test]
async fn stale_secret_is_rewritten_by_noop_update() {
    let server = start(&[]);
    let mut client = Client::new(&server).await;
    client.make(SECRETS, secret("token")).await;
    let data = server.data_dir();
    assert!(is_on_disk(&data, TEXT));
    let old = provider("aescbc", "old", KEY_ONE);
    let configuration = Configuration::new(&(old.clone() + "  - identity: {}\n"));
    let flag = configuration.flag();
    let server = server.restart(&[&flag]).unwrap();
    let mut client = Client::new(&server).await;
    assert!(is_rewritten(&mut client, SECRET).await);
    assert!(!is_rewritten(&mut client, SECRET).await);
    configuration.set(&(provider("aesgcm", "new", KEY_TWO) + &old));
    let server = server.restart(&[&flag]).unwrap();
    let mut client = Client::new(&server).await;
    assert_eq!(text_of(&mut client, SECRET).await, TEXT);
    let applied = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "token"}});
    let (path, apply) = (format!("{SECRET}?fieldManager=a"), "application/apply-patch+yaml");
    client.ask(Method::PATCH, &path, apply, applied.clone()).await;
    assert!(!is_rewritten(&mut client, SECRET).await);
    assert!(is_on_disk(&data, "k8s:enc:aesgcm:v1:new:"));
    // The old key is no longer needed.
    configuration.set(&provider("aesgcm", "new", KEY_TWO));
    let server = server.restart(&[&flag]).unwrap();
    let mut client = Client::new(&server).await;
    assert_eq!(text_of(&mut client, SECRET).await, TEXT);
    // Decryption: the identity writes.
    configuration.set(&("  - identity: {}\n".to_owned() + &provider("aesgcm", "new", KEY_TWO)));
    let server = server.restart(&[&flag]).unwrap();
    assert!(is_rewritten(&mut Client::new(&server).await, SECRET).await);
    let server = server.restart(&[]).unwrap();
    assert_eq!(text_of(&mut Client::new(&server).await, SECRET).await, TEXT);
}

#[tokio::test]
async fn secret_without_its_key_is_an_error() {
    let configuration = Configuration::new(&provider("secretbox", "key1", KEY_ONE));
    let flag = configuration.flag();
    let server = start(&[&flag]);
    let mut client = Client::new(&server).await;
    client.make(SECRETS, secret("token")).await;
    client.config_map("default", json!({"name": "other"})).await;
    let key = "unable to transform key \"/registry/secrets/default/token\": ";
    let wrong = provider("secretbox", "key1", KEY_TWO);
    let reload = "--encryption-provider-config-automatic-reload";
    configuration.set(&wrong);
    let mut server = server.restart(&[&flag, reload]).unwrap();
    for flags in [vec![flag.as_str(), reload], Vec::new()] {
        server = server.restart(&flags).unwrap();
        let mut client = Client::new(&server).await;
        for path in [SECRET, SECRETS, "/api/v1/secrets?limit=1"] {
            let (status, error) = client.get(path).await;
            assert_eq!(status, StatusCode::INTERNAL_SERVER_ERROR, "{path}: {error}");
            assert!(error["message"].as_str().unwrap().starts_with(key), "{error}");
        }
        let (status, _) = client
            .ask(Method::POST, SECRETS, "application/json", secret("token"))
            .await;
        assert_eq!(status, StatusCode::CONFLICT);
        assert_eq!(client.get(CONFIG_MAPS).await.0, StatusCode::OK);
        assert!(server.logged(&[key.trim_end()]) || server.logged(&["unable to transform key"]));
    }
    // The key is back, without a restart.
    let server = server.restart(&[&flag, reload]).unwrap();
    let mut client = Client::new(&server).await;
    assert_eq!(client.get(SECRET).await.0, StatusCode::INTERNAL_SERVER_ERROR);
    configuration.set(&(wrong + &provider("secretbox", "key1", KEY_ONE)));
    client.until(SECRET, |status, _| status == StatusCode::OK).await;
    assert_eq!(text_of(&mut client, SECRET).await, TEXT);
    assert_eq!(client.get(SECRETS).await.0, StatusCode::OK);
}

#[tokio::test]
async fn unreadable_secret_is_unknown_to_other_users() {
    let configuration = Configuration::new(&provider("secretbox", "key1", KEY_ONE));
    let flag = configuration.flag();
    let server = start(&[&flag]);
    let mut client = Client::new(&server).await;
    client.namespace("hers").await;
    client.make(SECRETS, secret("token")).await;
    let role = json!({"metadata": {"name": "reader"}, "rules": [{"apiGroups": [""], "resources": ["secrets"], "verbs": ["list", "watch"]}]});
    let binding = json!({"metadata": {"name": "reader"}, "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role",
        "name": "reader"}, "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "alice"}]});
    let rbac = "/apis/rbac.authorization.k8s.io/v1/namespaces/hers";
    client.make(&format!("{rbac}/roles"), role).await;
    client.make(&format!("{rbac}/rolebindings"), binding).await;

    configuration.set(&provider("secretbox", "key1", KEY_TWO));
    let server = server.restart(&[&flag]).unwrap();
    let mut client = Client::new(&server).await;
    client.make("/api/v1/namespaces/hers/secrets", secret("readable")).await;
    let mut alice = Client::with_token(&server, USER_TOKEN).await;
    let everywhere = "/api/v1/secrets?authorizedOnly=true";
    let (status, list) = alice.get(everywhere).await;
    assert_eq!(status, StatusCode::OK, "{list}");
    assert_eq!(list["items"].as_array().unwrap().len(), 1, "{list}");
    let (_, events) = alice.get(&format!("{everywhere}&watch=true&timeoutSeconds=1")).await;
    assert_eq!(events["object"]["metadata"]["name"], "readable", "{events}");
}

#[tokio::test]
async fn changed_configuration_is_reloaded_if_valid() {
    let configuration = Configuration::new(&provider("aesgcm", "one", KEY_ONE));
    let flag = configuration.flag();
    let server = start(&[&flag, "--encryption-provider-config-automatic-reload=true"]);
    let mut client = Client::new(&server).await;
    client.make(SECRETS, secret("token")).await;
    configuration.set("  - aesgcm: {keys: [{name: two, secret: short}]}\n");
    server
        .until_logged(&[
            "the encryption configuration cannot be used; the old one stays",
            "providers[0].aesgcm",
        ])
        .await
        .unwrap();
    assert!(!is_rewritten(&mut client, SECRET).await);
    configuration.set(&(provider("aesgcm", "two", KEY_TWO) + &provider("aesgcm", "one", KEY_ONE)));
    let end = Instant::now() + WAIT_TIMEOUT;
    while !is_rewritten(&mut client, SECRET).await {
        assert!(Instant::now() < end, "the new key is not used");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    assert!(is_on_disk(&server.data_dir(), "k8s:enc:aesgcm:v1:two:"));
    assert_eq!(text_of(&mut client, SECRET).await, TEXT);
    let (status, checks) = client.get("/readyz/kms-providers").await;
    assert_eq!(status, StatusCode::OK, "{checks}");
}

#[test]
fn start_with_invalid_configuration_names_file_and_field() {
    let configuration = Configuration::new("  - aescbc: {keys: [{name: a, secret: AAAA}]}\n");
    let rejection = |flags: &[String]| Binary::debug().unwrap().rejection(flags).unwrap();
    let error = rejection(&[configuration.flag()]);
    for part in [
        configuration.path().to_str().unwrap(),
        "resources[0].providers[0].aescbc.keys[0].secret: Invalid value: \"REDACTED\": secret is not of the expected length, \
         got 3, expected one of [16 24 32]",
    ] {
        assert!(error.contains(part), "{error}");
    }
    let error = rejection(&["--encryption-provider-config=/nonexistent/file".to_owned()]);
    assert!(error.contains("/nonexistent/file"), "{error}");
    let error = rejection(&["--encryption-provider-config-automatic-reload".to_owned()]);
    assert!(
        error.contains("must be set with --encryption-provider-config"),
        "{error}"
    );
}

#[tokio::test]
async fn copy_of_a_directory_is_encrypted_anew() {
    let mut server = start(&[]);
    Client::new(&server).await.make(SECRETS, secret("token")).await;
    server.end();
    let configuration = Configuration::new(&provider("secretbox", "key1", KEY_ONE));
    let other = Configuration::new(&provider("aesgcm", "key2", KEY_TWO));
    let directory = |name: &str| configuration.folder.path().join(name);
    let copy = |from: &Path, to: &Path, flags: &[String]| {
        let mut command = server.binary().command();
        command
            .arg("copy")
            .arg("--from")
            .arg(from)
            .arg("--to")
            .arg(to)
            .args(flags);
        let output = command.output().unwrap();
        (output.status.success(), String::from_utf8(output.stderr).unwrap())
    };
    let to_flag =
        |configuration: &Configuration| format!("--to-encryption-provider-config={}", configuration.path().display());
    let from_flag =
        |configuration: &Configuration| format!("--from-encryption-provider-config={}", configuration.path().display());
    let (one, two, three) = (directory("one"), directory("two"), directory("three"));
    let (done, log) = copy(&server.data_dir(), &one, &[to_flag(&configuration)]);
    assert!(done, "{log}");
    assert!(!is_on_disk(&one, TEXT) && is_on_disk(&one, "k8s:enc:secretbox:v1:key1:"));
    let (done, log) = copy(&one, &two, &[from_flag(&configuration), to_flag(&other)]);
    assert!(done, "{log}");
    assert!(!is_on_disk(&two, TEXT) && is_on_disk(&two, "k8s:enc:aesgcm:v1:key2:"));
    let (done, log) = copy(&two, &three, &[from_flag(&configuration)]);
    assert!(
        !done && log.contains("unable to transform key \"/registry/secrets/default/token\""),
        "{log}"
    );
    let (done, log) = copy(&two, &three, &[from_flag(&other)]);
    assert!(done, "{log}");
    assert!(is_on_disk(&three, TEXT));
}

#[tokio::test]
async fn plugin_encrypts_secrets_and_is_checked() {
    let folder = tempfile::tempdir().unwrap();
    let socket = folder.path().join("kms.sock");
    let plugin = KmsPlugin::start(&socket, "one").unwrap();
    let endpoint = socket.display();
    let providers = format!("  - kms: {{apiVersion: v2, name: vault, endpoint: 'unix://{endpoint}', timeout: 1s}}\n");
    let configuration = Configuration::new(&providers);
    let flag = configuration.flag();
    let server = start(&[&flag]);
    let mut client = Client::new(&server).await;
    client.make(SECRETS, secret("token")).await;
    let data = server.data_dir();
    assert!(!is_on_disk(&data, TEXT) && is_on_disk(&data, "k8s:enc:kms:v2:vault:"));
    for path in ["/readyz/kms-providers", "/healthz/kms-providers"] {
        assert_eq!(client.get(path).await.0, StatusCode::OK);
    }
    assert_eq!(client.get("/livez/kms-providers").await.0, StatusCode::NOT_FOUND);
    // Without the plugin the server starts, and the value is an error.
    drop(plugin);
    let server = server.restart(&[&flag]).unwrap();
    let mut client = Client::new(&server).await;
    let (status, error) = client.get(SECRET).await;
    assert_eq!(status, StatusCode::INTERNAL_SERVER_ERROR, "{error}");
    assert!(
        error["message"].as_str().unwrap().contains("failed to decrypt DEK"),
        "{error}"
    );
    assert_eq!(
        client.get("/readyz/kms-providers").await.0,
        StatusCode::INTERNAL_SERVER_ERROR
    );
    let (status, _) = client
        .ask(Method::POST, SECRETS, "application/json", secret("other"))
        .await;
    assert_eq!(status, StatusCode::INTERNAL_SERVER_ERROR);
    let plugin = KmsPlugin::start(&socket, "one").unwrap();
    client.until(SECRET, |status, _| status == StatusCode::OK).await;
    assert_eq!(text_of(&mut client, SECRET).await, TEXT);
    client.make(SECRETS, secret("other")).await;
    assert!(plugin.calls("Decrypt") > 0);
    assert!(!is_on_disk(&data, TEXT));
}

/// Returns the value of a key in etcd.
fn in_etcd(etcd: &Etcd, key: &str) -> Vec<u8> {
    let request = json!({"key": STANDARD.encode(key)});
    let text = etcd.ask(0, "/v3/kv/range", &request.to_string()).unwrap();
    let answer: Value = serde_json::from_str(&text).unwrap();
    STANDARD.decode(answer["kvs"][0]["value"].as_str().unwrap()).unwrap()
}

#[needs(etcd)]
#[tokio::test]
async fn secret_in_etcd_has_the_prefix_of_its_provider() {
    let etcd = Etcd::one().unwrap();
    let servers = format!("--etcd-servers={}", etcd.endpoints());
    let configuration = Configuration::new(&provider("aesgcm", "key1", KEY_ONE));
    let (flag, prefix) = (configuration.flag(), "--etcd-prefix=/elsewhere");
    let server = start(&[&servers, prefix, &flag]);
    let mut client = Client::new(&server).await;
    client.make(SECRETS, secret("token")).await;
    let key = "/elsewhere/secrets/default/token";
    assert!(in_etcd(&etcd, key).starts_with(b"k8s:enc:aesgcm:v1:key1:"));
    assert!(!is_rewritten(&mut client, SECRET).await);
    // The next key is on another server, which reads the value from etcd.
    configuration.set(&(provider("secretbox", "key2", KEY_TWO) + &provider("aesgcm", "key1", KEY_ONE)));
    let other = start(&[&servers, prefix, &flag]);
    let mut second = Client::new(&other).await;
    assert_eq!(text_of(&mut second, SECRET).await, TEXT);
    assert!(is_rewritten(&mut second, SECRET).await);
    assert!(in_etcd(&etcd, key).starts_with(b"k8s:enc:secretbox:v1:key2:"));
    // The first server does not have that key.
    let (status, error) = client.get(SECRET).await;
    assert_eq!(status, StatusCode::INTERNAL_SERVER_ERROR, "{error}");
    let expected = format!("unable to transform key \"{key}\": no matching prefix found");
    assert_eq!(error["message"], expected);
}
