//! Rules for the metadata of every kind, and the text formats that metadata shares with the fields of kinds.

use holdfast_value::Value;

mod checks;
pub mod conditions;
pub mod formats;
pub mod labels;
mod name;
mod validation;

pub use checks::{CreationChecks, MetadataChecks, MetadataRules, RepeatedChecks, UpdateOrder};
pub use name::NameRule;
pub use validation::{
    FIELD_MANAGER_MAX_BYTES, rest_of_metadata_update, validate_annotations, validate_embedded_metadata,
    validate_field_manager, validate_managed_fields, validate_metadata, validate_metadata_update,
    validate_metadata_whole, validate_scale_metadata,
};

/// Returns an object with only its kind and its name; it is in no namespace if `namespace` is empty.
pub fn new_object(api_version: &str, kind: &str, namespace: &str, name: &str) -> Value {
    let mut object = Value::empty_map();
    object.set_at(&["apiVersion"], api_version.into());
    object.set_at(&["kind"], kind.into());
    object.set_at(&["metadata", "name"], name.into());
    if !namespace.is_empty() {
        object.set_at(&["metadata", "namespace"], namespace.into());
    }
    object
}
