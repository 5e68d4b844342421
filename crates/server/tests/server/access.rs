//! Access control over a whole server: roles and bindings, grants, reviews and impersonation.

use crate::support::{APPLY, Answer, CONFIG_MAPS, MERGE, Server, config_map};
use base64::Engine as _;
use serde_json::json;

const RBAC: &str = "/apis/rbac.authorization.k8s.io/v1";
const AUTHORIZATION: &str = "/apis/authorization.k8s.io/v1";

/// Creates a Role in `default`, and binds it to the user `ann`.
async fn grant(server: &Server, name: &str, rules: serde_json::Value) {
    let roles = format!("{RBAC}/namespaces/default/roles");
    let role = json!({"metadata": {"name": name}, "rules": rules});
    assert_eq!(server.post(&roles, &role.to_string()).await.code, 201);
    let answer = server.post(&bindings(), &binding(name, "Role", name)).await;
    assert_eq!(answer.code, 201, "{}", answer.message());
}

fn bindings() -> String {
    format!("{RBAC}/namespaces/default/rolebindings")
}

fn binding(name: &str, kind: &str, role: &str) -> String {
    binding_for("ann", name, kind, role)
}

fn binding_for(user: &str, name: &str, kind: &str, role: &str) -> String {
    json!({
        "metadata": {"name": name},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": kind, "name": role},
        "subjects": [{"kind": "User", "name": user}],
    })
    .to_string()
}

