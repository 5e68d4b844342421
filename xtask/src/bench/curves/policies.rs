//! A write beside more and more policies: those that are asked about it, and those for other resources.

use std::time::Duration;

use anyhow::Result;
use bytes::Bytes;
use conformance::{Binary, Connection, Server, Target};
use http::Method;
use serde_json::json;

use super::super::admission::{ADMISSION, REFUSED, until_refused};
use super::super::pods;
use super::super::workload::{DEPLOYMENTS, Objects, Phase, Workload};
use super::{Chart, Curve, cost};

const JSON: &str = "application/json";
const CONNECTIONS: usize = 16;
/// How many objects are made between two looks at the clock.
const BATCH: usize = 100;

const CONFIG_MAPS: Objects = Objects {
    collection: "/api/v1/namespaces/default/configmaps",
    object: |number, value| pods::config_map(&format!("bench-{number}"), value),
    patch: r#"{"data": {"value": "patched"}}"#,
};

pub(super) async fn chart(binary: &Binary, counts: &[u64], least: Duration) -> Result<Chart> {
    let asked = Curve::new("create by apply, all are asked", "each policy is asked");
    let others = Curve::new("create by apply, all are for another resource", "");
    Ok(Chart {
        of: "policies",
        curves: vec![
            curve(binary, asked, ("apps", "deployments", DEPLOYMENTS), (counts, least)).await?,
            curve(binary, others, ("", "configmaps", CONFIG_MAPS), (counts, least)).await?,
        ],
    })
}

/// The cost of a Deployment beside policies for `resource`.
async fn curve(
    binary: &Binary,
    mut curve: Curve,
    (group, resource, of): (&str, &str, Objects),
    (counts, least): (&[u64], Duration),
) -> Result<Curve> {
    let server = Server::start(binary, &[])?;
    let target = Target::of(&server)?;
    let mut connection = target.connect().await?;
    let workload = Workload::new(target, CONNECTIONS, DEPLOYMENTS);
    let (mut policies, mut made) = (0, 0);
    for count in counts {
        while policies < *count {
            policy(&mut connection, policies, group, resource).await?;
            policies += 1;
        }
        // They are followed in order: when the first of them refuses, the last may not be there yet.
        let name = format!("{REFUSED}-{}", policies - 1);
        until_refused(&mut connection, &of, &name).await?;
        let micros = cost(&server, least, async || {
            workload.run_range(Phase::Create, made..made + BATCH, &server).await?;
            made += BATCH;
            Ok(BATCH as u64)
        })
        .await?;
        curve.points.push((*count, micros));
    }
    Ok(curve)
}

/// Makes a policy that refuses objects of one name, and its binding.
async fn policy(connection: &mut Connection, number: u64, group: &str, resource: &str) -> Result<()> {
    let name = format!("bench-{number}");
    let kind =
        |kind: &str| json!({"apiVersion": "admissionregistration.k8s.io/v1", "kind": kind, "metadata": {"name": name}});
    let mut policy = kind("ValidatingAdmissionPolicy");
    policy["spec"] = json!({
        "matchConstraints": {"resourceRules": [{
            "operations": ["CREATE", "UPDATE"], "apiGroups": [group], "apiVersions": ["v1"], "resources": [resource],
        }]},
        "validations": [
            {"expression": format!("object.metadata.name != '{REFUSED}-{number}'")},
            {"expression": "!has(object.metadata.labels) || object.metadata.labels.size() <= 10"},
        ],
    });
    let mut binding = kind("ValidatingAdmissionPolicyBinding");
    binding["spec"] = json!({"policyName": name, "validationActions": ["Deny"]});
    for (plural, object) in [
        ("validatingadmissionpolicies", policy),
        ("validatingadmissionpolicybindings", binding),
    ] {
        let path = format!("{ADMISSION}/{plural}");
        connection
            .send(Method::POST, &path, JSON, Bytes::from(object.to_string()))
            .await?;
    }
    Ok(())
}
