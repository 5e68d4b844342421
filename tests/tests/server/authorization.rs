//! Authorization by webhooks, configuration files and policy files, through the real binary.

use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use bytes::Bytes;
use conformance::issuer::TestIssuer;
use conformance::{Binary, Client, Server, Target, USER_TOKEN};
use http::{Method, StatusCode};
use serde_json::{Value, json};
use tempfile::TempDir;

const JSON: &str = "application/json";
const REVIEWS: &str = "/apis/authorization.k8s.io/v1/subjectaccessreviews";
const RULES: &str = "/apis/authorization.k8s.io/v1/selfsubjectrulesreviews";
const PODS: &str = "/api/v1/namespaces/default/pods";

/// Time limit of anything that happens asynchronously.
const LIMIT: Duration = Duration::from_secs(60);

/// Sends a request of the user alice, who has no role.
async fn alice(server: &Server, method: Method, path: &str, body: &Value) -> (StatusCode, String) {
    let target = Target::new(server).unwrap().with_token(USER_TOKEN);
    let mut connection = target.connect().await.unwrap();
    let body = match body {
        Value::Null => Bytes::new(),
        body => body.to_string().into(),
    };
    let (status, answer) = connection.ask(method, path, JSON, body).await.unwrap();
    (status, String::from_utf8_lossy(&answer).into_owned())
}

async fn get(server: &Server, path: &str) -> (StatusCode, String) {
    alice(server, Method::GET, path, &Value::Null).await
}

/// Writes the kubeconfig of a webhook and returns its path.
fn kubeconfig(hook: &TestIssuer, folder: &Path) -> String {
    fs::write(folder.join("ca.crt"), &hook.authority).unwrap();
    let path = folder.join("webhook.yaml");
    let text = format!(
        "apiVersion: v1\nkind: Config\ncurrent-context: w\ncontexts: [{{name: w, context: {{cluster: w, user: u}}}}]\nclusters: \
         [{{name: w, cluster: {{server: '{}/review', certificate-authority: ca.crt}}}}]\nusers: [{{name: u, user: {{token: \
         secret}}}}]\n",
        hook.url
    );
    fs::write(&path, text).unwrap();
    path.display().to_string()
}

/// Makes the webhook answer with this status from now on.
fn answer(hook: &TestIssuer, status: &Value) {
    let review = json!({"apiVersion": "authorization.k8s.io/v1", "kind": "SubjectAccessReview", "status": status});
    hook.serve("/review", 200, &review);
}

fn start(flags: &[String]) -> Server {
    let flags: Vec<&str> = flags.iter().map(String::as_str).collect();
    Server::start(&Binary::debug().unwrap(), &flags).unwrap()
}

/// Returns the status of a review of alice's access by an administrator.
async fn review(client: &mut Client, verb: &str) -> Value {
    let review = json!({"apiVersion": "authorization.k8s.io/v1", "kind": "SubjectAccessReview",
        "spec": {"user": "alice", "resourceAttributes": {"verb": verb, "resource": "pods", "namespace": "default",
            "labelSelector": {"requirements": [{"key": "app", "operator": "In", "values": ["web"]}]}}}});
    let (status, answer) = client.ask(Method::POST, REVIEWS, JSON, review).await;
    assert_eq!(status, StatusCode::CREATED, "{answer}");
    answer["status"].clone()
}

