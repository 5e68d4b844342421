//! IP addresses and CIDRs.

use std::net::IpAddr;

pub(crate) use holdfast_gotext::address::lenient_address;
use holdfast_gotext::address::without_leading_zeros;
use holdfast_gotext::cidr::Cidr;
use holdfast_kind_tables::features::{Feature, Features};
use holdfast_schema::Field;
use holdfast_schema::metadata::formats::Messages;

use super::{Errors, report};

const NOT_AN_ADDRESS: &str = "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)";
const NOT_A_BLOCK: &str = "must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)";

/// Strictness of parsing of addresses and CIDRs in fields that once accepted ambiguous forms
/// (`IsValidIPForLegacyField`, `IsValidCIDRForLegacyField`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reading {
    /// Same strictness as in new fields.
    Strict,
    /// Accepts leading zeros in numbers, IPv4-mapped IPv6 addresses, and bits beyond the prefix.
    Lenient,
}

impl Reading {
    /// Returns the strictness by the gate `StrictIPCIDRValidation`.
    pub(crate) fn for_features(features: Features) -> Self {
        match features.has(Feature::StrictIPCIDRValidation) {
            true => Self::Strict,
            false => Self::Lenient,
        }
    }

    /// Reports an invalid IP address.
    pub(crate) fn address(self, field: &Field<'_, '_>, errors: &mut Errors) {
        match self {
            Self::Strict => address(field, errors),
            Self::Lenient if lenient_address(field.text()).is_none() => {
                errors.push(field.invalid_text(NOT_AN_ADDRESS));
            }
            Self::Lenient => {}
        }
    }

    /// Reports an invalid IP address, like [`Reading::address`], unless the list `old` contains it: stored addresses
    /// may stay.
    pub(crate) fn kept_or_address(self, field: &Field<'_, '_>, old: &Field<'_, '_>, errors: &mut Errors) {
        if !stands_in(field.text(), old) {
            self.address(field, errors);
        }
    }

    /// Reports an invalid CIDR.
    pub(crate) fn block(self, field: &Field<'_, '_>, errors: &mut Errors) {
        self.block_text(field, field.text(), errors);
    }

    /// Reports the CIDR `text` at `field` if it is invalid.
    pub(crate) fn block_text(self, field: &Field<'_, '_>, text: &str, errors: &mut Errors) {
        let message = match self {
            Self::Strict => block_error(text),
            Self::Lenient => lenient_block(text).is_none().then_some(NOT_A_BLOCK),
        };
        errors.extend(message.map(|message| field.invalid_as(text, message)));
    }
}

/// Reports an invalid IP address, leading zeros, or an IPv4-mapped IPv6 address.
fn address(field: &Field<'_, '_>, errors: &mut Errors) {
    report(field, address_errors(field.text()), errors);
}

/// Returns the errors of a text that is not an unambiguous IP address.
///
/// upstream: k8s.io/apimachinery/pkg/util/validation#parseIP
fn address_errors(text: &str) -> Messages {
    let message = match (lenient_address(text), text.parse::<IpAddr>()) {
        (None, _) => NOT_AN_ADDRESS,
        (Some(_), Err(_)) => "must not have leading 0s",
        (Some(_), Ok(strict)) if is_mapped(strict) => "must not be an IPv4-mapped IPv6 address",
        (Some(_), Ok(_)) => return Messages::new(),
    };
    vec![message.into()]
}

/// Reports an address that [`Reading::Strict`] rejects or that is not in canonical form.
///
/// upstream: k8s.io/apimachinery/pkg/util/validation#IsValidIP
pub(crate) fn canonical_address(field: &Field<'_, '_>, errors: &mut Errors) {
    report(field, canonical_address_errors(field.text()), errors);
}

/// Returns the errors of a text that is not an IP address in canonical form.
///
/// upstream: k8s.io/apimachinery/pkg/util/validation#IsValidIP
pub(crate) fn canonical_address_errors(text: &str) -> Messages {
    let mut messages = address_errors(text);
    let canonical = text.parse::<IpAddr>().map(|address| address.to_string());
    if messages.is_empty() && canonical.as_deref() != Ok(text) {
        let canonical = canonical.unwrap_or_default();
        messages.push(format!("must be in canonical form ({canonical:?})").into());
    }
    messages
}

/// Reports a CIDR that [`Reading::Strict`] rejects or that is not in canonical form.
///
/// upstream: k8s.io/apimachinery/pkg/util/validation#IsValidCIDR
pub(crate) fn canonical_block(field: &Field<'_, '_>, errors: &mut Errors) {
    let before = errors.len();
    Reading::Strict.block(field, errors);
    let canonical = Cidr::read(field.text()).map(|block| block.to_string());
    if errors.len() == before && canonical.as_deref() != Some(field.text()) {
        errors.push(field.invalid_text(format!(
            "must be in canonical form ({:?})",
            canonical.unwrap_or_default()
        )));
    }
}

