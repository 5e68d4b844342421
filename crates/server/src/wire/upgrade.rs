//! Connections that switch from HTTP to another protocol, such as SPDY, and whose bytes are passed on to another server.

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::BoxFuture;
use futures_util::stream;
use http::header::{self, HeaderMap};
use http::{Extensions, StatusCode};
use http_body_util::BodyExt as _;
use hyper::upgrade::OnUpgrade;
use hyper_util::rt::TokioIo;
use parking_lot::Mutex;
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt as _};
use tokio::time::timeout;

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

    /// Passes bytes in both directions until a side, or this server, closes.
    pub(crate) async fn join(self, other: OnUpgrade, shutdown: Shutdown) {
        let joined = async {
            let (client, other) = tokio::try_join!(self.connection, other)?;
            pass_both(TokioIo::new(client), TokioIo::new(other)).await;
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

/// Maximum time that the other direction continues after one has ended, and that a side has to accept the end of a direction.
const LINGER: Duration = Duration::from_secs(10);

/// Passes bytes in both directions. When one of them has ended, the other has [`LINGER`] to end too.
async fn pass_both(client: impl AsyncRead + AsyncWrite, other: impl AsyncRead + AsyncWrite) {
    let (client_reader, client_writer) = tokio::io::split(client);
    let (other_reader, other_writer) = tokio::io::split(other);
    let up = pass(client_reader, other_writer);
    let down = pass(other_reader, client_writer);
    tokio::pin!(up, down);
    let ended_in_time = tokio::select! {
        () = &mut up => timeout(LINGER, down).await,
        () = &mut down => timeout(LINGER, up).await,
    };
    if ended_in_time.is_err() {
        tracing::debug!("one direction of a connection that is passed on did not end in time");
    }
}

/// Passes bytes in one direction until its end, which the receiver is notified of.
async fn pass(mut from: impl AsyncRead + Unpin, mut to: impl AsyncWrite + Unpin) {
    if let Err(error) = tokio::io::copy(&mut from, &mut to).await {
        tracing::debug!(%error, "one direction of a connection that is passed on ended");
    }
    let _ = timeout(LINGER, to.shutdown()).await;
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
    use tokio::io::{AsyncReadExt as _, duplex};
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

    #[tokio::test(start_paused = true)]
    async fn end_of_one_side_ends_the_connection() {
        let ((mut client, served), (other, mut backend)) = (duplex(64), duplex(64));
        let passing = tokio::spawn(pass_both(served, other));
        backend.write_all(b"last output").await.unwrap();
        backend.shutdown().await.unwrap();
        let mut received = String::new();
        client.read_to_string(&mut received).await.unwrap();
        assert_eq!(received, "last output");
        // The client does not close its side.
        timeout(LINGER * 2, passing).await.unwrap().unwrap();
    }

    #[tokio::test]
    async fn output_reaches_client_when_input_is_rejected() {
        let ((mut client, served), (other, mut backend)) = (duplex(64), duplex(64));
        client.write_all(b"input").await.unwrap();
        backend.write_all(b"last output").await.unwrap();
        drop(backend);
        let passing = tokio::spawn(pass_both(served, other));
        let mut received = String::new();
        client.read_to_string(&mut received).await.unwrap();
        assert_eq!(received, "last output");
        drop(client);
        passing.await.unwrap();
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
