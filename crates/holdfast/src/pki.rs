//! The certificates that the server creates for itself: an authority, its own, and its administrator's.
//!
//! They are created at the first start and kept in `pki` of the data directory. A certificate that expires soon, or
//! that lacks a name of the server, is renewed at the next start. The authority stays the same, so that clients
//! continue to trust the server.

use std::collections::BTreeSet;
use std::fs;
use std::net::IpAddr;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};
use rcgen::{
    BasicConstraints, CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    KeyUsagePurpose, SanType,
};
use time::{Duration, OffsetDateTime};
use x509_parser::extensions::GeneralName;
use x509_parser::pem::{Pem, parse_x509_pem};
use x509_parser::prelude::{FromDer as _, X509Certificate};

use crate::files;

/// Validity of the authority.
const AUTHORITY_LIFE: Duration = Duration::days(3650);
/// Validity of other certificates.
const LIFE: Duration = Duration::days(365);
/// Time before its expiration at which a certificate is renewed.
const RENEWAL: Duration = Duration::days(90);
/// Time by which clocks of clients may be behind.
const CLOCK_SKEW: Duration = Duration::hours(1);

/// The files of a certificate and its key, in PEM.
#[derive(Clone, Debug)]
pub(crate) struct Pair {
    /// The certificate.
    pub(crate) certificate: PathBuf,
    /// Its key.
    pub(crate) key: PathBuf,
}

/// The certificates of a server.
#[derive(Clone, Debug)]
pub(crate) struct Pki {
    /// The CA that signs the others.
    pub(crate) authority: Pair,
    /// Certificate that the server presents to clients.
    pub(crate) server: Pair,
    /// Certificate that the administrator presents to the server.
    pub(crate) administrator: Pair,
}

impl Pair {
    /// Returns the pair in `folder` with kube-apiserver's file names. Creates a missing pair with an authority of its
    /// own, which is in the certificate's file and signs nothing else.
    pub(crate) fn ensure(folder: &Path, names: &Names, now: OffsetDateTime) -> Result<Self> {
        let pair = Self::at(folder, "apiserver");
        if pair.certificate.exists() && pair.key.exists() {
            return Ok(pair);
        }
        tracing::info!(certificate = %pair.certificate.display(), "making a certificate");
        files::private_folder(folder)?;
        let authority_key = KeyPair::generate()?;
        let authority = authority_parameters(now);
        let root = authority.self_signed(&authority_key)?.pem();
        let key = KeyPair::generate()?;
        let certificate = server_parameters(names, now).signed_by(&key, &Issuer::new(authority, authority_key))?;
        write(&pair, &(certificate.pem() + &root), &key)?;
        Ok(pair)
    }

    fn at(folder: &Path, name: &str) -> Self {
        Self {
            certificate: folder.join(format!("{name}.crt")),
            key: folder.join(format!("{name}.key")),
        }
    }
}

impl Pki {
    /// Returns the certificates in `folder`, and creates those that are missing or no longer usable. `names` are the
    /// DNS names and addresses of the server.
    pub(crate) fn ensure(folder: &Path, names: &Names, now: OffsetDateTime) -> Result<Self> {
        files::private_folder(folder)?;
        // Two processes that start concurrently would mix their keys and certificates. The lock is released with the
        // file.
        let lock = files::open_lock(&folder.join("lock")).and_then(|file| file.lock().map(|()| file));
        let _lock = lock.with_context(|| format!("cannot lock {}", folder.display()))?;
        let pki = Self {
            authority: Pair::at(folder, "ca"),
            server: Pair::at(folder, "server"),
            administrator: Pair::at(folder, "admin"),
        };
        let authority_is_new = !is_usable(&pki.authority, None, now)?;
        if authority_is_new {
            tracing::info!(folder = %folder.display(), "making a certificate authority");
            let key = KeyPair::generate()?;
            let certificate = authority_parameters(now).self_signed(&key)?;
            write(&pki.authority, &certificate.pem(), &key)?;
        }
        let leaves = [
            (&pki.server, Some(names), server_parameters(names, now)),
            (&pki.administrator, None, administrator_parameters(now)),
        ];
        for (pair, names, parameters) in leaves {
            if authority_is_new || !is_usable(pair, names, now)? {
                tracing::info!(certificate = %pair.certificate.display(), "making a certificate");
                let key = KeyPair::generate()?;
                let certificate = parameters.signed_by(&key, &issuer(&pki.authority, now)?)?;
                write(pair, &certificate.pem(), &key)?;
            }
        }
        Ok(pki)
    }
}

/// A certificate and its key in memory, in PEM.
#[derive(Clone)]
pub(crate) struct PairText {
    /// The certificate.
    pub(crate) certificate: String,
    /// Its key.
    pub(crate) key: String,
}

/// The certificates of a server without files. They end with the server.
#[derive(Clone)]
pub(crate) struct PkiInMemory {
    /// Certificate of the CA that signs the others, in PEM.
    pub(crate) authority: String,
    /// Certificate that the server presents to clients.
    pub(crate) server: PairText,
    /// Certificate that the administrator presents to the server.
    pub(crate) administrator: PairText,
    /// Expiration time of the server's certificate.
    pub(crate) end: OffsetDateTime,
}

