//! Users from client certificates: the common name is the user, each organization a group
//! (<https://kubernetes.io/docs/reference/access-authn-authz/authentication/#x509-client-certificates>).
//!
//! A handshake requests a certificate and accepts any. It is verified here, so that a client with an invalid
//! certificate gets a response, and may still present a token.

use std::fmt::{self, Write as _};
use std::sync::Arc;
use std::time::SystemTime;

use holdfast_authorization::User;
use rustls::pki_types::CertificateDer;
use sha2::{Digest as _, Sha256};
use smol_str::SmolStr;
use x509_parser::prelude::{AttributeTypeAndValue, X509Certificate};

use super::{CREDENTIAL, authenticated};
use crate::wire::client_authorities::ClientAuthorities;
use crate::wire::x509;

/// Type of the subject attribute that holds the uid of the user: 1.3.6.1.4.1.57683.2, in DER.
const UID: &[u8] = &[0x2b, 0x06, 0x01, 0x04, 0x01, 0x83, 0xc2, 0x53, 0x02];

/// A client certificate that names no user.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CertificateError {
    /// It is not an X.509 certificate, or its subject is not text.
    #[error("the client certificate cannot be read")]
    Unreadable,
    /// Its subject has no common name.
    #[error("the subject of the client certificate has no common name")]
    NoCommonName,
    /// Its subject has several uids, or an empty one.
    #[error("the subject of the client certificate does not have one uid")]
    AmbiguousUid,
}

/// The result of verifying the client certificate of a connection.
#[derive(Clone, Debug)]
pub enum ClientCertificate {
    /// It names a user, until the time at which it expires, if any.
    User(Arc<User>, Option<SystemTime>),
    /// It names no user and counts as no certificate.
    Nameless,
    /// Certificate of a front proxy, which may name users in headers until that time. If it names none, the certificate
    /// counts as the given one.
    FrontProxy(SystemTime, Box<ClientCertificate>),
    /// It is not trusted. Its client is rejected unless another credential is valid.
    Untrusted,
}

impl ClientCertificate {
    /// Verifies the certificates that a client presents, its own first. They name a uid only if `with_uid` is true.
    pub fn from_chain(
        authorities: &ClientAuthorities,
        certificates: &[CertificateDer<'_>],
        now: SystemTime,
        with_uid: bool,
    ) -> Self {
        let Some((own, between)) = certificates.split_first() else {
            return Self::Nameless;
        };
        match authorities.verify(own, between, now) {
            Ok(until) => match user_of_certificate(own, with_uid) {
                Ok(user) => Self::User(Arc::new(user), Some(until)),
                Err(CertificateError::NoCommonName) => Self::Nameless,
                Err(error) => untrusted(&error),
            },
            Err(error) => untrusted(&error),
        }
    }
}

fn untrusted(why: &dyn fmt::Display) -> ClientCertificate {
    tracing::debug!(%why, "client certificate is not trusted");
    ClientCertificate::Untrusted
}

/// Returns the common name of a certificate, if it can be read.
pub(super) fn common_name(der: &CertificateDer<'_>) -> Option<SmolStr> {
    let certificate = x509::parse(der).ok()?;
    let name = certificate.subject().iter_common_name().last()?;
    name.as_str().ok().map(SmolStr::new)
}

/// Returns the user that an already verified certificate names; its uid is read if `with_uid` is true.
///
/// # Errors
/// If it names no user.
pub fn user_of_certificate(der: &[u8], with_uid: bool) -> Result<User, CertificateError> {
    let encoded = CertificateDer::from(der);
    let certificate = x509::parse(&encoded).map_err(|_| CertificateError::Unreadable)?;
    let subject = certificate.subject();
    // Of several names the last one counts, as in Go.
    let name = subject
        .iter_common_name()
        .last()
        .map(text)
        .transpose()?
        .unwrap_or_default();
    if name.is_empty() {
        return Err(CertificateError::NoCommonName);
    }
    let groups = subject.iter_organization().map(|group| text(group).map(SmolStr::new));
    Ok(authenticated(User {
        name: SmolStr::new(name),
        uid: if with_uid {
            uid(&certificate)?
        } else {
            SmolStr::default()
        },
        groups: groups.collect::<Result<_, _>>()?,
        extra: vec![(SmolStr::new_static(CREDENTIAL), vec![credential(der)])],
    }))
}

/// Returns the uid in the subject of a certificate; empty if it has none.
fn uid(certificate: &X509Certificate<'_>) -> Result<SmolStr, CertificateError> {
    let attributes = certificate.subject().iter_attributes();
    let mut uids = attributes.filter(|attribute| attribute.attr_type().as_bytes() == UID);
    let Some(uid) = uids.next() else {
        return Ok(SmolStr::default());
    };
    match text(uid)? {
        text if !text.is_empty() && uids.next().is_none() => Ok(SmolStr::new(text)),
        _ => Err(CertificateError::AmbiguousUid),
    }
}

fn text<'c>(attribute: &AttributeTypeAndValue<'c>) -> Result<&'c str, CertificateError> {
    attribute.as_str().map_err(|_| CertificateError::Unreadable)
}

