//! The client certificate that this server presents to aggregated servers, so that they trust the user that it names.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use arc_swap::ArcSwap;
use rustls::SignatureScheme;
use rustls::client::ResolvesClientCert;
use rustls::crypto::aws_lc_rs;
use rustls::pki_types::pem::{self, PemObject as _};
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::sign::CertifiedKey;

/// The client certificate of this server, which can be reloaded.
#[derive(Debug)]
pub struct ProxyIdentity {
    certificate: PathBuf,
    key: PathBuf,
    certificate_and_key: ArcSwap<CertifiedKey>,
}

/// The reason why there is no such certificate.
#[derive(Debug, thiserror::Error)]
pub enum IdentityError {
    /// A file that cannot be read, or holds no PEM of the right kind.
    #[error("cannot read {what} from {}: {source}", path.display())]
    Read {
        /// The expected content of the file.
        what: &'static str,
        /// The file.
        path: PathBuf,
        /// The cause.
        source: pem::Error,
    },
    /// A certificate and a key that do not match or are not usable.
    #[error("cannot use the certificate of {} with the key of {}: {source}", certificate.display(), key.display())]
    Unusable {
        /// The file of the certificate.
        certificate: PathBuf,
        /// The file of the key.
        key: PathBuf,
        /// The cause.
        source: rustls::Error,
    },
}

impl ProxyIdentity {
    /// Loads the certificate and the key from two files, in PEM.
    ///
    /// # Errors
    /// If they cannot be read, or if they do not match.
    pub fn load(certificate: &Path, key: &Path) -> Result<Arc<Self>, IdentityError> {
        Ok(Arc::new(Self {
            certificate: certificate.to_owned(),
            key: key.to_owned(),
            certificate_and_key: ArcSwap::new(read(certificate, key)?),
        }))
    }

    /// Reads the files again. If they are unusable, the previous certificate stays in use.
    ///
    /// # Errors
    /// The errors of [`ProxyIdentity::load`].
    pub fn reload(&self) -> Result<(), IdentityError> {
        self.certificate_and_key.store(read(&self.certificate, &self.key)?);
        Ok(())
    }

    /// Returns the certificate as it is when a connection begins.
    pub fn resolver(this: &Arc<Self>) -> Arc<dyn ResolvesClientCert> {
        Arc::clone(this) as Arc<dyn ResolvesClientCert>
    }
}

impl ResolvesClientCert for ProxyIdentity {
    fn resolve(&self, _hints: &[&[u8]], _schemes: &[SignatureScheme]) -> Option<Arc<CertifiedKey>> {
        Some(self.certificate_and_key.load_full())
    }

    fn has_certs(&self) -> bool {
        true
    }
}

fn read(certificate: &Path, key: &Path) -> Result<Arc<CertifiedKey>, IdentityError> {
    let unread = |what, path: &Path| {
        let path = path.to_owned();
        move |source| IdentityError::Read { what, path, source }
    };
    let parsed = CertificateDer::pem_file_iter(certificate).and_then(Iterator::collect::<Result<Vec<_>, _>>);
    let nonempty = parsed.and_then(|chain| {
        if chain.is_empty() {
            Err(pem::Error::NoItemsFound)
        } else {
            Ok(chain)
        }
    });
    let chain = nonempty.map_err(unread("certificates", certificate))?;
    let private = PrivateKeyDer::from_pem_file(key).map_err(unread("a private key", key))?;
    let read = CertifiedKey::from_der(chain, private, &aws_lc_rs::default_provider());
    let unusable = |source| IdentityError::Unusable {
        certificate: certificate.to_owned(),
        key: key.to_owned(),
        source,
    };
    read.map(Arc::new).map_err(unusable)
}

#[cfg(test)]
mod tests {
    use rcgen::{CertificateParams, KeyPair};

    use super::*;

    #[test]
    fn invalid_identity_file_is_reported_and_old_one_stays() {
        let folder = tempfile::tempdir().unwrap();
        let (certificate, key) = (folder.path().join("proxy.crt"), folder.path().join("proxy.key"));
        let write = |signed_by: &KeyPair, other: &KeyPair| {
            let made = CertificateParams::default().self_signed(signed_by).unwrap();
            std::fs::write(&certificate, made.pem()).unwrap();
            std::fs::write(&key, other.serialize_pem()).unwrap();
            made.der().clone()
        };
        let (one, two) = (KeyPair::generate().unwrap(), KeyPair::generate().unwrap());
        assert!(
            ProxyIdentity::load(&certificate, &key)
                .unwrap_err()
                .to_string()
                .contains("proxy.crt")
        );
        let first = write(&one, &one);
        let identity = ProxyIdentity::load(&certificate, &key).unwrap();
        let presented = |identity: &ProxyIdentity| identity.resolve(&[], &[]).unwrap().cert.first().cloned();
        write(&two, &one);
        assert!(matches!(identity.reload(), Err(IdentityError::Unusable { .. })));
        std::fs::write(&key, "no key").unwrap();
        assert!(identity.reload().unwrap_err().to_string().contains("proxy.key"));
        assert_eq!(presented(&identity), Some(first));
        let second = write(&two, &two);
        identity.reload().unwrap();
        assert_eq!(presented(&identity), Some(second));
    }
}
