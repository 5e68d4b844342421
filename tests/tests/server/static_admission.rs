//! Policies and webhooks of admission that come from files, through the real binary.

use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use conformance::hook::{Hook, allow, deny, patch};
use conformance::{Binary, Client, Server};
use http::{Method, StatusCode};
use serde_json::{Value, json};
use tempfile::TempDir;

const GATE: &str = "--feature-gates=ManifestBasedAdmissionControlConfig=true";
const CONFIG_MAPS: &str = "/api/v1/namespaces/default/configmaps";
const POLICIES: &str = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies";

/// Writes a file that names the directory for policies, and returns the flag for it.
fn flag(folder: &Path) -> String {
    let manifests = folder.join("manifests");
    fs::create_dir_all(&manifests).unwrap();
    let text = format!(
        "apiVersion: apiserver.config.k8s.io/v1\nkind: AdmissionConfiguration\nplugins:\n- name: ValidatingAdmissionPolicy\n  \
         configuration:\n    apiVersion: apiserver.config.k8s.io/v1\n    kind: ValidatingAdmissionPolicyConfiguration\n    \
         staticManifestsDir: {}\n",
        manifests.display()
    );
    let path = folder.join("admission.yaml");
    fs::write(&path, text).unwrap();
    format!("--admission-control-config-file={}", path.display())
}

/// Returns a policy that denies new objects of that name, and its binding.
fn policy(name: &str) -> String {
    format!(
        "apiVersion: admissionregistration.k8s.io/v1\nkind: ValidatingAdmissionPolicy\nmetadata: {{name: names.static.k8s.io}}\n\
         spec:\n  matchConstraints:\n    resourceRules:\n    - {{apiGroups: ['*'], apiVersions: ['*'], operations: [CREATE], \
         resources: ['*']}}\n  validations:\n  - {{expression: \"object.metadata.name != '{name}'\", message: not that \
         name}}\n---\napiVersion: admissionregistration.k8s.io/v1\nkind: ValidatingAdmissionPolicyBinding\nmetadata: {{name: \
         names.static.k8s.io}}\nspec: {{policyName: names.static.k8s.io, validationActions: [Deny]}}\n"
    )
}

/// Replaces a file atomically, so that no reader sees a part of it.
fn replace(file: &Path, text: &str) {
    let folder = file.parent().and_then(Path::parent).unwrap();
    let next = folder.join("next");
    fs::write(&next, text).unwrap();
    fs::rename(next, file).unwrap();
}

/// Waits until metrics report that files were read this number of times with that result.
async fn read(client: &mut Client, status: &str, times: u32) {
    let name = "apiserver_manifest_admission_config_controller_automatic_reloads_total";
    client.until_counted(name, status, times).await;
}

async fn create(client: &mut Client, path: &str, name: &str) -> (StatusCode, Value) {
    let path = format!("{path}?dryRun=All");
    let object = json!({"metadata": {"name": name}});
    client.ask(Method::POST, &path, "application/json", object).await
}

