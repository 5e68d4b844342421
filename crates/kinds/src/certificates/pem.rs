//! Requests and certificates as text: PEM (RFC 7468) around DER.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use x509_parser::pem::Pem;
use x509_parser::prelude::{AttributeTypeAndValue, FromDer, X509Certificate, X509CertificationRequest};

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

/// The organizations of the subject of a request, which stands in its field as the base64 of its PEM.
///
/// # Errors
/// Why it cannot be read.
pub(crate) fn organizations(encoded: &str) -> Result<Vec<String>, String> {
    let block = STANDARD.decode(encoded).ok().and_then(first_block);
    let block = block
        .filter(|block| block.label == REQUEST)
        .ok_or_else(|| format!("PEM block type must be {REQUEST}"))?;
    let request = X509CertificationRequest::from_der(&block.contents);
    let (_, request) = request.map_err(|_| "asn1: structure error: the block is no certificate request".to_owned())?;
    let subject = &request.certification_request_info.subject;
    // What is no text may be one that others read.
    let text = |name: &AttributeTypeAndValue<'_>| name.as_str().map(str::to_owned);
    let names: Result<Vec<String>, _> = subject.iter_organization().map(text).collect();
    names.map_err(|_| "the subject has an organization that is no text".to_owned())
}

fn first_block(text: Vec<u8>) -> Option<Pem> {
    Pem::iter_from_buffer(&text).next()?.ok()
}

/// Why a certificate and a key, each the base64 of its PEM, are no pair, as far as their PEM shows it; in the words of Go's
/// `tls.X509KeyPair`.
pub(crate) fn key_pair_fault(certificate: &str, key: &str) -> Option<String> {
    let labels = |encoded: &str| -> Vec<String> {
        let text = STANDARD.decode(encoded).unwrap_or_default();
        let blocks = Pem::iter_from_buffer(&text).map_while(Result::ok);
        blocks.map(|block| block.label).collect()
    };
    let is_key = |label: &String| label == "PRIVATE KEY" || label.ends_with(" PRIVATE KEY");
    let is_certificate = |label: &String| label == CERTIFICATE;
    let (certificates, keys) = (labels(certificate), labels(key));
    if certificates.is_empty() {
        return Some("tls: failed to find any PEM data in certificate input".to_owned());
    }
    if !certificates.iter().any(is_certificate) {
        return Some(match certificates.as_slice() {
            [only] if is_key(only) => {
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

/// What a block of a bundle of trust anchors is.
pub(super) enum Anchor {
    /// The certificate of an authority, as DER.
    Authority(Vec<u8>),
    /// A block of this type, which is not that of certificates.
    OtherType(String),
    /// A block with headers, which certificates have not.
    WithHeaders,
    /// No certificate.
    Unreadable,
    /// A certificate of who is no authority.
    NoAuthority,
}

/// The blocks of a bundle; what stands between them does not count.
pub(super) fn anchors(bundle: &str) -> Vec<Anchor> {
    sections(bundle).map(anchor).collect()
}

/// The texts that look like blocks.
fn sections(text: &str) -> impl Iterator<Item = &str> {
    const BEGIN: &str = "-----BEGIN ";
    const END: &str = "-----END ";
    let starts = text.match_indices(BEGIN).map(|(at, _)| at);
    starts.filter_map(move |start| {
        let rest = text.get(start..)?;
        let end = rest.find(END)?;
        let line = rest.get(end..)?.find('\n').map_or(rest.len(), |at| end + at + 1);
        rest.get(..line)
    })
}

fn anchor(section: &str) -> Anchor {
    let Some(Ok(block)) = Pem::iter_from_buffer(section.as_bytes()).next() else {
        return Anchor::Unreadable;
    };
    if block.label != CERTIFICATE {
        return Anchor::OtherType(block.label);
    }
    if section.lines().any(|line| line.contains(':')) {
        return Anchor::WithHeaders;
    }
    match X509Certificate::from_der(&block.contents) {
        Ok((_, certificate)) if certificate.is_ca() => {}
        Ok(_) => return Anchor::NoAuthority,
        Err(_) => return Anchor::Unreadable,
    }
    Anchor::Authority(block.contents)
}
