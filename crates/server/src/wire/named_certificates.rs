//! Choice among several certificates of the server by the name that a client requests (SNI), as Go's `crypto/tls` makes
//! it for kube-apiserver.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::Arc;

use holdfast_schema::metadata::formats::dns_subdomain;
use rustls::client::verify_server_name;
use rustls::pki_types::ServerName;
use rustls::server::{ClientHello, ParsedCertificate, ResolvesServerCert};
use rustls::sign::CertifiedKey;
use x509_parser::extensions::GeneralName;

use crate::wire::x509;

/// A certificate with its key, and the names that clients request it by.
pub(super) struct NamedCertificate {
    pub(super) certificate: Arc<CertifiedKey>,
    /// DNS names, which may begin with `*.`, and addresses of the server; if empty, the names in the certificate.
    pub(super) names: Vec<String>,
}

/// Certificates of a server.
#[derive(Clone, Debug)]
pub(super) struct Resolver {
    /// Certificate for clients that request no name.
    unnamed: Arc<CertifiedKey>,
    /// Certificates by name.
    by_name: Arc<HashMap<String, Arc<CertifiedKey>>>,
    /// All certificates. The first one is the default.
    all: Arc<[Arc<CertifiedKey>]>,
}

impl Resolver {
    /// Creates the choice between the certificate `default` and others. Names that are given precede those that a
    /// certificate contains, and earlier certificates precede later ones.
    ///
    /// upstream: k8s.io/apiserver/pkg/server/dynamiccertificates#DynamicServingCertificateController.BuildNamedCertificates
    pub(super) fn new(default: Arc<CertifiedKey>, named: Vec<NamedCertificate>) -> Self {
        let mut by_name = HashMap::new();
        let (unnamed, explicit): (Vec<_>, Vec<_>) = named.iter().rev().partition(|named| named.names.is_empty());
        for named in unnamed {
            for name in names_in(&named.certificate) {
                by_name.insert(name, Arc::clone(&named.certificate));
            }
        }
        for named in explicit {
            for name in &named.names {
                by_name.insert(name.clone(), Arc::clone(&named.certificate));
            }
        }
        let others = named.into_iter().map(|named| named.certificate);
        Self {
            unnamed: Arc::clone(&default),
            by_name: Arc::new(by_name),
            all: std::iter::once(default).chain(others).collect(),
        }
    }

    /// Returns the choices for connections to the addresses that are names of certificates. They differ for clients that
    /// request no name.
    ///
    /// upstream: k8s.io/apiserver/pkg/server/dynamiccertificates#DynamicServingCertificateController.GetConfigForClient
    pub(super) fn for_addresses(&self) -> Vec<(IpAddr, Self)> {
        let addresses = self.by_name.iter().filter_map(|(name, certificate)| {
            let resolver = Self {
                unnamed: Arc::clone(certificate),
                ..self.clone()
            };
            Some((name.parse().ok()?, resolver))
        });
        addresses.collect()
    }

    /// Returns the certificate for the DNS name that a client requests. A certificate that covers the name precedes the
    /// default one.
    fn for_name(&self, name: &str) -> &Arc<CertifiedKey> {
        let name = name.to_ascii_lowercase();
        let wildcard = name.split_once('.').map(|(_, domain)| format!("*.{domain}"));
        let found = self.by_name.get(&name);
        found
            .or_else(|| self.by_name.get(&wildcard?))
            .or_else(|| self.all.iter().find(|certificate| covers(certificate, &name)))
            .unwrap_or(&self.unnamed)
    }
}

impl ResolvesServerCert for Resolver {
    fn resolve(&self, hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        let chosen = match hello.server_name() {
            Some(name) if self.all.len() > 1 => self.for_name(name),
            _ => &self.unnamed,
        };
        Some(Arc::clone(chosen))
    }
}

fn covers(certificate: &CertifiedKey, name: &str) -> bool {
    let parsed = certificate.cert.first().map(ParsedCertificate::try_from);
    let Some((Ok(parsed), Ok(name))) = parsed.map(|parsed| (parsed, ServerName::try_from(name))) else {
        return false;
    };
    verify_server_name(&parsed, &name).is_ok()
}

