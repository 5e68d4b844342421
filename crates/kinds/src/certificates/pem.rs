//! Certificate requests and certificates as PEM (RFC 7468) with DER contents.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use x509_parser::prelude::{AttributeTypeAndValue, FromDer, X509Certificate, X509CertificationRequest, X509Name};

use super::armor::{Block, blocks};
use super::der;

const REQUEST: &str = "CERTIFICATE REQUEST";
const CERTIFICATE: &str = "CERTIFICATE";

/// Returns the error in a request, given as the base64 of its PEM.
pub(super) fn request_error(encoded: &str) -> Option<String> {
    check_request(encoded).err()
}

/// upstream: pkg/apis/certificates#ParseCSR
fn check_request(encoded: &str) -> Result<(), String> {
    let block = request_block(encoded)?;
    if let Some(message) = der::request_frame_error(&block.contents) {
        return Err(message);
    }
    let request = request_in(&block)?;
    request.verify_signature().map_err(|_| unverified(&request))
}

/// Returns the message of Go's `x509.CheckSignature` for a signature that does not match the key of the request.
fn unverified(request: &X509CertificationRequest<'_>) -> String {
    let key = &request.certification_request_info.subject_pki.algorithm.algorithm;
    match key.to_id_string().as_str() {
        "1.2.840.10045.2.1" => "x509: ECDSA verification failure",
        "1.3.101.112" => "x509: Ed25519 verification failure",
        "1.2.840.113549.1.1.1" => "crypto/rsa: verification error",
        _ => "x509: cannot verify signature: algorithm unimplemented",
    }
    .to_owned()
}

/// Returns the organizations in the subject of a request, given as the base64 of its PEM.
///
/// # Errors
/// If the request cannot be parsed.
pub fn organizations(encoded: &str) -> Result<Vec<String>, String> {
    let block = request_block(encoded)?;
    let subject = subject_of(&block)?;
    // Attributes that this parser does not read as text may be text to other parsers.
    let text = |name: &AttributeTypeAndValue<'_>| name.as_str().map(str::to_owned);
    let names: Result<Vec<String>, _> = subject.iter_organization().map(text).collect();
    names.map_err(|_| "the subject has an organization that is no text".to_owned())
}

/// Returns the common name in the subject of a request, given as the base64 of its PEM; empty if it has none.
///
/// # Errors
/// If the request cannot be parsed.
pub fn common_name(encoded: &str) -> Result<String, String> {
    let block = request_block(encoded)?;
    let subject = subject_of(&block)?;
    let name = subject
        .iter_common_name()
        .last()
        .and_then(|name| name.as_str().ok())
        .unwrap_or_default();
    Ok(name.to_owned())
}

fn request_block(encoded: &str) -> Result<Block, String> {
    let text = STANDARD.decode(encoded).unwrap_or_default();
    let block = blocks(&text).next();
    block
        .filter(|block| block.label == REQUEST)
        .ok_or_else(|| format!("PEM block type must be {REQUEST}"))
}

fn request_in(block: &Block) -> Result<X509CertificationRequest<'_>, String> {
    let request = X509CertificationRequest::from_der(&block.contents);
    let (_, request) = request.map_err(|_| "asn1: structure error: the block is no certificate request".to_owned())?;
    Ok(request)
}

fn subject_of(block: &Block) -> Result<X509Name<'_>, String> {
    Ok(request_in(block)?.certification_request_info.subject)
}

/// Returns the error of Go's `tls.X509KeyPair` for a certificate and a key, each given as the base64 of its PEM. Only
/// problems that their PEM shows are found.
pub(crate) fn key_pair_error(certificate: &str, key: &str) -> Option<String> {
    let labels = |encoded: &str| -> Vec<String> {
        let text = STANDARD.decode(encoded).unwrap_or_default();
        blocks(&text).map(|block| block.label).collect()
    };
    let is_key = |label: &String| label == "PRIVATE KEY" || label.ends_with(" PRIVATE KEY");
    let is_certificate = |label: &String| label == CERTIFICATE;
    let (certificates, keys) = (labels(certificate), labels(key));
    if certificates.is_empty() {
        return Some("tls: failed to find any PEM data in certificate input".to_owned());
    }
    if !certificates.iter().any(is_certificate) {
        return Some(match certificates.as_slice() {
            [only] if only.ends_with("PRIVATE KEY") => {
                "tls: failed to find certificate PEM data in certificate input, but did find a private \
                                       key; PEM inputs may have been switched"
                    .to_owned()
            }
            labels => format!(
                "tls: failed to find \"CERTIFICATE\" PEM block in certificate input after skipping PEM blocks of the \
                 following types: [{}]",
                labels.join(" ")
            ),
        });
    }
    if keys.is_empty() {
        return Some("tls: failed to find any PEM data in key input".to_owned());
    }
    if !keys.iter().any(is_key) {
        return Some(match keys.as_slice() {
            [only] if is_certificate(only) => {
                "tls: found a certificate rather than a key in the PEM for the private key".to_owned()
            }
            labels => format!(
                "tls: failed to find PEM block with type ending in \"PRIVATE KEY\" in key input after skipping PEM blocks of \
                 the following types: [{}]",
                labels.join(" ")
            ),
        });
    }
    None
}

