//! IP addresses and blocks of them.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use holdfast_resource::Field;

use super::Errors;

const NOT_AN_ADDRESS: &str = "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)";
const NOT_A_BLOCK: &str = "must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)";

/// Reports what is no IP address.
pub(crate) fn address(field: &Field<'_, '_>, errors: &mut Errors) {
    if field.text().parse::<IpAddr>().is_err() {
        errors.push(field.invalid_text(NOT_AN_ADDRESS));
    }
}

/// Reports what is no block of IP addresses.
pub(crate) fn block(field: &Field<'_, '_>, errors: &mut Errors) {
    match Block::read(field.text()) {
        None => errors.push(field.invalid_text(NOT_A_BLOCK)),
        Some(block) if !block.is_canonical() => {
            errors.push(field.invalid_text("must not have bits set beyond the prefix length"));
        }
        Some(_) => {}
    }
}

/// Reports an IP address that no endpoint of a service can have.
pub(crate) fn endpoint_address(field: &Field<'_, '_>, errors: &mut Errors) {
    let Ok(address) = field.text().parse::<IpAddr>() else {
        errors.push(field.invalid_text(NOT_AN_ADDRESS));
        return;
    };
    let (link_local, link_local_multicast) = match address {
        IpAddr::V4(v4) => (v4.is_link_local(), v4.octets()[..3] == [224, 0, 0]),
        IpAddr::V6(v6) => (v6.segments()[0] & 0xffc0 == 0xfe80, v6.segments()[0] == 0xff02),
    };
    let ranges = [
        (address.is_unspecified(), "may not be unspecified (0.0.0.0 or ::)"),
        (
            address.is_loopback(),
            "may not be in the loopback range (127.0.0.0/8, ::1/128)",
        ),
        (
            link_local,
            "may not be in the link-local range (169.254.0.0/16, fe80::/10)",
        ),
        (
            link_local_multicast,
            "may not be in the link-local multicast range (224.0.0.0/24, ff02::/10)",
        ),
    ];
    errors.extend(
        ranges
            .iter()
            .filter(|(within, _)| *within)
            .map(|(_, fault)| field.invalid_text(*fault)),
    );
}

/// A block of IP addresses: an address and how many of its leading bits all addresses of the block share.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Block {
    address: IpAddr,
    prefix: u8,
}

impl std::fmt::Display for Block {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}/{}", self.address, self.prefix)
    }
}

impl Block {
    /// Where services get their addresses unless told otherwise: `10.0.0.0/24`.
    pub const DEFAULT_SERVICES: Self = Self {
        address: IpAddr::V4(Ipv4Addr::new(10, 0, 0, 0)),
        prefix: 24,
    };

    /// Reads `ADDRESS/PREFIX`.
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

    /// Whether no bit is set beyond the prefix.
    pub(crate) fn is_canonical(&self) -> bool {
        number(self.address) == number(self.address) & self.mask()
    }

    /// Whether `address` is in the block.
    pub fn contains(&self, address: IpAddr) -> bool {
        address.is_ipv4() == self.address.is_ipv4()
            && number(address) & self.mask() == number(self.address) & self.mask()
    }

    /// Whether all addresses of the block are in `outer`, which has others besides.
    pub(crate) fn is_strictly_within(&self, outer: &Self) -> bool {
        outer.contains(self.address) && self.prefix > outer.prefix
    }

    /// How many addresses there are; `u128::MAX` for all of IPv6.
    pub(crate) fn size(&self) -> u128 {
        let free = u32::from(bits(self.address) - self.prefix);
        1u128.checked_shl(free).unwrap_or(u128::MAX)
    }

    /// The address that stands `offset` behind the first one.
    pub(crate) fn nth(&self, offset: u128) -> IpAddr {
        let found = (number(self.address) & self.mask()).wrapping_add(offset);
        match self.address {
            IpAddr::V4(_) => IpAddr::V4(Ipv4Addr::from(found as u32)),
            IpAddr::V6(_) => IpAddr::V6(Ipv6Addr::from(found)),
        }
    }

    /// How far behind the first address `address` stands, if it is in the block.
    pub(crate) fn offset(&self, address: IpAddr) -> Option<u128> {
        self.contains(address)
            .then(|| number(address) - (number(self.address) & self.mask()))
    }

    /// Whether the block is of IPv4 addresses.
    pub(crate) fn is_ipv4(&self) -> bool {
        self.address.is_ipv4()
    }

    fn mask(&self) -> u128 {
        let free = u32::from(bits(self.address) - self.prefix);
        u128::MAX.checked_shl(free).unwrap_or(0)
    }
}

fn bits(address: IpAddr) -> u8 {
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
    fn a_block_holds_the_addresses_of_its_prefix() {
        let block = Block::read("10.0.0.0/24").unwrap();
        assert!(block.is_canonical() && block.size() == 256);
        assert!(block.contains("10.0.0.255".parse().unwrap()));
        assert!(!block.contains("10.0.1.0".parse().unwrap()));
        assert!(!block.contains("::1".parse().unwrap()));
        assert_eq!(block.nth(10).to_string(), "10.0.0.10");
        assert_eq!(block.offset("10.0.0.10".parse().unwrap()), Some(10));
        assert_eq!(Block::read("::/0").unwrap().size(), u128::MAX);
        assert!(!Block::read("10.0.0.1/24").unwrap().is_canonical());
        for odd in ["10.0.0.0", "10.0.0.0/33", "10.0.0.0/08", "x/8", "10.0.0.0/+8"] {
            assert_eq!(Block::read(odd), None, "{odd}");
        }
    }
}
