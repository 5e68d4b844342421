//! Certificates as Go's `crypto/x509` verifies them, where the library by itself is stricter: a certificate that is
//! itself among the roots is trusted, no matter what it may sign and which authority signed it.

use std::time::Duration;

use rustls::pki_types::{CertificateDer, UnixTime};
use rustls::{CertificateError, Error};
use x509_parser::extensions::{ExtendedKeyUsage, ParsedExtension};
use x509_parser::prelude::{FromDer as _, X509Certificate, X509Version};

/// Purpose for which a certificate is presented.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Purpose {
    /// Server authentication.
    Server,
    /// Client authentication.
    Client,
}

/// Checks a root that is itself presented by the rules for all certificates except their names: it has no critical
/// extension that is unknown, it is valid now, and its usage allows the purpose.
///
/// # Errors
/// If a rule is violated; the error is the first in Go's order.
pub(crate) fn check_root(certificate: &CertificateDer<'_>, purpose: Purpose, now: UnixTime) -> Result<(), Error> {
    let parsed = parse(certificate)?;
    let unknown = |extension: &x509_parser::extensions::X509Extension<'_>| {
        let read = !matches!(
            extension.parsed_extension(),
            ParsedExtension::UnsupportedExtension { .. } | ParsedExtension::ParseError { .. }
        );
        extension.critical && !read
    };
    if parsed.extensions().iter().any(unknown) {
        return Err(CertificateError::UnhandledCriticalExtension.into());
    }
    check_validity(&parsed, now)?;
    let usage = parsed
        .extended_key_usage()
        .map_err(|_| Error::from(CertificateError::BadEncoding))?;
    match usage {
        Some(usage) if !allows(usage.value, purpose) => Err(CertificateError::InvalidPurpose.into()),
        _ => Ok(()),
    }
}

fn allows(usage: &ExtendedKeyUsage<'_>, purpose: Purpose) -> bool {
    usage.any
        || match purpose {
            Purpose::Server => usage.server_auth,
            Purpose::Client => usage.client_auth,
        }
}

/// Returns true if a root may sign other certificates: an authority, or a certificate from before this was stated.
pub(crate) fn may_sign(certificate: &CertificateDer<'_>) -> bool {
    let Ok(parsed) = parse(certificate) else {
        return false;
    };
    let (constraints, usage) = (parsed.basic_constraints(), parsed.key_usage());
    let is_authority = match constraints {
        Ok(Some(constraints)) => constraints.value.ca,
        Ok(None) => parsed.version() != X509Version::V3,
        Err(_) => false,
    };
    is_authority && usage.is_ok_and(|usage| usage.is_none_or(|usage| usage.value.key_cert_sign()))
}

/// Parses a certificate.
///
/// # Errors
/// If it is invalid.
pub(crate) fn parse<'c>(certificate: &'c CertificateDer<'_>) -> Result<X509Certificate<'c>, Error> {
    let parsed = X509Certificate::from_der(certificate.as_ref());
    parsed
        .map(|(_, parsed)| parsed)
        .map_err(|_| CertificateError::BadEncoding.into())
}

/// Returns the time until which a certificate is valid.
pub(crate) fn not_after(certificate: &X509Certificate<'_>) -> UnixTime {
    at(certificate.validity().not_after.timestamp())
}

fn at(seconds: i64) -> UnixTime {
    UnixTime::since_unix_epoch(Duration::from_secs(u64::try_from(seconds).unwrap_or_default()))
}

fn check_validity(certificate: &X509Certificate<'_>, time: UnixTime) -> Result<(), Error> {
    let (not_before, not_after) = (
        at(certificate.validity().not_before.timestamp()),
        not_after(certificate),
    );
    if time > not_after {
        return Err(CertificateError::ExpiredContext { time, not_after }.into());
    }
    if time < not_before {
        return Err(CertificateError::NotValidYetContext { time, not_before }.into());
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use rcgen::{
        BasicConstraints, CertificateParams, CustomExtension, ExtendedKeyUsagePurpose, IsCa, KeyPair, KeyUsagePurpose,
        date_time_ymd,
    };

    use super::*;

    fn judged(adjust: impl FnOnce(&mut CertificateParams)) -> Result<(), Error> {
        let mut params = CertificateParams::default();
        adjust(&mut params);
        let certificate = params.self_signed(&KeyPair::generate().unwrap()).unwrap();
        let now = date_time_ymd(2026, 1, 1).unix_timestamp();
        check_root(certificate.der(), Purpose::Server, at(now))
    }

    #[test]
    fn only_authorities_sign() {
        let signs = |adjust: fn(&mut CertificateParams)| {
            let mut params = CertificateParams::default();
            adjust(&mut params);
            let certificate = params.self_signed(&KeyPair::generate().unwrap()).unwrap();
            may_sign(certificate.der())
        };
        assert!(signs(|params| params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained)));
        assert!(!signs(|_| {}));
        assert!(!signs(|params| params.is_ca = IsCa::ExplicitNoCa));
        assert!(!signs(|params| {
            params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
            params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        }));
    }

    #[test]
    fn a_root_that_is_shown_is_still_judged_by_time_and_purpose() {
        assert_eq!(judged(|_| {}), Ok(()));
        let usage = |usage| judged(|params| params.extended_key_usages = vec![usage]);
        assert_eq!(usage(ExtendedKeyUsagePurpose::ServerAuth), Ok(()));
        assert_eq!(usage(ExtendedKeyUsagePurpose::Any), Ok(()));
        assert_eq!(
            usage(ExtendedKeyUsagePurpose::ClientAuth),
            Err(CertificateError::InvalidPurpose.into())
        );
        let expired = judged(|params| params.not_after = date_time_ymd(2025, 12, 31));
        assert!(matches!(
            expired,
            Err(Error::InvalidCertificate(CertificateError::ExpiredContext { .. }))
        ));
        let early = judged(|params| params.not_before = date_time_ymd(2026, 1, 2));
        assert!(matches!(
            early,
            Err(Error::InvalidCertificate(CertificateError::NotValidYetContext { .. }))
        ));
        let strange = judged(|params| {
            let mut extension = CustomExtension::from_oid_content(&[1, 3, 6, 1, 4, 1, 57683, 99], vec![5, 0]);
            extension.set_criticality(true);
            params.custom_extensions = vec![extension];
        });
        assert_eq!(strange, Err(CertificateError::UnhandledCriticalExtension.into()));
    }
}