#[tokio::test]
async fn policies_of_files_hold_for_all_and_are_read_again() {
    let folder = TempDir::new().unwrap();
    let flag = flag(folder.path());
    let file = folder.path().join("manifests/policy.yaml");
    fs::write(&file, policy("bad")).unwrap();
    let server = Server::start(&Binary::debug().unwrap(), &[GATE, &flag]).unwrap();
    let mut client = Client::new(&server).await;
    let (status, rejection) = create(&mut client, CONFIG_MAPS, "bad").await;
    assert_eq!(status, StatusCode::UNPROCESSABLE_ENTITY, "{rejection}");
    let message = rejection["message"].as_str().unwrap();
    assert!(
        message.contains("names.static.k8s.io") && message.contains("not that name"),
        "{message}"
    );
    assert_eq!(create(&mut client, CONFIG_MAPS, "good").await.0, StatusCode::CREATED);
    // Policies from the API do not apply to policies; those from files do.
    let rule = json!({"apiGroups": ["*"], "apiVersions": ["*"], "operations": ["*"], "resources": ["*"]});
    let own = json!({"metadata": {"name": "bad"}, "spec": {"matchConstraints": {"resourceRules": [rule]}, "validations":
        [{"expression": "true"}]}});
    let path = format!("{POLICIES}?dryRun=All");
    let (status, rejection) = client.ask(Method::POST, &path, "application/json", own).await;
    assert_eq!(status, StatusCode::UNPROCESSABLE_ENTITY, "{rejection}");
    assert!(
        rejection["message"].as_str().unwrap().contains("not that name"),
        "{rejection}"
    );
    let (_, rejection) = create(&mut client, POLICIES, "other.static.k8s.io").await;
    let message = rejection["message"].as_str().unwrap();
    assert!(
        message.contains("reserved for static manifest-based configurations"),
        "{message}"
    );
    // Neither is an object of the API.
    let (_, list) = client.get(POLICIES).await;
    assert_eq!(list["items"], json!([]));

    read(&mut client, "success", 1).await;
    replace(&file, &policy("bad").replace("expression", "expressions"));
    read(&mut client, "failure", 1).await;
    server.until_logged(&["the old ones stay"]).await.unwrap();
    assert_eq!(
        create(&mut client, CONFIG_MAPS, "bad").await.0,
        StatusCode::UNPROCESSABLE_ENTITY
    );
    replace(&file, &policy("worse"));
    read(&mut client, "success", 2).await;
    assert_eq!(create(&mut client, CONFIG_MAPS, "bad").await.0, StatusCode::CREATED);
    assert_eq!(
        create(&mut client, CONFIG_MAPS, "worse").await.0,
        StatusCode::UNPROCESSABLE_ENTITY
    );
    fs::remove_file(&file).unwrap();
    read(&mut client, "success", 3).await;
    assert_eq!(create(&mut client, CONFIG_MAPS, "worse").await.0, StatusCode::CREATED);
}

/// Writes a file that names a directory for each type of webhooks, and returns the flag for it.
fn flag_of_webhooks(folder: &Path) -> String {
    let plugin = |name: &str, directory: &str| {
        let manifests = folder.join(directory);
        fs::create_dir_all(&manifests).unwrap();
        json!({"name": name, "configuration": {"apiVersion": "apiserver.config.k8s.io/v1",
            "kind": "WebhookAdmissionConfiguration", "staticManifestsDir": manifests}})
    };
    let plugins = [
        plugin("MutatingAdmissionWebhook", "mutating"),
        plugin("ValidatingAdmissionWebhook", "validating"),
    ];
    let config =
        json!({"apiVersion": "apiserver.config.k8s.io/v1", "kind": "AdmissionConfiguration", "plugins": plugins});
    let path = folder.join("webhooks.yaml");
    fs::write(&path, config.to_string()).unwrap();
    format!("--admission-control-config-file={}", path.display())
}

#[tokio::test]
async fn webhooks_of_files_are_called_for_all_and_are_read_again() {
    const CONFIGURATIONS: &str = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations";
    let folder = TempDir::new().unwrap();
    let flag = flag_of_webhooks(folder.path());
    let marking =
        Hook::start(|_| patch(&json!([{"op": "add", "path": "/metadata/labels", "value": {"of": "file"}}]))).await;
    let rejecting = Hook::start(
        |review| match review["request"]["object"]["metadata"]["name"] == "bad" {
            true => deny("not that name"),
            false => allow(),
        },
    )
    .await;
    let manifest = |kind: &str, hook: &Hook, more: Value| {
        let webhook = hook.webhook("file.example.com", &["CREATE"], "*/*/*", more);
        json!({"apiVersion": "admissionregistration.k8s.io/v1", "kind": kind, "metadata": {"name": "file.static.k8s.io"},
            "webhooks": [webhook]})
        .to_string()
    };
    let file = folder.path().join("validating/webhook.yaml");
    let of_bad = || manifest("ValidatingWebhookConfiguration", &rejecting, json!({}));
    fs::write(&file, of_bad()).unwrap();
    let marked = manifest("MutatingWebhookConfiguration", &marking, json!({}));
    fs::write(folder.path().join("mutating/webhook.json"), marked).unwrap();

    let server = Server::start(&Binary::debug().unwrap(), &[GATE, &flag]).unwrap();
    let mut client = Client::new(&server).await;
    let (status, made) = create(&mut client, CONFIG_MAPS, "good").await;
    assert_eq!(
        (status, &made["metadata"]["labels"]["of"]),
        (StatusCode::CREATED, &json!("file"))
    );
    let denied = "admission webhook \"file.example.com\" denied the request: not that name";
    // Webhooks from the API are not called for webhooks; those from files are.
    for path in [CONFIG_MAPS, CONFIGURATIONS] {
        let (status, rejection) = create(&mut client, path, "bad").await;
        assert_eq!(
            (status, &rejection["message"]),
            (StatusCode::BAD_REQUEST, &json!(denied)),
            "{path}"
        );
    }
    let (_, rejection) = create(&mut client, CONFIGURATIONS, "other.static.k8s.io").await;
    let message = rejection["message"].as_str().unwrap();
    assert!(
        message.contains("reserved for static manifest-based configurations"),
        "{message}"
    );
    let (_, list) = client.get(CONFIGURATIONS).await;
    assert_eq!(list["items"], json!([]));

    read(&mut client, "success", 1).await;
    for (at, bad) in [
        of_bad().replace("webhooks", "hooks"),
        of_bad().replace(
            "admissionregistration.k8s.io/v1",
            "admissionregistration.k8s.io/v1beta1",
        ),
        manifest(
            "ValidatingWebhookConfiguration",
            &rejecting,
            json!({"clientConfig": {"service": {"namespace": "a", "name": "b"}}}),
        ),
    ]
    .into_iter()
    .enumerate()
    {
        replace(&file, &bad);
        read(&mut client, "failure", u32::try_from(at).unwrap() + 1).await;
        assert_eq!(create(&mut client, CONFIG_MAPS, "bad").await.0, StatusCode::BAD_REQUEST);
    }
    server.until_logged(&["the old ones stay"]).await.unwrap();
    fs::remove_file(&file).unwrap();
    read(&mut client, "success", 2).await;
    let (status, made) = create(&mut client, CONFIG_MAPS, "bad").await;
    assert_eq!(
        (status, &made["metadata"]["labels"]["of"]),
        (StatusCode::CREATED, &json!("file"))
    );
}

