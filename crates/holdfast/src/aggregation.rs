//! Flags for aggregated API servers and for front proxies.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;

use anyhow::{Context as _, Result, ensure};
use arc_swap::ArcSwap;
use clap::{ArgAction, Args};
use holdfast_controllers::ClusterTrust;
use holdfast_egress::Dialer;
use holdfast_resource::Registry;
use holdfast_server::identity::{FrontProxy, RequestHeaders};
use holdfast_server::metrics::Metrics;
use holdfast_server::objects::Store;
use holdfast_server::operations::aggregation::{AggregationConfig, Aggregator, ProxyIdentity};
use holdfast_server::operations::service::Service;
use holdfast_server::runtime::shutdown::Shutdown;
use holdfast_server::webhooks::Routing;
use holdfast_server::wire::client_authorities::ClientAuthorities;
use holdfast_server::wire::pem_source::PemSource;
use http::HeaderName;

use crate::reload;

/// kube-apiserver's flags for aggregated servers and front proxies.
#[derive(Clone, Debug, Args)]
pub(crate) struct AggregationFlags {
    /// Client certificate that this server presents to aggregated servers (PEM). Reloaded when it changes
    #[arg(long, value_name = "FILE", requires = "proxy_client_key_file")]
    pub(crate) proxy_client_cert_file: Option<PathBuf>,

    /// Private key of --proxy-client-cert-file (PEM)
    #[arg(long, value_name = "FILE", requires = "proxy_client_cert_file")]
    pub(crate) proxy_client_key_file: Option<PathBuf>,

    /// Route requests for aggregated servers to the endpoint IPs of their services instead of the cluster IP
    #[arg(long, value_name = "BOOL", default_value_t = false, action = ArgAction::Set,
          num_args = 0..=1, default_missing_value = "true", require_equals = true)]
    pub(crate) enable_aggregator_routing: bool,

    /// Reject redirect responses of aggregated servers instead of forwarding them to the client
    #[arg(long, value_name = "BOOL", default_value_t = true, action = ArgAction::Set,
          num_args = 0..=1, default_missing_value = "true", require_equals = true)]
    pub(crate) aggregator_reject_forwarding_redirect: bool,

    /// Certificate authorities of front proxies (PEM). A client with a certificate from one of them may set user names
    /// in request headers. Reloaded when it changes
    #[arg(long, value_name = "FILE")]
    pub(crate) requestheader_client_ca_file: Option<PathBuf>,

    /// Common names that are allowed in client certificates of front proxies. If empty, any name is allowed
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    pub(crate) requestheader_allowed_names: Vec<String>,

    /// Request headers that front proxies set to the user name
    #[arg(long, value_name = "HEADERS", value_delimiter = ',')]
    pub(crate) requestheader_username_headers: Vec<String>,

    /// Request headers that front proxies set to the UID of the user
    #[arg(long, value_name = "HEADERS", value_delimiter = ',')]
    pub(crate) requestheader_uid_headers: Vec<String>,

    /// Request headers that front proxies set to the groups of the user
    #[arg(long, value_name = "HEADERS", value_delimiter = ',')]
    pub(crate) requestheader_group_headers: Vec<String>,

    /// Prefixes of request headers that front proxies set to extra information about the user
    #[arg(long, value_name = "PREFIXES", value_delimiter = ',')]
    pub(crate) requestheader_extra_headers_prefix: Vec<String>,
}

/// Parts of a server that the proxy to aggregated servers uses.
pub(crate) struct AggregationParts<'a> {
    /// The store.
    pub(crate) store: &'a Arc<Store>,
    /// The resources that are served.
    pub(crate) registry: &'a Arc<ArcSwap<Registry>>,
    /// Address at which clients reach the server.
    pub(crate) reached: SocketAddr,
    /// The metrics of the server.
    pub(crate) metrics: &'a Arc<Metrics>,
    /// True if aggregated servers get the uids of users.
    pub(crate) tells_uids: bool,
    /// Dialer through the proxy of the cluster's network; `None` for direct connections.
    pub(crate) dialer: Option<&'a Dialer>,
    /// Progress of the server's shutdown.
    pub(crate) shutdown: &'a Shutdown,
}

