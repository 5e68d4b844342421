//! TLS: what the server shows to clients, and which client certificates it trusts.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustls::crypto::{CryptoProvider, aws_lc_rs};
use rustls::pki_types::pem::{self, PemObject as _};
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::WebPkiClientVerifier;
use rustls::{RootCertStore, ServerConfig};

/// The files of a server's TLS.
#[derive(Clone, Debug)]
pub struct TlsFiles {
    /// The server's certificate and those it needs to be trusted, in PEM.
    pub certificate: PathBuf,
    /// The key of the certificate, in PEM.
    pub key: PathBuf,
    /// The authorities whose client certificates are trusted, in PEM; none asks clients for no certificates.
    pub client_authorities: Vec<PathBuf>,
}

/// TLS that cannot be set up.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    /// A file cannot be read, or holds no PEM of the sort that is asked for.
    #[error("cannot read {what} from {}: {source}", path.display())]
    Read {
        /// What the file should hold.
        what: &'static str,
        /// The file.
        path: PathBuf,
        /// Why.
        source: pem::Error,
    },
    /// A file holds no certificate.
    #[error("there is no certificate in {}", path.display())]
    Empty {
        /// The file.
        path: PathBuf,
    },
    /// Certificate and key do not go together, or are of no use.
    #[error("cannot use the certificate of {}: {source}", path.display())]
    Certificate {
        /// The file.
        path: PathBuf,
        /// Why.
        source: rustls::Error,
    },
    /// An authority is of no use.
    #[error("cannot use the client authority of {}: {reason}", path.display())]
    Authority {
        /// The file.
        path: PathBuf,
        /// Why.
        reason: String,
    },
}

impl TlsFiles {
    /// Reads the files and makes what connections are accepted with: TLS 1.2 and 1.3, HTTP/2 before HTTP/1.1.
    ///
    /// # Errors
    /// Where a file cannot be read or does not hold what it should.
    pub fn load(&self) -> Result<Arc<ServerConfig>, TlsError> {
        let certificates = certificates(&self.certificate)?;
        let key = PrivateKeyDer::from_pem_file(&self.key).map_err(|source| TlsError::Read {
            what: "a private key",
            path: self.key.clone(),
            source,
        })?;
        let provider = Arc::new(aws_lc_rs::default_provider());
        let refused = |source| TlsError::Certificate {
            path: self.certificate.clone(),
            source,
        };
        let builder = ServerConfig::builder_with_provider(Arc::clone(&provider));
        let builder = builder.with_safe_default_protocol_versions().map_err(refused)?;
        let builder = match self.client_authorities.first() {
            None => builder.with_no_client_auth(),
            Some(_) => builder.with_client_cert_verifier(self.client_verifier(provider)?),
        };
        let mut config = builder.with_single_cert(certificates, key).map_err(refused)?;
        config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
        Ok(Arc::new(config))
    }

    fn client_verifier(
        &self,
        provider: Arc<CryptoProvider>,
    ) -> Result<Arc<dyn rustls::server::danger::ClientCertVerifier>, TlsError> {
        let mut roots = RootCertStore::empty();
        let mut last = PathBuf::new();
        for path in &self.client_authorities {
            for certificate in certificates(path)? {
                roots.add(certificate).map_err(|error| TlsError::Authority {
                    path: path.clone(),
                    reason: error.to_string(),
                })?;
            }
            last.clone_from(path);
        }
        // A client may come without a certificate, with a token or with nothing.
        let builder = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider);
        builder
            .allow_unauthenticated()
            .build()
            .map_err(|error| TlsError::Authority {
                path: last,
                reason: error.to_string(),
            })
    }
}

fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, TlsError> {
    let read = |source| TlsError::Read {
        what: "certificates",
        path: path.to_owned(),
        source,
    };
    let certificates: Result<Vec<_>, _> = CertificateDer::pem_file_iter(path).map_err(read)?.collect();
    let certificates = certificates.map_err(read)?;
    if certificates.is_empty() {
        return Err(TlsError::Empty { path: path.to_owned() });
    }
    Ok(certificates)
}
