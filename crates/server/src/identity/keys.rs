//! Keys of service-account tokens: the signing key, the trusted keys, and the documents that publish them
//! (<https://kubernetes.io/docs/tasks/configure-pod-container/configure-service-account/#service-account-issuer-discovery>).

use std::sync::Arc;

use arc_swap::ArcSwap;
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use jsonwebtoken::{Algorithm, DecodingKey, EncodingKey};
use serde::Serialize;
use sha2::{Digest, Sha256};
use tokio::time::Instant;
use x509_parser::prelude::FromDer;
use x509_parser::public_key::PublicKey;
use x509_parser::x509::SubjectPublicKeyInfo;

/// A key that cannot be used for tokens.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum KeyError {
    /// It is not a key.
    #[error("the key cannot be read: {0}")]
    Unreadable(String),
    /// It is neither RSA nor on one of the curves P-256 and P-384.
    #[error("the key is of no media_type that tokens are signed with: RSA, or the curves P-256 and P-384")]
    Unsupported,
}

/// A public key of this server, or of an earlier one.
#[derive(Clone)]
pub struct VerifyingKey {
    jwk: Jwk,
    algorithm: Algorithm,
    decoding: DecodingKey,
    /// True if the discovery documents show the key.
    is_published: bool,
}

/// A public key as JSON (RFC 7517), its members in the order of the reference.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
struct Jwk {
    #[serde(rename = "use")]
    usage: &'static str,
    kty: &'static str,
    kid: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    crv: Option<&'static str>,
    alg: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    x: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    y: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    n: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    e: Option<String>,
}

/// The curves: the length of an uncompressed point, the name, the algorithm and its name.
const CURVES: [(usize, &str, Algorithm, &str); 2] = [
    (65, "P-256", Algorithm::ES256, "ES256"),
    (97, "P-384", Algorithm::ES384, "ES384"),
];

impl VerifyingKey {
    /// Reads a public key: DER of its `SubjectPublicKeyInfo`.
    ///
    /// # Errors
    /// If it is no key, or its type is not supported for tokens.
    #[expect(
        clippy::indexing_slicing,
        reason = "a curve is found by the length of its points; a position is within the bytes"
    )]
    pub fn from_der(der: &[u8]) -> Result<Self, KeyError> {
        let unreadable = |error: &dyn std::fmt::Display| KeyError::Unreadable(error.to_string());
        let (_, info) = SubjectPublicKeyInfo::from_der(der).map_err(|error| unreadable(&error))?;
        let blank = Jwk {
            usage: "sig",
            kty: "",
            // The reference names keys in this way.
            kid: URL_SAFE_NO_PAD.encode(Sha256::digest(der)),
            crv: None,
            alg: "",
            x: None,
            y: None,
            n: None,
            e: None,
        };
        match info.parsed().map_err(|error| unreadable(&error))? {
            PublicKey::RSA(key) => {
                let trimmed = |bytes: &[u8]| {
                    let start = bytes.iter().position(|byte| *byte != 0).unwrap_or(bytes.len());
                    URL_SAFE_NO_PAD.encode(&bytes[start..])
                };
                let (n, e) = (trimmed(key.modulus), trimmed(key.exponent));
                let decoding = DecodingKey::from_rsa_components(&n, &e).map_err(|error| unreadable(&error))?;
                Ok(Self {
                    jwk: Jwk {
                        kty: "RSA",
                        alg: "RS256",
                        n: Some(n),
                        e: Some(e),
                        ..blank
                    },
                    algorithm: Algorithm::RS256,
                    decoding,
                    is_published: true,
                })
            }
            PublicKey::EC(point) => {
                let point = point.data();
                let curve = CURVES.iter().find(|(length, ..)| *length == point.len());
                let (length, name, algorithm, alg) = curve.ok_or(KeyError::Unsupported)?;
                let half = (length - 1) / 2;
                let (x, y) = point[1..].split_at(half);
                let (x, y) = (URL_SAFE_NO_PAD.encode(x), URL_SAFE_NO_PAD.encode(y));
                let decoding = DecodingKey::from_ec_components(&x, &y).map_err(|error| unreadable(&error))?;
                Ok(Self {
                    jwk: Jwk {
                        kty: "EC",
                        crv: Some(name),
                        alg,
                        x: Some(x),
                        y: Some(y),
                        ..blank
                    },
                    algorithm: *algorithm,
                    decoding,
                    is_published: true,
                })
            }
            _ => Err(KeyError::Unsupported),
        }
    }

    /// Returns the same key with the id that its signer uses.
    #[must_use]
    pub fn with_id(mut self, id: String) -> Self {
        self.jwk.kid = id;
        self
    }

    /// Returns the same key, which verifies tokens and is not in the discovery documents.
    #[must_use]
    pub fn unpublished(mut self) -> Self {
        self.is_published = false;
        self
    }

    /// Returns the key that verifies signatures.
    pub(super) fn decoding(&self) -> &DecodingKey {
        &self.decoding
    }
}

