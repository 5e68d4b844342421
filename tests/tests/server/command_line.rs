//! Commands of the binary: the server by name, and commands against a temporary server.

use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use conformance::aggregated::Certificates;
use conformance::kubelet::own_address;
use conformance::{Binary, Client, Process, Server, Target, wait_for_end};
use http::StatusCode;
use serde_json::{Value, json};
use test_support::etcd::Etcd;
use test_support::needs;

const LIMIT: Duration = Duration::from_secs(60);

fn holdfast(arguments: &[&str]) -> Command {
    let mut command = Binary::debug().unwrap().command();
    command.args(arguments).stdin(Stdio::null());
    command
}

fn output(arguments: &[&str]) -> Output {
    holdfast(arguments).output().unwrap()
}

fn stdout(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).trim().to_owned()
}

fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[test]
fn serve_starts_the_server() {
    let folder = tempfile::tempdir().unwrap();
    let (data, ready) = (folder.path().join("data"), folder.path().join("ready"));
    let mut child = holdfast(&["serve", "--secure-port=0"])
        .arg(format!("--data-dir={}", data.display()))
        .arg(format!("--ready-file={}", ready.display()))
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    let end = Instant::now() + LIMIT;
    while !ready.exists() {
        assert!(Instant::now() < end && child.try_wait().unwrap().is_none());
        std::thread::sleep(Duration::from_millis(5));
    }
    let kubeconfig = data.join("kubeconfig");
    let checked = output(&["ready", "--kubeconfig", kubeconfig.to_str().unwrap()]);
    assert_eq!(stdout(&checked), "ok");
    Process(child.id()).terminate();
    assert_eq!(wait_for_end(&mut child, LIMIT).unwrap().code(), Some(0));
}

#[test]
fn ready_waits_for_a_server_that_starts_later() {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("data");
    let kubeconfig = format!("--kubeconfig={}", data.join("kubeconfig").display());
    let mut waiting = holdfast(&["ready", "--wait=60s", &kubeconfig])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let data = format!("--data-dir={}", data.display());
    let mut server = holdfast(&["--secure-port=0", &data])
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    assert!(wait_for_end(&mut waiting, LIMIT).unwrap().success());
    Process(server.id()).terminate();
    wait_for_end(&mut server, LIMIT).unwrap();
    let late = output(&["ready", "--wait=100ms", &kubeconfig]);
    assert_eq!(late.status.code(), Some(1));
    let message = stderr(&late);
    assert!(message.contains("cannot connect to https://127.0.0.1:"), "{message}");
}

#[test]
fn missing_kubeconfig_is_named() {
    let output = holdfast(&["ready"])
        .env("KUBECONFIG", "/no/such/config")
        .output()
        .unwrap();
    assert_eq!(
        stderr(&output),
        "holdfast: KUBECONFIG names no existing file: /no/such/config\n"
    );
}

#[test]
fn emulation_of_another_release_is_rejected() {
    let folder = tempfile::tempdir().unwrap();
    let data = format!("--data-dir={}", folder.path().display());
    let output = output(&["--secure-port=0", &data, "--emulated-version=1.35"]);
    let message = stderr(&output);
    assert!(!output.status.success(), "{message}");
    assert!(
        message.contains("not supported by Holdfast yet: --emulated-version"),
        "{message}"
    );
}

#[test]
fn missing_token_file_is_reported_once() {
    let folder = tempfile::tempdir().unwrap();
    let data = format!("--data-dir={}", folder.path().display());
    let message = stderr(&output(&["--secure-port=0", &data, "--token-auth-file=/no/file"]));
    assert_eq!(message.matches("No such file").count(), 1, "{message}");
}

#[test]
fn blame_explains_a_file_without_managed_fields() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("object.yaml");
    let blamed = |text: &str| {
        std::fs::write(&path, text).unwrap();
        let output = output(&["blame", "-f", path.to_str().unwrap()]);
        assert!(output.status.success(), "{output:?}");
        stderr(&output)
    };
    let object = "{apiVersion: v1, kind: ConfigMap, metadata: {name: a";
    assert!(blamed(&format!("{object}}}}}")).contains("--show-managed-fields"));
    let manager = "{manager: m, operation: Apply, apiVersion: v1, fieldsType: FieldsV1, fieldsV1: {}}";
    assert_eq!(blamed(&format!("{object}, managedFields: [{manager}]}}}}")), "");
}

