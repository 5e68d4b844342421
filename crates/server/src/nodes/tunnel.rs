//! Forwarding of ports over WebSockets: binary messages carry the bytes of a SPDY connection to the kubelet
//! (<https://kubernetes.io/blog/2024/08/20/websockets-transition/>).

use futures_util::{SinkExt as _, StreamExt as _};
use holdfast_resource::Destination;
use http::StatusCode;
use http::header::{
    CONNECTION, HeaderMap, HeaderValue, SEC_WEBSOCKET_KEY, SEC_WEBSOCKET_PROTOCOL, SEC_WEBSOCKET_VERSION, UPGRADE,
};
use hyper::upgrade::OnUpgrade;
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio_tungstenite::tungstenite::{self, Message};

use super::proxy::{self, PROTOCOL_VERSION};
use super::{Client, session};
use crate::http::ApiError;
use crate::http::response::{self, Response};
use crate::runtime::shutdown::Shutdown;
use crate::webhooks::Backend;
use crate::wire::upgrade::{self, SwitchingClient};
use crate::wire::websocket::{self, Handshake, Socket};

/// Prefix of subprotocols of WebSockets that carry SPDY.
const PREFIX: &str = "SPDY/3.1+";

/// Suffix of such subprotocols.
const SUFFIX: &str = ".k8s.io";

/// Maximum size of a message of a client.
const MAX_RECEIVED: usize = 1 << 20;

/// Maximum size of a message to a client.
const MAX_SENT: usize = 32 * 1024;

/// Returns true if a subprotocol of WebSockets carries SPDY.
///
/// upstream: k8s.io/streaming/pkg/httpstream/wsstream#protocolSupportsWebsocketTunneling
pub(super) fn is_unpacked(protocol: &str) -> bool {
    protocol.starts_with(PREFIX) && protocol.ends_with(SUFFIX)
}

/// Connects to the kubelet with SPDY, answers the handshake of the client, and then passes the bytes of both sides.
///
/// upstream: k8s.io/apiserver/pkg/util/proxy#TunnelingHandler.ServeHTTP
///
/// # Errors
/// If the kubelet cannot be reached or does not switch to SPDY.
pub(super) async fn open(
    backend: &Backend,
    destination: &Destination,
    mut client: Client<'_>,
) -> Result<Response, ApiError> {
    let Some(switching) = client.raw.switching.take() else {
        return Err(ApiError::bad_request("Upgrade request required"));
    };
    let offered: Vec<HeaderValue> = websocket::protocols(&client.headers)
        .iter()
        .filter(|protocol| is_unpacked(protocol))
        .filter_map(|protocol| HeaderValue::from_str(protocol.strip_prefix(PREFIX)?).ok())
        .collect();
    let handshake = match Handshake::negotiate(&client.headers, is_unpacked) {
        Ok((handshake, _)) => handshake,
        Err(rejection) => return Ok(response::handshake_refused(rejection)),
    };
    let mut headers = client.forwarded_headers(false)?;
    for name in [SEC_WEBSOCKET_KEY, SEC_WEBSOCKET_VERSION, SEC_WEBSOCKET_PROTOCOL] {
        headers.remove(name);
    }
    let sent = proxy::switch_to_spdy(backend, destination, headers, offered).await;
    let mut answer = sent.map_err(|why| ApiError::unclassified(format!("error dialing backend: {why}")))?;
    if answer.status() != StatusCode::SWITCHING_PROTOCOLS {
        return proxy::not_switched(answer);
    }
    if !is_spdy(answer.headers()) {
        let why = "unable to upgrade: missing upgrade headers in response\n";
        return Ok(response::text(StatusCode::INTERNAL_SERVER_ERROR, why));
    }
    let named = answer
        .headers()
        .get(PROTOCOL_VERSION)
        .and_then(|value| value.to_str().ok());
    let chosen = named.and_then(|chosen| HeaderValue::from_str(&format!("{PREFIX}{}", chosen.trim())).ok());
    let headers = handshake.with_protocol(chosen).headers();
    let session = serve(switching, hyper::upgrade::on(&mut answer), client.shutdown.clone());
    Ok(upgrade::switching(headers, session))
}

fn is_spdy(headers: &HeaderMap) -> bool {
    let has = |name, word: &str| {
        let text = headers.get(name).and_then(|value: &HeaderValue| value.to_str().ok());
        text.is_some_and(|text| text.to_ascii_lowercase().contains(word))
    };
    has(CONNECTION, "upgrade") && has(UPGRADE, "spdy/3.1")
}

/// Passes bytes between a WebSocket and a kubelet until either side, or this server, closes.
async fn serve(client: SwitchingClient, kubelet: OnUpgrade, shutdown: Shutdown) {
    let Some((mut socket, held)) = session::accept(client, MAX_RECEIVED).await else {
        return;
    };
    let outcome = tokio::select! {
        outcome = relay(&mut socket, kubelet) => outcome,
        () = shutdown.closing() => Ok(()),
    };
    if let Err(error) = outcome {
        tracing::debug!(%error, "forwarding of ports over a WebSocket ended");
    }
    session::close(socket).await;
    drop(held);
}

async fn relay(socket: &mut Socket, kubelet: OnUpgrade) -> Result<(), tungstenite::Error> {
    let kubelet = kubelet.await.map_err(std::io::Error::other)?;
    let (mut receiver, mut sender) = tokio::io::split(TokioIo::new(kubelet));
    let (mut sink, mut messages) = socket.split();
    let down = async {
        loop {
            let mut data = Vec::with_capacity(MAX_SENT);
            if (&mut receiver).take(MAX_SENT as u64).read_buf(&mut data).await? == 0 {
                return Ok(());
            }
            sink.send(Message::Binary(data.into())).await?;
        }
    };
    let up = async {
        while let Some(message) = messages.next().await {
            match message? {
                Message::Binary(data) => {
                    if sender.write_all(&data).await.is_err() || sender.flush().await.is_err() {
                        // The kubelet accepts no more, but may still have something to send.
                        return std::future::pending().await;
                    }
                }
                Message::Ping(_) | Message::Pong(_) | Message::Frame(_) => {}
                Message::Text(_) | Message::Close(_) => break,
            }
        }
        let _ = sender.shutdown().await;
        Ok(())
    };
    tokio::select! {
        outcome = down => outcome,
        outcome = up => outcome,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tunnels_have_a_protocol_of_kubernetes() {
        assert!(is_unpacked("SPDY/3.1+portforward.k8s.io"));
        assert!(!is_unpacked("portforward.k8s.io") && !is_unpacked("SPDY/3.1+other"));
    }

    #[test]
    fn kubelet_must_switch_to_spdy() {
        let headers = |connection, upgrade| {
            HeaderMap::from_iter([
                (CONNECTION, HeaderValue::from_static(connection)),
                (UPGRADE, HeaderValue::from_static(upgrade)),
            ])
        };
        assert!(is_spdy(&headers("Upgrade", "SPDY/3.1")));
        assert!(!is_spdy(&headers("Upgrade", "websocket")) && !is_spdy(&headers("close", "SPDY/3.1")));
    }
}
