//! Begin and end of WebSocket sessions.

use std::time::Duration;

use crate::wire::upgrade::SwitchingClient;
use crate::wire::websocket::{self, Held, Socket};

/// Maximum time for a client to read the last messages of a session.
const LAST_READ_TIMEOUT: Duration = Duration::from_secs(30);

/// Returns the WebSocket of a client whose handshake was answered, with the value to hold while it is open. `None` if
/// the connection broke. Messages of the client have at most `max_received` bytes.
pub(super) async fn accept(client: SwitchingClient, max_received: usize) -> Option<(Socket, Option<Held>)> {
    match client.connection.await {
        Ok(connection) => Some((websocket::open(connection, max_received).await, client.held)),
        Err(error) => {
            tracing::debug!(%error, "cannot upgrade a connection to a WebSocket");
            None
        }
    }
}

/// Ends a session. All messages that were sent before reach the client if it reads them in time.
pub(super) async fn close(mut socket: Socket) {
    if let Err(error) = websocket::close(&mut socket, LAST_READ_TIMEOUT).await {
        tracing::debug!(%error, "cannot close a WebSocket");
    }
}
