//! Rules that apply to writes through either server: addresses and ports, quotas, roles, policies, webhooks, the
//! ownership of fields, the lifetime of events.

use std::collections::BTreeSet;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use conformance::USER_TOKEN;
use conformance::hook::{Hook, allow, deny};
use futures_util::future::join_all;
use http::{Method, StatusCode};
use serde_json::{Value, json};
use test_support::needs;

use crate::{JSON, Pair, config_map, named};

const SERVICES: &str = "/api/v1/namespaces/default/services";
const CONFIG_MAPS: &str = "/api/v1/namespaces/default/configmaps";
const ADDRESSES: &str = "/apis/networking.k8s.io/v1/ipaddresses";
const ADMISSION: &str = "/apis/admissionregistration.k8s.io/v1";

fn service(name: &str, more: Value) -> Value {
    let mut object = named("v1", "Service", name);
    object["spec"] = json!({"type": "NodePort", "ports": [{"port": 80}], "selector": {"a": "b"}});
    for (field, value) in more.as_object().unwrap() {
        object["spec"][field] = value.clone();
    }
    object
}

#[needs(etcd, kube_apiserver)]
#[tokio::test]
async fn addresses_and_ports_are_allocated_once_by_either_server() {
    let pair = Pair::start(&[]).await;
    let services: Vec<Value> = (0..40)
        .map(|number| service(&format!("s{number}"), json!({})))
        .collect();
    let racers = services
        .iter()
        .enumerate()
        .map(|(number, object)| pair.sides()[number % 2].post(SERVICES, object));
    for (code, answer) in join_all(racers).await {
        assert_eq!(code, StatusCode::CREATED, "{answer}");
    }
    let (_, list) = pair.holdfast.get(SERVICES).await;
    let items = list["items"].as_array().unwrap();
    let made = |item: &&Value| item["metadata"]["name"].as_str().unwrap().starts_with('s');
    let allocated: Vec<(&str, i64)> = items
        .iter()
        .filter(made)
        .map(|one| {
            (
                one["spec"]["clusterIP"].as_str().unwrap(),
                one["spec"]["ports"][0]["nodePort"].as_i64().unwrap(),
            )
        })
        .collect();
    assert_eq!(allocated.iter().map(|(ip, _)| ip).collect::<BTreeSet<_>>().len(), 40);
    assert_eq!(
        allocated.iter().map(|(_, port)| port).collect::<BTreeSet<_>>().len(),
        40
    );
    // Each address has an object that names its owner.
    for (ip, _) in &allocated {
        let (code, address) = pair.reference.get(&format!("{ADDRESSES}/{ip}")).await;
        assert_eq!(code, StatusCode::OK, "{address}");
        let owner = items.iter().find(|one| one["spec"]["clusterIP"] == *ip).unwrap();
        assert_eq!(address["spec"]["parentRef"]["name"], owner["metadata"]["name"]);
    }
    // The other server rejects an allocated address with the same message. It is free again when its Service is
    // deleted.
    for (taker, (owner, other)) in ["s0", "s1"].into_iter().zip(pair.ways()) {
        let (_, taken) = other.get(&format!("{SERVICES}/{taker}")).await;
        let (ip, port) = (&taken["spec"]["clusterIP"], &taken["spec"]["ports"][0]["nodePort"]);
        let wanted = [
            service("wanted", json!({"clusterIP": ip})),
            service("wanted", json!({"ports": [{"port": 80, "nodePort": port}]})),
        ];
        for wanted in &wanted {
            let rejections = [other.post(SERVICES, wanted).await, owner.post(SERVICES, wanted).await];
            assert_eq!(rejections[0].0, StatusCode::UNPROCESSABLE_ENTITY, "{:?}", rejections[0]);
            assert_eq!(rejections[0], rejections[1]);
        }
        let (code, answer) = owner.delete(&format!("{SERVICES}/{taker}")).await;
        assert_eq!(code, StatusCode::OK, "{answer}");
        for wanted in &wanted {
            let (code, answer) = other.post(SERVICES, wanted).await;
            assert_eq!(code, StatusCode::CREATED, "{} {answer}", other.name);
            let (code, answer) = owner.delete(&format!("{SERVICES}/wanted")).await;
            assert_eq!(code, StatusCode::OK, "{answer}");
        }
        let (code, _) = owner.get(&format!("{ADDRESSES}/{}", ip.as_str().unwrap())).await;
        assert_eq!(code, StatusCode::NOT_FOUND, "{ip} is given back");
    }
}