/// A private key with the id of its public key.
#[derive(Clone)]
pub struct SigningKey {
    id: String,
    algorithm: Algorithm,
    encoding: EncodingKey,
}

impl SigningKey {
    /// Reads a private key from PEM; `public` is its public key.
    ///
    /// # Errors
    /// If it cannot be read.
    pub fn from_pem(pem: &[u8], public: &VerifyingKey) -> Result<Self, KeyError> {
        let encoding = match public.algorithm {
            Algorithm::RS256 => EncodingKey::from_rsa_pem(pem),
            _ => EncodingKey::from_ec_pem(pem),
        };
        Ok(Self {
            id: public.jwk.kid.clone(),
            algorithm: public.algorithm,
            encoding: encoding.map_err(|error| KeyError::Unreadable(error.to_string()))?,
        })
    }

    pub(super) fn id(&self) -> &str {
        &self.id
    }

    pub(super) fn algorithm(&self) -> Algorithm {
        self.algorithm
    }

    pub(super) fn encoding(&self) -> &EncodingKey {
        &self.encoding
    }
}

/// Time for which clients may cache the documents of keys that never change, in seconds.
const STATIC_MAX_AGE: u64 = 3600;

/// The public keys that are trusted.
#[derive(Clone, Default)]
pub struct Keys {
    list: Vec<VerifyingKey>,
    /// Keys in the discovery documents.
    published: Vec<Jwk>,
    /// Time of the next call of the signer of the keys; `None` for keys that never change.
    refresh_at: Option<Instant>,
}

impl Keys {
    /// Collects the keys without duplicates.
    pub fn new(keys: impl IntoIterator<Item = VerifyingKey>) -> Self {
        let mut once: Vec<VerifyingKey> = Vec::new();
        for key in keys {
            if !once.iter().any(|known| known.jwk.kid == key.jwk.kid) {
                once.push(key);
            }
        }
        Self {
            published: published(&once),
            list: once,
            refresh_at: None,
        }
    }

    /// Collects the keys of a signer, whose next call is at `refresh_at`. If all keys are unpublished, the documents show
    /// those of `former`.
    pub fn from_signer(keys: Vec<VerifyingKey>, refresh_at: Instant, former: &Self) -> Self {
        let mut shown = published(&keys);
        if shown.is_empty() {
            shown.clone_from(&former.published);
        }
        Self {
            published: shown,
            list: keys,
            refresh_at: Some(refresh_at),
        }
    }

    /// Returns true if there is a key with this id.
    pub(crate) fn has(&self, id: &str) -> bool {
        self.list.iter().any(|key| key.jwk.kid == id)
    }

    /// Returns true if the discovery documents do not show the keys with this id.
    pub(crate) fn hides(&self, id: &str) -> bool {
        self.list.iter().any(|key| key.jwk.kid == id && !key.is_published)
    }

