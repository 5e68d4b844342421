//! Clients that write, each with a model of what it wrote.

use std::collections::BTreeMap;
use std::sync::Arc;

use parking_lot::Mutex;
use serde_json::{Value, json};

use super::PAUSE;
use super::history::{CONFIG_MAPS, COUNTER, History, Version, data_fields};
use super::server::{Answer, Call, Server};
use crate::PlantedBug;
use crate::world::{Violation, ensure};

const PATH: &str = "/api/v1/namespaces/default/configmaps";
const NAMESPACES: &str = "/api/v1/namespaces";
/// Name of the object that several managers apply.
const APPLIED: &str = "applied";
/// Name of the object that several clients patch.
const PATCHED: &str = "patched";
const FINALIZER: &str = "example.com/simulation";
/// Maximum number of rounds of one client.
const MAX_ROUNDS: u64 = 6;
/// Maximum number of attempts of one write that conflicts or fails.
const MAX_ATTEMPTS: u64 = 20;

/// State that must hold when the controllers have done their work.
#[derive(Default)]
pub(super) struct Expectations {
    /// Number of acknowledged increments.
    acknowledged: u64,
    /// Number of increments whose answer was lost.
    unknown: u64,
    /// Dependents of deleted owners, with true if they are orphaned.
    dependents: BTreeMap<String, bool>,
    /// Deleted namespaces.
    namespaces: Vec<String>,
}

impl Expectations {
    /// Checks the final state.
    pub(super) fn check(&self, history: &History) -> Result<(), Violation> {
        let counter = history.newest(&format!("{CONFIG_MAPS}default/{COUNTER}"));
        let count = counter.map_or(0, |version| count_of(&version.object()));
        ensure!(
            (self.acknowledged..=self.acknowledged + self.unknown).contains(&count),
            "the counter is at {count} after {} increments and {} whose answer was lost",
            self.acknowledged,
            self.unknown
        );
        for (name, orphaned) in &self.dependents {
            let found = history.newest(&format!("{CONFIG_MAPS}default/{name}"));
            ensure!(
                found.is_some() == *orphaned,
                "the dependent {name} of a deleted owner is orphaned: {orphaned}, exists: {}",
                found.is_some()
            );
            let orphan = found.map(Version::object).unwrap_or_default();
            let owners = orphan.pointer("/metadata/ownerReferences");
            ensure!(owners.is_none(), "the orphan {name} has the owners {owners:?}");
        }
        for namespace in &self.namespaces {
            let part = format!("/{namespace}");
            let left = history
                .keys()
                .find(|key| key.split_once(&part).is_some_and(is_name_end));
            ensure!(left.is_none(), "{left:?} is left of the deleted namespace {namespace}");
        }
        Ok(())
    }
}

fn is_name_end(split: (&str, &str)) -> bool {
    split.1.is_empty() || split.1.starts_with('/')
}

fn count_of(object: &Value) -> u64 {
    let count = object.pointer("/data/count").and_then(Value::as_str);
    count.and_then(|text| text.parse().ok()).unwrap_or_default()
}

/// A client that writes.
pub(super) struct Client {
    pub(super) server: Arc<Server>,
    pub(super) expectations: Arc<Mutex<Expectations>>,
    pub(super) number: u64,
}

impl Client {
    /// Runs some rounds of one kind of work. Stops early if the simulation has found a violation.
    pub(super) async fn run(self) {
        let world = Arc::clone(&self.server.world);
        let work = world.below(6);
        for _ in 0..1 + world.below(MAX_ROUNDS) {
            world.pause(PAUSE).await;
            let done = match work {
                0 => self.increment().await,
                1 => self.patch().await,
                2 => self.apply().await,
                3 => self.delete_in_two_phases().await,
                4 => self.delete_owner().await,
                _ => self.delete_namespace().await,
            };
            if done.is_none() {
                return;
            }
        }
    }

    async fn send(&self, call: &Call, expected: &[u16]) -> Option<Answer> {
        self.server.send(call, expected).await
    }

    fn fail(&self, violation: String) -> Option<()> {
        self.server.world.report(violation);
        None
    }

    /// Returns a name that no other object has.
    fn new_name(&self, kind: &str) -> String {
        format!("{kind}-{}-{:x}", self.number, self.server.world.below(1 << 40))
    }

    /// Creates an object, trying again while the disk fails. Returns the answer to the successful attempt, and true in
    /// it if the object may be that of an earlier one.
    async fn create(&self, path: &str, object: &Value, also: &[u16]) -> Option<Answer> {
        let mut expected = vec![201, 409];
        expected.extend(also);
        for attempt in 0..MAX_ATTEMPTS {
            let answer = self.send(&Call::post(path, object), &expected).await?;
            if answer.code == 409 && attempt == 0 {
                self.fail(format!("a new object exists: {}", answer.body))?;
            }
            if answer.code == 409 {
                let name = object
                    .pointer("/metadata/name")
                    .and_then(Value::as_str)
                    .unwrap_or_default();
                return self.send(&Call::get(format!("{path}/{name}")), &[200, 404]).await;
            }
            if !answer.is_unknown() {
                return Some(answer);
            }
            self.server.world.pause(PAUSE).await;
        }
        Some(Answer {
            code: 500,
            body: Value::Null,
        })
    }