fn credential(der: &[u8]) -> SmolStr {
    let mut text = String::from("X509SHA256=");
    for byte in Sha256::digest(der) {
        let _ = write!(text, "{byte:02x}");
    }
    text.into()
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, UNIX_EPOCH};

    use rcgen::{CertificateParams, DnType, KeyPair};

    use super::*;

    fn uid_type() -> DnType {
        DnType::CustomDnType(vec![1, 3, 6, 1, 4, 1, 57683, 2])
    }

    fn certificate(names: &[(DnType, &str)]) -> CertificateDer<'static> {
        let mut params = CertificateParams::default();
        params.distinguished_name = rcgen::DistinguishedName::new();
        for (attribute, text) in names {
            params.distinguished_name.push(attribute.clone(), *text);
        }
        let key = KeyPair::generate().unwrap();
        params.self_signed(&key).unwrap().der().clone()
    }

    #[test]
    fn the_common_name_is_the_user_and_organizations_are_groups() {
        let der = certificate(&[
            (DnType::CommonName, "alice"),
            (DnType::OrganizationName, "system:masters"),
            (uid_type(), "1234"),
        ]);
        assert_eq!(user_of_certificate(&der, false).unwrap().uid, "");
        let user = user_of_certificate(&der, true).unwrap();
        assert_eq!((user.name.as_str(), user.uid.as_str()), ("alice", "1234"));
        assert_eq!(user.groups, ["system:masters", "system:authenticated"]);
        let (key, values) = &user.extra[0];
        assert_eq!(key, "authentication.kubernetes.io/credential-id");
        assert_eq!(values[0].len(), "X509SHA256=".len() + 64);
    }

    #[test]
    fn root_certificate_is_trusted_itself_while_valid() {
        let (own, other) = (
            certificate(&[(DnType::CommonName, "alice")]),
            certificate(&[(DnType::CommonName, "alice")]),
        );
        let nameless = certificate(&[(DnType::OrganizationName, "devs")]);
        let authorities = ClientAuthorities::new(vec![own.clone(), nameless.clone()], None);
        let now = UNIX_EPOCH + Duration::from_secs(1_800_000_000);
        let judge = |certificate: &CertificateDer<'_>, now| {
            ClientCertificate::from_chain(&authorities, std::slice::from_ref(certificate), now, true)
        };
        assert!(matches!(judge(&own, now), ClientCertificate::User(user, Some(_)) if user.name == "alice"));
        assert!(matches!(judge(&nameless, now), ClientCertificate::Nameless));
        assert!(matches!(judge(&own, UNIX_EPOCH), ClientCertificate::Untrusted));
        assert!(matches!(judge(&other, now), ClientCertificate::Untrusted));
    }

    #[test]
    fn a_certificate_without_a_common_name_names_no_user() {
        let der = certificate(&[(DnType::OrganizationName, "devs")]);
        assert_eq!(user_of_certificate(&der, true), Err(CertificateError::NoCommonName));
        assert_eq!(user_of_certificate(b"none", true), Err(CertificateError::Unreadable));
        let empty = certificate(&[(DnType::CommonName, "alice"), (uid_type(), "")]);
        assert_eq!(user_of_certificate(&empty, true), Err(CertificateError::AmbiguousUid));
    }
}
