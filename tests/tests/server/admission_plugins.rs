//! Admission plugins that are disabled by default, in the real binary.

use std::fs;
use std::time::{Duration, Instant};

use bytes::Bytes;
use conformance::{Binary, Client, Connection, NODE_TOKEN, Server, Target, USER_TOKEN};
use http::{Method, Request, Response, StatusCode};
use http_body_util::{BodyExt as _, Full};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::net::TcpListener;

const MERGE: &str = "application/merge-patch+json";
const NAMESPACES: &str = "/api/v1/namespaces";
const PODS: &str = "/api/v1/namespaces/default/pods";

/// Flag that enables all plugins that do not conflict with each other.
const ON: &str = "--enable-admission-plugins=AlwaysAdmit,AlwaysPullImages,NamespaceExists,LimitPodHardAntiAffinityTopology,\
                  ExtendedResourceToleration,DenyServiceExternalIPs,OwnerReferencesPermissionEnforcement,PodNodeSelector,\
                  PodTolerationRestriction,EventRateLimit,NodeRestriction";

const CONFIGURATION: &str = "\
apiVersion: apiserver.config.k8s.io/v1
kind: AdmissionConfiguration
plugins:
- name: EventRateLimit
  path: events.yaml
- name: PodNodeSelector
  configuration:
    podNodeSelectorPluginConfig:
      clusterDefaultNodeSelector: pool=usual
      narrow: pool=narrow
- name: PodTolerationRestriction
  configuration:
    apiVersion: podtolerationrestriction.admission.k8s.io/v1alpha1
    kind: Configuration
    default: [{key: usual, operator: Exists}]
";

const EVENTS: &str = "\
apiVersion: eventratelimit.admission.k8s.io/v1alpha1
kind: Configuration
limits:
- {type: Namespace, qps: 1, burst: 1}
";

/// Returns a server with these flags, and the file that configures plugins.
async fn server(flags: &[&str]) -> (Server, Client, TempDir) {
    let folder = TempDir::new().unwrap();
    fs::write(folder.path().join("events.yaml"), EVENTS).unwrap();
    let path = folder.path().join("admission.yaml");
    fs::write(&path, CONFIGURATION).unwrap();
    let configuration = format!("--admission-control-config-file={}", path.display());
    let flags: Vec<&str> = flags.iter().copied().chain([configuration.as_str()]).collect();
    let server = Server::start(&Binary::debug().unwrap(), &flags).unwrap();
    let client = Client::new(&server).await;
    (server, client, folder)
}

fn pod(name: &str, spec: Value) -> Value {
    let mut pod = json!({"metadata": {"name": name}, "spec": {"containers": [{"name": "c", "image": "i"}]}});
    pod["spec"]
        .as_object_mut()
        .unwrap()
        .extend(spec.as_object().unwrap().clone());
    pod
}

/// Sends a request as another user, and returns code and message of the response.
async fn rejected(connection: &mut Connection, method: Method, path: &str, body: Value) -> (u16, String) {
    let media_type = if method == Method::PATCH {
        MERGE
    } else {
        "application/json"
    };
    let body = Bytes::from(body.to_string());
    let (status, answer) = connection.ask(method, path, media_type, body).await.unwrap();
    let answer: Value = serde_json::from_slice(&answer).unwrap();
    (
        status.as_u16(),
        answer["message"].as_str().unwrap_or_default().to_owned(),
    )
}

/// Grants all users every permission except for those of additional permission checks.
async fn allow(client: &mut Client) {
    let rules = json!([{"apiGroups": ["*"], "resources": ["configmaps", "nodes", "pods"], "verbs": ["create", "get", "patch"]}]);
    let role = json!({"metadata": {"name": "all"}, "rules": rules});
    let path = "/apis/rbac.authorization.k8s.io/v1/clusterroles";
    client.make(path, role).await;
    let subjects = json!([{"kind": "Group", "name": "system:authenticated", "apiGroup": "rbac.authorization.k8s.io"}]);
    let role = json!({"kind": "ClusterRole", "name": "all", "apiGroup": "rbac.authorization.k8s.io"});
    let binding = json!({"metadata": {"name": "all"}, "subjects": subjects, "roleRef": role});
    client
        .make("/apis/rbac.authorization.k8s.io/v1/clusterrolebindings", binding)
        .await;
    // The informer of roles may be a moment behind.
    let attributes = json!({"namespace": "default", "verb": "patch", "resource": "configmaps"});
    let review = json!({"spec": {"user": "a", "groups": ["system:authenticated"], "resourceAttributes": attributes}});
    let reviews = "/apis/authorization.k8s.io/v1/subjectaccessreviews";
    let end = Instant::now() + Duration::from_secs(60);
    while client.make(reviews, review.clone()).await["status"]["allowed"] != true {
        assert!(Instant::now() < end, "the role is not followed");
    }
}

