//! Selection of the writes that webhooks are called for.

use serde_json::{Value, json};

use crate::hook::{Hook, allow, deny, patch};
use crate::support::{CONFIG_MAPS, MERGE, Server, config_map};
use crate::webhooks::{ALL, CONFIG_MAP, add};

#[tokio::test]
async fn selectors_choose_by_the_labels_of_namespaces_and_objects() {
    let (server, hook) = (Server::start().await, Hook::start(|_| deny("called")).await);
    let selectors = json!({
        "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "default"}},
        "objectSelector": {"matchLabels": {"watch": "me"}},
    });
    let webhook = hook.webhook("a.b.c", &ALL, CONFIG_MAP, selectors);
    let of_cluster = json!({"namespaceSelector": {"matchLabels": {"a": "b"}}});
    let nodes = hook.webhook("nodes.b.c", &ALL, "/v1/nodes", of_cluster.clone());
    let namespaces = hook.webhook("namespaces.b.c", &ALL, "/v1/namespaces", of_cluster);
    server.configure("validating", "a", &[webhook, nodes, namespaces]).await;
    let labelled = |name: &str, label: &str| {
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "labels": {"watch": label}}})
            .to_string()
    };
    assert_eq!(server.post(CONFIG_MAPS, &labelled("a", "me")).await.code, 400);
    assert_eq!(server.post(CONFIG_MAPS, &labelled("b", "you")).await.code, 201);
    let elsewhere = "/api/v1/namespaces/kube-system/configmaps";
    assert_eq!(server.post(elsewhere, &labelled("a", "me")).await.code, 201);
    let relabelled = r#"{"metadata":{"labels":{"watch":"me"}}}"#;
    let answer = server.patch(&format!("{CONFIG_MAPS}/b"), MERGE, relabelled).await;
    assert_eq!(answer.code, 400, "{}", answer.body);
    // A cluster-scoped resource has no namespace that could be excluded; a namespace is matched by its own labels.
    let node = r#"{"apiVersion":"v1","kind":"Node","metadata":{"name":"n"}}"#;
    assert_eq!(server.post("/api/v1/nodes", node).await.code, 400);
    let namespace = |labels: Value| {
        json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "n", "labels": labels}}).to_string()
    };
    assert_eq!(
        server
            .post("/api/v1/namespaces", &namespace(json!({"a": "b"})))
            .await
            .code,
        400
    );
    assert_eq!(server.post("/api/v1/namespaces", &namespace(json!({}))).await.code, 201);
}

#[tokio::test]
async fn equivalent_match_uses_the_version_of_the_rule() {
    let server = Server::start().await;
    let hook = Hook::start(|_| patch(&add("/spec/targetCPUUtilizationPercentage", json!(70)))).await;
    let webhook = hook.webhook(
        "a.b.c",
        &["CREATE"],
        "autoscaling/v1/horizontalpodautoscalers",
        json!({}),
    );
    server.configure("mutating", "a", &[webhook]).await;
    let scaler = json!({"apiVersion": "autoscaling/v2", "kind": "HorizontalPodAutoscaler", "metadata": {"name": "h"},
        "spec": {"maxReplicas": 3, "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "d"},
            "metrics": [{"type": "Resource", "resource": {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 50}}}]}});
    let path = "/apis/autoscaling/v2/namespaces/default/horizontalpodautoscalers";
    let made = server.post(path, &scaler.to_string()).await;
    assert_eq!(
        made.at("/spec/metrics/0/resource/target/averageUtilization"),
        70,
        "{}",
        made.body
    );
    let request = &hook.calls()[0]["request"];
    assert_eq!(request["kind"]["version"], "v1");
    assert_eq!(request["requestKind"]["version"], "v2");
    assert_eq!(request["object"]["spec"]["targetCPUUtilizationPercentage"], 50);
}