/// Returns true if `text` is an item of the list.
pub(crate) fn stands_in(text: &str, list: &Field<'_, '_>) -> bool {
    list.slice().iter().any(|one| one.as_str() == Some(text))
}

/// Returns the error of a text that is not a CIDR, has leading zeros, or has bits beyond its prefix.
///
/// upstream: k8s.io/apimachinery/pkg/util/validation#parseCIDR
fn block_error(text: &str) -> Option<&'static str> {
    match (lenient_block(text), Cidr::read(text)) {
        (None, _) => Some(NOT_A_BLOCK),
        (Some(_), None) => Some("must not have leading 0s in IP or prefix length"),
        (Some(_), Some(block)) if is_mapped(block.address()) => Some("must not have an IPv4-mapped IPv6 address"),
        (Some(_), Some(block)) if !block.is_canonical() => Some("must not have bits set beyond the prefix length"),
        (Some(_), Some(_)) => None,
    }
}

/// Reports a text that is not an interface address with a prefix length, or that is not in canonical form.
///
/// upstream: k8s.io/apimachinery/pkg/util/validation#IsValidInterfaceAddress
pub(crate) fn interface_address(field: &Field<'_, '_>, errors: &mut Errors) {
    let text = field.text();
    let Some(block) = lenient_block(text) else {
        errors.push(field.invalid_text("must be a valid address in CIDR form, (e.g. 10.9.8.7/24 or 2001:db8::1/64)"));
        return;
    };
    let (address, prefix) = (block.address(), block.prefix());
    let canonical = match address {
        IpAddr::V6(v6) if prefix >= 96 && v6.to_ipv4_mapped().is_some() => {
            format!("{}/{}", address.to_canonical(), prefix - 96)
        }
        _ => format!("{}/{prefix}", address.to_canonical()),
    };
    if text != canonical {
        errors.push(field.invalid_text(format!("must be in canonical form ({canonical:?})")));
    }
}

/// Returns the CIDR as older versions parse it, with leading zeros allowed.
pub(crate) fn lenient_block(text: &str) -> Option<Cidr> {
    let (address, prefix) = text.split_once('/')?;
    Cidr::read(&format!(
        "{}/{}",
        lenient_address(address)?,
        without_leading_zeros(prefix)
    ))
}

fn is_mapped(address: IpAddr) -> bool {
    matches!(address, IpAddr::V6(v6) if v6.to_ipv4_mapped().is_some())
}

/// Returns the warning about an IP address that is not in canonical form.
///
/// upstream: k8s.io/apimachinery/pkg/util/validation#GetWarningsForIP
pub(crate) fn address_warning(field: &Field<'_, '_>) -> Option<String> {
    let text = field.text();
    let lenient = lenient_address(text)?;
    let place = field.path();
    match text.parse::<IpAddr>() {
        Ok(strict) if !is_mapped(strict) => {
            let canonical = strict.to_string();
            (canonical != text).then(|| {
                format!("{place}: IPv6 address {text:?} should be in RFC 5952 canonical format ({canonical:?})")
            })
        }
        _ => {
            let canonical = lenient.to_canonical().to_string();
            Some(format!(
                "{place}: non-standard IP address {text:?} is invalid: use {canonical:?}"
            ))
        }
    }
}

/// Returns the warning about a CIDR that is not in canonical form.
///
/// upstream: k8s.io/apimachinery/pkg/util/validation#GetWarningsForCIDR
pub(crate) fn block_warning(field: &Field<'_, '_>) -> Option<String> {
    let text = field.text();
    let lenient = lenient_block(text)?;
    let place = field.path();
    if !lenient.is_canonical() {
        let masked = Cidr::new(lenient.nth(0), lenient.prefix());
        let single = Cidr::for_address(lenient.address());
        return Some(format!(
            "{place}: CIDR value {text:?} is ambiguous in this context (should be \"{masked}\" or \"{single}\"?)"
        ));
    }
    match Cidr::read(text) {
        Some(strict) if !is_mapped(strict.address()) => (strict.to_string() != text).then(|| {
            format!("{place}: IPv6 CIDR value {text:?} should be in RFC 5952 canonical format (\"{strict}\")")
        }),
        _ => Some(format!(
            "{place}: non-standard CIDR value {text:?} is invalid: use \"{lenient}\""
        )),
    }
}

