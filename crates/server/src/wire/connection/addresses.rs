//! Number of connections of each client address.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv6Addr};
use std::sync::Arc;

use parking_lot::Mutex;

/// Addresses of the open connections.
pub(super) struct Addresses {
    /// Maximum number of connections of one address; 0 for no limit.
    most: usize,
    open: Mutex<HashMap<IpAddr, usize>>,
}

/// A connection that counts for its address until this is dropped; `None` if connections are not counted.
pub(super) struct Counted(Option<(Arc<Addresses>, IpAddr)>);

/// Error: an address has the maximum number of connections.
pub(super) struct TooMany;

impl Addresses {
    pub(super) fn new(most: usize) -> Self {
        Self {
            most,
            open: Mutex::default(),
        }
    }

    /// Counts a connection from `peer`.
    pub(super) fn enter(self: &Arc<Self>, peer: IpAddr) -> Result<Counted, TooMany> {
        if self.most == 0 {
            return Ok(Counted(None));
        }
        let address = client(peer);
        let mut open = self.open.lock();
        let count = open.entry(address).or_default();
        if *count >= self.most {
            return Err(TooMany);
        }
        *count += 1;
        Ok(Counted(Some((Arc::clone(self), address))))
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        let Some((addresses, address)) = self.0.take() else {
            return;
        };
        let mut open = addresses.open.lock();
        if let Some(count) = open.get_mut(&address) {
            *count -= 1;
            if *count == 0 {
                open.remove(&address);
            }
        }
    }
}

/// Returns the address that represents one client: in IPv6 each client controls a block of 64 bits.
fn client(peer: IpAddr) -> IpAddr {
    match peer.to_canonical() {
        IpAddr::V6(address) => Ipv6Addr::from_bits(address.to_bits() & !u128::from(u64::MAX)).into(),
        address => address,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_address_has_as_many_connections_as_it_may() {
        let addresses = Arc::new(Addresses::new(2));
        let enter = |address: &str| addresses.enter(address.parse().unwrap()).ok();
        let held = [enter("10.0.0.1"), enter("::ffff:10.0.0.1")];
        assert!(held.iter().all(Option::is_some) && enter("10.0.0.1").is_none());
        assert!(enter("10.0.0.2").is_some());
        let block = [enter("fd00::1"), enter("fd00::2")];
        assert!(block.iter().all(Option::is_some) && enter("fd00::3").is_none());
        assert!(enter("fd00:0:0:1::3").is_some());
        drop(held);
        assert!(enter("10.0.0.1").is_some());
        drop(block);
        assert!(addresses.open.lock().is_empty());
    }

    #[test]
    fn without_a_limit_nothing_is_counted() {
        let addresses = Arc::new(Addresses::new(0));
        let held: Vec<_> = (0..9).map(|_| addresses.enter(IpAddr::from([10, 0, 0, 1]))).collect();
        assert!(held.iter().all(Result::is_ok) && addresses.open.lock().is_empty());
    }
}