#[needs(etcd, kube_apiserver)]
#[tokio::test]
async fn a_quota_is_kept_and_charged_through_either() {
    let pair = Pair::start(&[]).await;
    let path = "/api/v1/namespaces/default/resourcequotas";
    let mut quota = named("v1", "ResourceQuota", "q");
    quota["spec"] = json!({"hard": {"count/configmaps": "12"}});
    pair.reference.make(path, &quota).await;
    let used = |object: &Value| object["status"]["used"]["count/configmaps"].clone();
    for side in pair.sides() {
        side.until(&format!("{path}/q"), |_, object| used(object).is_string())
            .await;
    }
    let objects: Vec<Value> = (0..30).map(|number| config_map(&format!("c{number}"), "1")).collect();
    let racers = objects
        .iter()
        .enumerate()
        .map(|(number, object)| pair.sides()[number % 2].post(CONFIG_MAPS, object));
    let answers = join_all(racers).await;
    let made = answers.iter().filter(|(code, _)| *code == StatusCode::CREATED).count();
    let (_, list) = pair.reference.get(CONFIG_MAPS).await;
    assert_eq!(list["items"].as_array().unwrap().len(), made);
    assert!(made <= 12, "{made} were made");
    for side in pair.sides() {
        // The controller finally counts the existing objects, and the remaining quota can be used.
        side.until(&format!("{path}/q"), |_, object| {
            used(object).as_str() == Some(made.to_string().as_str())
        })
        .await;
    }
    for number in made..12 {
        let object = config_map(&format!("more{number}"), "1");
        let side = pair.sides()[number % 2];
        side.make(CONFIG_MAPS, &object).await;
    }
    let one_more = config_map("over", "1");
    for side in pair.sides() {
        side.until(&format!("{path}/q"), |_, object| used(object) == "12").await;
        let (code, answer) = side.post(CONFIG_MAPS, &one_more).await;
        assert_eq!(code, StatusCode::FORBIDDEN, "{answer}");
        assert!(
            answer["message"].as_str().unwrap().contains("exceeded quota: q"),
            "{answer}"
        );
    }
}

