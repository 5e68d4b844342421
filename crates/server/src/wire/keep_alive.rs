//! TCP keep-alive: an idle connection whose peer vanished, such as one that forwards a port, ends after a while.

use std::io;
use std::time::Duration;

use socket2::{SockRef, TcpKeepalive};
use tokio::net::TcpStream;

/// Silence after which the peer is probed.
const IDLE: Duration = Duration::from_secs(30);

/// Time between two probes, and number of probes without an answer after which the connection is broken.
const INTERVAL: Duration = Duration::from_secs(15);
const PROBES: u32 = 4;

/// Enables TCP keep-alive on a connection.
///
/// # Errors
/// If the system rejects the settings.
pub(crate) fn enable(connection: &TcpStream) -> io::Result<()> {
    let settings = TcpKeepalive::new()
        .with_time(IDLE)
        .with_interval(INTERVAL)
        .with_retries(PROBES);
    SockRef::from(connection).set_tcp_keepalive(&settings)
}

#[cfg(test)]
mod tests {
    use tokio::net::TcpListener;

    use super::*;

    #[tokio::test]
    async fn peer_of_idle_connection_is_probed() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let connection = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
        assert!(!SockRef::from(&connection).keepalive().unwrap());
        enable(&connection).unwrap();
        assert!(SockRef::from(&connection).keepalive().unwrap());
    }
}