impl PkiInMemory {
    /// Creates the certificates of a server with these names.
    pub(crate) fn new(names: &Names, now: OffsetDateTime) -> Result<Self> {
        let authority_key = KeyPair::generate()?;
        let authority = authority_parameters(now);
        let root = authority.self_signed(&authority_key)?.pem();
        let issuer = Issuer::new(authority, authority_key);
        let sign = |parameters: CertificateParams| -> Result<PairText> {
            let key = KeyPair::generate()?;
            Ok(PairText {
                certificate: parameters.signed_by(&key, &issuer)?.pem(),
                key: key.serialize_pem(),
            })
        };
        Ok(Self {
            authority: root,
            server: sign(server_parameters(names, now))?,
            administrator: sign(administrator_parameters(now))?,
            end: now + LIFE,
        })
    }
}

/// Names of a server.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Names {
    /// DNS names.
    pub(crate) dns: BTreeSet<String>,
    /// Addresses.
    pub(crate) addresses: BTreeSet<IpAddr>,
}

fn authority_parameters(now: OffsetDateTime) -> CertificateParams {
    let mut parameters = parameters("holdfast", now, AUTHORITY_LIFE);
    parameters.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    parameters.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::DigitalSignature];
    parameters
}

fn server_parameters(names: &Names, now: OffsetDateTime) -> CertificateParams {
    let mut parameters = parameters("holdfast-server", now, LIFE);
    parameters.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
    // A name that no certificate can contain (such as one with non-ASCII letters) is skipped.
    let dns = names.dns.iter().filter_map(|name| name.as_str().try_into().ok());
    let addresses = names.addresses.iter().copied().map(SanType::IpAddress);
    parameters.subject_alt_names = dns.map(SanType::DnsName).chain(addresses).collect();
    parameters
}

fn administrator_parameters(now: OffsetDateTime) -> CertificateParams {
    let mut parameters = parameters("holdfast-admin", now, LIFE);
    let name = &mut parameters.distinguished_name;
    name.push(DnType::OrganizationName, holdfast_authorization::MASTERS);
    parameters.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
    parameters
}

fn parameters(common_name: &str, now: OffsetDateTime, life: Duration) -> CertificateParams {
    let mut parameters = CertificateParams::default();
    parameters.distinguished_name = DistinguishedName::new();
    parameters.distinguished_name.push(DnType::CommonName, common_name);
    parameters.key_usages = vec![KeyUsagePurpose::DigitalSignature];
    parameters.use_authority_key_identifier_extension = true;
    parameters.not_before = now - CLOCK_SKEW;
    parameters.not_after = now + life;
    parameters
}

/// Returns the issuer that signs with the authority's key.
fn issuer(authority: &Pair, now: OffsetDateTime) -> Result<Issuer<'static, KeyPair>> {
    let key = KeyPair::from_pem(&files::read_text(&authority.key)?)
        .with_context(|| format!("cannot use the key {}", authority.key.display()))?;
    Ok(Issuer::new(authority_parameters(now), key))
}

/// Returns the expiration time of the certificate of a pair.
pub(crate) fn end(pair: &Pair) -> Result<OffsetDateTime> {
    let shown = pair.certificate.display();
    let end = end_of_pem(&files::read(&pair.certificate)?);
    end.with_context(|| format!("{shown} is no certificate"))
}

/// Returns the expiration time of the first certificate in `text` (PEM).
pub(crate) fn end_of_pem(text: &[u8]) -> Result<OffsetDateTime> {
    let (_, pem) = parse_x509_pem(text).context("no PEM")?;
    end_of_der(&pem.contents)
}

/// Returns the expiration time of a certificate in DER.
pub(crate) fn end_of_der(der: &[u8]) -> Result<OffsetDateTime> {
    let (_, certificate) = X509Certificate::from_der(der).context("no certificate")?;
    Ok(certificate.validity().not_after.to_datetime())
}

fn certificate_pem(pair: &Pair) -> Result<Pem> {
    let text = files::read_text(&pair.certificate)?;
    let parsed = parse_x509_pem(text.as_bytes());
    let (_, pem) = parsed.with_context(|| format!("{} is no PEM", pair.certificate.display()))?;
    Ok(pem)
}