#[needs(etcd, kube_apiserver)]
#[tokio::test]
async fn rights_that_one_server_stores_the_other_gives_and_takes() {
    let pair = Pair::start(&[]).await;
    let rbac = "/apis/rbac.authorization.k8s.io/v1/namespaces/default";
    for (number, (writer, other)) in pair.ways().into_iter().enumerate() {
        let alice = other.as_user(USER_TOKEN);
        let denied = alice.get(CONFIG_MAPS).await;
        assert_eq!(denied.0, StatusCode::FORBIDDEN, "{denied:?}");
        assert_eq!(denied, writer.as_user(USER_TOKEN).get(CONFIG_MAPS).await);
        let name = format!("reader{number}");
        let mut role = named("rbac.authorization.k8s.io/v1", "Role", &name);
        role["rules"] = json!([{"apiGroups": [""], "resources": ["configmaps"], "verbs": ["list"]}]);
        let mut binding = named("rbac.authorization.k8s.io/v1", "RoleBinding", &name);
        binding["roleRef"] = json!({"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": name});
        binding["subjects"] = json!([{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "alice"}]);
        writer.make(&format!("{rbac}/roles"), &role).await;
        writer.make(&format!("{rbac}/rolebindings"), &binding).await;
        alice.until(CONFIG_MAPS, |code, _| code == StatusCode::OK).await;
        let (code, answer) = writer.delete(&format!("{rbac}/rolebindings/{name}")).await;
        assert_eq!(code, StatusCode::OK, "{answer}");
        for side in pair.sides() {
            let alice = side.as_user(USER_TOKEN);
            alice.until(CONFIG_MAPS, |code, _| code == StatusCode::FORBIDDEN).await;
        }
    }
    // A token of a service account is good for both, whichever of them gave it.
    let accounts = "/api/v1/namespaces/default/serviceaccounts";
    pair.holdfast
        .make(accounts, &named("v1", "ServiceAccount", "robot"))
        .await;
    let request =
        json!({"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {"expirationSeconds": 600}});
    for (giver, other) in pair.ways() {
        let (code, made) = giver.post(&format!("{accounts}/robot/token"), &request).await;
        assert_eq!(code, StatusCode::CREATED, "{made}");
        let review = json!({"apiVersion": "authentication.k8s.io/v1", "kind": "TokenReview",
            "spec": {"token": made["status"]["token"]}});
        let (code, review) = other.post("/apis/authentication.k8s.io/v1/tokenreviews", &review).await;
        assert_eq!(code, StatusCode::CREATED, "{review}");
        let user = &review["status"]["user"]["username"];
        assert_eq!(user, "system:serviceaccount:default:robot", "{} {review}", other.name);
    }
}

#[needs(etcd, kube_apiserver)]
#[tokio::test]
async fn policies_and_webhooks_of_one_server_hold_for_the_other() {
    let pair = Pair::start(&[]).await;
    let hook = Hook::start(|review| match review["request"]["name"].as_str() {
        Some("hooked") => deny("the hook says no"),
        _ => allow(),
    })
    .await;
    for (number, (writer, other)) in pair.ways().into_iter().enumerate() {
        let name = format!("a{number}");
        let version = "admissionregistration.k8s.io/v1";
        let rule =
            json!({"apiGroups": [""], "apiVersions": ["v1"], "resources": ["configmaps"], "operations": ["CREATE"]});
        let mut policy = named(version, "ValidatingAdmissionPolicy", &name);
        policy["spec"] = json!({"matchConstraints": {"resourceRules": [rule]},
            "validations": [{"expression": "object.metadata.name != 'banned'", "message": "the policy says no"}]});
        let mut binding = named(version, "ValidatingAdmissionPolicyBinding", &name);
        binding["spec"] = json!({"policyName": name, "validationActions": ["Deny"]});
        writer
            .make(&format!("{ADMISSION}/validatingadmissionpolicies"), &policy)
            .await;
        writer
            .make(&format!("{ADMISSION}/validatingadmissionpolicybindings"), &binding)
            .await;
        other
            .until_rejected(CONFIG_MAPS, &config_map("banned", "1"), "the policy says no")
            .await;

        let mut mutation = named(version, "MutatingAdmissionPolicy", &name);
        mutation["spec"] = json!({"reinvocationPolicy": "Never", "failurePolicy": "Fail", "matchConstraints": {"resourceRules": [rule]},
            "mutations": [{"patchType": "ApplyConfiguration", "applyConfiguration": {
                "expression": "Object{metadata: Object.metadata{labels: {\"mutated\": \"yes\"}}}"}}]});
        let mut binding = named(version, "MutatingAdmissionPolicyBinding", &name);
        binding["spec"] = json!({"policyName": name});
        writer
            .make(&format!("{ADMISSION}/mutatingadmissionpolicies"), &mutation)
            .await;
        writer
            .make(&format!("{ADMISSION}/mutatingadmissionpolicybindings"), &binding)
            .await;
        mutated(other, &format!("{name}-mutated")).await;

        let mut configuration = named(version, "ValidatingWebhookConfiguration", &name);
        configuration["webhooks"] = json!([hook.webhook("hook.example.com", &["CREATE"], "/v1/configmaps", json!({}))]);
        writer
            .make(&format!("{ADMISSION}/validatingwebhookconfigurations"), &configuration)
            .await;
        other
            .until_rejected(CONFIG_MAPS, &config_map("hooked", "1"), "the hook says no")
            .await;

        // Rules deleted through one server no longer apply to the other.
        for resource in [
            "validatingadmissionpolicybindings",
            "validatingadmissionpolicies",
            "mutatingadmissionpolicybindings",
            "mutatingadmissionpolicies",
            "validatingwebhookconfigurations",
        ] {
            let (code, answer) = other.delete(&format!("{ADMISSION}/{resource}/{name}")).await;
            assert_eq!(code, StatusCode::OK, "{answer}");
        }
        for rejected in ["banned", "hooked"] {
            until_made(writer, rejected).await;
            let (code, _) = other.delete(&format!("{CONFIG_MAPS}/{rejected}")).await;
            assert_eq!(code, StatusCode::OK);
        }
    }
}

/// Makes an object again and again until it bears the label of the policy.
async fn mutated(side: &crate::Side, name: &str) {
    let end = std::time::Instant::now() + crate::WAIT_TIMEOUT;
    loop {
        let (code, answer) = side
            .post(&format!("{CONFIG_MAPS}?dryRun=All"), &config_map(name, "1"))
            .await;
        assert_eq!(code, StatusCode::CREATED, "{answer}");
        if answer["metadata"]["labels"]["mutated"] == "yes" {
            return;
        }
        assert!(std::time::Instant::now() < end, "{} does not mutate", side.name);
        tokio::time::sleep(std::time::Duration::from_millis(20)).await;
    }
}

/// Makes an object as soon as it is let through.
async fn until_made(side: &crate::Side, name: &str) {
    let end = std::time::Instant::now() + crate::WAIT_TIMEOUT;
    loop {
        let (code, answer) = side.post(CONFIG_MAPS, &config_map(name, "1")).await;
        if code == StatusCode::CREATED {
            return;
        }
        assert!(std::time::Instant::now() < end, "{} {answer}", side.name);
        tokio::time::sleep(std::time::Duration::from_millis(20)).await;
    }
}

#[needs(etcd, kube_apiserver)]
#[tokio::test]
async fn fields_belong_to_their_managers_on_either_server() {
    let pair = Pair::start(&[]).await;
    for (number, (writer, other)) in pair.ways().into_iter().enumerate() {
        let name = format!("owned{number}");
        let path = format!("{CONFIG_MAPS}/{name}");
        let (code, answer) = writer.apply(&path, "alpha", &config_map(&name, "1")).await;
        assert_eq!(code, StatusCode::CREATED, "{answer}");
        let conflicts = [
            other.apply(&path, "bravo", &config_map(&name, "2")).await,
            writer.apply(&path, "bravo", &config_map(&name, "2")).await,
        ];
        assert_eq!(conflicts[0].0, StatusCode::CONFLICT, "{:?}", conflicts[0]);
        assert_eq!(conflicts[0], conflicts[1]);
        let (code, taken) = other.apply(&path, "bravo&force=true", &config_map(&name, "2")).await;
        assert_eq!(code, StatusCode::OK, "{taken}");
        // Fields that are no longer applied are removed.
        let (code, left) = writer.apply(&path, "bravo", &named("v1", "ConfigMap", &name)).await;
        assert_eq!(code, StatusCode::OK, "{left}");
        assert_eq!(left["data"], Value::Null, "{left}");
        assert_eq!(writer.get(&path).await, other.get(&path).await);
        // A lost race is a conflict of versions on both.
        let (_, seen) = other.get(&path).await;
        let mut next = seen.clone();
        next["data"] = json!({"value": "3"});
        let (code, _) = writer.ask(Method::PUT, &path, JSON, &next).await;
        assert_eq!(code, StatusCode::OK);
        let late = [
            other.ask(Method::PUT, &path, JSON, &next).await,
            writer.ask(Method::PUT, &path, JSON, &next).await,
        ];
        assert_eq!(late[0].0, StatusCode::CONFLICT, "{:?}", late[0]);
        assert_eq!(late[0], late[1]);
    }
    // Of two that race for one name one wins.
    for round in 0..10 {
        let object = config_map(&format!("race{round}"), "1");
        let answers = join_all(pair.sides().map(|side| side.post(CONFIG_MAPS, &object))).await;
        let codes: BTreeSet<StatusCode> = answers.iter().map(|(code, _)| *code).collect();
        assert_eq!(
            codes,
            BTreeSet::from([StatusCode::CREATED, StatusCode::CONFLICT]),
            "{answers:?}"
        );
    }
}

#[needs(etcd, kube_apiserver)]
#[tokio::test]
async fn events_of_either_server_hang_on_a_lease_that_the_other_keeps() {
    let pair = Pair::start(&["--event-ttl=30m"]).await;
    let collection = "/api/v1/namespaces/default/events";
    for (number, (writer, other)) in pair.ways().into_iter().enumerate() {
        let name = format!("event{number}");
        let mut event = named("v1", "Event", &name);
        event["involvedObject"] = json!({"kind": "Pod", "namespace": "default", "name": "p"});
        event["reason"] = "Started".into();
        writer.make(collection, &event).await;
        let lease = lease(&pair, &name);
        assert_ne!(lease, 0, "{} gives no lease", writer.name);
        let (code, answer) = other.merge(&format!("{collection}/{name}"), &json!({"count": 2})).await;
        assert_eq!(code, StatusCode::OK, "{answer}");
        assert_ne!(self::lease(&pair, &name), 0, "{} takes the lease away", other.name);
    }
}

/// Returns the lease that an event hangs on.
fn lease(pair: &Pair, event: &str) -> u64 {
    let key = STANDARD.encode(format!("/registry/events/default/{event}"));
    let body = pair
        .etcd
        .ask(0, "/v3/kv/range", &json!({"key": key}).to_string())
        .unwrap();
    let answer: Value = serde_json::from_str(&body).unwrap();
    let lease = answer["kvs"][0]["lease"].as_str();
    lease.map_or(0, |lease| lease.parse().unwrap())
}

#[needs(kube_apiserver)]
#[test]
fn every_flag_of_kube_apiserver_has_a_state() {
    let program = test_support::kube_apiserver::named().unwrap();
    let output = std::process::Command::new(program).arg("--help").output().unwrap();
    let help = String::from_utf8(output.stdout).unwrap();
    let flags: Vec<&str> = help
        .lines()
        .filter_map(|line| {
            let (_, flag) = line.split_once("--").filter(|(before, _)| before.trim().len() <= 3)?;
            flag.split_whitespace().next()
        })
        .collect();
    assert!(flags.len() > 150, "{flags:?}");
    let page = std::fs::read_to_string(conformance::root().join("docs/reference/flags.md")).unwrap();
    let (_, table) = page.split_once("## Flags of kube-apiserver 1.36").unwrap();
    let missing: Vec<&&str> = flags
        .iter()
        .filter(|flag| !table.contains(&format!("| `--{flag}` |")))
        .collect();
    assert!(missing.is_empty(), "{missing:?}");
}
