//! The audit log of the real binary: effects of its flags, its content, and that no event is lost.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use bytes::Bytes;
use conformance::hook::{Hook, Reply, allow};
use conformance::{Binary, Server, Target, USER_TOKEN};
use http::{Method, StatusCode};
use http_body_util::BodyExt as _;
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::sync::mpsc::unbounded_channel;
use tokio::task::JoinSet;

const CONFIG_MAPS: &str = "/api/v1/namespaces/default/configmaps";

/// Time limit of every wait.
const WAIT_TIMEOUT: Duration = Duration::from_secs(60);
const JSON: &str = "application/json";

/// Returns a policy that audits requests of users, and none of the server itself.
fn policy(level: &str, more: &str) -> String {
    format!(
        "apiVersion: audit.k8s.io/v1\nkind: Policy\n{more}\nrules:\n- level: None\n  users: [\"system:apiserver\"]\n- level: \
         None\n  nonResourceURLs: [\"/metrics\", \"/readyz*\"]\n- level: {level}\n"
    )
}

/// A policy that only audits requests for the version.
const VERSION_ALONE: &str = "{apiVersion: audit.k8s.io/v1, kind: Policy, rules: [{level: Metadata, nonResourceURLs: \
                             ['/version']}]}";

/// A server that writes an audit log.
struct Audited {
    server: Server,
    folder: TempDir,
}

impl Audited {
    fn start(policy: &str, more: &[&str]) -> Self {
        let folder = TempDir::new().unwrap();
        let file = folder.path().join("policy.yaml");
        fs::write(&file, policy).unwrap();
        let log = folder.path().join("log/audit.log");
        let mut flags = vec![format!("--audit-policy-file={}", file.display())];
        if !more.iter().any(|flag| flag.starts_with("--audit-log-path")) {
            flags.push(format!("--audit-log-path={}", log.display()));
        }
        flags.extend(more.iter().map(|&flag| flag.to_owned()));
        let flags: Vec<&str> = flags.iter().map(String::as_str).collect();
        Self {
            server: Server::start(&Binary::debug().unwrap(), &flags).unwrap(),
            folder,
        }
    }

    fn target(&self) -> Target {
        Target::new(&self.server).unwrap()
    }

    async fn ask(&self, method: Method, path: &str, media_type: &str, body: &Value) -> StatusCode {
        let body = if body.is_null() {
            Bytes::new()
        } else {
            Bytes::from(body.to_string())
        };
        let mut connection = self.target().connect().await.unwrap();
        connection.ask(method, path, media_type, body).await.unwrap().0
    }

    async fn get(&self, path: &str) -> StatusCode {
        self.ask(Method::GET, path, "", &Value::Null).await
    }

    async fn post(&self, path: &str, body: &Value) -> StatusCode {
        self.ask(Method::POST, path, JSON, body).await
    }

    /// Sends these lines of a head, and returns the status line of the answer.
    async fn raw(&self, head: &str) -> String {
        let mut stream = self.target().raw().await.unwrap();
        let head = format!("{head}\r\nHost: localhost\r\nConnection: close\r\n\r\n");
        stream.write_all(head.as_bytes()).await.unwrap();
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).await.unwrap();
        let answer = String::from_utf8_lossy(&answer).into_owned();
        answer.lines().next().unwrap_or_default().to_owned()
    }

    async fn metrics(&self) -> String {
        let mut connection = self.target().connect().await.unwrap();
        let text = connection
            .send(Method::GET, "/metrics", "", Bytes::new())
            .await
            .unwrap();
        String::from_utf8(text.to_vec()).unwrap()
    }

    fn log(&self) -> PathBuf {
        self.folder.path().join("log/audit.log")
    }

    /// Ends the server, and returns all events that it logged.
    fn events(mut self) -> Vec<Value> {
        self.server.end();
        read(&self.log())
    }
}

/// Returns the events of a log, without those of the server's own controllers.
fn read(log: &Path) -> Vec<Value> {
    events(&fs::read_to_string(log).unwrap())
}

