//! ResourcePoolStatusRequests: queries for the devices in the pools of a driver, each answered once from ResourceSlices
//! and ResourceClaims (KEP-5677).
//!
//! A request waits while one of its pools lacks slices that the driver has yet to publish; the reference tries six
//! times and then ignores it. A request is deleted an hour after it was answered, or a day after its creation if it was
//! not answered.

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use holdfast_gotext::time::{Precision, Timestamp};
use holdfast_resource::Resource;
use holdfast_server::operations::loopback::{Change, Changes, Client, Lost, Object, Objects, RequestError, path_of};
use holdfast_value::{SmolStr, Value};
use tokio::time::Instant;

use crate::conditions::{self, Condition};
use crate::queue::Queue;
use crate::reconcile::{self, Reconcile, Work};
use crate::rejection::{unless_gone, unless_overtaken};

/// The name of this controller.
pub(crate) const NAME: &str = "resourcepoolstatusrequest-controller";

/// Time for which an answered request is kept.
const ANSWERED_LIFE: Duration = Duration::from_secs(3600);
/// Time for which an unanswered request is kept.
const PENDING_LIFE: Duration = Duration::from_secs(24 * 3600);

/// Number of pools in an answer if the request does not limit it.
const DEFAULT_LIMIT: usize = 100;

/// Number of objects after which the task yields to others.
const RUN: usize = 128;

/// Runs the controller until the server ends.
pub(crate) async fn run(client: Client) {
    let resource = |plural| client.resource("resource.k8s.io", plural);
    let resources = (
        resource("resourcepoolstatusrequests"),
        resource("resourceslices"),
        resource("resourceclaims"),
    );
    // Their version is disabled by default.
    let (Some(requests), Some(slices), Some(claims)) = resources else {
        return client.shutdown().closing().await;
    };
    let controller = PoolStatus {
        client: client.clone(),
        requests,
        slices,
        claims,
        waiting: HashSet::new(),
    };
    reconcile::run(client, controller).await;
}

struct PoolStatus {
    client: Client,
    requests: Arc<Resource>,
    slices: Arc<Resource>,
    claims: Arc<Resource>,
    /// Requests that wait for slices.
    waiting: HashSet<SmolStr>,
}

impl Reconcile for PoolStatus {
    type Item = SmolStr;
    /// True if the request is answered.
    type Outcome = bool;

    const NAME: &'static str = NAME;
    const PARALLEL: usize = 1;

    fn watch(&mut self, client: &Client) -> Result<(Objects, Changes), Lost> {
        let changes = client.watch_both(&self.requests, &self.slices)?;
        // They are read after the watch began, so that no change is missed.
        Ok((client.list(&self.requests, ""), changes))
    }

    fn seen(&mut self, request: &Object, queue: &mut Queue<SmolStr>) {
        queue.push(request.name().into());
    }

    fn changed(&mut self, change: &Change, queue: &mut Queue<SmolStr>) {
        let object = change.current();
        if object.is_of(&self.requests) {
            if change.is_removal() {
                self.waiting.remove(object.name());
            } else {
                queue.push(object.name().into());
            }
        } else if object.is_of(&self.slices) {
            self.waiting.iter().cloned().for_each(|request| queue.push(request));
        }
    }

    fn work(&mut self, name: &SmolStr, queue: &mut Queue<SmolStr>) -> Option<Work<bool>> {
        let request = self.client.get(&self.requests, "", name)?.tree();
        let path = path_of(&self.requests, "", name)?;
        let client = self.client.clone();
        let left = life(&request, client.time());
        if left.is_zero() {
            return Some(Box::pin(async move { delete(&client, &path, &request).await }));
        }
        queue.push_at(name.clone(), Instant::now() + left);
        if request.get("status").is_some() {
            self.waiting.remove(name);
            return None;
        }
        let (slices, claims) = (Arc::clone(&self.slices), Arc::clone(&self.claims));
        Some(Box::pin(async move {
            answer(&client, &slices, &claims, &path, request).await
        }))
    }

    fn finished(&mut self, name: &SmolStr, is_answered: bool, queue: &mut Queue<SmolStr>) {
        if is_answered {
            self.waiting.remove(name);
        } else if self.waiting.insert(name.clone()) {
            // A slice may have arrived before the wait began.
            queue.push(name.clone());
        }
    }
}

/// Returns the remaining time for which a request is kept.
fn life(request: &Value, now: SystemTime) -> Duration {
    let condition = ["Complete", "Failed"]
        .into_iter()
        .find_map(|of| conditions::find(request, of));
    let ended = condition.and_then(|condition| condition.str_at(&["lastTransitionTime"]));
    let made = request.str_at(&["metadata", "creationTimestamp"]);
    let (since, whole) = match request.get("status") {
        Some(_) => (ended.or(made), ANSWERED_LIFE),
        None => (made, PENDING_LIFE),
    };
    let since = since.and_then(|time| Timestamp::parse(time, Precision::Seconds).ok());
    let passed = since.and_then(|since| now.duration_since(SystemTime::from(since)).ok());
    whole.saturating_sub(passed.unwrap_or_default())
}