#[test]
fn invalid_log_filter_is_reported() {
    let command = |filter: &str| {
        let mut command = holdfast(&["run", "--", "true"]);
        command.env("HOLDFAST_LOG", filter);
        stderr(&command.output().unwrap())
    };
    assert!(command("a=b=c").contains("HOLDFAST_LOG"));
    assert!(command("info").contains("ended"));
    assert_eq!(command("error"), "");
}

#[tokio::test]
async fn default_server_is_a_small_cluster_without_nodes() {
    let server = Server::start_with_default_controllers(&Binary::debug().unwrap(), &[]).unwrap();
    let mut client = Client::new(&server).await;
    client.namespace("team").await;
    for path in ["serviceaccounts/default", "configmaps/kube-root-ca.crt"] {
        let path = format!("/api/v1/namespaces/team/{path}");
        client.until(&path, |status, _| status == StatusCode::OK).await;
    }
    let request = json!({"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}});
    let token = client
        .make("/api/v1/namespaces/team/serviceaccounts/default/token", request)
        .await;
    assert!(token["status"]["token"].is_string(), "{token}");
    for name in ["first", "second"] {
        let pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name},
            "spec": {"containers": [{"name": "c", "image": "i"}]}});
        client.make("/api/v1/namespaces/team/pods", pod).await;
    }
    let is_sent = |_, list: &Value| list["items"].as_array().is_some_and(|items| !items.is_empty());
    let events = client.until("/api/v1/namespaces/team/events", is_sent).await;
    let event = &events["items"][0];
    assert_eq!(event["reason"], "NoNodes", "{event}");
    assert_eq!(event["involvedObject"]["name"], "first");
    assert!(event["message"].as_str().unwrap().contains("KWOK"), "{event}");
}

#[tokio::test]
async fn selected_controllers_are_all_that_run() {
    let server = Server::start(&Binary::debug().unwrap(), &["--controllers=*"]).unwrap();
    let mut client = Client::new(&server).await;
    client.namespace("team").await;
    // The controller of namespaces answers after the others would have created their objects.
    client.delete("/api/v1/namespaces/team", Value::Null).await;
    client.until_gone("/api/v1/namespaces/team").await;
    let (_, accounts) = client.get("/api/v1/namespaces/default/serviceaccounts").await;
    assert_eq!(accounts["items"], json!([]));
}

#[test]
fn run_gives_the_command_a_server_and_removes_it() {
    let binary = Binary::debug().unwrap();
    let script = format!("{} ready && echo $KUBECONFIG && exit 7", binary.path().display());
    let output = output(&["run", "--", "sh", "-c", &script]);
    let lines = stdout(&output);
    let (first, kubeconfig) = lines.split_once('\n').unwrap_or_else(|| panic!("{output:?}"));
    assert_eq!((first, output.status.code()), ("ok", Some(7)));
    assert!(kubeconfig.ends_with("/kubeconfig"), "{kubeconfig}");
    assert!(
        !Path::new(kubeconfig).parent().unwrap().exists(),
        "{kubeconfig} is left"
    );
    assert!(output.stderr.is_empty(), "{output:?}");
}

#[test]
fn run_keeps_objects_in_a_directory_that_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let data = format!("--data-dir={}", folder.path().join("data").display());
    assert!(output(&["run", &data, "--", "true"]).status.success());
    assert!(folder.path().join("data/store.db").exists());
}

