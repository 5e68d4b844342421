//! StorageVersions: each server tells in which version it keeps the objects of each resource, so that a migration knows when all
//! servers agree (`StorageVersionAPI`, KEP-2339). What a server told goes with its lease.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use holdfast_resource::Resource;
use holdfast_resource::metadata::new_object;
use holdfast_resource::table::items;
use holdfast_server::operations::loopback::{Change, Changes, Client, Lost, Object, Objects, RequestError, path_of};
use holdfast_value::{SmolStr, Value};

use crate::apiserver::Turns;
use crate::conditions::{self, Condition};
use crate::identity;
use crate::queue::Queue;
use crate::reconcile::{self, Reconcile, Work};
use crate::refusal::{unless_gone, unless_overtaken};

/// The name of the controller that takes away what servers told that are gone.
pub(crate) const COLLECTOR: &str = "storageversion-garbage-collector-controller";
/// The health check of the task that tells, as kube-apiserver has it.
pub(crate) const CHECK: &str = "poststarthook/built-in-resources-storage-version-updater";

/// How often it is looked whether all still stands as it was told.
const PERIOD: Duration = Duration::from_secs(600);
const EQUAL: &str = "AllEncodingVersionsEqual";

/// What a server tells with.
#[derive(Clone, Debug)]
pub struct StorageVersions {
    /// The name of its lease.
    pub server: String,
    /// The versions in which it can read the objects of a kind, the best first: of a group, a kind, and the versions that are
    /// served.
    pub decodable: fn(&str, &str, &[&str]) -> Vec<SmolStr>,
}

/// The resources that the controllers work with; `None` where the version of StorageVersions is off.
fn resources(client: &Client) -> Option<(Arc<Resource>, Arc<Resource>)> {
    let versions = client.resource("internal.apiserver.k8s.io", "storageversions")?;
    Some((versions, client.resource("coordination.k8s.io", "leases")?))
}

/// Tells of this server until it ends.
pub(crate) async fn tell(client: Client, told: StorageVersions) {
    let Some((versions, leases)) = resources(&client) else {
        tracing::warn!("StorageVersions are not served, so that nothing can be told in them; use --runtime-config");
        return client.shutdown().closing().await;
    };
    let shutdown = client.shutdown();
    // What is told before the lease is there would be taken for that of a server that is gone.
    tokio::select! {
        () = wait_for_lease(&client, &leases, &told.server) => {}
        () = shutdown.closing() => return,
    }
    let mut turns = Turns::new(&client, PERIOD);
    while turns.next().await {
        for state in states(&client, &told) {
            // Another server may be faster.
            let mut outcome = tell_one(&client, &versions, &told.server, &state).await;
            if outcome.as_ref().is_err_and(RequestError::is_conflict) {
                outcome = tell_one(&client, &versions, &told.server, &state).await;
            }
            if let Err(error) = outcome {
                tracing::warn!(of = state.name, %error, "a StorageVersion cannot be written; tried again later");
            }
        }
    }
}

async fn wait_for_lease(client: &Client, leases: &Resource, name: &str) {
    while let Ok((_, mut changes)) = client.watch(leases) {
        while client.get(leases, identity::NAMESPACE, name).is_none() {
            if changes.next().await.is_err() {
                break;
            }
        }
        if client.get(leases, identity::NAMESPACE, name).is_some() {
            return;
        }
    }
}

/// What a server tells of a resource.
#[derive(Debug, PartialEq, Eq)]
struct State {
    /// The name of the object.
    name: String,
    encodes: SmolStr,
    decodes: Vec<SmolStr>,
    serves: Vec<SmolStr>,
}

