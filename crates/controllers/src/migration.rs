//! StorageVersionMigrations: writes all objects of a resource again, so that they are stored in the current storage
//! version and encoding (<https://kubernetes.io/docs/tasks/manage-kubernetes-objects/storage-version-migration/>).
//!
//! One migration of a resource runs at a time, the oldest first. The conditions of its status show its progress:
//! `Running`, then `Succeeded` or `Failed`. Objects up to the version `status.resourceVersion` are written; newer ones
//! are already stored in the current form. After the migration of a custom resource, the versions that no object is
//! stored in any more are removed from the status of its CRD.
//!
//! Objects of an aggregated server's resource are written there, through this server. A resource whose objects, by that
//! server's discovery, cannot be listed and patched is reported as not migratable.
//!
//! An object is written by an apply that contains only its identity: if the stored form is already the current one, the
//! object does not change.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use holdfast_gotext::time::{Precision, Timestamp};
use holdfast_resource::table::items;
use holdfast_resource::{Resource, Verb};
use holdfast_schema::metadata::new_object;
use holdfast_schema::{GroupResource, GroupVersion};
use holdfast_server::http::negotiation::PatchType;
use holdfast_server::operations::aggregation::RemoteResource;
use holdfast_server::operations::loopback::{Change, Changes, Client, Lost, Object, Objects, RequestError, path_of};
use holdfast_value::{SmolStr, Value};
use tokio::time::Instant;

use crate::conditions::{self, Condition};
use crate::queue::Queue;
use crate::reconcile::{self, Reconcile, Work};
use crate::rejection::unless_gone;

/// The name of this controller, and its field manager for objects.
pub(crate) const NAME: &str = "storage-version-migrator-controller";

/// Field manager for CRDs.
const RUNNER: &str = "migration-runner-controller";

/// Time that a migration waits for its resource to be served.
const RESOURCE_TIMEOUT: Duration = Duration::from_secs(60);
/// Interval at which it checks for the resource meanwhile.
const AGAIN: Duration = Duration::from_secs(1);

const RUNNING: &str = "Running";
const SUCCEEDED: &str = "Succeeded";
const FAILED: &str = "Failed";
const FAILURE: &str = "StorageVersionMigrationFailed";

/// Condition of a CRD whose objects are being migrated.
const MIGRATING: &str = "StorageMigrating";

/// Runs the controller until the server ends.
pub(crate) async fn run(client: Client) {
    let migrations = client.resource("storagemigration.k8s.io", "storageversionmigrations");
    let crds = client.resource("apiextensions.k8s.io", "customresourcedefinitions");
    // Their version is disabled by default.
    let (Some(migrations), Some(crds)) = (migrations, crds) else {
        return client.shutdown().closing().await;
    };
    let controller = Migrator {
        client: client.clone(),
        migrations,
        crds,
    };
    reconcile::run(client, controller).await;
}

#[derive(Clone)]
struct Migrator {
    client: Client,
    migrations: Arc<Resource>,
    crds: Arc<Resource>,
}

impl Reconcile for Migrator {
    /// Resource whose objects are migrated.
    type Item = GroupResource;
    type Outcome = ();

    const NAME: &'static str = NAME;
    const PARALLEL: usize = 5;

    fn watch(&mut self, client: &Client) -> Result<(Objects, Changes), Lost> {
        client.watch(&self.migrations)
    }

    fn seen(&mut self, migration: &Object, queue: &mut Queue<GroupResource>) {
        queue.push(migrated(&migration.tree()));
    }

    fn changed(&mut self, change: &Change, queue: &mut Queue<GroupResource>) {
        // After the removal of a migration, another one can run.
        queue.push(migrated(&change.current().tree()));
    }

