//! TLS: the certificate of the server, and the client certificates that it requests. A handshake accepts any client
//! certificate; [`ClientAuthorities`] decides afterwards which are trusted.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustls::client::danger::{ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, WebPkiSupportedAlgorithms, aws_lc_rs};
use rustls::pki_types::pem::{self, PemObject as _};
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use rustls::server::WebPkiClientVerifier;
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::version::TLS13;
use rustls::{
    ALL_VERSIONS, DistinguishedName, RootCertStore, ServerConfig, SupportedCipherSuite, SupportedProtocolVersion,
};

use crate::wire::client_authorities::ClientAuthorities;
use crate::wire::x509;

/// The files of a server's TLS.
#[derive(Clone, Debug)]
pub struct TlsFiles {
    /// Certificate of the server and its intermediates, in PEM.
    pub certificate: PathBuf,
    /// The key of the certificate, in PEM.
    pub key: PathBuf,
    /// Authorities whose client certificates are trusted, in PEM; if empty, the server requests no client certificates.
    pub client_authorities: Vec<PathBuf>,
    /// Further authorities named to clients in the handshake, so that clients send certificates of these too, in PEM.
    pub other_authorities: Vec<PathBuf>,
    /// Protocol rules of handshakes.
    pub rules: TlsRules,
}

/// Protocol rules of handshakes.
#[derive(Clone, Debug)]
pub struct TlsRules {
    /// True if TLS 1.2 is rejected.
    pub only_tls13: bool,
    /// Cipher suites of TLS 1.2; `None` for all. Those of TLS 1.3 are always enabled.
    pub suites: Option<Vec<SupportedCipherSuite>>,
    /// True if HTTP/2 is served in addition to HTTP/1.1.
    pub http2: bool,
}

impl Default for TlsRules {
    fn default() -> Self {
        Self {
            only_tls13: false,
            suites: None,
            http2: true,
        }
    }
}

static ONLY_TLS13: [&SupportedProtocolVersion; 1] = [&TLS13];

impl TlsRules {
    fn provider(&self) -> CryptoProvider {
        let mut provider = aws_lc_rs::default_provider();
        if let Some(suites) = &self.suites {
            provider
                .cipher_suites
                .retain(|suite| suite.tls13().is_some() || suites.contains(suite));
        }
        provider
    }

    fn versions(&self) -> &'static [&'static SupportedProtocolVersion] {
        let no_old_suite = self.suites.as_ref().is_some_and(Vec::is_empty);
        if self.only_tls13 || no_old_suite {
            &ONLY_TLS13
        } else {
            ALL_VERSIONS
        }
    }
}

/// Returns the cipher suite with this name in Go, if it is supported here.
pub fn suite_of(name: &str) -> Option<SupportedCipherSuite> {
    // An older name, which lacks the hash.
    let name = match name.strip_suffix("_POLY1305") {
        Some(_) => format!("{name}_SHA256"),
        None => name.to_owned(),
    };
    let suites = aws_lc_rs::ALL_CIPHER_SUITES.iter();
    let mut named = suites.filter(|suite| {
        suite
            .suite()
            .as_str()
            .is_some_and(|known| known.replacen("TLS13_", "TLS_", 1) == name)
    });
    named.next().copied()
}

/// TLS configuration for accepted connections.
#[derive(Clone, Debug)]
pub struct Tls {
    /// Configuration of handshakes.
    pub config: Arc<ServerConfig>,
    /// Authorities that sign client certificates; `None` if the server requests no certificates.
    pub authorities: Option<Arc<ClientAuthorities>>,
}

/// Error of the TLS setup.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    /// A file cannot be read, or holds no PEM of the right kind.
    #[error("cannot read {what} from {}: {source}", path.display())]
    Read {
        /// Expected content of the file.
        what: &'static str,
        /// The file.
        path: PathBuf,
        /// Cause.
        source: pem::Error,
    },
    /// A file holds no certificate.
    #[error("there is no certificate in {}", path.display())]
    Empty {
        /// The file.
        path: PathBuf,
    },
    /// Certificate and key do not match, or are unusable.
    #[error("cannot use the certificate of {}: {source}", path.display())]
    Certificate {
        /// The file.
        path: PathBuf,
        /// Cause.
        source: rustls::Error,
    },
    /// An authority is unusable.
    #[error("cannot use the client authority of {}: {reason}", path.display())]
    Authority {
        /// The file.
        path: PathBuf,
        /// Cause.
        reason: String,
    },
}

impl TlsError {
    /// Returns the path of the file.
    pub fn path(&self) -> &Path {
        let (Self::Read { path, .. }
        | Self::Empty { path }
        | Self::Certificate { path, .. }
        | Self::Authority { path, .. }) = self;
        path
    }
}