/// What this server tells of all built-in resources that are stored. Those that share their objects are told of once.
fn states(client: &Client, told: &StorageVersions) -> Vec<State> {
    let registry = client.registry();
    let built_in = registry.resources().filter(|resource| resource.definition.is_none());
    let mut resources: Vec<&Arc<Resource>> = built_in.collect();
    resources.sort_by_key(|resource| (resource.group.clone(), resource.plural.clone()));
    let mut seen = BTreeSet::new();
    let states = resources.iter().filter_map(|resource| {
        let storage = resource.storage.as_ref()?;
        if !seen.insert(storage.prefix.clone()) {
            return None;
        }
        let serves: Vec<SmolStr> = resource
            .versions
            .iter()
            .map(|version| version.api_version.clone())
            .collect();
        let served: Vec<&str> = serves.iter().map(SmolStr::as_str).collect();
        let mut decodes = (told.decodable)(&resource.group, &resource.kind, &served);
        for other in registry.stored_at(&storage.prefix) {
            let others = other.versions.iter().map(|version| version.api_version.clone());
            for version in others {
                if !decodes.contains(&version) {
                    decodes.push(version);
                }
            }
        }
        let group = match resource.group.as_str() {
            "" => "core",
            group => group,
        };
        Some(State {
            name: format!("{group}.{}", resource.plural),
            encodes: storage.at_rest.api_version.clone(),
            decodes,
            serves,
        })
    });
    states.collect()
}

async fn tell_one(client: &Client, versions: &Resource, server: &str, state: &State) -> Result<(), RequestError> {
    let path = |name: &str| path_of(versions, "", name).unwrap_or_default();
    let there = client.get(versions, "", &state.name).map(|object| object.tree());
    let mut object = match &there {
        Some(there) => there.clone(),
        None => {
            let mut made = new_object("internal.apiserver.k8s.io/v1alpha1", "StorageVersion", "", &state.name);
            made.set_at(&["spec"], Value::empty_map());
            client.create(&path(""), &made).await?
        }
    };
    state.put_into(&mut object, server);
    settle(&mut object, &client.now());
    if there.as_ref() == Some(&object) {
        return Ok(());
    }
    let path = format!("{}/status", path(&state.name));
    client.update(&path, &object).await.map(drop)
}

impl State {
    /// Puts it into the object, in place of what the server told before.
    fn put_into(&self, object: &mut Value, server: &str) {
        let list =
            |versions: &[SmolStr]| Value::from(versions.iter().map(|one| one.as_str().into()).collect::<Vec<Value>>());
        let mut told = Value::empty_map();
        told.set_at(&["apiServerID"], server.into());
        told.set_at(&["encodingVersion"], self.encodes.as_str().into());
        told.set_at(&["decodableVersions"], list(&self.decodes));
        told.set_at(&["servedVersions"], list(&self.serves));
        let mut all = items(object, TOLD).to_vec();
        match all.iter_mut().find(|one| one.str_at(&["apiServerID"]) == Some(server)) {
            Some(before) => *before = told,
            None => all.push(told),
        }
        object.set_at(TOLD, all.into());
    }
}

const TOLD: &[&str] = &["status", "storageVersions"];

/// `SetCommonEncodingVersion`: says which version all servers write, if they agree.
fn settle(object: &mut Value, now: &str) {
    const COMMON: [&str; 2] = ["status", "commonEncodingVersion"];
    let mut written = items(object, TOLD).iter().map(|one| one.str_at(&["encodingVersion"]));
    let first = written.next().flatten().map(SmolStr::new);
    let common = first.filter(|first| written.all(|other| other == Some(first)));
    let before = object.str_at(&COMMON).map(SmolStr::new);
    match &common {
        Some(common) => object.set_at(&COMMON, common.as_str().into()),
        None => drop(object.remove_at(&COMMON)),
    }
    let (holds, reason, message) = match common {
        Some(_) => (true, "CommonEncodingVersionSet", "Common encoding version set"),
        None => (false, "CommonEncodingVersionUnset", "Common encoding version unset"),
    };
    if before.is_some() && common.is_some() && before != common {
        // That is a transition too.
        let others = items(object, &["status", "conditions"]).iter();
        let others: Vec<Value> = others
            .filter(|one| one.str_at(&["type"]) != Some(EQUAL))
            .cloned()
            .collect();
        object.set_at(&["status", "conditions"], others.into());
    }
    let of = EQUAL;
    conditions::set(
        object,
        Condition {
            of,
            holds,
            reason,
            message,
        },
        now,
    );
}