/// Creates events until one is rejected.
async fn too_many_events(client: &mut Client) -> String {
    let path = "/api/v1/namespaces/default/events";
    for number in 0..1000 {
        let pod = json!({"kind": "Pod", "namespace": "default", "name": "p"});
        let event = json!({"metadata": {"name": format!("e{number}")}, "involvedObject": pod});
        let (status, answer) = client.ask(Method::POST, path, "application/json", event).await;
        if status == StatusCode::TOO_MANY_REQUESTS {
            assert_eq!(answer.get("details"), None, "{answer}");
            return answer["message"].as_str().unwrap().to_owned();
        }
        assert_eq!(status, StatusCode::CREATED, "{answer}");
    }
    String::new()
}

#[tokio::test]
async fn plugins_shape_and_reject_what_is_written_once_they_are_on() {
    let (server, mut client, _folder) = server(&[ON]).await;
    allow(&mut client).await;
    let made = client.make(PODS, pod("p", json!({}))).await;
    let spec = &made["spec"];
    assert_eq!(spec["containers"][0]["imagePullPolicy"], "Always");
    assert_eq!(spec["nodeSelector"], json!({"pool": "usual"}));
    let usual = json!({"key": "usual", "operator": "Exists"});
    assert!(spec["tolerations"].as_array().unwrap().contains(&usual), "{made}");
    let device = json!({"containers": [{"name": "c", "image": "i", "resources": {"limits": {"a.io/b": "1"}}}]});
    let made = client.make(PODS, pod("device", device)).await;
    let tolerations = made["spec"]["tolerations"].as_array().unwrap();
    assert!(
        tolerations.contains(&json!({"key": "a.io/b", "operator": "Exists", "effect": "NoSchedule"})),
        "{made}"
    );

    let term = json!({"topologyKey": "zone", "labelSelector": {"matchLabels": {"a": "b"}}});
    let apart = json!({"affinity": {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}});
    let addresses = json!({"metadata": {"name": "s"}, "spec": {"ports": [{"port": 1}], "externalIPs": ["1.2.3.4"]}});
    client.namespace("narrow").await;
    let why = "Too many requests: limit reached on type Namespace for key default";
    assert_eq!(too_many_events(&mut client).await, why);
    for (path, object, status, why) in [
        (
            PODS,
            pod("apart", apart),
            403,
            "pods \"apart\" is forbidden: affinity.PodAntiAffinity.RequiredDuringScheduling has TopologyKey zone but only key \
             kubernetes.io/hostname is allowed",
        ),
        (
            "/api/v1/namespaces/default/services",
            addresses,
            403,
            "services \"s\" is forbidden: Use of external IPs is denied by admission control",
        ),
        (
            "/api/v1/namespaces/narrow/pods",
            pod("p", json!({})),
            403,
            "pods \"p\" is forbidden: pod node label selector labels conflict with its namespace whitelist",
        ),
        (
            "/apis/authorization.k8s.io/v1/namespaces/missing/localsubjectaccessreviews",
            json!({"spec": {"user": "u", "resourceAttributes": {"namespace": "missing", "verb": "get", "resource": "pods"}}}),
            404,
            "namespaces \"missing\" not found",
        ),
    ] {
        let (code, rejection) = client.ask(Method::POST, path, "application/json", object).await;
        assert_eq!(
            (code.as_u16(), rejection["message"].as_str()),
            (status, Some(why)),
            "{rejection}"
        );
    }

    let target = Target::new(&server).unwrap();
    let mut node = target.clone().with_token(NODE_TOKEN).connect().await.unwrap();
    let of_node = |name: &str, labels: Value| json!({"metadata": {"name": name, "labels": labels}});
    for (object, why) in [
        (
            of_node("m", json!({})),
            "nodes \"m\" is forbidden: node \"n\" is not allowed to modify node \"m\"",
        ),
        (
            of_node("n", json!({"a.k8s.io/b": "c"})),
            "nodes \"n\" is forbidden: node \"n\" is not allowed to set the following labels: a.k8s.io/b",
        ),
    ] {
        assert_eq!(
            rejected(&mut node, Method::POST, "/api/v1/nodes", object).await,
            (403, why.to_owned())
        );
    }
    assert_eq!(
        rejected(&mut node, Method::POST, "/api/v1/nodes", of_node("n", json!({})))
            .await
            .0,
        201
    );

    client.config_map("default", json!({"name": "c"})).await;
    let config = "/api/v1/namespaces/default/configmaps/c";
    let mut alice = target.with_token(USER_TOKEN).connect().await.unwrap();
    let owner = json!({"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": made["metadata"]["uid"]});
    let owned = json!({"metadata": {"ownerReferences": [owner]}});
    let why = "configmaps \"c\" is forbidden: cannot set an ownerRef on a resource you can't delete: , <nil>";
    assert_eq!(
        rejected(&mut alice, Method::PATCH, config, owned).await,
        (403, why.to_owned())
    );
}

