//! One object to which a growing number of managers apply, each with a field of its own.

use std::time::Duration;

use anyhow::Result;
use bytes::Bytes;
use conformance::{Binary, Connection, MERGE, Server, Target};
use http::Method;
use serde_json::json;

use super::{Chart, Curve, cost_of_each};

const APPLY: &str = "application/apply-patch+yaml";
const OBJECT: &str = "/api/v1/namespaces/default/configmaps/shared";

const SIZE: &str = "the object grows with each manager: its fields and what they own";

pub(super) async fn chart(binary: &Binary, counts: &[u64], least: Duration) -> Result<Chart> {
    let mut curves = [
        Curve::new("apply that changes one field", SIZE),
        Curve::new("unchanged apply", ""),
        Curve::new("merge patch of one field", SIZE),
        Curve::new("get", "the answer is longer"),
    ];
    let server = Server::start(binary, &[])?;
    let mut object = Shared {
        connection: Target::new(&server)?.connect().await?,
        managers: 0,
        changes: 0,
    };
    for count in counts {
        while object.managers < *count {
            object.apply(object.managers, 0).await?;
            object.managers += 1;
        }
        for (curve, micros) in curves.iter_mut().zip(object.costs(&server, least).await?) {
            curve.points.push((*count, micros));
        }
    }
    Ok(Chart {
        of: "managers of one object",
        curves: curves.into(),
    })
}

struct Shared {
    connection: Connection,
    managers: u64,
    changes: u64,
}

/// Number of requests between two reads of the clock.
const BATCH: u64 = 20;

impl Shared {
    async fn costs(&mut self, server: &Server, least: Duration) -> Result<[f64; 4]> {
        let last = self.managers - 1;
        let changed = cost_of_each(server, least, BATCH, async || {
            self.changes += 1;
            self.apply(last, self.changes).await
        })
        .await?;
        let unchanged = cost_of_each(server, least, BATCH, async || self.apply(last, self.changes).await).await?;
        let patched = cost_of_each(server, least, BATCH, async || {
            self.changes += 1;
            self.patch().await
        })
        .await?;
        let read = cost_of_each(server, least, BATCH, async || {
            self.connection.send(Method::GET, OBJECT, "", Bytes::new()).await?;
            Ok(())
        })
        .await?;
        Ok([changed, unchanged, patched, read])
    }

    /// Sends the apply of one manager.
    async fn apply(&mut self, manager: u64, value: u64) -> Result<()> {
        let path = format!("{OBJECT}?fieldManager=manager-{manager}");
        let body = json!({
            "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "shared"},
            "data": {format!("field-{manager}"): value.to_string()},
        });
        self.connection
            .send(Method::PATCH, &path, APPLY, Bytes::from(body.to_string()))
            .await?;
        Ok(())
    }

    /// Changes a field that no manager applies.
    async fn patch(&mut self) -> Result<()> {
        let body = json!({"data": {"patched": self.changes.to_string()}});
        let path = format!("{OBJECT}?fieldManager=patcher");
        self.connection
            .send(Method::PATCH, &path, MERGE, Bytes::from(body.to_string()))
            .await?;
        Ok(())
    }
}