/// Takes away what servers told that are gone, until this one ends.
pub(crate) async fn collect(client: Client) {
    let Some((versions, leases)) = resources(&client) else {
        return client.shutdown().closing().await;
    };
    let collector = Collector {
        client: client.clone(),
        versions,
        leases,
    };
    reconcile::run(client, collector).await;
}

struct Collector {
    client: Client,
    versions: Arc<Resource>,
    leases: Arc<Resource>,
}

impl Collector {
    /// Whether a server told something that has no lease.
    fn is_stale(&self, told: &Value) -> bool {
        let server = told.str_at(&["apiServerID"]).unwrap_or_default();
        let lease = self.client.get(&self.leases, identity::NAMESPACE, server);
        !lease.is_some_and(|lease| identity::is_of_server(&lease.tree()))
    }
}

impl Reconcile for Collector {
    type Item = SmolStr;
    type Outcome = ();

    const NAME: &'static str = COLLECTOR;
    const PARALLEL: usize = 1;

    fn watch(&mut self, client: &Client) -> Result<(Objects, Changes), Lost> {
        let changes = client.watch_both(&self.versions, &self.leases)?;
        Ok((client.list(&self.versions, ""), changes))
    }

    fn seen(&mut self, object: &Object, queue: &mut Queue<SmolStr>) {
        queue.push(object.name().into());
    }

    fn changed(&mut self, change: &Change, queue: &mut Queue<SmolStr>) {
        let object = change.current();
        if object.is_of(&self.versions) && !change.is_removal() {
            queue.push(object.name().into());
        } else if object.is_of(&self.leases) && change.is_removal() {
            for version in self.client.list(&self.versions, "").iter() {
                queue.push(version.name().into());
            }
        }
    }

    fn work(&mut self, name: &SmolStr, _queue: &mut Queue<SmolStr>) -> Option<Work<()>> {
        let mut object = self.client.get(&self.versions, "", name)?.tree();
        let told = items(&object, TOLD);
        let left: Vec<Value> = told.iter().filter(|one| !self.is_stale(one)).cloned().collect();
        if left.len() == told.len() {
            return None;
        }
        let path = path_of(&self.versions, "", name)?;
        let client = self.client.clone();
        if left.is_empty() {
            let mut options = Value::empty_map();
            if let Some(version) = object.at(&["metadata", "resourceVersion"]) {
                options.set_at(&["preconditions", "resourceVersion"], version.clone());
            }
            return Some(Box::pin(async move {
                unless_overtaken(client.delete(&path, &options).await)
            }));
        }
        object.set_at(TOLD, left.into());
        settle(&mut object, &client.now());
        Some(Box::pin(async move {
            unless_gone(client.update(&format!("{path}/status"), &object).await)
        }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn state(encodes: &str) -> State {
        State {
            name: "apps.deployments".to_owned(),
            encodes: encodes.into(),
            decodes: vec!["apps/v1".into(), "apps/v2".into()],
            serves: vec!["apps/v1".into()],
        }
    }

    fn common(object: &Value) -> (Option<&str>, bool) {
        let common = object.str_at(&["status", "commonEncodingVersion"]);
        (common, conditions::holds(object, EQUAL))
    }

    #[test]
    fn the_version_is_common_while_all_servers_write_it() {
        let mut object = Value::empty_map();
        state("apps/v1").put_into(&mut object, "a");
        settle(&mut object, "1");
        assert_eq!(common(&object), (Some("apps/v1"), true));
        state("apps/v2").put_into(&mut object, "b");
        settle(&mut object, "2");
        assert_eq!(common(&object), (None, false));
        state("apps/v2").put_into(&mut object, "a");
        settle(&mut object, "3");
        assert_eq!(common(&object), (Some("apps/v2"), true));
        assert_eq!(items(&object, TOLD).len(), 2);
        let before = object.clone();
        settle(&mut object, "4");
        assert_eq!(object, before);
        for server in ["a", "b"] {
            state("apps/v1").put_into(&mut object, server);
        }
        settle(&mut object, "5");
        let condition = conditions::find(&object, EQUAL).unwrap();
        assert_eq!(condition.str_at(&["lastTransitionTime"]), Some("5"));
    }
}
