//! IP addresses and address ranges.

#![expect(
    clippy::indexing_slicing,
    reason = "a call has the number of arguments of its chosen overload"
)]

use std::net::IpAddr;

use holdfast_gotext::quote::quote;

use crate::error::EvaluationError::{self, NoSuchOverload};
use crate::extension::cidr::{Cidr, is_mapped};
use crate::functions::{Context, Cost, Function};
use crate::netip::parse_address;
use crate::value::{CelValue, Outcome};

pub(crate) const FUNCTIONS: &[Function] = &[
    Function {
        name: "ip",
        call: ip,
        cost: Cost::Traverse,
        signatures: &["(string) ip", "cidr.() ip"],
    },
    Function {
        name: "isIP",
        call: |_, args| Ok(CelValue::Bool(parse_ip(text(&args[0])?).is_ok())),
        cost: Cost::Traverse,
        signatures: &["(string) bool"],
    },
    Function {
        name: "ip.isCanonical",
        call: |_, args| {
            let text = text(&args[0])?;
            Ok(CelValue::Bool(convert(text)?.to_string() == text))
        },
        cost: Cost::TraverseTwice,
        signatures: &["(string) bool"],
    },
    Function {
        name: "family",
        call: |_, args| of_ip(args, |ip| CelValue::Int(if ip.is_ipv4() { 4 } else { 6 })),
        cost: Cost::Fixed(1),
        signatures: &["ip.() int"],
    },
    Function {
        name: "isUnspecified",
        call: |_, args| of_ip(args, |ip| CelValue::Bool(ip.is_unspecified())),
        cost: Cost::Fixed(1),
        signatures: &["ip.() bool"],
    },
    Function {
        name: "isLoopback",
        call: |_, args| of_ip(args, |ip| CelValue::Bool(ip.is_loopback())),
        cost: Cost::Fixed(1),
        signatures: &["ip.() bool"],
    },
    Function {
        name: "isLinkLocalMulticast",
        call: |_, args| of_ip(args, |ip| CelValue::Bool(is_link_local_multicast(ip))),
        cost: Cost::Fixed(1),
        signatures: &["ip.() bool"],
    },
    Function {
        name: "isLinkLocalUnicast",
        call: |_, args| of_ip(args, |ip| CelValue::Bool(is_link_local_unicast(ip))),
        cost: Cost::Fixed(1),
        signatures: &["ip.() bool"],
    },
    Function {
        name: "isGlobalUnicast",
        call: |_, args| of_ip(args, |ip| CelValue::Bool(is_global_unicast(ip))),
        cost: Cost::Fixed(1),
        signatures: &["ip.() bool"],
    },
    Function {
        name: "cidr",
        call: |_, args| {
            let text = text(&args[0])?;
            convert_range(text).map(CelValue::Cidr)
        },
        cost: Cost::Traverse,
        signatures: &["(string) cidr"],
    },
    Function {
        name: "isCIDR",
        call: |_, args| Ok(CelValue::Bool(Cidr::parse(text(&args[0])?).is_ok())),
        cost: Cost::Traverse,
        signatures: &["(string) bool"],
    },
    Function {
        name: "containsIP",
        call: contains_ip,
        cost: Cost::ContainsIp,
        signatures: &["cidr.(string) bool", "cidr.(ip) bool"],
    },
    Function {
        name: "containsCIDR",
        call: contains_cidr,
        cost: Cost::ContainsCidr,
        signatures: &["cidr.(string) bool", "cidr.(cidr) bool"],
    },
    Function {
        name: "masked",
        call: |_, args| of_cidr(args, |cidr| CelValue::Cidr(cidr.masked())),
        cost: Cost::Fixed(1),
        signatures: &["cidr.() cidr"],
    },
    Function {
        name: "prefixLength",
        call: |_, args| of_cidr(args, |cidr| CelValue::Int(i64::from(cidr.length))),
        cost: Cost::Fixed(1),
        signatures: &["cidr.() int"],
    },
];

fn text(value: &CelValue) -> Outcome<&str> {
    value.as_str().ok_or(NoSuchOverload)
}

fn of_ip(args: &[CelValue], answer: fn(IpAddr) -> CelValue) -> Outcome {
    match args[0] {
        CelValue::Ip(address) => Ok(answer(address)),
        _ => Err(NoSuchOverload),
    }
}

fn of_cidr(args: &[CelValue], answer: fn(&Cidr) -> CelValue) -> Outcome {
    match &args[0] {
        CelValue::Cidr(cidr) => Ok(answer(cidr)),
        _ => Err(NoSuchOverload),
    }
}

/// Parses an address that has no zone and is not IPv4 within IPv6.
fn parse_ip(text: &str) -> Result<IpAddr, String> {
    let shown = || quote(text);
    let read = parse_address(text).map_err(|why| {
        format!(
            "IP Address {} parse error during conversion from string: {why}",
            shown()
        )
    })?;
    if !read.zone.is_empty() {
        return Err(format!("IP address {} with zone value is not allowed", shown()));
    }
    if is_mapped(read.address) {
        return Err(format!("IPv4-mapped IPv6 address {} is not allowed", shown()));
    }
    Ok(read.address)
}

fn convert(text: &str) -> Outcome<IpAddr> {
    parse_ip(text).map_err(EvaluationError::failed)
}

fn ip(_: &Context<'_>, args: &[CelValue]) -> Outcome {
    match &args[0] {
        CelValue::String(text) => convert(text).map(CelValue::Ip),
        CelValue::Cidr(cidr) => Ok(CelValue::Ip(cidr.address)),
        _ => Err(NoSuchOverload),
    }
}

fn is_link_local_multicast(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(address) => address.octets()[..3] == [224, 0, 0],
        IpAddr::V6(address) => address.segments()[0] & 0xff0f == 0xff02,
    }
}

fn is_link_local_unicast(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(address) => address.is_link_local(),
        IpAddr::V6(address) => address.segments()[0] & 0xffc0 == 0xfe80,
    }
}

fn is_global_unicast(address: IpAddr) -> bool {
    let broadcast = matches!(address, IpAddr::V4(address) if address.is_broadcast());
    !(broadcast
        || address.is_unspecified()
        || address.is_loopback()
        || address.is_multicast()
        || is_link_local_unicast(address))
}

/// Parses a range for an expression. The reference repeats the context in its error.
fn convert_range(text: &str) -> Outcome<Cidr> {
    Cidr::parse(text).map_err(|why| {
        EvaluationError::failed(format!(
            "network address parse error during conversion from string: {why}"
        ))
    })
}

fn contains_ip(_: &Context<'_>, args: &[CelValue]) -> Outcome {
    match args {
        [CelValue::Cidr(cidr), CelValue::Ip(address)] => Ok(CelValue::Bool(cidr.contains(*address))),
        [CelValue::Cidr(cidr), CelValue::String(text)] => {
            // The reference treats a text that is not an address as a value of the wrong type.
            let address = parse_ip(text).map_err(|_| NoSuchOverload)?;
            Ok(CelValue::Bool(cidr.contains(address)))
        }
        _ => Err(NoSuchOverload),
    }
}

fn contains_cidr(_: &Context<'_>, args: &[CelValue]) -> Outcome {
    let (cidr, other) = match args {
        [CelValue::Cidr(cidr), CelValue::Cidr(other)] => (cidr, *other),
        [CelValue::Cidr(cidr), CelValue::String(text)] => (cidr, convert_range(text)?),
        _ => return Err(NoSuchOverload),
    };
    Ok(CelValue::Bool(
        cidr.length <= other.length && cidr.contains(other.address),
    ))
}
