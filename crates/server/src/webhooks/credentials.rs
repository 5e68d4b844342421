//! Credentials for calls of admission webhooks: the users of the kubeconfig that the configuration of an admission
//! plugin names
//! (<https://kubernetes.io/docs/reference/access-authn-authz/extensible-admission-controllers/#authenticate-apiservers>).

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use holdfast_admission::webhooks::{Address, WebhookType};
use http::header::AUTHORIZATION;
use http::{HeaderMap, HeaderName, HeaderValue};
use parking_lot::Mutex;
use rustls::SignatureScheme;
use rustls::client::ResolvesClientCert;
use rustls::crypto::aws_lc_rs;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::sign::CertifiedKey;
use tokio::time::Instant;

use crate::runtime::files;

/// Time for which a token that was read from a file is used before the file is read again.
const TOKEN_FILE_LIFETIME: Duration = Duration::from_secs(60);

/// Largest token file, in bytes.
const MAX_TOKEN_BYTES: u64 = 1 << 20;

/// Credentials of both types of admission webhooks.
#[derive(Clone, Debug, Default)]
pub struct WebhookCredentials {
    /// Users for validating webhooks.
    pub validating: WebhookUsers,
    /// Users for mutating webhooks.
    pub mutating: WebhookUsers,
}

impl WebhookCredentials {
    /// Returns the user that a webhook at `address` is called as; `None` for an anonymous call.
    pub(crate) fn user(&self, webhook_type: WebhookType, address: &Address) -> Option<&Arc<WebhookUser>> {
        match webhook_type {
            WebhookType::Validating => self.validating.user(address),
            WebhookType::Mutating => self.mutating.user(address),
        }
    }
}

/// Users of a kubeconfig by the hosts that their names match.
#[derive(Clone, Debug, Default)]
pub struct WebhookUsers {
    /// Users by name: `HOST:PORT`, `HOST`, `*.DOMAIN`, `*.DOMAIN:PORT` or `*`.
    pub users: HashMap<String, Arc<WebhookUser>>,
    /// Name of the user of the current context, for hosts that no name matches.
    pub current: Option<String>,
}

impl WebhookUsers {
    fn user(&self, address: &Address) -> Option<&Arc<WebhookUser>> {
        if self.users.is_empty() {
            return None;
        }
        self.user_for(&target(address))
    }

    /// Returns the user for `HOST:PORT`: the exact name first, then the longest domain, both with and without port 443.
    ///
    /// upstream: k8s.io/apiserver/pkg/util/webhook#defaultAuthenticationInfoResolver
    fn user_for(&self, target: &str) -> Option<&Arc<WebhookUser>> {
        let host = target.strip_suffix(":443").map(|host| host.trim_matches(['[', ']']));
        let named = [Some(target), host].into_iter().flatten();
        let mut matching = named.filter_map(|target| self.matching(target));
        matching
            .next()
            .or_else(|| self.users.get("*"))
            .or_else(|| self.users.get(self.current.as_deref()?))
    }

    fn matching(&self, target: &str) -> Option<&Arc<WebhookUser>> {
        let dots = target.match_indices('.');
        let mut domains = dots.filter_map(|(at, _)| self.users.get(&format!("*{}", target.get(at..)?)));
        self.users.get(target).or_else(|| domains.next())
    }
}

/// Returns `HOST:PORT` of a webhook.
fn target(address: &Address) -> String {
    match address {
        Address::Service {
            namespace, name, port, ..
        } => format!("{name}.{namespace}.svc:{port}"),
        Address::Url(url) => {
            let rest = url.split_once("://").map_or(url.as_str(), |(_, rest)| rest);
            let with_user = rest.split(['/', '?', '#']).next().unwrap_or_default();
            let authority = with_user.rsplit_once('@').map_or(with_user, |(_, host)| host);
            let port = authority.rsplit_once(':').map(|(_, port)| port);
            match port.is_some_and(|port| port.parse::<u16>().is_ok()) {
                true => authority.to_owned(),
                false => format!("{authority}:443"),
            }
        }
    }
}

