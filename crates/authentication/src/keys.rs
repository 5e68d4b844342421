//! Public keys of an issuer (RFC 7517), and the verification of signatures.

use aws_lc_rs::signature::{
    ECDSA_P256_SHA256_FIXED, ECDSA_P384_SHA384_FIXED, ECDSA_P521_SHA512_FIXED, EcdsaVerificationAlgorithm,
    RSA_PKCS1_2048_8192_SHA256, RSA_PKCS1_2048_8192_SHA384, RSA_PKCS1_2048_8192_SHA512, RSA_PSS_2048_8192_SHA256,
    RSA_PSS_2048_8192_SHA384, RSA_PSS_2048_8192_SHA512, RsaParameters, RsaPublicKeyComponents, UnparsedPublicKey,
};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use holdfast_value::{Limits, Value, json};

use crate::jws::{Algorithm, Jws};

/// Maximum size of a key set in bytes.
const MAX_BYTES: usize = 1 << 20;

/// Maximum number of keys: a token without a key id is verified with each of them.
const MAX_KEYS: usize = 100;

const LIMITS: Limits = Limits {
    max_bytes: MAX_BYTES,
    max_depth: 16,
    max_nodes: 50_000,
};

/// Keys of an issuer.
#[derive(Clone, Debug, Default)]
pub struct KeySet(Vec<Key>);

#[derive(Clone, Debug)]
struct Key {
    id: String,
    material: Material,
}

#[derive(Clone, Debug)]
enum Material {
    Rsa(RsaPublicKeyComponents<Vec<u8>>),
    /// The algorithm of its curve, and an uncompressed point.
    Ec(Algorithm, Vec<u8>),
}

impl KeySet {
    /// Reads a JSON Web Key Set. Keys that are neither RSA nor on a curve of the algorithms verify nothing and are
    /// skipped.
    ///
    /// # Errors
    /// If it is not a key set, has too many keys, or an RSA or EC key in it is malformed.
    pub fn parse(text: &[u8]) -> Result<Self, String> {
        let value = json::parse(text, &LIMITS).map_err(|error| error.to_string())?;
        let keys = value
            .get("keys")
            .and_then(Value::as_list)
            .ok_or("it has no list of keys")?;
        if keys.len() > MAX_KEYS {
            return Err(format!("it has {} keys; at most {MAX_KEYS} are allowed", keys.len()));
        }
        let keys = keys.iter().map(Key::parse).filter_map(Result::transpose);
        Ok(Self(keys.collect::<Result<_, _>>()?))
    }

    /// Returns the number of keys.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Returns true if there are no keys.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns true if one of the keys made the signature. A key id in the token selects the keys.
    pub(crate) fn verify(&self, jws: &Jws) -> bool {
        let Some(algorithm) = Algorithm::named(&jws.algorithm) else {
            return false;
        };
        let mut candidates = self
            .0
            .iter()
            .filter(|key| jws.key_id.is_empty() || key.id == jws.key_id);
        candidates.any(|key| key.material.verify(algorithm, jws.signed.as_bytes(), &jws.signature))
    }
}

impl Key {
    /// Reads a key; `None` if it has a type that tokens are not signed with.
    fn parse(value: &Value) -> Result<Option<Self>, String> {
        let member = |name: &str| -> Result<Vec<u8>, String> {
            let text = value.str_at(&[name]).unwrap_or_default();
            let bytes = URL_SAFE_NO_PAD
                .decode(text)
                .map_err(|error| format!("{name}: {error}"))?;
            match bytes.is_empty() {
                true => Err(format!("a key has no {name}")),
                false => Ok(bytes),
            }
        };
        let material = match value.str_at(&["kty"]) {
            Some("RSA") => Some(Material::Rsa(RsaPublicKeyComponents {
                n: without_zeros(member("n")?),
                e: without_zeros(member("e")?),
            })),
            Some("EC") => Material::on_curve(value.str_at(&["crv"]), member("x")?, &member("y")?)?,
            Some(_) => None,
            None => return Err("a key has no kty".to_owned()),
        };
        let id = value.str_at(&["kid"]).unwrap_or_default().to_owned();
        Ok(material.map(|material| Self { id, material }))
    }
}

/// Returns the number without leading zeros.
fn without_zeros(mut number: Vec<u8>) -> Vec<u8> {
    let zeros = number.iter().take_while(|byte| **byte == 0).count();
    number.drain(..zeros);
    number
}

