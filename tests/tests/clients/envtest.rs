//! The directory of assets for envtest, used as controller-runtime's package `envtest` uses it: its flags, its order of start
//! and stop, its checks of health.

use std::path::{Path, PathBuf};
use std::process::Command;

use bytes::Bytes;
use conformance::{Binary, Environment};
use http::{Method, StatusCode};
use serde_json::{Value, json};
use tempfile::TempDir;

const NAMESPACES: &str = "/api/v1/namespaces";

/// Returns the directory that `holdfast envtest` creates.
fn assets(folder: &TempDir) -> PathBuf {
    let directory = folder.path().join("assets");
    let named = Binary::debug().unwrap().assets(&directory).unwrap();
    assert_eq!(named, std::fs::canonicalize(&directory).unwrap());
    named
}

fn start(assets: &Path, more: &[&str], variables: &[(&str, &str)]) -> Environment {
    Environment::start(assets, more, variables).unwrap()
}

async fn ask(environment: &Environment, method: Method, path: &str, body: &Value) -> (StatusCode, Value) {
    let mut connection = environment.target().unwrap().connect().await.unwrap();
    let body = match body {
        Value::Null => Bytes::new(),
        body => body.to_string().into(),
    };
    let (status, answer) = connection.ask(method, path, "application/json", body).await.unwrap();
    (status, serde_json::from_slice(&answer).unwrap_or_default())
}

fn namespace(name: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
}

/// Returns a CRD and an object of it.
fn widgets() -> (Value, Value) {
    let crd = json!({
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": "widgets.example.com"},
        "spec": {
            "group": "example.com",
            "names": {"plural": "widgets", "kind": "Widget"},
            "scope": "Cluster",
            "versions": [{"name": "v1", "served": true, "storage": true,
                "schema": {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}}}],
        },
    });
    let widget =
        json!({"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": "a"}, "spec": {"size": 1}});
    (crd, widget)
}

#[test]
fn an_environment_serves_and_leaves_nothing_behind() {
    let folder = TempDir::new().unwrap();
    let assets = assets(&folder);
    let mut environment = start(&assets, &[], &[]);
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let (crd, widget) = widgets();
    runtime.block_on(async {
        let path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
        assert_eq!(ask(&environment, Method::POST, path, &crd).await.0, StatusCode::CREATED);
        let crd = format!("{path}/widgets.example.com");
        loop {
            let (_, now) = ask(&environment, Method::GET, &crd, &Value::Null).await;
            let conditions = now["status"]["conditions"].as_array().cloned().unwrap_or_default();
            if conditions
                .iter()
                .any(|condition| condition["type"] == "Established" && condition["status"] == "True")
            {
                break;
            }
        }
        let (status, answer) = ask(&environment, Method::POST, "/apis/example.com/v1/widgets", &widget).await;
        assert_eq!(status, StatusCode::CREATED, "{answer}");
        // No controllers run: a namespace stays until a client finalizes it.
        assert_eq!(
            ask(&environment, Method::POST, NAMESPACES, &namespace("a")).await.0,
            StatusCode::CREATED
        );
        let path = format!("{NAMESPACES}/a");
        ask(&environment, Method::DELETE, &path, &Value::Null).await;
        let (_, terminating) = ask(&environment, Method::GET, &path, &Value::Null).await;
        assert_eq!(terminating["status"]["phase"], "Terminating");
        let finalized =
            json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "a"}, "spec": {"finalizers": []}});
        let (status, answer) = ask(&environment, Method::PUT, &format!("{path}/finalize"), &finalized).await;
        assert_eq!(status, StatusCode::OK, "{answer}");
        assert_eq!(
            ask(&environment, Method::GET, &path, &Value::Null).await.0,
            StatusCode::NOT_FOUND
        );
    });
    assert_eq!(environment.stop_api_server().unwrap(), Some(0));
    assert_eq!(environment.stop_etcd().unwrap(), Some(0));
    // All files are in the directories that envtest provides and removes.
    let mut certificates: Vec<String> = std::fs::read_dir(environment.path("certs"))
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    certificates.sort();
    assert_eq!(certificates, ["apiserver.crt", "apiserver.key"]);
    assert_eq!(environment.made().unwrap(), ["certs", "etcd"]);
}