/// Fields of a user of a kubeconfig.
#[derive(Clone, Debug, Default)]
pub struct UserFields {
    /// Bearer token.
    pub token: Option<String>,
    /// File with the bearer token, which is read again at intervals.
    pub token_file: Option<PathBuf>,
    /// Name and password for basic authentication.
    pub basic: Option<(String, String)>,
    /// Client certificate and its key, in PEM.
    pub certificate: Option<(Vec<u8>, Vec<u8>)>,
    /// Headers of impersonation, by name.
    pub impersonation: Vec<(String, String)>,
}

/// User that webhooks are called as.
#[derive(Debug)]
pub struct WebhookUser {
    authorization: Authorization,
    certificate: Option<Arc<ShownCertificate>>,
    impersonation: HeaderMap,
}

#[derive(Debug)]
enum Authorization {
    None,
    Header(HeaderValue),
    File {
        path: PathBuf,
        read: Mutex<Option<TokenRead>>,
    },
}

/// Header with the token of a file, and the time when the file was read.
#[derive(Clone, Debug)]
struct TokenRead {
    at: Instant,
    header: HeaderValue,
}

impl WebhookUser {
    /// Creates a user from the fields of a kubeconfig.
    ///
    /// # Errors
    /// If a field is invalid; the error names it.
    pub fn new(fields: UserFields) -> Result<Self, String> {
        let authorization = match (fields.token_file, fields.token, fields.basic) {
            (Some(path), _, _) => {
                let read = files::read_text(&path);
                let text = read.map_err(|error| format!("{}: {error}", path.display()))?;
                let header = bearer(&text)?;
                let at = Instant::now();
                Authorization::File {
                    path,
                    read: Mutex::new(Some(TokenRead { at, header })),
                }
            }
            (None, Some(token), _) => Authorization::Header(bearer(&token)?),
            (None, None, Some((name, password))) => {
                let encoded = STANDARD.encode(format!("{name}:{password}"));
                Authorization::Header(secret(&format!("Basic {encoded}"))?)
            }
            (None, None, None) => Authorization::None,
        };
        let certificate = fields
            .certificate
            .map(|(chain, key)| ShownCertificate::from_pem(&chain, &key));
        let mut impersonation = HeaderMap::new();
        for (name, value) in fields.impersonation {
            let name = HeaderName::try_from(name.as_str()).map_err(|error| format!("{name}: {error}"))?;
            let value = HeaderValue::try_from(value).map_err(|error| format!("{name}: {error}"))?;
            impersonation.append(name, value);
        }
        Ok(Self {
            authorization,
            certificate: certificate.transpose()?.map(Arc::new),
            impersonation,
        })
    }

    /// Returns the client certificate, if the user has one.
    pub(super) fn certificate(&self) -> Option<Arc<dyn ResolvesClientCert>> {
        let certificate = self.certificate.as_ref()?;
        Some(Arc::clone(certificate) as Arc<dyn ResolvesClientCert>)
    }

    /// Adds the headers of the user to those of a request.
    ///
    /// # Errors
    /// If the token file cannot be read.
    pub(super) async fn add_headers(&self, headers: &mut HeaderMap) -> Result<(), String> {
        let authorization = match &self.authorization {
            Authorization::None => None,
            Authorization::Header(header) => Some(header.clone()),
            Authorization::File { path, read } => {
                let last = read.lock().clone();
                let fresh = last.filter(|read| read.at.elapsed() < TOKEN_FILE_LIFETIME);
                Some(match fresh {
                    Some(fresh) => fresh.header,
                    None => {
                        let header = bearer(&read_token(path).await?)?;
                        let at = Instant::now();
                        *read.lock() = Some(TokenRead {
                            at,
                            header: header.clone(),
                        });
                        header
                    }
                })
            }
        };
        if let Some(authorization) = authorization {
            headers.insert(AUTHORIZATION, authorization);
        }
        for (name, value) in &self.impersonation {
            headers.append(name, value.clone());
        }
        Ok(())
    }
}

