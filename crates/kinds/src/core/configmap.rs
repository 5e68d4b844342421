//! ConfigMaps: <https://kubernetes.io/docs/concepts/configuration/configmap/>.

use holdfast_kind_tables::Kind;
use holdfast_kind_tables::metadata_checks::{COMMON_CHECKS, in_order};
use holdfast_resource::{Strategy, WriteContext};
use holdfast_schema::metadata::formats::config_key;
use holdfast_schema::{Field, FieldError, FieldPath, UpdateOrder};
use holdfast_value::Value;

use crate::defaults::empty_for_null;
use crate::kind::kind;
use crate::validation::{Errors, same};

/// Maximum size in bytes of all values of a ConfigMap or a Secret together.
pub(crate) const DATA_SIZE: usize = 1024 * 1024;

/// Rules of ConfigMaps only.
pub(crate) struct ConfigMap;

/// Returns the kind with its capabilities.
pub(super) fn declare() -> Kind {
    kind(ConfigMap)
        .counted_by_plural()
        .metadata_checks(in_order(UpdateOrder::ChangesFirst, COMMON_CHECKS))
        .done()
}

impl Strategy for ConfigMap {
    /// upstream: pkg/apis/core/v1#SetDefaults_ConfigMap
    fn default_fields(&self, _version: &str, object: &mut Value) {
        empty_for_null(object, "binaryData");
    }

    /// upstream: pkg/registry/core/configmap#strategy.Validate
    fn validate(&self, _context: &WriteContext<'_>, object: &Value) -> Vec<FieldError> {
        let root = Field::root(object);
        let mut errors = Errors::new();
        let (data, binary) = (root.child("data"), root.child("binaryData"));
        let mut size = 0;
        for (key, value) in data.entries() {
            errors.extend(
                config_key(key)
                    .into_iter()
                    .map(|message| value.invalid_as(key, message)),
            );
            if binary.entry(key).is_set() {
                errors.push(value.invalid_as(key, "duplicate of key present in binaryData"));
            }
            size += value.text().len();
        }
        for (key, value) in binary.entries() {
            errors.extend(
                config_key(key)
                    .into_iter()
                    .map(|message| value.invalid_as(key, message)),
            );
            size += decoded_length(value.text());
        }
        if size > DATA_SIZE {
            // The reference builds this path from an empty name, which prints as brackets.
            errors.push(FieldError::too_long(&FieldPath::new("[]"), DATA_SIZE));
        }
        errors
    }

    /// upstream: pkg/registry/core/configmap#strategy.ValidateUpdate
    fn validate_update(&self, context: &WriteContext<'_>, object: &Value, old: &Value) -> Vec<FieldError> {
        let mut errors = validate_frozen(object, old, &["data", "binaryData"]);
        errors.extend(context.rest_of_metadata(object, old));
        errors.extend(self.validate(context, object));
        errors
    }
}

/// Reports changes of an object that `immutable` forbids.
///
/// upstream: pkg/apis/core/validation#ValidateConfigMapUpdate
/// upstream: pkg/apis/core/validation#ValidateSecretUpdate
pub(crate) fn validate_frozen(object: &Value, old: &Value, parts: &[&str]) -> Errors {
    let (new, old) = (Field::root(object), Field::root(old));
    let mut errors = Errors::new();
    if !old.child("immutable").is_true() {
        return errors;
    }
    const FROZEN: &str = "field is immutable when `immutable` is set";
    let flag = new.child("immutable");
    if !flag.is_true() {
        errors.push(flag.forbidden(FROZEN));
    }
    for part in parts {
        let field = new.child(part);
        if !same(field.value(), old.child(part).value()) {
            errors.push(field.forbidden(FROZEN));
        }
    }
    errors
}

/// Returns the number of bytes that base64 text decodes to.
pub(crate) fn decoded_length(text: &str) -> usize {
    let digits = text
        .bytes()
        .filter(|byte| !matches!(byte, b'=' | b'\r' | b'\n'))
        .count();
    digits * 3 / 4
}

#[cfg(test)]
mod tests {
    use crate::harness::Harness;

    const SETTINGS: &str = "{apiVersion: v1, kind: ConfigMap, metadata: {name: a}, data: {k: v}}";

    #[test]
    fn keys_can_be_files_and_stand_once() {
        let harness = Harness::new();
        assert!(harness.errors(SETTINGS).is_empty());
        assert_eq!(
            harness.errors(&SETTINGS.replace("data:", "binaryData: {k: aGk=}, data:")),
            [r#"data[k]: Invalid value: "k": duplicate of key present in binaryData"#]
        );
        assert_eq!(
            harness.errors(&SETTINGS.replace("k: v", "..: v")),
            [r#"data[..]: Invalid value: "..": must not be '..'"#]
        );
    }

    #[test]
    fn errors_of_a_change_are_reported_before_those_of_the_whole() {
        let frozen = SETTINGS.replace(", data:", ", immutable: true, data:");
        let wrong = frozen
            .replace("name: a}", "name: a, labels: {a: '-'}}")
            .replace("k: v", "..: v");
        let errors = Harness::new().update_errors(&frozen, &wrong);
        let fields: Vec<&str> = errors.iter().filter_map(|error| error.split(": ").next()).collect();
        let label = "metadata.labels";
        assert_eq!(fields, [label, label, label, "data", label, "data[..]"]);
    }

    #[test]
    fn a_mebibyte_of_values_is_the_most() {
        let map_of_size = |size: usize| SETTINGS.replace("k: v", &format!("k: {}", "x".repeat(size)));
        assert!(Harness::new().errors(&map_of_size(super::DATA_SIZE)).is_empty());
        assert_eq!(
            Harness::new().errors(&map_of_size(super::DATA_SIZE + 1)),
            ["[]: Too long: may not be more than 1048576 bytes"]
        );
    }

    #[test]
    fn immutable_config_map_rejects_changes() {
        let frozen = SETTINGS.replace(", data:", ", immutable: true, data:");
        assert_eq!(
            Harness::new().update_errors(&frozen, &SETTINGS.replace("k: v", "k: w")),
            [
                "immutable: Forbidden: field is immutable when `immutable` is set",
                "data: Forbidden: field is immutable when `immutable` is set",
            ]
        );
        assert!(Harness::new().update_errors(SETTINGS, &frozen).is_empty());
    }
}
