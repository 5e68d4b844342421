//! Kubelets with the authorization mode `Node` and the admission plugin `NodeRestriction`.

use conformance::{Binary, Client, MERGE, NODE_TOKEN, Server};
use http::{Method, StatusCode};
use serde_json::{Value, json};

const FLAGS: [&str; 2] = [
    "--authorization-mode=Node,RBAC",
    "--enable-admission-plugins=NodeRestriction",
];

const PODS: &str = "/api/v1/namespaces/team/pods";
const SECRETS: &str = "/api/v1/namespaces/team/secrets";

/// A server with a namespace, the Secrets `mine` and `other`, and clients of the administrator and of the node `n`.
struct Cluster {
    server: Server,
    admin: Client,
    kubelet: Client,
}

impl Cluster {
    async fn start() -> Self {
        let server = Server::start(&Binary::debug().unwrap(), &FLAGS).unwrap();
        let mut cluster = Self::connect(server).await;
        let admin = &mut cluster.admin;
        admin.namespace("team").await;
        for name in ["mine", "other"] {
            let secret = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name}});
            admin.make(SECRETS, secret).await;
        }
        for name in ["robot", "idle"] {
            let account = json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": name}});
            admin.make("/api/v1/namespaces/team/serviceaccounts", account).await;
        }
        cluster
    }

    async fn connect(server: Server) -> Self {
        Self {
            admin: Client::new(&server).await,
            kubelet: Client::with_token(&server, NODE_TOKEN).await,
            server,
        }
    }

    /// Creates a Pod on a node, which mounts the Secret `mine`.
    async fn pod(&mut self, name: &str, node: &str) -> Value {
        let volume = json!({"name": "v", "secret": {"secretName": "mine"}});
        let pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name},
            "spec": {"nodeName": node, "serviceAccountName": "robot", "volumes": [volume],
                "containers": [{"name": "c", "image": "i"}]}});
        self.admin.make(PODS, pod).await
    }

    /// Waits until the kubelet gets this status for the Secret `mine`.
    async fn until_secret_is(&mut self, expected: StatusCode) {
        let path = format!("{SECRETS}/mine");
        self.kubelet.until(&path, |status, _| status == expected).await;
    }

    /// Checks that the kubelet's request is forbidden with this message.
    async fn refused(&mut self, method: Method, path: &str, body: Value, message: &str) {
        let media_type = if method == Method::PATCH {
            MERGE
        } else {
            "application/json"
        };
        let (status, answer) = self.kubelet.ask(method, path, media_type, body).await;
        assert_eq!(status, StatusCode::FORBIDDEN, "{path}: {answer}");
        assert_eq!(answer["message"], message, "{path}");
    }

    async fn allowed(&mut self, path: &str) -> Value {
        let (status, answer) = self.kubelet.get(path).await;
        assert_eq!(status, StatusCode::OK, "{path}: {answer}");
        answer
    }
}

#[tokio::test]
async fn kubelet_reads_the_secrets_of_its_pods_only() {
    let mut cluster = Cluster::start().await;
    let rejection = |verb: &str, name: &str, why: &str| {
        format!(
            "secrets{name} is forbidden: User \"system:node:n\" cannot {verb} resource \"secrets\" in API group \"\" in the \
             namespace \"team\": {why}"
        )
    };
    let unrelated = "no relationship found between node 'n' and this object";
    let (mine, other) = (format!("{SECRETS}/mine"), format!("{SECRETS}/other"));
    let no_pod = rejection("get", " \"mine\"", unrelated);
    cluster.refused(Method::GET, &mine, Value::Null, &no_pod).await;

    cluster.pod("far", "m").await;
    cluster.pod("near", "n").await;
    cluster.until_secret_is(StatusCode::OK).await;
    let selected = format!("{SECRETS}?fieldSelector=metadata.name%3Dmine");
    assert_eq!(cluster.allowed(&selected).await["items"].as_array().unwrap().len(), 1);
    let watch = format!("{selected}&watch=1&timeoutSeconds=1");
    assert!(cluster.allowed(&watch).await.to_string().contains("mine"));
    for (path, message) in [
        (other.as_str(), rejection("get", " \"other\"", unrelated)),
        (SECRETS, rejection("list", "", "No Object name found")),
        (
            &format!("{SECRETS}?watch=1"),
            rejection("watch", "", "No Object name found"),
        ),
    ] {
        cluster.refused(Method::GET, path, Value::Null, &message).await;
    }
    let message = rejection("delete", " \"mine\"", "can only read resources of this type");
    cluster.refused(Method::DELETE, &mine, Value::Null, &message).await;

    // The graph is complete again when a restarted server answers.
    let mut cluster = Cluster::connect(cluster.server.restart(&FLAGS).unwrap()).await;
    cluster.allowed(&mine).await;
    let at_once = json!({"gracePeriodSeconds": 0});
    cluster.admin.delete(&format!("{PODS}/near"), at_once).await;
    cluster.until_secret_is(StatusCode::FORBIDDEN).await;
}