fn events(text: &str) -> Vec<Value> {
    let events = text.lines().map(|line| serde_json::from_str(line).unwrap());
    events
        .filter(|event: &Value| !self::text(event, "/userAgent").starts_with("kube-controller-manager"))
        .collect()
}

fn text<'v>(event: &'v Value, pointer: &str) -> &'v str {
    event.pointer(pointer).and_then(Value::as_str).unwrap_or_default()
}

/// Returns the stages of the events of requests with that verb.
fn stages<'v>(events: &'v [Value], verb: &str) -> Vec<&'v str> {
    let events = events.iter().filter(|event| text(event, "/verb") == verb);
    events.map(|event| text(event, "/stage")).collect()
}

fn last<'v>(events: &'v [Value], verb: &str) -> &'v Value {
    let mut events = events.iter().rev();
    let found = events.find(|event| text(event, "/verb") == verb);
    found.unwrap_or_else(|| panic!("no event of {verb}"))
}

fn config_map(name: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": {"k": "<v>"}})
}

#[tokio::test]
async fn requests_for_deprecated_versions_are_marked() {
    let flag = "--runtime-config=networking.k8s.io/v1beta1=true";
    let server = Audited::start(&policy("Metadata", ""), &[flag]);
    assert_eq!(server.get("/apis/networking.k8s.io/v1beta1/servicecidrs").await, 200);
    assert_eq!(server.get("/api/v1/componentstatuses").await, 200);
    let events = server.events();
    let marks = |resource: &str| {
        let of_resource = events.iter().rfind(|event| event["objectRef"]["resource"] == resource);
        let annotations = &of_resource.unwrap()["annotations"];
        (
            annotations["k8s.io/deprecated"].clone(),
            annotations["k8s.io/removed-release"].clone(),
        )
    };
    assert_eq!(marks("servicecidrs"), (json!("true"), json!("1.37")));
    // No release is known that lacks it.
    assert_eq!(marks("componentstatuses"), (json!("true"), Value::Null));
}

#[tokio::test]
async fn status_in_log_has_no_values_of_conflicts() {
    let server = Audited::start(&policy("Metadata", ""), &[]);
    let apply = async |manager: &str, value: &str| {
        let mut object = config_map("a");
        object["data"]["k"] = json!(value);
        let path = format!("{CONFIG_MAPS}/a?fieldManager={manager}&conflictDetails=true");
        server
            .ask(Method::PATCH, &path, "application/apply-patch+yaml", &object)
            .await
    };
    assert_eq!(apply("a", "hidden").await, 201);
    assert_eq!(apply("b", "other").await, 409);
    let events = server.events();
    let details = &last(&events, "patch")["responseStatus"]["details"];
    assert_eq!(details["causes"][0]["field"], ".data.k");
    assert!(!details.to_string().contains("hidden") && details.get("conflicts").is_none());
}

#[tokio::test]
async fn requests_are_logged_at_their_stages() {
    let server = Audited::start(&policy("Metadata", ""), &[]);
    assert_eq!(server.post(CONFIG_MAPS, &config_map("a")).await, 201);
    assert_eq!(server.get(&format!("{CONFIG_MAPS}/none?a=1&b=2")).await, 404);
    let watch = format!("{CONFIG_MAPS}?watch=1&timeoutSeconds=1");
    assert_eq!(server.get(&watch).await, 200);
    let metrics = server.metrics().await;
    assert!(
        metrics.contains("apiserver_audit_level_total{level=\"Metadata\"} "),
        "{metrics}"
    );
    assert!(metrics.contains("apiserver_audit_event_total "), "{metrics}");
    assert!(
        metrics.contains("apiserver_audit_requests_rejected_total 0\n"),
        "{metrics}"
    );
    let events = server.events();
    assert_eq!(stages(&events, "create"), ["RequestReceived", "ResponseComplete"]);
    assert_eq!(
        stages(&events, "watch"),
        ["RequestReceived", "ResponseStarted", "ResponseComplete"]
    );

    let create = last(&events, "create");
    assert_eq!(create["responseStatus"], json!({"metadata": {}, "code": 201}));
    assert_eq!(
        create["objectRef"],
        json!({"resource": "configmaps", "namespace": "default", "name": "a", "apiVersion": "v1"})
    );
    assert_eq!(create["user"]["username"], "admin");
    assert_eq!(create["sourceIPs"], json!(["127.0.0.1"]));
    assert_eq!(create["userAgent"], "holdfast-tests");
    assert_eq!(create["annotations"]["authorization.k8s.io/decision"], "allow");
    assert_eq!(create["annotations"]["authorization.k8s.io/reason"], "");
    assert!(create.get("requestObject").is_none());

    let missing = last(&events, "get");
    assert_eq!(missing["requestURI"], format!("{CONFIG_MAPS}/none?a=1&b=2"));
    assert_eq!(
        missing["responseStatus"],
        json!({"metadata": {}, "status": "Failure", "message": "configmaps \"none\" not found", "reason": "NotFound",
               "details": {"name": "none", "kind": "configmaps"}, "code": 404})
    );
    let ids: Vec<&str> = events.iter().map(|event| text(event, "/auditID")).collect();
    assert_eq!(ids[0], ids[1]);
}