    /// Returns the time of the next call of the signer.
    pub(crate) fn refresh_at(&self) -> Option<Instant> {
        self.refresh_at
    }

    /// Returns the candidate keys for a token with this key id and algorithm. An unknown id may belong to any key, except
    /// for keys of a signer, which names each of its keys.
    pub(super) fn candidates(&self, id: Option<&str>, algorithm: Algorithm) -> impl Iterator<Item = &VerifyingKey> {
        let is_exact = self.refresh_at.is_some();
        let named = id
            .filter(|id| !id.is_empty() && (is_exact || self.has(id)))
            .map(str::to_owned);
        self.list
            .iter()
            .filter(move |key| key.algorithm == algorithm && named.as_ref().is_none_or(|id| key.jwk.kid == *id))
    }
}

fn published(keys: &[VerifyingKey]) -> Vec<Jwk> {
    let shown = keys.iter().filter(|key| key.is_published);
    shown.map(|key| key.jwk.clone()).collect()
}

/// The current keys, which their signer may replace. Clones share them.
#[derive(Clone, Default)]
pub struct SharedKeys(Arc<ArcSwap<Keys>>);

impl From<Keys> for SharedKeys {
    fn from(keys: Keys) -> Self {
        Self(Arc::new(ArcSwap::from_pointee(keys)))
    }
}

impl SharedKeys {
    /// Returns the current keys.
    pub(crate) fn load(&self) -> Arc<Keys> {
        self.0.load_full()
    }

    /// Replaces the keys.
    pub(crate) fn replace(&self, keys: Keys) {
        self.0.store(Arc::new(keys));
    }
}

/// The discovery documents of the token issuer.
#[derive(Clone)]
pub struct IssuerDocuments {
    issuer: String,
    keys_url: String,
    keys: SharedKeys,
}

/// A discovery document.
#[derive(Clone, Debug)]
pub struct IssuerDocument {
    /// Content type.
    pub media_type: &'static str,
    /// JSON text.
    pub text: Vec<u8>,
    /// Time for which clients may cache it, in seconds.
    pub max_age: u64,
}

#[derive(Serialize)]
struct Configuration<'a> {
    issuer: &'a str,
    jwks_uri: &'a str,
    response_types_supported: [&'static str; 1],
    subject_types_supported: [&'static str; 1],
    id_token_signing_alg_values_supported: Vec<&'static str>,
}

#[derive(Serialize)]
struct KeySet<'a> {
    keys: &'a [Jwk],
}

impl IssuerDocuments {
    /// The path of the keys.
    pub const KEYS_PATH: &'static str = "/openid/v1/jwks";
    /// The path of the configuration of the issuer.
    pub const CONFIGURATION_PATH: &'static str = "/.well-known/openid-configuration";

    /// Creates the documents of `issuer`, whose keys are at `keys_url`. Returns `None` if the issuer is not an `https`
    /// URL, because clients cannot look it up, and if there are no keys to show.
    pub fn new(issuer: &str, keys_url: &str, keys: SharedKeys) -> Option<Self> {
        if !issuer.starts_with("https://") || keys.load().published.is_empty() {
            return None;
        }
        Some(Self {
            issuer: issuer.to_owned(),
            keys_url: keys_url.to_owned(),
            keys,
        })
    }

    /// Returns the document at `path`.
    pub fn get(&self, path: &str) -> Option<IssuerDocument> {
        let (media_type, text) = match path {
            Self::CONFIGURATION_PATH => ("application/json", self.configuration()?),
            Self::KEYS_PATH => {
                let keys = self.keys.load();
                let set = KeySet { keys: &keys.published };
                ("application/jwk-set+json", serde_json::to_vec(&set).ok()?)
            }
            _ => return None,
        };
        let max_age = self.keys.load().refresh_at.map_or(STATIC_MAX_AGE, |at| {
            at.saturating_duration_since(Instant::now()).as_secs()
        });
        Some(IssuerDocument {
            media_type,
            text,
            max_age,
        })
    }

