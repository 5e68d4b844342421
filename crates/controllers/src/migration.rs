//! StorageVersionMigrations: all objects of a resource are written again, so that they are kept in the version and the form in which
//! the server stores them now (<https://kubernetes.io/docs/tasks/manage-kubernetes-objects/storage-version-migration/>).
//!
//! One migration of a resource runs at a time, the oldest first. The conditions of its status tell how far it is: `Running`, then
//! `Succeeded` or `Failed`. `status.resourceVersion` says up to which version objects are written; what is younger was stored as the
//! server does now. A definition that objects were migrated for forgets the versions that none is stored in any more.
//!
//! An object is written by an apply that says nothing but which object it is: one that is stored already as it would be stored now
//! stays as it is.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use holdfast_gotext::time::{Precision, Timestamp};
use holdfast_resource::metadata::new_object;
use holdfast_resource::{GroupResource, Resource, Verb};
use holdfast_server::http::negotiation::PatchType;
use holdfast_server::operations::loopback::{Change, Changes, Client, Lost, Object, Objects, RequestError, path_of};
use holdfast_value::{SmolStr, Value};
use tokio::time::Instant;

use crate::conditions::{self, Condition};
use crate::queue::Queue;
use crate::reconcile::{self, Reconcile, Work};
use crate::refusal::unless_gone;

/// The name of this controller, and the manager by whose name it applies to objects.
pub(crate) const NAME: &str = "storage-version-migrator-controller";

/// The manager by whose name it applies to definitions.
const RUNNER: &str = "migration-runner-controller";

/// How long a migration waits for its resource to be served.
const PATIENCE: Duration = Duration::from_secs(60);
/// How often it looks for it meanwhile.
const AGAIN: Duration = Duration::from_secs(1);

const RUNNING: &str = "Running";
const SUCCEEDED: &str = "Succeeded";
const FAILED: &str = "Failed";
const FAILURE: &str = "StorageVersionMigrationFailed";

/// The condition of a definition whose objects are migrated.
const MIGRATING: &str = "StorageMigrating";

/// Runs the controller until the server ends.
pub(crate) async fn run(client: Client) {
    let migrations = client.resource("storagemigration.k8s.io", "storageversionmigrations");
    let definitions = client.resource("apiextensions.k8s.io", "customresourcedefinitions");
    // Their version is off by default.
    let (Some(migrations), Some(definitions)) = (migrations, definitions) else {
        return client.shutdown().closing().await;
    };
    let controller = Migrator {
        client: client.clone(),
        migrations,
        definitions,
    };
    reconcile::run(client, controller).await;
}

#[derive(Clone)]
struct Migrator {
    client: Client,
    migrations: Arc<Resource>,
    definitions: Arc<Resource>,
}

impl Reconcile for Migrator {
    /// The resource whose objects are to be migrated.
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
        // Where a migration is removed, it is the turn of another.
        queue.push(migrated(&change.current().tree()));
    }

    fn work(&mut self, of: &GroupResource, queue: &mut Queue<GroupResource>) -> Option<Work<()>> {
        let migrations = self.client.list(&self.migrations, "");
        let trees = migrations.iter().map(|object| object.tree());
        let (step, migration) = next_step(trees.filter(|migration| migrated(migration) == *of))?;
        let resource = self.client.resource(&of.group, &of.resource);
        let resource = resource.filter(|resource| !resource.versions.is_empty());
        let needs_it = matches!(step, Step::Prepare | Step::Migrate);
        // A definition may have been made just now.
        if needs_it && resource.is_none() && !has_passed(&migration, PATIENCE, self.client.time()) {
            queue.push_at(of.clone(), Instant::now() + AGAIN);
            return None;
        }
        let (run, of) = (self.clone(), of.clone());
        Some(Box::pin(async move {
            match (step, resource) {
                (Step::Begin, _) => run.begin(&of, migration).await,
                (Step::Finish, _) => run.finish(&of, migration).await,
                (Step::Prepare, Some(resource)) => run.prepare(&resource, migration).await,
                (Step::Migrate, Some(resource)) => run.migrate(&resource, migration).await,
                (Step::Prepare, None) => run.fail(migration, "resource does not exist in discovery").await,
                (Step::Migrate, None) => {
                    run.fail(migration, &unhandled("unable to obtain GVR from discovery"))
                        .await
                }
            }
        }))
    }
}

/// What is to be done next about the migrations of a resource.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    /// It is the turn of this one.
    Begin,
    /// The version up to which objects are written is yet to be found.
    Prepare,
    /// The objects are yet to be written.
    Migrate,
    /// All is done but to tell that it does not run any more.
    Finish,
}

/// The next step, and the migration that it is about; `None` where all have come to their end.
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
    // What runs ends before another begins.
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

