//! TLS: the certificate of the server, and the client certificates that it requests. A handshake accepts any client
//! certificate; [`ClientAuthorities`] decides afterwards which are trusted.

use std::collections::HashMap;
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustls::client::danger::{ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, WebPkiSupportedAlgorithms, aws_lc_rs};
use rustls::pki_types::pem::{self, PemObject as _};
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use rustls::server::WebPkiClientVerifier;
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::sign::CertifiedKey;
use rustls::version::TLS13;
use rustls::{
    ALL_VERSIONS, DistinguishedName, NamedGroup, RootCertStore, ServerConfig, SupportedCipherSuite,
    SupportedProtocolVersion,
};
use tokio::net::TcpStream;

use crate::wire::client_authorities::ClientAuthorities;
use crate::wire::named_certificates::{NamedCertificate, Resolver};
use crate::wire::pem_source::PemSource;
use crate::wire::x509;

/// The files of a server's TLS, or their content.
#[derive(Clone, Debug)]
pub struct TlsFiles {
    /// Certificate of the server and its intermediates, in PEM.
    pub certificate: PemSource,
    /// The key of the certificate, in PEM.
    pub key: PemSource,
    /// Authorities whose client certificates are trusted, in PEM; if empty, the server requests no client certificates.
    pub client_authorities: Vec<PemSource>,
    /// Further authorities named to clients in the handshake, so that clients send certificates of these too, in PEM.
    pub other_authorities: Vec<PemSource>,
    /// Further certificates, for clients that request their names. The first one of a name applies.
    pub named: Vec<NamedFiles>,
    /// Protocol rules of handshakes.
    pub rules: TlsRules,
}

/// The files of a certificate for clients that request its names.
#[derive(Clone, Debug)]
pub struct NamedFiles {
    /// The certificate and its intermediates, in PEM.
    pub certificate: PathBuf,
    /// The key of the certificate, in PEM.
    pub key: PathBuf,
    /// DNS names, which may begin with `*.`, and addresses of the server; if empty, the names in the certificate.
    pub names: Vec<String>,
}

impl NamedFiles {
    fn load(&self, provider: &CryptoProvider) -> Result<NamedCertificate, TlsError> {
        Ok(NamedCertificate {
            certificate: certified_key(&self.certificate.clone().into(), &self.key.clone().into(), provider)?,
            names: self.names.clone(),
        })
    }
}

/// Protocol rules of handshakes.
#[derive(Clone, Debug)]
pub struct TlsRules {
    /// True if TLS 1.2 is rejected.
    pub only_tls13: bool,
    /// Cipher suites of TLS 1.2; `None` for all. Those of TLS 1.3 are always enabled.
    pub suites: Option<Vec<SupportedCipherSuite>>,
    /// Key exchange mechanisms; `None` for all.
    pub key_exchanges: Option<Vec<NamedGroup>>,
    /// True if HTTP/2 is served in addition to HTTP/1.1.
    pub http2: bool,
}