impl Material {
    fn on_curve(curve: Option<&str>, x: Vec<u8>, y: &[u8]) -> Result<Option<Self>, String> {
        let (algorithm, length) = match curve {
            Some("P-256") => (Algorithm::ES256, 32),
            Some("P-384") => (Algorithm::ES384, 48),
            Some("P-521") => (Algorithm::ES512, 66),
            _ => return Ok(None),
        };
        if x.len() != length || y.len() != length {
            return Err("the coordinates of a key have the wrong length".to_owned());
        }
        let point = [vec![4], x, y.to_vec()].concat();
        Ok(Some(Self::Ec(algorithm, point)))
    }

    fn verify(&self, algorithm: Algorithm, message: &[u8], signature: &[u8]) -> bool {
        match self {
            Self::Rsa(key) => {
                let parameters = rsa_parameters(algorithm);
                parameters.is_some_and(|parameters| key.verify(parameters, message, signature).is_ok())
            }
            Self::Ec(of_curve, point) => {
                let ecdsa = ecdsa(algorithm).filter(|_| algorithm == *of_curve);
                ecdsa.is_some_and(|ecdsa| UnparsedPublicKey::new(ecdsa, point).verify(message, signature).is_ok())
            }
        }
    }
}

fn rsa_parameters(algorithm: Algorithm) -> Option<&'static RsaParameters> {
    Some(match algorithm {
        Algorithm::RS256 => &RSA_PKCS1_2048_8192_SHA256,
        Algorithm::RS384 => &RSA_PKCS1_2048_8192_SHA384,
        Algorithm::RS512 => &RSA_PKCS1_2048_8192_SHA512,
        Algorithm::PS256 => &RSA_PSS_2048_8192_SHA256,
        Algorithm::PS384 => &RSA_PSS_2048_8192_SHA384,
        Algorithm::PS512 => &RSA_PSS_2048_8192_SHA512,
        _ => return None,
    })
}

fn ecdsa(algorithm: Algorithm) -> Option<&'static EcdsaVerificationAlgorithm> {
    Some(match algorithm {
        Algorithm::ES256 => &ECDSA_P256_SHA256_FIXED,
        Algorithm::ES384 => &ECDSA_P384_SHA384_FIXED,
        Algorithm::ES512 => &ECDSA_P521_SHA512_FIXED,
        _ => return None,
    })
}

#[cfg(test)]
pub(crate) mod tests {
    use aws_lc_rs::rand::SystemRandom;
    use aws_lc_rs::rsa::KeySize;
    use aws_lc_rs::signature::{
        ECDSA_P256_SHA256_FIXED_SIGNING, ECDSA_P384_SHA384_FIXED_SIGNING, ECDSA_P521_SHA512_FIXED_SIGNING,
        EcdsaKeyPair, EcdsaSigningAlgorithm, KeyPair as _, RSA_PKCS1_SHA256, RSA_PKCS1_SHA384, RSA_PKCS1_SHA512,
        RSA_PSS_SHA256, RSA_PSS_SHA384, RSA_PSS_SHA512, RsaEncoding, RsaKeyPair,
    };

    use super::*;

    /// A private key that signs tokens.
    pub(crate) enum Signer {
        Rsa(RsaKeyPair),
        Ec(EcdsaKeyPair, &'static str),
    }

    impl Signer {
        pub(crate) fn rsa() -> Self {
            Self::Rsa(RsaKeyPair::generate(KeySize::Rsa2048).unwrap())
        }

        fn ec(algorithm: &'static EcdsaSigningAlgorithm, curve: &'static str) -> Self {
            Self::Ec(EcdsaKeyPair::generate(algorithm).unwrap(), curve)
        }