    fn work(&mut self, of: &GroupResource, queue: &mut Queue<GroupResource>) -> Option<Work<()>> {
        let migrations = self.client.list(&self.migrations, "");
        let trees = migrations.iter().map(|object| object.tree());
        let (step, migration) = next_step(trees.filter(|migration| migrated(migration) == *of))?;
        let resource = self.resource(of);
        let needs_it = matches!(step, Step::Prepare | Step::Migrate);
        // A CRD may have just been created.
        if needs_it && resource.is_none() && !has_passed(&migration, RESOURCE_TIMEOUT, self.client.time()) {
            queue.push_at(of.clone(), Instant::now() + AGAIN);
            return None;
        }
        let (run, of) = (self.clone(), of.clone());
        Some(Box::pin(async move {
            match (step, resource) {
                (Step::Begin, _) => run.begin(&of, migration).await,
                (Step::Finish, _) => run.finish(&of, migration).await,
                (Step::Prepare, Some(Migrated::Here(resource))) => run.prepare(&resource, migration).await,
                (Step::Migrate, Some(Migrated::Here(resource))) => run.migrate(&resource, migration).await,
                (Step::Prepare, Some(Migrated::Elsewhere(resource))) => {
                    run.prepare_elsewhere(&resource, migration).await
                }
                (Step::Migrate, Some(Migrated::Elsewhere(resource))) => {
                    run.migrate_elsewhere(&resource, migration).await
                }
                (Step::Prepare, None) => run.fail(migration, "resource does not exist in discovery").await,
                (Step::Migrate, None) => {
                    run.fail(migration, &unhandled("unable to obtain GVR from discovery"))
                        .await
                }
            }
        }))
    }
}

/// A resource whose objects are migrated.
enum Migrated {
    Here(Arc<Resource>),
    /// A resource of another server.
    Elsewhere(RemoteResource),
}

/// Next step of the migrations of a resource.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    /// Start this migration.
    Begin,
    /// Determine the version up to which objects are written.
    Prepare,
    /// Write the objects.
    Migrate,
    /// Report that it no longer runs.
    Finish,
}

/// Returns the next step and its migration; `None` if all migrations have ended.
fn next_step(migrations: impl Iterator<Item = Value>) -> Option<(Step, Value)> {
    let step = |migration: &Value| {
        let runs = conditions::holds(migration, RUNNING);
        let ended = conditions::holds(migration, SUCCEEDED) || conditions::holds(migration, FAILED);
        match (runs, ended) {
            (true, true) => Some(Step::Finish),
            (true, false) if version(migration).is_none() => Some(Step::Prepare),
            (true, false) => Some(Step::Migrate),
            (false, false) => Some(Step::Begin),
            (false, true) => None,
        }
    };
    let steps = migrations.filter_map(|migration| Some((step(&migration)?, migration)));
    // A running migration ends before another one begins.
    let turn = |step: &Step| match step {
        Step::Finish => 0,
        Step::Prepare | Step::Migrate => 1,
        Step::Begin => 2,
    };
    steps.min_by_key(|(step, migration)| {
        let text = |field| SmolStr::new(migration.str_at(&["metadata", field]).unwrap_or_default());
        (turn(step), text("creationTimestamp"), text("name"))
    })
}

/// Returns the resource of a migration.
fn migrated(migration: &Value) -> GroupResource {
    let text = |field| SmolStr::new(migration.str_at(&["spec", "resource", field]).unwrap_or_default());
    GroupResource {
        group: text("group"),
        resource: text("resource"),
    }
}

/// Returns the version up to which objects are written.
fn version(migration: &Value) -> Option<&str> {
    let version = migration.str_at(&["status", "resourceVersion"]);
    version.filter(|version| !version.is_empty())
}

/// Returns true if the object was created at least `time` ago.
fn has_passed(object: &Value, time: Duration, now: SystemTime) -> bool {
    let text = object.str_at(&["metadata", "creationTimestamp"]).unwrap_or_default();
    let made = Timestamp::parse(text, Precision::Seconds).ok();
    made.is_none_or(|made| now > SystemTime::from(made) + time)
}

fn unhandled(error: &str) -> String {
    format!("migration encountered unhandled error: {error}")
}

impl Migrator {
    /// Returns the resource with that name if any server has it.
    fn resource(&self, of: &GroupResource) -> Option<Migrated> {
        let here = self.client.resource(&of.group, &of.resource);
        if let Some(here) = here.filter(|resource| !resource.versions.is_empty()) {
            return Some(Migrated::Here(here));
        }
        let elsewhere = self.client.aggregator()?.remote_resource(&of.group, &of.resource)?;
        Some(Migrated::Elsewhere(elsewhere))
    }

