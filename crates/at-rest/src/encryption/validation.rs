//! Validation of encryption configurations.

use std::collections::HashSet;
use std::time::Duration;

use base64::Engine as _;
use base64::alphabet;
use base64::engine::general_purpose::{GeneralPurpose, GeneralPurposeConfig};
use holdfast_gotext::quote::quote;
use holdfast_gotext::{duration, url};
use holdfast_schema::{FieldError, FieldPath, GroupResource};
use holdfast_value::{SmolStr, Value};

use super::configuration::{Configuration, Key, KmsConfiguration, ProviderConfiguration};

/// Lengths of AES keys and of keys of a secretbox in bytes.
const AES_KEY_BYTES: &[usize] = &[16, 24, 32];
const SECRETBOX_KEY_BYTES: &[usize] = &[32];

/// Resources without a REST API.
const WITHOUT_API: [&str; 3] = ["apiserveripinfo", "serviceipallocations", "servicenodeportallocations"];

/// Base64 as Go decodes it: unused bits of the last letter may be set, and padding is required.
const BASE64: GeneralPurpose = GeneralPurpose::new(
    &alphabet::STANDARD,
    GeneralPurposeConfig::new().with_decode_allow_trailing_bits(true),
);

/// Returns the group and resource of a name such as `deployments.apps`, `secrets` or `*.`.
///
/// upstream: k8s.io/apimachinery/pkg/runtime/schema#ParseGroupResource
pub(super) fn parse_group_resource(name: &str) -> GroupResource {
    let (resource, group) = name.split_once('.').unwrap_or((name, ""));
    GroupResource {
        group: group.into(),
        resource: resource.into(),
    }
}

/// Returns the secret of a key.
pub(super) fn decode_secret(secret: &str) -> Option<Vec<u8>> {
    // Go ignores line breaks.
    let text: String = secret.chars().filter(|letter| !matches!(letter, '\n' | '\r')).collect();
    BASE64.decode(text).ok()
}

/// Validates a configuration. `reload` is true if the file is reloaded automatically.
///
/// upstream: k8s.io/apiserver/pkg/apis/apiserver/validation#ValidateEncryptionConfiguration
pub fn validate(configuration: &Configuration, reload: bool) -> Vec<FieldError> {
    let root = FieldPath::new("resources");
    if configuration.resources.is_empty() {
        return vec![FieldError::required(&root, "at least one resources is required")];
    }
    let mut errors = Vec::new();
    let mut names = HashSet::new();
    for (at, rule) in configuration.resources.iter().enumerate() {
        let resources = root.index(at).child("resources");
        let providers = root.index(at).child("providers");
        require_one(rule.resources.is_empty(), &resources, &mut errors);
        validate_overlap(&rule.resources, &resources, &mut errors);
        validate_names(&rule.resources, &resources, &mut errors);
        require_one(rule.providers.is_empty(), &providers, &mut errors);
        for (number, provider) in rule.providers.iter().enumerate() {
            validate_provider(provider, &providers.index(number), &mut names, reload, &mut errors);
        }
    }
    errors
}

fn require_one(is_empty: bool, path: &FieldPath, errors: &mut Vec<FieldError>) {
    if is_empty {
        errors.push(FieldError::required(path, format!("at least one {path} is required")));
    }
}

/// upstream: k8s.io/apiserver/pkg/apis/apiserver/validation#validateResourceOverlap
fn validate_overlap(resources: &[SmolStr], path: &FieldPath, errors: &mut Vec<FieldError>) {
    let parsed: Vec<GroupResource> = resources.iter().map(|name| parse_group_resource(name)).collect();
    let (mut has_duplicate, mut has_overlap) = (false, false);
    for (at, one) in parsed.iter().enumerate() {
        for (_, other) in parsed.iter().enumerate().filter(|(number, _)| *number != at) {
            if one == other && !has_duplicate {
                has_duplicate = true;
                continue;
            }
            let is_any = one.group == "*" && one.resource == "*";
            let is_wildcard = one.resource == "*" || other.resource == "*";
            has_overlap |= is_any || (one.group == other.group && is_wildcard);
        }
    }
    let list: Vec<Value> = resources.iter().map(|name| Value::from(name.as_str())).collect();
    let mut refuse = |detail: &str| errors.push(FieldError::invalid(path, Value::from(list.clone()), detail));
    if has_duplicate {
        refuse("the same resource cannot be specified multiple times");
    }
    if has_overlap {
        refuse(
            "using overlapping resources such as 'secrets' and '*.' in the same resource list is not allowed as they \
             will be masked",
        );
    }
}