#[tokio::test]
async fn bodies_are_kept_as_the_level_says() {
    let server = Audited::start(
        &policy(
            "RequestResponse",
            "omitManagedFields: true\nomitStages: [RequestReceived]",
        ),
        &[],
    );
    let kept = json!({"name": "a", "managedFields": []});
    let mut body = config_map("a");
    body["metadata"] = kept;
    server.post(CONFIG_MAPS, &body).await;
    let path = format!("{CONFIG_MAPS}/a");
    for (media_type, patch) in [
        ("application/merge-patch+json", json!({"data": {"m": "<1>"}})),
        (
            "application/json-patch+json",
            json!([{"op": "add", "path": "/data/j", "value": "2"}]),
        ),
        ("application/strategic-merge-patch+json", json!({"data": {"s": "3"}})),
    ] {
        assert_eq!(server.ask(Method::PATCH, &path, media_type, &patch).await, 200);
    }
    let mut connection = server.target().connect().await.unwrap();
    let apply = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\ndata: {z: '4'}\n";
    let address = format!("{path}?fieldManager=m");
    let applied = connection.ask(
        Method::PATCH,
        &address,
        "application/apply-patch+yaml",
        Bytes::from(apply),
    );
    assert_eq!(applied.await.unwrap().0, 200);
    server.get(CONFIG_MAPS).await;
    let protobuf = connection
        .get(&path, "application/vnd.kubernetes.protobuf")
        .await
        .unwrap();
    protobuf.into_body().collect().await.unwrap();
    let options = json!({"propagationPolicy": "Background"});
    server.ask(Method::DELETE, &path, JSON, &options).await;
    let events = server.events();
    assert!(events.iter().all(|event| event["stage"] == "ResponseComplete"));
    assert!(events.iter().all(|event| !event.to_string().contains("managedFields")));
    let create = last(&events, "create");
    assert_eq!(create["requestObject"]["data"], json!({"k": "<v>"}));
    assert_eq!(create["responseObject"]["kind"], "ConfigMap");
    let patches: Vec<&Value> = events.iter().filter(|event| event["verb"] == "patch").collect();
    let sent: Vec<&Value> = patches.iter().map(|event| &event["requestObject"]).collect();
    assert_eq!(*sent[0], json!({"data": {"m": "<1>"}}));
    assert_eq!(*sent[1], json!([{"op": "add", "path": "/data/j", "value": "2"}]));
    assert_eq!(sent[3]["data"], json!({"z": "4"}));
    assert_eq!(patches[3]["responseObject"]["data"]["s"], "3");
    assert_eq!(
        last(&events, "list")["responseObject"]["items"][0]["metadata"]["name"],
        "a"
    );
    let of_protobuf = last(&events, "get");
    assert_eq!(of_protobuf["responseObject"]["metadata"]["name"], "a");
    let delete = last(&events, "delete");
    assert_eq!(
        delete["requestObject"],
        json!({"kind": "DeleteOptions", "apiVersion": "meta.k8s.io/__internal", "propagationPolicy": "Background"})
    );
    assert_eq!(delete["responseStatus"]["status"], "Success");
    assert_eq!(delete["responseObject"]["kind"], "Status");
}