/// Returns true if a pair exists, remains valid for some time, and its certificate has all `names`.
fn is_usable(pair: &Pair, names: Option<&Names>, now: OffsetDateTime) -> Result<bool> {
    if !pair.certificate.exists() || !pair.key.exists() {
        return Ok(false);
    }
    let shown = pair.certificate.display();
    let pem = certificate_pem(pair)?;
    let certificate = pem.parse_x509().with_context(|| format!("{shown} is no certificate"))?;
    let validity = certificate.validity();
    // A certificate that was created while the clock was ahead is not valid yet.
    if validity.not_after.to_datetime() < now + RENEWAL || validity.not_before.to_datetime() > now {
        return Ok(false);
    }
    files::restrict(&pair.key);
    let Some(names) = names else { return Ok(true) };
    let result = certificate.subject_alternative_name();
    let held = result.with_context(|| format!("{shown} cannot be read"))?;
    let mut wanted = names.clone();
    for name in held.iter().flat_map(|extension| &extension.value.general_names) {
        match name {
            GeneralName::DNSName(name) => {
                wanted.dns.remove(*name);
            }
            GeneralName::IPAddress(bytes) => {
                wanted.addresses.retain(|address| match address {
                    IpAddr::V4(address) => address.octets() != **bytes,
                    IpAddr::V6(address) => address.octets() != **bytes,
                });
            }
            _ => {}
        }
    }
    Ok(wanted == Names::default())
}

/// Writes the key before the certificate: if only the key exists, both are created again.
fn write(pair: &Pair, certificate: &str, key: &KeyPair) -> Result<()> {
    let _ = fs::remove_file(&pair.certificate);
    files::write_private(&pair.key, &key.serialize_pem())?;
    files::write_private(&pair.certificate, certificate)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(dns: &[&str]) -> Names {
        Names {
            dns: dns.iter().map(|name| (*name).to_owned()).collect(),
            addresses: ["127.0.0.1", "::1"].iter().map(|text| text.parse().unwrap()).collect(),
        }
    }

    fn texts(pki: &Pki) -> [String; 3] {
        [&pki.authority, &pki.server, &pki.administrator].map(|pair| files::read_text(&pair.certificate).unwrap())
    }

    #[test]
    fn a_pair_is_made_once_and_vouches_for_itself() {
        let folder = tempfile::tempdir().unwrap();
        let ensure = || {
            Pair::ensure(
                &folder.path().join("a"),
                &names(&["localhost"]),
                OffsetDateTime::now_utc(),
            )
            .unwrap()
        };
        let pair = ensure();
        let text = files::read_text(&pair.certificate).unwrap();
        assert_eq!(text.matches("BEGIN CERTIFICATE").count(), 2);
        assert!(is_usable(&pair, Some(&names(&["localhost"])), OffsetDateTime::now_utc()).unwrap());
        ensure();
        assert_eq!(files::read_text(&pair.certificate).unwrap(), text);
    }

    #[test]
    fn certificates_are_kept_until_a_name_is_missing() {
        let folder = tempfile::tempdir().unwrap();
        let now = OffsetDateTime::now_utc();
        let ensure = |dns: &[&str]| texts(&Pki::ensure(folder.path(), &names(dns), now).unwrap());
        let first = ensure(&["localhost", "a"]);
        assert_eq!(ensure(&["localhost"]), first);
        let second = ensure(&["localhost", "b"]);
        assert_eq!((&second[0], &second[2]), (&first[0], &first[2]));
        assert_ne!(second[1], first[1]);
    }

    #[test]
    fn certificate_is_renewed_before_expiration_by_same_authority() {
        let folder = tempfile::tempdir().unwrap();
        let now = OffsetDateTime::now_utc();
        let ensure = |now| texts(&Pki::ensure(folder.path(), &names(&["localhost"]), now).unwrap());
        let first = ensure(now);
        let later = ensure(now + LIFE - RENEWAL + Duration::days(1));
        assert_eq!(later[0], first[0]);
        assert_ne!((&later[1], &later[2]), (&first[1], &first[2]));
    }

    #[test]
    fn certificate_that_is_not_valid_yet_is_renewed() {
        let folder = tempfile::tempdir().unwrap();
        let now = OffsetDateTime::now_utc();
        let ensure = |now| texts(&Pki::ensure(folder.path(), &names(&["localhost"]), now).unwrap());
        let ahead = ensure(now + Duration::days(7));
        let made = ensure(now);
        assert!(ahead.iter().zip(&made).all(|(ahead, made)| ahead != made));
        assert_eq!(ensure(now), made);
    }

    #[test]
    fn a_new_authority_signs_everything_anew() {
        let folder = tempfile::tempdir().unwrap();
        let now = OffsetDateTime::now_utc();
        let first = Pki::ensure(folder.path(), &names(&["localhost"]), now).unwrap();
        let before = texts(&first);
        fs::remove_file(&first.authority.key).unwrap();
        let after = texts(&Pki::ensure(folder.path(), &names(&["localhost"]), now).unwrap());
        assert!(before.iter().zip(&after).all(|(before, after)| before != after));
    }

    #[test]
    fn the_administrator_is_in_the_group_of_masters() {
        let folder = tempfile::tempdir().unwrap();
        let pki = Pki::ensure(folder.path(), &names(&["localhost"]), OffsetDateTime::now_utc()).unwrap();
        let (_, pem) = parse_x509_pem(files::read_text(&pki.administrator.certificate).unwrap().as_bytes()).unwrap();
        let user = holdfast_server::identity::user_of_certificate(&pem.contents, true).unwrap();
        assert_eq!(user.name, "holdfast-admin");
        assert!(user.is_in("system:masters"));
    }
}
