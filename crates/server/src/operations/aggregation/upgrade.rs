//! Connections that switch from HTTP to another protocol on their way to another server, such as WebSockets and SPDY:
//! from then on bytes are passed in both directions.

use http::StatusCode;
use http::header;
use hyper::body::Incoming;
use hyper::upgrade::OnUpgrade;
use hyper_util::rt::TokioIo;

use super::forward::{Failure, Forwarded, failed};
use crate::http::response::Response;
use crate::runtime::shutdown::Shutdown;
use crate::wire::body::{Broken, ResponseBody};
use crate::wire::websocket::Held;

/// The client of a connection that requests an upgrade.
pub(super) struct Client {
    connection: OnUpgrade,
    held: Option<Held>,
}

impl Client {
    /// Returns the client, if it requests an upgrade and its connection supports it.
    pub(super) fn take(request: &Forwarded<'_>) -> Option<Self> {
        let mut wishes = request.head.headers.get_all(header::CONNECTION).iter();
        let wished = wishes.any(|wish| {
            wish.as_bytes()
                .to_ascii_lowercase()
                .windows(7)
                .any(|word| word == b"upgrade")
        });
        let extensions = &request.head.extensions;
        let connection = extensions.get::<OnUpgrade>().filter(|_| wished)?.clone();
        let held = extensions.get::<Held>().cloned();
        Some(Self { connection, held })
    }

    /// Returns the answer of the other server to the upgrade request.
    pub(super) fn answer(self, answer: http::Response<Incoming>, shutdown: &Shutdown) -> Result<Response, Failure> {
        let status = answer.status();
        if status != StatusCode::SWITCHING_PROTOCOLS && status.as_u16() < 400 {
            let why = format!("invalid upgrade response: status code {}", status.as_u16());
            return Err(failed(StatusCode::SERVICE_UNAVAILABLE, &why));
        }
        let mut answer = answer;
        let switched = status == StatusCode::SWITCHING_PROTOCOLS;
        let other = switched.then(|| hyper::upgrade::on(&mut answer));
        let (head, body) = answer.into_parts();
        let body = match other {
            Some(other) => {
                tokio::spawn(self.join(other, shutdown.clone()));
                ResponseBody::empty()
            }
            None => {
                use http_body_util::BodyExt as _;
                ResponseBody::passed(body.map_err(|_| Broken))
            }
        };
        let mut response = Response::new(body);
        *response.status_mut() = head.status;
        *response.headers_mut() = head.headers;
        if !switched {
            response.headers_mut().remove(header::TRANSFER_ENCODING);
        }
        Ok(response)
    }

    /// Passes bytes in both directions until either side, or this server, closes.
    async fn join(self, other: OnUpgrade, shutdown: Shutdown) {
        let joined = async {
            let (client, other) = tokio::try_join!(self.connection, other)?;
            let (mut client, mut other) = (TokioIo::new(client), TokioIo::new(other));
            let copied = tokio::io::copy_bidirectional(&mut client, &mut other).await;
            if let Err(error) = copied {
                tracing::debug!(%error, "connection to an aggregated server ended");
            }
            Ok::<_, hyper::Error>(())
        };
        let outcome = tokio::select! {
            outcome = joined => outcome,
            () = shutdown.closing() => Ok(()),
        };
        if let Err(error) = outcome {
            tracing::debug!(%error, "aggregated server did not upgrade a connection");
        }
        drop(self.held);
    }
}