    /// Increments the counter under optimistic concurrency.
    async fn increment(&self) -> Option<()> {
        let path = format!("{PATH}/{COUNTER}");
        let key = format!("{CONFIG_MAPS}default/{COUNTER}");
        for _ in 0..MAX_ATTEMPTS {
            let read = self.send(&Call::get(&path), &[200, 404]).await?;
            if read.is_unknown() {
                continue;
            }
            if read.code == 404 {
                let object = json!({"metadata": {"name": COUNTER}, "data": {"count": "0"}});
                self.send(&Call::post(PATH, &object), &[201, 409]).await?;
                continue;
            }
            let mut object = read.body.clone();
            object["data"]["count"] = (count_of(&object) + 1).to_string().into();
            if self.server.world.has_bug(PlantedBug::WritesWithoutVersion) {
                object["metadata"]["resourceVersion"] = Value::Null;
            }
            self.server.world.pause(PAUSE).await;
            self.expectations.lock().unknown += 1;
            let answer = self.send(&Call::put(&path, &object), &[200, 409]).await?;
            if answer.is_unknown() {
                return Some(());
            }
            let mut expectations = self.expectations.lock();
            expectations.unknown -= 1;
            if answer.code == 200 {
                expectations.acknowledged += 1;
                return Some(());
            }
            drop(expectations);
            let sent = read.text("/metadata/resourceVersion").parse().unwrap_or_default();
            self.server.check(|history| {
                let newer = history.after(sent).iter().any(|version| version.key == key);
                ensure!(newer, "an update of {COUNTER} at {sent}, the newest version, conflicts");
                Ok(())
            })?;
        }
        Some(())
    }

    /// Patches a field of its own without a version, which never conflicts.
    async fn patch(&self) -> Option<()> {
        let path = format!("{PATH}/{PATCHED}");
        let field = format!("client-{}", self.number);
        let value = self.server.world.below(1 << 30).to_string();
        let patch = json!({"data": {&field: value}});
        let answer = self.send(&Call::merge_patch(&path, &patch), &[200, 404]).await?;
        if answer.code == 404 {
            self.send(&Call::post(PATH, &json!({"metadata": {"name": PATCHED}})), &[201, 409])
                .await?;
            return Some(());
        }
        if answer.is_unknown() {
            return Some(());
        }
        self.server.world.pause(PAUSE).await;
        let read = self.send(&Call::get(&path), &[200]).await?;
        let pointer = format!("/data/{field}");
        if read.code == 200 && read.text(&pointer) != value {
            self.fail(format!("{field} is {} after it was set to {value}", read.at(&pointer)))?;
        }
        Some(())
    }

