//! Versions of a kind: their types, and the conversion between them.

use std::sync::Arc;

use holdfast_merge::{ConvertError, Converter, Duplicates, Schema, TypeRef, Typed};
use holdfast_value::{SmolStr, Value};

/// Types and conversions of a kind's versions, as a field manager needs them.
///
/// ```
/// use std::sync::Arc;
/// use holdfast_merge::{Schema, TypeRef};
/// use holdfast_ownership::Versions;
/// use holdfast_value::Value;
///
/// /// Kind whose two versions have the same schema.
/// struct TwoVersions {
///     schema: Arc<Schema>,
///     merge_type: TypeRef,
/// }
///
/// impl Versions for TwoVersions {
///     fn merge_type(&self, api_version: &str) -> Option<(Arc<Schema>, TypeRef)> {
///         ["v1", "v2"].contains(&api_version).then(|| (self.schema.clone(), self.merge_type))
///     }
///     fn convert(&self, object: &Value, api_version: &str) -> Result<Value, String> {
///         let mut object = object.clone();
///         object.set_at(&["apiVersion"], api_version.into());
///         Ok(object)
///     }
/// }
/// ```
pub trait Versions: Send + Sync {
    /// Returns the merge type of the kind in `api_version` (such as `apps/v1`). `None` if that version does not exist
    /// (any more).
    fn merge_type(&self, api_version: &str) -> Option<(Arc<Schema>, TypeRef)>;

    /// Returns the error for a manager of a version that has no merge type. `None` (the default) drops the manager instead.
    ///
    /// kube-apiserver drops managers of built-in versions that are gone. For custom resources it fails: an apply returns this
    /// error, and an update clears all managed fields.
    fn missing_version_error(&self, _api_version: &str) -> Option<String> {
        None
    }

    /// Converts the object to another version. Never called with the object's own version.
    ///
    /// # Errors
    /// Returns the reason for the message of a 500.
    fn convert(&self, object: &Value, api_version: &str) -> Result<Value, String>;
}

/// Versions of a kind that has only one.
///
/// ```
/// use std::sync::Arc;
/// use holdfast_merge::{DEDUCED, SchemaBuilder};
/// use holdfast_ownership::{OneVersion, Versions};
///
/// let schema = Arc::new(SchemaBuilder::new().define_deduced().build());
/// let any = schema.named(DEDUCED).unwrap();
/// let versions = OneVersion::new("v1", schema, any);
/// assert!(versions.merge_type("v1").is_some());
/// assert!(versions.merge_type("v2").is_none());
/// ```
pub struct OneVersion {
    api_version: SmolStr,
    schema: Arc<Schema>,
    merge_type: TypeRef,
}

impl OneVersion {
    /// Creates the only version of a kind whose objects have the type `merge_type` of `schema`.
    pub fn new(api_version: impl Into<SmolStr>, schema: Arc<Schema>, merge_type: TypeRef) -> Self {
        Self {
            api_version: api_version.into(),
            schema,
            merge_type,
        }
    }
}

impl Versions for OneVersion {
    fn merge_type(&self, api_version: &str) -> Option<(Arc<Schema>, TypeRef)> {
        (api_version == self.api_version).then(|| (Arc::clone(&self.schema), self.merge_type))
    }

    fn convert(&self, _object: &Value, api_version: &str) -> Result<Value, String> {
        Err(format!("no conversion from {} to {api_version}", self.api_version))
    }
}

/// Converter of typed objects for the merge engine.
#[derive(Clone)]
pub(crate) struct VersionConverter(pub(crate) Arc<dyn Versions>);

impl Converter for VersionConverter {
    fn convert(&self, object: &Typed, version: &str) -> Result<Typed, ConvertError> {
        if object.value().str_at(&["apiVersion"]) == Some(version) {
            return Ok(object.clone());
        }
        let Some((schema, merge_type)) = self.0.merge_type(version) else {
            return Err(match self.0.missing_version_error(version) {
                Some(message) => ConvertError::Failed(message.into()),
                None => ConvertError::MissingVersion(SmolStr::new(version)),
            });
        };
        let converted = self
            .0
            .convert(object.value(), version)
            .map_err(|message| ConvertError::Failed(message.into()))?;
        Typed::new(converted, schema, merge_type, Duplicates::Rejected)
            .map_err(|error| ConvertError::Failed(error.into()))
    }
}
