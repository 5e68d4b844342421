//! Values that the reference's package encrypted, configurations, rotation, and a plugin.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test")]

mod configurations;
mod plugin;
mod vectors;

use holdfast_schema::GroupResource;
use holdfast_store::{Transformer as _, is_encrypted};

use super::*;

/// Key of a Secret, which is also its path in etcd.
const SECRET: &[u8] = b"/registry/secrets/default/s";
const CONFIG_MAP: &[u8] = b"/registry/configmaps/default/c";
const CUSTOM: &[u8] = b"/registry/example.com/widgets/default/w";
const PLAIN: &[u8] = br#"{"text":"a secret of sorts"}"#;

fn encryption() -> Encryption {
    let resources = ["secrets", "configmaps"].map(|name| {
        let resource = GroupResource {
            group: "".into(),
            resource: name.into(),
        };
        (format!("/registry/{name}/"), resource)
    });
    let deployments = GroupResource {
        group: "apps".into(),
        resource: "deployments".into(),
    };
    let more = [("/registry/deployments/".to_owned(), deployments)];
    Encryption::new(resources.into_iter().chain(more))
}

/// Returns a configuration with these rules in YAML.
fn configuration(rules: &str) -> String {
    format!("kind: EncryptionConfiguration\napiVersion: apiserver.config.k8s.io/v1\nresources:\n{rules}")
}

fn use_rules(encryption: &Encryption, rules: &str) {
    let update = encryption.prepare(configuration(rules).as_bytes(), true).unwrap();
    encryption.replace(update);
}

fn with_rules(rules: &str) -> Encryption {
    let encryption = encryption();
    use_rules(&encryption, rules);
    encryption
}

/// Returns a rule for secrets.
fn secrets(providers: &str) -> String {
    format!("- resources: [secrets]\n  providers:\n{providers}")
}

const KEY_ONE: &str = "AQIDBAUGBwgJCgsMDQ4PEBESExQVFhcYGRobHB0eHyA=";
const KEY_TWO: &str = "ISIjJCUmJygpKissLS4vMDEyMzQ1Njc4OTo7PD0+P0A=";

fn provider(kind: &str, name: &str, secret: &str) -> String {
    format!("  - {kind}: {{keys: [{{name: {name}, secret: {secret}}}]}}\n")
}

fn stored(encryption: &Encryption, key: &[u8]) -> Vec<u8> {
    let transformed = encryption.transform_to_storage(key, PLAIN).unwrap();
    transformed.map_or_else(|| PLAIN.to_vec(), |transformed| transformed.bytes)
}

/// Returns the plain bytes, and whether they are stored in the form of new values.
fn read(encryption: &Encryption, key: &[u8], stored: &[u8]) -> Result<(Vec<u8>, bool), String> {
    let opened = encryption
        .transform_from_storage(key, stored)
        .map_err(|error| error.why)?;
    let (bytes, form) = match opened {
        Some(opened) => (opened.bytes, opened.form),
        None => (stored.to_vec(), holdfast_store::StoredForm::PLAIN),
    };
    Ok((bytes, form == encryption.form_of(key)))
}

#[test]
fn value_of_each_provider_is_read_back() {
    for kind in ["aesgcm", "aescbc", "secretbox"] {
        let encryption = with_rules(&secrets(&provider(kind, "key1", KEY_ONE)));
        let bytes = stored(&encryption, SECRET);
        let prefix = format!("k8s:enc:{kind}:v1:key1:");
        assert!(bytes.starts_with(prefix.as_bytes()), "{kind}");
        assert!(!bytes.windows(5).any(|window| window == b"sorts"), "{kind}");
        assert_ne!(bytes, stored(&encryption, SECRET), "{kind} repeats its nonce");
        assert_eq!(read(&encryption, SECRET, &bytes), Ok((PLAIN.to_vec(), true)));
        assert_eq!(stored(&encryption, CONFIG_MAP), PLAIN);
        for length in 0..40 {
            let plain = [b"{\"".to_vec(), vec![7; length]].concat();
            let sealed = encryption.transform_to_storage(SECRET, &plain).unwrap().unwrap();
            assert_eq!(read(&encryption, SECRET, &sealed.bytes).unwrap().0, plain);
        }
    }
}

#[test]
fn changed_value_is_an_error_with_its_key() {
    for (kind, why) in [
        ("aesgcm", "cipher: message authentication failed"),
        ("secretbox", "output array was not large enough for encryption"),
    ] {
        let encryption = with_rules(&secrets(&provider(kind, "key1", KEY_ONE)));
        let mut bytes = stored(&encryption, SECRET);
        *bytes.last_mut().unwrap() ^= 1;
        let error = read(&encryption, SECRET, &bytes).unwrap_err();
        assert_eq!(
            error,
            format!("unable to transform key \"/registry/secrets/default/s\": {why}")
        );
        assert!(encryption.take_failed());
        let short = format!("k8s:enc:{kind}:v1:key1:short");
        let error = read(&encryption, SECRET, short.as_bytes()).unwrap_err();
        assert!(
            error.ends_with("the stored data was shorter than the required size"),
            "{error}"
        );
    }
}

