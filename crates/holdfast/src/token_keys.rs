//! The keys of service account tokens: those of the flags, or one that is created at the first start and kept next to
//! the certificates, with its public key, which others use to verify tokens.

use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, anyhow, bail};
use aws_lc_rs::signature::{
    ECDSA_P256_SHA256_FIXED_SIGNING, ECDSA_P384_SHA384_FIXED_SIGNING, ECDSA_P521_SHA512_FIXED_SIGNING, EcdsaKeyPair,
};
use holdfast_server::identity::{Keys, SigningKey, VerifyingKey};
use holdfast_server::wire::certificates::pem;
use rcgen::{KeyPair, PublicKeyData as _};
use x509_parser::pem::Pem;
use x509_parser::prelude::{FromDer, X509Certificate};

use crate::files;
use crate::flags::Serve;

/// Signing key of tokens, and the keys of accepted tokens.
#[derive(Clone)]
pub(crate) struct TokenKeys {
    /// Signing key; `None` if the flags only name keys that verify tokens.
    pub(crate) signing: Option<SigningKey>,
    /// The public keys.
    pub(crate) verifying: Keys,
}

impl TokenKeys {
    /// Loads the keys that the flags select.
    pub(crate) fn from_flags(flags: &Serve) -> Result<Self> {
        let folder = flags.data_dir.join("pki");
        Self::load(
            (!flags.in_memory).then_some(folder.as_path()),
            flags.service_account_signing_key_file.as_deref(),
            &flags.service_account_key_file,
        )
    }

    /// Loads the keys in the files of the flags. Without any, loads the key in `folder`, and creates it if it is
    /// missing. Without a folder the key exists in memory only.
    pub(crate) fn load<'a>(
        folder: impl Into<Option<&'a Path>>,
        signing: Option<&Path>,
        verifying: &[PathBuf],
    ) -> Result<Self> {
        let signing = match (signing, verifying) {
            (None, []) => Some(match folder.into() {
                Some(folder) => own(folder)?,
                None => signing_key(&KeyPair::generate()?.serialize_pem())?,
            }),
            (None, _) => None,
            (Some(path), _) => Some(read(path, signing_key).context("--service-account-signing-key-file")?),
        };
        let (signing, public) = signing.map(|read| (read.key, read.public)).unzip();
        let mut keys: Vec<VerifyingKey> = public.into_iter().collect();
        for path in verifying {
            keys.extend(read(path, public_keys).context("--service-account-key-file")?);
        }
        Ok(Self {
            signing,
            verifying: Keys::new(keys),
        })
    }
}

/// Returns the key in `folder`, and creates it if it is missing. Writes its public key next to it: kube-apiserver does
/// not accept a private key in this encoding for verifying tokens.
fn own(folder: &Path) -> Result<Signing> {
    let path = folder.join("sa.key");
    if !path.exists() {
        files::private_folder(folder)?;
        tracing::info!(key = %path.display(), "making a key for tokens of service accounts");
        files::write_private(&path, &KeyPair::generate()?.serialize_pem())?;
    }
    files::restrict(&path);
    let own = read(&path, signing_key)?;
    let (path, public) = (folder.join("sa.pub"), pem("PUBLIC KEY", &own.public_der));
    if !std::fs::read_to_string(&path).is_ok_and(|there| there == public) {
        files::write_private(&path, &public)?;
    }
    Ok(own)
}

/// Reads a file of keys and parses it with `parse`.
fn read<T>(path: &Path, parse: fn(&str) -> Result<T>) -> Result<T> {
    let parsed = parse(&files::read_text(path)?);
    parsed.with_context(|| format!("cannot use the key {}", path.display()))
}

/// The labels of private keys in PEM: PKCS #8, SEC 1 and PKCS #1.
const PRIVATE: [&str; 3] = ["PRIVATE KEY", "EC PRIVATE KEY", "RSA PRIVATE KEY"];

/// A key that signs, and its public half.
struct Signing {
    key: SigningKey,
    public: VerifyingKey,
    public_der: Vec<u8>,
}

/// Returns the first private key in a PEM text.
fn signing_key(text: &str) -> Result<Signing> {
    let block = first_private_key(text)?;
    let public_der = public_half(&block.contents)?;
    let public = VerifyingKey::from_der(&public_der)?;
    let text = match block.label.as_str() {
        "EC PRIVATE KEY" => pem("PRIVATE KEY", &modern(&block.contents)?),
        label => pem(label, &block.contents),
    };
    Ok(Signing {
        key: SigningKey::from_pem(text.as_bytes(), &public)?,
        public,
        public_der,
    })
}

fn first_private_key(text: &str) -> Result<Pem> {
    for block in Pem::iter_from_buffer(text.as_bytes()) {
        let block = block.context("not all of it is PEM")?;
        if PRIVATE.contains(&block.label.as_str()) {
            return Ok(block);
        }
    }
    bail!("there is no private key in it")
}

/// Returns the public key of a private key, in DER.
fn public_half(private: &[u8]) -> Result<Vec<u8>> {
    Ok(KeyPair::try_from(private)?.subject_public_key_info())
}