async fn delete(client: &Client, path: &str, request: &Value) -> Result<bool, RequestError> {
    let mut options = Value::empty_map();
    let uid = request.str_at(&["metadata", "uid"]).unwrap_or_default();
    options.set_at(&["preconditions", "uid"], uid.into());
    // It may have been deleted or replaced by another one.
    unless_overtaken(client.delete(path, &options).await).map(|()| true)
}

/// Writes the answer, unless slices are missing.
async fn answer(
    client: &Client,
    slices: &Resource,
    claims: &Resource,
    path: &str,
    mut request: Value,
) -> Result<bool, RequestError> {
    let text = |field| SmolStr::new(request.str_at(&["spec", field]).unwrap_or_default());
    let mut pools = Pools::new(text("driver"), text("poolName"));
    look_at_all(client, slices, |slice| pools.add_slice(slice)).await;
    let stated = request.at(&["spec", "limit"]).and_then(Value::as_i64);
    let limit = stated.map_or(DEFAULT_LIMIT, |stated| usize::try_from(stated).unwrap_or_default());
    if pools.lack_slices(limit) {
        return Ok(false);
    }
    look_at_all(client, claims, |claim| pools.add_claim(claim)).await;
    request.set_at(&["status"], pools.status(limit));
    let message = format!("Calculated status for {} pools", pools.found.len().min(limit));
    let condition = Condition {
        of: "Complete",
        holds: true,
        reason: "CalculationComplete",
        message: &message,
    };
    conditions::set(&mut request, condition, &client.now());
    unless_gone(client.update(&format!("{path}/status"), &request).await).map(|()| true)
}

async fn look_at_all(client: &Client, resource: &Resource, mut look: impl FnMut(&Value)) {
    for (number, object) in client.list(resource, "").iter().enumerate() {
        look(&object.tree());
        if number % RUN == RUN - 1 {
            tokio::task::yield_now().await;
        }
    }
}

/// Pools that a request selects.
struct Pools {
    driver: SmolStr,
    /// Only requested pool; empty for all.
    pool: SmolStr,
    found: BTreeMap<SmolStr, Pool>,
}

/// A pool, described by the slices of its latest generation.
#[derive(Debug, Default)]
struct Pool {
    generation: i64,
    /// Node that all slices name; `None` if they name none or several.
    node: Option<SmolStr>,
    slices: i64,
    expected: i64,
    devices: i64,
    allocated: i64,
}

impl Pools {
    fn new(driver: SmolStr, pool: SmolStr) -> Self {
        Self {
            driver,
            pool,
            found: BTreeMap::new(),
        }
    }

    fn add_slice(&mut self, slice: &Value) {
        let text = |path: &[&str]| slice.str_at(path).unwrap_or_default();
        let number = |path: &[&str]| slice.at(path).and_then(Value::as_i64).unwrap_or_default();
        let name = text(&["spec", "pool", "name"]);
        if text(&["spec", "driver"]) != self.driver || !self.pool.is_empty() && name != self.pool {
            return;
        }
        let generation = number(&["spec", "pool", "generation"]);
        let node = slice.str_at(&["spec", "nodeName"]).map(SmolStr::new);
        let list = slice.at(&["spec", "devices"]).and_then(Value::as_list);
        let devices = list.map_or(0, |list| list.len() as i64);
        let pool = self.found.entry(name.into()).or_default();
        if pool.slices > 0 && generation < pool.generation {
            return;
        }
        if pool.slices == 0 || generation > pool.generation {
            *pool = Pool {
                generation,
                node: node.clone(),
                expected: number(&["spec", "pool", "resourceSliceCount"]),
                ..Pool::default()
            };
        }
        if pool.node != node {
            pool.node = None;
        }
        pool.slices += 1;
        pool.devices += devices;
    }

    fn add_claim(&mut self, claim: &Value) {
        let results = claim
            .at(&["status", "allocation", "devices", "results"])
            .and_then(Value::as_list);
        for result in results.into_iter().flat_map(|list| list.iter()) {
            let pool = result.str_at(&["pool"]).unwrap_or_default();
            if result.str_at(&["driver"]) == Some(&self.driver)
                && let Some(pool) = self.found.get_mut(pool)
            {
                pool.allocated += 1;
            }
        }
    }

    /// Returns true if one of the first `limit` pools has fewer slices than its driver declares.
    fn lack_slices(&self, limit: usize) -> bool {
        self.found.values().take(limit).any(|pool| pool.slices < pool.expected)
    }

