//! Certificates and keys as PEM, and the certificates that this server publishes.

use std::time::{SystemTime, UNIX_EPOCH};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, UnixTime};

use crate::wire::x509;

/// Joins the certificates of several PEM texts without duplicates, except those that have expired at the time `now`.
///
/// # Errors
/// If a text that is not empty holds anything unreadable, or no certificate.
pub fn joined(texts: &[&str], now: SystemTime) -> Result<String, String> {
    let now = UnixTime::since_unix_epoch(now.duration_since(UNIX_EPOCH).unwrap_or_default());
    let mut all: Vec<CertificateDer<'static>> = Vec::new();
    for text in texts.iter().filter(|text| !text.is_empty()) {
        let parsed = CertificateDer::pem_slice_iter(text.as_bytes()).collect::<Result<Vec<_>, _>>();
        let certificates = parsed.map_err(|error| error.to_string())?;
        if certificates.is_empty() {
            return Err("data does not contain any valid RSA or ECDSA certificates".to_owned());
        }
        for certificate in certificates {
            let parsed = x509::parse(&certificate).map_err(|error| error.to_string())?;
            if x509::not_after(&parsed) >= now && !all.contains(&certificate) {
                all.push(certificate);
            }
        }
    }
    Ok(all.iter().map(|certificate| pem("CERTIFICATE", certificate)).collect())
}

/// Returns a PEM block, with lines as Go writes them.
pub fn pem(label: &str, der: &[u8]) -> String {
    let text = STANDARD.encode(der);
    let mut pem = format!("-----BEGIN {label}-----\n");
    let mut rest = text.as_str();
    while !rest.is_empty() {
        let (line, behind) = rest.split_at_checked(64).unwrap_or((rest, ""));
        pem.push_str(line);
        pem.push('\n');
        rest = behind;
    }
    pem + &format!("-----END {label}-----\n")
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use rcgen::{CertificateParams, KeyPair, date_time_ymd};

    use super::*;

    #[test]
    fn each_certificate_stands_once_until_it_is_over() {
        let made = |end: i32| {
            let mut params = CertificateParams::default();
            params.not_before = date_time_ymd(2000, 1, 1);
            params.not_after = date_time_ymd(end, 1, 1);
            params.self_signed(&KeyPair::generate().unwrap()).unwrap().pem()
        };
        let (long, over) = (made(2200), made(2001));
        let now = UNIX_EPOCH + Duration::from_secs(1_800_000_000);
        let lines = |text: &str| text.replace("\r\n", "\n");
        let both = format!("{long}{over}");
        assert_eq!(joined(&[&both, "", &long], now).unwrap(), lines(&long));
        assert!(joined(&["nothing"], now).is_err());
        assert_eq!(joined(&[""], now).unwrap(), "");
    }
}
