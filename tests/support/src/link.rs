//! A connection that a test has in its hand: a TCP proxy that forwards, delays, stalls or cuts.

use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinHandle;

/// Maximum number of bytes that are forwarded at a time.
const CHUNK: usize = 16 << 10;

/// Handling of the bytes that a link receives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// It forwards, each piece after some time.
    Open(Duration),
    /// Connections stay open, and no bytes are forwarded.
    Stalled,
    /// Connections are closed, and new ones at once.
    Cut,
}

/// A proxy to one address. It ends when it is dropped.
pub struct Link {
    address: SocketAddr,
    state: Arc<watch::Sender<State>>,
    task: JoinHandle<()>,
}

impl Link {
    /// Returns a link that forwards to `target`.
    ///
    /// # Errors
    /// If there is no free port.
    pub async fn to(target: SocketAddr) -> io::Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
        let address = listener.local_addr()?;
        let state = Arc::new(watch::Sender::new(State::Open(Duration::ZERO)));
        let task = tokio::spawn(serve(listener, target, Arc::clone(&state)));
        Ok(Self { address, state, task })
    }

    /// Returns the address that it listens on.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Forwards from now on.
    pub fn mend(&self) {
        self.state.send_replace(State::Open(Duration::ZERO));
    }

    /// Forwards each piece, in both directions, so much later.
    pub fn delay(&self, by: Duration) {
        self.state.send_replace(State::Open(by));
    }

    /// Forwards nothing and keeps the connections open: bytes that arrive meanwhile are forwarded when the link is
    /// mended.
    pub fn stall(&self) {
        self.state.send_replace(State::Stalled);
    }

    /// Closes all connections, and new ones as they come.
    pub fn cut(&self) {
        self.state.send_replace(State::Cut);
    }
}

impl Drop for Link {
    fn drop(&mut self) {
        self.cut();
        self.task.abort();
    }
}

async fn serve(listener: TcpListener, target: SocketAddr, state: Arc<watch::Sender<State>>) {
    while let Ok((near, _)) = listener.accept().await {
        let follow = state.subscribe();
        if *follow.borrow() == State::Cut {
            continue;
        }
        tokio::spawn(async move {
            let Ok(far) = TcpStream::connect(target).await else {
                return;
            };
            // Small writes must not be delayed.
            let _ = (near.set_nodelay(true), far.set_nodelay(true));
            let ((near_in, near_out), (far_in, far_out)) = (near.into_split(), far.into_split());
            let (there, back) = (follow.clone(), follow);
            // When one direction ends the other has no peer.
            tokio::select! {
                _ = forward(near_in, far_out, there) => {}
                _ = forward(far_in, near_out, back) => {}
            }
        });
    }
}

/// Forwards until either side ends or the link is cut.
async fn forward(mut from: OwnedReadHalf, mut to: OwnedWriteHalf, mut state: watch::Receiver<State>) -> io::Result<()> {
    let mut buffer = vec![0; CHUNK];
    loop {
        let read = tokio::select! {
            read = from.read(&mut buffer) => read?,
            _ = state.wait_for(|state| *state == State::Cut) => return Ok(()),
        };
        if read == 0 {
            return Ok(());
        }
        let Ok(now) = state.wait_for(|state| *state != State::Stalled).await.map(|now| *now) else {
            return Ok(());
        };
        match now {
            State::Cut => return Ok(()),
            State::Open(delay) if !delay.is_zero() => tokio::time::sleep(delay).await,
            _ => {}
        }
        to.write_all(&buffer[..read]).await?;
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "what fails here is the test")]
mod tests {
    use super::*;

    async fn echo() -> SocketAddr {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
        let address = listener.local_addr().unwrap();
        tokio::spawn(async move {
            while let Ok((mut stream, _)) = listener.accept().await {
                tokio::spawn(async move {
                    let (mut read, mut write) = stream.split();
                    tokio::io::copy(&mut read, &mut write).await
                });
            }
        });
        address
    }

    async fn echoed(stream: &mut TcpStream) -> io::Result<u8> {
        stream.write_all(b"x").await?;
        stream.read_u8().await
    }

    #[tokio::test]
    async fn stalled_bytes_arrive_after_the_mend_and_cut_bytes_do_not() {
        let link = Link::to(echo().await).await.unwrap();
        let mut stream = TcpStream::connect(link.address()).await.unwrap();
        assert_eq!(echoed(&mut stream).await.unwrap(), b'x');
        link.stall();
        stream.write_all(b"y").await.unwrap();
        let mut byte = [0];
        assert_eq!(
            stream.try_read(&mut byte).unwrap_err().kind(),
            io::ErrorKind::WouldBlock
        );
        link.mend();
        assert_eq!(stream.read_u8().await.unwrap(), b'y');
        link.cut();
        assert!(echoed(&mut stream).await.is_err());
        let mut another = TcpStream::connect(link.address()).await.unwrap();
        assert!(echoed(&mut another).await.is_err());
        link.mend();
        let mut another = TcpStream::connect(link.address()).await.unwrap();
        assert_eq!(echoed(&mut another).await.unwrap(), b'x');
    }
}
