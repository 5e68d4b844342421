//! Races through the servers for prizes that exist once: a name, an address, a port, the rest of a quota.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use anyhow::{Context as _, Result, ensure};
use bytes::Bytes;
use conformance::{Connection, Target};
use http::{Method, StatusCode};
use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::sync::watch;

use super::objects::{name, text};
use super::random::Random;

const JSON: &str = "application/json";
const SERVICES: &str = "/api/v1/namespaces/soak/services";
const SECRETS: &str = "/api/v1/namespaces/soak/secrets";
const QUOTAS: &str = "/api/v1/namespaces/soak/resourcequotas";
const ADDRESSES: &str = "/apis/networking.k8s.io/v1/ipaddresses";

/// Number of Secrets that the quota admits, and number of names that are tried.
const HARD: u64 = 6;
const NAMES: u64 = 10;

/// Returns the quota of the namespace.
pub(super) fn quota() -> (&'static str, Value) {
    let quota = json!({"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "soak"},
        "spec": {"hard": {"count/secrets": HARD.to_string()}}});
    (QUOTAS, quota)
}

/// Responses to the racers.
#[derive(Debug, Default)]
pub(super) struct Races {
    /// Uids that acknowledged creations returned, by path.
    made: BTreeMap<String, BTreeSet<String>>,
    /// Uids of objects with an acknowledged or attempted deletion. An attempt without a result may succeed later.
    deleted: BTreeSet<String>,
    /// Number of prizes won, and number of attempts that found one owned by another racer.
    pub(super) won: u64,
    pub(super) lost: u64,
}

impl Races {
    fn won(&mut self, path: &str, object: &Value) {
        self.won += 1;
        let uid = uid(object).to_owned();
        self.made.entry(path.to_owned()).or_default().insert(uid);
    }

    /// Checks that each prize that was won and not given back exists, with its own uid.
    fn audit(&mut self, there: &BTreeMap<String, String>) -> Result<()> {
        for (path, uids) in std::mem::take(&mut self.made) {
            let kept: Vec<&String> = uids.difference(&self.deleted).collect();
            ensure!(kept.len() <= 1, "{path} was won by {kept:?}");
            for uid in kept {
                let found = there.get(&path);
                ensure!(
                    found == Some(uid),
                    "{path} of {uid} was acknowledged; there is {found:?}"
                );
                // It is won until a client deletes it.
                self.made.entry(path.clone()).or_default().insert(uid.clone());
            }
        }
        Ok(())
    }
}

pub(super) struct Racer {
    pub(super) target: Target,
    pub(super) races: Arc<Mutex<Races>>,
    pub(super) random: Random,
    /// True if the server is stopped at the end of the round: the racer does not wait for its last response.
    pub(super) server_ends: bool,
    pub(super) stop: watch::Receiver<bool>,
}

impl Racer {
    /// Acquires and gives back prizes until it should stop or the connection breaks.
    pub(super) async fn run(mut self) -> Result<()> {
        let Ok(mut connection) = self.target.connect().await else {
            return Ok(());
        };
        let mut stop = self.stop.clone();
        while !*self.stop.borrow() {
            let number = self.random.below(NAMES);
            let (collection, object) = match self.random.below(2) {
                0 => (SECRETS, secret(number)),
                _ => (SERVICES, service(number)),
            };
            let path = format!("{collection}/{}", name(&object));
            let attempt = async {
                match self.random.below(3) {
                    0 => give_back(&mut connection, &path, &self.races).await,
                    _ => take(&mut connection, collection, &path, &object, &self.races).await,
                }
            };
            let goes_on = tokio::select! {
                goes_on = attempt => goes_on?,
                _ = stop.wait_for(|stop| *stop), if self.server_ends => return Ok(()),
            };
            if !goes_on {
                return Ok(());
            }
        }
        Ok(())
    }
}

fn secret(number: u64) -> Value {
    json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": format!("race-{number}")}})
}

/// Returns a Service that asks for an address by name, so that two of them race for it, and for any port.
fn service(number: u64) -> Value {
    let spec =
        json!({"type": "NodePort", "ports": [{"port": 80}], "clusterIP": format!("10.0.0.{}", 100 + number / 2)});
    json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": format!("race-{number}")}, "spec": spec})
}

/// Tries to acquire a prize. Returns true if the connection is still open.
async fn take(
    connection: &mut Connection,
    collection: &str,
    path: &str,
    object: &Value,
    races: &Mutex<Races>,
) -> Result<bool> {
    let Ok((status, answer)) = connection.ask(Method::POST, collection, JSON, text(object)).await else {
        return Ok(false);
    };
    match status {
        StatusCode::CREATED => races.lock().won(path, &serde_json::from_slice(&answer)?),
        // The object exists, the quota is used up, the address is allocated, or the server has no space.
        StatusCode::CONFLICT | StatusCode::FORBIDDEN | StatusCode::UNPROCESSABLE_ENTITY => races.lock().lost += 1,
        StatusCode::TOO_MANY_REQUESTS => {}
        // The result of the request is unknown.
        other => ensure!(
            other.is_server_error(),
            "POST {path}: {other}: {}",
            String::from_utf8_lossy(&answer)
        ),
    }
    Ok(true)
}