#[tokio::test]
async fn namespaces_are_made_for_new_objects() {
    let (_server, mut client, _folder) = server(&["--enable-admission-plugins=NamespaceAutoProvision"]).await;
    client.config_map("made", json!({"name": "c"})).await;
    assert_eq!(client.get(&format!("{NAMESPACES}/made")).await.0, StatusCode::OK);
    let review = "/apis/authorization.k8s.io/v1/namespaces/asked/localsubjectaccessreviews";
    let attributes = json!({"namespace": "asked", "verb": "get", "resource": "pods"});
    client
        .make(review, json!({"spec": {"user": "u", "resourceAttributes": attributes}}))
        .await;
    assert_eq!(
        client.get(&format!("{NAMESPACES}/asked")).await.0,
        StatusCode::NOT_FOUND
    );
    let path = format!("{NAMESPACES}/dry/configmaps?dryRun=All");
    let object = json!({"metadata": {"name": "c"}});
    let (status, _) = client.ask(Method::POST, &path, "application/json", object).await;
    assert_eq!(status, StatusCode::NOT_FOUND);
}

/// Serves a webhook for image reviews until the test ends: it rejects `bad` images.
async fn image_webhook() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let answer = service_fn(|request: Request<Incoming>| async {
                let body = request.into_body().collect().await?.to_bytes();
                let mut review: Value = serde_json::from_slice(&body).unwrap();
                let bad = review["spec"]["containers"]
                    .as_array()
                    .unwrap()
                    .contains(&json!({"image": "bad"}));
                review["status"] = json!({"allowed": !bad, "reason": "it is bad"});
                Ok::<_, hyper::Error>(Response::new(Full::new(Bytes::from(review.to_string()))))
            });
            tokio::spawn(http1::Builder::new().serve_connection(TokioIo::new(stream), answer));
        }
    });
    url
}

#[tokio::test]
async fn a_webhook_decides_about_images() {
    let folder = TempDir::new().unwrap();
    let kubeconfig = folder.path().join("kubeconfig");
    let url = image_webhook().await;
    let text = format!(
        "apiVersion: v1\nkind: Config\ncurrent-context: c\nclusters: [{{name: c, cluster: {{server: '{url}'}}}}]\nusers: [{{name: u, \
         user: {{}}}}]\ncontexts: [{{name: c, context: {{cluster: c, user: u}}}}]\n"
    );
    fs::write(&kubeconfig, text).unwrap();
    let path = folder.path().join("admission.yaml");
    fs::write(
        &path,
        format!("imagePolicy: {{kubeConfigFile: {}}}\n", kubeconfig.display()),
    )
    .unwrap();
    let configuration = format!("--admission-control-config-file={}", path.display());
    let flags = ["--enable-admission-plugins=ImagePolicyWebhook", &configuration];
    let server = Server::start(&Binary::debug().unwrap(), &flags).unwrap();
    let mut client = Client::new(&server).await;
    client.make(PODS, pod("good", json!({}))).await;
    let bad = pod("bad", json!({"containers": [{"name": "c", "image": "bad"}]}));
    let (status, rejection) = client.ask(Method::POST, PODS, "application/json", bad).await;
    let why = "pods \"bad\" is forbidden: image policy webhook backend denied one or more images: it is bad";
    assert_eq!(
        (status.as_u16(), rejection["message"].as_str()),
        (403, Some(why)),
        "{rejection}"
    );
}

#[tokio::test]
async fn everything_is_denied_where_flags_say_so() {
    let server = Server::start(&Binary::debug().unwrap(), &["--enable-admission-plugins=AlwaysDeny"]).unwrap();
    let mut client = Client::new(&server).await;
    let object = json!({"metadata": {"name": "n"}});
    let (status, rejection) = client.ask(Method::POST, NAMESPACES, "application/json", object).await;
    let why = "namespaces \"n\" is forbidden: admission control is denying all modifications";
    assert_eq!((status.as_u16(), rejection["message"].as_str()), (403, Some(why)));
    assert_eq!(client.get("/readyz").await.0, StatusCode::OK);
}

