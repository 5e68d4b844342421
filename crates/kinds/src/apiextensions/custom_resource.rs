//! What all custom resources do: their objects are checked by the schema of their version. With the strategy `None`
//! conversion changes nothing but `apiVersion` and what the other version does not specify; with the strategy `Webhook`
//! somebody else says what an object is in another version.

use std::collections::BTreeSet;
use std::sync::Arc;

use holdfast_resource::structural::{CustomSchema, CustomType};
use holdfast_resource::{
    ConversionError, Converts, FieldError, FieldPath, Refusal, ScaleFields, Strategy, WriteContext, nested_integer,
    nested_path, nested_text,
};
use holdfast_value::{SmolStr, Value};

/// The strategy of a resource that a definition describes.
pub(crate) struct CustomResource {
    /// Whether the definition is about to go, so that nothing new may come.
    pub(crate) terminating: bool,
    /// All versions of the definition, served or not.
    pub(crate) versions: Vec<Version>,
    /// Whether a webhook converts objects; otherwise conversion changes nothing.
    pub(crate) by_webhook: bool,
}

/// A version of a definition.
pub(crate) struct Version {
    /// The name, such as `v1`.
    pub(crate) name: SmolStr,
    /// The `apiVersion` of its objects.
    pub(crate) api_version: SmolStr,
    /// The type of its objects.
    pub(crate) schema: Arc<CustomSchema>,
    /// Whether the status is written apart.
    pub(crate) has_status: bool,
    /// Where the numbers of a Scale stand.
    pub(crate) scale: Option<ScaleFields>,
}

/// Finalizers that need no domain.
const STANDARD_FINALIZERS: [&str; 3] = ["orphan", "foregroundDeletion", "kubernetes"];

impl CustomResource {
    fn version_of(&self, object: &Value) -> Option<&Version> {
        let api_version = object.str_at(&["apiVersion"]).unwrap_or_default();
        self.versions.iter().find(|version| version.api_version == api_version)
    }

    /// The version that an object is to be converted to, which must itself be in a version that there is.
    fn target(&self, api_version: &str, object: &Value) -> Result<&Version, ConversionError> {
        let mut versions = self.versions.iter();
        let target = versions.find(|version| version.api_version == api_version);
        let target = target.ok_or_else(|| ConversionError::NoSuchTarget(api_version.to_owned()))?;
        if self.version_of(object).is_none() {
            let from = object.str_at(&["apiVersion"]).unwrap_or_default();
            return Err(ConversionError::NoSuchSource(from.to_owned()));
        }
        Ok(target)
    }

    fn check(&self, object: &Value, check: impl FnOnce(&Version, &CustomType) -> Vec<FieldError>) -> Vec<FieldError> {
        match self.version_of(object) {
            Some(version) => check(version, version.schema.get()),
            None => Vec::new(),
        }
    }
}

impl Strategy for CustomResource {
    fn prepare_for_create(&self, _context: &WriteContext<'_>, _object: &mut Value) -> Result<(), Refusal> {
        if self.terminating {
            let why = "create not allowed while custom resource definition is terminating";
            return Err(Refusal::forbidden(why));
        }
        Ok(())
    }

    fn prepare_for_update(&self, context: &WriteContext<'_>, object: &mut Value, old: &Value) -> Result<(), Refusal> {
        if context.subresource == Some("status") {
            keep_all_but_status(object, old);
        }
        Ok(())
    }

    fn validate(&self, context: &WriteContext<'_>, object: &Value) -> Vec<FieldError> {
        self.check(object, |version, of| {
            let mut errors = of.validate_schema(object, None);
            check_scale(version, object, [true, true], &mut errors);
            of.validate_rest(object, None, &mut errors);
            let warnings = of.validate_rules(object, None, &mut errors);
            warnings.into_iter().for_each(|text| context.warn(text));
            errors
        })
    }

    fn validate_update(&self, context: &WriteContext<'_>, object: &Value, old: &Value) -> Vec<FieldError> {
        let of_status = context.subresource == Some("status");
        self.check(object, |version, of| {
            let mut errors = if of_status {
                of.validate_status(object, old)
            } else {
                of.validate_schema(object, Some(old))
            };
            check_scale(version, object, [!of_status, true], &mut errors);
            of.validate_rest(object, Some(old), &mut errors);
            let warnings = of.validate_rules(object, Some(old), &mut errors);
            warnings.into_iter().for_each(|text| context.warn(text));
            errors
        })
    }

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
    /// An object has the defaults of the version that it is in; another version drops what it does not specify, and adds
    /// nothing.
    fn convert(&self, object: Value, to_api_version: &str) -> Result<Value, ConversionError> {
        let object = match self.version_of(&object) {
            Some(version) => version.schema.get().shown(&object)?,
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
        Ok(target.schema.get().pruned(&object))
    }

    fn convert_for_managers(&self, mut object: Value, to_api_version: &str) -> Result<Value, ConversionError> {
        let version = self.target(to_api_version, &object)?;
        object.set_at(&["apiVersion"], version.api_version.clone().into());
        Ok(object)
    }
}

/// Leaves of a write to the status what is status, and who owns it.
fn keep_all_but_status(object: &mut Value, old: &Value) {
    let mut kept = old.clone();
    let status = object.get("status").cloned();
    match status {
        Some(status) => kept.set_at(&["status"], status),
        None => drop(kept.remove_at(&["status"])),
    }
    for field in ["managedFields", "resourceVersion"] {
        match object.at(&["metadata", field]).cloned() {
            Some(value) => kept.set_at(&["metadata", field], value),
            None => drop(kept.remove_at(&["metadata", field])),
        }
    }
    *object = kept;
}

/// What is wrong with the numbers of the Scale: those of the spec and those of the status, as `sides` says.
fn check_scale(version: &Version, object: &Value, sides: [bool; 2], errors: &mut Vec<FieldError>) {
    let Some(scale) = &version.scale else { return };
    let numbers = [(&scale.spec_replicas, sides[0]), (&scale.status_replicas, sides[1])];
    for (path, _) in numbers.into_iter().filter(|(_, checked)| *checked) {
        let field = FieldPath::new(&nested_path(path));
        match nested_integer(object, path) {
            Ok(Some(number)) if number < 0 => {
                errors.push(FieldError::invalid(&field, number, "should be a non-negative integer"));
            }
            Ok(Some(number)) if number > i64::from(i32::MAX) => {
                let why = format!("should be less than or equal to {}", i32::MAX);
                errors.push(FieldError::invalid(&field, number, why));
            }
            Ok(_) => {}
            Err(why) => errors.push(FieldError::invalid(&field, 0, why)),
        }
    }
    if let Some(path) = scale.selector.as_ref().filter(|_| sides[1])
        && let Err(why) = nested_text(object, path)
    {
        errors.push(FieldError::invalid(&FieldPath::new(&nested_path(path)), "", why));
    }
}