/// Repeats the request until the answer has this code: permissions follow the stored objects with a short delay.
async fn until(code: u16, ask: impl AsyncFn() -> Answer) -> Answer {
    loop {
        let answer = ask().await;
        if answer.code == code {
            return answer;
        }
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn a_binding_gives_rights_and_its_deletion_takes_them() {
    let server = Server::start().await;
    let list = async || server.send_as("ann", "GET", CONFIG_MAPS, "", "").await;
    assert_eq!(
        list().await.message(),
        "configmaps is forbidden: User \"ann\" cannot list resource \"configmaps\" in API group \"\" in the namespace \"default\""
    );
    grant(
        &server,
        "r",
        json!([{"apiGroups": [""], "resources": ["configmaps"], "verbs": ["list"]}]),
    )
    .await;
    until(200, list).await;
    let elsewhere = server.send_as("ann", "GET", "/api/v1/configmaps", "", "").await;
    assert_eq!(elsewhere.code, 403);
    assert_eq!(server.delete(&format!("{}/r", bindings())).await.code, 200);
    until(403, list).await;
}

#[tokio::test]
async fn a_role_that_is_not_there_is_reported() {
    let server = Server::start().await;
    assert_eq!(server.post(&bindings(), &binding("b", "Role", "gone")).await.code, 201);
    let get = async || server.send_as("ann", "GET", CONFIG_MAPS, "", "").await;
    loop {
        if get()
            .await
            .message()
            .ends_with(": RBAC: role.rbac.authorization.k8s.io \"gone\" not found")
        {
            return;
        }
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn apply_and_put_create_only_with_the_right_to_create() {
    let server = Server::start().await;
    let (one, applied) = (
        format!("{CONFIG_MAPS}/one"),
        format!("{CONFIG_MAPS}/one?fieldManager=m"),
    );
    let apply = async || {
        server
            .send_as("ann", "PATCH", &applied, APPLY, &config_map("one", "v"))
            .await
    };
    grant(
        &server,
        "patch",
        json!([{"apiGroups": [""], "resources": ["configmaps"], "verbs": ["patch"]}]),
    )
    .await;
    loop {
        let answer = apply().await;
        assert_eq!(answer.code, 403);
        if answer.message().contains("cannot create resource") {
            assert!(answer.message().starts_with("configmaps \"one\" is forbidden"));
            break;
        }
        tokio::task::yield_now().await;
    }
    assert_eq!(server.get(&one).await.code, 404);
    grant(
        &server,
        "create",
        json!([{"apiGroups": [""], "resources": ["configmaps"], "verbs": ["create"]}]),
    )
    .await;
    until(201, apply).await;
    // A PUT may create Leases.
    grant(
        &server,
        "leases",
        json!([{"apiGroups": ["coordination.k8s.io"], "resources": ["leases"], "verbs": ["update"]}]),
    )
    .await;
    let lease = "/apis/coordination.k8s.io/v1/namespaces/default/leases/l";
    let put = async || {
        let lease_object = json!({"metadata": {"name": "l"}}).to_string();
        server
            .send_as("ann", "PUT", lease, "application/json", &lease_object)
            .await
    };
    loop {
        let answer = put().await;
        assert_eq!(answer.code, 403);
        if answer.message().contains("cannot create resource \"leases\"") {
            break;
        }
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn invalid_role_ref_fails_before_binding_validation() {
    let server = Server::start().await;
    grant(
        &server,
        "binder",
        json!([{"apiGroups": ["rbac.authorization.k8s.io"], "resources": ["rolebindings"], "verbs": ["create"]}]),
    )
    .await;
    let bind = async |kind: &str, role: &str| {
        let body = binding("other", kind, role);
        let answer = server
            .send_as("ann", "POST", &bindings(), "application/json", &body)
            .await;
        (answer.code, answer.message().to_owned())
    };
    until(400, async || {
        let body = binding("other", "Role", "");
        server
            .send_as("ann", "POST", &bindings(), "application/json", &body)
            .await
    })
    .await;
    assert_eq!(bind("Role", "").await.1, "Name parameter required.");
    assert_eq!(
        bind("Nope", "x").await,
        (500, "unsupported role reference kind: \"Nope\"".to_owned())
    );
}

#[tokio::test]
async fn users_grant_only_what_they_hold() {
    let server = Server::start().await;
    let rbac = json!({"apiGroups": ["rbac.authorization.k8s.io"], "resources": ["roles", "rolebindings", "clusterroles"],
                      "verbs": ["create", "patch"]});
    grant(
        &server,
        "writer",
        json!([rbac, {"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]}]),
    )
    .await;
    let roles = format!("{RBAC}/namespaces/default/roles");
    let role = |name: &str, resource: &str| {
        let rules = json!([{"apiGroups": [""], "resources": [resource], "verbs": ["get"]}]);
        json!({"metadata": {"name": name}, "rules": rules}).to_string()
    };
    let post = async |path: &str, body: &str| server.send_as("ann", "POST", path, "application/json", body).await;
    until(201, async || post(&roles, &role("held", "pods")).await).await;
    let lacks = "is forbidden: user \"ann\" (groups=[\"system:authenticated\"]) is attempting to grant RBAC permissions not currently held:\n{APIGroups:[\"\"], Resources:[\"secrets\"], Verbs:[\"get\"]}";
    let answer = post(&roles, &role("more", "secrets")).await;
    assert_eq!(
        answer.message(),
        format!("roles.rbac.authorization.k8s.io \"more\" {lacks}")
    );
    let patch = json!({"rules": [{"apiGroups": [""], "resources": ["secrets"], "verbs": ["get"]}]}).to_string();
    let answer = server
        .send_as("ann", "PATCH", &format!("{roles}/held"), MERGE, &patch)
        .await;
    assert_eq!(
        answer.message(),
        format!("roles.rbac.authorization.k8s.io \"held\" {lacks}")
    );
    // A role may be bound if the user holds its permissions; other roles and missing ones may not.
    assert_eq!(post(&bindings(), &binding("held", "Role", "held")).await.code, 201);
    let answer = post(&bindings(), &binding("admin", "ClusterRole", "cluster-admin")).await;
    assert!(answer.message().ends_with("{NonResourceURLs:[\"*\"], Verbs:[\"*\"]}"));
    let answer = post(&bindings(), &binding("gone", "Role", "gone")).await;
    assert_eq!(
        (answer.code, answer.message()),
        (404, "rolebindings.rbac.authorization.k8s.io \"gone\" not found")
    );
    // The verbs escalate and bind allow it.
    let above = json!([{"apiGroups": ["rbac.authorization.k8s.io"], "resources": ["roles", "clusterroles"],
                        "verbs": ["escalate", "bind"]}]);
    grant(&server, "above", above).await;
    until(201, async || post(&roles, &role("more", "secrets")).await).await;
    assert_eq!(
        post(&bindings(), &binding("view", "ClusterRole", "view")).await.code,
        201
    );
}

#[tokio::test]
async fn unchanged_put_without_metadata_is_an_escalation() {
    let server = Server::start().await;
    let resources = ["roles", "rolebindings", "clusterroles", "clusterrolebindings"];
    let rules =
        json!([{"apiGroups": ["rbac.authorization.k8s.io"], "resources": resources, "verbs": ["update", "patch"]}]);
    let role = json!({"metadata": {"name": "editor"}, "rules": rules}).to_string();
    assert_eq!(server.post(&format!("{RBAC}/clusterroles"), &role).await.code, 201);
    let cluster_bindings = format!("{RBAC}/clusterrolebindings");
    let answer = server
        .post(&cluster_bindings, &binding("editor", "ClusterRole", "editor"))
        .await;
    assert_eq!(answer.code, 201);
    let secrets = json!([{"apiGroups": [""], "resources": ["secrets"], "verbs": ["get"]}]);
    let role = json!({"metadata": {"name": "secrets"}, "rules": secrets}).to_string();
    for (resource, body) in [
        (format!("{RBAC}/clusterroles"), role.clone()),
        (format!("{RBAC}/namespaces/default/roles"), role),
        // They bind another user: ann must not get the permission.
        (
            cluster_bindings,
            binding_for("bob", "secrets", "ClusterRole", "secrets"),
        ),
        (bindings(), binding_for("bob", "secrets", "Role", "secrets")),
    ] {
        assert_eq!(server.post(&resource, &body).await.code, 201);
        let path = format!("{resource}/secrets");
        let whole = server.get(&path).await.body;
        let send = async |method: &str, content_type: &str, body: &serde_json::Value| {
            let body = body.to_string();
            server.send_as("ann", method, &path, content_type, &body).await
        };
        let put = async |body: &serde_json::Value| send("PUT", "application/json", body).await;
        until(200, async || put(&whole).await).await;
        assert_eq!(send("PATCH", MERGE, &json!({})).await.code, 200, "{path}");
        let mut owned = whole.clone();
        owned["metadata"]["finalizers"] = json!(["example.com/a"]);
        let owned = put(&owned).await;
        assert_eq!(owned.code, 200, "{path}");
        for field in ["uid", "creationTimestamp", "resourceVersion"] {
            let mut without = owned.body.clone();
            without["metadata"].as_object_mut().unwrap().remove(field);
            let answer = put(&without).await;
            assert_eq!(answer.code, 403, "{path} without {field}");
            assert!(
                answer.message().contains("is attempting to grant RBAC permissions"),
                "{path}"
            );
        }
        // The permissions are checked before the version, which differs, too.
        assert_eq!(put(&whole).await.code, 403, "{path}");
    }
}

#[tokio::test]
async fn only_who_may_do_everything_lets_a_role_gather_others() {
    let server = Server::start().await;
    let rules =
        json!([{"apiGroups": ["rbac.authorization.k8s.io"], "resources": ["clusterroles"], "verbs": ["create"]}]);
    let role = json!({"metadata": {"name": "maker"}, "rules": rules}).to_string();
    assert_eq!(server.post(&format!("{RBAC}/clusterroles"), &role).await.code, 201);
    let path = format!("{RBAC}/clusterrolebindings");
    assert_eq!(
        server.post(&path, &binding("maker", "ClusterRole", "maker")).await.code,
        201
    );
    let selector = json!({"clusterRoleSelectors": [{"matchLabels": {"a": "b"}}]});
    let gathers = json!({"metadata": {"name": "g"}, "rules": [], "aggregationRule": selector}).to_string();
    let post = async || {
        server
            .send_as(
                "ann",
                "POST",
                &format!("{RBAC}/clusterroles"),
                "application/json",
                &gathers,
            )
            .await
    };
    loop {
        let answer = post().await;
        assert_eq!(answer.code, 403);
        if answer
            .message()
            .ends_with("must have cluster-admin privileges to use the aggregationRule")
        {
            return;
        }
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn reviews_answer_and_nothing_is_stored() {
    let server = Server::start().await;
    let path = format!("{AUTHORIZATION}/selfsubjectaccessreviews");
    let review = json!({"spec": {"nonResourceAttributes": {"path": "/healthz", "verb": "get"}}}).to_string();
    let answer = server.send_as("ann", "POST", &path, "application/json", &review).await;
    assert_eq!(answer.code, 201);
    assert_eq!(
        answer.at("/status"),
        &json!({"allowed": true, "reason": "RBAC: allowed by ClusterRoleBinding \"system:discovery\" of ClusterRole \"system:discovery\" to Group \"system:authenticated\""})
    );
    assert_eq!(answer.at("/metadata/managedFields/0/manager"), "tests");
    assert_eq!(answer.at("/metadata/uid"), &json!(null));
    assert_eq!(server.get(&path).await.code, 405);

    let review =
        json!({"spec": {"user": "bob", "resourceAttributes": {"verb": "get", "resource": "pods"}}}).to_string();
    let answer = server
        .post(&format!("{AUTHORIZATION}/subjectaccessreviews"), &review)
        .await;
    assert_eq!(answer.at("/status"), &json!({"allowed": false}));
    let path = format!("{AUTHORIZATION}/subjectaccessreviews");
    let answer = server.send_as("ann", "POST", &path, "application/json", &review).await;
    assert_eq!(answer.code, 403);

    let answer = server.post(&path, r#"{"spec": {}}"#).await;
    assert_eq!(answer.code, 422);
    assert!(
        answer
            .message()
            .starts_with(".authorization.k8s.io \"\" is invalid: [spec.resourceAttributes: ")
    );

    let rules = json!({"spec": {"namespace": "default"}}).to_string();
    let path = format!("{AUTHORIZATION}/selfsubjectrulesreviews");
    let answer = server.send_as("ann", "POST", &path, "application/json", &rules).await;
    assert_eq!(answer.at("/status/resourceRules/0/verbs"), &json!(["create"]));
    assert_eq!(answer.at("/status/incomplete"), false);
}

#[tokio::test]
async fn a_token_is_looked_up_for_those_who_may_ask() {
    let server = Server::start().await;
    let path = "/apis/authentication.k8s.io/v1/tokenreviews";
    let review = |token: &str| json!({"spec": {"token": token}}).to_string();
    let answer = server.post(path, &review("token")).await;
    assert_eq!(
        answer.at("/status"),
        &json!({"authenticated": true, "audiences": ["https://kubernetes.default.svc"],
                "user": {"username": "admin", "uid": "uid", "groups": ["system:masters", "system:authenticated"]}})
    );
    let answer = server.post(path, &review("wrong")).await;
    assert_eq!(
        answer.at("/status"),
        &json!({"user": {}, "error": "invalid bearer token"})
    );
    let answer = server
        .send_as("ann", "POST", path, "application/json", &review("token"))
        .await;
    assert_eq!(answer.code, 403);
    let answer = server
        .send_as(
            "ann",
            "POST",
            "/apis/authentication.k8s.io/v1/selfsubjectreviews",
            "application/json",
            "{}",
        )
        .await;
    assert_eq!(answer.at("/status/userInfo/username"), "ann");
}

#[tokio::test]
async fn component_statuses_can_be_read_and_nothing_else() {
    let server = Server::start().await;
    let list = server.get("/api/v1/componentstatuses").await;
    assert_eq!(list.at("/items/0/conditions/0/status"), "True");
    assert_eq!(
        list.headers["warning"],
        "299 - \"v1 ComponentStatus is deprecated in v1.19+\""
    );
    let answer = server.get("/api/v1/componentstatuses/none").await;
    assert_eq!(answer.message(), "componentstatus \"none\" not found");
    let answer = server.get("/api/v1/componentstatuses?watch=1").await;
    assert_eq!(
        (answer.code, answer.message()),
        (405, "watch is not supported on resources of kind \"componentstatuses\"")
    );
    assert_eq!(server.delete("/api/v1/componentstatuses/etcd-0").await.code, 405);
}

/// Returns a certificate request for these organizations, encoded as in `spec.request`.
fn certificate_request(organizations: &[&str]) -> String {
    let mut params = rcgen::CertificateParams::default();
    for organization in organizations {
        params
            .distinguished_name
            .push(rcgen::DnType::OrganizationName, *organization);
    }
    let request = params.serialize_request(&rcgen::KeyPair::generate().unwrap()).unwrap();
    base64::engine::general_purpose::STANDARD.encode(request.pem().unwrap())
}

const REQUESTS: &str = "/apis/certificates.k8s.io/v1/certificatesigningrequests";

fn signing_request(name: &str, signer: &str, organizations: &[&str]) -> String {
    json!({
        "metadata": {"name": name},
        "spec": {"request": certificate_request(organizations), "signerName": signer, "usages": ["client auth"]},
    })
    .to_string()
}

#[tokio::test]
async fn no_certificate_is_of_those_who_may_do_everything() {
    let server = Server::start().await;
    let of_clients = "kubernetes.io/kube-apiserver-client";
    for organizations in [&["system:masters"][..], &["devs", "system:masters"]] {
        let answer = server
            .post(REQUESTS, &signing_request("a", of_clients, organizations))
            .await;
        assert_eq!(
            (answer.code, answer.message()),
            (
                403,
                "certificatesigningrequests.certificates.k8s.io \"a\" is forbidden: use of kubernetes.io/kube-apiserver-client signer with system:masters group is not allowed"
            )
        );
    }
    for (name, signer, organization) in [("b", of_clients, "devs"), ("c", "example.com/signer", "system:masters")] {
        let answer = server
            .post(REQUESTS, &signing_request(name, signer, &[organization]))
            .await;
        assert_eq!(answer.code, 201, "{}", answer.body);
    }
}

#[tokio::test]
async fn approving_and_signing_require_permission_for_the_signer() {
    let server = Server::start().await;
    let made = server
        .post(REQUESTS, &signing_request("a", "example.com/signer", &["devs"]))
        .await;
    assert_eq!(made.code, 201, "{}", made.body);
    let grant = async |name: &str, rule: serde_json::Value| {
        let role = json!({"metadata": {"name": name}, "rules": [rule]});
        let answer = server.post(&format!("{RBAC}/clusterroles"), &role.to_string()).await;
        assert_eq!(answer.code, 201, "{}", answer.body);
        let bindings = format!("{RBAC}/clusterrolebindings");
        assert_eq!(
            server.post(&bindings, &binding(name, "ClusterRole", name)).await.code,
            201
        );
    };
    let subresources = [
        "certificatesigningrequests/approval",
        "certificatesigningrequests/status",
    ];
    grant(
        "update",
        json!({"apiGroups": ["certificates.k8s.io"], "resources": subresources, "verbs": ["patch"]}),
    )
    .await;
    let key = rcgen::KeyPair::generate().unwrap();
    let self_signed = rcgen::CertificateParams::default().self_signed(&key).unwrap();
    let certificate = base64::engine::general_purpose::STANDARD.encode(self_signed.pem());
    let patch = async |subresource: &str, body: serde_json::Value| {
        let path = format!("{REQUESTS}/a/{subresource}");
        server.send_as("ann", "PATCH", &path, MERGE, &body.to_string()).await
    };
    let approve = async || {
        let conditions = json!([{"type": "Approved", "status": "True"}]);
        patch("approval", json!({"status": {"conditions": conditions}})).await
    };
    let sign = async || patch("status", json!({"status": {"certificate": certificate}})).await;
    let refused = |verb: &str| {
        format!(
            "certificatesigningrequests.certificates.k8s.io \"a\" is forbidden: user not permitted to {verb} requests with signerName \"example.com/signer\""
        )
    };
    while approve().await.message() != refused("approve") {
        tokio::task::yield_now().await;
    }
    assert_eq!(sign().await.message(), refused("sign"));
    let of_signers = |verb: &str, name: &str| json!({"apiGroups": ["certificates.k8s.io"], "resources": ["signers"], "resourceNames": [name], "verbs": [verb]});
    grant("approve", of_signers("approve", "example.com/*")).await;
    until(200, approve).await;
    assert_eq!(sign().await.message(), refused("sign"));
    // A user who does not change the approval or the certificate needs no permission for the signer.
    let labels = json!({"metadata": {"labels": {"a": "b"}}});
    assert_eq!(patch("status", labels).await.code, 200);
    grant("sign", of_signers("sign", "example.com/signer")).await;
    until(200, sign).await;
}

#[tokio::test]
async fn csr_is_applied_by_requester_approver_and_signer() {
    let server = Server::start().await;
    let identity =
        json!({"apiVersion": "certificates.k8s.io/v1", "kind": "CertificateSigningRequest", "metadata": {"name": "a"}});
    let spec = |signer: &str| json!({"request": certificate_request(&["devs"]), "signerName": signer, "usages": ["client auth"]});
    let apply = async |manager: &str, subresource: &str, part: &str, value: &serde_json::Value| {
        let path = format!("{REQUESTS}/a{subresource}?fieldManager={manager}");
        let mut object = identity.clone();
        object[part] = value.clone();
        server.patch(&path, APPLY, &object.to_string()).await
    };
    let requested = spec("example.com/signer");
    assert_eq!(apply("asker", "", "spec", &requested).await.code, 201);
    // The request stays the same, whatever another user requests.
    let other = apply("other", "", "spec", &spec("example.com/other")).await;
    assert_eq!(
        (other.code, other.at("/spec/signerName").as_str()),
        (200, Some("example.com/signer"))
    );

    let key = rcgen::KeyPair::generate().unwrap();
    let self_signed = rcgen::CertificateParams::default().self_signed(&key).unwrap();
    let certificate = base64::engine::general_purpose::STANDARD.encode(self_signed.pem());
    let approval =
        json!({"conditions": [{"type": "Approved", "status": "True", "reason": "Known"}], "certificate": certificate});
    let approved = apply("approver", "/approval", "status", &approval).await;
    assert_eq!(approved.code, 200, "{}", approved.message());
    assert!(approved.at("/status/conditions/0/lastUpdateTime").is_string());
    assert!(approved.at("/status/certificate").is_null());
    let issued = json!({
        "certificate": certificate,
        "conditions": [{"type": "Failed", "status": "True"}, {"type": "Denied", "status": "True"}],
    });
    assert_eq!(apply("signer", "/status", "status", &issued).await.code, 422);
    let issued = json!({"certificate": certificate, "conditions": [{"type": "Failed", "status": "True"}]});
    for _ in 0..2 {
        let signed = apply("signer", "/status", "status", &issued).await;
        assert_eq!(signed.code, 200, "{}", signed.message());
        let conditions = signed.at("/status/conditions").as_array().unwrap();
        let types: Vec<_> = conditions.iter().map(|condition| &condition["type"]).collect();
        assert_eq!(types, ["Approved", "Failed"]);
        assert_eq!(signed.at("/status/certificate"), &json!(certificate));
    }
    // The requester can apply again without touching the status.
    let again = apply("asker", "", "spec", &requested).await;
    assert_eq!(
        (again.code, again.at("/status/conditions/1/type").as_str()),
        (200, Some("Failed"))
    );
    // The spec has no owner and never changes.
    let owners = again.at("/metadata/managedFields").as_array().unwrap();
    let entry_of = |manager: &str| owners.iter().find(|owner| owner["manager"] == manager).unwrap();
    assert_eq!(owners.len(), 2, "{owners:?}");
    assert_eq!(entry_of("approver")["subresource"], "approval");
    let condition = json!({".": {}, "f:reason": {}, "f:status": {}, "f:type": {}});
    assert_eq!(
        entry_of("approver")["fieldsV1"],
        json!({"f:status": {"f:conditions": {"k:{\"type\":\"Approved\"}": condition}}})
    );
    assert_eq!(entry_of("signer")["subresource"], "status");
    assert_eq!(
        entry_of("signer")["fieldsV1"],
        json!({"f:status": {"f:certificate": {}}})
    );
}