#[test]
fn run_exits_like_env_if_nothing_ran() {
    let code = |arguments: &[&str]| output(arguments).status.code();
    assert_eq!(code(&["run", "--", "/no/such/program"]), Some(127));
    assert_eq!(code(&["run", "--", "/etc/passwd"]), Some(126));
    assert_eq!(code(&["run", "--token-auth-file=/no/file", "--", "true"]), Some(125));
    assert_eq!(
        code(&["run", "--etcd-servers=http://127.0.0.1:9", "--", "true"]),
        Some(125)
    );
    assert_eq!(code(&["run", "true"]), Some(2));
    assert_eq!(code(&["run"]), Some(2));
    assert_eq!(code(&["run", "--", "sh", "-c", "kill -9 $$"]), Some(128 + 9));
}

#[test]
fn run_forwards_signals_to_the_command() {
    let script = "trap 'echo got it; exit 42' TERM; echo started; while :; do sleep 0.02; done";
    let mut child = holdfast(&["run", "--", "sh", "-c", script])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    assert_eq!(lines.next().unwrap().unwrap(), "started");
    Process(child.id()).terminate();
    assert_eq!(lines.next().unwrap().unwrap(), "got it");
    assert_eq!(wait_for_end(&mut child, LIMIT).unwrap().code(), Some(42));
}

#[test]
fn check_describes_flags_and_changes_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let (data, policy) = (folder.path().join("data"), folder.path().join("policy.yaml"));
    let log = folder.path().join("audit.log");
    std::fs::write(
        &policy,
        "apiVersion: audit.k8s.io/v1\nkind: Policy\nrules: [{level: Metadata}]\n",
    )
    .unwrap();
    let flags = [
        format!("--data-dir={}", data.display()),
        format!("--audit-policy-file={}", policy.display()),
        format!("--audit-log-path={}", log.display()),
        "--secure-port=0".to_owned(),
        "--feature-gates=CBORServingAndStorage=true".to_owned(),
        "--enable-admission-plugins=AlwaysDeny".to_owned(),
        "--anonymous-auth=false".to_owned(),
        "--contention-profiling=true".to_owned(),
    ];
    let checked = holdfast(&["check"]).args(&flags).output().unwrap();
    let report = stdout(&checked);
    assert!(checked.status.success(), "{checked:?}");
    for part in [
        "store.db, which the first start creates",
        "--audit-policy-file=",
        "CBORServingAndStorage=true",
        "serviceaccount-controller",
        "all writes (AlwaysDeny)",
        "requests without credentials",
        "--contention-profiling has no effect here",
    ] {
        assert!(report.contains(part), "{part} is missing: {report}");
    }
    assert!(!data.exists() && !log.exists(), "it writes files");
}

#[test]
fn check_fails_where_a_start_would_fail() {
    let folder = tempfile::tempdir().unwrap();
    let bad = folder.path().join("bad.yaml");
    std::fs::write(&bad, "apiVersion: audit.k8s.io/v1\nkind: Nothing\n").unwrap();
    let data = format!("--data-dir={}", folder.path().join("data").display());
    for (flag, part) in [
        ("--feature-gates=NoSuchGate=true".to_owned(), "NoSuchGate"),
        ("--token-auth-file=/no/file".to_owned(), "--token-auth-file"),
        (format!("--encryption-provider-config={}", bad.display()), "bad.yaml"),
        (format!("--admission-control-config-file={}", bad.display()), "bad.yaml"),
        (
            "--etcd-servers=http://127.0.0.1:9 --etcd-cafile=/no/ca".to_owned(),
            "/no/ca",
        ),
        (
            format!("--audit-log-path=/dev/null --audit-policy-file={}", bad.display()),
            "bad.yaml",
        ),
    ] {
        let mut arguments = vec!["check", "--secure-port=0", &data];
        arguments.extend(flag.split(' '));
        let checked = output(&arguments);
        assert_eq!(checked.status.code(), Some(1), "{flag}: {checked:?}");
        assert!(stderr(&checked).contains(part), "{flag}: {checked:?}");
    }
}