/// Gives back a prize. Returns true if the connection is still open.
async fn give_back(connection: &mut Connection, path: &str, races: &Mutex<Races>) -> Result<bool> {
    let Ok((status, found)) = connection.ask(Method::GET, path, "", Bytes::new()).await else {
        return Ok(false);
    };
    if status != StatusCode::OK {
        return Ok(true);
    }
    let found: Value = serde_json::from_slice(&found)?;
    // With any response, it may be deleted from here on.
    races.lock().deleted.insert(uid(&found).to_owned());
    let options = json!({"apiVersion": "v1", "kind": "DeleteOptions", "preconditions": {"uid": uid(&found)}});
    Ok(connection.ask(Method::DELETE, path, JSON, text(&options)).await.is_ok())
}

fn uid(object: &Value) -> &str {
    let uid = object.pointer("/metadata/uid").and_then(Value::as_str);
    uid.unwrap_or_default()
}

/// Compares the objects after a round with the prizes that were won.
pub(super) async fn audit(target: &Target, races: &Mutex<Races>) -> Result<()> {
    let mut connection = target.connect().await?;
    let secrets = items(&mut connection, SECRETS).await?;
    ensure!(
        secrets.len() as u64 <= HARD,
        "{} Secrets are there of {HARD}",
        secrets.len()
    );
    let services = items(&mut connection, SERVICES).await?;
    once(&services, "/spec/clusterIP")?;
    once(&services, "/spec/ports/0/nodePort")?;
    let mut there = BTreeMap::new();
    for (collection, objects) in [(SECRETS, &secrets), (SERVICES, &services)] {
        let places = objects
            .iter()
            .map(|object| (format!("{collection}/{}", name(object)), uid(object).to_owned()));
        there.extend(places);
    }
    // Each address has its object, which names its owner.
    for service in &services {
        let ip = service
            .pointer("/spec/clusterIP")
            .and_then(Value::as_str)
            .unwrap_or_default();
        let path = format!("{ADDRESSES}/{ip}");
        let body = connection
            .send(Method::GET, &path, "", Bytes::new())
            .await
            .with_context(|| format!("the address of {}", name(service)))?;
        let address: Value = serde_json::from_slice(&body)?;
        let owner = address.pointer("/spec/parentRef/name").and_then(Value::as_str);
        ensure!(
            owner == Some(name(service)),
            "{ip} of {} belongs to {owner:?}",
            name(service)
        );
    }
    races.lock().audit(&there)
}

async fn items(connection: &mut Connection, collection: &str) -> Result<Vec<Value>> {
    let body = connection.send(Method::GET, collection, "", Bytes::new()).await?;
    let mut list: Value = serde_json::from_slice(&body)?;
    match list.get_mut("items").map(Value::take) {
        Some(Value::Array(items)) => Ok(items),
        _ => Ok(Vec::new()),
    }
}

/// Checks that no two objects have the same value in the field.
fn once(objects: &[Value], field: &str) -> Result<()> {
    let mut seen = BTreeMap::new();
    for object in objects {
        let value = object.pointer(field).map(Value::to_string);
        let other = seen.insert(value.clone(), name(object));
        ensure!(
            other.is_none(),
            "{field} {value:?} is that of {other:?} and of {}",
            name(object)
        );
    }
    Ok(())
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "what fails here is the test")]
mod tests {
    use super::*;

    fn object(uid: &str) -> Value {
        json!({"metadata": {"uid": uid, "name": uid}})
    }

    #[test]
    fn double_wins_and_lost_prizes_are_detected() {
        let there = |uid: &str| BTreeMap::from([("p".to_owned(), uid.to_owned())]);
        let mut races = Races::default();
        races.won("p", &object("1"));
        assert!(Races::audit(&mut races, &BTreeMap::new()).is_err(), "gone");
        races.won("p", &object("1"));
        assert!(races.audit(&there("2")).is_err(), "another");
        races.won("p", &object("1"));
        races.won("p", &object("2"));
        assert!(races.audit(&there("2")).is_err(), "two");
        races.won("p", &object("1"));
        races.won("p", &object("2"));
        races.deleted.insert("1".to_owned());
        races.audit(&there("2")).unwrap();
        assert!(races.audit(&BTreeMap::new()).is_err(), "gone in the next round");
    }

    #[test]
    fn a_value_that_two_objects_have_is_found() {
        let objects = [object("1"), object("2")];
        once(&objects, "/metadata/uid").unwrap();
        assert!(once(&[object("1"), object("1")], "/metadata/uid").is_err());
    }
}
