//! Field managers of the resources and subresources that are written to.

use std::collections::HashMap;
use std::sync::Arc;

use holdfast_merge::{Path, Schema, Set, TypeRef, Typed};
use holdfast_ownership::{FieldChange, FieldManager, OneVersion, Versions, changed_fields};
use holdfast_resource::{ConversionError, Resource};
use holdfast_schema::{GroupResource, KindTypes};
use holdfast_value::{SmolStr, Value};
use parking_lot::RwLock;

use crate::error::Error;
use crate::target::Target;

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

    /// Compares two versions of the object that `target` names, both in its `apiVersion`. Returns the different fields.
    ///
    /// # Errors
    /// [`ErrorKind::Internal`](crate::ErrorKind::Internal) if the versions cannot be compared.
    pub fn compare(&self, target: &Target, before: &Value, after: &Value) -> Result<Vec<FieldChange>, Error> {
        let merge_type = target.body.kind_type.as_ref().and_then(|kind| kind.merge_type());
        let of_type = merge_type.and_then(|(schema, type_ref)| {
            let typed = |object: &Value| Typed::unchecked(object.clone(), Arc::clone(&schema), type_ref);
            changed_fields(typed(before), typed(after)).ok()
        });
        // Objects that do not fit their type, such as lists with repeated keys, are compared by position.
        of_type.map_or_else(
            || {
                let compared = changed_fields(Typed::deduced(before.clone()), Typed::deduced(after.clone()));
                compared.map_err(|error| Error::internal(error.to_string()))
            },
            Ok,
        )
    }

    /// Returns the field manager for writes to `target`.
    pub(crate) fn for_target(&self, target: &Target) -> Option<Arc<FieldManager>> {
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

    /// Returns the versions of a resource.
    pub(crate) fn versions(&self, resource: &Arc<Resource>) -> ResourceVersions {
        ResourceVersions {
            resource: Arc::clone(resource),
            types: Arc::clone(&self.types),
        }
    }

    /// Creates a field manager.
    pub(crate) fn make(
        &self,
        resource: &Arc<Resource>,
        api_version: &SmolStr,
        subresource: &SmolStr,
        versions: Arc<dyn Versions>,
    ) -> FieldManager {
        let reset: Vec<_> = resource
            .versions
            .iter()
            .map(|version| {
                let paths = match version.subresource(subresource) {
                    Some(subresource) => &subresource.reset_fields,
                    None => &version.reset_fields,
                };
                let set: Set = paths
                    .iter()
                    .map(|path| Path::from_fields(path.iter().map(SmolStr::as_str)))
                    .collect();
                (version.api_version.clone(), set)
            })
            .filter(|(_, set)| !set.is_empty())
            .collect();
        let kind_type = resource.body_type(&self.types, api_version, &resource.kind);
        let empty = kind_type.map(|kind| kind.empty());
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
        let known = self.resource.crd.is_some() || served();
        let kind = known.then(|| self.resource.kind_type(api_version));
        kind.flatten()?.merge_type()
    }

    /// Custom resources convert before they look up the merge type, so a version that their CRD does not list is an error. A
    /// version that the CRD lists and does not serve is none.
    fn missing_version_error(&self, api_version: &str) -> Option<String> {
        let is_missing = self.resource.crd.is_some() && self.resource.kind_type(api_version).is_none();
        is_missing.then(|| ConversionError::NoSuchTarget(api_version.to_owned()).to_string())
    }

    fn convert(&self, object: &Value, api_version: &str) -> Result<Value, String> {
        let converted = self
            .resource
            .convert_for_managers(object.clone(), api_version)
            .map_err(|error| error.to_string())?;
        match self.resource.body_type(&self.types, api_version, &self.resource.kind) {
            Some(of) => of.converted_for_managers(converted),
            None => Ok(converted),
        }
    }
}