/// Configuration that results from the flags.
pub(crate) struct Aggregation {
    /// The proxies that may name users.
    pub(crate) front_proxy: Option<Arc<FrontProxy>>,
    /// Proxy to the aggregated servers.
    pub(crate) aggregator: Arc<Aggregator>,
    identity: Option<Arc<ProxyIdentity>>,
}

impl AggregationFlags {
    /// Loads the configuration for a server with these parts.
    pub(crate) fn load(&self, parts: AggregationParts<'_>) -> Result<Aggregation> {
        let AggregationParts {
            store,
            registry,
            reached,
            metrics,
            tells_uids,
            dialer,
            shutdown,
        } = parts;
        ensure!(
            tells_uids || self.requestheader_uid_headers.is_empty(),
            "--requestheader-uid-headers requires the \"RemoteRequestHeaderUID\" feature to be enabled"
        );
        let front_proxy = self.front_proxy()?;
        let identity = match (&self.proxy_client_cert_file, &self.proxy_client_key_file) {
            (Some(certificate), Some(key)) => {
                let loaded = ProxyIdentity::load(certificate, key);
                Some(loaded.context("--proxy-client-cert-file and --proxy-client-key-file")?)
            }
            _ => None,
        };
        let config = AggregationConfig {
            routing: match self.enable_aggregator_routing {
                true => Routing::Endpoints,
                false => Routing::ClusterIp,
            },
            own_address: (reached.ip().to_string(), reached.port()),
            identity: identity.clone(),
            reject_redirects: self.aggregator_reject_forwarding_redirect,
            front_proxy: front_proxy.clone(),
            hides_uids: !tells_uids,
            dialer: dialer.cloned(),
        };
        let aggregator = Aggregator::new(
            config,
            Arc::clone(store),
            Arc::clone(registry),
            Arc::clone(metrics),
            shutdown.clone(),
        );
        Ok(Aggregation {
            front_proxy,
            aggregator,
            identity,
        })
    }

    /// Returns the front proxies that may set user names.
    fn front_proxy(&self) -> Result<Option<Arc<FrontProxy>>> {
        let headers = self.headers()?;
        check_names("requestheader-allowed-names", &self.requestheader_allowed_names)?;
        let Some(path) = &self.requestheader_client_ca_file else {
            return Ok(None);
        };
        let authorities = ClientAuthorities::load(path).context("--requestheader-client-ca-file")?;
        let allowed = self.requestheader_allowed_names.iter().map(|name| name.trim().into());
        Ok(Some(FrontProxy::new(authorities, allowed.collect(), headers)))
    }

    fn headers(&self) -> Result<RequestHeaders> {
        let names = |flag: &str, names: &[String]| -> Result<Vec<HeaderName>> {
            check_names(flag, names)?;
            let read = |name: &String| {
                let read = HeaderName::from_bytes(name.trim().as_bytes());
                read.with_context(|| format!("--{flag}: {name:?} is no name of a header"))
            };
            names.iter().map(read).collect()
        };
        let prefixes = names(
            "requestheader-extra-headers-prefix",
            &self.requestheader_extra_headers_prefix,
        )?;
        let headers = RequestHeaders {
            usernames: names("requestheader-username-headers", &self.requestheader_username_headers)?,
            uids: names("requestheader-uid-headers", &self.requestheader_uid_headers)?,
            groups: names("requestheader-group-headers", &self.requestheader_group_headers)?,
            extra_prefixes: prefixes.iter().map(|prefix| prefix.as_str().into()).collect(),
        };
        let lacks = |names: &[HeaderName], standard: &str| {
            !names.is_empty() && !names.iter().any(|name| name.as_str().eq_ignore_ascii_case(standard))
        };
        ensure!(
            !lacks(&headers.uids, "X-Remote-Uid"),
            "--requestheader-uid-headers is set without specifying the standard X-Remote-Uid header - API aggregation will not \
             work"
        );
        for (flag, names, standard) in [
            ("username-headers", &headers.usernames, "X-Remote-User"),
            ("group-headers", &headers.groups, "X-Remote-Group"),
            ("extra-headers-prefix", &prefixes, "X-Remote-Extra-"),
        ] {
            if lacks(names, standard) {
                tracing::warn!("--requestheader-{flag} is set without {standard}, so that aggregation does not work");
            }
        }
        Ok(headers)
    }

