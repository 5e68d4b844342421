//! Endpoints for tests, below `/testing/`: faults, checkpoints, forks, the clock and the timeline. Only a server that is started
//! for tests has them.

mod changes;
mod checkpoints;
mod clock;
mod faults;
mod forks;
mod timeline;

use std::sync::Arc;

use bytes::Bytes;
use holdfast_proto::Messages;
use http::{Method, StatusCode};
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::api::context::Context;
use crate::api::router::Incoming;
use crate::http::ApiError;
use crate::http::negotiation::Representation;
use crate::http::query::Query;
use crate::http::response::{self, Response, page_not_found};
use crate::runtime::faults::Faults;
use crate::runtime::testing_clock::TestingClock;
use crate::runtime::timeline::Timeline;

pub use checkpoints::{Checkpoints, MAX_CHECKPOINTS};
pub use forks::{ForkAddress, ForkState, Forks, MAX_FORKS, RunningFork, StartFork};
pub(in crate::operations) use timeline::{AnsweredRequest, TimelineFacts, is_recorded};

/// Folder of the endpoints.
pub(super) const FOLDER: &str = "/testing/";

/// Maximum size of the body of a request to these endpoints in bytes.
const MAX_BODY_BYTES: usize = 64 * 1024;

/// State of the endpoints for tests.
#[derive(Debug)]
pub struct Testing {
    /// Faults of requests.
    pub faults: Arc<Faults>,
    /// Checkpoints of the store.
    pub checkpoints: Arc<Checkpoints>,
    /// Clock of the server.
    pub clock: Arc<TestingClock>,
    /// Servers that were forked from this one.
    pub forks: Arc<Forks>,
    /// Timeline of the requests.
    pub timeline: Arc<Timeline>,
}

/// A request to an endpoint.
struct Call<'a> {
    method: Method,
    query: Query,
    body: Bytes,
    messages: &'a Messages,
    pretty: bool,
}

impl Testing {
    /// Returns the paths of the endpoints.
    pub(super) fn paths() -> impl Iterator<Item = &'static str> {
        [
            "/testing/checkpoints",
            "/testing/clock",
            "/testing/faults",
            "/testing/forks",
            "/testing/timeline",
        ]
        .into_iter()
    }

    /// Returns the answer to a request below `/testing/`.
    ///
    /// # Errors
    /// 400, 404, 405, 413 or 422.
    pub(super) async fn respond(&self, context: &Arc<Context>, incoming: Incoming) -> Result<Response, ApiError> {
        let path = incoming.info.path;
        let call = Call {
            method: incoming.method,
            query: incoming.info.query,
            body: incoming.body.read().await?,
            messages: context.messages(),
            pretty: incoming.negotiated.is_pretty(),
        };
        if call.body.len() > MAX_BODY_BYTES {
            return Err(ApiError::too_large(MAX_BODY_BYTES));
        }
        let parts: Vec<&str> = path.strip_prefix(FOLDER).unwrap_or_default().split('/').collect();
        match parts.as_slice() {
            ["checkpoints"] => checkpoints::collection(&self.checkpoints, context, &call),
            ["checkpoints", name] => checkpoints::single(&self.checkpoints, name, &call),
            ["checkpoints", name, "restore"] => checkpoints::restore(&self.checkpoints, context, name, &call).await,
            ["checkpoints", name, "fork"] => {
                let state = self.checkpoints.state(name, self.clock.ahead())?;
                forks::create(&self.forks, name, state, &call).await
            }
            ["forks"] => forks::collection(&self.forks, &call).await,
            ["forks", id] => forks::single(&self.forks, id, &call).await,
            ["timeline"] => timeline::respond(&self.timeline, &call),
            ["clock"] => clock::respond(&self.clock, &call),
            ["faults"] => faults::collection(&self.faults, &call),
            ["faults", id] => faults::single(&self.faults, id, &call),
            _ => Ok(page_not_found()),
        }
    }
}

impl Call<'_> {
    /// Returns the body as a document.
    ///
    /// # Errors
    /// 400 if it is not one.
    fn document<T: DeserializeOwned>(&self) -> Result<T, ApiError> {
        serde_json::from_slice(&self.body)
            .map_err(|error| ApiError::bad_request(format!("the body is invalid: {error}")))
    }

    /// Returns an answer in JSON.
    fn answer(&self, code: StatusCode, document: &impl Serialize) -> Result<Response, ApiError> {
        let form = Representation {
            pretty: self.pretty,
            ..Representation::default()
        };
        response::document(self.messages, code, &form, document)
    }
}