#[tokio::test]
async fn subresources_and_what_is_never_stored_are_heard_of() {
    let server = Server::start().await;
    let hook = Hook::start(|review| match review["request"]["subResource"].as_str() {
        Some("binding") => deny("no binding"),
        _ => allow(),
    })
    .await;
    let namespaced = "/api/v1/namespaces/default";
    let webhooks = [
        hook.webhook("pods.b.c", &["CREATE"], "/v1/pods/*", json!({})),
        hook.webhook("tokens.b.c", &["CREATE"], "/v1/serviceaccounts/token", json!({})),
        hook.webhook("scales.b.c", &["UPDATE"], "*/*/*/scale", json!({})),
        hook.webhook(
            "reviews.b.c",
            &["CREATE"],
            "authorization.k8s.io/v1/subjectaccessreviews",
            json!({}),
        ),
    ];
    let pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"},
        "spec": {"containers": [{"name": "c", "image": "i"}]}});
    server.post(&format!("{namespaced}/pods"), &pod.to_string()).await;
    server.configure("validating", "a", &webhooks).await;
    let binding = r#"{"apiVersion":"v1","kind":"Binding","metadata":{"name":"p"},"target":{"kind":"Node","name":"n"}}"#;
    let refused = server.post(&format!("{namespaced}/pods/p/binding"), binding).await;
    assert_eq!(
        refused.message(),
        "admission webhook \"pods.b.c\" denied the request: no binding"
    );
    let eviction = r#"{"apiVersion":"policy/v1","kind":"Eviction","metadata":{"name":"p"}}"#;
    let evicted = server.post(&format!("{namespaced}/pods/p/eviction"), eviction).await;
    assert_eq!(evicted.code, 201, "{}", evicted.body);
    let deployment = json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "d"}, "spec": {
        "replicas": 0, "selector": {"matchLabels": {"a": "b"}}, "template": {"metadata": {"labels": {"a": "b"}},
            "spec": {"containers": [{"name": "c", "image": "i"}]}}}});
    let deployments = "/apis/apps/v1/namespaces/default/deployments";
    server.post(deployments, &deployment.to_string()).await;
    let scaled = server
        .patch(&format!("{deployments}/d/scale"), MERGE, r#"{"spec":{"replicas":2}}"#)
        .await;
    assert_eq!(scaled.at("/spec/replicas"), 2, "{}", scaled.body);
    let review = r#"{"apiVersion":"authorization.k8s.io/v1","kind":"SubjectAccessReview","spec":{"user":"u","nonResourceAttributes":{"path":"/","verb":"get"}}}"#;
    let reviewed = server
        .post("/apis/authorization.k8s.io/v1/subjectaccessreviews", review)
        .await;
    assert_eq!(reviewed.code, 201, "{}", reviewed.body);
    let calls = hook.calls();
    let seen: Vec<String> = calls
        .iter()
        .map(|call| {
            let request = &call["request"];
            let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
            format!(
                "{}/{} {} {}",
                text(&request["resource"]["resource"]),
                text(&request["subResource"]),
                text(&request["name"]),
                text(&request["object"]["kind"])
            )
        })
        .collect();
    // The deletion by an eviction is part of it: no webhook is called again.
    assert_eq!(
        seen,
        [
            "pods/binding p Binding",
            "pods/eviction p Eviction",
            "deployments/scale d Scale",
            "subjectaccessreviews/  SubjectAccessReview",
        ]
    );
}

#[tokio::test]
async fn connect_webhook_receives_the_connect_options() {
    let (server, hook) = (Server::start().await, Hook::start(|_| deny("not here")).await);
    let webhook = hook.webhook("a.b.c", &["CONNECT"], "/v1/*/*", json!({}));
    server.configure("validating", "a", &[webhook]).await;
    let pod = "/api/v1/namespaces/default/pods/none";
    let exec = format!("{pod}/exec?command=ls&command=-l&stdout=1&stderr=false&tty&container=c");
    let cases = [
        (
            exec,
            "exec",
            json!({"kind": "PodExecOptions", "apiVersion": "v1", "command": ["ls", "-l"], "stdout": true, "tty": true, "container": "c"}),
        ),
        (
            format!("{pod}/exec"),
            "exec",
            json!({"kind": "PodExecOptions", "apiVersion": "v1", "command": null}),
        ),
        (
            format!("{pod}/attach?stdin=true"),
            "attach",
            json!({"kind": "PodAttachOptions", "apiVersion": "v1", "stdin": true}),
        ),
        (
            format!("{pod}/portforward?ports=80,81&ports=82"),
            "portforward",
            json!({"kind": "PodPortForwardOptions", "apiVersion": "v1", "ports": [80, 81, 82]}),
        ),
        (
            format!("{pod}/proxy/a/b?path=c"),
            "proxy",
            json!({"kind": "PodProxyOptions", "apiVersion": "v1", "path": "/a/b"}),
        ),
    ];
    for (at, (path, subresource, options)) in cases.into_iter().enumerate() {
        let refused = server.post(&path, "").await;
        assert_eq!(
            refused.message(),
            "admission webhook \"a.b.c\" denied the request: not here",
            "{path}"
        );
        let request = &hook.calls()[at]["request"];
        let seen = [
            &request["operation"],
            &request["subResource"],
            &request["name"],
            &request["kind"]["kind"],
        ];
        assert_eq!(
            seen,
            ["CONNECT", subresource, "none", options["kind"].as_str().unwrap()],
            "{path}"
        );
        assert_eq!(request["object"], options, "{path}");
        assert!(request["options"].is_null() && request["oldObject"].is_null(), "{path}");
    }
    let ports = server.post(&format!("{pod}/portforward?ports=x"), "").await;
    assert_eq!(
        (ports.code, ports.message()),
        (
            400,
            "cannot convert to []int32: strconv.ParseUint: parsing \"x\": invalid syntax"
        )
    );
}

