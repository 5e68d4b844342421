//! Secrets: <https://kubernetes.io/docs/concepts/configuration/secret/>.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use holdfast_kind_tables::Kind;
use holdfast_kind_tables::metadata_checks::{COMMON_CHECKS, in_order};
use holdfast_resource::{Rejection, Strategy, WriteContext};
use holdfast_schema::metadata::formats::config_key;
use holdfast_schema::{Field, FieldError, NoRules, UpdateOrder};
use holdfast_value::{Limits, Value, json};

use super::configmap::{DATA_SIZE, decoded_length, validate_frozen};
use crate::defaults::empty_for_null;
use crate::kind::kind;
use crate::validation::Errors;

/// Rules of Secrets only.
pub(crate) struct Secret;

/// Returns the kind with its capabilities.
pub(super) fn declare() -> Kind {
    kind(Secret)
        .counted_by_plural()
        .metadata_checks(in_order(UpdateOrder::ChangesFirst, COMMON_CHECKS))
        .ends_tokens("secret", "secret")
        .done()
}

impl Strategy for Secret {
    /// upstream: pkg/apis/core/v1#SetDefaults_Secret
    fn default_fields(&self, _version: &str, object: &mut Value) {
        empty_for_null(object, "data");
        let Some(Value::Map(texts)) = object.as_map_mut().and_then(|object| object.remove("stringData")) else {
            return;
        };
        for (key, text) in &texts {
            let encoded = STANDARD.encode(text.as_str().unwrap_or_default());
            object.set_at(&["data", key.as_str()], encoded.into());
        }
    }

    /// upstream: pkg/registry/core/secret#strategy.PrepareForUpdate
    fn prepare_for_update(
        &self,
        _context: &WriteContext<'_>,
        object: &mut Value,
        old: &Value,
    ) -> Result<(), Rejection> {
        if object.str_at(&["type"]).unwrap_or_default().is_empty()
            && let Some(secret_type) = old.get("type")
        {
            object.set_at(&["type"], secret_type.clone());
        }
        Ok(())
    }

    /// upstream: pkg/registry/core/secret#strategy.Validate
    fn validate(&self, _context: &WriteContext<'_>, object: &Value) -> Vec<FieldError> {
        let root = Field::root(object);
        let data = root.child("data");
        let mut errors = Errors::new();
        let mut size = 0;
        for (key, value) in data.entries() {
            errors.extend(
                config_key(key)
                    .into_iter()
                    .map(|message| value.invalid_as(key, message)),
            );
            size += decoded_length(value.text());
        }
        if size > DATA_SIZE {
            errors.push(data.too_long(DATA_SIZE));
        }
        validate_parts(&root, &data, &mut errors);
        errors
    }

    /// upstream: pkg/registry/core/secret#strategy.WarningsOnCreate
    /// upstream: pkg/registry/core/secret#strategy.WarningsOnUpdate
    fn warnings(&self, _context: &WriteContext<'_>, object: &Value, _old: Option<&Value>) -> Vec<String> {
        if object.str_at(&["type"]) != Some("kubernetes.io/tls") {
            return Vec::new();
        }
        let part = |key: &str| object.str_at(&["data", key]).unwrap_or_default();
        let message = crate::certificates::key_pair_error(part("tls.crt"), part("tls.key"));
        message.into_iter().collect()
    }

    /// upstream: pkg/registry/core/secret#strategy.ValidateUpdate
    fn validate_update(&self, context: &WriteContext<'_>, object: &Value, old: &Value) -> Vec<FieldError> {
        let mut errors = context.check_changes(object, old, &NoRules);
        errors.extend(validate_frozen(object, old, &["data"]));
        errors.extend(context.rest_of_metadata(object, old));
        errors.extend(self.validate(context, object));
        errors
    }
}

