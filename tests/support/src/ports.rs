//! Ports for servers that tests start.

use std::io;
use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::ops::Range;
use std::sync::{Mutex, PoisonError};

use tokio::net::TcpSocket;

/// Range of assigned ports. They are below the ephemeral ports that the system assigns to connections and to listeners
/// without a port (from 32768 on Linux, from 49152 elsewhere), so that no other program gets one by chance before its
/// server listens, or while the server restarts.
const PORTS: Range<u16> = 20_000..32_000;

/// Sockets that reserve ports for as long as this process runs. They are UDP sockets, which do not block any server.
static MARKS: Mutex<Vec<UdpSocket>> = Mutex::new(Vec::new());

/// Returns a loopback address that nothing listens on and that no other test gets.
///
/// # Errors
/// If all ports are in use.
pub fn free_address() -> io::Result<SocketAddr> {
    let mut marks = MARKS.lock().unwrap_or_else(PoisonError::into_inner);
    // Other processes start at a different port, so that they seldom try the same ones.
    let begin = std::process::id() as usize * 97 + marks.len();
    let ports = PORTS.cycle().skip(begin % PORTS.len()).take(PORTS.len());
    for port in ports {
        let Ok(mark) = UdpSocket::bind((Ipv4Addr::LOCALHOST, port)) else {
            continue;
        };
        if bind(port).is_ok() {
            marks.push(mark);
            return Ok(SocketAddr::from((Ipv4Addr::LOCALHOST, port)));
        }
    }
    Err(io::Error::new(io::ErrorKind::AddrInUse, "all ports are taken"))
}

/// Binds a port of any address if no server listens on it. The socket does not listen: a process that another test
/// starts at this moment holds a copy of it until it runs its program, and a listening copy would block the server.
fn bind(port: u16) -> io::Result<TcpSocket> {
    let socket = TcpSocket::new_v4()?;
    socket.set_reuseaddr(true)?;
    socket.bind(SocketAddr::from((Ipv4Addr::UNSPECIFIED, port)))?;
    Ok(socket)
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "what fails here is the test")]
mod tests {
    use std::collections::BTreeSet;
    use std::net::TcpListener;

    use super::*;

    #[test]
    fn no_address_is_given_twice_or_to_a_connection() {
        let addresses: BTreeSet<SocketAddr> = (0..50).map(|_| free_address().unwrap()).collect();
        assert_eq!(addresses.len(), 50);
        for address in addresses {
            assert!(PORTS.contains(&address.port()));
            assert!(
                UdpSocket::bind(address).is_err(),
                "another process may be given {address}"
            );
            assert!(TcpListener::bind(address).is_ok(), "no server can have {address}");
        }
    }

    #[test]
    fn a_copy_of_the_socket_is_not_in_the_way() {
        let address = free_address().unwrap();
        let copy = bind(address.port()).unwrap();
        assert!(TcpListener::bind(address).is_ok(), "no server can have {address}");
        drop(copy);
    }

    #[test]
    fn used_ports_are_skipped() {
        let taken = free_address().unwrap();
        let listener = TcpListener::bind((Ipv4Addr::UNSPECIFIED, taken.port())).unwrap();
        assert!((0..50).all(|_| free_address().unwrap() != taken));
        drop(listener);
    }
}