#[test]
fn value_of_aescbc_under_another_key_of_the_name_is_an_error() {
    let (one, two) = (provider("aescbc", "key1", KEY_ONE), provider("aescbc", "key1", KEY_TWO));
    let (encrypting, other) = (with_rules(&secrets(&one)), with_rules(&secrets(&two)));
    let both = with_rules(&secrets(&(two + &one)));
    // Some of the values have a valid padding under the other key.
    for _ in 0..2_000 {
        let bytes = stored(&encrypting, SECRET);
        assert!(read(&other, SECRET, &bytes).is_err());
        assert_eq!(read(&both, SECRET, &bytes), Ok((PLAIN.to_vec(), false)));
    }
}

#[test]
fn value_of_aesgcm_is_bound_to_its_path() {
    let encryption = with_rules(&secrets(&provider("aesgcm", "key1", KEY_ONE)));
    let bytes = stored(&encryption, SECRET);
    assert!(read(&encryption, b"/registry/secrets/default/other", &bytes).is_err());
}

#[test]
fn first_provider_writes_and_all_read() {
    let encryption = with_rules(&secrets(&provider("aescbc", "old", KEY_ONE)));
    let old = stored(&encryption, SECRET);
    let both = provider("aesgcm", "new", KEY_TWO) + &provider("aescbc", "old", KEY_ONE) + "  - identity: {}\n";
    let changes = encryption.changes();
    use_rules(&encryption, &secrets(&both));
    assert!(encryption.changes() > changes);
    assert_eq!(read(&encryption, SECRET, &old), Ok((PLAIN.to_vec(), false)));
    assert_eq!(read(&encryption, SECRET, PLAIN), Ok((PLAIN.to_vec(), false)));
    let new = stored(&encryption, SECRET);
    assert!(new.starts_with(b"k8s:enc:aesgcm:v1:new:"));
    assert_eq!(read(&encryption, SECRET, &new), Ok((PLAIN.to_vec(), true)));
    // The same provider and key give the same form, so that a reload does not make values stale.
    use_rules(&encryption, &secrets(&both));
    assert_eq!(read(&encryption, SECRET, &new), Ok((PLAIN.to_vec(), true)));
    use_rules(&encryption, &secrets(&provider("aesgcm", "new", KEY_TWO)));
    let error = read(&encryption, SECRET, &old).unwrap_err();
    assert!(error.ends_with("no matching prefix found"), "{error}");
}

#[test]
fn identity_first_decrypts_and_writes_plain() {
    let encrypting = with_rules(&secrets(&provider("secretbox", "key1", KEY_ONE)));
    let bytes = stored(&encrypting, SECRET);
    let providers = "  - identity: {}\n".to_owned() + &provider("secretbox", "key1", KEY_ONE);
    let encryption = with_rules(&secrets(&providers));
    assert_eq!(read(&encryption, SECRET, &bytes), Ok((PLAIN.to_vec(), false)));
    assert_eq!(stored(&encryption, SECRET), PLAIN);
    // Not configured at all.
    let error = read(&encryption, CONFIG_MAP, &bytes).unwrap_err();
    assert!(
        error.ends_with("identity transformer tried to read encrypted data"),
        "{error}"
    );
}

#[test]
fn wildcards_cover_groups_in_order() {
    let rules = "- resources: [configmaps]\n  providers: [{identity: {}}]\n- resources: ['*.']\n  providers:\n"
        .to_owned()
        + &provider("aesgcm", "core", KEY_ONE)
        + "- resources: ['*.example.com']\n  providers:\n"
        + &provider("aesgcm", "custom", KEY_ONE)
        + "- resources: ['*.*']\n  providers:\n"
        + &provider("aesgcm", "any", KEY_ONE);
    let encryption = with_rules(&rules);
    for (key, name) in [
        (SECRET, "core"),
        (CUSTOM, "custom"),
        (&b"/registry/deployments/default/d"[..], "any"),
        (&b"/registry/other.example.com/things/t"[..], "any"),
    ] {
        let prefix = format!("k8s:enc:aesgcm:v1:{name}:");
        assert!(stored(&encryption, key).starts_with(prefix.as_bytes()), "{name}");
    }
    for key in [
        CONFIG_MAP,
        b"/registry/ranges/serviceips",
        b"/registry/masterleases/10.0.0.1",
    ] {
        assert!(!is_encrypted(&stored(&encryption, key)));
    }
}

#[test]
fn digest_changes_with_the_configuration_in_use() {
    let encryption = encryption();
    assert_eq!(encryption.digest(), None);
    use_rules(&encryption, &secrets(&provider("aesgcm", "one", KEY_ONE)));
    let first = encryption.digest();
    let other = configuration(&secrets(&provider("aesgcm", "two", KEY_TWO)));
    let update = encryption.prepare(other.as_bytes(), true).unwrap();
    assert!(first.is_some() && encryption.digest() == first);
    encryption.replace(update);
    assert_ne!(encryption.digest(), first);
}