#[test]
fn invalid_manifest_directory_ends_the_start() {
    let folder = TempDir::new().unwrap();
    let flag = flag(folder.path());
    let file = folder.path().join("manifests/policy.yaml");
    let binary = Binary::debug().unwrap();
    let rejection = |flags: &[&str]| binary.rejection(flags).unwrap();
    fs::write(&file, policy("bad")).unwrap();
    let said = rejection(&[&flag]);
    assert!(
        said.contains("requires the ManifestBasedAdmissionControlConfig feature gate"),
        "{said}"
    );
    for (text, why) in [
        (
            policy("bad").replace(".static.k8s.io", ""),
            "must have a name ending with \\\".static.k8s.io\\\"",
        ),
        (policy("bad").replace("expression", "expressions"), "unknown field"),
        (
            policy("bad").replace("!= 'bad'", "+"),
            "spec.validations[0].expression: Invalid value",
        ),
        ("{".to_owned(), "error loading"),
    ] {
        fs::write(&file, text).unwrap();
        let said = rejection(&[GATE, &flag]);
        let plain = said.replace('\\', "");
        assert!(
            plain.contains(&why.replace('\\', "")) && plain.contains("policy.yaml"),
            "{why}: {said}"
        );
    }
    let said = rejection(&["--admission-control-config-file=/nowhere"]);
    assert!(said.contains("--admission-control-config-file: /nowhere"), "{said}");
}

/// Writes a configuration of admission plugins, and returns the flag for it.
fn plugins_flag(folder: &Path, plugins: &[Value]) -> String {
    let config =
        json!({"apiVersion": "apiserver.config.k8s.io/v1", "kind": "AdmissionConfiguration", "plugins": plugins});
    let path = folder.join("plugins.yaml");
    fs::write(&path, config.to_string()).unwrap();
    format!("--admission-control-config-file={}", path.display())
}