#[tokio::test]
async fn the_first_rule_that_matches_decides() {
    let policy = "{apiVersion: audit.k8s.io/v1, kind: Policy, rules: [{level: None, namespaces: [quiet]}, {level: Metadata, \
                  verbs: [get], resources: [{resources: ['configmaps']}]}, {level: Request, nonResourceURLs: ['/version']}]}";
    let server = Audited::start(policy, &[]);
    server.get("/api/v1/namespaces/quiet/configmaps/a").await;
    server.get("/api/v1/namespaces/loud/configmaps/a").await;
    server.get("/api/v1/namespaces/loud/secrets/a").await;
    server.get("/version").await;
    let events = server.events();
    let completed: Vec<(&str, &str)> = events
        .iter()
        .filter(|event| event["stage"] == "ResponseComplete")
        .map(|event| (text(event, "/requestURI"), text(event, "/level")))
        .collect();
    assert_eq!(
        completed,
        [
            ("/api/v1/namespaces/loud/configmaps/a", "Metadata"),
            ("/version", "Request")
        ]
    );
}

#[tokio::test]
async fn user_and_impersonated_user_are_logged() {
    let server = Audited::start(&policy("Metadata", "omitStages: [RequestReceived]"), &[]);
    let get = format!("GET {CONFIG_MAPS} HTTP/1.1\r\nAudit-ID: mine");
    let through = "X-Forwarded-For: 1.2.3.4, nonsense, 010.0.0.1\r\nX-Real-Ip: 5.6.7.8";
    let as_bob = "Impersonate-User: bob\r\nImpersonate-Group: g";
    for (more, code) in [
        ("Authorization: Bearer wrong", 401),
        ("", 403),
        ("Authorization: Bearer usertoken", 403),
        (&format!("Authorization: Bearer admintoken\r\n{through}"), 200),
        (&format!("Authorization: Bearer admintoken\r\n{as_bob}"), 403),
    ] {
        let head = [get.as_str(), more].join("\r\n");
        let answer = server.raw(head.trim_end()).await;
        assert!(answer.contains(&format!(" {code} ")), "{answer}");
    }
    let answer = server
        .raw(&format!(
            "GET {CONFIG_MAPS}?timeout=bad HTTP/1.1\r\nAuthorization: Bearer admintoken"
        ))
        .await;
    assert!(answer.contains(" 400 "), "{answer}");
    let events = server.events();
    let [unknown, anonymous, alice, forwarded, as_bob, unread] = events.as_slice() else {
        panic!("{} events", events.len());
    };
    assert_eq!(unknown["stage"], "ResponseStarted");
    assert_eq!(unknown["user"], json!({}));
    assert_eq!(
        unknown["responseStatus"],
        json!({"metadata": {}, "status": "Failure", "message": "Unauthorized", "reason": "Unauthorized", "code": 401})
    );
    assert_eq!(anonymous["user"]["username"], "system:anonymous");
    assert_eq!(
        alice["user"],
        json!({"username": "alice", "uid": "alice-uid", "groups": ["devs", "system:authenticated"]})
    );
    assert_eq!(alice["annotations"]["authorization.k8s.io/decision"], "forbid");
    assert_eq!(alice["auditID"], "mine");
    assert_eq!(
        forwarded["sourceIPs"],
        json!(["1.2.3.4", "10.0.0.1", "5.6.7.8", "127.0.0.1"])
    );
    assert_eq!(
        as_bob["impersonatedUser"],
        json!({"username": "bob", "groups": ["g", "system:authenticated"]})
    );
    assert_eq!(as_bob["user"]["username"], "admin");
    assert_eq!(
        as_bob["authenticationMetadata"],
        json!({"impersonationConstraint": "impersonate:user-info"})
    );
    assert_eq!(
        (&unread["stage"], &unread["responseStatus"]["code"]),
        (&json!("ResponseStarted"), &json!(400))
    );
}

