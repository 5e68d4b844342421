//! The keys of service-account tokens: those of the flags, or one that is made at the first start and kept beside the
//! certificates.

use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, bail};
use holdfast_server::identity::{Keys, SigningKey, VerifyingKey};
use rcgen::{KeyPair, PublicKeyData as _};
use x509_parser::pem::Pem;
use x509_parser::prelude::{FromDer, X509Certificate};

use crate::files;

/// What signs tokens, and whose tokens are taken.
pub(crate) struct TokenKeys {
    /// The key that signs; none where the flags name keys to check tokens with and none to sign them.
    pub(crate) signing: Option<SigningKey>,
    /// The public keys.
    pub(crate) verifying: Keys,
}

impl TokenKeys {
    /// The keys in the files of the flags. Where there are none, that in `folder`, which is made if it is missing.
    pub(crate) fn load(folder: &Path, signing: Option<&Path>, verifying: &[PathBuf]) -> Result<Self> {
        let own = folder.join("sa.key");
        let signing = match (signing, verifying) {
            (None, []) => {
                if !own.exists() {
                    files::private_folder(folder)?;
                    tracing::info!(key = %own.display(), "making a key for tokens of service accounts");
                    files::write_private(&own, &KeyPair::generate()?.serialize_pem())?;
                }
                Some(own.as_path())
            }
            (given, _) => given,
        };
        let mut keys = Vec::new();
        let signing = match signing {
            Some(path) => {
                let text = files::read_text(path)?;
                let public = public_keys(&text).with_context(|| unusable(path))?;
                let [public] = public.as_slice() else {
                    bail!("{} must hold one key", path.display());
                };
                keys.push(public.clone());
                Some(SigningKey::from_pem(text.as_bytes(), public).with_context(|| unusable(path))?)
            }
            None => None,
        };
        for path in verifying {
            keys.extend(public_keys(&files::read_text(path)?).with_context(|| unusable(path))?);
        }
        Ok(Self {
            signing,
            verifying: Keys::new(keys),
        })
    }
}

fn unusable(path: &Path) -> String {
    format!("cannot use the key {}", path.display())
}

/// The public halves of the keys in a text of PEM: public keys, private keys and certificates.
fn public_keys(text: &str) -> Result<Vec<VerifyingKey>> {
    let mut keys = Vec::new();
    for block in Pem::iter_from_buffer(text.as_bytes()) {
        let block = block.context("not all of it is PEM")?;
        let public = match block.label.as_str() {
            "PUBLIC KEY" => block.contents,
            "CERTIFICATE" => X509Certificate::from_der(&block.contents)?.1.public_key().raw.to_vec(),
            "PRIVATE KEY" | "EC PRIVATE KEY" | "RSA PRIVATE KEY" => KeyPair::from_pem(text)?.subject_public_key_info(),
            // Tools write the parameters of a curve before the key.
            "EC PARAMETERS" => continue,
            other => bail!("there is no use for a {other}"),
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