#[tokio::test]
async fn check_reports_the_end_of_certificates() {
    let server = Server::start(&Binary::debug().unwrap(), &[]).unwrap();
    let data = format!("--data-dir={}", server.data_dir().display());
    let checked = output(&["check", "--secure-port=0", &data]);
    let report = stdout(&checked);
    assert!(checked.status.success(), "{checked:?}");
    assert!(report.contains("pki/server.crt: valid until 20"), "{report}");
    assert!(report.contains("store.db, "), "{report}");
}

#[tokio::test]
async fn doctor_finds_what_is_broken() {
    let server = Server::start(&Binary::debug().unwrap(), &["--controllers=*,-namespace-controller"]).unwrap();
    let kubeconfig = format!("--kubeconfig={}", server.kubeconfig().display());
    let healthy = output(&["doctor", &kubeconfig]);
    assert!(healthy.status.success(), "{healthy:?}");
    assert!(!stdout(&healthy).contains("problem"), "{healthy:?}");

    let mut client = Client::new(&server).await;
    let webhook = |name: &str, service: &str| {
        json!({"name": name, "sideEffects": "None", "admissionReviewVersions": ["v1"], "failurePolicy": "Ignore",
            "clientConfig": {"service": {"namespace": "default", "name": service}},
            "rules": [{"apiGroups": ["x.example.com"], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["xs"]}]})
    };
    let configuration = json!({"apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingWebhookConfiguration",
        "metadata": {"name": "hooks"},
        "webhooks": [webhook("gone.example.com", "gone"), webhook("empty.example.com", "empty")]});
    client
        .make(
            "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations",
            configuration,
        )
        .await;
    let service = json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "empty"},
        "spec": {"ports": [{"port": 443}]}});
    client.make("/api/v1/namespaces/default/services", service).await;
    let aggregated = json!({"apiVersion": "apiregistration.k8s.io/v1", "kind": "APIService",
        "metadata": {"name": "v1.far.example.com"},
        "spec": {"group": "far.example.com", "version": "v1", "groupPriorityMinimum": 100, "versionPriority": 1,
            "insecureSkipTLSVerify": true, "service": {"namespace": "default", "name": "far"}}});
    client
        .make("/apis/apiregistration.k8s.io/v1/apiservices", aggregated)
        .await;
    client.get("/api/v1/namespaces/default/endpoints").await;
    let path = "/apis/apiregistration.k8s.io/v1/apiservices/v1.far.example.com";
    client
        .until(path, |_, service| {
            service["status"]["conditions"][0]["status"] == "False"
        })
        .await;

    let sick = output(&["doctor", &kubeconfig]);
    assert_eq!(sick.status.code(), Some(1), "{sick:?}");
    let report = stdout(&sick);
    for part in [
        "gone.example.com: Service default/gone does not exist; it is skipped",
        "empty.example.com: Service default/empty has no ready endpoints",
        "APIService v1.far.example.com: ",
        "clients request endpoints of v1",
        "ok       clock",
    ] {
        assert!(report.contains(part), "{part} is missing: {report}");
    }
    assert!(stderr(&sick).contains("4 problems at https://127.0.0.1:"), "{sick:?}");
}

/// Flags that tools for clusters pass to kube-apiserver. `PKI/` is the folder of the certificates, `ETCD` and `ADDRESS` are
/// addresses. The port is not among them, because each test has its own.
struct CommandLine {
    tool: &'static str,
    flags: &'static [&'static str],
}

