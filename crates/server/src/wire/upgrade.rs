//! Connections that switch from HTTP to another protocol, such as SPDY, and whose bytes are passed on to another server.

use std::sync::Arc;

use futures_util::future::BoxFuture;
use futures_util::stream;
use http::header::{self, HeaderMap};
use http::{Extensions, StatusCode};
use http_body_util::BodyExt as _;
use hyper::upgrade::OnUpgrade;
use hyper_util::rt::TokioIo;
use parking_lot::Mutex;

use crate::runtime::shutdown::Shutdown;
use crate::wire::body::{Response, ResponseBody};
use crate::wire::websocket::Held;

/// Returns true if a request asks to switch to another protocol.
///
/// upstream: k8s.io/streaming/pkg/httpstream#IsUpgradeRequest
pub(crate) fn is_requested(headers: &HeaderMap) -> bool {
    let mut wishes = headers.get_all(header::CONNECTION).iter();
    wishes.any(|wish| {
        let wish = wish.as_bytes().to_ascii_lowercase();
        wish.windows(7).any(|word| word == b"upgrade")
    })
}

/// Connection of a client that asks to switch to another protocol.
#[derive(Clone)]
pub(crate) struct SwitchingClient {
    /// Connection, once the answer is sent.
    pub(crate) connection: OnUpgrade,
    /// Value to hold while the connection is open.
    pub(crate) held: Option<Held>,
}

impl SwitchingClient {
    /// Returns the connection of a request, if it asks for a switch and the connection supports it.
    pub(crate) fn new(headers: &HeaderMap, extensions: &Extensions) -> Option<Self> {
        let connection = extensions.get::<OnUpgrade>().filter(|_| is_requested(headers))?;
        Some(Self {
            connection: connection.clone(),
            held: extensions.get::<Held>().cloned(),
        })
    }

    /// Passes bytes in both directions until both sides, or this server, close.
    pub(crate) async fn join(self, other: OnUpgrade, shutdown: Shutdown) {
        let joined = async {
            let (client, other) = tokio::try_join!(self.connection, other)?;
            let (mut client, mut other) = (TokioIo::new(client), TokioIo::new(other));
            let copied = tokio::io::copy_bidirectional(&mut client, &mut other).await;
            if let Err(error) = copied {
                tracing::debug!(%error, "connection that is passed on ended");
            }
            Ok::<_, hyper::Error>(())
        };
        let outcome = tokio::select! {
            outcome = joined => outcome,
            () = shutdown.closing() => Ok(()),
        };
        if let Err(error) = outcome {
            tracing::debug!(%error, "connection was not switched to another protocol");
        }
        drop(self.held);
    }
}

/// Work on a connection that switches to another protocol. It begins when the answer is sent.
#[derive(Clone)]
struct Session(Arc<Mutex<Option<BoxFuture<'static, ()>>>>);

/// Returns an answer that switches protocols and then runs `session`. The filters that observe the answer see its end at
/// the end of the session.
pub(crate) fn switching(headers: HeaderMap, session: impl Future<Output = ()> + Send + 'static) -> Response {
    let mut response = Response::new(ResponseBody::stream(stream::empty()));
    *response.status_mut() = StatusCode::SWITCHING_PROTOCOLS;
    *response.headers_mut() = headers;
    let session = Session(Arc::new(Mutex::new(Some(Box::pin(session)))));
    response.extensions_mut().insert(session);
    response
}

/// Begins the session of an answer that switches protocols, if it does.
pub(crate) fn begin(response: &mut Response) {
    let Some(session) = response.extensions_mut().remove::<Session>() else {
        return;
    };
    let Some(session) = session.0.lock().take() else { return };
    let mut observed = std::mem::replace(response.body_mut(), ResponseBody::empty());
    tokio::spawn(async move {
        session.await;
        while observed.frame().await.is_some() {}
    });
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;
    use tokio::sync::oneshot;

    use super::*;

    #[test]
    fn any_connection_header_may_ask_for_a_switch() {
        let asks = |values: &[&'static str]| {
            let values = values
                .iter()
                .map(|value| (header::CONNECTION, HeaderValue::from_static(value)));
            is_requested(&values.collect())
        };
        assert!(asks(&["keep-alive, Upgrade"]) && asks(&["upgrade"]));
        assert!(!asks(&[]) && !asks(&["keep-alive"]));
    }

    #[tokio::test]
    async fn session_begins_with_answer_and_ends_its_body() {
        let (sender, receiver) = oneshot::channel();
        let mut response = switching(HeaderMap::new(), async move {
            let _ = sender.send(());
        });
        assert_eq!(response.body().length(), None);
        begin(&mut response);
        assert_eq!(response.body().length(), Some(0));
        receiver.await.unwrap();
    }
}