    /// Reports that a migration runs, first in its CRD.
    async fn begin(&self, of: &GroupResource, migration: Value) -> Result<(), RequestError> {
        let name = migration.str_at(&["metadata", "name"]).unwrap_or_default();
        let message = format!("Migration {name} is running");
        if let Some(crd) = self.crd(of) {
            let condition = Condition {
                of: MIGRATING,
                holds: true,
                reason: "MigrationRunning",
                message: &message,
            };
            self.report_of_crd(&crd, condition, None).await?;
        }
        let condition = Condition {
            of: RUNNING,
            holds: true,
            reason: "MigrationRunning",
            message: "The migration is running",
        };
        self.set_condition(migration, condition).await
    }

    /// Records the version up to which objects are written.
    async fn prepare(&self, resource: &Resource, mut migration: Value) -> Result<(), RequestError> {
        let Some(served) = resource.versions.first() else {
            return Ok(());
        };
        if NEEDED.iter().any(|verb| !served.verbs.contains(verb)) {
            let why = cannot_be_migrated(&served.group_version, &resource.plural);
            return self.fail(migration, &why).await;
        }
        let revision = self.client.latest_revision(resource).await?;
        migration.set_at(&["status", "resourceVersion"], revision.to_string().into());
        self.write_status(&migration).await
    }

    /// Writes all objects that were stored before the migration began.
    async fn migrate(&self, resource: &Resource, migration: Value) -> Result<(), RequestError> {
        // Another server may have begun it, with a newer state than this one's.
        self.client.latest_revision(resource).await?;
        let last = version(&migration).and_then(|version| version.parse().ok());
        let objects = self.client.list(resource, "");
        for object in objects.iter() {
            if last.is_some_and(|last: u64| object.revision() > last) {
                continue;
            }
            match self.rewrite(resource, &object).await {
                Err(error) if may_be_tried_again(&error) => return Err(error),
                Err(error) => return self.fail(migration, &unhandled(&error.message)).await,
                Ok(()) => {}
            }
        }
        self.succeed(migration).await
    }

    async fn rewrite(&self, resource: &Resource, object: &Object) -> Result<(), RequestError> {
        let (namespace, name) = (object.namespace(resource), object.name());
        let served = resource.versions.first().zip(path_of(resource, namespace, name));
        let Some((served, path)) = served else { return Ok(()) };
        let mut configuration = new_object(&served.api_version, &resource.kind, namespace, name);
        // If the object was deleted or replaced by another one, there is nothing left to migrate.
        let uid = object
            .tree()
            .str_at(&["metadata", "uid"])
            .unwrap_or_default()
            .to_owned();
        configuration.set_at(&["metadata", "uid"], uid.into());
        configuration.set_at(&["metadata", "resourceVersion"], object.revision().to_string().into());
        let path = format!("{path}?fieldManager={NAME}");
        match self.client.patch(&path, PatchType::Apply, &configuration).await {
            Err(error) if error.is_conflict() => Ok(()),
            Err(error) if error.is_not_found() && self.client.get(resource, namespace, name).is_none() => Ok(()),
            outcome => outcome.map(drop),
        }
    }

    /// Does the same as [`Migrator::prepare`] for a resource of another server.
    async fn prepare_elsewhere(&self, resource: &RemoteResource, mut migration: Value) -> Result<(), RequestError> {
        let has = |verb: &Verb| resource.verbs.iter().any(|has| has == verb.name());
        if !NEEDED.iter().all(has) {
            let why = cannot_be_migrated(&resource.group_version, &resource.plural);
            return self.fail(migration, &why).await;
        }
        // The version of an empty list is the revision of the server, for any collection.
        let namespace = if resource.namespaced { NOWHERE } else { "" };
        let path = format!("{}?limit=1", path_elsewhere(resource, namespace, ""));
        let list = self.client.list_metadata(&path).await?;
        let version = list.str_at(&["metadata", "resourceVersion"]).unwrap_or_default();
        if !is_well_formed(version) {
            let named_resource = named(&resource.group_version, &resource.plural);
            let why = format!(
                "latest resourceVersion for {named_resource} is not valid: {}",
                malformed(version)
            );
            return self.fail(migration, &why).await;
        }
        migration.set_at(&["status", "resourceVersion"], version.to_owned().into());
        self.write_status(&migration).await
    }

