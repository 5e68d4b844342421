//! Deletion from end to end: namespaces that go with all that is in them, dependents that go with their owners, and
//! controllers that are switched off.

use conformance::{Binary, Client, MERGE, Server};
use http::{Method, StatusCode};
use serde_json::{Value, json};

fn path(name: &str) -> String {
    format!("/api/v1/namespaces/default/configmaps/{name}")
}

fn owned_by(name: &str, owner: &str, uid: &str, more: Value) -> Value {
    let mut reference = json!({"apiVersion": "v1", "kind": "ConfigMap", "name": owner, "uid": uid});
    for (key, value) in more.as_object().unwrap() {
        reference[key] = value.clone();
    }
    json!({"name": name, "ownerReferences": [reference]})
}

fn server(more: &[&str]) -> Server {
    Server::start(&Binary::debug().unwrap(), more).unwrap()
}

#[tokio::test]
async fn dependents_go_with_their_owner_through_the_generations() {
    let server = server(&[]);
    let mut client = Client::new(&server).await;
    let owner = client.config_map("default", json!({"name": "owner"})).await;
    let child = client
        .config_map("default", owned_by("child", "owner", &owner, json!({})))
        .await;
    client
        .config_map("default", owned_by("grandchild", "child", &child, json!({})))
        .await;
    client.config_map("default", json!({"name": "bystander"})).await;
    let answer = client.delete(&path("owner"), Value::Null).await;
    assert_eq!(answer["status"], "Success");
    client.until_gone(&path("child")).await;
    client.until_gone(&path("grandchild")).await;
    assert_eq!(client.get(&path("bystander")).await.0, StatusCode::OK);
}

#[tokio::test]
async fn orphans_stay_and_forget_their_owner() {
    let server = server(&[]);
    let mut client = Client::new(&server).await;
    let owner = client.config_map("default", json!({"name": "owner"})).await;
    client
        .config_map("default", owned_by("child", "owner", &owner, json!({})))
        .await;
    let marked = client
        .delete(&path("owner"), json!({"propagationPolicy": "Orphan"}))
        .await;
    assert_eq!(marked["metadata"]["finalizers"], json!(["orphan"]));
    client.until_gone(&path("owner")).await;
    let (_, child) = client.get(&path("child")).await;
    assert!(child["metadata"]["ownerReferences"].is_null(), "{child}");
    assert!(child["metadata"]["deletionTimestamp"].is_null());
}

#[tokio::test]
async fn foreground_owner_waits_for_a_dependent_with_finalizer() {
    let server = server(&[]);
    let mut client = Client::new(&server).await;
    let owner = client.config_map("default", json!({"name": "owner"})).await;
    let mut blocking = owned_by("blocking", "owner", &owner, json!({"blockOwnerDeletion": true}));
    blocking["finalizers"] = json!(["example.com/hold"]);
    client.config_map("default", blocking).await;
    client
        .config_map("default", owned_by("free", "owner", &owner, json!({})))
        .await;
    client
        .delete(&path("owner"), json!({"propagationPolicy": "Foreground"}))
        .await;
    client
        .until(&path("blocking"), |_, object| {
            object["metadata"]["deletionTimestamp"].is_string()
        })
        .await;
    client.until_gone(&path("free")).await;
    let (status, owner) = client.get(&path("owner")).await;
    assert_eq!(status, StatusCode::OK);
    assert_eq!(owner["metadata"]["finalizers"], json!(["foregroundDeletion"]));
    client.release(&path("blocking")).await;
    client.until_gone(&path("owner")).await;
}