impl TlsFiles {
    /// Loads the files and returns the configuration for accepted connections: TLS 1.2 and 1.3, HTTP/2 before HTTP/1.1.
    ///
    /// # Errors
    /// If a file cannot be read or has unexpected content.
    pub fn load(&self) -> Result<Tls, TlsError> {
        let certificates = certificates(&self.certificate)?;
        let key = PrivateKeyDer::from_pem_file(&self.key).map_err(|source| TlsError::Read {
            what: "a private key",
            path: self.key.clone(),
            source,
        })?;
        let provider = Arc::new(self.rules.provider());
        let invalid = |source| TlsError::Certificate {
            path: self.certificate.clone(),
            source,
        };
        let with_provider = ServerConfig::builder_with_provider(Arc::clone(&provider));
        let builder = with_provider
            .with_protocol_versions(self.rules.versions())
            .map_err(invalid)?;
        let all = self.client_authorities.iter().chain(&self.other_authorities);
        let (builder, authorities) = match all.count() {
            0 => (builder.with_no_client_auth(), None),
            _ => {
                let algorithms = provider.signature_verification_algorithms;
                let (roots, authorities) = read_authorities(&self.client_authorities, provider)?;
                let mut hints = roots.subjects();
                for path in &self.other_authorities {
                    hints.extend(roots_of(path)?.1.subjects());
                }
                let asking = AnyCertificate { hints, algorithms };
                let builder = builder.with_client_cert_verifier(Arc::new(asking));
                (builder, Some(Arc::new(authorities)))
            }
        };
        let mut config = builder.with_single_cert(certificates, key).map_err(invalid)?;
        if self.rules.http2 {
            config.alpn_protocols.push(b"h2".to_vec());
        }
        config.alpn_protocols.push(b"http/1.1".to_vec());
        Ok(Tls {
            config: Arc::new(config),
            authorities,
        })
    }
}

impl ClientAuthorities {
    /// Loads the authorities in a file, in PEM.
    ///
    /// # Errors
    /// If it cannot be read or has unexpected content.
    pub fn load(path: &Path) -> Result<Self, TlsError> {
        let provider = Arc::new(aws_lc_rs::default_provider());
        let (_, authorities) = read_authorities(&[path.to_owned()], provider)?;
        Ok(authorities)
    }
}

/// Returns the certificates in a file, and those of them that may sign.
fn roots_of(path: &Path) -> Result<(Vec<CertificateDer<'static>>, RootCertStore), TlsError> {
    let invalid = |reason: String| TlsError::Authority {
        path: path.to_owned(),
        reason,
    };
    let (all, mut roots) = (certificates(path)?, RootCertStore::empty());
    for certificate in &all {
        x509::parse(certificate).map_err(|error| invalid(error.to_string()))?;
        if x509::may_sign(certificate) {
            let added = roots.add(certificate.clone());
            added.map_err(|error| invalid(error.to_string()))?;
        }
    }
    Ok((all, roots))
}

fn read_authorities(
    paths: &[PathBuf],
    provider: Arc<CryptoProvider>,
) -> Result<(Arc<RootCertStore>, ClientAuthorities), TlsError> {
    let (mut all, mut roots) = (Vec::new(), RootCertStore::empty());
    for path in paths {
        let (certificates, of_path) = roots_of(path)?;
        all.extend(certificates);
        roots.extend(of_path.roots);
    }
    let roots = Arc::new(roots);
    let chains = match roots.is_empty() {
        true => None,
        // The builder requires only that there are authorities, which there are.
        false => WebPkiClientVerifier::builder_with_provider(Arc::clone(&roots), provider)
            .build()
            .ok(),
    };
    Ok((roots, ClientAuthorities::new(all, chains)))
}

/// Implements the methods of a certificate verifier that check signatures, for types with a field `algorithms`.
#[macro_export]
macro_rules! verify_signatures {
    () => {
        fn verify_tls12_signature(
            &self,
            message: &[u8],
            certificate: &::rustls::pki_types::CertificateDer<'_>,
            signature: &::rustls::DigitallySignedStruct,
        ) -> Result<::rustls::client::danger::HandshakeSignatureValid, ::rustls::Error> {
            ::rustls::crypto::verify_tls12_signature(message, certificate, signature, &self.algorithms)
        }

        fn verify_tls13_signature(
            &self,
            message: &[u8],
            certificate: &::rustls::pki_types::CertificateDer<'_>,
            signature: &::rustls::DigitallySignedStruct,
        ) -> Result<::rustls::client::danger::HandshakeSignatureValid, ::rustls::Error> {
            ::rustls::crypto::verify_tls13_signature(message, certificate, signature, &self.algorithms)
        }

        fn supported_verify_schemes(&self) -> Vec<::rustls::SignatureScheme> {
            self.algorithms.supported_schemes()
        }
    };
}

/// Accepts any certificate of a server that has the key, for callers that want no other proof.
#[derive(Debug)]
pub struct AnyServer {
    algorithms: WebPkiSupportedAlgorithms,
}

impl AnyServer {
    /// Verifies the signatures of handshakes with these algorithms.
    pub fn new(algorithms: WebPkiSupportedAlgorithms) -> Self {
        Self { algorithms }
    }
}

impl ServerCertVerifier for AnyServer {
    fn verify_server_cert(
        &self,
        _certificate: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        _name: &ServerName<'_>,
        _ocsp: &[u8],
        _now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }

    verify_signatures!();
}

/// Accepts any certificate of a client that has the key, and clients without a certificate.
#[derive(Debug)]
struct AnyCertificate {
    /// Names of the trusted authorities, by which clients choose their certificates.
    hints: Vec<DistinguishedName>,
    algorithms: WebPkiSupportedAlgorithms,
}

impl ClientCertVerifier for AnyCertificate {
    fn client_auth_mandatory(&self) -> bool {
        false
    }

    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        &self.hints
    }

    fn verify_client_cert(
        &self,
        _certificate: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        _now: UnixTime,
    ) -> Result<ClientCertVerified, rustls::Error> {
        Ok(ClientCertVerified::assertion())
    }

    verify_signatures!();
}

fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, TlsError> {
    let read = |source| TlsError::Read {
        what: "certificates",
        path: path.to_owned(),
        source,
    };
    let parsed: Result<Vec<_>, _> = CertificateDer::pem_file_iter(path).map_err(read)?.collect();
    let certificates = parsed.map_err(read)?;
    if certificates.is_empty() {
        return Err(TlsError::Empty { path: path.to_owned() });
    }
    Ok(certificates)
}
