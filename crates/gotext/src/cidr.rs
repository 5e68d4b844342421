//! Blocks of IP addresses in the notation `ADDRESS/PREFIX`.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// CIDR: an IP address and the number of leading bits that all addresses of the block share.
///
/// ```
/// use holdfast_gotext::cidr::Cidr;
///
/// let block = Cidr::read("10.0.0.0/8").unwrap();
/// assert!(block.contains("10.1.2.3".parse().unwrap()));
/// assert!(block.is_canonical() && block.is_ipv4());
/// assert_eq!(block.size(), 1 << 24);
/// assert_eq!(block.nth(257).to_string(), "10.0.1.1");
/// assert!(Cidr::read("10.1.0.0/16").unwrap().is_strictly_within(&block));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cidr {
    address: IpAddr,
    prefix: u8,
}

impl std::fmt::Display for Cidr {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}/{}", self.address, self.prefix)
    }
}

impl Cidr {
    /// Returns the block of `address` with this number of leading bits, or with all bits if `prefix` is larger.
    pub const fn new(address: IpAddr, prefix: u8) -> Self {
        let bits = bits(address);
        let prefix = if prefix < bits { prefix } else { bits };
        Self { address, prefix }
    }

    /// Returns the block that contains only `address`.
    pub const fn for_address(address: IpAddr) -> Self {
        Self::new(address, bits(address))
    }

    /// Returns the address before the slash, which may have bits beyond the prefix.
    pub fn address(&self) -> IpAddr {
        self.address
    }

    /// Returns the number of leading bits.
    pub fn prefix(&self) -> u8 {
        self.prefix
    }

    /// Parses `ADDRESS/PREFIX`.
    pub fn read(text: &str) -> Option<Self> {
        let (address, prefix) = text.split_once('/')?;
        let address: IpAddr = address.parse().ok()?;
        let digits = !prefix.is_empty() && prefix.bytes().all(|byte| byte.is_ascii_digit());
        let leading_zero = prefix.len() > 1 && prefix.starts_with('0');
        let prefix: u8 = if digits && !leading_zero {
            prefix.parse().ok()?
        } else {
            return None;
        };
        (prefix <= bits(address)).then_some(Self { address, prefix })
    }

    /// Returns true if no bit is set beyond the prefix.
    pub fn is_canonical(&self) -> bool {
        number(self.address) == number(self.address) & self.mask()
    }

    /// Returns true if `address` is in the block.
    pub fn contains(&self, address: IpAddr) -> bool {
        address.is_ipv4() == self.address.is_ipv4()
            && number(address) & self.mask() == number(self.address) & self.mask()
    }

    /// Returns true if `outer` contains all addresses of the block and others.
    pub fn is_strictly_within(&self, outer: &Self) -> bool {
        outer.contains(self.address.to_canonical()) && self.prefix > outer.prefix
    }

    /// Returns true if the block contains all addresses of `inner`.
    pub fn covers(&self, inner: &Self) -> bool {
        self.prefix <= inner.prefix && self.contains(inner.address)
    }

    /// Returns the number of addresses; `u128::MAX` for all of IPv6.
    pub fn size(&self) -> u128 {
        let free = u32::from(bits(self.address) - self.prefix);
        1u128.checked_shl(free).unwrap_or(u128::MAX)
    }

    /// Returns the address at `offset` from the first one.
    pub fn nth(&self, offset: u128) -> IpAddr {
        let found = (number(self.address) & self.mask()).wrapping_add(offset);
        match self.address {
            IpAddr::V4(_) => IpAddr::V4(Ipv4Addr::from(found as u32)),
            IpAddr::V6(_) => IpAddr::V6(Ipv6Addr::from(found)),
        }
    }

    /// Returns the offset of `address` from the first address, if it is in the block.
    pub fn offset(&self, address: IpAddr) -> Option<u128> {
        self.contains(address)
            .then(|| number(address) - (number(self.address) & self.mask()))
    }

    /// Returns true if the block has IPv4 addresses.
    pub fn is_ipv4(&self) -> bool {
        self.address.is_ipv4()
    }

    /// Returns true if the block has IPv4 or IPv4-mapped IPv6 addresses.
    pub fn is_ipv4_or_mapped(&self) -> bool {
        self.address.to_canonical().is_ipv4()
    }

    fn mask(&self) -> u128 {
        let free = u32::from(bits(self.address) - self.prefix);
        u128::MAX.checked_shl(free).unwrap_or(0)
    }
}

const fn bits(address: IpAddr) -> u8 {
    if address.is_ipv4() { 32 } else { 128 }
}

fn number(address: IpAddr) -> u128 {
    match address {
        IpAddr::V4(v4) => u32::from(v4).into(),
        IpAddr::V6(v6) => v6.into(),
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn block_covers_smaller_blocks_of_its_family() {
        let block = |text: &str| Cidr::read(text).unwrap();
        for (outer, inner, covers) in [
            ("10.0.0.0/16", "10.0.3.0/24", true),
            ("10.0.0.0/24", "10.0.0.0/24", true),
            ("10.0.0.0/24", "10.0.0.0/16", false),
            ("10.0.0.0/16", "10.1.0.0/24", false),
            ("fd00::/64", "fd00::1:0/112", true),
            ("::/0", "10.0.0.0/8", false),
        ] {
            assert_eq!(block(outer).covers(&block(inner)), covers, "{outer} {inner}");
        }
    }

    #[test]
    fn a_block_holds_the_addresses_of_its_prefix() {
        let block = Cidr::read("10.0.0.0/24").unwrap();
        assert!(block.is_canonical() && block.size() == 256);
        assert!(block.contains("10.0.0.255".parse().unwrap()));
        assert!(!block.contains("10.0.1.0".parse().unwrap()));
        assert!(!block.contains("::1".parse().unwrap()));
        assert_eq!(block.nth(10).to_string(), "10.0.0.10");
        assert_eq!(block.offset("10.0.0.10".parse().unwrap()), Some(10));
        assert_eq!(Cidr::read("::/0").unwrap().size(), u128::MAX);
        assert!(!Cidr::read("10.0.0.1/24").unwrap().is_canonical());
        for odd in ["10.0.0.0", "10.0.0.0/33", "10.0.0.0/08", "x/8", "10.0.0.0/+8"] {
            assert_eq!(Cidr::read(odd), None, "{odd}");
        }
    }
}
