//! The service: it answers the requests that connections have read.

use std::net::SocketAddr;
use std::sync::Arc;

use bytes::Bytes;
use holdfast_audit::Auditor;
use http::{HeaderMap, Method};
use rustls::pki_types::CertificateDer;

use crate::api::context::Context;
use crate::http::response::Response;
use crate::identity::{Authenticator, ClientCertificate, Impersonation};
use crate::operations::browsers::Browsers;
use crate::operations::fairness::PriorityAndFairness;
use crate::operations::filters::{self, Exchange};
use crate::operations::paths::Paths;
use crate::operations::storage_versions::StorageVersionBarrier;
use crate::operations::testing::Testing;
use crate::runtime::drain::RequestDrain;
use crate::wire::body::RequestBody;
use crate::wire::client_authorities::ClientAuthorities;
use crate::wire::connection;
use crate::wire::in_flight::InFlight;

/// Function that answers requests for the files of the page by their method, path and headers; `None` for other requests.
pub type PageFiles = fn(&Method, &str, &HeaderMap) -> Option<http::Response<Bytes>>;

/// The service that answers requests once a connection has read them.
pub struct Service {
    /// The state that the handlers share.
    pub context: Arc<Context>,
    /// The authenticator of requests.
    pub authenticator: Authenticator,
    /// The impersonation of users.
    pub impersonation: Impersonation,
    /// The handlers of the paths that are not resources.
    pub paths: Paths,
    /// The limits on the number of requests that are served concurrently.
    pub in_flight: Arc<InFlight>,
    /// The priority levels whose seats requests occupy. They replace the limits of `in_flight`.
    pub fairness: Option<Arc<PriorityAndFairness>>,
    /// The writer of the audit log, if it is enabled.
    pub auditor: Option<Arc<Auditor>>,
    /// The headers for browsers, if they are configured.
    pub browsers: Option<Arc<Browsers>>,
    /// The probability that a request is the last of its connection, if this is enabled.
    pub go_away: Option<GoAway>,
    /// The drain that denies requests while the server ends, if this is enabled.
    pub drain: Option<Arc<RequestDrain>>,
    /// True if an HTTP/2 connection ends with its first request of an unauthenticated client.
    pub ends_unauthenticated_connections: bool,
    /// The writes that wait until the storage versions of their resources are published, if this is enabled.
    pub storage_versions: Option<Arc<StorageVersionBarrier>>,
    /// Answers to requests for the files of the page at `/ui`, if it is served.
    pub page: Option<PageFiles>,
    /// The endpoints for tests, if they are enabled.
    pub testing: Option<Arc<Testing>>,
}

/// The probability that a request is the last of its HTTP/2 connection, so that clients spread over servers.
#[derive(Clone, Copy, Debug)]
pub struct GoAway {
    /// The share of such requests.
    pub chance: f64,
    /// A source of uniformly distributed random numbers.
    pub random: fn() -> u64,
}

impl GoAway {
    /// Returns true if the request is the last of its connection.
    pub(super) fn decides(self) -> bool {
        // A float holds 53 bits of a number: the upper ones are used.
        let share = ((self.random)() >> 11) as f64 / (1u64 << 53) as f64;
        share < self.chance
    }
}

impl connection::Service for Service {
    type Client = ClientCertificate;

    fn client(&self, authorities: &ClientAuthorities, certificates: &[CertificateDer<'_>]) -> ClientCertificate {
        let now = self.context.shared.clock.now();
        self.authenticator.certificate(authorities, certificates, now)
    }

    fn handshake_failed(&self) {
        self.context.shared.metrics.handshake_failed();
    }

    async fn respond(
        self: &Arc<Self>,
        request: http::Request<RequestBody>,
        client: Option<&ClientCertificate>,
        peer: Option<SocketAddr>,
    ) -> Response {
        Self::respond(self, request, client, peer).await
    }
}

impl Service {
    /// Returns the answer to a request. `certificate` is the result of verifying the connection's client certificate,
    /// `peer` the address of the client.
    pub async fn respond(
        self: &Arc<Self>,
        request: http::Request<RequestBody>,
        certificate: Option<&ClientCertificate>,
        peer: Option<SocketAddr>,
    ) -> Response {
        let received = self.context.shared.clock.now();
        let mut exchange = Exchange::new(request, certificate, peer, received);
        filters::respond(self, &mut exchange).await
    }
}