    /// Does the same as [`Migrator::migrate`] for a resource of another server. If a list expires meanwhile, it starts
    /// again: the objects written so far are newer than the migration.
    async fn migrate_elsewhere(&self, resource: &RemoteResource, migration: Value) -> Result<(), RequestError> {
        let last = version(&migration).unwrap_or_default().to_owned();
        let mut token = String::new();
        loop {
            let path = path_elsewhere(resource, "", "");
            let page = self
                .client
                .list_metadata(&format!("{path}?limit={PAGE}&continue={token}"))
                .await?;
            for object in items(&page, &["items"]) {
                match self.rewrite_elsewhere(resource, object, &last).await {
                    Err(error) if may_be_tried_again(&error) => return Err(error),
                    Err(error) => return self.fail(migration, &unhandled(&error.message)).await,
                    Ok(()) => {}
                }
            }
            let next = page.str_at(&["metadata", "continue"]).unwrap_or_default();
            if next.is_empty() || escaped(next) == token {
                break;
            }
            token = escaped(next);
        }
        self.succeed(migration).await
    }

    /// Writes an object of another server, unless it is newer than the migration.
    async fn rewrite_elsewhere(
        &self,
        resource: &RemoteResource,
        object: &Value,
        last: &str,
    ) -> Result<(), RequestError> {
        let text = |field| object.str_at(&["metadata", field]).unwrap_or_default();
        let (namespace, name, version) = (text("namespace"), text("name"), text("resourceVersion"));
        if let Some(bad) = [version, last].into_iter().find(|version| !is_well_formed(version)) {
            return Err(RequestError {
                code: 400,
                reason: SmolStr::default(),
                message: malformed(bad),
            });
        }
        // Neither has leading zeros.
        if (version.len(), version) > (last.len(), last) {
            return Ok(());
        }
        let api_version = resource.group_version.api_version();
        let mut configuration = new_object(&api_version, &resource.kind, namespace, name);
        configuration.set_at(&["metadata", "uid"], text("uid").into());
        configuration.set_at(&["metadata", "resourceVersion"], version.into());
        let path = format!("{}?fieldManager={NAME}", path_elsewhere(resource, namespace, name));
        match self.client.apply_elsewhere(&path, &configuration).await {
            Err(error) if error.is_conflict() => Ok(()),
            outcome => outcome,
        }
    }

    /// Reports that a migration has ended, first in its CRD.
    async fn finish(&self, of: &GroupResource, mut migration: Value) -> Result<(), RequestError> {
        if let Some(crd) = self.crd(of) {
            self.finish_crd(&crd, conditions::holds(&migration, SUCCEEDED)).await?;
        }
        let condition = Condition {
            of: RUNNING,
            holds: false,
            reason: "MigrationCompleted",
            message: "Migration completed",
        };
        conditions::set(&mut migration, condition, &self.client.now());
        let generation = migration.at(&["metadata", "generation"]).cloned();
        conditions::observe(&mut migration, RUNNING, generation.unwrap_or(Value::Int(0)));
        self.write_status(&migration).await
    }

    async fn finish_crd(&self, crd: &Object, succeeded: bool) -> Result<(), RequestError> {
        let tree = crd.tree();
        let generation = tree.at(&["metadata", "generation"]);
        let begun = conditions::find(&tree, MIGRATING).and_then(|condition| condition.at(&["observedGeneration"]));
        let is_as_it_was = generation.is_some() && begun == generation;
        let (reason, message) = match (succeeded, is_as_it_was) {
            (true, true) => (
                "MigrationSucceeded",
                "The migration has succeeded and the stored versions have been updated",
            ),
            (true, false) => (
                "MigrationSucceeded",
                "The migration has succeeded but the stored versions have not been updated due to a generation mismatch",
            ),
            (false, _) => ("MigrationFailed", "The migration has failed"),
        };
        let condition = Condition {
            of: MIGRATING,
            holds: false,
            reason,
            message,
        };
        // The reference removes versions after a failure as well, and loses track of objects that are still stored in
        // them.
        let stored = storage_version(&tree).filter(|_| succeeded && is_as_it_was);
        self.report_of_crd(crd, condition, stored).await
    }

    fn crd(&self, of: &GroupResource) -> Option<Object> {
        self.client
            .get(&self.crds, "", &format!("{}.{}", of.resource, of.group))
    }

