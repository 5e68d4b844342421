//! Strategy of all custom resources: objects are validated by the schema of their version. With the conversion strategy
//! `None`, conversion changes only `apiVersion` and drops the fields that the other version does not specify. With
//! `Webhook`, a webhook converts an object to another version.

use std::collections::BTreeSet;
use std::sync::Arc;

use holdfast_resource::{ConversionError, Converts, Rejection, Strategy, WriteContext};
use holdfast_schema::{FieldError, KindType as _, NoRules, ScaleFields};
use holdfast_structural::CustomSchema;
use holdfast_value::{SmolStr, Value};

use crate::defaults::put_at;

/// Strategy of a resource that a CRD defines.
pub(crate) struct CustomResource {
    /// True if the CRD is terminating, so that no object may be created.
    pub(crate) terminating: bool,
    /// All versions of the CRD, served or not.
    pub(crate) versions: Vec<Version>,
    /// True if a webhook converts objects. If false, conversion follows the strategy `None`.
    pub(crate) by_webhook: bool,
}

/// A version of a CRD.
pub(crate) struct Version {
    /// Name such as `v1`.
    pub(crate) name: SmolStr,
    /// The `apiVersion` of the objects.
    pub(crate) api_version: SmolStr,
    /// Type of the objects.
    pub(crate) schema: Arc<CustomSchema>,
    /// True if the version has a status subresource.
    pub(crate) has_status: bool,
    /// Field paths of the scale subresource.
    pub(crate) scale: Option<ScaleFields>,
}

/// Finalizers that need no domain.
const STANDARD_FINALIZERS: [&str; 3] = ["orphan", "foregroundDeletion", "kubernetes"];

impl CustomResource {
    fn version_of(&self, object: &Value) -> Option<&Version> {
        let api_version = object.str_at(&["apiVersion"]).unwrap_or_default();
        self.versions.iter().find(|version| version.api_version == api_version)
    }

    /// Returns the version to convert an object to. The object must itself be in an existing version.
    fn target(&self, api_version: &str, object: &Value) -> Result<&Version, ConversionError> {
        let mut versions = self.versions.iter();
        let target = versions
            .find(|version| version.api_version == api_version)
            .ok_or_else(|| ConversionError::NoSuchTarget(api_version.to_owned()))?;
        if self.version_of(object).is_none() {
            let from = object.str_at(&["apiVersion"]).unwrap_or_default();
            return Err(ConversionError::NoSuchSource(from.to_owned()));
        }
        Ok(target)
    }
}

impl Strategy for CustomResource {
    /// upstream: k8s.io/apiextensions-apiserver/pkg/registry/customresource#customResourceStrategy.PrepareForCreate
    fn prepare_for_create(&self, _context: &WriteContext<'_>, _object: &mut Value) -> Result<(), Rejection> {
        if self.terminating {
            let why = "create not allowed while custom resource definition is terminating";
            return Err(Rejection::forbidden(why));
        }
        Ok(())
    }

    /// upstream: k8s.io/apiextensions-apiserver/pkg/registry/customresource#customResourceStrategy.PrepareForUpdate
    /// upstream: k8s.io/apiextensions-apiserver/pkg/registry/customresource#statusStrategy.PrepareForUpdate
    fn prepare_for_update(&self, context: &WriteContext<'_>, object: &mut Value, old: &Value) -> Result<(), Rejection> {
        if context.subresource == Some("status") {
            keep_all_but_status(object, old);
        }
        Ok(())
    }

    /// upstream: k8s.io/apiextensions-apiserver/pkg/registry/customresource#customResourceStrategy.ValidateUpdate
    /// upstream: k8s.io/apiextensions-apiserver/pkg/registry/customresource#statusStrategy.ValidateUpdate
    fn validate_update(&self, context: &WriteContext<'_>, object: &Value, old: &Value) -> Vec<FieldError> {
        context.check_update(object, old, &NoRules)
    }

    /// upstream: k8s.io/apiextensions-apiserver/pkg/registry/customresource#customResourceStrategy.WarningsOnCreate
    /// upstream: k8s.io/apiextensions-apiserver/pkg/registry/customresource#customResourceStrategy.WarningsOnUpdate
    fn warnings(&self, _context: &WriteContext<'_>, object: &Value, old: Option<&Value>) -> Vec<String> {
        fn finalizers(object: &Value) -> impl Iterator<Item = SmolStr> {
            let list = object.at(&["metadata", "finalizers"]).and_then(Value::as_list);
            let texts = list.map_or(&[][..], |list| list).iter().filter_map(Value::as_str);
            texts.map(SmolStr::new)
        }
        let before: BTreeSet<SmolStr> = old.into_iter().flat_map(finalizers).collect();
        let mut new: Vec<SmolStr> = finalizers(object).collect();
        new.retain(|name| !before.contains(name) && !STANDARD_FINALIZERS.contains(&name.as_str()));
        new.sort_unstable();
        let warn = |name: SmolStr| {
            let path = match (name.contains('/'), name.contains('.')) {
                (true, _) => return None,
                (false, true) => " including a path (/)",
                (false, false) => "",
            };
            Some(format!(
                "metadata.finalizers: {:?}: prefer a domain-qualified finalizer name{path} to avoid accidental conflicts with other finalizer writers",
                name.as_str()
            ))
        };
        new.into_iter().filter_map(warn).collect()
    }
}

impl Converts for CustomResource {
    /// Converts an object, which already has the defaults of its own version, to another version. Fields that the other
    /// version does not specify are dropped, and nothing is added.
    fn convert(&self, object: Value, to_api_version: &str) -> Result<Value, ConversionError> {
        let object = match self.version_of(&object) {
            Some(version) => version.schema.get().served_form(&object)?,
            None => object,
        };
        self.convert_written(object, to_api_version)
    }

    fn convert_written(&self, mut object: Value, to_api_version: &str) -> Result<Value, ConversionError> {
        let target = self.target(to_api_version, &object)?;
        if object.str_at(&["apiVersion"]) == Some(to_api_version) {
            return Ok(object);
        }
        if self.by_webhook {
            return Err(ConversionError::Unknown {
                from: object.str_at(&["apiVersion"]).unwrap_or_default().to_owned(),
                to: to_api_version.to_owned(),
            });
        }
        object.set_at(&["apiVersion"], target.api_version.clone().into());
        Ok(target.schema.prune(object))
    }

    fn convert_for_managers(&self, mut object: Value, to_api_version: &str) -> Result<Value, ConversionError> {
        let version = self.target(to_api_version, &object)?;
        object.set_at(&["apiVersion"], version.api_version.clone().into());
        Ok(object)
    }
}

/// Restores everything but the status, managed fields and resource version for a write to the status subresource.
fn keep_all_but_status(object: &mut Value, old: &Value) {
    let mut kept = old.clone();
    for path in [
        &["status"][..],
        &["metadata", "managedFields"],
        &["metadata", "resourceVersion"],
    ] {
        put_at(&mut kept, path, object.at(path).cloned());
    }
    *object = kept;
}
