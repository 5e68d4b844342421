//! Field management: the field managers of the addresses that are written to.

use std::collections::HashMap;
use std::sync::Arc;

use holdfast_merge::{Path, Schema, Set, TypeRef};
use holdfast_ownership::{Applied, ApplyError, FieldManager, LAST_APPLIED, OneVersion, Versions};
use holdfast_resource::{ConversionError, ConversionWebhook, GroupResource, KindTypes, Resource};
use holdfast_value::{SmolStr, Value};
use parking_lot::RwLock;

use crate::webhook_versions::WebhookVersions;
use crate::{Error, ErrorKind, Stage, Target, metadata};

pub(crate) use holdfast_ownership::keep_times;
pub use holdfast_ownership::manager_name;

/// Field managers of all resources and subresources that were written to, created on demand.
pub struct FieldManagers {
    types: Arc<KindTypes>,
    managers: RwLock<HashMap<GroupResource, OfResource>>,
}

/// The field managers of one resource.
struct OfResource {
    /// Serial number of the CRD; 0 for built-in resources.
    serial: u64,
    managers: HashMap<Address, Arc<FieldManager>>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Address {
    api_version: SmolStr,
    subresource: SmolStr,
}

impl OfResource {
    fn new(serial: u64) -> Self {
        Self {
            serial,
            managers: HashMap::new(),
        }
    }
}

impl FieldManagers {
    /// Creates the field managers of kinds whose types are in `types`.
    pub fn new(types: Arc<KindTypes>) -> Self {
        Self {
            types,
            managers: RwLock::default(),
        }
    }

    /// Removes the field managers of a resource that is no longer served, or whose CRD changed.
    pub fn forget(&self, resource: &Resource) {
        self.managers.write().remove(&resource.group_resource());
    }

    /// Returns the types.
    pub fn types(&self) -> &Arc<KindTypes> {
        &self.types
    }

    fn of(&self, target: &Target) -> Option<Arc<FieldManager>> {
        let resource = target.resource.group_resource();
        let serial = target.resource.serial();
        let address = Address {
            api_version: target.api_version.clone(),
            subresource: target.subresource.clone(),
        };
        if let Some(known) = self
            .managers
            .read()
            .get(&resource)
            .filter(|known| known.serial == serial)
            && let Some(manager) = known.managers.get(&address)
        {
            return Some(Arc::clone(manager));
        }
        let manager = if target.body.kind != target.resource.kind {
            self.make_for_body(target)?
        } else {
            let versions = Arc::new(self.versions(&target.resource));
            self.make(&target.resource, &target.api_version, &target.subresource, versions)
        };
        let manager = Arc::new(manager);
        let mut managers = self.managers.write();
        let known = managers.entry(resource).or_insert_with(|| OfResource::new(serial));
        if known.serial < serial {
            *known = OfResource::new(serial);
        }
        // A write that began before the CRD changed has its own.
        if known.serial == serial {
            known.managers.insert(address, Arc::clone(&manager));
        }
        Some(manager)
    }

    /// Creates the field manager of a subresource whose bodies have another kind, such as a Scale.
    fn make_for_body(&self, target: &Target) -> Option<FieldManager> {
        let (version, kind) = (&target.body.api_version, &target.body.kind);
        let kind_type = target.body.kind_type.as_ref()?;
        let (schema, merge_type) = kind_type.merge_type()?;
        let versions = Arc::new(OneVersion::new(version.clone(), schema, merge_type));
        let builder = FieldManager::builder(version.clone(), kind.clone(), versions)
            .subresource(target.subresource.clone())
            .empty_object(kind_type.empty());
        Some(builder.build())
    }

    fn versions(&self, resource: &Arc<Resource>) -> ResourceVersions {
        ResourceVersions {
            resource: Arc::clone(resource),
            types: Arc::clone(&self.types),
        }
    }

