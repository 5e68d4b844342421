//! Cost that external admission adds to a write: a policy, and a webhook that responds at once from the same machine.

use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use bytes::Bytes;
use conformance::hook::{Hook, allow, deny};
use conformance::{Binary, Connection, Server, Target};
use http::Method;
use serde_json::{Value, json};

use super::workload::{DEPLOYMENTS, Objects, Phase, Workload};
use super::{Row, micros, millis, row};

const ADMISSION: &str = "/apis/admissionregistration.k8s.io/v1";

/// Name of the object that all of them reject: once it is rejected, they are in effect.
pub(super) const REJECTED: &str = "refused";

/// Returns all rows, each of as many creations: CPU over many connections, and waiting over one.
pub(super) async fn rows(binary: &Binary, objects: usize, connections: usize) -> Result<Vec<Row>> {
    let server = Server::start(binary, &[])?;
    let target = Target::new(&server)?;
    let mut connection = target.connect().await?;
    let hook = Hook::start(|review| match review["request"]["name"].as_str() {
        Some(REJECTED) => deny("refused"),
        _ => allow(),
    })
    .await;
    let many = Workload::new(target.clone(), connections, DEPLOYMENTS);
    let one = Workload::new(target, 1, DEPLOYMENTS);
    let validations = json!([
        {"expression": format!("object.metadata.name != '{REJECTED}'")},
        {"expression": "object.spec.template.spec.containers.all(c, c.image.startsWith('registry.example.com/'))"},
        {"expression": "object.spec.replicas <= 10"},
    ]);
    let mut made = 0;
    let mut rows = Vec::new();
    for (title, registrations) in [
        ("nothing asked", Vec::new()),
        (
            "one ValidatingAdmissionPolicy",
            policy("bench", &rule("apps", "deployments"), &validations).into(),
        ),
        ("one validating webhook", vec![webhook(&hook)]),
    ] {
        register(&mut connection, &registrations).await?;
        if !registrations.is_empty() {
            until_rejected(&mut connection, &DEPLOYMENTS, REJECTED).await?;
        }
        let cpu = many.run_range(Phase::Create, made..made + objects, &server).await?;
        made += objects;
        let alone = objects / 4;
        let wall = one.run_range(Phase::Create, made..made + alone, &server).await?;
        made += alone;
        let title_of = |what: &str| format!("create by apply, {title}, {what}");
        rows.push(row(&title_of("server CPU each"), &micros(cpu.cpu_micros), "", ""));
        rows.push(row(&title_of("one connection, p50"), &millis(wall.p50), "", ""));
        for (resource, object) in &registrations {
            let name = object["metadata"]["name"].as_str().unwrap_or_default();
            let path = format!("{ADMISSION}/{resource}/{name}");
            connection.send(Method::DELETE, &path, "", Bytes::new()).await?;
        }
    }
    Ok(rows)
}

/// Creates objects of this API, each in the collection of its resource.
pub(super) async fn register(connection: &mut Connection, registrations: &[(&str, Value)]) -> Result<()> {
    for (resource, object) in registrations {
        let path = format!("{ADMISSION}/{resource}");
        let body = Bytes::from(object.to_string());
        connection.send(Method::POST, &path, "application/json", body).await?;
    }
    Ok(())
}

/// Returns a policy for the resources that `rule` matches, and its binding.
pub(super) fn policy(name: &str, rule: &Value, validations: &Value) -> [(&'static str, Value); 2] {
    let kind =
        |kind: &str| json!({"apiVersion": "admissionregistration.k8s.io/v1", "kind": kind, "metadata": {"name": name}});
    let mut policy = kind("ValidatingAdmissionPolicy");
    policy["spec"] = json!({"matchConstraints": {"resourceRules": [rule]}, "validations": validations});
    let mut binding = kind("ValidatingAdmissionPolicyBinding");
    binding["spec"] = json!({"policyName": name, "validationActions": ["Deny"]});
    [
        ("validatingadmissionpolicies", policy),
        ("validatingadmissionpolicybindings", binding),
    ]
}

/// Creations and updates of a resource.
pub(super) fn rule(group: &str, resource: &str) -> Value {
    json!({
        "operations": ["CREATE", "UPDATE"], "apiGroups": [group], "apiVersions": ["v1"], "resources": [resource],
    })
}

fn webhook(hook: &Hook) -> (&'static str, Value) {
    let webhook = hook.webhook(
        "bench.example.com",
        &["CREATE", "UPDATE"],
        "apps/v1/deployments",
        json!({}),
    );
    let configuration = json!({
        "apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingWebhookConfiguration",
        "metadata": {"name": "bench"}, "webhooks": [webhook],
    });
    ("validatingwebhookconfigurations", configuration)
}

/// Waits until an object of that name is rejected.
pub(super) async fn until_rejected(connection: &mut Connection, of: &Objects, name: &str) -> Result<()> {
    let path = format!("{}/{name}?fieldManager=bench&dryRun=All", of.collection);
    let body =
        String::from_utf8((of.object)(0, 3).to_vec())?.replace("\"name\":\"bench-0\"", &format!("\"name\":\"{name}\""));
    let begin = Instant::now();
    loop {
        let body = Bytes::from(body.clone());
        let (status, _) = connection
            .ask(Method::PATCH, &path, "application/apply-patch+yaml", body)
            .await?;
        if status.is_client_error() {
            return Ok(());
        }
        ensure!(
            begin.elapsed() < Duration::from_secs(30),
            "no plugin refuses {name}: {status}"
        );
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}