/// Validates that a Secret has the keys that its type requires.
///
/// upstream: pkg/apis/core/validation#ValidateSecret
fn validate_parts(root: &Field<'_, '_>, data: &Field<'_, '_>, errors: &mut Errors) {
    let require = |key: &str, errors: &mut Errors| {
        let entry = data.entry(key);
        if !entry.is_set() {
            errors.push(entry.required(""));
        }
    };
    match root.child("type").text() {
        "kubernetes.io/service-account-token" => {
            let metadata = root.child("metadata");
            let annotations = metadata.child("annotations");
            let account = annotations.entry("kubernetes.io/service-account.name");
            if account.text().is_empty() {
                errors.push(account.required(""));
            }
        }
        "kubernetes.io/dockercfg" => require_json(data, ".dockercfg", errors),
        "kubernetes.io/dockerconfigjson" => require_json(data, ".dockerconfigjson", errors),
        "kubernetes.io/basic-auth" if !data.entry("username").is_set() && !data.entry("password").is_set() => {
            require("username", errors);
            require("password", errors);
        }
        "kubernetes.io/ssh-auth" if data.entry("ssh-privatekey").text().is_empty() => {
            errors.push(data.entry("ssh-privatekey").required(""));
        }
        "kubernetes.io/tls" => {
            require("tls.crt", errors);
            require("tls.key", errors);
        }
        _ => {}
    }
}

/// upstream: pkg/apis/core/validation#ValidateSecret
fn require_json(data: &Field<'_, '_>, key: &str, errors: &mut Errors) {
    let entry = data.entry(key);
    if !entry.is_set() {
        errors.push(entry.required(""));
        return;
    }
    let decoded = STANDARD.decode(entry.text()).unwrap_or_default();
    let message = match json::parse(&decoded, &Limits::default()) {
        Ok(Value::Map(_) | Value::Null) => return,
        Err(error) => error.to_string(),
        Ok(_) => "json: cannot unmarshal into Go value of type map[string]interface {}".to_owned(),
    };
    errors.push(entry.invalid_as("<secret contents redacted>", message));
}

#[cfg(test)]
mod tests {
    use crate::harness::{Harness, at};

    #[test]
    fn data_that_is_null_is_empty() {
        let secret = "{apiVersion: v1, kind: Secret, metadata: {name: a}, type: kubernetes.io/tls, data: {tls.crt: null, tls.key: YQ==}}";
        assert_eq!(
            at(&Harness::new().create(secret), "data"),
            r#"{"tls.crt":"","tls.key":"YQ=="}"#
        );
        assert!(Harness::new().errors(secret).is_empty());
    }

    #[test]
    fn plain_text_is_written_over_the_encoded_data() {
        let created = Harness::new().create(
            "{apiVersion: v1, kind: Secret, metadata: {name: a}, data: {a: YQ==, b: Yg==}, stringData: {b: new}}",
        );
        assert_eq!(at(&created, "data"), r#"{"a":"YQ==","b":"bmV3"}"#);
        assert_eq!(
            (at(&created, "stringData"), at(&created, "type")),
            ("nothing".into(), r#""Opaque""#.into())
        );
    }

    #[test]
    fn a_secret_holds_what_its_type_asks_for() {
        let harness = Harness::new();
        let errors = |secret_type: &str, data: &str| {
            harness.errors(&format!(
                "{{apiVersion: v1, kind: Secret, metadata: {{name: a}}, type: {secret_type}, data: {data}}}"
            ))
        };
        assert_eq!(
            errors("kubernetes.io/tls", "{tls.crt: ''}"),
            ["data[tls.key]: Required value"]
        );
        assert_eq!(
            errors("kubernetes.io/basic-auth", "{}"),
            ["data[username]: Required value", "data[password]: Required value"]
        );
        assert!(errors("kubernetes.io/dockercfg", "{.dockercfg: e30=}").is_empty());
        let broken = errors("kubernetes.io/dockercfg", "{.dockercfg: eA==}");
        assert!(
            broken[0].starts_with("data[.dockercfg]: Invalid value: \"<secret contents redacted>\"")
                || broken[0].contains("redacted")
        );
    }

    #[test]
    fn the_type_stays() {
        let plain = "{apiVersion: v1, kind: Secret, metadata: {name: a}}";
        assert_eq!(
            Harness::new().update_errors(plain, "{apiVersion: v1, kind: Secret, metadata: {name: a}, type: x}"),
            [r#"type: Invalid value: "x": field is immutable"#]
        );
    }
}