impl Default for TlsRules {
    fn default() -> Self {
        Self {
            only_tls13: false,
            suites: None,
            key_exchanges: None,
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
        if let Some(allowed) = &self.key_exchanges {
            provider.kx_groups = aws_lc_rs::ALL_KX_GROUPS.to_vec();
            provider.kx_groups.retain(|group| allowed.contains(&group.name()));
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

/// Returns the key exchange mechanism with this number in the TLS registry, if it is supported here.
pub fn key_exchange(number: u16) -> Option<NamedGroup> {
    let name = NamedGroup::from(number);
    let mut groups = aws_lc_rs::ALL_KX_GROUPS.iter();
    groups.any(|group| group.name() == name).then_some(name)
}

/// TLS configuration for accepted connections.
#[derive(Clone, Debug)]
pub struct Tls {
    /// Configuration of handshakes.
    pub config: Arc<ServerConfig>,
    /// Configurations of handshakes at addresses of the server that have a certificate of their own.
    pub by_address: HashMap<IpAddr, Arc<ServerConfig>>,
    /// Authorities that sign client certificates; `None` if the server requests no certificates.
    pub authorities: Option<Arc<ClientAuthorities>>,
}

impl Tls {
    /// Returns the configuration of handshakes of `stream`.
    pub(crate) fn config_of(&self, stream: &TcpStream) -> Arc<ServerConfig> {
        if !self.by_address.is_empty()
            && let Ok(local) = stream.local_addr()
            && let Some(config) = self.by_address.get(&local.ip().to_canonical())
        {
            return Arc::clone(config);
        }
        Arc::clone(&self.config)
    }
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
        let provider = Arc::new(self.rules.provider());
        let invalid = |source| TlsError::Certificate {
            path: self.certificate.path().to_owned(),
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
                let (roots, authorities) = read_authorities(&self.client_authorities, Arc::clone(&provider))?;
                let mut hints = roots.subjects();
                for authority in &self.other_authorities {
                    hints.extend(roots_of(authority)?.1.subjects());
                }
                let asking = AnyCertificate { hints, algorithms };
                let builder = builder.with_client_cert_verifier(Arc::new(asking));
                (builder, Some(Arc::new(authorities)))
            }
        };
        let certificate = certified_key(&self.certificate, &self.key, &provider)?;
        let named = self.named.iter().map(|files| files.load(&provider));
        let resolver = Resolver::new(certificate, named.collect::<Result<_, _>>()?);
        let by_address = resolver.for_addresses();
        let mut config = builder.with_cert_resolver(Arc::new(resolver));
        if self.rules.http2 {
            config.alpn_protocols.push(b"h2".to_vec());
        }
        config.alpn_protocols.push(b"http/1.1".to_vec());
        let by_address = by_address.into_iter().map(|(address, resolver)| {
            let mut config = config.clone();
            config.cert_resolver = Arc::new(resolver);
            (address, Arc::new(config))
        });
        Ok(Tls {
            by_address: by_address.collect(),
            config: Arc::new(config),
            authorities,
        })
    }
}

/// Reads a certificate with its intermediates, and its key.
///
/// # Errors
/// If a file cannot be read, or the key is not that of the certificate.
fn certified_key(
    certificate: &PemSource,
    key: &PemSource,
    provider: &CryptoProvider,
) -> Result<Arc<CertifiedKey>, TlsError> {
    let chain = certificates(certificate)?;
    let text = key.read().map_err(pem::Error::Io);
    let parsed = text.and_then(|text| PrivateKeyDer::from_pem_slice(&text));
    let key = parsed.map_err(|source| TlsError::Read {
        what: "a private key",
        path: key.path().to_owned(),
        source,
    })?;
    let certified = CertifiedKey::from_der(chain, key, provider).map_err(|source| TlsError::Certificate {
        path: certificate.path().to_owned(),
        source,
    })?;
    Ok(Arc::new(certified))
}

impl ClientAuthorities {
    /// Loads the authorities in a file, in PEM.
    ///
    /// # Errors
    /// If it cannot be read or has unexpected content.
    pub fn load(path: &Path) -> Result<Self, TlsError> {
        let provider = Arc::new(aws_lc_rs::default_provider());
        let (_, authorities) = read_authorities(&[PemSource::from(path.to_owned())], provider)?;
        Ok(authorities)
    }
}

/// Returns the certificates in `source`, and those of them that may sign.
fn roots_of(source: &PemSource) -> Result<(Vec<CertificateDer<'static>>, RootCertStore), TlsError> {
    let invalid = |reason: String| TlsError::Authority {
        path: source.path().to_owned(),
        reason,
    };
    let (all, mut roots) = (certificates(source)?, RootCertStore::empty());
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
    sources: &[PemSource],
    provider: Arc<CryptoProvider>,
) -> Result<(Arc<RootCertStore>, ClientAuthorities), TlsError> {
    let (mut all, mut roots) = (Vec::new(), RootCertStore::empty());
    for source in sources {
        let (certificates, of_source) = roots_of(source)?;
        all.extend(certificates);
        roots.extend(of_source.roots);
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

fn certificates(source: &PemSource) -> Result<Vec<CertificateDer<'static>>, TlsError> {
    let path = || source.path().to_owned();
    let unreadable = |source| TlsError::Read {
        what: "certificates",
        path: path(),
        source,
    };
    let text = source.read().map_err(|error| unreadable(pem::Error::Io(error)))?;
    let parsed: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&text).collect();
    let certificates = parsed.map_err(unreadable)?;
    if certificates.is_empty() {
        return Err(TlsError::Empty { path: path() });
    }
    Ok(certificates)
}