#[tokio::test]
async fn a_plugin_that_is_off_calls_no_webhooks() {
    for (off, webhook_type, code) in [
        ("ValidatingAdmissionWebhook", "validating", 201),
        ("MutatingAdmissionWebhook", "validating", 400),
        ("ValidatingAdmissionWebhook", "mutating", 400),
        ("MutatingAdmissionWebhook", "mutating", 201),
    ] {
        let (server, hook) = (
            Server::start_without_plugin(off).await,
            Hook::start(|_| deny("no")).await,
        );
        let webhook = hook.webhook("a.b.c", &["CREATE"], CONFIG_MAP, json!({}));
        server.configure(webhook_type, "a", &[webhook]).await;
        let answer = server.post(CONFIG_MAPS, &config_map("a", "1")).await;
        assert_eq!(answer.code, code, "{webhook_type} without {off}");
    }
}

#[tokio::test]
async fn configurations_of_webhooks_are_out_of_reach_of_webhooks() {
    let (server, hook) = (Server::start().await, Hook::start(|_| deny("no")).await);
    let all = hook.webhook("a.b.c", &ALL, "*/*/*", json!({}));
    server.configure("validating", "a", &[all]).await;
    assert_eq!(server.post(CONFIG_MAPS, &config_map("a", "1")).await.code, 400);
    let deleted = server
        .delete("/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations/a")
        .await;
    assert_eq!(deleted.code, 200);
}

#[tokio::test]
async fn match_condition_errors_follow_the_failure_policy() {
    let (server, hook) = (Server::start().await, Hook::start(|_| deny("called")).await);
    let condition = |name: &str, expression: &str| json!({"name": name, "expression": expression});
    let strict = json!({"matchConditions": [
        condition("labelled", "object.metadata.?labels['check'].orValue('') == 'yes'"),
        condition("by-admin", "request.userInfo.username == 'admin'"),
        condition("may", "authorizer.group('').resource('configmaps').namespace('default').check('create').allowed()"),
    ]});
    let broken = |policy: &str| {
        json!({"failurePolicy": policy, "objectSelector": {"matchLabels": {"to": policy}},
            "matchConditions": [condition("breaks", "object.data.none == 'x'")]})
    };
    let webhooks = [
        hook.webhook("strict.b.c", &["CREATE"], CONFIG_MAP, strict),
        hook.webhook("open.b.c", &["CREATE"], CONFIG_MAP, broken("Ignore")),
        hook.webhook("closed.b.c", &["CREATE"], CONFIG_MAP, broken("Fail")),
    ];
    server.configure("validating", "a", &webhooks).await;
    let labelled = |name: &str, key: &str, value: &str| {
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "labels": {key: value}}}).to_string()
    };
    assert_eq!(server.post(CONFIG_MAPS, &labelled("a", "check", "no")).await.code, 201);
    assert_eq!(server.post(CONFIG_MAPS, &labelled("b", "to", "Ignore")).await.code, 201);
    assert_eq!(hook.calls().len(), 0);
    let refused = server.post(CONFIG_MAPS, &labelled("c", "to", "Fail")).await;
    assert_eq!(refused.code, 403);
    assert_eq!(
        refused.message(),
        "configmaps \"c\" is forbidden: expression 'object.data.none == 'x'' resulted in error: no such key: data"
    );
    let denied = server.post(CONFIG_MAPS, &labelled("d", "check", "yes")).await;
    assert_eq!(
        denied.message(),
        "admission webhook \"strict.b.c\" denied the request: called"
    );
    let metrics = server.metrics().await;
    let labels =
        |name: &str, kind: &str| format!("{{kind=\"webhook\",name=\"{name}\",operation=\"CREATE\",type=\"{kind}\"}}");
    for (metric, name, kind, count) in [
        ("evaluation_seconds_count", "strict.b.c", "validating", 4),
        ("evaluation_errors_total", "open.b.c", "validating", 1),
        ("evaluation_errors_total", "closed.b.c", "validating", 1),
        ("exclusions_total", "strict.b.c", "validate", 3),
        ("exclusions_total", "open.b.c", "validate", 1),
    ] {
        let line = format!(
            "apiserver_admission_match_condition_{metric}{} {count}\n",
            labels(name, kind)
        );
        assert!(metrics.contains(&line), "{line}");
    }
}

#[tokio::test]
async fn invalid_match_conditions_are_rejected_at_creation() {
    let (server, hook) = (Server::start().await, Hook::start(|_| allow()).await);
    let conditions = json!({"matchConditions": [{"name": "odd", "expression": "object.metadata.name"}, {"name": "bad", "expression": "params.x"}]});
    let body = json!({"apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingWebhookConfiguration",
        "metadata": {"name": "a"}, "webhooks": [hook.webhook("a.b.c", &["CREATE"], CONFIG_MAP, conditions)]});
    let path = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations";
    let refused = server.post(path, &body.to_string()).await;
    assert_eq!(refused.code, 422, "{}", refused.body);
    assert!(
        refused.message().contains("undeclared reference to 'params'"),
        "{}",
        refused.message()
    );
}
