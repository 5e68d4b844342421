//! Requests and certificates as text: PEM (RFC 7468) around DER.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use x509_parser::pem::Pem;
use x509_parser::prelude::{FromDer, X509Certificate, X509CertificationRequest};

const REQUEST: &str = "CERTIFICATE REQUEST";
const CERTIFICATE: &str = "CERTIFICATE";

/// What is wrong with a request, which stands in its field as the base64 of its PEM.
pub(super) fn request_fault(encoded: &str) -> Option<String> {
    let no_request = || Some(format!("PEM block type must be {REQUEST}"));
    let Some(block) = STANDARD.decode(encoded).ok().and_then(first_block) else {
        return no_request();
    };
    if block.label != REQUEST {
        return no_request();
    }
    let Ok((_, request)) = X509CertificationRequest::from_der(&block.contents) else {
        return Some("asn1: structure error: the block is no certificate request".to_owned());
    };
    if request.verify_signature().is_err() {
        return Some("x509: the signature of the request does not fit its key".to_owned());
    }
    None
}

fn first_block(text: Vec<u8>) -> Option<Pem> {
    Pem::iter_from_buffer(&text).next()?.ok()
}

/// What is wrong with certificates that were issued, which stand in their field as the base64 of their PEM.
pub(super) fn certificate_fault(encoded: &str) -> Option<String> {
    let text = STANDARD.decode(encoded).unwrap_or_default();
    let mut blocks = 0;
    for block in Pem::iter_from_buffer(&text) {
        let Ok(block) = block else { break };
        if block.label != CERTIFICATE {
            return Some(format!(
                "only {CERTIFICATE} PEM blocks are allowed, found {:?}",
                block.label
            ));
        }
        if X509Certificate::from_der(&block.contents).is_err() {
            return Some("found CERTIFICATE PEM block containing 0 certificates".to_owned());
        }
        blocks += 1;
    }
    (blocks == 0).then(|| format!("must contain at least one {CERTIFICATE} PEM block"))
}