/// Converts an elliptic-curve key from SEC 1 to PKCS #8.
fn modern(key: &[u8]) -> Result<Vec<u8>> {
    let curves = [
        &ECDSA_P256_SHA256_FIXED_SIGNING,
        &ECDSA_P384_SHA384_FIXED_SIGNING,
        &ECDSA_P521_SHA512_FIXED_SIGNING,
    ];
    let mut read = curves
        .into_iter()
        .map(|curve| EcdsaKeyPair::from_private_key_der(curve, key));
    let parsed = read.find_map(Result::ok).context("its curve is not known")?;
    let key = parsed.to_pkcs8v1().map_err(|_| anyhow!("it cannot be written anew"))?;
    Ok(key.as_ref().to_vec())
}

/// Returns the public keys in a PEM text, from its public keys, private keys and certificates. Skips other blocks, such
/// as the parameters of a curve.
fn public_keys(text: &str) -> Result<Vec<VerifyingKey>> {
    let mut keys = Vec::new();
    for block in Pem::iter_from_buffer(text.as_bytes()) {
        let block = block.context("not all of it is PEM")?;
        let public = match block.label.as_str() {
            "PUBLIC KEY" => block.contents,
            "CERTIFICATE" => X509Certificate::from_der(&block.contents)?.1.public_key().raw.to_vec(),
            label if PRIVATE.contains(&label) => public_half(&block.contents)?,
            _ => continue,
        };
        keys.push(VerifyingKey::from_der(&public)?);
    }
    if keys.is_empty() {
        bail!("there is no key in it");
    }
    Ok(keys)
}

#[cfg(test)]
mod tests {
    use std::fs;

    use aws_lc_rs::encoding::{AsDer as _, EcPrivateKeyRfc5915Der, Pkcs8V1Der};
    use aws_lc_rs::rsa;

    use super::*;

    #[test]
    fn a_key_is_made_once() {
        let folder = tempfile::tempdir().unwrap();
        let load = || TokenKeys::load(folder.path(), None, &[]).unwrap();
        assert!(load().signing.is_some());
        let first = fs::read(folder.path().join("sa.key")).unwrap();
        load();
        assert_eq!(fs::read(folder.path().join("sa.key")).unwrap(), first);
    }

    #[test]
    fn the_public_half_of_the_own_key_stands_beside_it() {
        let folder = tempfile::tempdir().unwrap();
        let load = || TokenKeys::load(folder.path(), None, &[]).unwrap();
        let read = |name: &str| fs::read_to_string(folder.path().join(name)).unwrap();
        load();
        let own = KeyPair::from_pem(&read("sa.key")).unwrap();
        assert_eq!(pem("PUBLIC KEY", &own.subject_public_key_info()), read("sa.pub"));
        let other = KeyPair::generate().unwrap();
        fs::write(folder.path().join("sa.key"), other.serialize_pem()).unwrap();
        load();
        assert_eq!(public_keys(&read("sa.pub")).unwrap().len(), 1);
        assert_eq!(pem("PUBLIC KEY", &other.subject_public_key_info()), read("sa.pub"));
    }

    #[test]
    fn keys_are_taken_in_all_forms_that_the_reference_takes() {
        let rsa_pair = rsa::KeyPair::generate(rsa::KeySize::Rsa2048).unwrap();
        let modern: Pkcs8V1Der<'_> = rsa_pair.as_der().unwrap();
        // The PKCS #8 header of a key of this size has 26 bytes.
        let classic = pem("RSA PRIVATE KEY", &modern.as_ref()[26..]);
        let elliptic_pair = EcdsaKeyPair::generate(&ECDSA_P384_SHA384_FIXED_SIGNING).unwrap();
        let elliptic_der: EcPrivateKeyRfc5915Der<'_> = elliptic_pair.private_key().as_der().unwrap();
        let elliptic = pem("EC PARAMETERS", b"x") + &pem("EC PRIVATE KEY", elliptic_der.as_ref());
        let forms = [
            ("PKCS #1", classic),
            ("PKCS #8", pem("PRIVATE KEY", modern.as_ref())),
            ("SEC 1 after its parameters", elliptic),
        ];
        for (name, text) in &forms {
            signing_key(text).unwrap_or_else(|error| panic!("{name}: {error:#}"));
            assert_eq!(public_keys(text).unwrap().len(), 1, "{name}");
        }
        let all: String = forms.iter().map(|(_, text)| text.as_str()).collect();
        assert_eq!(public_keys(&all).unwrap().len(), 3);
        for nothing in ["", "nothing", &pem("EC PARAMETERS", b"x")] {
            assert!(
                signing_key(nothing).is_err() && public_keys(nothing).is_err(),
                "{nothing:?}"
            );
        }
        assert!(public_keys(&pem("PRIVATE KEY", b"x")).is_err());
    }

    #[test]
    fn public_keys_alone_check_tokens_and_sign_none() {
        let folder = tempfile::tempdir().unwrap();
        let key = KeyPair::generate().unwrap();
        let (public, private) = (folder.path().join("public"), folder.path().join("private"));
        fs::write(&public, key.public_key_pem()).unwrap();
        fs::write(&private, key.serialize_pem()).unwrap();
        assert!(
            TokenKeys::load(folder.path(), None, std::slice::from_ref(&public))
                .unwrap()
                .signing
                .is_none()
        );
        assert!(
            TokenKeys::load(folder.path(), Some(&private), &[public])
                .unwrap()
                .signing
                .is_some()
        );
        fs::write(&private, "nothing").unwrap();
        assert!(TokenKeys::load(folder.path(), Some(&private), &[]).is_err());
    }
}
