//! StorageVersions: each server reports the version in which it stores the objects of each resource, so that a
//! migration knows when all servers agree (`StorageVersionAPI`, KEP-2339). The report of a server is removed with its
//! lease.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use holdfast_resource::Resource;
use holdfast_resource::table::items;
use holdfast_schema::metadata::new_object;
use holdfast_server::operations::loopback::{Change, Changes, Client, Lost, Object, Objects, RequestError, path_of};
use holdfast_server::operations::storage_versions::StorageVersionBarrier;
use holdfast_value::{SmolStr, Value};

use crate::apiserver::Turns;
use crate::conditions::{self, Condition};
use crate::identity;
use crate::queue::Queue;
use crate::reconcile::{self, Reconcile, Work};
use crate::rejection::{delete_unchanged, unless_gone};

/// Name of the controller that removes reports of servers that no longer exist.
pub(crate) const COLLECTOR: &str = "storageversion-garbage-collector-controller";
/// Health check of the updater, with kube-apiserver's name.
pub const CHECK: &str = "poststarthook/built-in-resources-storage-version-updater";

/// Interval at which the updater checks this server's report.
const PERIOD: Duration = Duration::from_secs(600);
const EQUAL: &str = "AllEncodingVersionsEqual";
/// Path of the servers' reports in the object.
const VERSIONS: [&str; 2] = ["status", "storageVersions"];

/// Settings for reporting the storage versions of a server.
#[derive(Clone, Debug)]
pub struct StorageVersions {
    /// Name of its lease.
    pub server: String,
    /// Function that returns the versions in which the server can decode the objects of a kind, the preferred one
    /// first. Arguments: group, kind, served versions.
    pub decodable: fn(&str, &str, &[&str]) -> Vec<SmolStr>,
    /// Barrier that delays writes until the report.
    pub barrier: Arc<StorageVersionBarrier>,
}

/// Returns the resources that the controllers use; `None` if the version of StorageVersions is disabled.
fn resources(client: &Client) -> Option<(Arc<Resource>, Arc<Resource>)> {
    let versions = client.resource("internal.apiserver.k8s.io", "storageversions")?;
    Some((versions, client.resource("coordination.k8s.io", "leases")?))
}

/// Reports the versions of this server until it ends.
pub(crate) async fn update(client: Client, own: StorageVersions) {
    let Some((versions, leases)) = resources(&client) else {
        tracing::warn!("StorageVersions are not served, so this server writes none; --runtime-config enables them");
        return client.shutdown().closing().await;
    };
    let shutdown = client.shutdown();
    // A report before the lease exists would look like that of a stopped server.
    tokio::select! {
        () = wait_for_lease(&client, &leases, &own.server) => {}
        () = shutdown.closing() => return,
    }
    let mut turns = Turns::new(&client, PERIOD);
    while turns.next().await {
        let mut all_reported = true;
        for version in server_versions(&client, &own) {
            match update_patiently(&client, &versions, &own.server, &version).await {
                Ok(()) => own.barrier.published(&version.prefix),
                Err(error) => {
                    tracing::warn!(of = version.name, %error, "cannot write a StorageVersion; will retry");
                    own.barrier.failed(&version.prefix, error.to_string());
                    all_reported = false;
                }
            }
        }
        if all_reported {
            own.barrier.complete();
        }
    }
}

/// Number of attempts to update, and the delay between them, as in the reference.
const ATTEMPTS: usize = 3;
const ATTEMPT_DELAY: Duration = Duration::from_secs(1);

/// Reports a version, and retries if another server was faster.
async fn update_patiently(
    client: &Client,
    versions: &Resource,
    server: &str,
    version: &ServerStorageVersion,
) -> Result<(), RequestError> {
    let (mut failures, shutdown) = (0, client.shutdown());
    loop {
        let outcome = update_one(client, versions, server, version).await;
        let Err(error) = &outcome else { return outcome };
        if !error.is_conflict() {
            failures += 1;
        }
        if failures == ATTEMPTS {
            return outcome;
        }
        tokio::select! {
            () = tokio::time::sleep(ATTEMPT_DELAY) => {}
            () = shutdown.closing() => return outcome,
        }
    }
}

async fn wait_for_lease(client: &Client, leases: &Resource, name: &str) {
    while let Ok((_, mut changes)) = client.watch(leases) {
        loop {
            if client.get(leases, identity::NAMESPACE, name).is_some() {
                return;
            }
            if changes.next().await.is_err() {
                break;
            }
        }
    }
}

/// Report of a server for a resource.
#[derive(Debug)]
struct ServerStorageVersion {
    /// Name of the StorageVersion.
    name: String,
    /// Key prefix of the stored objects.
    prefix: SmolStr,
    encodes: SmolStr,
    decodes: Vec<SmolStr>,
    serves: Vec<SmolStr>,
}

/// Returns this server's reports for all stored built-in resources. Resources that share their objects are reported
/// once.
fn server_versions(client: &Client, own: &StorageVersions) -> Vec<ServerStorageVersion> {
    let registry = client.registry();
    let built_in = registry.resources().filter(|resource| resource.crd.is_none());
    let mut resources: Vec<&Arc<Resource>> = built_in.collect();
    resources.sort_by_key(|resource| (resource.group.clone(), resource.plural.clone()));
    let mut seen = BTreeSet::new();
    let all = resources.iter().filter_map(|resource| {
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
        let mut decodes = (own.decodable)(&resource.group, &resource.kind, &served);
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
        Some(ServerStorageVersion {
            name: format!("{group}.{}", resource.plural),
            prefix: storage.prefix.clone(),
            encodes: storage.at_rest.api_version.clone(),
            decodes,
            serves,
        })
    });
    all.collect()
}

