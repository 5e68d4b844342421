//! Requests that are passed on to kubelets, pods and services: logs, commands, forwarded ports, proxies.
//!
//! Admission and the kind have accepted the request and found its destination. Nothing is kept of what passes through:
//! each side is read only as fast as the other side accepts it, so a slow client holds a few buffers.

mod command;
mod log;
mod proxy;
mod session;
mod spdy;
mod status;
mod tunnel;
mod url;

use std::sync::Arc;

use holdfast_egress::Dialer;
use holdfast_resource::{BackendTls, Destination, ExchangeKind, is_global_unicast};
use http::{HeaderMap, HeaderValue, Method, Request, Uri};
use hyper::body::Incoming;
use rustls::client::ResolvesClientCert;

use crate::http::ApiError;
use crate::http::request::RawRequest;
use crate::http::response::Response;
use crate::identity::forwarding::ForwardedHeaders;
use crate::runtime::shutdown::Shutdown;
use crate::webhooks::{Backend, Trust};
use crate::wire::body::RequestBody;
use crate::wire::websocket;

/// Connections to kubelets, pods and services.
pub struct NodeConnections {
    kubelets: Backend,
    unverified_kubelets: Backend,
    others: Backend,
}

/// Client of a request that is passed on.
pub(crate) struct Client<'a> {
    /// The request as the client sent it.
    pub(crate) raw: RawRequest,
    /// Its headers.
    pub(crate) headers: HeaderMap,
    /// Its body, not read yet.
    pub(crate) body: RequestBody,
    /// Name of the object in the path.
    pub(crate) name: &'a str,
    /// Shutdown phase of this server, which ends all sessions.
    pub(crate) shutdown: &'a Shutdown,
}

impl NodeConnections {
    /// Creates the clients, which connect through `dialer`. Kubelets get `certificate`, and their own certificates are
    /// verified only if there are `authorities`, in PEM.
    ///
    /// upstream: pkg/kubelet/client#makeTransport
    ///
    /// # Errors
    /// If `authorities` contains no certificate.
    pub fn new(
        authorities: Option<&[u8]>,
        certificate: Option<Arc<dyn ResolvesClientCert>>,
        dialer: Option<&Dialer>,
    ) -> Result<Self, String> {
        let trust = authorities.map_or(Trust::Anyone, Trust::Authorities);
        Ok(Self {
            kubelets: Backend::for_nodes(trust, certificate.clone(), dialer)?,
            unverified_kubelets: Backend::for_nodes(Trust::Anyone, certificate, dialer)?,
            others: Backend::for_nodes(Trust::Anyone, None, dialer)?,
        })
    }

    /// Passes the request of `client` on.
    ///
    /// # Errors
    /// If the destination is not allowed, cannot be reached, or answers with an error that is not passed on.
    pub(crate) async fn open(&self, destination: Destination, client: Client<'_>) -> Result<Response, ApiError> {
        let backend = match destination.tls {
            Some(BackendTls::Kubelet) => &self.kubelets,
            Some(BackendTls::UnverifiedKubelet) => &self.unverified_kubelets,
            Some(BackendTls::Unverified) | None => &self.others,
        };
        let is_websocket = websocket::is_requested(&client.headers);
        let offers = |is_handled: fn(&str) -> bool| {
            is_websocket
                && websocket::protocols(&client.headers)
                    .iter()
                    .any(|protocol| is_handled(protocol))
        };
        match destination.exchange {
            ExchangeKind::Log => log::open(backend, &destination, client).await,
            ExchangeKind::Command {
                streams,
                translates: true,
            } if offers(command::is_translated) => command::open(backend, &destination, streams, client),
            ExchangeKind::PortForward { unpacks: true } if offers(tunnel::is_unpacked) => {
                tunnel::open(backend, &destination, client).await
            }
            ExchangeKind::Proxy { checks_addresses: true } => {
                check_addresses(&destination.host).await?;
                proxy::open(backend, &destination, client).await
            }
            _ => proxy::open(backend, &destination, client).await,
        }
    }
}

/// Rejects a host that has an address to which nothing is passed on.
///
/// upstream: pkg/registry/core/node#isProxyableHostname
async fn check_addresses(host: &str) -> Result<(), ApiError> {
    let looked_up = tokio::net::lookup_host((host, 0)).await;
    let found = looked_up.map_err(|_| ApiError::bad_request(format!("lookup {host}: no such host")))?;
    let addresses: Vec<_> = found.map(|found| found.ip()).collect();
    if addresses.is_empty() {
        return Err(ApiError::bad_request("no addresses for hostname"));
    }
    match addresses.into_iter().all(is_global_unicast) {
        true => Ok(()),
        false => Err(ApiError::bad_request("address not allowed")),
    }
}

impl Client<'_> {
    /// Turns the headers of the client into those of the request that is passed on. The host is the one that the client
    /// named.
    fn forwarded_headers(&mut self, is_upgrade: bool) -> Result<HeaderMap, ApiError> {
        let mut headers = std::mem::take(&mut self.headers);
        let host = self.host(&headers);
        let forwarded = ForwardedHeaders {
            user: None,
            hides_uid: false,
            front_proxy: None,
            audit_id: &self.raw.audit_id,
            peer: self.raw.peer.map(|peer| peer.ip()),
            is_upgrade,
        };
        let rewritten = forwarded.rewrite(&mut headers);
        rewritten.map_err(|error| ApiError::internal(error.to_string()))?;
        if let Some(host) = host {
            headers.insert(http::header::HOST, host);
        }
        Ok(headers)
    }

    /// Returns the host that the client named.
    fn host(&self, headers: &HeaderMap) -> Option<HeaderValue> {
        let named = headers.get(http::header::HOST).cloned();
        let authority = || HeaderValue::from_str(self.raw.uri.authority()?.as_str()).ok();
        named.or_else(authority)
    }
}

/// Sends a request with this body to another server.
///
/// # Errors
/// If there is no answer; the text is the reason in Go's words.
async fn send(
    backend: &Backend,
    method: Method,
    uri: Uri,
    headers: HeaderMap,
    body: RequestBody,
) -> Result<http::Response<Incoming>, String> {
    let mut request = Request::new(body.pass_on());
    *request.method_mut() = method;
    *request.uri_mut() = uri;
    *request.headers_mut() = headers;
    backend.send(request).await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn only_global_addresses_are_reached() {
        check_addresses("10.0.0.1").await.unwrap();
        for host in ["127.0.0.1", "localhost", "169.254.1.1", "fe80::1"] {
            let error = check_addresses(host).await.unwrap_err();
            assert_eq!(
                (error.code().as_u16(), error.status().message.as_str()),
                (400, "address not allowed"),
                "{host}"
            );
        }
    }

    #[test]
    fn authorities_must_contain_a_certificate() {
        assert!(NodeConnections::new(None, None, None).is_ok());
        assert!(NodeConnections::new(Some(b"nothing"), None, None).is_err());
    }
}
