//! Requests that this server itself sends to other servers: discovery, OpenAPI, availability.

use std::time::Duration;

use bytes::Bytes;
use holdfast_authorization::User;
use http::header::{self, HeaderMap, HeaderValue};
use http::{Request, StatusCode};
use http_body_util::{BodyExt as _, Empty, Limited};

use super::Aggregator;
use super::api_services::Proxied;
use super::forward::authority;
use crate::identity;

/// A request of this server itself.
pub(super) struct Question<'a> {
    pub(super) path: &'a str,
    /// The user in whose name the request is made.
    pub(super) user: User,
    /// The accepted media types of the answer.
    pub(super) accept: Option<&'static str>,
    /// The ETag of the document that is known already.
    pub(super) known: Option<HeaderValue>,
    /// The time limit of the request.
    pub(super) limit: Duration,
}

/// The answer of another server.
pub(super) struct Fetched {
    pub(super) status: StatusCode,
    pub(super) headers: HeaderMap,
    pub(super) body: Bytes,
}

/// The maximum size of an answer, in bytes.
const MAX_BYTES: usize = 32 << 20;

/// Returns a user for this server's own requests.
pub(super) fn own_user(name: &'static str, groups: &[&'static str]) -> User {
    User {
        name: name.into(),
        groups: groups.iter().map(|&group| group.into()).collect(),
        ..User::default()
    }
}

impl Aggregator {
    /// Sends a request to the server of an APIService, even if it is not available.
    ///
    /// # Errors
    /// If there is no answer; the text gives the reason.
    pub(super) async fn fetch(&self, from: &Proxied, question: Question<'_>) -> Result<Fetched, String> {
        let limit = question.limit;
        let fetched = tokio::time::timeout(limit, self.ask(from, question)).await;
        fetched.unwrap_or_else(|_| Err("request timed out".to_owned()))
    }

    /// Does the same as [`Aggregator::fetch`], for callers that measure the time themselves.
    pub(super) async fn ask(&self, from: &Proxied, question: Question<'_>) -> Result<Fetched, String> {
        let remote = from.service.remote.as_ref().ok_or("it is served here")?;
        let backend = from.backend.as_ref()?;
        let place = self.resolve(remote)?;
        let url = format!("https://{}{}", authority(&place), question.path);
        let body = Empty::new().map_err(|never| match never {}).boxed_unsync();
        let mut request = Request::get(url).body(body).map_err(|error| error.to_string())?;
        let headers = request.headers_mut();
        identity::name_user(headers, &question.user).map_err(|error| error.to_string())?;
        if let Some(accept) = question.accept {
            headers.insert(header::ACCEPT, HeaderValue::from_static(accept));
        }
        if let Some(known) = question.known {
            headers.insert(header::IF_NONE_MATCH, known);
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
