//! A write with a growing number of policies: those that are evaluated for it, and those for other resources.

use std::time::Duration;

use anyhow::Result;
use conformance::{Binary, Server, Target};
use serde_json::json;

use super::super::admission::{REJECTED, policy, register, rule, until_rejected};
use super::super::workload::{DEPLOYMENTS, Objects, Phase, Workload};
use super::{Chart, Curve, config_maps, cost};

const CONNECTIONS: usize = 16;
/// Number of objects that are created between two reads of the clock.
const BATCH: usize = 100;

const CONFIG_MAPS: Objects = config_maps("/api/v1/namespaces/default/configmaps");

pub(super) async fn chart(binary: &Binary, counts: &[u64], least: Duration) -> Result<Chart> {
    let evaluated = Curve::new("create by apply, all are evaluated", "each policy is evaluated");
    let others = Curve::new("create by apply, all are for another resource", "");
    Ok(Chart {
        of: "policies",
        curves: vec![
            curve(binary, evaluated, "apps", "deployments", DEPLOYMENTS, counts, least).await?,
            curve(binary, others, "", "configmaps", CONFIG_MAPS, counts, least).await?,
        ],
    })
}

/// Measures the cost of a Deployment with policies for `resource`.
async fn curve(
    binary: &Binary,
    mut curve: Curve,
    group: &str,
    resource: &str,
    of: Objects,
    counts: &[u64],
    least: Duration,
) -> Result<Curve> {
    let server = Server::start(binary, &[])?;
    let target = Target::new(&server)?;
    let mut connection = target.connect().await?;
    let workload = Workload::new(target, CONNECTIONS, DEPLOYMENTS);
    let (mut policies, mut made) = (0, 0);
    for count in counts {
        while policies < *count {
            let validations = json!([
                {"expression": format!("object.metadata.name != '{REJECTED}-{policies}'")},
                {"expression": "!has(object.metadata.labels) || object.metadata.labels.size() <= 10"},
            ]);
            let registrations = policy(&format!("bench-{policies}"), &rule(group, resource), &validations);
            register(&mut connection, &registrations).await?;
            policies += 1;
        }
        // The informer receives them in order: when the first of them denies, the last may not be in effect yet.
        let name = format!("{REJECTED}-{}", policies - 1);
        until_rejected(&mut connection, &of, &name).await?;
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