#[tokio::test]
async fn admission_records_what_it_did() {
    let server = Audited::start(&policy("Request", "omitStages: [RequestReceived]"), &[]);
    let hook = Hook::start(|review| {
        if review["request"]["object"]["metadata"]["name"] == "open" {
            return Reply::Raw(500, "no".to_owned());
        }
        let mut reply = conformance::hook::patch(&json!([{"op": "add", "path": "/data/h", "value": "<1>"}]));
        if let Reply::Response(response) = &mut reply {
            response["auditAnnotations"] = json!({"key": "said", "no/good": "x"});
        }
        reply
    });
    let hook = hook.await;
    let webhook = hook.webhook(
        "a.b.c",
        &["CREATE"],
        "/v1/configmaps",
        json!({"failurePolicy": "Ignore"}),
    );
    let configuration = json!({
        "apiVersion": "admissionregistration.k8s.io/v1", "kind": "MutatingWebhookConfiguration",
        "metadata": {"name": "conf"}, "webhooks": [webhook],
    });
    let registration = "/apis/admissionregistration.k8s.io/v1";
    server
        .post(&format!("{registration}/mutatingwebhookconfigurations"), &configuration)
        .await;
    let policy = json!({
        "apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingAdmissionPolicy", "metadata": {"name": "vap"},
        "spec": {
            "matchConstraints": {"resourceRules": [
                {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["configmaps"]},
            ]},
            "validations": [{"expression": "true"}, {"expression": "false", "message": "never <so>"}],
            "auditAnnotations": [
                {"key": "name", "valueExpression": "'is ' + object.metadata.name"},
                {"key": "nothing", "valueExpression": "null"},
            ],
        },
    });
    let binding = json!({
        "apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingAdmissionPolicyBinding",
        "metadata": {"name": "bound"}, "spec": {"policyName": "vap", "validationActions": ["Audit"]},
    });
    server
        .post(&format!("{registration}/validatingadmissionpolicies"), &policy)
        .await;
    server
        .post(&format!("{registration}/validatingadmissionpolicybindings"), &binding)
        .await;
    // The informers of webhooks and policies may be a moment behind.
    let (end, mut seen) = (Instant::now() + WAIT_TIMEOUT, 0);
    while !said_by_hook(&server, seen).await {
        assert!(Instant::now() < end, "the webhook and the policy are not met");
        seen += 1;
    }
    assert_eq!(server.post(CONFIG_MAPS, &config_map("a")).await, 201);
    assert_eq!(server.post(CONFIG_MAPS, &config_map("open")).await, 201);
    let events = server.events();
    let annotations_of = |name: &str| {
        let mut events = events.iter();
        let event = events.find(|event| event["verb"] == "create" && event["objectRef"]["name"] == name);
        event.unwrap()["annotations"].clone()
    };
    let annotations = annotations_of("a");
    assert_eq!(annotations["a.b.c/key"], "said");
    assert!(annotations.get("a.b.c/no/good").is_none());
    assert_eq!(
        annotations["mutation.webhook.admission.k8s.io/round_0_index_0"],
        "{\"configuration\":\"conf\",\"webhook\":\"a.b.c\",\"mutated\":true}"
    );
    assert_eq!(
        annotations["patch.webhook.admission.k8s.io/round_0_index_0"],
        "{\"configuration\":\"conf\",\"webhook\":\"a.b.c\",\"patch\":[{\"op\":\"add\",\"path\":\"/data/h\",\"value\":\
         \"\\u003c1\\u003e\"}],\"patchType\":\"JSONPatch\"}"
    );
    assert_eq!(annotations["vap/name"], "is a");
    assert_eq!(
        annotations["validation.policy.admission.k8s.io/validation_failure"],
        "[{\"message\":\"never \\u003cso\\u003e\",\"policy\":\"vap\",\"binding\":\"bound\",\"expressionIndex\":1,\
         \"validationActions\":[\"Audit\"]}]"
    );
    let open = annotations_of("open");
    assert_eq!(
        open["failed-open.mutation.webhook.admission.k8s.io/round_0_index_0"],
        "a.b.c"
    );
    assert_eq!(
        open["mutation.webhook.admission.k8s.io/round_0_index_0"],
        "{\"configuration\":\"conf\",\"webhook\":\"a.b.c\",\"mutated\":false}"
    );
}