#[tokio::test]
async fn limited_resources_need_a_covering_quota() {
    let folder = TempDir::new().unwrap();
    let configuration = json!({"apiVersion": "apiserver.config.k8s.io/v1", "kind": "ResourceQuotaConfiguration",
    "limitedResources": [
        {"resource": "configmaps", "matchContains": ["count/configmaps"]},
        {"resource": "pods", "matchScopes": [
            {"scopeName": "PriorityClass", "operator": "In", "values": ["system-cluster-critical"]}]},
    ]});
    let flag = plugins_flag(
        folder.path(),
        &[json!({"name": "ResourceQuota", "configuration": configuration})],
    );
    let server = Server::start(
        &Binary::debug().unwrap(),
        &[&flag, "--disable-admission-plugins=ServiceAccount"],
    )
    .unwrap();
    let mut client = Client::new(&server).await;

    let (status, rejection) = create(&mut client, CONFIG_MAPS, "one").await;
    assert_eq!(status, StatusCode::FORBIDDEN, "{rejection}");
    assert_eq!(
        rejection["message"],
        "configmaps \"one\" is forbidden: insufficient quota to consume: count/configmaps"
    );
    let pod = |class: &str| {
        json!({"metadata": {"name": "p"}, "spec": {"priorityClassName": class,
            "containers": [{"name": "c", "image": "i"}]}})
    };
    let pods = "/api/v1/namespaces/default/pods?dryRun=All";
    let json = "application/json";
    let (status, rejection) = client
        .ask(Method::POST, pods, json, pod("system-cluster-critical"))
        .await;
    assert_eq!(status, StatusCode::INTERNAL_SERVER_ERROR, "{rejection}");
    assert_eq!(
        rejection["message"],
        "insufficient quota to match these scopes: [{PriorityClass In [system-cluster-critical]}]"
    );
    let (status, answer) = client.ask(Method::POST, pods, json, pod("")).await;
    assert_eq!(status, StatusCode::CREATED, "{answer}");

    let quotas = "/api/v1/namespaces/default/resourcequotas";
    let quota = json!({"metadata": {"name": "covering"}, "spec": {"hard": {"count/configmaps": "100"}}});
    let (status, answer) = client.ask(Method::POST, quotas, json, quota).await;
    assert_eq!(status, StatusCode::CREATED, "{answer}");
    let path = format!("{quotas}/covering");
    client
        .until(&path, |_, quota| {
            quota["status"]["used"]["count/configmaps"].is_string()
        })
        .await;
    assert_eq!(create(&mut client, CONFIG_MAPS, "one").await.0, StatusCode::CREATED);
}

#[tokio::test]
async fn webhooks_are_called_with_kubeconfig_credentials() {
    let folder = TempDir::new().unwrap();
    let hook = Hook::start(|_| allow()).await;
    let token = folder.path().join("token");
    fs::write(&token, "from-file\n").unwrap();
    let user = |name: String, user: Value| json!({"name": name, "user": user});
    let kubeconfig = |users: &[Value]| json!({"apiVersion": "v1", "kind": "Config", "users": users}).to_string();
    let of_validating = folder.path().join("validating");
    let of_mutating = folder.path().join("mutating");
    let address = format!("127.0.0.1:{}", hook.port);
    fs::write(
        &of_validating,
        kubeconfig(&[user(address, json!({"token": "validating-token"}))]),
    )
    .unwrap();
    fs::write(
        &of_mutating,
        kubeconfig(&[user("*".to_owned(), json!({"tokenFile": token}))]),
    )
    .unwrap();
    let plugin = |name: &str, file: &Path| {
        json!({"name": name, "configuration": {"apiVersion": "apiserver.config.k8s.io/v1",
            "kind": "WebhookAdmissionConfiguration", "kubeConfigFile": file}})
    };
    let plugins = [
        plugin("ValidatingAdmissionWebhook", &of_validating),
        plugin("MutatingAdmissionWebhook", &of_mutating),
    ];
    let flag = plugins_flag(folder.path(), &plugins);
    let server = Server::start(&Binary::debug().unwrap(), &[&flag]).unwrap();
    let mut client = Client::new(&server).await;
    for kind in ["Validating", "Mutating"] {
        let plural = format!("{}webhookconfigurations", kind.to_lowercase());
        // The server creates ConfigMaps of its own at a start.
        let called = json!({"matchConditions": [{"name": "called", "expression": "object.metadata.name == 'called'"}]});
        let webhook = hook.webhook("credentials.example.com", &["CREATE"], "/v1/configmaps", called);
        let configuration = json!({"metadata": {"name": "credentials"}, "webhooks": [webhook]});
        let path = format!("/apis/admissionregistration.k8s.io/v1/{plural}");
        let (status, answer) = client.ask(Method::POST, &path, "application/json", configuration).await;
        assert_eq!(status, StatusCode::CREATED, "{answer}");
    }
    // A webhook is called some time after its configuration is created.
    let both = ["Bearer from-file", "Bearer validating-token"].map(str::to_owned);
    let end = Instant::now() + Duration::from_secs(60);
    while !hook.authorizations().ends_with(&both) {
        assert!(Instant::now() < end, "{:?}", hook.authorizations());
        let (status, answer) = create(&mut client, CONFIG_MAPS, "called").await;
        assert_eq!(status, StatusCode::CREATED, "{answer}");
    }
}
