//! A request for a resource in the form that the handlers of the verbs get: user, target, and form of the response.

use std::borrow::Cow;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::SystemTime;

use holdfast_audit::Recorder;
use holdfast_authorization::User;
use holdfast_resource::{Registry, ResourceVersion, Served, Subresource, Verb};
use http::{HeaderMap, HeaderValue, Method, Uri};
use smol_str::SmolStr;
use tokio::time::Instant;

use crate::http::negotiation::{self, Format, Negotiated, Representation};
use crate::http::query::Query;
use crate::http::{ApiError, headers};
use crate::wire::body::RequestBody;
use crate::wire::fairness::WatchHold;
use crate::wire::upgrade::SwitchingClient;
use crate::wire::websocket::Upgrade;

/// A request for a served resource by an authorized user.
pub struct ResourceRequest {
    /// The resources at the time of the request.
    pub registry: Arc<Registry>,
    /// The resource, in the version of the path.
    pub served: Served,
    /// Verb of the request.
    pub verb: Verb,
    /// The namespace; empty for cluster-scoped resources, namespaces included, and for all namespaces.
    pub namespace: SmolStr,
    /// The name of the object; empty for collections.
    pub name: SmolStr,
    /// Subresource, which exists in the version; empty for the object itself.
    pub subresource: SmolStr,
    /// The parameters.
    pub query: Query,
    /// The headers.
    pub headers: HeaderMap,
    /// The user who makes the request.
    pub user: Arc<User>,
    /// The denial of a list or watch that requests only the objects that its user may read. Only their handlers serve such
    /// a request.
    pub(crate) denied: Option<ApiError>,
    /// Forms that the client accepts, and the type of a patch.
    pub negotiated: Negotiated,
    /// Form of the response.
    pub representation: Representation,
    /// The body, not read yet.
    pub body: RequestBody,
    /// Rest of the path after the subresource, from its slash on.
    pub rest: String,
    /// Time of arrival; all work for the request uses it as the current time.
    pub now: SystemTime,
    /// The deadline of the request, if it has one.
    pub deadline: Option<Instant>,
    /// Upgrade of the connection to a WebSocket, if the client requests one.
    pub upgrade: Option<Upgrade>,
    /// The request as the client sent it, if it may be passed on to a node, a pod or a service.
    pub(crate) raw: Option<Box<RawRequest>>,
    /// Resources that the request holds if it is a watch.
    pub watch: WatchHold,
    /// Recorder for the audit log, if the request is audited.
    pub audit: Option<Recorder>,
    /// True if objects are served in CBOR.
    pub cbor: bool,
    /// True if policies and webhooks are skipped, as for some requests that the server sends to itself.
    pub unadmitted: bool,
}

/// Facts about a request as the client sent it, for handlers that pass it on.
pub(crate) struct RawRequest {
    /// The method.
    pub(crate) method: Method,
    /// The URI, with percent encoding.
    pub(crate) uri: Uri,
    /// The audit ID.
    pub(crate) audit_id: HeaderValue,
    /// Address of the client.
    pub(crate) peer: Option<SocketAddr>,
    /// The connection, if the client asks to switch to another protocol.
    pub(crate) switching: Option<SwitchingClient>,
}

/// Extension of a request of the server itself that skips policies and webhooks. No request that arrives over a
/// connection has it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Unadmitted;

impl ResourceRequest {
    /// Returns the description of the resource in the version of the path.
    pub fn version(&self) -> &ResourceVersion {
        self.served.version()
    }

    /// Returns the format of the body.
    ///
    /// # Errors
    /// If it is not supported for objects (415).
    pub fn body_format(&self) -> Result<Format, ApiError> {
        negotiation::body_format(&self.headers, self.cbor)
    }

    /// Returns the description of the subresource, if the path names one.
    pub fn subresource(&self) -> Option<&Subresource> {
        self.version().subresource(&self.subresource)
    }

    /// Returns the User-Agent; empty if there is none.
    pub fn user_agent(&self) -> Cow<'_, str> {
        headers::text(&self.headers, http::header::USER_AGENT).unwrap_or_default()
    }
}
