//! Tokens that no local authenticator accepts, and that other servers have to be asked about.

use holdfast_resource::access::TokenAuthenticator;
use http::header::HeaderMap;

use super::Authenticated;
use super::bearer_protocol::BearerProtocol;
use crate::http::ApiError;

/// State of the authentication of a request.
pub(crate) enum Authentication {
    /// It is complete.
    Done(Result<Authenticated, ApiError>),
    /// Other servers have to be asked about the token.
    Pending(PendingToken),
}

impl Authentication {
    /// Returns the pending authentication of a token, or a rejection if there are no other servers.
    pub(super) fn for_others(tokens: &dyn TokenAuthenticator, pending: impl FnOnce() -> PendingToken) -> Self {
        match tokens.remote() {
            Some(_) => Self::Pending(pending()),
            None => Self::Done(Err(ApiError::unauthorized())),
        }
    }
}

/// A token that no local authenticator accepts.
pub(crate) enum PendingToken {
    /// Token of the header `Authorization`.
    Header(String),
    /// Token among the subprotocols of a WebSocket.
    Protocol(BearerProtocol),
}

impl PendingToken {
    /// Asks the other servers about the token. Removes a token among the subprotocols of a WebSocket from the headers.
    ///
    /// # Errors
    /// If nobody accepts the token (401).
    pub(crate) async fn ask(
        self,
        tokens: &dyn TokenAuthenticator,
        headers: &mut HeaderMap,
    ) -> Result<Authenticated, ApiError> {
        let remote = tokens.remote().ok_or_else(ApiError::unauthorized)?;
        let token = match &self {
            Self::Header(token) => token,
            Self::Protocol(protocol) => &protocol.token,
        };
        let known = remote.authenticate(token, &[]).await.map_err(|error| {
            tracing::debug!(%error, "unable to authenticate the request");
            ApiError::unauthorized()
        })?;
        if let Self::Protocol(protocol) = self {
            protocol.remove_from(headers);
        }
        Ok(known.into())
    }
}
