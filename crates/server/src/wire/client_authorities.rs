//! Authorities whose client certificates are trusted.

use std::fmt;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use rustls::pki_types::{CertificateDer, UnixTime};
use rustls::server::danger::ClientCertVerifier;

use crate::wire::x509::{self, Purpose};

/// Trusted authorities: a client is trusted if one of them signed its certificate, or if its certificate is one of
/// them.
pub struct ClientAuthorities {
    roots: Vec<CertificateDer<'static>>,
    /// `None` if none of the roots may sign.
    chains: Option<Arc<dyn ClientCertVerifier>>,
}

impl fmt::Debug for ClientAuthorities {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ClientAuthorities")
            .field("roots", &self.roots.len())
            .finish_non_exhaustive()
    }
}

impl ClientAuthorities {
    /// Trusts `roots`, and certificates that `chains` verifies.
    pub(crate) fn new(roots: Vec<CertificateDer<'static>>, chains: Option<Arc<dyn ClientCertVerifier>>) -> Self {
        Self { roots, chains }
    }

    /// Returns the time until which the certificate `own` of a client is valid; the client also presents the
    /// certificates `between` it and the authorities.
    ///
    /// # Errors
    /// If it is not trusted at the time `now`.
    pub(crate) fn verify(
        &self,
        own: &CertificateDer<'_>,
        between: &[CertificateDer<'_>],
        now: SystemTime,
    ) -> Result<SystemTime, rustls::Error> {
        let now = UnixTime::since_unix_epoch(now.duration_since(UNIX_EPOCH).unwrap_or_default());
        if self.roots.contains(own) {
            x509::check_root(own, Purpose::Client, now)?;
        } else {
            let configured = self.chains.as_ref();
            let chains = configured.ok_or(rustls::CertificateError::UnknownIssuer)?;
            chains.verify_client_cert(own, between, now)?;
        }
        let until = x509::not_after(&x509::parse(own)?);
        Ok(UNIX_EPOCH + Duration::from_secs(until.as_secs()))
    }
}