        /// Returns the public key as a member of a key set.
        pub(crate) fn jwk(&self, id: &str) -> String {
            let encode = |bytes: &[u8]| URL_SAFE_NO_PAD.encode(bytes);
            match self {
                Self::Rsa(pair) => {
                    let key = pair.public_key();
                    let n = encode(key.modulus().big_endian_without_leading_zero());
                    let e = encode(key.exponent().big_endian_without_leading_zero());
                    format!(r#"{{"kty":"RSA","kid":"{id}","n":"{n}","e":"{e}"}}"#)
                }
                Self::Ec(pair, curve) => {
                    let (x, y) = pair.public_key().as_ref()[1..].split_at(pair.public_key().as_ref().len() / 2);
                    let (x, y) = (encode(x), encode(y));
                    format!(r#"{{"kty":"EC","kid":"{id}","crv":"{curve}","x":"{x}","y":"{y}"}}"#)
                }
            }
        }

        /// Returns a token.
        pub(crate) fn token(&self, algorithm: &str, id: &str, claims: &str) -> String {
            let header = format!(r#"{{"alg":"{algorithm}","kid":"{id}"}}"#);
            let signed = format!("{}.{}", URL_SAFE_NO_PAD.encode(header), URL_SAFE_NO_PAD.encode(claims));
            let random = SystemRandom::new();
            let signature = match self {
                Self::Rsa(pair) => {
                    let encoding: &'static dyn RsaEncoding = match algorithm {
                        "RS384" => &RSA_PKCS1_SHA384,
                        "RS512" => &RSA_PKCS1_SHA512,
                        "PS256" => &RSA_PSS_SHA256,
                        "PS384" => &RSA_PSS_SHA384,
                        "PS512" => &RSA_PSS_SHA512,
                        _ => &RSA_PKCS1_SHA256,
                    };
                    let mut signature = vec![0; pair.public_modulus_len()];
                    pair.sign(encoding, &random, signed.as_bytes(), &mut signature).unwrap();
                    signature
                }
                Self::Ec(pair, _) => pair.sign(&random, signed.as_bytes()).unwrap().as_ref().to_vec(),
            };
            format!("{signed}.{}", URL_SAFE_NO_PAD.encode(signature))
        }
    }

    /// Returns the set of these keys, numbered from 0.
    pub(crate) fn key_set(signers: &[&Signer]) -> KeySet {
        let keys: Vec<String> = signers
            .iter()
            .enumerate()
            .map(|(at, signer)| signer.jwk(&at.to_string()))
            .collect();
        KeySet::parse(format!(r#"{{"keys":[{}]}}"#, keys.join(",")).as_bytes()).unwrap()
    }

    #[test]
    fn signature_of_each_algorithm_is_verified() {
        let (rsa, other) = (Signer::rsa(), Signer::rsa());
        let curves = [
            ("ES256", Signer::ec(&ECDSA_P256_SHA256_FIXED_SIGNING, "P-256")),
            ("ES384", Signer::ec(&ECDSA_P384_SHA384_FIXED_SIGNING, "P-384")),
            ("ES512", Signer::ec(&ECDSA_P521_SHA512_FIXED_SIGNING, "P-521")),
        ];
        let of_rsa = ["RS256", "RS384", "RS512", "PS256", "PS384", "PS512"].map(|name| (name, &rsa));
        let all = of_rsa
            .into_iter()
            .chain(curves.iter().map(|(name, signer)| (*name, signer)));
        for (name, signer) in all {
            let keys = key_set(&[&other, signer]);
            let verify = |token: String| keys.verify(&Jws::parse(&token).unwrap());
            assert!(verify(signer.token(name, "1", "{}")), "{name}");
            assert!(verify(signer.token(name, "", "{}")), "{name} without a key id");
            assert!(!verify(signer.token(name, "0", "{}")), "{name} of another key");
            let forged = signer.token(name, "1", "{}").replace(".e30.", ".eyJhIjoxfQ.");
            assert!(!verify(forged), "{name} of other claims");
        }
        assert!(!key_set(&[&rsa]).verify(&Jws::parse(&rsa.token("ES256", "0", "{}")).unwrap()));
        assert!(!key_set(&[&rsa]).verify(&Jws::parse(&rsa.token("none", "0", "{}")).unwrap()));
    }

    #[test]
    fn malformed_key_sets_are_rejected() {
        let many = format!(r#"{{"keys":[{}]}}"#, vec![r#"{"kty":"oct"}"#; MAX_KEYS + 1].join(","));
        for text in [
            "",
            "[]",
            "{}",
            r#"{"keys":[{}]}"#,
            r#"{"keys":[{"kty":"RSA","e":"AQAB"}]}"#,
            r#"{"keys":[{"kty":"RSA","n":"?","e":"AQAB"}]}"#,
            r#"{"keys":[{"kty":"EC","crv":"P-256","x":"AQ","y":"AQ"}]}"#,
            &many,
        ] {
            assert!(KeySet::parse(text.as_bytes()).is_err(), "{text}");
        }
        let others = r#"{"keys":[{"kty":"oct","k":"AQ"},{"kty":"OKP","crv":"Ed25519","x":"AQ"}]}"#;
        assert!(KeySet::parse(others.as_bytes()).unwrap().is_empty());
    }
}
