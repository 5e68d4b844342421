//! Authorities that must have signed the certificate of a webhook or an aggregated server, and the messages for
//! certificates that fail.

use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use holdfast_gotext::time::{Precision, Timestamp};
use rustls::client::danger::{ServerCertVerified, ServerCertVerifier};
use rustls::client::verify_server_name;
use rustls::client::{ResolvesClientCert, WebPkiServerVerifier};
use rustls::crypto::{CryptoProvider, WebPkiSupportedAlgorithms, aws_lc_rs};
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::server::ParsedCertificate;
use rustls::{AlertDescription, CertificateError, ClientConfig, Error, InvalidMessage, RootCertStore};

use super::connector::system_words;
use crate::runtime::{Clock as _, SystemClock};
use crate::wire::tls::AnyServer;
use crate::wire::x509::{self, Purpose};

/// Trusted certificates.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Trust<'a> {
    /// Certificates that these authorities issued, in PEM.
    Authorities(&'a [u8]),
    /// Certificates that the authorities of the system issued.
    System,
    /// All certificates.
    Anyone,
}

/// Creates the TLS configuration for `trust`; `client_certificate` chooses the client certificate.
///
/// # Errors
/// If there is no authority; the text is that of the reference.
pub(super) fn client_config(
    trust: Trust<'_>,
    client_certificate: Option<Arc<dyn ResolvesClientCert>>,
) -> Result<ClientConfig, String> {
    let provider = Arc::new(aws_lc_rs::default_provider());
    let verifier = verifier(trust, &provider)?;
    let with_versions = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
    let versioned = with_versions.map_err(|error| error.to_string())?;
    let builder = versioned.dangerous().with_custom_certificate_verifier(verifier);
    Ok(match client_certificate {
        Some(client_certificate) => builder.with_client_cert_resolver(client_certificate),
        None => builder.with_no_client_auth(),
    })
}

fn verifier(trust: Trust<'_>, provider: &Arc<CryptoProvider>) -> Result<Arc<dyn ServerCertVerifier>, String> {
    let algorithms = provider.signature_verification_algorithms;
    let mut roots = RootCertStore::empty();
    let mut trusted = Vec::new();
    match trust {
        Trust::Anyone => return Ok(Arc::new(AnyServer::new(algorithms))),
        Trust::Authorities(pem) => {
            trusted.extend(CertificateDer::pem_slice_iter(pem).filter_map(Result::ok));
            let why = match trusted.is_empty() {
                true => "unable to parse bytes as PEM block",
                false => "failed to parse certificate",
            };
            trusted.retain(|certificate| x509::parse(certificate).is_ok());
            if trusted.is_empty() {
                return Err(format!("unable to load root certificates: {why}"));
            }
            roots.add_parsable_certificates(trusted.iter().filter(|root| x509::may_sign(root)).cloned());
        }
        Trust::System => {
            // Certificates that cannot be parsed cannot be trusted; the handshake reports this.
            roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
            if roots.is_empty() {
                return Err("unable to load root certificates: the system has none".to_owned());
            }
        }
    }
    let by_chain = match roots.is_empty() {
        true => None,
        false => {
            let builder = WebPkiServerVerifier::builder_with_provider(Arc::new(roots), Arc::clone(provider));
            Some(builder.build().map_err(|error| error.to_string())?)
        }
    };
    Ok(Arc::new(Verifier {
        by_chain,
        trusted,
        algorithms,
    }))
}

/// Verifies certificates as Go does: one that is itself in a `caBundle` is trusted, others by a chain to an authority.
#[derive(Debug)]
struct Verifier {
    /// `None` if no trusted authority may sign.
    by_chain: Option<Arc<WebPkiServerVerifier>>,
    trusted: Vec<CertificateDer<'static>>,
    algorithms: WebPkiSupportedAlgorithms,
}

impl ServerCertVerifier for Verifier {
    fn verify_server_cert(
        &self,
        certificate: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        name: &ServerName<'_>,
        ocsp: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        let check_name = || verify_server_name(&ParsedCertificate::try_from(certificate)?, name);
        if self.trusted.contains(certificate) {
            x509::check_root(certificate, Purpose::Server, now)?;
            check_name()?;
            return Ok(ServerCertVerified::assertion());
        }
        let unknown = || Err(CertificateError::UnknownIssuer.into());
        let outcome = self.by_chain.as_ref().map_or_else(unknown, |chain| {
            chain.verify_server_cert(certificate, intermediates, name, ocsp, now)
        });
        if matches!(outcome, Err(Error::InvalidCertificate(CertificateError::UnknownIssuer))) {
            // Go verifies the name first.
            check_name()?;
        }
        outcome
    }

    crate::verify_signatures!();
}

