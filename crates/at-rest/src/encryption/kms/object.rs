//! Checks of stored values and of what a plugin returns.

use aws_lc_rs::digest::{SHA256, digest};
use holdfast_gotext::errors::aggregate;
use holdfast_schema::metadata::formats::dns_subdomain;

use super::proto::{EncryptedObject, KEY, SEED};

/// Maximum size of annotations with their keys in bytes.
const MAX_ANNOTATION_BYTES: usize = 32 * 1024;
const MAX_KEY_ID_BYTES: usize = 1024;
const MAX_SOURCE_BYTES: usize = 1024;

/// Checks a stored value.
///
/// upstream: k8s.io/apiserver/pkg/storage/value/encrypt/envelope/kmsv2#ValidateEncryptedObject
pub(super) fn validate_object(object: &EncryptedObject) -> Result<(), String> {
    let source_type = object.encrypted_dek_source_type;
    if ![KEY, SEED].contains(&source_type) {
        return Err(format!("unknown encryptedDEKSourceType: {source_type}"));
    }
    if object.encrypted_data.is_empty() {
        return Err("encrypted data is empty".to_owned());
    }
    validate_source(&object.encrypted_dek_source)
        .map_err(|error| format!("failed to validate encrypted DEK source: {error}"))?;
    validate_key_id(&object.key_id).map_err(|error| format!("failed to validate key id: {error}"))?;
    validate_annotations(object).map_err(|error| format!("failed to validate annotations: {error}"))
}

fn validate_source(source: &[u8]) -> Result<(), String> {
    let length = source.len();
    match length {
        0 => Err("encrypted DEK source is empty".to_owned()),
        1..=MAX_SOURCE_BYTES => Ok(()),
        _ => Err(format!(
            "encrypted DEK source is {length} bytes, which exceeds the max size of {MAX_SOURCE_BYTES}"
        )),
    }
}

/// upstream: k8s.io/apiserver/pkg/storage/value/encrypt/envelope/kmsv2#ValidateKeyID
pub(super) fn validate_key_id(key_id: &str) -> Result<(), String> {
    let length = key_id.len();
    match length {
        0 => Err("keyID is empty".to_owned()),
        1..=MAX_KEY_ID_BYTES => Ok(()),
        _ => Err(format!(
            "keyID is {length} bytes, which exceeds the max size of {MAX_KEY_ID_BYTES}"
        )),
    }
}

fn validate_annotations(object: &EncryptedObject) -> Result<(), String> {
    let (mut errors, mut bytes) = (Vec::new(), 0);
    for (name, value) in &object.annotations {
        bytes += name.len() + value.len();
        if let Some(error) = domain_error(name) {
            errors.push(format!("annotations: Invalid value: {name:?}: {error}"));
        }
    }
    if bytes > MAX_ANNOTATION_BYTES {
        let limit = MAX_ANNOTATION_BYTES;
        errors.push(format!(
            "total size of annotations is {bytes}, which exceeds the max size of {limit}"
        ));
    }
    match errors.is_empty() {
        true => Ok(()),
        false => Err(aggregate(&errors)),
    }
}

/// Returns the reason why a name is no fully qualified domain name.
///
/// upstream: k8s.io/apimachinery/pkg/util/validation#IsFullyQualifiedDomainName
fn domain_error(name: &str) -> Option<String> {
    let domain = name.strip_suffix('.').unwrap_or(name);
    let errors = dns_subdomain(domain);
    if !errors.is_empty() {
        return Some(errors.join(","));
    }
    let is_short = domain.split('.').count() < 2;
    is_short.then(|| "should be a domain with at least two segments separated by dots".to_owned())
}

/// Returns the hash of a key id for messages; empty for an empty id.
///
/// upstream: k8s.io/apiserver/pkg/storage/value/encrypt/envelope/kmsv2#GetHashIfNotEmpty
pub(super) fn hash_of(key_id: &str) -> String {
    if key_id.is_empty() {
        return String::new();
    }
    let hash = digest(&SHA256, key_id.as_bytes());
    let digits = hash.as_ref().iter().map(|byte| format!("{byte:02x}"));
    format!("sha256:{}", digits.collect::<String>())
}