    /// Returns the answer without its condition.
    fn status(&self, limit: usize) -> Value {
        let pools: Vec<Value> = self
            .found
            .iter()
            .take(limit)
            .map(|(name, pool)| pool.status(&self.driver, name))
            .collect();
        let mut status = Value::empty_map();
        status.set_at(&["poolCount"], Value::Int(self.found.len() as i64));
        if !pools.is_empty() {
            status.set_at(&["pools"], pools.into());
        }
        status
    }
}

impl Pool {
    fn status(&self, driver: &str, name: &str) -> Value {
        let mut status = Value::empty_map();
        status.set_at(&["driver"], driver.into());
        status.set_at(&["poolName"], name.into());
        if let Some(node) = self.node.as_deref().filter(|node| !node.is_empty()) {
            status.set_at(&["nodeName"], node.into());
        }
        // As in the reference, no device is reported as unavailable yet.
        for (field, number) in [
            ("generation", self.generation),
            ("resourceSliceCount", self.slices),
            ("totalDevices", self.devices),
            ("allocatedDevices", self.allocated),
            ("availableDevices", (self.devices - self.allocated).max(0)),
            ("unavailableDevices", 0),
        ] {
            status.set_at(&[field], Value::Int(number));
        }
        status
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "what fails here is the test")]
mod tests {
    use holdfast_value::{Limits, json};

    use super::*;

    fn read(text: &str) -> Value {
        json::parse(text.as_bytes(), &Limits::REQUEST).unwrap()
    }

    fn slice(pool: &str, generation: i64, expected: i64, node: &str, devices: usize) -> Value {
        let devices = vec![r#"{"name":"d"}"#; devices].join(",");
        read(&format!(
            r#"{{"spec":{{"driver":"d.io","nodeName":"{node}","devices":[{devices}],
                "pool":{{"name":"{pool}","generation":{generation},"resourceSliceCount":{expected}}}}}}}"#
        ))
    }

    fn pools(only: &str, slices: &[Value]) -> Pools {
        let mut pools = Pools::new("d.io".into(), only.into());
        slices.iter().for_each(|slice| pools.add_slice(slice));
        pools
    }

    #[test]
    fn devices_of_the_latest_generation_are_counted() {
        let slices = [
            slice("b", 2, 2, "n", 3),
            slice("b", 1, 1, "old", 9),
            slice("b", 2, 2, "n", 1),
            slice("a", 1, 2, "n", 2),
            slice("a", 1, 2, "m", 2),
        ];
        let mut pools = pools("", &slices);
        let claim = r#"{"status":{"allocation":{"devices":{"results":[{"driver":"d.io","pool":"b"},{"driver":"e.io","pool":"b"},
            {"driver":"d.io","pool":"c"}]}}}}"#;
        pools.add_claim(&read(claim));
        assert!(!pools.lack_slices(2));
        let expected = r#"{"poolCount":2,"pools":[
            {"driver":"d.io","poolName":"a","generation":1,"resourceSliceCount":2,"totalDevices":4,"allocatedDevices":0,
             "availableDevices":4,"unavailableDevices":0},
            {"driver":"d.io","poolName":"b","nodeName":"n","generation":2,"resourceSliceCount":2,"totalDevices":4,
             "allocatedDevices":1,"availableDevices":3,"unavailableDevices":0}]}"#;
        assert_eq!(pools.status(2), read(expected));
        let first = pools.status(1);
        assert_eq!(first.at(&["pools"]).unwrap().as_list().unwrap().len(), 1);
        assert_eq!(first.get("poolCount"), Some(&Value::Int(2)));
    }

    #[test]
    fn a_request_for_one_pool_waits_for_its_slices_alone() {
        let slices = [slice("a", 1, 2, "n", 1), slice("b", 1, 1, "n", 1)];
        assert!(pools("", &slices).lack_slices(2));
        assert!(pools("a", &slices).lack_slices(2));
        assert!(!pools("b", &slices).lack_slices(2));
        assert_eq!(pools("none", &slices).status(9), read(r#"{"poolCount":0}"#));
    }

    #[test]
    fn requests_live_an_hour_with_an_answer_and_a_day_without() {
        let at = |text| SystemTime::from(Timestamp::parse(text, Precision::Seconds).unwrap());
        let mut request = read(r#"{"metadata":{"creationTimestamp":"2026-01-01T00:00:00Z"}}"#);
        assert_eq!(life(&request, at("2026-01-01T01:00:00Z")), 23 * ANSWERED_LIFE);
        assert_eq!(life(&request, at("2026-01-02T00:00:00Z")), Duration::ZERO);
        request.set_at(
            &["status"],
            read(r#"{"conditions":[{"type":"Complete","lastTransitionTime":"2026-01-01T02:00:00Z"}]}"#),
        );
        assert_eq!(life(&request, at("2026-01-01T02:30:00Z")), ANSWERED_LIFE / 2);
        assert_eq!(life(&request, at("2026-01-01T03:00:00Z")), Duration::ZERO);
    }
}
