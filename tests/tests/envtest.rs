//! The directory of assets for envtest, used as controller-runtime's package `envtest` uses it: its flags, its order of start
//! and stop, its checks of health.

#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "what fails here is the test"
)]

use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use bytes::Bytes;
use conformance::{Binary, Target};
use http::{Method, StatusCode};
use serde_json::{Value, json};
use tempfile::TempDir;

const NAMESPACES: &str = "/api/v1/namespaces";

/// The directory that `holdfast envtest` made.
fn assets(folder: &TempDir) -> PathBuf {
    let directory = folder.path().join("assets");
    let made = Binary::debug()
        .unwrap()
        .command()
        .args(["envtest", "--dir"])
        .arg(&directory)
        .output()
        .unwrap();
    assert!(made.status.success(), "{made:?}");
    let line = String::from_utf8(made.stdout).unwrap();
    let named = line.trim_end().strip_prefix("export KUBEBUILDER_ASSETS=").unwrap();
    assert_eq!(Path::new(named), std::fs::canonicalize(&directory).unwrap());
    named.into()
}

fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

/// A process that is ended with the test.
struct Process(Child);

impl Process {
    fn start(command: &mut Command, log: &Path) -> Self {
        let log = std::fs::File::create(log).unwrap();
        Self(
            command
                .stdin(Stdio::null())
                .stdout(Stdio::null())
                .stderr(log)
                .spawn()
                .unwrap(),
        )
    }