/// Returns the error in issued certificates, given as the base64 of their PEM.
///
/// upstream: pkg/apis/certificates/validation#validateCertificate
pub(super) fn certificate_error(encoded: &str) -> Option<String> {
    let text = STANDARD.decode(encoded).unwrap_or_default();
    let mut found = 0;
    for block in blocks(&text) {
        if block.label != CERTIFICATE {
            return Some(format!(
                "only {CERTIFICATE} PEM blocks are allowed, found {:?}",
                block.label
            ));
        }
        if block.has_headers {
            return Some("no PEM block headers are permitted".to_owned());
        }
        let certificates = match der::certificates(&block.contents) {
            Ok(certificates) => certificates,
            Err(message) => return Some(message),
        };
        if certificates.is_empty() {
            return Some("found CERTIFICATE PEM block containing 0 certificates".to_owned());
        }
        if certificates.iter().any(|der| X509Certificate::from_der(der).is_err()) {
            return Some("x509: malformed tbs certificate".to_owned());
        }
        found += 1;
    }
    (found == 0).then(|| format!("must contain at least one {CERTIFICATE} PEM block"))
}

/// Returns the lifetime of the first certificate of a field that holds the base64 of PEM.
pub(super) fn lifetime_seconds(encoded: &str) -> Option<i64> {
    let text = STANDARD.decode(encoded).ok()?;
    let block = blocks(&text).find(|block| block.label == CERTIFICATE && !block.has_headers)?;
    let certificates = der::certificates(&block.contents).ok()?;
    let (_, certificate) = X509Certificate::from_der(certificates.first()?).ok()?;
    let validity = certificate.validity();
    Some(validity.not_after.timestamp() - validity.not_before.timestamp())
}

/// Result of parsing one block of a trust bundle.
pub(super) enum Anchor {
    /// DER of a CA certificate.
    Authority(Vec<u8>),
    /// A block with this label instead of that of certificates.
    OtherType(String),
    /// A block with headers, which certificates must not have.
    WithHeaders,
    /// Contents that are not a certificate.
    Unreadable,
    /// A certificate that is not a CA certificate.
    NoAuthority,
}

/// Returns the blocks of a bundle and ignores the text between them.
pub(super) fn anchors(bundle: &str) -> Vec<Anchor> {
    blocks(bundle.as_bytes()).map(anchor).collect()
}

fn anchor(block: Block) -> Anchor {
    if block.label != CERTIFICATE {
        return Anchor::OtherType(block.label);
    }
    if block.has_headers {
        return Anchor::WithHeaders;
    }
    match X509Certificate::from_der(&block.contents) {
        Ok((_, certificate)) if certificate.is_ca() => {}
        Ok(_) => return Anchor::NoAuthority,
        Err(_) => return Anchor::Unreadable,
    }
    Anchor::Authority(block.contents)
}

#[cfg(test)]
mod tests {
    use super::*;

    const BROKEN: &str = "-----BEGIN CERTIFICATE-----\n!!!!\n-----END CERTIFICATE-----\n";

    fn block(label: &str) -> String {
        format!("-----BEGIN {label}-----\nAQI=\n-----END {label}-----\n")
    }

    fn error(certificate: &str, key: &str) -> Option<String> {
        key_pair_error(&STANDARD.encode(certificate), &STANDARD.encode(key))
    }

    #[test]
    fn a_pair_is_found_behind_what_is_no_block_and_with_headers() {
        let (certificate, key) = (block(CERTIFICATE), block("EC PRIVATE KEY"));
        assert_eq!(error(&certificate, &key), None);
        assert_eq!(error(&format!("{BROKEN}text\n{certificate}"), &key), None);
        let encrypted = key.replace("AQI=", "Proc-Type: 4,ENCRYPTED\n\nAQI=");
        assert_eq!(error(&certificate, &encrypted), None);
        let parameters = block("EC PARAMETERS");
        assert_eq!(error(&certificate, &format!("{parameters}{key}")), None);
    }

    #[test]
    fn key_pair_with_wrong_block_types_is_reported() {
        let (certificate, key) = (block(CERTIFICATE), block("PRIVATE KEY"));
        let none = "tls: failed to find any PEM data in certificate input";
        assert_eq!(error(BROKEN, &key).as_deref(), Some(none));
        let switched = error(&key, &certificate).unwrap_or_default();
        assert!(switched.ends_with("PEM inputs may have been switched"), "{switched}");
        let twice = "tls: found a certificate rather than a key in the PEM for the private key";
        assert_eq!(error(&certificate, &certificate).as_deref(), Some(twice));
        let others = error(&certificate, &format!("{}{}", block("A"), block("B"))).unwrap_or_default();
        assert!(others.ends_with("of the following types: [A B]"), "{others}");
    }

    #[test]
    fn a_bundle_counts_blocks_alone() {
        let bundle = format!("text\n{BROKEN}{}{}", block(CERTIFICATE), block("A"));
        let anchors = anchors(&bundle);
        assert!(
            matches!(anchors.as_slice(), [Anchor::Unreadable, Anchor::OtherType(label)] if label == "A"),
            "{}",
            anchors.len()
        );
    }
}