#[test]
fn invalid_plugin_configuration_ends_the_start() {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("admission.yaml");
    let flag = format!("--admission-control-config-file={}", path.display());
    fs::write(&path, CONFIGURATION.replace("operator: Exists", "operator: Sometimes")).unwrap();
    fs::write(folder.path().join("events.yaml"), EVENTS).unwrap();
    let binary = Binary::debug().unwrap();
    let said = binary.rejection(&[&flag]).unwrap();
    assert!(
        said.contains(
            "couldn't init admission plugin \"PodTolerationRestriction\": PodTolerationRestriction: invalid config:"
        ),
        "{said}"
    );
    fs::write(&path, CONFIGURATION).unwrap();
    fs::write(folder.path().join("events.yaml"), EVENTS.replace("qps: 1", "qps: 0")).unwrap();
    let said = binary.rejection(&[&flag]).unwrap();
    assert!(
        said.contains("limits[0].qps: Invalid value: 0: must be positive"),
        "{said}"
    );
    let said = binary
        .rejection(&["--enable-admission-plugins=EventRateLimit"])
        .unwrap();
    assert!(
        said.contains("limits: Invalid value: null: must not be empty"),
        "{said}"
    );
    let said = binary
        .rejection(&["--enable-admission-plugins=ImagePolicyWebhook"])
        .unwrap();
    assert!(
        said.contains("couldn't init admission plugin \"ImagePolicyWebhook\": no config specified"),
        "{said}"
    );
}

#[tokio::test]
async fn exempt_pods_are_not_checked_and_are_counted() {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("admission.yaml");
    let configuration = "
apiVersion: apiserver.config.k8s.io/v1
kind: AdmissionConfiguration
plugins:
- name: PodSecurity
  configuration:
    apiVersion: pod-security.admission.config.k8s.io/v1
    kind: PodSecurityConfiguration
    defaults: {enforce: baseline, warn: baseline}
    exemptions: {usernames: [admin], namespaces: [free], runtimeClasses: [sandbox]}
";
    let flag = format!("--admission-control-config-file={}", path.display());
    let start = |text: &str| {
        fs::write(&path, text).unwrap();
        Server::start(&Binary::debug().unwrap(), &[&flag])
    };
    let invalid = configuration.replace("[sandbox]", "[sandbox, sandbox]");
    let error = start(&invalid)
        .err()
        .map(|error| format!("{error:#}"))
        .unwrap_or_default();
    let why = "exemptions.runtimeClasses[1]: Duplicate value: \"sandbox\"";
    assert!(error.contains(why), "{error}");

    let server = start(&configuration.replace("[admin]", "[alice]")).unwrap();
    let mut client = Client::new(&server).await;
    for name in ["free", "bound"] {
        client.make(NAMESPACES, json!({"metadata": {"name": name}})).await;
    }
    let class = json!({"metadata": {"name": "sandbox"}, "handler": "h"});
    client.make("/apis/node.k8s.io/v1/runtimeclasses", class).await;
    let binding = json!({
        "metadata": {"name": "alice"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "admin"},
        "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "alice"}],
    });
    client
        .make("/apis/rbac.authorization.k8s.io/v1/clusterrolebindings", binding)
        .await;
    let mut alice = Target::new(&server)
        .unwrap()
        .with_token(USER_TOKEN)
        .connect()
        .await
        .unwrap();

    let pods = |namespace: &str| format!("/api/v1/namespaces/{namespace}/pods?dryRun=All");
    let privileged = |more: Value| {
        let mut spec = json!({"hostPID": true});
        spec.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        pod("p", spec)
    };
    let (status, rejection) = client
        .ask(Method::POST, &pods("bound"), "application/json", privileged(json!({})))
        .await;
    assert_eq!(status, StatusCode::FORBIDDEN, "{rejection}");
    assert!(
        rejection["message"]
            .as_str()
            .unwrap()
            .contains("violates PodSecurity \"baseline:latest\""),
        "{rejection}"
    );
    client.make(&pods("free"), privileged(json!({}))).await;
    client
        .make(&pods("bound"), privileged(json!({"runtimeClassName": "sandbox"})))
        .await;
    let (code, message) = rejected(&mut alice, Method::POST, &pods("bound"), privileged(json!({}))).await;
    assert_eq!(code, 201, "{message}");
    let job = json!({"metadata": {"name": "j"}, "spec": {"template": {"spec": {"hostPID": true, "restartPolicy": "Never",
        "containers": [{"name": "c", "image": "i"}]}}}});
    client.make("/apis/batch/v1/namespaces/free/jobs?dryRun=All", job).await;

    let (_, metrics) = client.get("/metrics").await;
    let counted = |resource: &str, count: u32| {
        format!(
            "pod_security_exemptions_total{{request_operation=\"create\",resource=\"{resource}\",subresource=\"\"}} {count}\n"
        )
    };
    for line in [counted("pod", 3), counted("controller", 1)] {
        assert!(metrics.as_str().unwrap().contains(&line), "{line}");
    }
}