    /// Asks it to end, as envtest does, and gives its exit code.
    fn stop(&mut self) -> Option<i32> {
        let asked = Command::new("kill").arg(self.0.id().to_string()).status().unwrap();
        assert!(asked.success());
        self.0.wait().unwrap().code()
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// One control plane, as envtest starts it.
struct Environment {
    etcd: Process,
    api_server: Process,
    port: u16,
    /// What envtest removes at the end.
    folder: TempDir,
}

impl Environment {
    fn start(assets: &Path, more: &[&str], variables: &[(&str, &str)]) -> Self {
        let folder = TempDir::new().unwrap();
        let path = |name: &str| folder.path().join(name);
        for name in ["etcd", "certs"] {
            std::fs::create_dir(path(name)).unwrap();
        }
        std::fs::write(path("tokens"), "admintoken,admin,admin-uid,\"system:masters\"\n").unwrap();
        let client = free_port();
        let etcd = Process::start(
            Command::new(assets.join("etcd"))
                .arg(format!("--advertise-client-urls=http://127.0.0.1:{client}"))
                .arg(format!("--data-dir={}", path("etcd").display()))
                .arg(format!("--listen-client-urls=http://127.0.0.1:{client}"))
                .arg(format!("--listen-peer-urls=http://127.0.0.1:{}", free_port()))
                .arg("--unsafe-no-fsync=true"),
            &path("etcd.log"),
        );
        let mut environment = Self {
            etcd,
            api_server: Process(Command::new("true").spawn().unwrap()),
            port: client,
            folder,
        };
        environment.wait(&format!("http://127.0.0.1:{client}"), None, "/health");
        environment.start_api_server(assets, client, more, variables);
        environment
    }

    fn start_api_server(&mut self, assets: &Path, client: u16, more: &[&str], variables: &[(&str, &str)]) {
        let path = |name: &str| self.folder.path().join(name);
        self.port = free_port();
        let mut command = Command::new(assets.join("kube-apiserver"));
        command
            .env_remove("HOLDFAST_CONTROLLERS")
            .envs(variables.iter().copied())
            .current_dir(self.folder.path())
            .arg("--allow-privileged=true")
            .arg("--authorization-mode=RBAC")
            .arg("--bind-address=127.0.0.1")
            .arg(format!("--cert-dir={}", path("certs").display()))
            .arg("--disable-admission-plugins=ServiceAccount")
            .arg(format!("--etcd-servers=http://127.0.0.1:{client}"))
            .arg(format!("--secure-port={}", self.port))
            .arg(format!("--service-account-issuer=https://127.0.0.1:{}/", self.port))
            .arg("--service-cluster-ip-range=10.0.0.0/24")
            .arg(format!("--token-auth-file={}", path("tokens").display()))
            .args(more);
        self.api_server = Process::start(&mut command, &path("api-server.log"));
        let url = format!("https://127.0.0.1:{}", self.port);
        self.wait(&url, Some("certs/apiserver.crt"), "/healthz");
    }

    /// Waits until an endpoint of health says that all is well.
    fn wait(&mut self, url: &str, authority: Option<&str>, path: &str) {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .unwrap();
        let end = Instant::now() + Duration::from_secs(60);
        let authority = authority.map(|name| self.folder.path().join(name));
        loop {
            let healthy = runtime.block_on(async {
                let target = Target::at(url, authority.as_deref(), None)?;
                let mut connection = target.connect().await?;
                let (status, _) = connection.ask(Method::GET, path, "", Bytes::new()).await?;
                anyhow::Ok(status == StatusCode::OK)
            });
            if healthy.is_ok_and(|healthy| healthy) {
                return;
            }
            let log = || std::fs::read_to_string(self.folder.path().join("api-server.log")).unwrap_or_default();
            assert!(matches!(self.etcd.0.try_wait(), Ok(None)), "etcd ended");
            let is_there = authority.is_none() || matches!(self.api_server.0.try_wait(), Ok(None));
            assert!(is_there && Instant::now() < end, "not ready: {}", log());
            std::thread::sleep(Duration::from_millis(2));
        }
    }

    async fn ask(&self, method: Method, path: &str, body: &Value) -> (StatusCode, Value) {
        let authority = self.folder.path().join("certs/apiserver.crt");
        let url = format!("https://127.0.0.1:{}", self.port);
        let target = Target::at(&url, Some(&authority), Some("admintoken")).unwrap();
        let mut connection = target.connect().await.unwrap();
        let body = match body {
            Value::Null => Bytes::new(),
            body => body.to_string().into(),
        };
        let (status, answer) = connection.ask(method, path, "application/json", body).await.unwrap();
        (status, serde_json::from_slice(&answer).unwrap_or_default())
    }

    fn log(&self) -> String {
        std::fs::read_to_string(self.folder.path().join("api-server.log")).unwrap()
    }

    /// The names of files and folders below `name`.
    fn files(&self, name: &str) -> Vec<String> {
        let entries = std::fs::read_dir(self.folder.path().join(name)).unwrap();
        let mut names: Vec<String> = entries
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        names
    }
}

fn namespace(name: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
}

/// A definition and an object of it.
fn widgets() -> (Value, Value) {
    let definition = json!({
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
    (definition, widget)
}

#[test]
fn an_environment_serves_and_leaves_nothing_behind() {
    let folder = TempDir::new().unwrap();
    let assets = assets(&folder);
    let mut environment = Environment::start(&assets, &[], &[]);
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let (definition, widget) = widgets();
    runtime.block_on(async {
        let path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
        assert_eq!(
            environment.ask(Method::POST, path, &definition).await.0,
            StatusCode::CREATED
        );
        let definition = format!("{path}/widgets.example.com");
        loop {
            let (_, now) = environment.ask(Method::GET, &definition, &Value::Null).await;
            let conditions = now["status"]["conditions"].as_array().cloned().unwrap_or_default();
            if conditions
                .iter()
                .any(|condition| condition["type"] == "Established" && condition["status"] == "True")
            {
                break;
            }
        }
        let (status, answer) = environment
            .ask(Method::POST, "/apis/example.com/v1/widgets", &widget)
            .await;
        assert_eq!(status, StatusCode::CREATED, "{answer}");
        // No controllers run: a namespace stays until somebody finalizes it.
        assert_eq!(
            environment.ask(Method::POST, NAMESPACES, &namespace("a")).await.0,
            StatusCode::CREATED
        );
        let path = format!("{NAMESPACES}/a");
        environment.ask(Method::DELETE, &path, &Value::Null).await;
        let (_, terminating) = environment.ask(Method::GET, &path, &Value::Null).await;
        assert_eq!(terminating["status"]["phase"], "Terminating");
        let finalized =
            json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "a"}, "spec": {"finalizers": []}});
        let (status, answer) = environment
            .ask(Method::PUT, &format!("{path}/finalize"), &finalized)
            .await;
        assert_eq!(status, StatusCode::OK, "{answer}");
        assert_eq!(
            environment.ask(Method::GET, &path, &Value::Null).await.0,
            StatusCode::NOT_FOUND
        );
    });
    assert_eq!(environment.api_server.stop(), Some(0));
    assert_eq!(environment.etcd.stop(), Some(0));
    // All there is lies in the directories that envtest gave and takes away.
    assert_eq!(environment.files("certs"), ["apiserver.crt", "apiserver.key"]);
    let mut all = environment.files("");
    all.retain(|name| !["api-server.log", "etcd.log", "tokens"].contains(&name.as_str()));
    assert_eq!(all, ["certs", "etcd"]);
}

#[test]
fn objects_stay_as_long_as_etcd_does() {
    let folder = TempDir::new().unwrap();
    let assets = assets(&folder);
    let mut environment = Environment::start(&assets, &[], &[]);
    let runtime = tokio::runtime::Runtime::new().unwrap();
    runtime.block_on(environment.ask(Method::POST, NAMESPACES, &namespace("kept")));
    let log = std::fs::read_to_string(environment.folder.path().join("etcd.log")).unwrap();
    assert_eq!(log, "", "etcd has nothing to say");
    assert_eq!(environment.api_server.stop(), Some(0));
    let client = etcd_port(&environment);
    environment.start_api_server(&assets, client, &[], &[]);
    let (status, _) = runtime.block_on(environment.ask(Method::GET, &format!("{NAMESPACES}/kept"), &Value::Null));
    assert_eq!(status, StatusCode::OK);
}

/// The port that an environment's etcd listens on, from its command line.
fn etcd_port(environment: &Environment) -> u16 {
    let line = std::fs::read_to_string(format!("/proc/{}/cmdline", environment.etcd.0.id())).unwrap();
    let flag = "--listen-client-urls=http://127.0.0.1:";
    let word = line.split('\0').find_map(|word| word.strip_prefix(flag)).unwrap();
    word.parse().unwrap()
}

#[test]
fn one_line_switches_controllers_on() {
    let folder = TempDir::new().unwrap();
    let assets = assets(&folder);
    let by_flag = Environment::start(&assets, &["--controllers=namespace-controller"], &[]);
    let by_variable = Environment::start(&assets, &[], &[("HOLDFAST_CONTROLLERS", "*")]);
    for environment in [by_flag, by_variable] {
        let runtime = tokio::runtime::Runtime::new().unwrap();
        runtime.block_on(async {
            environment.ask(Method::POST, NAMESPACES, &namespace("gone")).await;
            let path = format!("{NAMESPACES}/gone");
            environment.ask(Method::DELETE, &path, &Value::Null).await;
            while environment.ask(Method::GET, &path, &Value::Null).await.0 != StatusCode::NOT_FOUND {}
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
    let environment = Environment::start(&assets, &flags, &[]);
    let log = environment.log();
    let said: Vec<&str> = log.lines().filter(|line| line.contains("change nothing")).collect();
    assert_eq!(said.len(), 1, "{log}");
    assert!(said[0].contains("--kubelet-timeout --profiling"), "{log}");

    let api_server = assets.join("kube-apiserver");
    let refused = Command::new(&api_server).arg("--no-such-flag=1").output().unwrap();
    assert!(!refused.status.success());
    assert!(
        String::from_utf8_lossy(&refused.stderr).contains("--no-such-flag"),
        "{refused:?}"
    );
    let refused = Command::new(&api_server).output().unwrap();
    assert!(
        String::from_utf8_lossy(&refused.stderr).contains("--etcd-servers must be specified"),
        "{refused:?}"
    );
    // What envtest looks for in the help decides which flags it sets.
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
        let started: Vec<_> = (0..20)
            .map(|_| scope.spawn(|| Environment::start(&assets, &[], &[])))
            .collect();
        started
            .into_iter()
            .map(|environment| environment.join().unwrap())
            .collect()
    });
    let runtime = tokio::runtime::Runtime::new().unwrap();
    for (number, environment) in environments.iter().enumerate() {
        let own = namespace(&format!("of-{number}"));
        assert_eq!(
            runtime.block_on(environment.ask(Method::POST, NAMESPACES, &own)).0,
            StatusCode::CREATED
        );
    }
    for environment in &environments {
        let (_, list) = runtime.block_on(environment.ask(Method::GET, NAMESPACES, &Value::Null));
        // Four that every server has, and its own.
        assert_eq!(list["items"].as_array().map(Vec::len), Some(5));
    }
}
