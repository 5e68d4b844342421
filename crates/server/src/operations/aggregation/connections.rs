//! Connections to aggregated servers.

use std::sync::Arc;

use holdfast_aggregation::{Fetched, ProxyIdentity, Question, Remote, Transport, Unreachable, authority};
use http::Request;
use http::header::{self, HeaderValue};
use http_body_util::{BodyExt as _, Empty, Limited};

use super::AggregationConfig;
use crate::identity;
use crate::webhooks::{Backend, Services, Trust};

/// The maximum size of an answer, in bytes.
const MAX_BYTES: usize = 32 << 20;

/// Pools of connections to aggregated servers, by the addresses of services in the store.
pub(crate) struct Connections {
    pub(super) config: Arc<AggregationConfig>,
    pub(super) services: Services,
}

impl Transport for Connections {
    type Backend = Backend;

    fn backend(&self, remote: &Remote) -> Result<Backend, String> {
        let trust = match (&remote.authorities, remote.insecure) {
            (_, true) => Trust::Anyone,
            (Some(authorities), _) => Trust::Authorities(authorities),
            (None, _) => Trust::System,
        };
        let client_certificate = self.config.identity.as_ref().map(ProxyIdentity::resolver);
        Backend::new(
            remote.server_name(),
            trust,
            client_certificate,
            self.config.dialer.as_ref(),
        )
    }

    fn address(&self, remote: &Remote) -> Result<(String, u16), String> {
        let Remote {
            namespace,
            service,
            port,
            ..
        } = remote;
        if (namespace.as_str(), service.as_str(), *port) == ("default", "kubernetes", 443) {
            return Ok(self.config.own_address.clone());
        }
        self.services.resolve(self.config.routing, namespace, service, *port)
    }

    fn check(&self, remote: &Remote) -> Result<(), Unreachable> {
        self.services.check(&remote.namespace, &remote.service, remote.port)
    }

    async fn ask(&self, backend: &Backend, address: &(String, u16), question: Question<'_>) -> Result<Fetched, String> {
        let url = format!("https://{}{}", authority(address), question.path);
        let body = Empty::new().map_err(|never| match never {}).boxed_unsync();
        let mut request = Request::get(url).body(body).map_err(|error| error.to_string())?;
        let headers = request.headers_mut();
        identity::name_user(headers, &question.user).map_err(|error| error.to_string())?;
        if let Some(accept) = question.accept {
            headers.insert(header::ACCEPT, HeaderValue::from_static(accept));
        }
        if let Some(etag) = question.etag {
            headers.insert(header::IF_NONE_MATCH, etag);
        }
        let (head, body) = backend.send(request).await?.into_parts();
        let collected = Limited::new(body, MAX_BYTES).collect().await;
        let body = collected.map_err(|error| error.to_string())?.to_bytes();
        Ok(Fetched {
            status: head.status,
            headers: head.headers,
            body,
        })
    }
}
