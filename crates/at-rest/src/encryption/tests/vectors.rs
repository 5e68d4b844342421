//! Values that kube-apiserver's package `k8s.io/apiserver` 0.36.2 encrypted.

use aws_lc_rs::digest::{SHA256, digest};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use super::super::aes::{Cbc, ExtendedNonceGcm};
use super::super::cipher::Cipher as _;
use super::super::validation::decode_secret;
use super::*;

/// Decrypted value.
const PLAIN: &[u8] = b"a secret of sorts";

/// Kind of the provider, secret of `key1`, and the stored value of [`SECRET`].
const VALUES: [(&str, &str, &str); 7] = [
    (
        "aesgcm",
        "AQIDBAUGBwgJCgsMDQ4PEA==",
        "azhzOmVuYzphZXNnY206djE6a2V5MTrt72UAJ3UylOMwS977J+UhVzt4pYaLmdCNGVDLRmo+FNj0JUy7WA9tWqX1RHU=",
    ),
    (
        "aesgcm",
        "AQIDBAUGBwgJCgsMDQ4PEBESExQVFhcY",
        "azhzOmVuYzphZXNnY206djE6a2V5MTpYcl2whk3F4EJ5IrRNYdG9WQgk3CNlMoQjlIOC/T4Xs98fuFbkxu8hh1hdA3s=",
    ),
    (
        "aesgcm",
        "AQIDBAUGBwgJCgsMDQ4PEBESExQVFhcYGRobHB0eHyA=",
        "azhzOmVuYzphZXNnY206djE6a2V5MToPPgYxHug2Dc6lBucFZEAeiK1a5GPwej/lgum9uvRsc+CnVlfCgvj4OTooHjI=",
    ),
    (
        "aescbc",
        "AQIDBAUGBwgJCgsMDQ4PEA==",
        "azhzOmVuYzphZXNjYmM6djE6a2V5MTouJrXRkcI6W6njLX+1thBOjih9s6ag5aMrH8CiujPGOcEGSQkwJYTsoqrjVbT6fh8=",
    ),
    (
        "aescbc",
        "AQIDBAUGBwgJCgsMDQ4PEBESExQVFhcY",
        "azhzOmVuYzphZXNjYmM6djE6a2V5MTo5WAfYI2kzCSletgSX4wEbFGJbLj7MZ5dUlVwlmWlgJuQ/r7zyiJTT0VrFFf6mkI8=",
    ),
    (
        "aescbc",
        "AQIDBAUGBwgJCgsMDQ4PEBESExQVFhcYGRobHB0eHyA=",
        "azhzOmVuYzphZXNjYmM6djE6a2V5MTpvgCIQkc0/JUSPRiM8MivOvm150F2VhxCO5UzqQUS/UJeA1thE0jwrhaZ8undrbPo=",
    ),
    (
        "secretbox",
        "AQIDBAUGBwgJCgsMDQ4PEBESExQVFhcYGRobHB0eHyA=",
        "azhzOmVuYzpzZWNyZXRib3g6djE6a2V5MTq1vDR2knnDUMvOQ8U1oo4pi4eCxHLnl/rMo47luXJ5sJpSy6AQOsF9FgVca7FqhFn6ovNxILlqkrs=",
    ),
];

/// Value that a key encrypted which was derived from the seed 1, 2, … 32.
const DERIVED: &str =
    "z223jaBvjt6hgcxrZ31wOITxud6CDjKiEhVddXNM8DCpmgaoZBuT2G39BJEU9d736JRqNc7cQdzkHjvxdm/GqAiTsRD52LYXJFK9hE4=";

#[test]
fn values_of_the_reference_are_decrypted() {
    for (kind, secret, value) in VALUES {
        let encryption = with_rules(&secrets(&provider(kind, "key1", secret)));
        let bytes = STANDARD.decode(value).unwrap();
        if kind == "aescbc" {
            // The provider accepts objects only, the cipher anything.
            let cipher = Cbc::new(&decode_secret(secret).unwrap()).unwrap();
            let data = bytes.strip_prefix(b"k8s:enc:aescbc:v1:key1:").unwrap();
            assert_eq!(cipher.decrypt(SECRET, data), Ok(PLAIN.to_vec()), "{secret}");
            continue;
        }
        assert_eq!(
            read(&encryption, SECRET, &bytes),
            Ok((PLAIN.to_vec(), true)),
            "{kind} {secret}"
        );
        let other = with_rules(&secrets(&provider(kind, "key1", KEY_TWO)));
        assert_ne!(read(&other, SECRET, &bytes).map(|(bytes, _)| bytes), Ok(PLAIN.to_vec()));
    }
}

#[test]
fn value_under_a_derived_key_is_decrypted() {
    let seed: Vec<u8> = (1..=32).collect();
    let cipher = ExtendedNonceGcm::new(&seed).unwrap();
    let bytes = STANDARD.decode(DERIVED).unwrap();
    assert_eq!(cipher.decrypt(SECRET, &bytes), Ok(PLAIN.to_vec()));
    assert!(cipher.decrypt(CONFIG_MAP, &bytes).is_err());
    let own = cipher.encrypt(SECRET, PLAIN).unwrap();
    assert_eq!(
        (own.len(), cipher.decrypt(SECRET, &own)),
        (bytes.len(), Ok(PLAIN.to_vec()))
    );
    assert!(ExtendedNonceGcm::new(&seed[1..]).is_err());
}

#[test]
fn seed_longer_than_a_block_is_hashed_first() {
    let seed = [7_u8; 65];
    let sealed = ExtendedNonceGcm::new(&seed).unwrap().encrypt(SECRET, PLAIN).unwrap();
    let hash = digest(&SHA256, &seed);
    let same = ExtendedNonceGcm::new(hash.as_ref()).unwrap();
    assert_eq!(same.decrypt(SECRET, &sealed), Ok(PLAIN.to_vec()));
}

#[test]
fn secret_with_unused_bits_set_is_decoded() {
    let secret = decode_secret("AQIDBAUGBwgJCgsMDQ4PEA==");
    assert_eq!(secret.as_ref().map(Vec::len), Some(16));
    assert_eq!(decode_secret("AQIDBAUGBwgJCgsMDQ4PEB=="), secret);
    assert_eq!(decode_secret("AQIDBAUGBwgJCgsMDQ4PEA"), None);
}
