//! Client configuration of a webhook for admission or conversion
//! (<https://kubernetes.io/docs/reference/access-authn-authz/extensible-admission-controllers/#contacting-the-webhook>).

use std::fmt;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use holdfast_schema::Field;
use holdfast_value::SmolStr;
use x509_parser::pem::Pem;
use x509_parser::prelude::{FromDer as _, X509Certificate};

/// Address of a webhook, and the CA that must have signed its certificate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClientConfig {
    /// Address.
    pub address: Address,
    /// Authorities that can sign its certificate; `None` for those of the system.
    pub authorities: Option<Authorities>,
}

/// Address of a webhook.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Address {
    /// An `https` URL.
    Url(String),
    /// A service of the cluster.
    Service {
        /// Namespace of the service.
        namespace: SmolStr,
        /// Name of the service.
        name: SmolStr,
        /// Path, with its leading slash; may be empty.
        path: SmolStr,
        /// Port.
        port: u16,
    },
}

/// Certificates of authorities, in PEM. Cheap to clone, to compare and to look up.
#[derive(Clone)]
pub struct Authorities {
    pem: Arc<[u8]>,
    hash: u64,
}

const HTTPS: u16 = 443;

/// Returns the validation error of a `caBundle`, with the reference's message. An empty bundle means the system's
/// authorities.
pub fn authorities_error(bundle: &str) -> Option<String> {
    let pem = STANDARD.decode(bundle).unwrap_or_default();
    if pem.is_empty() {
        return None;
    }
    let message = |why: &dyn fmt::Display| Some(format!("unable to load root certificates: {why}"));
    let mut fit = false;
    for block in Pem::iter_from_buffer(&pem) {
        let Ok(block) = block else { break };
        if block.label != "CERTIFICATE" {
            continue;
        }
        match X509Certificate::from_der(&block.contents) {
            Ok(_) => fit = true,
            Err(error) if !fit => return message(&format_args!("failed to parse certificate: {error}")),
            Err(_) => {}
        }
    }
    if fit {
        None
    } else {
        message(&"unable to parse bytes as PEM block")
    }
}

impl ClientConfig {
    /// Reads a `clientConfig`, which was validated.
    pub fn from_field(client: &Field<'_, '_>) -> Self {
        let (url, service) = (client.child("url"), client.child("service"));
        let address = if url.is_set() {
            Address::Url(url.text().to_owned())
        } else {
            let port = service.child("port").number();
            Address::Service {
                namespace: service.child("namespace").text().into(),
                name: service.child("name").text().into(),
                path: service.child("path").text().into(),
                port: port.and_then(|port| u16::try_from(port).ok()).unwrap_or(HTTPS),
            }
        };
        let bundle = client.child("caBundle");
        let authorities = STANDARD.decode(bundle.text()).unwrap_or_default();
        Self {
            address,
            authorities: (!authorities.is_empty()).then(|| Authorities::new(authorities)),
        }
    }
}

impl Address {
    /// Returns the URL to call, with a path without empty segments, as the reference's client calls it.
    pub fn url(&self) -> String {
        let (mut url, path) = match self {
            Self::Url(url) => {
                let authority = url.find("://").map_or(0, |at| at + 3);
                let end = url[authority..].find('/').map_or(url.len(), |at| authority + at);
                (url[..end].to_owned(), &url[end..])
            }
            Self::Service {
                namespace,
                name,
                path,
                port,
            } => (format!("https://{name}.{namespace}.svc:{port}"), path.as_str()),
        };
        let mut parts = path.split('/').filter(|part| !part.is_empty()).peekable();
        if parts.peek().is_none() {
            url.push('/');
        }
        for part in parts {
            url.push('/');
            url.push_str(part);
        }
        url
    }
}

impl Authorities {
    /// Creates the authorities of a bundle in PEM.
    pub fn new(pem: Vec<u8>) -> Self {
        let mut hasher = DefaultHasher::new();
        pem.hash(&mut hasher);
        Self {
            pem: pem.into(),
            hash: hasher.finish(),
        }
    }

    /// Returns the bundle.
    pub fn pem(&self) -> &[u8] {
        &self.pem
    }
}

impl PartialEq for Authorities {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.pem, &other.pem) || self.hash == other.hash && self.pem == other.pem
    }
}

impl Eq for Authorities {}

impl Hash for Authorities {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.hash.hash(state);
    }
}

impl fmt::Debug for Authorities {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Authorities({} bytes)", self.pem.len())
    }
}

#[cfg(test)]
mod tests {
    use holdfast_value::{Limits, yaml};

    use super::*;

    fn config(text: &str) -> ClientConfig {
        let value = yaml::parse(text.as_bytes(), &Limits::TRUSTED).unwrap();
        ClientConfig::from_field(&Field::root(&value))
    }

    #[test]
    fn a_service_is_called_by_its_name_in_the_cluster() {
        let of_service = config("{service: {name: s, namespace: ns, path: /x, port: 8443}}");
        assert_eq!(of_service.address.url(), "https://s.ns.svc:8443/x");
        assert_eq!(of_service.authorities, None);
        let plain = config("{service: {name: s, namespace: ns}}");
        assert_eq!(plain.address.url(), "https://s.ns.svc:443/");
    }

    #[test]
    fn a_path_has_no_empty_parts() {
        for (url, called) in [
            ("https://a.example/b//c/", "https://a.example/b/c"),
            ("https://a.example:1", "https://a.example:1/"),
        ] {
            assert_eq!(Address::Url(url.to_owned()).url(), called);
        }
    }

    #[test]
    fn a_bundle_holds_a_certificate() {
        let key = rcgen::KeyPair::generate().unwrap();
        let certificate = rcgen::CertificateParams::default().self_signed(&key).unwrap();
        let error = |pem: &str| authorities_error(&STANDARD.encode(pem));
        assert_eq!(error(&certificate.pem()), None);
        assert_eq!(error(""), None);
        let start = "unable to load root certificates: ";
        for none in ["not a cert".to_owned(), key.serialize_pem()] {
            assert_eq!(error(&none), Some(format!("{start}unable to parse bytes as PEM block")));
        }
        let odd = error("-----BEGIN CERTIFICATE-----\nYQ==\n-----END CERTIFICATE-----\n").unwrap();
        assert!(
            odd.starts_with(&format!("{start}failed to parse certificate: ")),
            "{odd}"
        );
    }

    #[test]
    fn the_same_bundle_is_the_same_authorities() {
        let authorities = |bundle: &str| config(&format!("{{url: 'https://a/b', caBundle: {bundle}}}")).authorities;
        assert_eq!(authorities("YQ=="), authorities("YQ=="));
        assert_ne!(authorities("YQ=="), authorities("Yg=="));
        assert_eq!(authorities("YQ==").unwrap().pem(), b"a");
    }
}