#[tokio::test]
async fn webhook_decides_what_roles_do_not() {
    let (hook, folder) = (TestIssuer::start().await, TempDir::new().unwrap());
    answer(&hook, &json!({"allowed": true, "reason": "friend"}));
    let server = start(&[
        "--authorization-mode=RBAC,Webhook".to_owned(),
        format!(
            "--authorization-webhook-config-file={}",
            kubeconfig(&hook, folder.path())
        ),
        "--authorization-webhook-version=v1".to_owned(),
        "--authorization-webhook-cache-unauthorized-ttl=0s".to_owned(),
    ]);
    let mut client = Client::new(&server).await;
    assert!(hook.requests("/review").is_empty(), "local decisions ask nobody");
    let path = format!("{PODS}?labelSelector=app%3Dweb&fieldSelector=spec.nodeName%3Dn1");
    for _ in 0..3 {
        assert_eq!(get(&server, &path).await.0, StatusCode::OK);
    }
    let calls = hook.requests("/review");
    assert_eq!(calls.len(), 1, "answers are cached");
    assert_eq!(
        calls[0]["spec"]["resourceAttributes"],
        json!({"namespace": "default", "verb": "list", "version": "v1", "resource": "pods",
            "fieldSelector": {"requirements": [{"key": "spec.nodeName", "operator": "In", "values": ["n1"]}]},
            "labelSelector": {"requirements": [{"key": "app", "operator": "In", "values": ["web"]}]}})
    );
    assert_eq!(calls[0]["spec"]["user"], "alice");

    // Reviews and the check of escalation during a write ask it too.
    assert_eq!(
        review(&mut client, "list").await,
        json!({"allowed": true, "reason": "friend"})
    );
    let role = json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": {"name": "all"},
        "rules": [{"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]}]});
    let roles = "/apis/rbac.authorization.k8s.io/v1/clusterroles";
    let (status, text) = alice(&server, Method::POST, roles, &role).await;
    assert_eq!(status, StatusCode::CREATED, "{text}");
    assert!(
        hook.requests("/review")
            .iter()
            .any(|call| call["spec"]["resourceAttributes"]["verb"] == "escalate")
    );
    let rules =
        json!({"apiVersion": "authorization.k8s.io/v1", "kind": "SelfSubjectRulesReview", "spec": {"namespace": "a"}});
    let (_, text) = alice(&server, Method::POST, RULES, &rules).await;
    assert!(text.contains("\"incomplete\":true"), "{text}");
    assert!(
        text.contains("webhook authorizer does not support user rule resolution"),
        "{text}"
    );

    answer(
        &hook,
        &json!({"allowed": false, "denied": true, "reason": "not a friend"}),
    );
    let (status, text) = get(&server, "/api/v1/nodes").await;
    assert_eq!(status, StatusCode::FORBIDDEN);
    assert!(text.contains("at the cluster scope: not a friend"), "{text}");
    assert_eq!(
        review(&mut client, "delete").await,
        json!({"denied": true, "allowed": false, "reason": "not a friend"})
    );

    hook.serve("/review", 403, &json!({}));
    let (status, text) = get(&server, "/api/v1/services").await;
    assert_eq!(status, StatusCode::INTERNAL_SERVER_ERROR);
    assert!(
        text.starts_with("Internal Server Error: \"/api/v1/services\": "),
        "{text}"
    );
    let (_, metrics) = client.ask(Method::GET, "/metrics", JSON, Value::Null).await;
    let metrics = metrics.as_str().unwrap();
    for series in [
        "webhook_evaluations_total{name=\"default\",result=\"success\"}",
        "webhook_evaluations_fail_open_total{name=\"default\",result=\"error\"} 1\n",
        "decisions_total{decision=\"denied\",name=\"default\",type=\"Webhook\"}",
    ] {
        assert!(
            metrics.contains(&format!("apiserver_authorization_{series}")),
            "{series}: {metrics}"
        );
    }
}

/// Returns an AuthorizationConfiguration with a webhook for requests that match the condition.
fn configuration(kubeconfig: &str, condition: &str) -> String {
    format!(
        "apiVersion: apiserver.config.k8s.io/v1\nkind: AuthorizationConfiguration\nauthorizers:\n- type: Webhook\n  name: w\n  \
         webhook:\n    timeout: 3s\n    subjectAccessReviewVersion: v1\n    matchConditionSubjectAccessReviewVersion: v1\n    \
         failurePolicy: Deny\n    connectionInfo: {{type: KubeConfigFile, kubeConfigFile: {kubeconfig}}}\n    matchConditions: \
         [{{expression: \"{condition}\"}}]\n- {{type: RBAC, name: rbac}}\n"
    )
}

/// Writes a file atomically.
fn write(path: &Path, text: &str) {
    let next = path.with_extension("next");
    fs::write(&next, text).unwrap();
    fs::rename(next, path).unwrap();
}

#[tokio::test]
async fn changed_configuration_is_used_unless_it_is_invalid() {
    let (hook, folder) = (TestIssuer::start().await, TempDir::new().unwrap());
    answer(&hook, &json!({"allowed": true}));
    let (file, kubeconfig) = (
        folder.path().join("authorization.yaml"),
        kubeconfig(&hook, folder.path()),
    );
    write(&file, &configuration(&kubeconfig, "request.user == 'bob'"));
    let server = start(&[format!("--authorization-config={}", file.display())]);
    let mut client = Client::new(&server).await;
    assert_eq!(
        get(&server, PODS).await.0,
        StatusCode::FORBIDDEN,
        "the condition excludes alice"
    );
    assert!(hook.requests("/review").is_empty());

    let reloads = "apiserver_authorization_config_controller_automatic_reloads_total";
    write(&file, &configuration(&kubeconfig, "request.nobody == 'alice'"));
    client.until_counted(reloads, "failure", 1).await;
    assert_eq!(get(&server, PODS).await.0, StatusCode::FORBIDDEN);
    write(&file, &configuration(&kubeconfig, "request.user == 'alice'"));
    client.until_counted(reloads, "success", 1).await;
    let end = Instant::now() + LIMIT;
    while get(&server, PODS).await.0 != StatusCode::OK {
        assert!(Instant::now() < end, "{}", server.log_tail());
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
    assert_eq!(hook.requests("/review").len(), 1);
}

#[tokio::test]
async fn policy_file_allows_its_users() {
    let folder = TempDir::new().unwrap();
    let file = folder.path().join("policies.jsonl");
    let line = json!({"apiVersion": "abac.authorization.kubernetes.io/v1beta1", "kind": "Policy",
        "spec": {"user": "alice", "namespace": "default", "resource": "pods", "apiGroup": "*", "readonly": true}});
    fs::write(&file, format!("# people\n{line}\n")).unwrap();
    let server = start(&[
        "--authorization-mode=ABAC".to_owned(),
        format!("--authorization-policy-file={}", file.display()),
    ]);
    assert_eq!(get(&server, PODS).await.0, StatusCode::OK);
    let (status, text) = get(&server, "/api/v1/namespaces/other/pods").await;
    assert_eq!(status, StatusCode::FORBIDDEN);
    assert!(
        text.contains("in the namespace \\\"other\\\": No policy matched."),
        "{text}"
    );
}

#[test]
fn unusable_files_end_the_start() {
    let folder = TempDir::new().unwrap();
    let (policies, config) = (folder.path().join("policies"), folder.path().join("config"));
    fs::write(&policies, "{}\n{").unwrap();
    fs::write(&config, configuration("relative.yaml", "true")).unwrap();
    for (flags, why) in [
        (
            vec![
                "--authorization-mode=ABAC".to_owned(),
                format!("--authorization-policy-file={}", policies.display()),
            ],
            "line 2: {: ",
        ),
        (
            vec![format!("--authorization-config={}", config.display())],
            "authorizers[0].connectionInfo.kubeConfigFile: Invalid value: \"relative.yaml\": must be an absolute path",
        ),
        (
            vec![
                format!("--authorization-config={}", config.display()),
                "--authorization-mode=RBAC".to_owned(),
            ],
            "--authorization-config can not be specified when --authorization-mode",
        ),
        (
            vec![
                "--authorization-mode=Webhook".to_owned(),
                "--authorization-webhook-config-file=/nowhere".to_owned(),
            ],
            "/nowhere",
        ),
    ] {
        let flags: Vec<&str> = flags.iter().map(String::as_str).collect();
        let error = Binary::debug().unwrap().rejection(&flags).unwrap();
        assert!(error.contains(why), "{why}: {error}");
    }
}