#[tokio::test]
async fn dependent_without_owners_goes_and_others_drop_absent_owners() {
    let server = server(&[]);
    let mut client = Client::new(&server).await;
    let owner = client.config_map("default", json!({"name": "owner"})).await;
    let nobody = "11111111-1111-1111-1111-111111111111";
    client
        .config_map("default", owned_by("lost", "nobody", nobody, json!({})))
        .await;
    client
        .config_map("default", owned_by("mistaken", "owner", nobody, json!({})))
        .await;
    let mut kept = owned_by("kept", "owner", &owner, json!({}));
    let absent = owned_by("", "nobody", nobody, json!({}))["ownerReferences"][0].clone();
    kept["ownerReferences"].as_array_mut().unwrap().push(absent);
    client.config_map("default", kept).await;
    client.until_gone(&path("lost")).await;
    client.until_gone(&path("mistaken")).await;
    let one = |_, object: &Value| object["metadata"]["ownerReferences"].as_array().unwrap().len() == 1;
    let kept = client.until(&path("kept"), one).await;
    assert_eq!(kept["metadata"]["ownerReferences"][0]["uid"], owner.as_str());
}

#[tokio::test]
async fn thousands_of_absent_owners_hold_up_no_other_object() {
    let server = server(&[]);
    let mut client = Client::new(&server).await;
    let owner = client.config_map("default", json!({"name": "owner"})).await;
    let reference = |n: u32, name: &str, uid: &str| {
        let uid = if uid.is_empty() {
            format!("11111111-1111-1111-1111-{n:012}")
        } else {
            uid.to_owned()
        };
        json!({"apiVersion": "v1", "kind": "ConfigMap", "name": name, "uid": uid})
    };
    let absent = |name: &str| (0..4_000).map(|n| reference(n, name, "")).collect::<Vec<Value>>();
    // Owners that do not exist, and an owner whose uid differs from that of the object with its name.
    client
        .config_map("default", json!({"name": "lost", "ownerReferences": absent("nobody")}))
        .await;
    let mut some = absent("owner");
    some.push(reference(0, "owner", &owner));
    client
        .config_map("default", json!({"name": "kept", "ownerReferences": some}))
        .await;
    client
        .config_map(
            "default",
            owned_by("other", "nobody", "11111111-1111-1111-1111-111111111111", json!({})),
        )
        .await;
    client.until_gone(&path("other")).await;
    client.until_gone(&path("lost")).await;
    let one = |_, object: &Value| object["metadata"]["ownerReferences"].as_array().unwrap().len() == 1;
    let kept = client.until(&path("kept"), one).await;
    assert_eq!(kept["metadata"]["ownerReferences"][0]["uid"], owner.as_str());
}

#[tokio::test]
async fn owner_in_another_namespace_is_absent_and_reported() {
    let server = server(&[]);
    let mut client = Client::new(&server).await;
    client.namespace("other").await;
    let owner = client.config_map("other", json!({"name": "owner"})).await;
    client
        .config_map("default", owned_by("child", "owner", &owner, json!({})))
        .await;
    client.until_gone(&path("child")).await;
    let reference = json!({"apiVersion": "v1", "kind": "ConfigMap", "name": "owner", "uid": owner});
    let cluster_scoped = json!({
        "apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "value": 1,
        "metadata": {"name": "class", "ownerReferences": [reference]}
    });
    client
        .make("/apis/scheduling.k8s.io/v1/priorityclasses", cluster_scoped)
        .await;
    let reported = |_, list: &Value| list["items"].as_array().unwrap().len() == 2;
    let list = "/api/v1/namespaces/default/events?fieldSelector=reason%3DOwnerRefInvalidNamespace";
    let events = client.until(list, reported).await;
    let message = |name: &str| {
        let items = events["items"].as_array().unwrap().iter();
        let mut messages = items.filter(|event| event["involvedObject"]["name"] == name);
        messages.next().unwrap()["message"].as_str().unwrap().to_owned()
    };
    assert_eq!(
        message("child"),
        format!(
            "ownerRef [v1/ConfigMap, namespace: default, name: owner, uid: {owner}] does not exist in namespace \"default\""
        )
    );
    assert!(message("class").ends_with("does not exist in namespace \"\""));
    let class = "/apis/scheduling.k8s.io/v1/priorityclasses/class";
    assert_eq!(client.get(class).await.0, StatusCode::OK, "nothing follows from it");
}