/// Flags that kubeadm's static Pod has, and those of Cluster API, which runs kubeadm.
const KUBEADM: &[&str] = &[
    "--advertise-address=ADDRESS",
    "--allow-privileged=true",
    "--authorization-mode=Node,RBAC",
    "--client-ca-file=PKI/proxy-ca.crt",
    "--enable-admission-plugins=NodeRestriction",
    "--enable-bootstrap-token-auth=true",
    "--etcd-cafile=PKI/back-ca.crt",
    "--etcd-certfile=PKI/proxy.crt",
    "--etcd-keyfile=PKI/proxy.key",
    "--etcd-servers=ETCD",
    "--kubelet-client-certificate=PKI/proxy.crt",
    "--kubelet-client-key=PKI/proxy.key",
    "--kubelet-preferred-address-types=InternalIP,ExternalIP,Hostname",
    "--proxy-client-cert-file=PKI/proxy.crt",
    "--proxy-client-key-file=PKI/proxy.key",
    "--requestheader-allowed-names=front-proxy-client",
    "--requestheader-client-ca-file=PKI/proxy-ca.crt",
    "--requestheader-extra-headers-prefix=X-Remote-Extra-",
    "--requestheader-group-headers=X-Remote-Group",
    "--requestheader-username-headers=X-Remote-User",
    "--service-account-issuer=https://kubernetes.default.svc.cluster.local",
    "--service-account-key-file=PKI/back.key",
    "--service-account-signing-key-file=PKI/back.key",
    "--service-cluster-ip-range=10.96.0.0/12",
    "--tls-cert-file=PKI/back.crt",
    "--tls-private-key-file=PKI/back.key",
];

const K3S: &[&str] = &[
    "--allow-privileged=true",
    "--anonymous-auth=false",
    "--api-audiences=https://kubernetes.default.svc.cluster.local,k3s",
    "--authorization-mode=Node,RBAC",
    "--bind-address=127.0.0.1",
    "--client-ca-file=PKI/proxy-ca.crt",
    "--egress-selector-config-file=PKI/egress-selector-config.yaml",
    "--enable-admission-plugins=NodeRestriction",
    "--enable-aggregator-routing=true",
    "--enable-bootstrap-token-auth=true",
    "--etcd-servers=ETCD",
    "--kubelet-certificate-authority=PKI/back-ca.crt",
    "--kubelet-client-certificate=PKI/proxy.crt",
    "--kubelet-client-key=PKI/proxy.key",
    "--kubelet-preferred-address-types=InternalIP,ExternalIP,Hostname",
    "--profiling=false",
    "--proxy-client-cert-file=PKI/proxy.crt",
    "--proxy-client-key-file=PKI/proxy.key",
    "--requestheader-allowed-names=system:auth-proxy",
    "--requestheader-client-ca-file=PKI/proxy-ca.crt",
    "--requestheader-extra-headers-prefix=X-Remote-Extra-",
    "--requestheader-group-headers=X-Remote-Group",
    "--requestheader-username-headers=X-Remote-User",
    "--service-account-issuer=https://kubernetes.default.svc.cluster.local",
    "--service-account-key-file=PKI/back.key",
    "--service-account-signing-key-file=PKI/back.key",
    "--service-cluster-ip-range=10.43.0.0/16",
    "--service-node-port-range=30000-32767",
    "--storage-backend=etcd3",
    "--tls-cert-file=PKI/back.crt",
    "--tls-cipher-suites=TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384,TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384,\
     TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256,TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256,\
     TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305,TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305",
    "--tls-private-key-file=PKI/back.key",
];

const KOPS: &[&str] = &[
    "--allow-privileged=true",
    "--anonymous-auth=false",
    "--api-audiences=kubernetes.svc.default",
    "--apiserver-count=1",
    "--authorization-mode=Node,RBAC",
    "--bind-address=0.0.0.0",
    "--client-ca-file=PKI/proxy-ca.crt",
    "--enable-admission-plugins=DefaultStorageClass,DefaultTolerationSeconds,LimitRanger,MutatingAdmissionWebhook,\
     NamespaceLifecycle,NodeRestriction,ResourceQuota,RuntimeClass,ServiceAccount,ValidatingAdmissionPolicy,\
     ValidatingAdmissionWebhook",
    "--etcd-cafile=PKI/back-ca.crt",
    "--etcd-certfile=PKI/proxy.crt",
    "--etcd-keyfile=PKI/proxy.key",
    "--etcd-servers=ETCD",
    "--etcd-servers-overrides=/events#ETCD",
    "--kubelet-client-certificate=PKI/proxy.crt",
    "--kubelet-client-key=PKI/proxy.key",
    "--kubelet-preferred-address-types=InternalIP,Hostname,ExternalIP",
    "--proxy-client-cert-file=PKI/proxy.crt",
    "--proxy-client-key-file=PKI/proxy.key",
    "--requestheader-allowed-names=aggregator",
    "--requestheader-client-ca-file=PKI/proxy-ca.crt",
    "--requestheader-extra-headers-prefix=X-Remote-Extra-",
    "--requestheader-group-headers=X-Remote-Group",
    "--requestheader-username-headers=X-Remote-User",
    "--service-account-issuer=https://api.internal.example.org",
    "--service-account-jwks-uri=https://api.internal.example.org/openid/v1/jwks",
    "--service-account-key-file=PKI/back.key",
    "--service-account-signing-key-file=PKI/back.key",
    "--service-cluster-ip-range=100.64.0.0/13",
    "--storage-backend=etcd3",
    "--tls-cert-file=PKI/back.crt",
    "--tls-private-key-file=PKI/back.key",
    "--v=2",
];

