//! Network of a Pod: host ports, DNS, host aliases.

use holdfast_schema::Field;
use holdfast_schema::metadata::formats::{dns_subdomain, underscored_subdomain};

use crate::validation::addresses::Reading;
use crate::validation::{Errors, report};

const NAMESERVERS: usize = 3;
const SEARCHES: usize = 32;
const SEARCH_CHARACTERS: usize = 2048;

/// Validates that with the host network, host ports equal container ports.
///
/// upstream: pkg/apis/core/validation#validatePodHostNetworkDeps
pub(super) fn validate_host_ports(spec: &Field<'_, '_>, is_pod: bool, errors: &mut Errors) {
    if !spec.child("hostNetwork").is_true() {
        return;
    }
    for container in spec.child("containers").items() {
        for port in container.child("ports").items() {
            let host_port = port.child("hostPort");
            let number = host_port.number().unwrap_or_default();
            if (is_pod || number != 0) && number != port.child("containerPort").number().unwrap_or_default() {
                errors.push(host_port.invalid_number("must match `containerPort` when `hostNetwork` is true"));
            }
        }
    }
}

/// Validates the hostname override.
///
/// upstream: pkg/apis/core/validation#validatePodHostName
pub(super) fn validate_hostname_override(spec: &Field<'_, '_>, errors: &mut Errors) {
    const MAX_HOSTNAME_LENGTH: usize = 64;
    let name = spec.child("hostnameOverride");
    if !name.is_set() {
        return;
    }
    for (part, why) in [
        (
            "setHostnameAsFQDN",
            "may not be specified when setHostnameAsFQDN is true",
        ),
        ("hostNetwork", "may not be specified when hostNetwork is true"),
    ] {
        if spec.child(part).is_true() {
            errors.push(name.forbidden(why));
        }
    }
    if name.text().len() > MAX_HOSTNAME_LENGTH {
        errors.push(name.too_long(MAX_HOSTNAME_LENGTH));
    }
    report(&name, dns_subdomain(name.text()), errors);
}

/// Validates the DNS settings.
///
/// upstream: pkg/apis/core/validation#validatePodDNSConfig
pub(super) fn validate_dns_config(spec: &Field<'_, '_>, reading: Reading, errors: &mut Errors) {
    let config = spec.child("dnsConfig");
    let servers = config.child("nameservers");
    if spec.child("dnsPolicy").text() == "None" {
        if !config.is_set() {
            errors.push(config.required("must provide `dnsConfig` when `dnsPolicy` is None"));
            return;
        }
        if servers.is_empty() {
            errors.push(servers.required("must provide at least one DNS nameserver when `dnsPolicy` is None"));
            return;
        }
    }
    if servers.len() > NAMESERVERS {
        errors.push(servers.invalid(format!("must not have more than {NAMESERVERS} nameservers")));
    }
    for server in servers.items() {
        reading.address(&server, errors);
    }
    let searches = config.child("searches");
    if searches.len() > SEARCHES {
        errors.push(searches.invalid(format!("must not have more than {SEARCHES} search paths")));
    }
    let characters: usize = searches.items().map(|search| search.text().len() + 1).sum();
    if characters > SEARCH_CHARACTERS + 1 {
        errors.push(searches.invalid(format!(
            "must not have more than {SEARCH_CHARACTERS} characters (including spaces) in the search list"
        )));
    }
    for search in searches.items() {
        if search.text() != "." {
            let name = search.text().strip_suffix('.').unwrap_or(search.text());
            let messages = underscored_subdomain(name);
            errors.extend(messages.into_iter().map(|message| search.invalid_as(name, message)));
        }
    }
    for option in config.child("options").items() {
        let name = option.child("name");
        if name.text().is_empty() {
            errors.push(option.required("must not be empty"));
        }
    }
}

/// Validates entries of the hosts file.
///
/// upstream: pkg/apis/core/validation#ValidateHostAliases
pub(super) fn validate_host_aliases(aliases: &Field<'_, '_>, reading: Reading, errors: &mut Errors) {
    for alias in aliases.items() {
        reading.address(&alias.child("ip"), errors);
        for name in alias.child("hostnames").items() {
            report(&name, dns_subdomain(name.text()), errors);
        }
    }
}