/// Returns true if the webhook and the policy already apply to a write.
async fn said_by_hook(server: &Audited, at: usize) -> bool {
    server.post(CONFIG_MAPS, &config_map(&format!("probe-{at}"))).await;
    let log = fs::read_to_string(server.log()).unwrap();
    // The last line may be incomplete.
    let (whole, _) = log.rsplit_once('\n').unwrap();
    let events = events(whole);
    let annotations = &last(&events, "create")["annotations"];
    annotations.get("vap/name").is_some() && annotations.get("a.b.c/key").is_some()
}

#[tokio::test]
async fn pod_security_records_what_it_would_reject() {
    let server = Audited::start(&policy("Metadata", "omitStages: [RequestReceived]"), &[]);
    let pod = json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"},
        "spec": {"hostNetwork": true, "containers": [{"name": "c", "image": "i"}]},
    });
    let labels = json!({"pod-security.kubernetes.io/audit": "baseline"});
    let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "audited", "labels": labels}});
    server.post("/api/v1/namespaces", &namespace).await;
    assert_eq!(server.post("/api/v1/namespaces/audited/pods", &pod).await, 201);
    assert_eq!(server.post("/api/v1/namespaces/default/pods", &pod).await, 201);
    let events = server.events();
    let [.., reported, open] = events.as_slice() else {
        panic!()
    };
    assert_eq!(
        reported["annotations"]["pod-security.kubernetes.io/audit-violations"],
        "would violate PodSecurity \"baseline:latest\": host namespaces (hostNetwork=true)"
    );
    for event in [reported, open] {
        let enforced = &event["annotations"]["pod-security.kubernetes.io/enforce-policy"];
        assert_eq!(enforced, "privileged:latest");
    }
}