    /// Applies a condition to the status of a CRD, and `stored` as its only stored version.
    async fn report_of_crd(
        &self,
        crd: &Object,
        condition: Condition<'_>,
        stored: Option<SmolStr>,
    ) -> Result<(), RequestError> {
        let Some(path) = path_of(&self.crds, "", crd.name()) else {
            return Ok(());
        };
        let generation = crd.tree().at(&["metadata", "generation"]).cloned();
        let api_version = "apiextensions.k8s.io/v1";
        let mut configuration = new_object(api_version, "CustomResourceDefinition", "", crd.name());
        // The report is valid for the CRD as it was read.
        configuration.set_at(&["metadata", "resourceVersion"], crd.revision().to_string().into());
        conditions::set(&mut configuration, condition, &self.client.now());
        conditions::observe(&mut configuration, condition.of, generation.unwrap_or(Value::Int(0)));
        if let Some(stored) = stored {
            configuration.set_at(&["status", "storedVersions"], vec![Value::from(stored.as_str())].into());
        }
        let path = format!("{path}/status?fieldManager={RUNNER}&force=true");
        unless_gone(self.client.patch(&path, PatchType::Apply, &configuration).await)
    }

    /// Writes the progress of a migration.
    async fn set_condition(&self, mut migration: Value, condition: Condition<'_>) -> Result<(), RequestError> {
        conditions::set(&mut migration, condition, &self.client.now());
        self.write_status(&migration).await
    }

    async fn succeed(&self, migration: Value) -> Result<(), RequestError> {
        let condition = Condition {
            of: SUCCEEDED,
            holds: true,
            reason: "StorageVersionMigrationSucceeded",
            message: "",
        };
        self.set_condition(migration, condition).await
    }

    async fn fail(&self, migration: Value, message: &str) -> Result<(), RequestError> {
        let condition = Condition {
            of: FAILED,
            holds: true,
            reason: FAILURE,
            message,
        };
        self.set_condition(migration, condition).await
    }

    async fn write_status(&self, migration: &Value) -> Result<(), RequestError> {
        let name = migration.str_at(&["metadata", "name"]).unwrap_or_default();
        let Some(path) = path_of(&self.migrations, "", name) else {
            return Ok(());
        };
        unless_gone(self.client.update(&format!("{path}/status"), migration).await)
    }
}

/// Verbs that a resource must support to be migrated.
const NEEDED: [Verb; 3] = [Verb::Update, Verb::Patch, Verb::List];

/// Namespace that does not exist on any server; the name is the reference's.
const NOWHERE: &str = "@fake:svm_ns!";

/// Number of objects of another server that are read at a time.
const PAGE: usize = 500;

fn cannot_be_migrated(of: &GroupVersion, plural: &str) -> String {
    let resource = named(of, plural);
    format!("resource \"{resource}\" does not support discovery operations: [update patch list]")
}

/// Returns the reference's name of a resource.
fn named(of: &GroupVersion, plural: &str) -> String {
    format!("{}/{}, Resource={plural}", of.group, of.version)
}

/// Returns true if a version can be compared with others.
fn is_well_formed(version: &str) -> bool {
    !version.is_empty() && !version.starts_with('0') && version.bytes().all(|byte| byte.is_ascii_digit())
}

fn malformed(version: &str) -> String {
    format!("resource version is not well formed: {version}")
}

/// Returns the path of a collection on another server, or of one object if `name` is not empty.
fn path_elsewhere(resource: &RemoteResource, namespace: &str, name: &str) -> String {
    let group_version = &resource.group_version;
    let mut path = format!("/apis/{}/{}", group_version.group, group_version.version);
    let namespaces = if namespace.is_empty() { "" } else { "namespaces" };
    for part in [namespaces, namespace, &resource.plural, name] {
        if !part.is_empty() {
            path.push('/');
            path.push_str(&escaped(part));
        }
    }
    path
}

/// Escapes a part of a path or of a query. Another server's responses may contain any characters.
fn escaped(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for byte in text.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' | b'@' | b':' => {
                escaped.push(char::from(byte))
            }
            _ => escaped.push_str(&format!("%{byte:02X}")),
        }
    }
    escaped
}

/// Returns the storage version of a CRD.
fn storage_version(crd: &Value) -> Option<SmolStr> {
    let versions = crd.at(&["spec", "versions"])?.as_list()?;
    let stored = versions
        .iter()
        .find(|version| version.at(&["storage"]).and_then(Value::as_bool) == Some(true));
    stored?.str_at(&["name"]).map(SmolStr::new)
}

/// Returns true if a rejected request may succeed later: the server is overloaded or failed.
fn may_be_tried_again(error: &RequestError) -> bool {
    matches!(error.code, 429 | 500 | 503 | 504)
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "what fails here is the test")]
mod tests;
