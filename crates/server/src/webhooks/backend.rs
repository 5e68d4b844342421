//! The client of an aggregated API server: requests and answers are passed on as they come, with bounds on connections.
//!
//! Each request has a connection of its own while it lasts (HTTP/1.1), so that no watch holds up what shares a connection with it,
//! and who takes an answer slowly slows down that answer alone.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::Request;
use http_body_util::combinators::UnsyncBoxBody;
use hyper::body::Incoming;
use hyper_util::client::legacy::Client as Pool;
use hyper_util::rt::{TokioExecutor, TokioTimer};
use rustls::client::ResolvesClientCert;

use super::client::pool_error_text;
use super::connector::Connector;
use super::trust::Trust;

/// The body of a request to an aggregated server.
pub(crate) type Body = UnsyncBoxBody<Bytes, io::Error>;

/// Connections to one aggregated server, by address.
#[derive(Clone)]
pub(crate) struct Backend {
    pool: Pool<Connector, Body>,
}

/// How long an idle connection stays open, and how many of them for one address.
const IDLE: Duration = Duration::from_secs(90);
const IDLE_CONNECTIONS: usize = 25;

impl Backend {
    /// Connections to servers whose certificates are for `name`, where `shown` chooses the certificate that they see.
    ///
    /// # Errors
    /// Where there are no authorities to trust.
    pub(crate) fn new(
        name: String,
        trust: Trust<'_>,
        shown: Option<Arc<dyn ResolvesClientCert>>,
    ) -> Result<Self, String> {
        let connector = Connector::in_the_name_of(name, trust, shown)?;
        let pool = Pool::builder(TokioExecutor::new())
            .timer(TokioTimer::new())
            .pool_timer(TokioTimer::new())
            .pool_idle_timeout(IDLE)
            .pool_max_idle_per_host(IDLE_CONNECTIONS)
            .build(connector);
        Ok(Self { pool })
    }

    /// Sends a request, whose URL names the address.
    ///
    /// # Errors
    /// Why there is no answer, in Go's words.
    pub(crate) async fn send(&self, request: Request<Body>) -> Result<http::Response<Incoming>, String> {
        self.pool
            .request(request)
            .await
            .map_err(|error| pool_error_text(&error))
    }
}