/// Returns the reason why no resource may have this name.
///
/// upstream: k8s.io/apiserver/pkg/apis/apiserver/validation#validateResourceNames
fn name_error(name: &str) -> Option<&'static str> {
    let parsed = parse_group_resource(name);
    Some(match name {
        _ if name.to_lowercase() != name => "resource name should not contain capital letters",
        "*" => "use '*.' to encrypt all the resources from core API group or *.* to encrypt all resources",
        _ if WITHOUT_API.contains(&name) => "resources which do not have REST API/s cannot be encrypted",
        _ if parsed.group == "events.k8s.io" => {
            "'*.events.k8s.io' objects are stored using the 'events' API group in etcd. Use 'events' instead in the \
             config file"
        }
        _ if parsed.group == "extensions" => "'extensions' group has been removed and cannot be used for encryption",
        _ if parsed.group == "*" && parsed.resource != "*" => {
            "encrypting the same resource across groups is not supported"
        }
        _ => return None,
    })
}

fn validate_names(resources: &[SmolStr], path: &FieldPath, errors: &mut Vec<FieldError>) {
    let named = resources.iter().enumerate();
    errors.extend(named.filter_map(|(at, name)| {
        let error = name_error(name)?;
        Some(FieldError::invalid(&path.index(at), name.as_str(), error))
    }));
}

fn validate_provider(
    provider: &ProviderConfiguration,
    path: &FieldPath,
    names: &mut HashSet<SmolStr>,
    reload: bool,
    errors: &mut Vec<FieldError>,
) {
    errors.extend(count_error(provider, path));
    let keys_path = |name| path.child(name).child("keys");
    if let Some(kms) = &provider.kms {
        validate_kms(kms, &path.child("kms"), names, reload, errors);
        names.insert(kms.name.clone());
    } else if let Some(keys) = &provider.aesgcm {
        validate_keys(keys, &keys_path("aesgcm"), AES_KEY_BYTES, errors);
    } else if let Some(keys) = &provider.aescbc {
        validate_keys(keys, &keys_path("aescbc"), AES_KEY_BYTES, errors);
    } else if let Some(keys) = &provider.secretbox {
        validate_keys(keys, &keys_path("secretbox"), SECRETBOX_KEY_BYTES, errors);
    }
}

/// Returns the error of an item that does not have exactly one provider. The reference shows the whole item, with its
/// secrets; this error does not.
///
/// upstream: k8s.io/apiserver/pkg/apis/apiserver/validation#validateSingleProvider
fn count_error(provider: &ProviderConfiguration, path: &FieldPath) -> Option<FieldError> {
    let found = [
        provider.kms.is_some(),
        provider.aesgcm.is_some(),
        provider.aescbc.is_some(),
        provider.secretbox.is_some(),
        provider.identity,
    ];
    let detail = match found.iter().filter(|found| **found).count() {
        0 => "provider does not contain any of the expected providers: KMS, AESGCM, AESCBC, Secretbox, Identity",
        1 => return None,
        _ => "more than one provider specified in a single element, should split into different list elements",
    };
    Some(FieldError::invalid(path, "REDACTED", detail))
}

/// upstream: k8s.io/apiserver/pkg/apis/apiserver/validation#validateKeys
fn validate_keys(keys: &[Key], path: &FieldPath, lengths: &[usize], errors: &mut Vec<FieldError>) {
    if keys.is_empty() {
        errors.push(FieldError::required(path, "at least one keys is required"));
    }
    for (at, key) in keys.iter().enumerate() {
        validate_key(key, &path.index(at), lengths, errors);
    }
}