    fn make(
        &self,
        resource: &Arc<Resource>,
        api_version: &SmolStr,
        subresource: &SmolStr,
        versions: Arc<dyn Versions>,
    ) -> FieldManager {
        let reset = resource.versions.iter().map(|version| {
            let paths = match version.subresource(subresource) {
                Some(subresource) => &subresource.reset_fields,
                None => &version.reset_fields,
            };
            let set: Set = paths
                .iter()
                .map(|path| Path::of_fields(path.iter().map(SmolStr::as_str)))
                .collect();
            (version.api_version.clone(), set)
        });
        let reset: Vec<_> = reset.filter(|(_, set)| !set.is_empty()).collect();
        let of = resource.body_type(&self.types, api_version, &resource.kind);
        let empty = of.map(|kind| kind.empty());
        let mut builder = FieldManager::builder(api_version.clone(), resource.kind.clone(), versions)
            .subresource(subresource.clone())
            .empty_list_resets(resource.conventions.empty_list_resets)
            .reset_fields(reset);
        if let Some(empty) = empty {
            builder = builder.empty_object(empty);
        }
        builder.build()
    }
}

/// The versions of a resource, as its field managers see them.
pub(crate) struct ResourceVersions {
    resource: Arc<Resource>,
    types: Arc<KindTypes>,
}

impl Versions for ResourceVersions {
    fn merge_type(&self, api_version: &str) -> Option<(Arc<Schema>, TypeRef)> {
        let served = || {
            let mut versions = self.resource.versions.iter();
            versions.any(|version| version.api_version == api_version)
        };
        // Fields written in a version that a CRD no longer serves are still owned.
        let known = self.resource.definition.is_some() || served();
        let kind = known.then(|| self.resource.kind_type(api_version));
        kind.flatten()?.merge_type()
    }

    /// Custom resources convert before they look up the merge type, so a version that their CRD does not list is an error. A
    /// version that the CRD lists and does not serve is none.
    fn missing_version_error(&self, api_version: &str) -> Option<String> {
        let is_missing = self.resource.definition.is_some() && self.resource.kind_type(api_version).is_none();
        is_missing.then(|| ConversionError::NoSuchTarget(api_version.to_owned()).to_string())
    }

    fn convert(&self, object: &Value, api_version: &str) -> Result<Value, String> {
        let converted = self.resource.convert_for_managers(object.clone(), api_version);
        let converted = converted.map_err(|error| error.to_string())?;
        match self.resource.body_type(&self.types, api_version, &self.resource.kind) {
            Some(of) => of.converted_for_managers(converted),
            None => Ok(converted),
        }
    }
}

/// Records in `object`, which replaces `live`, which fields each manager changed. `formed` is true if `live` is known
/// to have the form of its type.
pub(crate) async fn update(stage: &Stage<'_>, live: Option<&Value>, formed: bool, object: &mut Value) {
    let managers = stage.environment.field_managers;
    let Some(webhook) = webhook(stage.target) else {
        return match live.filter(|_| formed).zip(managers.of(stage.target)) {
            Some((live, manager)) => {
                let (name, now) = (&stage.target.writer.manager, stage.target.request.now);
                note(stage.target, object, |new| manager.update_valid(live, new, name, now));
            }
            None => update_as(managers, stage.target, live, object),
        };
    };
    let (new, name) = (std::mem::take(object), &stage.target.writer.manager);
    let run = |manager: &FieldManager| manager.update(live, new.clone(), name, stage.target.request.now);
    *object = Box::pin(with_webhook(stage, webhook, run)).await;
}

/// Tracks an update by a write that is not a run of its own, and whose kind has one version.
pub fn update_as(field_managers: &FieldManagers, target: &Target, live: Option<&Value>, object: &mut Value) {
    if let Some(manager) = field_managers.of(target) {
        let (name, now) = (&target.writer.manager, target.request.now);
        note(target, object, |new| manager.update(live, new, name, now));
    }
}

/// Calls `record` to write the managers into a new object. `record` receives the object after conversion through other
/// versions, which may lose some of its fields.
fn note(target: &Target, object: &mut Value, record: impl FnOnce(Value) -> Value) {
    if target.resource.capabilities.converts.is_none() {
        *object = record(std::mem::take(object));
        return;
    }
    let noted = record(target.resource.round_trip(object.clone()));
    metadata::take(object, &noted, &["metadata", "managedFields"]);
}

/// Returns `stored` with the managers of `object`, which is the same object in another version: an apply that changes
/// no field keeps the stored object, even if conversion through other versions would change it.
pub(crate) fn with_managers_of(stored: &Value, object: &Value) -> Value {
    let mut kept = stored.clone();
    for path in [
        &["metadata", "managedFields"][..],
        &["metadata", "annotations", LAST_APPLIED],
    ] {
        match object.at(path) {
            Some(said) => kept.set_at(path, said.clone()),
            None => drop(kept.remove_at(path)),
        }
    }
    kept
}

/// Merges a configuration into the existing object.
pub(crate) async fn apply(
    stage: &Stage<'_>,
    live: Option<&Value>,
    configuration: &Value,
    force: bool,
) -> Result<Applied, Error> {
    let target = stage.target;
    let run =
        |manager: &FieldManager| manager.apply(live, configuration, &target.writer.manager, force, target.request.now);
    let applied = match webhook(target) {
        Some(webhook) => Box::pin(with_webhook(stage, webhook, run)).await,
        None => {
            let manager = stage.environment.field_managers.of(target);
            run(manager
                .ok_or_else(|| Error::internal("the kind has no types"))?
                .as_ref())
        }
    };
    applied.map_err(refused)
}

/// Returns the webhook that converts for managers of other versions.
fn webhook(target: &Target) -> Option<&ConversionWebhook> {
    let webhook = target.resource.conversion_webhook()?;
    (target.body.kind == target.resource.kind).then_some(webhook)
}

/// Runs `run` with a field manager that has the conversions by the webhook so far. Merging is synchronous: it fails if
/// an object is not converted yet, and runs again after the conversion.
async fn with_webhook<T>(stage: &Stage<'_>, webhook: &ConversionWebhook, run: impl Fn(&FieldManager) -> T) -> T {
    let (managers, target) = (stage.environment.field_managers, stage.target);
    let (resource, own) = (&target.resource, &target.api_version);
    let versions = Arc::new(WebhookVersions::new(managers.versions(resource), own.clone()));
    let known: Arc<dyn Versions> = versions.clone();
    let manager = managers.make(resource, own, &target.subresource, known);
    loop {
        let outcome = run(&manager);
        let Some(wanted) = versions.wanted() else {
            return outcome;
        };
        drop(outcome);
        let objects = [wanted.object.clone()];
        let converted = stage
            .environment
            .callers
            .convert(webhook, &objects, &wanted.api_version)
            .await;
        let converted = converted.map(|mut objects| objects.pop().unwrap_or_default());
        versions.learn(wanted, converted.map_err(|failure| failure.message));
    }
}

/// Returns the error of a failed apply.
fn refused(error: ApplyError) -> Error {
    match error {
        ApplyError::Conflicts(conflicts) => {
            let pairs: Vec<(String, String)> = conflicts
                .iter()
                .map(|conflict| (conflict.manager.clone(), conflict.path.clone()))
                .collect();
            ErrorKind::ApplyConflict(pairs).into()
        }
        ApplyError::WrongKind(_) | ApplyError::ManagedFieldsInConfiguration => Error::bad_request(error.to_string()),
        ApplyError::Decode(_) | ApplyError::Failed(_) => Error::unclassified(error.to_string()),
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "what fails here is the test")]
mod tests {
    use holdfast_value::{Limits, yaml};

