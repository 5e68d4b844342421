//! Requests to other servers. The caller has the connections.

use std::time::Duration;

use bytes::Bytes;
use holdfast_authorization::User;
use http::StatusCode;
use http::header::{HeaderMap, HeaderValue};

use crate::api_services::Remote;

/// Connections to other servers.
pub trait Transport: Send + Sync + 'static {
    /// Connections to one server.
    type Backend: Clone + Send + Sync + 'static;

    /// Returns the connections to a server.
    ///
    /// # Errors
    /// If there can be none; the text gives the reason.
    fn backend(&self, remote: &Remote) -> Result<Self::Backend, String>;

    /// Returns host and port of a server.
    ///
    /// # Errors
    /// If its service has no address; the text gives the reason.
    fn address(&self, remote: &Remote) -> Result<(String, u16), String>;

    /// Checks that the service of a server exists and has endpoints.
    ///
    /// # Errors
    /// The reason why it cannot be reached.
    fn check(&self, remote: &Remote) -> Result<(), Unreachable>;

    /// Sends a request of this server itself to the server at `address`, and reads the answer.
    ///
    /// # Errors
    /// If there is no answer; the text gives the reason.
    fn ask(
        &self,
        backend: &Self::Backend,
        address: &(String, u16),
        question: Question<'_>,
    ) -> impl Future<Output = Result<Fetched, String>> + Send;
}

/// Reason why a service cannot be reached, as in a condition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unreachable {
    /// Reason of the condition.
    pub reason: &'static str,
    /// Message of the condition.
    pub message: String,
}

/// Request of this server itself.
pub struct Question<'a> {
    /// Path of the request.
    pub path: &'a str,
    /// User in whose name the request is made.
    pub user: User,
    /// Accepted media types of the answer.
    pub accept: Option<&'static str>,
    /// ETag of the document that this server has already.
    pub etag: Option<HeaderValue>,
    /// Time limit of the request.
    pub limit: Duration,
}

/// Answer of another server.
pub struct Fetched {
    /// Status code.
    pub status: StatusCode,
    /// Headers.
    pub headers: HeaderMap,
    /// Body.
    pub body: Bytes,
}

/// Returns the authority of a URL with this host and port.
///
/// ```
/// use holdfast_aggregation::authority;
///
/// assert_eq!(authority(&("::1".to_owned(), 443)), "[::1]:443");
/// assert_eq!(authority(&("a.b".to_owned(), 443)), "a.b:443");
/// ```
pub fn authority(address: &(String, u16)) -> String {
    let (host, port) = address;
    if host.contains(':') {
        format!("[{host}]:{port}")
    } else {
        format!("{host}:{port}")
    }
}

/// Returns a user for this server's own requests.
pub(crate) fn own_user(name: &'static str, groups: &[&'static str]) -> User {
    User {
        name: name.into(),
        groups: groups.iter().map(|&group| group.into()).collect(),
        ..User::default()
    }
}
