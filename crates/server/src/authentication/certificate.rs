//! Users from client certificates: the common name is the user, each organization a group
//! (<https://kubernetes.io/docs/reference/access-authn-authz/authentication/#x509-client-certificates>).

use smol_str::SmolStr;
use x509_parser::prelude::{FromDer, X509Certificate};

use super::authenticated;
use crate::user::User;

/// A client certificate that names no user.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CertificateError {
    /// It is no X.509 certificate.
    #[error("the client certificate cannot be read")]
    Unreadable,
    /// Its subject has no common name.
    #[error("the subject of the client certificate has no common name")]
    NoCommonName,
}

/// The user that a certificate names, which was verified already.
///
/// # Errors
/// Where it names none.
pub fn user_of_certificate(der: &[u8]) -> Result<User, CertificateError> {
    let (_, certificate) = X509Certificate::from_der(der).map_err(|_| CertificateError::Unreadable)?;
    let subject = certificate.subject();
    let name = subject.iter_common_name().find_map(|name| name.as_str().ok());
    let name = name
        .filter(|name| !name.is_empty())
        .ok_or(CertificateError::NoCommonName)?;
    let groups = subject.iter_organization().filter_map(|group| group.as_str().ok());
    Ok(authenticated(User {
        name: SmolStr::new(name),
        groups: groups.map(SmolStr::new).collect(),
        ..User::default()
    }))
}

#[cfg(test)]
mod tests {
    use rcgen::{CertificateParams, DnType, KeyPair};

    use super::*;

    fn certificate(names: &[(DnType, &str)]) -> Vec<u8> {
        let mut params = CertificateParams::default();
        params.distinguished_name = rcgen::DistinguishedName::new();
        for (sort, text) in names {
            params.distinguished_name.push(sort.clone(), *text);
        }
        let key = KeyPair::generate().unwrap();
        params.self_signed(&key).unwrap().der().to_vec()
    }

    #[test]
    fn the_common_name_is_the_user_and_organizations_are_groups() {
        let der = certificate(&[
            (DnType::CommonName, "alice"),
            (DnType::OrganizationName, "system:masters"),
        ]);
        let user = user_of_certificate(&der).unwrap();
        assert_eq!(user.name, "alice");
        assert_eq!(user.groups, ["system:masters", "system:authenticated"]);
    }

    #[test]
    fn a_certificate_without_a_common_name_names_nobody() {
        let der = certificate(&[(DnType::OrganizationName, "devs")]);
        assert_eq!(user_of_certificate(&der), Err(CertificateError::NoCommonName));
        assert_eq!(user_of_certificate(b"none"), Err(CertificateError::Unreadable));
    }
}