    /// Returns the authorities that aggregated servers receive, if a flag names trusted authorities.
    /// `client_authorities` are the authorities of all client certificates.
    pub(crate) fn trust(&self, flagged: bool, client_authorities: Vec<PemSource>) -> Option<Arc<ClusterTrust>> {
        if !flagged && self.requestheader_client_ca_file.is_none() {
            return None;
        }
        let names = |names: &[String]| names.iter().map(|name| name.trim().to_owned()).collect();
        Some(Arc::new(ClusterTrust {
            client_authorities,
            proxy_authorities: self.requestheader_client_ca_file.clone().map(PemSource::from),
            allowed_names: names(&self.requestheader_allowed_names),
            username_headers: names(&self.requestheader_username_headers),
            uid_headers: names(&self.requestheader_uid_headers),
            group_headers: names(&self.requestheader_group_headers),
            extra_header_prefixes: names(&self.requestheader_extra_headers_prefix),
        }))
    }

    /// Follows APIServices, and reads the files again when they change, for as long as the server serves.
    pub(crate) fn follow(&self, aggregation: &Aggregation, service: &Service) {
        let context = &service.context;
        aggregation.aggregator.follow(context);
        let with_certificate = aggregation.identity.clone().zip(self.proxy_client_cert_file.clone());
        let identity = with_certificate.zip(self.proxy_client_key_file.clone());
        if let Some(((identity, certificate), key)) = identity {
            let aggregator = Arc::clone(&aggregation.aggregator);
            let reload = move || identity.reload().map(|()| aggregator.identity_changed());
            reload::watch(service, vec![certificate, key], reload);
        }
        let proxies = aggregation
            .front_proxy
            .clone()
            .zip(self.requestheader_client_ca_file.clone());
        if let Some((front_proxy, path)) = proxies {
            let file = path.clone();
            let reload = move || ClientAuthorities::load(&path).map(|authorities| front_proxy.trust(authorities));
            reload::watch(service, vec![file], reload);
        }
    }
}

fn check_names(flag: &str, names: &[String]) -> Result<()> {
    ensure!(
        names.iter().all(|name| !name.trim().is_empty()),
        "empty value in {flag:?}"
    );
    Ok(())
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        flags: AggregationFlags,
    }

    fn flags(arguments: &[&str]) -> AggregationFlags {
        let arguments = [&["holdfast"], arguments].concat();
        Line::try_parse_from(arguments).unwrap().flags
    }

    fn refused(arguments: &[&str]) -> String {
        format!("{:#}", flags(arguments).front_proxy().err().unwrap())
    }

    #[test]
    fn headers_are_named_as_kube_apiserver_takes_them() {
        let parsed = flags(&[
            "--requestheader-username-headers=X-Remote-User, X-Own",
            "--requestheader-extra-headers-prefix=X-Remote-Extra-",
        ]);
        let headers = parsed.headers().unwrap();
        assert_eq!(headers.usernames, ["x-remote-user", "x-own"]);
        assert_eq!(headers.extra_prefixes, ["x-remote-extra-"]);
        assert_eq!(
            refused(&["--requestheader-group-headers=X-Remote-Group, "]),
            "empty value in \"requestheader-group-headers\""
        );
        assert!(refused(&["--requestheader-uid-headers=X-Own"]).contains("X-Remote-Uid"));
        assert!(refused(&["--requestheader-username-headers=a b"]).contains("\"a b\""));
    }

    #[test]
    fn unreadable_file_is_reported_with_its_flag() {
        let message = refused(&["--requestheader-client-ca-file=/nowhere/ca.crt"]);
        assert!(
            message.starts_with("--requestheader-client-ca-file: ") && message.contains("/nowhere/ca.crt"),
            "{message}"
        );
    }

    #[test]
    fn trusted_authorities_are_published_if_a_flag_names_them() {
        assert!(flags(&[]).trust(false, Vec::new()).is_none());
        assert!(flags(&[]).trust(true, Vec::new()).is_some());
        let trust = flags(&[
            "--requestheader-client-ca-file=ca.crt",
            "--requestheader-allowed-names=a,b",
        ]);
        assert_eq!(trust.trust(false, Vec::new()).unwrap().allowed_names, ["a", "b"]);
    }
}