async fn update_one(
    client: &Client,
    versions: &Resource,
    server: &str,
    version: &ServerStorageVersion,
) -> Result<(), RequestError> {
    let path = |name: &str| path_of(versions, "", name).unwrap_or_default();
    let there = client.get(versions, "", &version.name).map(|object| object.tree());
    let mut object = match &there {
        Some(there) => there.clone(),
        None => {
            let mut made = new_object(
                "internal.apiserver.k8s.io/v1alpha1",
                "StorageVersion",
                "",
                &version.name,
            );
            made.set_at(&["spec"], Value::empty_map());
            client.create(&path(""), &made).await?
        }
    };
    version.put_into(&mut object, server);
    set_common_version(&mut object, &client.now());
    if there.as_ref() == Some(&object) {
        return Ok(());
    }
    let path = format!("{}/status", path(&version.name));
    client.update(&path, &object).await.map(drop)
}

impl ServerStorageVersion {
    /// Replaces the server's previous report in the object.
    fn put_into(&self, object: &mut Value, server: &str) {
        let list =
            |versions: &[SmolStr]| Value::from(versions.iter().map(|one| one.as_str().into()).collect::<Vec<Value>>());
        let mut own = Value::empty_map();
        own.set_at(&["apiServerID"], server.into());
        own.set_at(&["encodingVersion"], self.encodes.as_str().into());
        own.set_at(&["decodableVersions"], list(&self.decodes));
        own.set_at(&["servedVersions"], list(&self.serves));
        let mut all = items(object, &VERSIONS).to_vec();
        match all.iter_mut().find(|one| one.str_at(&["apiServerID"]) == Some(server)) {
            Some(before) => *before = own,
            None => all.push(own),
        }
        object.set_at(&VERSIONS, all.into());
    }
}

/// Sets the version that all servers write, if they agree (`SetCommonEncodingVersion`).
fn set_common_version(object: &mut Value, now: &str) {
    const COMMON: [&str; 2] = ["status", "commonEncodingVersion"];
    let mut written = items(object, &VERSIONS)
        .iter()
        .map(|one| one.str_at(&["encodingVersion"]));
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
        // A changed common version is a transition too.
        let others: Vec<Value> = items(object, &["status", "conditions"])
            .iter()
            .filter(|one| one.str_at(&["type"]) != Some(EQUAL))
            .cloned()
            .collect();
        object.set_at(&["status", "conditions"], others.into());
    }
    let condition = Condition {
        of: EQUAL,
        holds,
        reason,
        message,
    };
    conditions::set(object, condition, now);
}

/// Removes reports of servers that no longer exist, until this one ends.
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
    /// Returns true if this is the report of a server without a lease.
    fn is_stale(&self, version: &Value) -> bool {
        let server = version.str_at(&["apiServerID"]).unwrap_or_default();
        let lease = self.client.get(&self.leases, identity::NAMESPACE, server);
        !lease.is_some_and(|lease| identity::is_of_server(&lease.tree()))
    }
}

impl Reconcile for Collector {
    type Item = SmolStr;
    type Outcome = ();

    const NAME: &'static str = COLLECTOR;
    const QUEUE: &'static str = "storage_version_garbage_collector_leases";
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
        let before = items(&object, &VERSIONS);
        let left: Vec<Value> = before.iter().filter(|one| !self.is_stale(one)).cloned().collect();
        if left.len() == before.len() {
            return None;
        }
        let path = path_of(&self.versions, "", name)?;
        let client = self.client.clone();
        if left.is_empty() {
            return Some(Box::pin(async move { delete_unchanged(&client, &path, &object).await }));
        }
        object.set_at(&VERSIONS, left.into());
        set_common_version(&mut object, &client.now());
        Some(Box::pin(async move {
            unless_gone(client.update(&format!("{path}/status"), &object).await)
        }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn version(encodes: &str) -> ServerStorageVersion {
        ServerStorageVersion {
            prefix: SmolStr::default(),
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
        version("apps/v1").put_into(&mut object, "a");
        set_common_version(&mut object, "1");
        assert_eq!(common(&object), (Some("apps/v1"), true));
        version("apps/v2").put_into(&mut object, "b");
        set_common_version(&mut object, "2");
        assert_eq!(common(&object), (None, false));
        version("apps/v2").put_into(&mut object, "a");
        set_common_version(&mut object, "3");
        assert_eq!(common(&object), (Some("apps/v2"), true));
        assert_eq!(items(&object, &VERSIONS).len(), 2);
        let before = object.clone();
        set_common_version(&mut object, "4");
        assert_eq!(object, before);
        for server in ["a", "b"] {
            version("apps/v1").put_into(&mut object, server);
        }
        set_common_version(&mut object, "5");
        let condition = conditions::find(&object, EQUAL).unwrap();
        assert_eq!(condition.str_at(&["lastTransitionTime"]), Some("5"));
    }
}