/// Reports an IP address that no endpoint of a Service can have, except the address of the server itself (`own`).
///
/// upstream: pkg/apis/core/validation#ValidateEndpointIP
pub(crate) fn endpoint_address(field: &Field<'_, '_>, own: Option<IpAddr>, errors: &mut Errors) {
    // An IPv4-mapped IPv6 address is in the ranges of its IPv4 address.
    let Some(address) = lenient_address(field.text()).map(|address| address.to_canonical()) else {
        errors.push(field.invalid_text(NOT_AN_ADDRESS));
        return;
    };
    if own == Some(address) {
        return;
    }
    if address.is_unspecified() {
        errors.push(field.invalid_text(format!("may not be unspecified ({address})")));
    }
    let (link_local, link_local_multicast) = match address {
        IpAddr::V4(v4) => (v4.is_link_local(), v4.octets()[..3] == [224, 0, 0]),
        IpAddr::V6(v6) => (v6.segments()[0] & 0xffc0 == 0xfe80, v6.segments()[0] == 0xff02),
    };
    let ranges = [
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
            .map(|(_, message)| field.invalid_text(*message)),
    );
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn block(field: &Field<'_, '_>, errors: &mut Errors) {
        Reading::Strict.block(field, errors);
    }

    fn errors_of(check: fn(&Field<'_, '_>, &mut Errors), text: &str) -> Vec<String> {
        let mut errors = Errors::new();
        check(&Field::placed(Some(&text.into()), "a"), &mut errors);
        errors.into_iter().map(|error| error.detail).collect()
    }

    #[test]
    fn addresses_have_no_leading_zeros_and_are_no_disguised_ipv4() {
        assert!(errors_of(address, "10.1.2.3").is_empty() && errors_of(address, "2001:DB8::1").is_empty());
        assert_eq!(errors_of(address, "010.1.2.3"), ["must not have leading 0s"]);
        assert_eq!(errors_of(address, "::ffff:010.1.2.3"), ["must not have leading 0s"]);
        assert_eq!(
            errors_of(address, "::ffff:1.2.3.4"),
            ["must not be an IPv4-mapped IPv6 address"]
        );
        assert_eq!(errors_of(address, "1.2.3"), [NOT_AN_ADDRESS]);
        assert_eq!(errors_of(address, ""), [NOT_AN_ADDRESS]);
        for zeros in ["010.0.0.0/8", "10.0.0.0/08"] {
            assert_eq!(
                errors_of(block, zeros),
                ["must not have leading 0s in IP or prefix length"],
                "{zeros}"
            );
        }
        assert_eq!(
            errors_of(block, "10.0.0.1/8"),
            ["must not have bits set beyond the prefix length"]
        );
        assert_eq!(errors_of(block, "10.0.0.0"), [NOT_A_BLOCK]);
    }

    #[test]
    fn stored_addresses_stay_valid() {
        let errors = |check: fn(Reading, &Field<'_, '_>, &mut Errors), text: &str| {
            let mut errors = Errors::new();
            check(Reading::Lenient, &Field::placed(Some(&text.into()), "a"), &mut errors);
            errors.into_iter().map(|error| error.detail).collect::<Vec<_>>()
        };
        for lenient in ["010.1.2.3", "::ffff:1.2.3.4", "10.1.2.3"] {
            assert!(errors(Reading::address, lenient).is_empty(), "{lenient}");
        }
        for lenient in ["010.0.0.0/8", "10.0.0.0/08", "10.0.0.1/8", "::ffff:1.2.3.0/120"] {
            assert!(errors(Reading::block, lenient).is_empty(), "{lenient}");
        }
        assert_eq!(errors(Reading::address, "1.2.3"), [NOT_AN_ADDRESS]);
        assert_eq!(errors(Reading::block, "10.0.0.0"), [NOT_A_BLOCK]);
    }

    #[test]
    fn endpoints_have_no_local_addresses_in_any_form() {
        fn check(field: &Field<'_, '_>, errors: &mut Errors) {
            endpoint_address(field, None, errors);
        }
        for valid in ["10.1.2.3", "::ffff:10.1.2.3", "fd00::1"] {
            assert!(errors_of(check, valid).is_empty(), "{valid}");
        }
        for loopback in ["127.0.0.1", "127.00.0.1", "::ffff:127.0.0.1", "::1"] {
            assert_eq!(
                errors_of(check, loopback),
                ["may not be in the loopback range (127.0.0.0/8, ::1/128)"],
                "{loopback}"
            );
        }
        assert_eq!(
            errors_of(check, "::ffff:169.254.1.1"),
            ["may not be in the link-local range (169.254.0.0/16, fe80::/10)"]
        );
    }

    #[test]
    fn ambiguous_addresses_cause_warnings() {
        let warning = |text: &str| address_warning(&Field::placed(Some(&text.into()), "a"));
        assert_eq!(warning("10.1.2.3"), None);
        assert_eq!(
            warning("010.1.2.3").unwrap(),
            r#"a: non-standard IP address "010.1.2.3" is invalid: use "10.1.2.3""#
        );
        assert_eq!(
            warning("2001:DB8::1").unwrap(),
            r#"a: IPv6 address "2001:DB8::1" should be in RFC 5952 canonical format ("2001:db8::1")"#
        );
        let block = |text: &str| block_warning(&Field::placed(Some(&text.into()), "a"));
        assert_eq!(
            block("10.0.0.1/8").unwrap(),
            r#"a: CIDR value "10.0.0.1/8" is ambiguous in this context (should be "10.0.0.0/8" or "10.0.0.1/32"?)"#
        );
    }
}
