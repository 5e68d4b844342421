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

/// A token that no local authenticator accepts.
pub(crate) struct PendingToken {
    token: String,
    /// Subprotocol that holds the token, if it is not in the header for it.
    protocol: Option<BearerProtocol>,
}

impl PendingToken {
    pub(super) fn new(token: String, protocol: Option<BearerProtocol>) -> Self {
        Self { token, protocol }
    }

    /// Returns the pending authentication, or a rejection if there is nobody else to ask.
    pub(super) fn unless_local(self, tokens: &dyn TokenAuthenticator) -> Authentication {
        match tokens.remote() {
            Some(_) => Authentication::Pending(self),
            None => Authentication::Done(Err(ApiError::unauthorized())),
        }
    }

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
        let known = remote.authenticate(&self.token, &[]).await.map_err(|error| {
            tracing::debug!(%error, "unable to authenticate the request");
            ApiError::unauthorized()
        })?;
        if let Some(protocol) = self.protocol {
            protocol.remove_from(headers);
        }
        Ok(known.into())
    }
}