/// upstream: k8s.io/apiserver/pkg/apis/apiserver/validation#validateKey
fn validate_key(key: &Key, path: &FieldPath, lengths: &[usize], errors: &mut Vec<FieldError>) {
    let secret_path = path.child("secret");
    if key.name.is_empty() {
        errors.push(FieldError::required(
            &path.child("name"),
            "name is a mandatory field for a key",
        ));
    }
    if key.secret.is_empty() {
        errors.push(FieldError::required(
            &secret_path,
            "secret is a mandatory field for a key",
        ));
        return;
    }
    let detail = match decode_secret(&key.secret) {
        None => "secrets must be base64 encoded".to_owned(),
        Some(secret) if !lengths.contains(&secret.len()) => {
            let lengths: Vec<String> = lengths.iter().map(ToString::to_string).collect();
            let (found, expected) = (secret.len(), lengths.join(" "));
            format!("secret is not of the expected length, got {found}, expected one of [{expected}]")
        }
        Some(_) => return,
    };
    errors.push(FieldError::invalid(&secret_path, "REDACTED", detail));
}

/// upstream: k8s.io/apiserver/pkg/apis/apiserver/validation#validateKMSConfiguration
fn validate_kms(
    kms: &KmsConfiguration,
    path: &FieldPath,
    names: &HashSet<SmolStr>,
    reload: bool,
    errors: &mut Vec<FieldError>,
) {
    validate_kms_name(kms, &path.child("name"), names, reload, errors);
    if kms.timeout_nanos <= 0 {
        let nanos = Duration::from_nanos(kms.timeout_nanos.unsigned_abs());
        let sign = if kms.timeout_nanos < 0 { "-" } else { "" };
        let shown = format!("{sign}{}", duration::text(nanos));
        let detail = "timeout should be a positive value";
        errors.push(FieldError::invalid(&path.child("timeout"), shown, detail));
    }
    if let Err(detail) = socket_of(&kms.endpoint) {
        errors.push(FieldError::invalid(
            &path.child("endpoint"),
            kms.endpoint.as_str(),
            detail,
        ));
    }
    let is_first_version = kms.api_version == "v1";
    let size_error = match kms.cache_size {
        Some(_) if !is_first_version => Some("cachesize is not supported in v2"),
        Some(0) => Some("cachesize should be a positive value, or negative to disable"),
        _ => None,
    };
    if let (Some(size), Some(detail)) = (kms.cache_size, size_error) {
        errors.push(FieldError::invalid(&path.child("cachesize"), Value::Int(size), detail));
    }
    if !is_first_version && kms.api_version != "v2" {
        let detail = "unsupported apiVersion apiVersion for KMS provider, only v1 and v2 are supported";
        errors.push(FieldError::invalid(
            &path.child("apiVersion"),
            kms.api_version.as_str(),
            detail,
        ));
    }
}

/// upstream: k8s.io/apiserver/pkg/apis/apiserver/validation#validateKMSConfigName
fn validate_kms_name(
    kms: &KmsConfiguration,
    path: &FieldPath,
    names: &HashSet<SmolStr>,
    reload: bool,
    errors: &mut Vec<FieldError>,
) {
    let name = kms.name.as_str();
    if name.is_empty() {
        errors.push(FieldError::required(path, "name is a mandatory field for a provider"));
    }
    let is_first_version = kms.api_version == "v1";
    if !is_first_version && name.contains(':') {
        let detail = format!("invalid KMS provider name {name}, must not contain ':'");
        errors.push(FieldError::invalid(path, name, detail));
    }
    if (reload || !is_first_version) && names.contains(name) {
        let detail = format!("duplicate KMS provider name {name}, names must be unique");
        errors.push(FieldError::invalid(path, name, detail));
    }
}

/// Returns the path of the Unix socket of a plugin.
///
/// upstream: k8s.io/apiserver/pkg/apis/apiserver/validation#validateKMSEndpoint
///
/// # Errors
/// If the endpoint is not the URL of a Unix socket.
pub(super) fn socket_of(endpoint: &str) -> Result<String, String> {
    if endpoint.is_empty() {
        return Err("endpoint is a mandatory field for a kms".to_owned());
    }
    let parsed = url::parse(endpoint).map_err(|error| format!("invalid endpoint for kms provider, error: {error}"))?;
    if parsed.scheme != "unix" {
        let scheme = quote(&parsed.scheme);
        return Err(format!(
            "unsupported scheme {scheme} for KMS provider, only unix is supported"
        ));
    }
    let path = url::unescape(&parsed.escaped_path)?;
    // An abstract socket.
    Ok(match path.starts_with("/@") {
        true => path.get(1..).unwrap_or_default().to_owned(),
        false => path,
    })
}