#[tokio::test]
async fn kubelet_lists_pods_and_nodes_by_its_own_name() {
    let mut cluster = Cluster::start().await;
    let node = |name: &str| json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}});
    let (status, answer) = cluster
        .kubelet
        .ask(Method::POST, "/api/v1/nodes", "application/json", node("n"))
        .await;
    assert_eq!(status, StatusCode::CREATED, "{answer}");
    cluster.admin.make("/api/v1/nodes", node("m")).await;
    cluster.allowed("/api/v1/nodes/n").await;
    cluster.allowed("/api/v1/nodes?fieldSelector=metadata.name%3Dn").await;
    let nodes = |verb: &str, name: &str, why: &str| {
        format!(
            "nodes{name} is forbidden: User \"system:node:n\" cannot {verb} resource \"nodes\" in API group \"\" at the cluster \
             scope: {why}"
        )
    };
    let all = nodes("list", "", "node 'n' cannot read all nodes, only its own Node object");
    cluster.refused(Method::GET, "/api/v1/nodes", Value::Null, &all).await;
    let one = nodes("get", " \"m\"", "node 'n' cannot read 'm', only its own Node object");
    cluster.refused(Method::GET, "/api/v1/nodes/m", Value::Null, &one).await;
    let create = "nodes \"m2\" is forbidden: node \"n\" is not allowed to modify node \"m2\"";
    cluster.refused(Method::POST, "/api/v1/nodes", node("m2"), create).await;

    cluster.pod("far", "m").await;
    cluster.pod("near", "n").await;
    let own = cluster.allowed("/api/v1/pods?fieldSelector=spec.nodeName%3Dn").await;
    assert_eq!(own["items"][0]["metadata"]["name"], "near");
    let why = "pods is forbidden: User \"system:node:n\" cannot list resource \"pods\" in API group \"\" at the cluster scope: can \
               only list/watch pods with spec.nodeName field selector";
    cluster.refused(Method::GET, "/api/v1/pods", Value::Null, why).await;
    let of_other = "/api/v1/pods?fieldSelector=spec.nodeName%3Dm";
    cluster.refused(Method::GET, of_other, Value::Null, why).await;
    let near = format!("{PODS}/near");
    cluster.kubelet.until(&near, |status, _| status == StatusCode::OK).await;
    let far = format!("{PODS}/far");
    let why = "pods \"far\" is forbidden: node \"n\" can only delete pods with spec.nodeName set to itself";
    cluster.refused(Method::DELETE, &far, Value::Null, why).await;
}

#[tokio::test]
async fn kubelet_requests_tokens_for_its_pods_only() {
    let mut cluster = Cluster::start().await;
    let pod = cluster.pod("near", "n").await;
    cluster.until_secret_is(StatusCode::OK).await;
    let token = |account: &str| format!("/api/v1/namespaces/team/serviceaccounts/{account}/token");
    let bound = json!({"kind": "Pod", "apiVersion": "v1", "name": "near", "uid": pod["metadata"]["uid"]});
    let request = json!({"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest",
        "spec": {"audiences": [], "boundObjectRef": bound}});
    let why = "serviceaccounts \"idle\" is forbidden: User \"system:node:n\" cannot create resource \"serviceaccounts/token\" in \
               API group \"\" in the namespace \"team\": no relationship found between node 'n' and this object";
    cluster
        .refused(Method::POST, &token("idle"), request.clone(), why)
        .await;
    let mut unbound = request.clone();
    unbound["spec"] = json!({"audiences": []});
    let why = "serviceaccounts \"robot\" is forbidden: node requested token not bound to a pod";
    cluster.refused(Method::POST, &token("robot"), unbound, why).await;
    // The Pod has no volume for a token of this server's audience, so that the node needs a permission for it.
    let why = "serviceaccounts \"robot\" is forbidden: audience \"\" not found in pod spec volume, system:node:n is not \
               authorized to request tokens for this audience";
    cluster.refused(Method::POST, &token("robot"), request, why).await;
}

#[tokio::test]
async fn access_review_of_a_node_considers_selectors() {
    let mut cluster = Cluster::start().await;
    for (selector, allowed) in [
        (json!({"rawSelector": "spec.nodeName=n"}), true),
        (
            json!({"requirements": [{"key": "spec.nodeName", "operator": "In", "values": ["n"]}]}),
            true,
        ),
        (
            json!({"requirements": [{"key": "spec.nodeName", "operator": "NotIn", "values": ["n"]}]}),
            false,
        ),
        (json!({"rawSelector": "spec.nodeName=m"}), false),
    ] {
        let review = json!({"apiVersion": "authorization.k8s.io/v1", "kind": "SubjectAccessReview", "spec": {
            "user": "system:node:n", "groups": ["system:nodes"],
            "resourceAttributes": {"verb": "list", "resource": "pods", "fieldSelector": selector}}});
        let path = "/apis/authorization.k8s.io/v1/subjectaccessreviews";
        let answer = cluster.admin.make(path, review).await;
        assert_eq!(answer["status"]["allowed"], allowed, "{answer}");
    }
}

#[tokio::test]
async fn kubelet_maintains_its_lease_and_csi_node() {
    let mut cluster = Cluster::start().await;
    let leases = "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases";
    let lease =
        |name: &str| json!({"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"name": name}});
    let (status, answer) = cluster
        .kubelet
        .ask(Method::POST, leases, "application/json", lease("n"))
        .await;
    assert_eq!(status, StatusCode::CREATED, "{answer}");
    cluster.allowed(&format!("{leases}/n")).await;
    let why = "leases.coordination.k8s.io \"m\" is forbidden: can only access node lease with the same name as the requesting node";
    cluster.refused(Method::POST, leases, lease("m"), why).await;
    let why = "leases.coordination.k8s.io \"m\" is forbidden: User \"system:node:n\" cannot get resource \"leases\" in API group \
               \"coordination.k8s.io\" in the namespace \"kube-node-lease\": can only access node lease with the same name as the \
               requesting node";
    cluster
        .refused(Method::GET, &format!("{leases}/m"), Value::Null, why)
        .await;
    let why = "csinodes.storage.k8s.io is forbidden: User \"system:node:n\" cannot list resource \"csinodes\" in API group \
               \"storage.k8s.io\" at the cluster scope: can only get, create, update, patch, or delete a CSINode";
    cluster
        .refused(Method::GET, "/apis/storage.k8s.io/v1/csinodes", Value::Null, why)
        .await;
}