    /// Applies fields of its own, and sometimes one that all managers apply.
    async fn apply(&self) -> Option<()> {
        let world = &self.server.world;
        let manager = format!("manager-{}", self.number);
        let key = format!("{CONFIG_MAPS}default/{APPLIED}");
        let mut data = BTreeMap::new();
        for part in 0..world.below(3) {
            data.insert(format!("{manager}-{part}"), world.below(3).to_string());
        }
        if world.once_in(2) {
            data.insert("shared".to_owned(), world.below(3).to_string());
        }
        let forced = world.once_in(3);
        let object = json!({
            "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": APPLIED}, "data": data,
        });
        let path = format!("{PATH}/{APPLIED}?fieldManager={manager}&force={forced}");
        let began = self.server.check(|history| Ok(history.revision()))?;
        let conflict: &[u16] = if !forced { &[200, 201, 409] } else { &[200, 201] };
        let answer = self.send(&Call::apply(&path, &object), conflict).await?;
        if answer.is_unknown() {
            return Some(());
        }
        if answer.code == 409 {
            let shared = data.get("shared");
            return self.server.check(|history| {
                let owned = history.versions_since(&key, began).any(|version| {
                    let object = version.object();
                    let value = object.pointer("/data/shared").and_then(Value::as_str);
                    let differs = shared.is_some_and(|shared| value != Some(shared.as_str()));
                    let is_other = |owner: &&str| *owner != manager;
                    // The owner of an empty map conflicts with every apply of that map, as in the reference.
                    differs && managers_of(&object, "shared").iter().any(is_other)
                        || managers_of_empty_data(&object).iter().any(is_other)
                });
                ensure!(
                    owned,
                    "an apply of {manager} conflicts with no manager: {}",
                    answer.body
                );
                Ok(())
            });
        }
        for (field, value) in &data {
            if answer.text(&format!("/data/{field}")) != value {
                self.fail(format!("{manager} applied {field}={value}: {}", answer.body))?;
            }
        }
        let entries = answer.at("/metadata/managedFields").as_array();
        let is_own = |entry: &&Value| entry["manager"] == manager.as_str() && entry["operation"] == "Apply";
        let own = entries.into_iter().flatten().find(is_own);
        let fields = own.map(data_fields).unwrap_or_default();
        if !data.keys().eq(fields.iter()) {
            self.fail(format!("{manager} applied {data:?} and owns {fields:?}"))?;
        }
        Some(())
    }

    /// Deletes an object with a finalizer, and then removes the finalizer.
    async fn delete_in_two_phases(&self) -> Option<()> {
        let name = self.new_name("final");
        let path = format!("{PATH}/{name}");
        let object = json!({"metadata": {"name": name, "finalizers": [FINALIZER]}});
        if self.create(PATH, &object, &[]).await?.is_unknown() {
            return Some(());
        }
        self.server.world.pause(PAUSE).await;
        let deleted = self.send(&Call::delete(&path, &json!({})), &[200]).await?;
        if deleted.is_unknown() {
            return Some(());
        }
        let read = self.send(&Call::get(&path), &[200]).await?;
        if read.code == 200 && read.at("/metadata/deletionTimestamp").is_null() {
            self.fail(format!("{name} is not being deleted: {}", read.body))?;
        }
        self.server.world.pause(PAUSE).await;
        let patch = json!({"metadata": {"finalizers": null}});
        let finished = self.send(&Call::merge_patch(&path, &patch), &[200]).await?;
        if !finished.is_unknown() {
            self.send(&Call::get(&path), &[404]).await?;
        }
        Some(())
    }

    /// Deletes an owner with one of the ways to treat its dependents.
    async fn delete_owner(&self) -> Option<()> {
        let world = &self.server.world;
        let owner = self.new_name("owner");
        let created = self.create(PATH, &json!({"metadata": {"name": owner}}), &[]).await?;
        if created.is_unknown() {
            return Some(());
        }
        let reference = json!({
            "apiVersion": "v1", "kind": "ConfigMap", "name": owner, "uid": created.at("/metadata/uid"),
            "blockOwnerDeletion": true,
        });
        let mut dependents = Vec::new();
        for _ in 0..world.below(3) {
            let name = self.new_name("dependent");
            let object = json!({"metadata": {"name": name, "ownerReferences": [reference]}});
            if !self.create(PATH, &object, &[]).await?.is_unknown() {
                dependents.push(name);
            }
        }
        world.pause(PAUSE).await;
        let policy = world.pick(&["Background", "Foreground", "Orphan"], "Background");
        let options = json!({"propagationPolicy": policy});
        let deleted = self
            .send(&Call::delete(format!("{PATH}/{owner}"), &options), &[200])
            .await?;
        if !deleted.is_unknown() {
            let mut expectations = self.expectations.lock();
            let orphaned = policy == "Orphan";
            expectations
                .dependents
                .extend(dependents.into_iter().map(|name| (name, orphaned)));
        }
        Some(())
    }

    /// Creates a namespace with objects, and deletes it while another object is created in it.
    async fn delete_namespace(&self) -> Option<()> {
        let world = &self.server.world;
        let name = self.new_name("space");
        let created = self
            .create(NAMESPACES, &json!({"metadata": {"name": name}}), &[])
            .await?;
        if created.is_unknown() {
            return Some(());
        }
        let path = format!("{NAMESPACES}/{name}/configmaps");
        for _ in 0..world.below(3) {
            let object = json!({"metadata": {"name": self.new_name("content")}});
            self.create(&path, &object, &[]).await?;
        }
        let deleted = self
            .send(&Call::delete(format!("{NAMESPACES}/{name}"), &json!({})), &[200])
            .await?;
        if !deleted.is_unknown() {
            self.expectations.lock().namespaces.push(name);
        }
        for _ in 0..world.below(3) {
            world.pause(PAUSE).await;
            let object = json!({"metadata": {"name": self.new_name("late")}});
            let expected: &[u16] = if deleted.is_unknown() {
                &[201, 403, 404]
            } else {
                &[403, 404]
            };
            self.send(&Call::post(&path, &object), expected).await?;
        }
        Some(())
    }
}

/// Returns the managers that own `data` as an empty map.
fn managers_of_empty_data(object: &Value) -> Vec<&str> {
    let entries = object.pointer("/metadata/managedFields").and_then(Value::as_array);
    let owning = entries
        .into_iter()
        .flatten()
        .filter(|entry| entry.pointer("/fieldsV1/f:data") == Some(&json!({})));
    owning.filter_map(|entry| entry["manager"].as_str()).collect()
}

/// Returns the managers that own a field of `data`.
fn managers_of<'a>(object: &'a Value, field: &str) -> Vec<&'a str> {
    let entries = object.pointer("/metadata/managedFields").and_then(Value::as_array);
    let owning = entries
        .into_iter()
        .flatten()
        .filter(|entry| data_fields(entry).contains(&field));
    owning.filter_map(|entry| entry["manager"].as_str()).collect()
}