#[test]
fn objects_stay_as_long_as_etcd_does() {
    let folder = TempDir::new().unwrap();
    let assets = assets(&folder);
    let mut environment = start(&assets, &[], &[]);
    let runtime = tokio::runtime::Runtime::new().unwrap();
    runtime.block_on(ask(&environment, Method::POST, NAMESPACES, &namespace("kept")));
    let log = std::fs::read_to_string(environment.path("etcd.log")).unwrap();
    assert_eq!(log, "", "etcd has nothing to say");
    assert_eq!(environment.stop_api_server().unwrap(), Some(0));
    environment.start_api_server(&assets, &[], &[]).unwrap();
    let (status, _) = runtime.block_on(ask(
        &environment,
        Method::GET,
        &format!("{NAMESPACES}/kept"),
        &Value::Null,
    ));
    assert_eq!(status, StatusCode::OK);
}

#[test]
fn one_line_switches_controllers_on() {
    let folder = TempDir::new().unwrap();
    let assets = assets(&folder);
    let by_flag = start(&assets, &["--controllers=namespace-controller"], &[]);
    let by_variable = start(&assets, &[], &[("HOLDFAST_CONTROLLERS", "*")]);
    for environment in [by_flag, by_variable] {
        let runtime = tokio::runtime::Runtime::new().unwrap();
        runtime.block_on(async {
            ask(&environment, Method::POST, NAMESPACES, &namespace("gone")).await;
            let path = format!("{NAMESPACES}/gone");
            ask(&environment, Method::DELETE, &path, &Value::Null).await;
            while ask(&environment, Method::GET, &path, &Value::Null).await.0 != StatusCode::NOT_FOUND {}
        });
    }
}

#[test]
fn flags_of_kube_apiserver_are_taken_and_others_end_the_start() {
    let folder = TempDir::new().unwrap();
    let assets = assets(&folder);
    let flags = [
        "--profiling=false",
        "--kubelet-timeout",
        "7s",
        "--allow_privileged=false",
    ];
    let environment = start(&assets, &flags, &[]);
    let log = std::fs::read_to_string(environment.path("api-server.log")).unwrap();
    let said: Vec<&str> = log.lines().filter(|line| line.contains("change nothing")).collect();
    assert_eq!(said.len(), 1, "{log}");
    assert!(said[0].contains("\"--kubelet-timeout\""), "{log}");

    let api_server = assets.join("kube-apiserver");
    let rejected = Command::new(&api_server).arg("--no-such-flag=1").output().unwrap();
    assert!(!rejected.status.success());
    assert!(
        String::from_utf8_lossy(&rejected.stderr).contains("--no-such-flag"),
        "{rejected:?}"
    );
    let flag = "--admission-control=AlwaysAdmit";
    let rejected = Command::new(&api_server).arg(flag).output().unwrap();
    assert!(!rejected.status.success());
    let log = String::from_utf8_lossy(&rejected.stderr).into_owned();
    assert!(
        log.contains("not supported by Holdfast yet: --admission-control"),
        "{log}"
    );
    let rejected = Command::new(&api_server).output().unwrap();
    assert!(
        String::from_utf8_lossy(&rejected.stderr).contains("--etcd-servers must be specified"),
        "{rejected:?}"
    );
    // envtest searches the help to decide which flags it sets.
    let help = |name: &str| {
        let shown = Command::new(assets.join(name)).arg("--help").output().unwrap();
        assert!(shown.status.success());
        String::from_utf8(shown.stdout).unwrap()
    };
    let lists = |help: &str, flag: &str| {
        help.lines()
            .any(|line| line.trim_start().starts_with(&format!("--{flag}")))
    };
    assert!(lists(&help("etcd"), "unsafe-no-fsync"));
    assert!(lists(&help("kube-apiserver"), "secure-port"));
    assert!(!lists(&help("kube-apiserver"), "insecure-port"));
}

#[test]
fn twenty_environments_run_at_once() {
    let folder = TempDir::new().unwrap();
    let assets = assets(&folder);
    let environments: Vec<Environment> = std::thread::scope(|scope| {
        let started: Vec<_> = (0..20).map(|_| scope.spawn(|| start(&assets, &[], &[]))).collect();
        started
            .into_iter()
            .map(|environment| environment.join().unwrap())
            .collect()
    });
    let runtime = tokio::runtime::Runtime::new().unwrap();
    for (number, environment) in environments.iter().enumerate() {
        let own = namespace(&format!("of-{number}"));
        assert_eq!(
            runtime.block_on(ask(environment, Method::POST, NAMESPACES, &own)).0,
            StatusCode::CREATED
        );
    }
    for environment in &environments {
        let (_, list) = runtime.block_on(ask(environment, Method::GET, NAMESPACES, &Value::Null));
        // Four that every server has, and the one of this environment.
        assert_eq!(list["items"].as_array().map(Vec::len), Some(5));
    }
}