/// The resource whose objects a migration is about.
fn migrated(migration: &Value) -> GroupResource {
    let text = |field| SmolStr::new(migration.str_at(&["spec", "resource", field]).unwrap_or_default());
    GroupResource {
        group: text("group"),
        resource: text("resource"),
    }
}

/// The version up to which objects are written.
fn version(migration: &Value) -> Option<&str> {
    let version = migration.str_at(&["status", "resourceVersion"]);
    version.filter(|version| !version.is_empty())
}

/// Whether so much time has passed since the object was made.
fn has_passed(object: &Value, time: Duration, now: SystemTime) -> bool {
    let made = object.str_at(&["metadata", "creationTimestamp"]).unwrap_or_default();
    let made = Timestamp::parse(made, Precision::Seconds).ok();
    made.is_none_or(|made| now > SystemTime::from(made) + time)
}

fn unhandled(error: &str) -> String {
    format!("migration encountered unhandled error: {error}")
}

impl Migrator {
    /// Tells that a migration runs, its definition first.
    async fn begin(&self, of: &GroupResource, mut migration: Value) -> Result<(), RequestError> {
        let name = migration.str_at(&["metadata", "name"]).unwrap_or_default();
        let message = format!("Migration {name} is running");
        if let Some(definition) = self.definition(of) {
            let condition = Condition {
                of: MIGRATING,
                holds: true,
                reason: "MigrationRunning",
                message: &message,
            };
            self.tell_definition(&definition, condition, None).await?;
        }
        let condition = Condition {
            of: RUNNING,
            holds: true,
            reason: "MigrationRunning",
            message: "The migration is running",
        };
        conditions::set(&mut migration, condition, &self.client.now());
        self.write_status(&migration).await
    }

    /// Notes the version up to which objects are written.
    async fn prepare(&self, resource: &Resource, mut migration: Value) -> Result<(), RequestError> {
        const NEEDED: [Verb; 3] = [Verb::Update, Verb::Patch, Verb::List];
        let Some(served) = resource.versions.first() else {
            return Ok(());
        };
        if NEEDED.iter().any(|verb| !served.verbs.contains(verb)) {
            let of = &served.group_version;
            let why = format!(
                "resource \"{}/{}, Resource={}\" does not support discovery operations: [update patch list]",
                of.group, of.version, resource.plural
            );
            return self.fail(migration, &why).await;
        }
        let revision = self.client.latest_revision(resource).await?;
        migration.set_at(&["status", "resourceVersion"], revision.to_string().into());
        self.write_status(&migration).await
    }

    /// Has all objects written that were stored before the migration began.
    async fn migrate(&self, resource: &Resource, mut migration: Value) -> Result<(), RequestError> {
        // Another server may have begun, whose state was further than this one's.
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
        let condition = Condition {
            of: SUCCEEDED,
            holds: true,
            reason: "StorageVersionMigrationSucceeded",
            message: "",
        };
        conditions::set(&mut migration, condition, &self.client.now());
        self.write_status(&migration).await
    }

