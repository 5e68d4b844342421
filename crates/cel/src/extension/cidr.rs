//! Ranges of IP addresses.

use std::fmt;
use std::net::IpAddr;

use holdfast_gotext::quote::quote;

use crate::netip::parse_prefix;

/// Range of addresses: `10.0.0.0/8`.
///
/// ```
/// use holdfast_cel::Cidr;
///
/// assert_eq!(Cidr::parse("10.0.0.0/8")?.to_string(), "10.0.0.0/8");
/// assert!(Cidr::parse("10.0.0.0").is_err());
/// # Ok::<(), String>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Cidr {
    pub(crate) address: IpAddr,
    pub(crate) length: u8,
}

impl Cidr {
    /// Parses `address/length`.
    ///
    /// # Errors
    /// Returns Go's message.
    pub fn parse(text: &str) -> Result<Self, String> {
        let (address, length) = parse_prefix(text)
            .map_err(|why| format!("network address parse error during conversion from string: {why}"))?;
        if is_mapped(address) {
            return Err(format!("IPv4-mapped IPv6 address {} is not allowed", quote(text)));
        }
        Ok(Self { address, length })
    }

    pub(crate) fn bytes(&self) -> u64 {
        if self.address.is_ipv4() { 4 } else { 16 }
    }

    fn bits(address: IpAddr, length: u8) -> u128 {
        match address {
            IpAddr::V4(address) => {
                let mask = u32::MAX.checked_shl(32 - u32::from(length)).unwrap_or(0);
                u128::from(u32::from(address) & mask)
            }
            IpAddr::V6(address) => {
                let mask = u128::MAX.checked_shl(128 - u32::from(length)).unwrap_or(0);
                u128::from(address) & mask
            }
        }
    }

    pub(crate) fn masked(&self) -> Self {
        let bits = Self::bits(self.address, self.length);
        let address = match self.address {
            IpAddr::V4(_) => IpAddr::V4((bits as u32).into()),
            IpAddr::V6(_) => IpAddr::V6(bits.into()),
        };
        Self {
            address,
            length: self.length,
        }
    }

    pub(crate) fn contains(&self, address: IpAddr) -> bool {
        self.address.is_ipv4() == address.is_ipv4()
            && Self::bits(self.address, self.length) == Self::bits(address, self.length)
    }
}

impl fmt::Display for Cidr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.address, self.length)
    }
}

/// True if an address is IPv4 within IPv6.
pub(crate) fn is_mapped(address: IpAddr) -> bool {
    matches!(address, IpAddr::V6(address) if address.to_ipv4_mapped().is_some())
}