    use super::*;
    use crate::testing::World;

    fn tree(text: &str) -> Value {
        yaml::parse(text.as_bytes(), &Limits::REQUEST).unwrap()
    }

    /// Returns the target of a Deployment, and of its `subresource`.
    fn target(world: &World, subresource: &str) -> Target {
        let object = tree("{apiVersion: apps/v1, kind: Deployment, metadata: {name: a}}");
        let group_resource = GroupResource {
            group: "apps".into(),
            resource: "deployments".into(),
        };
        let mut resources = world.registry.resources();
        let resource = resources.find(|known| known.group_resource() == group_resource);
        world.target(resource.unwrap(), &object, subresource)
    }

    #[test]
    fn field_manager_is_cached_until_its_resource_is_forgotten() {
        let world = World::new(holdfast_kinds::registry(&holdfast_kinds::Config::default()).unwrap());
        let managers = FieldManagers::new(Arc::clone(world.registry.types()));
        let (object, status) = (target(&world, ""), target(&world, "status"));
        let first = managers.of(&object).unwrap();
        assert!(Arc::ptr_eq(&first, &managers.of(&object).unwrap()));
        assert!(!Arc::ptr_eq(&first, &managers.of(&status).unwrap()));
        managers.forget(&object.resource);
        assert!(!Arc::ptr_eq(&first, &managers.of(&object).unwrap()));
    }

    #[test]
    fn an_apply_that_changes_no_field_changes_managers_alone() {
        let stored = tree(
            "{metadata: {name: a, managedFields: [{manager: x}], annotations: {kubectl.kubernetes.io/last-applied-configuration: \
             old, b: c}}, spec: {stored: 1}}",
        );
        let shown =
            tree("{metadata: {name: a, managedFields: [{manager: y}], annotations: {b: other}}, spec: {shown: 1}}");
        assert_eq!(
            with_managers_of(&stored, &shown),
            tree("{metadata: {name: a, managedFields: [{manager: y}], annotations: {b: c}}, spec: {stored: 1}}")
        );
    }
}
