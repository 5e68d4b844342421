//! A provider with a plugin of the test's own.

use std::time::{Duration, Instant};

use test_support::kms_plugin::{KmsPlugin, PluginState};

use super::*;

/// Time limit for events that are certain to happen.
const WAIT_TIMEOUT: Duration = Duration::from_secs(60);

fn rule(socket: &std::path::Path) -> String {
    let socket = socket.display();
    secrets(&format!(
        "  - kms: {{apiVersion: v2, name: vault, endpoint: 'unix://{socket}', timeout: 1s}}\n"
    ))
}

fn until(mut holds: impl FnMut() -> bool, what: &str) {
    let end = Instant::now() + WAIT_TIMEOUT;
    while !holds() {
        assert!(Instant::now() < end, "{what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn plugin_encrypts_one_seed_for_all_values() {
    let folder = tempfile::tempdir().unwrap();
    let socket = folder.path().join("kms.sock");
    let plugin = KmsPlugin::start(&socket, "one").unwrap();
    let encryption = with_rules(&rule(&socket));
    assert_eq!(encryption.check(), Ok(()));
    let values: Vec<Vec<u8>> = (0..10).map(|_| stored(&encryption, SECRET)).collect();
    for value in &values {
        assert!(value.starts_with(b"k8s:enc:kms:v2:vault:"));
        assert_eq!(read(&encryption, SECRET, value), Ok((PLAIN.to_vec(), true)));
        assert!(read(&encryption, b"/registry/secrets/default/other", value).is_err());
    }
    assert_eq!((plugin.calls("Encrypt"), plugin.calls("Decrypt")), (1, 0));
    // Another process asks once.
    let other = with_rules(&rule(&socket));
    for value in &values {
        assert_eq!(read(&other, SECRET, value), Ok((PLAIN.to_vec(), true)));
    }
    assert_eq!((plugin.calls("Encrypt"), plugin.calls("Decrypt")), (2, 1));
    // Its key has changed, so that the values are stale.
    plugin.with(|state| state.key_id = "two".to_owned());
    let third = with_rules(&rule(&socket));
    assert_eq!(read(&third, SECRET, &values[0]), Ok((PLAIN.to_vec(), false)));
    let new = stored(&third, SECRET);
    assert_eq!(read(&other, SECRET, &new), Ok((PLAIN.to_vec(), false)));
}

#[test]
fn values_are_readable_once_plugin_answers() {
    let folder = tempfile::tempdir().unwrap();
    let socket = folder.path().join("kms.sock");
    let value = {
        let _plugin = KmsPlugin::start(&socket, "one").unwrap();
        stored(&with_rules(&rule(&socket)), SECRET)
    };
    let encryption = with_rules(&rule(&socket));
    let error = encryption.check().unwrap_err();
    assert!(
        error.starts_with("kms-provider-0: failed to perform status section"),
        "{error}"
    );
    let error = read(&encryption, SECRET, &value).unwrap_err();
    assert!(error.contains("failed to decrypt DEK, error: "), "{error}");
    assert!(
        encryption.transform_to_storage(SECRET, PLAIN).is_err(),
        "nothing is stored plain"
    );
    let changes = encryption.changes();
    let _plugin = KmsPlugin::start(&socket, "one").unwrap();
    until(|| encryption.changes() > changes, "the plugin is not noticed");
    assert_eq!(read(&encryption, SECRET, &value), Ok((PLAIN.to_vec(), true)));
}

#[test]
fn plugin_that_is_not_healthy_is_reported() {
    let folder = tempfile::tempdir().unwrap();
    let socket = folder.path().join("kms.sock");
    let plugin = KmsPlugin::start(&socket, "one").unwrap();
    for (change, why) in [
        (
            (|state| state.healthz = "sealed".to_owned()) as fn(&mut PluginState),
            "got unexpected healthz status: sealed",
        ),
        (
            |state| state.version = "v1".to_owned(),
            "expected KMSv2 API version v2, got v1",
        ),
        (
            |state| state.key_id = String::new(),
            "got invalid KMSv2 KeyID hash \"\": keyID is empty",
        ),
    ] {
        let before = plugin.with(|state| state.clone());
        plugin.with(change);
        let update = encryption()
            .prepare(configuration(&rule(&socket)).as_bytes(), true)
            .unwrap();
        let encryption = encryption();
        encryption.replace(update);
        let error = encryption.check().unwrap_err();
        let expected = format!("kms-provider-0: kmsv2 Provider vault is not healthy, error: {why}");
        assert_eq!(error, expected);
        plugin.with(|state| *state = before);
    }
}