#[tokio::test]
async fn a_namespace_goes_with_what_is_in_it_when_that_is_let_go() {
    let server = server(&[]);
    let mut client = Client::new(&server).await;
    client.namespace("empty").await;
    client.delete("/api/v1/namespaces/empty", Value::Null).await;
    client.until_gone("/api/v1/namespaces/empty").await;

    client.namespace("full").await;
    client.config_map("full", json!({"name": "plain"})).await;
    let held = json!({"name": "held", "finalizers": ["example.com/hold"]});
    client.config_map("full", held).await;
    let marked = client.delete("/api/v1/namespaces/full", Value::Null).await;
    assert_eq!(marked["status"]["phase"], "Terminating");
    let reported = |_, namespace: &Value| namespace["status"]["conditions"][4]["status"] == "True";
    let namespace = client.until("/api/v1/namespaces/full", reported).await;
    let conditions = namespace["status"]["conditions"].as_array().unwrap();
    let shown: Vec<String> = conditions
        .iter()
        .map(|condition| {
            let text = |key: &str| condition[key].as_str().unwrap();
            format!("{} {} {}", text("type"), text("status"), text("message"))
        })
        .collect();
    assert_eq!(
        shown,
        [
            "NamespaceDeletionDiscoveryFailure False All resources successfully discovered",
            "NamespaceDeletionGroupVersionParsingFailure False All legacy kube types successfully parsed",
            "NamespaceDeletionContentFailure False All content successfully deleted, may be waiting on finalization",
            "NamespaceContentRemaining True Some resources are remaining: configmaps. has 1 resource instances",
            "NamespaceFinalizersRemaining True Some content in the namespace has finalizers remaining: \
             example.com/hold in 1 resource instances",
        ]
    );
    let gone = client.get("/api/v1/namespaces/full/configmaps/plain").await;
    assert_eq!(gone.0, StatusCode::NOT_FOUND);
    client.release("/api/v1/namespaces/full/configmaps/held").await;
    client.until_gone("/api/v1/namespaces/full").await;
}

#[tokio::test]
async fn nothing_outlives_a_namespace_that_is_made_while_it_goes() {
    let server = server(&[]);
    let mut client = Client::new(&server).await;
    for round in 0..5 {
        let name = format!("racy-{round}");
        client.namespace(&name).await;
        let mut writers = Vec::new();
        for writer in 0..4 {
            let mut client = Client::new(&server).await;
            let path = format!("/api/v1/namespaces/{name}/configmaps");
            writers.push(tokio::spawn(async move {
                for at in 0.. {
                    let metadata = json!({"name": format!("{writer}-{at}")});
                    let object = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata});
                    let (status, answer) = client.ask(Method::POST, &path, "application/json", object).await;
                    if status != StatusCode::CREATED {
                        let expected = [StatusCode::FORBIDDEN, StatusCode::NOT_FOUND];
                        assert!(expected.contains(&status), "{answer}");
                        return at;
                    }
                }
                0
            }));
        }
        client
            .until(&format!("/api/v1/namespaces/{name}/configmaps/0-5"), |status, _| {
                status == StatusCode::OK
            })
            .await;
        let namespace = format!("/api/v1/namespaces/{name}");
        client.delete(&namespace, Value::Null).await;
        client.until_gone(&namespace).await;
        for writer in writers {
            assert!(writer.await.unwrap() > 0);
        }
        let (_, left) = client.get(&format!("{namespace}/configmaps")).await;
        assert_eq!(left["items"], json!([]));
    }
}

#[tokio::test]
async fn deletion_resumes_after_a_kill() {
    let server = server(&[]);
    let mut client = Client::new(&server).await;
    client.namespace("going").await;
    let held = json!({"name": "held", "finalizers": ["example.com/hold"]});
    client.config_map("going", held.clone()).await;
    client.delete("/api/v1/namespaces/going", Value::Null).await;
    let owner = client.config_map("default", json!({"name": "owner"})).await;
    let mut child = owned_by("child", "owner", &owner, json!({"blockOwnerDeletion": true}));
    child["finalizers"] = json!(["example.com/hold"]);
    client.config_map("default", child).await;
    client
        .delete(&path("owner"), json!({"propagationPolicy": "Foreground"}))
        .await;

    let server = server.kill_and_restart(&[]).unwrap();
    let mut client = Client::new(&server).await;
    client.release("/api/v1/namespaces/going/configmaps/held").await;
    client.until_gone("/api/v1/namespaces/going").await;
    let ending = |_, object: &Value| object["metadata"]["deletionTimestamp"].is_string();
    client.until(&path("child"), ending).await;
    client.release(&path("child")).await;
    client.until_gone(&path("owner")).await;
}