    fn configuration(&self) -> Option<Vec<u8>> {
        let keys = self.keys.load();
        let mut algorithms: Vec<&'static str> = keys.published.iter().map(|key| key.alg).collect();
        algorithms.sort_unstable();
        algorithms.dedup();
        let configuration = Configuration {
            issuer: &self.issuer,
            jwks_uri: &self.keys_url,
            response_types_supported: ["id_token"],
            subject_types_supported: ["public"],
            id_token_signing_alg_values_supported: algorithms,
        };
        serde_json::to_vec(&configuration).ok()
    }
}

#[cfg(test)]
mod tests {
    use rcgen::PublicKeyData as _;

    use super::*;

    #[test]
    fn a_key_is_published_by_its_public_half_alone() {
        let pair = rcgen::KeyPair::generate().unwrap();
        let key = VerifyingKey::from_der(&pair.subject_public_key_info()).unwrap();
        let keys = SharedKeys::from(Keys::new([key.clone(), key]));
        let documents = IssuerDocuments::new("https://me", "https://me/openid/v1/jwks", keys.clone()).unwrap();
        let document = documents.get("/openid/v1/jwks").unwrap();
        assert_eq!(document.media_type, "application/jwk-set+json");
        assert_eq!(document.max_age, STATIC_MAX_AGE);
        let set: serde_json::Value = serde_json::from_slice(&document.text).unwrap();
        assert_eq!(set["keys"].as_array().unwrap().len(), 1);
        assert_eq!(
            (&set["keys"][0]["crv"], &set["keys"][0]["alg"]),
            (&"P-256".into(), &"ES256".into())
        );
        assert!(set["keys"][0].get("d").is_none());
        let document = documents.get("/.well-known/openid-configuration").unwrap();
        assert_eq!(
            std::str::from_utf8(&document.text).unwrap(),
            r#"{"issuer":"https://me","jwks_uri":"https://me/openid/v1/jwks","response_types_supported":["id_token"],"subject_types_supported":["public"],"id_token_signing_alg_values_supported":["ES256"]}"#
        );
        assert!(IssuerDocuments::new("me", "", keys).is_none());
    }

    #[test]
    fn unpublished_key_of_signer_only_verifies() {
        let new_key = |id: &str| {
            let pair = rcgen::KeyPair::generate().unwrap();
            let key = VerifyingKey::from_der(&pair.subject_public_key_info()).unwrap();
            key.with_id(id.to_owned())
        };
        let later = Instant::now() + std::time::Duration::from_secs(60);
        let both = vec![new_key("shown"), new_key("hidden").unpublished()];
        let keys = Keys::from_signer(both, later, &Keys::default());
        let found = |keys: &Keys, id| keys.candidates(id, Algorithm::ES256).count();
        assert_eq!((found(&keys, Some("hidden")), found(&keys, Some("other"))), (1, 0));
        assert_eq!(found(&keys, None), 2);
        assert!(keys.hides("hidden") && !keys.hides("shown"));
        let shared = SharedKeys::from(keys.clone());
        let documents = IssuerDocuments::new("https://me", "https://me/keys", shared.clone()).unwrap();
        let text = || String::from_utf8(documents.get(IssuerDocuments::KEYS_PATH).unwrap().text).unwrap();
        assert!(text().contains("shown") && !text().contains("hidden"));
        assert!((58..=60).contains(&documents.get(IssuerDocuments::KEYS_PATH).unwrap().max_age));
        shared.replace(Keys::from_signer(vec![new_key("hidden").unpublished()], later, &keys));
        assert!(text().contains("shown"), "the former keys stay");
    }

    #[test]
    fn invalid_key_is_an_error() {
        assert!(matches!(VerifyingKey::from_der(b"none"), Err(KeyError::Unreadable(_))));
    }
}
