//! Operations on one object among few and among many.

use std::time::Duration;

use anyhow::Result;
use bytes::Bytes;
use conformance::{Binary, Server, Target};
use http::Method;

use super::super::pods;
use super::super::scale::{Watches, version_of};
use super::super::workload::{Objects, Phase, Workload};
use super::{Chart, Curve, config_maps, cost, cost_of_each};

/// ConfigMaps in addition to those that exist already.
const CONFIG_MAPS: Objects = config_maps("/api/v1/namespaces/large/configmaps");

/// Number of objects of each phase, and number of its connections.
const OBJECTS: usize = 1_000;
const CONNECTIONS: usize = 16;

/// The phases, in an order in which each finds the objects that it needs.
const PHASES: [Phase; 7] = [
    Phase::Create,
    Phase::Reapply,
    Phase::Remembered,
    Phase::Change,
    Phase::Patch,
    Phase::Get,
    Phase::Delete,
];

const PAGE: &str = "list of 500 by pages";
const WATCH: &str = "start of a watch";

pub(super) async fn chart(binary: &Binary, counts: &[u64], least: Duration) -> Result<Chart> {
    let names = PHASES.iter().map(|phase| phase.title()).chain([PAGE, WATCH]);
    let mut curves: Vec<Curve> = names.map(|name| Curve::new(name, "")).collect();
    for count in counts {
        for (curve, micros) in curves.iter_mut().zip(costs(binary, *count, least).await?) {
            curve.points.push((*count, micros));
        }
    }
    Ok(Chart { of: "objects", curves })
}

/// Returns the costs of all operations among `count` objects.
async fn costs(binary: &Binary, count: u64, least: Duration) -> Result<Vec<f64>> {
    let (server, _) = pods::with_config_maps(binary, count as usize).await?;
    let server = server.restart(&[])?;
    let target = Target::new(&server)?;
    let workload = Workload::new(target.clone(), CONNECTIONS, CONFIG_MAPS);
    // The first requests after a start find everything cold.
    for phase in [Phase::Create, Phase::Reapply, Phase::Delete] {
        workload.run(phase, OBJECTS, &server).await?;
    }
    let mut totals = [0.0; PHASES.len()];
    let mut rounds = 0;
    // Rounds continue until the cheapest phase has used its time: the others need more. The cost of connections is not
    // counted.
    while totals
        .iter()
        .any(|micros| micros * (OBJECTS as f64) < least.as_secs_f64() * 1e6)
    {
        for (phase, total) in PHASES.iter().zip(&mut totals) {
            *total += workload.run(*phase, OBJECTS, &server).await?.cpu_micros;
        }
        rounds += 1;
    }
    let mut costs: Vec<f64> = totals.iter().map(|micros| micros / f64::from(rounds)).collect();
    costs.push(page(&server, &target, least).await?);
    costs.push(watch(&server, &target, least).await?);
    Ok(costs)
}

async fn page(server: &Server, target: &Target, least: Duration) -> Result<f64> {
    let mut connection = target.connect().await?;
    let path = format!("{}?limit=500", CONFIG_MAPS.collection);
    cost_of_each(server, least, 20, async || {
        connection.send(Method::GET, &path, "", Bytes::new()).await?;
        Ok(())
    })
    .await
}

async fn watch(server: &Server, target: &Target, least: Duration) -> Result<f64> {
    const WATCHES: usize = 200;
    let mut connection = target.connect().await?;
    let version = version_of(&mut connection, &format!("{}?limit=1", CONFIG_MAPS.collection)).await?;
    let path = format!("{}?watch=1&resourceVersion={version}", CONFIG_MAPS.collection);
    cost(server, least, async || {
        Watches::open(target, WATCHES, &path).await?;
        Ok(WATCHES as u64)
    })
    .await
}