#[tokio::test]
async fn controllers_that_are_off_leave_everything_as_it_is() {
    let off = "--controllers=*,-namespace-controller,-garbage-collector-controller";
    let server = server(&[off]);
    let mut client = Client::new(&server).await;
    client.namespace("going").await;
    client.delete("/api/v1/namespaces/going", Value::Null).await;
    let nobody = "11111111-1111-1111-1111-111111111111";
    client
        .config_map("default", owned_by("lost", "nobody", nobody, json!({})))
        .await;

    // Controllers that run would check all objects at their start.
    let server = server.restart(&[off]).unwrap();
    let mut client = Client::new(&server).await;
    assert_eq!(client.get("/api/v1/namespaces/going").await.0, StatusCode::OK);
    assert_eq!(client.get(&path("lost")).await.0, StatusCode::OK);
    let server = server.restart(&[]).unwrap();
    let mut client = Client::new(&server).await;
    client.until_gone("/api/v1/namespaces/going").await;
    client.until_gone(&path("lost")).await;
}

#[tokio::test]
async fn an_aggregated_role_follows_the_roles_that_it_selects() {
    let server = server(&[]);
    let mut client = Client::new(&server).await;
    let roles = "/apis/rbac.authorization.k8s.io/v1/clusterroles";
    let role = |name: &str, more: Value| {
        let mut role = json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole"});
        role["metadata"] = json!({"name": name, "labels": {"example.com/part": "true"}});
        for (key, value) in more.as_object().unwrap() {
            role[key] = value.clone();
        }
        role
    };
    let selector = json!({"matchLabels": {"example.com/part": "true"}});
    let whole = json!({"aggregationRule": {"clusterRoleSelectors": [selector]}});
    client.make(roles, role("whole", whole)).await;
    let rule = json!({"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]});
    client.make(roles, role("part", json!({"rules": [rule]}))).await;
    let whole = format!("{roles}/whole");
    let has = |count: usize| move |_, role: &Value| role["rules"].as_array().map_or(0, Vec::len) == count;
    let filled = client.until(&whole, has(1)).await;
    assert_eq!(filled["rules"][0]["resources"], json!(["pods"]));
    client.delete(&format!("{roles}/part"), Value::Null).await;
    client.until(&whole, has(0)).await;
}

#[tokio::test]
async fn a_flow_schema_says_whether_its_level_is_there() {
    let server = server(&[]);
    let mut client = Client::new(&server).await;
    let group = "/apis/flowcontrol.apiserver.k8s.io/v1";
    let is = |wanted: &'static str| {
        move |_, schema: &Value| {
            let condition = &schema["status"]["conditions"][0];
            condition["type"] == "Dangling" && condition["reason"] == wanted
        }
    };
    client
        .until(&format!("{group}/flowschemas/catch-all"), is("Found"))
        .await;
    let rules = json!([{
        "subjects": [{"kind": "User", "user": {"name": "nobody"}}],
        "nonResourceRules": [{"verbs": ["get"], "nonResourceURLs": ["/nowhere"]}],
    }]);
    let spec = json!({"priorityLevelConfiguration": {"name": "mine"}, "rules": rules});
    let schema = json!({"metadata": {"name": "mine"}, "spec": spec});
    client.make(&format!("{group}/flowschemas"), schema).await;
    let path = format!("{group}/flowschemas/mine");
    let reported = client.until(&path, is("NotFound")).await;
    let manager: Vec<&str> = reported["metadata"]["managedFields"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|entry| entry["subresource"] == "status")
        .filter_map(|entry| entry["manager"].as_str())
        .collect();
    assert_eq!(manager, ["api-priority-and-fairness-config-consumer-v1"]);
    let levels = format!("{group}/prioritylevelconfigurations");
    let limited = json!({"type": "Limited", "limited": {"limitResponse": {"type": "Reject"}}});
    let level = json!({"metadata": {"name": "mine"}, "spec": limited});
    client.make(&levels, level).await;
    client.until(&path, is("Found")).await;
    client.delete(&format!("{levels}/mine"), Value::Null).await;
    client.until(&path, is("NotFound")).await;
}

#[tokio::test]
async fn a_collection_of_many_goes_and_is_answered_as_it_was() {
    // Other controllers create ConfigMaps, too.
    let server = server(&[]);
    let mut client = Client::new(&server).await;
    client.namespace("many").await;
    for at in 0..100 {
        client.config_map("many", json!({"name": format!("m-{at:03}")})).await;
    }
    let answer = client.delete("/api/v1/namespaces/many/configmaps", Value::Null).await;
    let names: Vec<&str> = answer["items"]
        .as_array()
        .unwrap()
        .iter()
        .map(|item| item["metadata"]["name"].as_str().unwrap())
        .collect();
    assert_eq!((names.len(), names[0], names[99]), (100, "m-000", "m-099"));
    let (_, left) = client.get("/api/v1/namespaces/many/configmaps").await;
    // Others may publish the root certificate into every namespace; the objects of this test are gone.
    let left = left["items"].as_array().unwrap().iter();
    assert_eq!(
        left.filter(|item| item["metadata"]["name"].as_str().unwrap().starts_with("m-"))
            .count(),
        0
    );
}

#[tokio::test]
async fn unused_claim_and_unbound_volume_are_deleted() {
    const CLAIMS: &str = "/api/v1/namespaces/held/persistentvolumeclaims";
    const PODS: &str = "/api/v1/namespaces/held/pods";
    const VOLUMES: &str = "/api/v1/persistentvolumes";
    let server =
        server(&["--controllers=*,persistentvolumeclaim-protection-controller,persistentvolume-protection-controller"]);
    let mut client = Client::new(&server).await;
    client.namespace("held").await;
    let size = json!({"storage": "1Gi"});
    let claim = json!({"accessModes": ["ReadWriteOnce"], "resources": {"requests": size}});
    client
        .make(CLAIMS, json!({"metadata": {"name": "data"}, "spec": claim}))
        .await;
    let pod = json!({"nodeName": "node", "containers": [{"name": "main", "image": "main"}],
        "volumes": [{"name": "data", "persistentVolumeClaim": {"claimName": "data"}}]});
    client
        .make(PODS, json!({"metadata": {"name": "user"}, "spec": pod}))
        .await;
    let volume = json!({"accessModes": ["ReadWriteOnce"], "capacity": size, "hostPath": {"path": "/data"}});
    for name in ["bound", "free"] {
        client
            .make(VOLUMES, json!({"metadata": {"name": name}, "spec": volume}))
            .await;
    }
    let bound = json!({"status": {"phase": "Bound"}});
    let (status, answer) = client
        .ask(Method::PATCH, &format!("{VOLUMES}/bound/status"), MERGE, bound)
        .await;
    assert_eq!(status, StatusCode::OK, "{answer}");

    for path in [
        format!("{CLAIMS}/data"),
        format!("{VOLUMES}/bound"),
        format!("{VOLUMES}/free"),
    ] {
        client.delete(&path, Value::Null).await;
    }
    client.until_gone(&format!("{VOLUMES}/free")).await;
    for path in [format!("{CLAIMS}/data"), format!("{VOLUMES}/bound")] {
        let (_, kept) = client.get(&path).await;
        assert!(!kept["metadata"]["deletionTimestamp"].is_null(), "{kept}");
    }
    client
        .delete(&format!("{PODS}/user"), json!({"gracePeriodSeconds": 0}))
        .await;
    client.until_gone(&format!("{CLAIMS}/data")).await;
    let released = json!({"status": {"phase": "Released"}});
    client
        .ask(Method::PATCH, &format!("{VOLUMES}/bound/status"), MERGE, released)
        .await;
    client.until_gone(&format!("{VOLUMES}/bound")).await;
}