/// Flags that the templates of Cluster API add to kubeadm's.
const CLUSTER_API: &[&str] = &[
    "--audit-log-maxage=10",
    "--audit-log-maxbackup=10",
    "--audit-log-maxsize=100",
    "--audit-log-path=PKI/audit.log",
    "--audit-policy-file=PKI/audit.yaml",
    "--profiling=false",
    "--tls-min-version=VersionTLS12",
];

/// Configuration that k3s writes.
const K3S_EGRESS: &str = "apiVersion: apiserver.k8s.io/v1beta1
kind: EgressSelectorConfiguration
egressSelections:
- name: cluster
  connection:
    proxyProtocol: HTTPConnect
    transport:
      tcp:
        url: https://127.0.0.1:6443
        tlsConfig: {caBundle: PKI/back-ca.crt, clientKey: PKI/proxy.key, clientCert: PKI/proxy.crt}
";

#[needs(etcd)]
#[tokio::test(flavor = "multi_thread")]
async fn command_lines_of_cluster_tools_start_a_server() {
    let with_kubeadm = [KUBEADM, CLUSTER_API].concat();
    let lines = [
        CommandLine {
            tool: "kubeadm",
            flags: KUBEADM,
        },
        CommandLine {
            tool: "k3s",
            flags: K3S,
        },
        CommandLine {
            tool: "kOps",
            flags: KOPS,
        },
        CommandLine {
            tool: "Cluster API",
            flags: with_kubeadm.leak(),
        },
    ];
    for line in lines {
        let (etcd, certificates) = (Etcd::one().unwrap(), Certificates::new("apiserver"));
        let folder = certificates.path("").display().to_string();
        let fill = |text: &str| {
            let text = text
                .replace("PKI/", &folder)
                .replace("ETCD", &format!("http://{}", etcd.client(0)));
            text.replace("ADDRESS", &own_address().to_string())
        };
        certificates.write("egress-selector-config.yaml", &fill(K3S_EGRESS));
        let policy = "apiVersion: audit.k8s.io/v1\nkind: Policy\nrules: [{level: Metadata}]\n";
        certificates.write("audit.yaml", policy);
        let filled: Vec<String> = line.flags.iter().map(|flag| fill(flag)).collect();
        let flags: Vec<&str> = filled.iter().map(String::as_str).collect();
        let started = Server::start(&Binary::debug().unwrap(), &flags);
        let server = started.unwrap_or_else(|error| panic!("{}: {error:#}", line.tool));
        // No flag of these is without effect.
        let ignored = "these flags of kube-apiserver are taken and change nothing";
        assert!(!server.logged(&[ignored]), "{}: {}", line.tool, server.log_tail());
        let url = format!("https://{}", server.address);
        let target = Target::at(&url, Some(&certificates.path("back-ca.crt")), Some("admintoken"));
        let mut connection = target.unwrap().connect().await.unwrap();
        for path in [
            "/api/v1/namespaces/kube-system",
            "/api/v1/namespaces/default/services/kubernetes",
        ] {
            let answer = connection.get(path, "*/*").await.unwrap();
            assert_eq!(answer.status(), StatusCode::OK, "{}: {path}", line.tool);
        }
    }
}
