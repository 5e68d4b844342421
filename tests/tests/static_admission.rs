//! Policies and webhooks of admission that come from files, through the real binary.

#![allow(clippy::unwrap_used, reason = "what fails here is the test")]

use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use conformance::{Binary, Client, Server, Target};
use http::{Method, StatusCode};
use http_body_util::BodyExt as _;
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

/// A policy that refuses new objects of that name, and its binding.
fn policy(name: &str) -> String {
    format!(
        "apiVersion: admissionregistration.k8s.io/v1\nkind: ValidatingAdmissionPolicy\nmetadata: {{name: names.static.k8s.io}}\n\
         spec:\n  matchConstraints:\n    resourceRules:\n    - {{apiGroups: ['*'], apiVersions: ['*'], operations: [CREATE], \
         resources: ['*']}}\n  validations:\n  - {{expression: \"object.metadata.name != '{name}'\", message: not that \
         name}}\n---\napiVersion: admissionregistration.k8s.io/v1\nkind: ValidatingAdmissionPolicyBinding\nmetadata: {{name: \
         names.static.k8s.io}}\nspec: {{policyName: names.static.k8s.io, validationActions: [Deny]}}\n"
    )
}

async fn metrics(server: &Server) -> String {
    let mut connection = Target::of(server).unwrap().connect().await.unwrap();
    let response = connection.get("/metrics", "*/*").await.unwrap();
    let bytes = response.into_body().collect().await.unwrap().to_bytes();
    String::from_utf8(bytes.to_vec()).unwrap()
}

/// Waits until metrics say that so many times files were read with that outcome.
async fn read(server: &Server, status: &str, times: u32) {
    let end = Instant::now() + Duration::from_secs(60);
    let name = "apiserver_manifest_admission_config_controller_automatic_reloads_total";
    loop {
        let text = metrics(server).await;
        let mut lines = text.lines().filter(|line| line.starts_with(name));
        if lines.any(|line| line.contains(&format!("status=\"{status}\"")) && line.ends_with(&format!(" {times}"))) {
            return;
        }
        assert!(Instant::now() < end, "{status} {times}: {text}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
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
    let mut client = Client::of(&server).await;
    let (status, refusal) = create(&mut client, CONFIG_MAPS, "bad").await;
    assert_eq!(status, StatusCode::UNPROCESSABLE_ENTITY, "{refusal}");
    let message = refusal["message"].as_str().unwrap();
    assert!(
        message.contains("names.static.k8s.io") && message.contains("not that name"),
        "{message}"
    );
    assert_eq!(create(&mut client, CONFIG_MAPS, "good").await.0, StatusCode::CREATED);
    // Policies of the API say nothing of policies; those of files do.
    let rule = json!({"apiGroups": ["*"], "apiVersions": ["*"], "operations": ["*"], "resources": ["*"]});
    let own = json!({"metadata": {"name": "bad"}, "spec": {"matchConstraints": {"resourceRules": [rule]}, "validations":
        [{"expression": "true"}]}});
    let path = format!("{POLICIES}?dryRun=All");
    let (status, refusal) = client.ask(Method::POST, &path, "application/json", own).await;
    assert_eq!(status, StatusCode::UNPROCESSABLE_ENTITY, "{refusal}");
    assert!(
        refusal["message"].as_str().unwrap().contains("not that name"),
        "{refusal}"
    );
    let (_, refusal) = create(&mut client, POLICIES, "other.static.k8s.io").await;
    let message = refusal["message"].as_str().unwrap();
    assert!(
        message.contains("reserved for static manifest-based configurations"),
        "{message}"
    );
    // Neither is an object of the API.
    let (_, list) = client.get(POLICIES).await;
    assert_eq!(list["items"], json!([]));

    read(&server, "success", 1).await;
    fs::write(&file, policy("bad").replace("expression", "expressions")).unwrap();
    read(&server, "failure", 1).await;
    assert!(server.log_tail().contains("the old ones stay"));
    assert_eq!(
        create(&mut client, CONFIG_MAPS, "bad").await.0,
        StatusCode::UNPROCESSABLE_ENTITY
    );
    fs::write(&file, policy("worse")).unwrap();
    read(&server, "success", 2).await;
    assert_eq!(create(&mut client, CONFIG_MAPS, "bad").await.0, StatusCode::CREATED);
    assert_eq!(
        create(&mut client, CONFIG_MAPS, "worse").await.0,
        StatusCode::UNPROCESSABLE_ENTITY
    );
    fs::remove_file(&file).unwrap();
    read(&server, "success", 3).await;
    assert_eq!(create(&mut client, CONFIG_MAPS, "worse").await.0, StatusCode::CREATED);
}

#[test]
fn what_cannot_be_used_ends_the_start() {
    let folder = TempDir::new().unwrap();
    let flag = flag(folder.path());
    let file = folder.path().join("manifests/policy.yaml");
    let binary = Binary::debug().unwrap();
    let refusal = |flags: &[&str]| {
        let flags: Vec<String> = flags.iter().map(|flag| (*flag).to_owned()).collect();
        binary.refusal(&flags).unwrap()
    };
    fs::write(&file, policy("bad")).unwrap();
    let told = refusal(&[&flag]);
    assert!(
        told.contains("requires the ManifestBasedAdmissionControlConfig feature gate"),
        "{told}"
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
        let told = refusal(&[GATE, &flag]);
        let plain = told.replace('\\', "");
        assert!(
            plain.contains(&why.replace('\\', "")) && plain.contains("policy.yaml"),
            "{why}: {told}"
        );
    }
    let told = refusal(&["--admission-control-config-file=/nowhere"]);
    assert!(told.contains("--admission-control-config-file: /nowhere"), "{told}");
}