async fn read_token(path: &PathBuf) -> Result<String, String> {
    let failed = |error: std::io::Error| format!("failed to read token file {:?}: {error}", path.display().to_string());
    let about = tokio::fs::metadata(path).await.map_err(failed)?;
    if about.len() > MAX_TOKEN_BYTES {
        return Err(format!("token file {:?} is too large", path.display().to_string()));
    }
    tokio::fs::read_to_string(path).await.map_err(failed)
}

fn bearer(token: &str) -> Result<HeaderValue, String> {
    secret(&format!("Bearer {}", token.trim()))
}

fn secret(text: &str) -> Result<HeaderValue, String> {
    let mut header = HeaderValue::from_str(text).map_err(|_| "the credentials hold characters that no header has")?;
    header.set_sensitive(true);
    Ok(header)
}

/// Client certificate that is presented to every server.
#[derive(Debug)]
struct ShownCertificate(Arc<CertifiedKey>);

impl ShownCertificate {
    fn from_pem(chain: &[u8], key: &[u8]) -> Result<Self, String> {
        let parsed: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(chain).collect();
        let chain = parsed.map_err(|error| format!("client-certificate: {error}"))?;
        if chain.is_empty() {
            return Err("client-certificate: no certificate in PEM".to_owned());
        }
        let key = PrivateKeyDer::from_pem_slice(key).map_err(|error| format!("client-key: {error}"))?;
        let read = CertifiedKey::from_der(chain, key, &aws_lc_rs::default_provider());
        read.map(|key| Self(Arc::new(key)))
            .map_err(|error| format!("client-certificate: {error}"))
    }
}

impl ResolvesClientCert for ShownCertificate {
    fn resolve(&self, _hints: &[&[u8]], _schemes: &[SignatureScheme]) -> Option<Arc<CertifiedKey>> {
        Some(Arc::clone(&self.0))
    }

    fn has_certs(&self) -> bool {
        true
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "what fails here is the test")]
mod tests {
    use super::*;

    fn users(names: &[&str], current: Option<&str>) -> WebhookUsers {
        let user = |name: &&str| {
            let fields = UserFields {
                token: Some(name.replace('*', "star")),
                ..UserFields::default()
            };
            ((*name).to_owned(), Arc::new(WebhookUser::new(fields).unwrap()))
        };
        WebhookUsers {
            users: names.iter().map(user).collect(),
            current: current.map(str::to_owned),
        }
    }

    fn chosen(users: &WebhookUsers, target: &str) -> Option<String> {
        let user = users.user_for(target)?;
        let (name, _) = users.users.iter().find(|(_, known)| Arc::ptr_eq(known, user))?;
        Some(name.clone())
    }

    #[test]
    fn user_with_most_specific_name_is_chosen() {
        let all = ["a.b.svc:443", "a.b.svc", "*.b.svc", "*.svc", "*", "admin"];
        for first in 0..all.len() {
            let users = users(&all[first..], Some("admin"));
            assert_eq!(chosen(&users, "a.b.svc:443").as_deref(), Some(all[first]));
        }
        let users = users(&["a.b.svc", "*.svc"], Some("admin"));
        assert_eq!(chosen(&users, "a.b.svc:8443"), None);
        assert_eq!(chosen(&users, "other.example.com:443"), None);
    }

    #[test]
    fn target_of_url_has_default_port() {
        for (url, expected) in [
            ("https://a.example/path", "a.example:443"),
            ("https://a.example:8443", "a.example:8443"),
            ("https://[::1]:9/x", "[::1]:9"),
        ] {
            assert_eq!(target(&Address::Url(url.to_owned())), expected);
        }
    }

    #[tokio::test]
    async fn basic_user_with_impersonation_adds_headers() {
        let user = WebhookUser::new(UserFields {
            basic: Some(("me".to_owned(), "secret".to_owned())),
            impersonation: vec![("Impersonate-User".to_owned(), "you".to_owned())],
            ..UserFields::default()
        });
        let mut headers = HeaderMap::new();
        user.unwrap().add_headers(&mut headers).await.unwrap();
        assert_eq!(headers["authorization"], "Basic bWU6c2VjcmV0");
        assert_eq!(headers["impersonate-user"], "you");
    }
}
