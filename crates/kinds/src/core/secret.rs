//! Secrets: <https://kubernetes.io/docs/concepts/configuration/secret/>.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use holdfast_resource::metadata::formats::config_key;
use holdfast_resource::{Field, FieldError, Refusal, Strategy, WriteContext};
use holdfast_value::{Limits, Value, json};

use super::configmap::{DATA_SIZE, decoded_length, validate_frozen};
use crate::validation::{Errors, immutable};

/// What only Secrets do.
pub(crate) struct Secret;

impl Strategy for Secret {
    fn default_fields(&self, _version: &str, object: &mut Value) {
        let Some(Value::Map(texts)) = object.as_map_mut().and_then(|object| object.remove("stringData")) else {
            return;
        };
        for (key, text) in &texts {
            let encoded = STANDARD.encode(text.as_str().unwrap_or_default());
            object.set_at(&["data", key.as_str()], encoded.into());
        }
    }

    fn prepare_for_update(&self, _context: &WriteContext<'_>, object: &mut Value, old: &Value) -> Result<(), Refusal> {
        if object.str_at(&["type"]).unwrap_or_default().is_empty()
            && let Some(sort) = old.get("type")
        {
            object.set_at(&["type"], sort.clone());
        }
        Ok(())
    }

    fn validate(&self, _context: &WriteContext<'_>, object: &Value) -> Vec<FieldError> {
        let root = Field::root(object);
        let data = root.child("data");
        let mut errors = Errors::new();
        let mut size = 0;
        for (key, value) in data.entries() {
            errors.extend(config_key(key).into_iter().map(|fault| value.invalid_as(key, fault)));
            size += decoded_length(value.text());
        }
        if size > DATA_SIZE {
            errors.push(data.too_long(DATA_SIZE));
        }
        validate_parts(&root, &data, &mut errors);
        errors
    }

    fn validate_update(&self, context: &WriteContext<'_>, object: &Value, old: &Value) -> Vec<FieldError> {
        let (new_root, old_root) = (Field::root(object), Field::root(old));
        let mut errors = Errors::new();
        immutable(&new_root.child("type"), &old_root.child("type"), &mut errors);
        errors.extend(validate_frozen(object, old, &["data"]));
        errors.extend(self.validate(context, object));
        errors
    }
}

/// Checks that a Secret holds what its type asks for.
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

fn require_json(data: &Field<'_, '_>, key: &str, errors: &mut Errors) {
    let entry = data.entry(key);
    if !entry.is_set() {
        errors.push(entry.required(""));
        return;
    }
    let decoded = STANDARD.decode(entry.text()).unwrap_or_default();
    let fault = match json::parse(&decoded, &Limits::default()) {
        Ok(Value::Map(_) | Value::Null) => return,
        Err(error) => error.to_string(),
        Ok(_) => "json: cannot unmarshal into Go value of type map[string]interface {}".to_owned(),
    };
    errors.push(entry.invalid_as("<secret contents redacted>", fault));
}