#[tokio::test]
async fn files_are_put_aside_compressed_and_removed() {
    let flags = [
        "--audit-log-maxsize=1",
        "--audit-log-maxbackup=2",
        "--audit-log-compress",
    ];
    let server = Audited::start(&policy("Request", "omitStages: [RequestReceived]"), &flags);
    for at in 0..5 {
        let mut body = config_map(&format!("large-{at}"));
        body["data"]["k"] = json!("x".repeat(600 << 10));
        assert_eq!(server.post(CONFIG_MAPS, &body).await, 201);
    }
    let folder = server.log().parent().unwrap().to_owned();
    // Old files are cleaned up in the background.
    let end = Instant::now() + WAIT_TIMEOUT;
    let names = loop {
        let entries = fs::read_dir(&folder).unwrap();
        let names: Vec<String> = entries
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        let compressed = names.iter().filter(|name| name.ends_with(".log.gz")).count();
        if names.len() == 3 && compressed == 2 {
            break names;
        }
        assert!(Instant::now() < end, "{names:?}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    };
    assert!(names.contains(&"audit.log".to_owned()));
    let events = server.events();
    assert_eq!(events.len(), 1);
}

#[tokio::test]
async fn large_events_are_cut_short_and_lines_may_be_text() {
    let flags = [
        "--audit-log-truncate-enabled",
        "--audit-log-truncate-max-event-size=1500",
        "--audit-log-mode=batch",
    ];
    let server = Audited::start(&policy("Request", "omitStages: [RequestReceived]"), &flags);
    let mut body = config_map("large");
    body["data"]["k"] = json!("x".repeat(2000));
    server.post(CONFIG_MAPS, &body).await;
    let events = server.events();
    let event = last(&events, "create");
    assert!(event.get("requestObject").is_none());
    assert_eq!(event["annotations"]["audit.k8s.io/truncated"], "true");

    let mut server = Audited::start(VERSION_ALONE, &["--audit-log-format=legacy", "--audit-log-maxsize=0"]);
    server.get("/version").await;
    server.server.end();
    let text = fs::read_to_string(server.log()).unwrap();
    let line = text.lines().last().unwrap();
    assert!(line.contains(" AUDIT: id=\""), "{line}");
    assert!(
        line.ends_with(" namespace=\"<none>\" uri=\"/version\" response=\"200\""),
        "{line}"
    );
}

#[tokio::test]
async fn requests_that_are_too_many_are_logged_with_their_code() {
    let flags = [
        "--enable-priority-and-fairness=false",
        "--max-mutating-requests-inflight=1",
        "--authorization-mode=AlwaysAllow",
    ];
    let server = Audited::start(&policy("Metadata", ""), &flags);
    let alice = server.target().with_token(USER_TOKEN);
    // Writes wait for the disk, so that several at a time are soon too many.
    let (sender, mut rejections) = unbounded_channel();
    let mut tasks = JoinSet::new();
    for _ in 0..8 {
        let (sender, mut connection) = (sender.clone(), alice.connect().await.unwrap());
        tasks.spawn(async move {
            let body = || Bytes::from_static(br#"{"metadata":{"generateName":"a-"}}"#);
            while connection.ask(Method::POST, CONFIG_MAPS, JSON, body()).await.unwrap().0
                != StatusCode::TOO_MANY_REQUESTS
            {}
            let _ = sender.send(());
        });
    }
    let rejection = tokio::time::timeout(WAIT_TIMEOUT, rejections.recv()).await;
    assert_eq!(rejection.unwrap(), Some(()));
    tasks.shutdown().await;
    let events = server.events();
    let is_rejected = |event: &&Value| event.pointer("/responseStatus/code") == Some(&json!(429));
    let rejected = events.iter().find(is_rejected).unwrap();
    assert_eq!(
        ["/stage", "/verb", "/user/username", "/objectRef/resource"].map(|pointer| text(rejected, pointer)),
        ["ResponseComplete", "create", "alice", "configmaps"]
    );
}

#[tokio::test]
async fn a_strict_log_that_cannot_be_written_rejects_requests() {
    let policy = "{apiVersion: audit.k8s.io/v1, kind: Policy, rules: [{level: Metadata, namespaces: [strict]}]}";
    let strict = "/api/v1/namespaces/strict/configmaps";
    for (mode, code) in [("blocking-strict", 500), ("blocking", 200), ("batch", 200)] {
        let mode = format!("--audit-log-mode={mode}");
        let flags = ["--audit-log-path=/dev/full", "--audit-log-maxsize=0", &mode];
        let server = Audited::start(policy, &flags);
        assert_eq!(server.get(strict).await, code);
        assert_eq!(server.get(CONFIG_MAPS).await, 200);
        if code == 500 {
            let metrics = server.metrics().await;
            assert!(
                metrics.contains("apiserver_audit_requests_rejected_total 1\n"),
                "{metrics}"
            );
            assert!(
                metrics.contains("apiserver_audit_error_total{plugin=\"log\"} 1\n"),
                "{metrics}"
            );
        }
    }
}

/// Returns a kubeconfig of the webhook.
fn kubeconfig(folder: &Path, hook: &Hook) -> PathBuf {
    let authority = &hook.bundle;
    let text = format!(
        "apiVersion: v1\nkind: Config\ncurrent-context: c\ncontexts: [{{name: c, context: {{cluster: c, user: u}}}}]\nclusters: \
         [{{name: c, cluster: {{server: '{}', certificate-authority-data: {authority}}}}}]\nusers: [{{name: u, user: \
         {{token: secret}}}}]\n",
        hook.url("/events")
    );
    let path = folder.join("webhook.yaml");
    fs::write(&path, text).unwrap();
    path
}

// The webhook responds while the test waits for the end of the server.
#[tokio::test(flavor = "multi_thread")]
async fn a_webhook_gets_lists_of_events_until_it_takes_them() {
    let rejected = AtomicUsize::new(0);
    let hook = Hook::start(move |_| match rejected.fetch_add(1, Ordering::Relaxed) {
        0 => Reply::Raw(500, "not now".to_owned()),
        _ => Reply::Raw(200, String::new()),
    })
    .await;
    let folder = TempDir::new().unwrap();
    let config = format!(
        "--audit-webhook-config-file={}",
        kubeconfig(folder.path(), &hook).display()
    );
    let flags = [
        config.as_str(),
        "--audit-log-path=",
        "--audit-webhook-initial-backoff=1ms",
        "--audit-webhook-batch-max-size=4",
        "--audit-webhook-batch-max-wait=1h",
    ];
    let mut server = Audited::start(VERSION_ALONE, &flags);
    for _ in 0..3 {
        server.get("/version").await;
    }
    // Buffered events are sent at the end.
    server.server.end();
    let lists = hook.calls();
    let (full, rest): (Vec<&Value>, Vec<&Value>) = lists
        .iter()
        .partition(|list| list["items"].as_array().unwrap().len() == 4);
    let ([first, again], [rest]) = (full.as_slice(), rest.as_slice()) else {
        panic!("{lists:?}");
    };
    // Events that were not accepted are sent again.
    assert_eq!(first, again);
    assert_eq!(
        (&first["kind"], &first["apiVersion"]),
        (&json!("EventList"), &json!("audit.k8s.io/v1"))
    );
    assert!(first["items"][0].get("kind").is_none());
    assert_eq!(rest["items"].as_array().unwrap().len(), 2);
    assert_eq!(rest["items"][1]["stage"], "ResponseComplete");
    assert!(
        hook.paths().iter().all(|path| path == "/events?timeout=30s"),
        "{:?}",
        hook.paths()
    );
}

#[tokio::test]
async fn an_answer_may_wait_for_the_webhook() {
    let hook = Hook::start(|_| allow()).await;
    let folder = TempDir::new().unwrap();
    let config = format!(
        "--audit-webhook-config-file={}",
        kubeconfig(folder.path(), &hook).display()
    );
    let server = Audited::start(VERSION_ALONE, &[&config, "--audit-webhook-mode=blocking-strict"]);
    server.get("/version").await;
    let events: Vec<Value> = hook.calls().iter().map(|list| list["items"][0].clone()).collect();
    let stages: Vec<&str> = events.iter().map(|event| text(event, "/stage")).collect();
    assert_eq!(stages, ["RequestReceived", "ResponseComplete"]);
    // The log has the same.
    assert_eq!(server.events().len(), 2);
}

#[test]
fn a_bad_policy_or_flag_ends_the_start() {
    let binary = Binary::debug().unwrap();
    let rejected = |flags: &[String]| binary.rejection(flags).unwrap();
    let folder = TempDir::new().unwrap();
    let file = folder.path().join("policy.yaml");
    let head = "apiVersion: audit.k8s.io/v1\nkind: Policy\n";
    for (text, why) in [
        (
            format!("{head}rules: [{{level: Metadata, user: [a]}}]"),
            "strict decoding error: unknown field \"rules[0].user\"",
        ),
        (
            format!("{head}rules: [{{level: Everything}}]"),
            "rules[0].level: Unsupported value: \"Everything\": supported values: \"None\", \"Metadata\", \"Request\", \
             \"RequestResponse\"",
        ),
        (
            "apiVersion: audit.k8s.io/v1alpha1\nkind: Policy\nrules: [{level: None}]".to_owned(),
            "no kind \"Policy\" is registered for version \"audit.k8s.io/v1alpha1\"",
        ),
        (head.to_owned(), "loaded illegal policy with 0 rules"),
    ] {
        fs::write(&file, text).unwrap();
        let said = rejected(&[format!("--audit-policy-file={}", file.display())]);
        assert!(said.contains("loading audit policy file: "), "{said}");
        assert!(said.contains(why), "{said}");
        assert!(said.contains(&format!(": from file {}", file.display())), "{said}");
    }
    let said = rejected(&["--audit-policy-file=/nowhere".to_owned()]);
    assert!(said.contains("failed to read file path \"/nowhere\""), "{said}");
    let said = rejected(&["--audit-log-path=/x".to_owned(), "--audit-log-mode=maybe".to_owned()]);
    assert!(
        said.contains("invalid audit log mode maybe, allowed modes are \"batch,blocking,blocking-strict\""),
        "{said}"
    );
    fs::write(&file, format!("{head}rules: [{{level: None}}]")).unwrap();
    let policy = format!("--audit-policy-file={}", file.display());
    let said = rejected(&[policy, "--audit-webhook-config-file=/nowhere".to_owned()]);
    assert!(said.contains("initializing audit webhook: "), "{said}");
}