/// Returns the reason why TLS failed, in Go's words.
pub(super) fn tls_error_text(error: &std::io::Error) -> String {
    match error.get_ref().and_then(|inner| inner.downcast_ref::<Error>()) {
        Some(Error::InvalidCertificate(detail)) => {
            format!("tls: failed to verify certificate: x509: {}", of_certificate(detail))
        }
        Some(Error::InvalidMessage(InvalidMessage::InvalidContentType)) => {
            "http: server gave HTTP response to HTTPS client".to_owned()
        }
        Some(Error::AlertReceived(alert)) => format!("remote error: tls: {}", of_alert(*alert)),
        Some(other) => format!("tls: {other}"),
        None => system_words(error),
    }
}

fn of_certificate(detail: &CertificateError) -> String {
    let text = |time: SystemTime| Timestamp::from(time).text(Precision::Seconds);
    let date = |time: &UnixTime| text(UNIX_EPOCH + Duration::from_secs(time.as_secs()));
    let outside = |time: &UnixTime, how: &str, limit: &UnixTime| {
        let (time, limit) = (date(time), date(limit));
        format!("certificate has expired or is not yet valid: current time {time} is {how} {limit}")
    };
    match detail {
        CertificateError::UnknownIssuer | CertificateError::BadSignature => {
            "certificate signed by unknown authority".to_owned()
        }
        CertificateError::ExpiredContext { time, not_after } => outside(time, "after", not_after),
        CertificateError::NotValidYetContext { time, not_before } => outside(time, "before", not_before),
        CertificateError::Expired | CertificateError::NotValidYet => {
            let now = text(SystemClock.now());
            format!("certificate has expired or is not yet valid: current time {now} is outside of its time")
        }
        CertificateError::NotValidForNameContext { expected, presented } => of_name(expected, presented),
        CertificateError::InvalidPurpose | CertificateError::InvalidPurposeContext { .. } => {
            "certificate specifies an incompatible key usage".to_owned()
        }
        CertificateError::BadEncoding => "malformed certificate".to_owned(),
        CertificateError::UnhandledCriticalExtension => "unhandled critical extension".to_owned(),
        other => other.to_string(),
    }
}

/// Returns the message for a certificate that is not valid for the called name.
fn of_name(expected: &ServerName<'_>, presented: &[String]) -> String {
    let wanted = expected.to_str();
    let named = |prefix: &str| -> Vec<&str> {
        let of_sort = presented
            .iter()
            .filter_map(|text| text.strip_prefix(prefix)?.strip_suffix(')'));
        of_sort.map(|name| name.trim_matches('"')).collect()
    };
    let names = match expected {
        ServerName::IpAddress(_) => {
            let addresses = named("IpAddress(");
            if addresses.is_empty() {
                return format!("cannot validate certificate for {wanted} because it doesn't contain any IP SANs");
            }
            addresses
        }
        _ => named("DnsName("),
    };
    if names.is_empty() {
        return format!("certificate is not valid for any names, but wanted to match {wanted}");
    }
    format!("certificate is valid for {}, not {wanted}", names.join(", "))
}

fn of_alert(alert: AlertDescription) -> String {
    let words = match alert {
        AlertDescription::HandshakeFailure => "handshake failure",
        AlertDescription::BadCertificate => "bad certificate",
        AlertDescription::UnsupportedCertificate => "unsupported certificate",
        AlertDescription::CertificateExpired => "expired certificate",
        AlertDescription::CertificateUnknown => "unknown certificate",
        AlertDescription::UnknownCA => "unknown certificate authority",
        AlertDescription::AccessDenied => "access denied",
        AlertDescription::ProtocolVersion => "protocol version not supported",
        AlertDescription::InsufficientSecurity => "insufficient security level",
        AlertDescription::InternalError => "internal error",
        AlertDescription::UnrecognisedName => "unrecognized name",
        AlertDescription::CertificateRequired => "certificate required",
        AlertDescription::NoApplicationProtocol => "no application protocol",
        other => return format!("{other:?}"),
    };
    words.to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_certificate_for_other_names_is_reported_with_its_names() {
        let message = |expected: &str, presented: &[&str]| {
            let expected = ServerName::try_from(expected.to_owned()).unwrap();
            let presented: Vec<String> = presented.iter().map(|&name| name.to_owned()).collect();
            of_name(&expected, &presented)
        };
        let presented = [
            "DnsName(\"a.example\")",
            "DnsName(\"b.example\")",
            "IpAddress(10.0.0.1)",
        ];
        assert_eq!(
            message("c.example", &presented),
            "certificate is valid for a.example, b.example, not c.example"
        );
        assert_eq!(
            message("127.0.0.1", &presented),
            "certificate is valid for 10.0.0.1, not 127.0.0.1"
        );
        assert_eq!(
            message("127.0.0.1", &presented[..2]),
            "cannot validate certificate for 127.0.0.1 because it doesn't contain any IP SANs"
        );
        assert_eq!(
            message("c.example", &[]),
            "certificate is not valid for any names, but wanted to match c.example"
        );
    }

    #[test]
    fn a_bundle_without_certificates_is_refused() {
        assert_eq!(
            client_config(Trust::Authorities(b"what?"), None).unwrap_err(),
            "unable to load root certificates: unable to parse bytes as PEM block"
        );
    }
}