    async fn rewrite(&self, resource: &Resource, object: &Object) -> Result<(), RequestError> {
        let (namespace, name) = (object.namespace(resource), object.name());
        let served = resource.versions.first().zip(path_of(resource, namespace, name));
        let Some((served, path)) = served else { return Ok(()) };
        let mut configuration = new_object(&served.api_version, &resource.kind, namespace, name);
        // Where the object is gone or another stands in its place, there is nothing left to migrate.
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

    /// Tells that a migration has ended, its definition first.
    async fn finish(&self, of: &GroupResource, mut migration: Value) -> Result<(), RequestError> {
        if let Some(definition) = self.definition(of) {
            self.finish_definition(&definition, conditions::holds(&migration, SUCCEEDED))
                .await?;
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

    async fn finish_definition(&self, definition: &Object, succeeded: bool) -> Result<(), RequestError> {
        let tree = definition.tree();
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
        // The reference forgets versions after a failure as well, which loses sight of objects that are still stored in them.
        let stored = storage_version(&tree).filter(|_| succeeded && is_as_it_was);
        self.tell_definition(definition, condition, stored).await
    }

    fn definition(&self, of: &GroupResource) -> Option<Object> {
        self.client
            .get(&self.definitions, "", &format!("{}.{}", of.resource, of.group))
    }

    /// Applies a condition to the status of a definition, and the only version that objects are `stored` in.
    async fn tell_definition(
        &self,
        definition: &Object,
        condition: Condition<'_>,
        stored: Option<SmolStr>,
    ) -> Result<(), RequestError> {
        let Some(path) = path_of(&self.definitions, "", definition.name()) else {
            return Ok(());
        };
        let generation = definition.tree().at(&["metadata", "generation"]).cloned();
        let api_version = "apiextensions.k8s.io/v1";
        let mut configuration = new_object(api_version, "CustomResourceDefinition", "", definition.name());
        // What is told is true of the definition as it was seen.
        configuration.set_at(
            &["metadata", "resourceVersion"],
            definition.revision().to_string().into(),
        );
        conditions::set(&mut configuration, condition, &self.client.now());
        conditions::observe(&mut configuration, condition.of, generation.unwrap_or(Value::Int(0)));
        if let Some(stored) = stored {
            configuration.set_at(&["status", "storedVersions"], vec![Value::from(stored.as_str())].into());
        }
        let path = format!("{path}/status?fieldManager={RUNNER}&force=true");
        unless_gone(self.client.patch(&path, PatchType::Apply, &configuration).await)
    }

    async fn fail(&self, mut migration: Value, message: &str) -> Result<(), RequestError> {
        let condition = Condition {
            of: FAILED,
            holds: true,
            reason: FAILURE,
            message,
        };
        conditions::set(&mut migration, condition, &self.client.now());
        self.write_status(&migration).await
    }

    async fn write_status(&self, migration: &Value) -> Result<(), RequestError> {
        let name = migration.str_at(&["metadata", "name"]).unwrap_or_default();
        let Some(path) = path_of(&self.migrations, "", name) else {
            return Ok(());
        };
        unless_gone(self.client.update(&format!("{path}/status"), migration).await)
    }
}

/// The version that a definition says objects are stored in.
fn storage_version(definition: &Value) -> Option<SmolStr> {
    let versions = definition.at(&["spec", "versions"])?.as_list()?;
    let stored = versions
        .iter()
        .find(|version| version.at(&["storage"]).and_then(Value::as_bool) == Some(true));
    stored?.str_at(&["name"]).map(SmolStr::new)
}

/// Whether what was refused may go well another time: the server has too much to do, or failed.
fn may_be_tried_again(error: &RequestError) -> bool {
    matches!(error.code, 429 | 500 | 503 | 504)
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "what fails here is the test")]
mod tests {
    use holdfast_value::{Limits, json};

    use super::*;

    fn migration(name: &str, second: u8, version: &str, holding: &[&str]) -> Value {
        let mut made = new_object("storagemigration.k8s.io/v1beta1", "StorageVersionMigration", "", name);
        let time = format!("2026-01-01T00:00:{second:02}Z");
        made.set_at(&["metadata", "creationTimestamp"], time.into());
        made.set_at(&["status", "resourceVersion"], version.into());
        let conditions: Vec<Value> = holding
            .iter()
            .map(|of| {
                let text = format!(r#"{{"type":"{of}","status":"True"}}"#);
                json::parse(text.as_bytes(), &Limits::REQUEST).unwrap()
            })
            .collect();
        made.set_at(&["status", "conditions"], conditions.into());
        made
    }

    fn next(migrations: &[Value]) -> Option<(Step, String)> {
        let (step, migration) = next_step(migrations.iter().cloned())?;
        Some((step, migration.str_at(&["metadata", "name"]).unwrap().to_owned()))
    }

    #[test]
    fn one_migration_runs_at_a_time_and_the_oldest_comes_first() {
        let (new, old) = (migration("b", 2, "", &[]), migration("c", 1, "", &[]));
        let twin = migration("a", 2, "", &[]);
        assert_eq!(next(&[new.clone(), old, twin.clone()]), Some((Step::Begin, "c".into())));
        assert_eq!(next(&[new.clone(), twin.clone()]), Some((Step::Begin, "a".into())));
        let running = migration("z", 9, "", &[RUNNING]);
        assert_eq!(next(&[twin.clone(), running]), Some((Step::Prepare, "z".into())));
        let prepared = migration("z", 9, "7", &[RUNNING]);
        assert_eq!(
            next(&[twin.clone(), prepared.clone()]),
            Some((Step::Migrate, "z".into()))
        );
        let done = migration("y", 9, "7", &[RUNNING, FAILED]);
        assert_eq!(next(&[twin, prepared, done]), Some((Step::Finish, "y".into())));
    }

    #[test]
    fn migrations_that_have_ended_rest() {
        assert_eq!(next(&[]), None);
        let ended = [migration("a", 1, "7", &[SUCCEEDED]), migration("b", 1, "7", &[FAILED])];
        assert_eq!(next(&ended), None);
    }

    #[test]
    fn a_resource_that_is_not_served_is_waited_for_for_a_minute() {
        let made = migration("a", 30, "", &[]);
        let at = |text| SystemTime::from(Timestamp::parse(text, Precision::Seconds).unwrap());
        assert!(!has_passed(&made, PATIENCE, at("2026-01-01T00:01:30Z")));
        assert!(has_passed(&made, PATIENCE, at("2026-01-01T00:01:31Z")));
    }
}