/// Returns the names in a certificate that clients can request: its common name if that is a domain, and its DNS names.
///
/// upstream: k8s.io/apiserver/pkg/server/dynamiccertificates#getCertificateNames
fn names_in(certificate: &CertifiedKey) -> Vec<String> {
    let Some(Ok(parsed)) = certificate.cert.first().map(x509::parse) else {
        return Vec::new();
    };
    let common_name = parsed.subject().iter_common_name().find_map(|name| name.as_str().ok());
    let domain = common_name.filter(|name| is_domain(name)).map(str::to_owned);
    let extension = parsed.subject_alternative_name().ok().flatten();
    let alternatives = extension.iter().flat_map(|names| &names.value.general_names);
    let dns_names = alternatives.filter_map(|name| match name {
        GeneralName::DNSName(name) => Some((*name).to_owned()),
        _ => None,
    });
    domain.into_iter().chain(dns_names).collect()
}

fn is_domain(name: &str) -> bool {
    let is_address = name.parse::<IpAddr>().is_ok();
    !is_address && (name == "*" || dns_subdomain(name.strip_prefix("*.").unwrap_or(name)).is_empty())
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "what fails here is the test")]
mod tests {
    use rcgen::{CertificateParams, DnType, KeyPair};
    use rustls::crypto::aws_lc_rs;
    use rustls::pki_types::PrivateKeyDer;

    use super::*;

    fn certificate(common_name: &str, names: &[&str]) -> Arc<CertifiedKey> {
        let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
        let mut params = CertificateParams::new(names).unwrap();
        params.distinguished_name.push(DnType::CommonName, common_name);
        let key = KeyPair::generate().unwrap();
        let chain = vec![params.self_signed(&key).unwrap().der().clone()];
        let key = PrivateKeyDer::try_from(key.serialize_der()).unwrap();
        Arc::new(CertifiedKey::from_der(chain, key, &aws_lc_rs::default_provider()).unwrap())
    }

    fn named(certificate: &Arc<CertifiedKey>, names: &[&str]) -> NamedCertificate {
        NamedCertificate {
            certificate: Arc::clone(certificate),
            names: names.iter().map(|name| (*name).to_owned()).collect(),
        }
    }

    #[track_caller]
    fn assert_chosen(resolver: &Resolver, name: &str, expected: &Arc<CertifiedKey>) {
        assert!(Arc::ptr_eq(resolver.for_name(name), expected), "{name}");
    }

    #[test]
    fn given_names_precede_those_in_certificates() {
        let default = certificate("default", &["default.example"]);
        let first = certificate("first.example", &["a.example", "*.wild.example", "10.0.0.1"]);
        let second = certificate("10.0.0.2", &["a.example", "b.example"]);
        let third = certificate("third", &["own.example"]);
        let others = vec![
            named(&first, &[]),
            named(&second, &[]),
            named(&third, &["b.example", "*.c.example"]),
        ];
        let resolver = Resolver::new(Arc::clone(&default), others);
        for (name, expected) in [
            ("a.example", &first),
            ("A.Example", &first),
            ("first.example", &first),
            ("x.wild.example", &first),
            ("b.example", &third),
            ("x.c.example", &third),
            ("x.y.c.example", &default),
            // It has no such name by the flag, but its certificate covers it.
            ("own.example", &third),
            ("default.example", &default),
            ("unknown.example", &default),
        ] {
            assert_chosen(&resolver, name, expected);
        }
        assert!(
            resolver.for_addresses().is_empty(),
            "addresses in certificates are no names"
        );
    }

    #[test]
    fn address_has_a_certificate_for_clients_without_a_name() {
        let (default, other) = (certificate("default", &["a"]), certificate("other", &["b"]));
        let others = vec![named(&other, &["10.0.0.1", "c"])];
        let resolvers = Resolver::new(Arc::clone(&default), others).for_addresses();
        let [(address, resolver)] = resolvers.as_slice() else {
            unreachable!("{resolvers:?}")
        };
        assert_eq!(address.to_string(), "10.0.0.1");
        assert!(Arc::ptr_eq(&resolver.unnamed, &other));
        assert_chosen(resolver, "a", &default);
    }
}
