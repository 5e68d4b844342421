//! What is asked of devices: selectors, requests, constraints and configuration, as claims, their templates and device
//! classes hold them.

use std::collections::HashSet;

use holdfast_resource::Field;
use holdfast_resource::metadata::formats::{dns_label, dns_subdomain};
use holdfast_value::{SmolStr, Value};

use super::selectors::validate_selectors;
use crate::defaults::{change_items, is_zero, set_missing};
use crate::validation::{Errors, report, required_text};

/// The most requests of a claim, and the most names of requests in a list of them.
const REQUESTS: usize = 32;
const CONSTRAINTS: usize = 32;
const CONFIGURATIONS: usize = 32;
const ALTERNATIVES: usize = 8;
/// The largest opaque parameters, in bytes.
const PARAMETERS: usize = 10 * 1024;
const DRIVER_NAME: usize = 63;
const POOL_NAME: usize = 253;
/// The longest domain and the longest name of an attribute.
const DOMAIN: usize = 63;
const IDENTIFIER: usize = 32;

const ALL: &str = "All";
const EXACT: &str = "ExactCount";

/// Fills in how many devices are asked for.
pub(super) fn default_devices(devices: &mut Value) {
    let incomplete = |request: &Value| {
        let lacks = |part: &Value| is_zero(part.get("allocationMode")) || counts(part) && is_zero(part.get("count"));
        request.get("exactly").is_some_and(lacks)
            || request
                .get("firstAvailable")
                .and_then(Value::as_list)
                .is_some_and(|list| list.iter().any(lacks))
    };
    change_items(devices, "requests", incomplete, |request| {
        if let Some(exactly) = request.at_mut(&["exactly"]) {
            default_count(exactly);
        }
        change_items(request, "firstAvailable", |_| true, default_count);
    });
}

fn counts(request: &Value) -> bool {
    matches!(request.str_at(&["allocationMode"]), None | Some("" | EXACT))
}

fn default_count(request: &mut Value) {
    if !matches!(request, Value::Map(_)) {
        return;
    }
    if is_zero(request.get("allocationMode")) {
        request.set_at(&["allocationMode"], EXACT.into());
    }
    if counts(request) && is_zero(request.get("count")) {
        if let Some(map) = request.as_map_mut() {
            map.remove("count");
        }
        set_missing(request, "count", || Value::Int(1));
    }
}

/// Reports what is wrong with the `devices` of a claim.
pub(super) fn validate_devices(devices: &Field<'_, '_>, errors: &mut Errors) {
    let names = RequestNames::of(devices);
    let requests = devices.child("requests");
    bounded(&requests, REQUESTS, errors);
    let mut seen = HashSet::new();
    for request in requests.items() {
        validate_request(&request, errors);
        let name = request.child("name").text();
        if !seen.insert(name) {
            errors.push(holdfast_resource::FieldError::duplicate(&request.path(), name));
        }
    }
    let constraints = devices.child("constraints");
    bounded(&constraints, CONSTRAINTS, errors);
    for constraint in constraints.items() {
        names.validate_references(&constraint.child("requests"), errors);
        let (matching, distinct) = (
            constraint.child("matchAttribute"),
            constraint.child("distinctAttribute"),
        );
        if matching.is_set() {
            validate_attribute_name(&matching, errors);
        } else if distinct.is_set() {
            validate_attribute_name(&distinct, errors);
        } else {
            errors.push(constraint.required(
                "exactly one of \"matchAttribute\" or \"distinctAttribute\" is required, but multiple fields are set",
            ));
        }
    }
    let configurations = devices.child("config");
    bounded(&configurations, CONFIGURATIONS, errors);
    for configuration in configurations.items() {
        names.validate_references(&configuration.child("requests"), errors);
        validate_configuration(&configuration, errors);
    }
}

fn validate_request(request: &Field<'_, '_>, errors: &mut Errors) {
    let name = request.child("name");
    report(&name, dns_label(name.text()), errors);
    let (exactly, first) = (request.child("exactly"), request.child("firstAvailable"));
    match (exactly.is_set(), !first.is_empty()) {
        (false, false) => {
            errors.push(request.required("exactly one of `exactly` or `firstAvailable` is required"));
        }
        (true, true) => errors.push(request.invalid_as(
            Value::Null,
            "exactly one of `exactly` or `firstAvailable` is required, but multiple fields are set",
        )),
        (true, false) => validate_one_request(&exactly, errors),
        (false, true) => {
            bounded(&first, ALTERNATIVES, errors);
            let mut seen = HashSet::new();
            for alternative in first.items() {
                let name = alternative.child("name");
                report(&name, dns_label(name.text()), errors);
                validate_one_request(&alternative, errors);
                if !seen.insert(name.text()) {
                    errors.push(holdfast_resource::FieldError::duplicate(
                        &alternative.path(),
                        name.text(),
                    ));
                }
            }
        }
    }
}

fn validate_one_request(request: &Field<'_, '_>, errors: &mut Errors) {
    required_text(&request.child("deviceClassName"), dns_subdomain, errors);
    validate_selectors(&request.child("selectors"), errors);
    let (mode, count) = (request.child("allocationMode"), request.child("count"));
    let number = count.number().unwrap_or_default();
    match mode.text() {
        ALL if number != 0 => {
            errors.push(count.invalid(format!("must not be specified when allocationMode is '{ALL}'")));
        }
        ALL => {}
        EXACT if number <= 0 => errors.push(count.invalid_as(number, "must be greater than zero")),
        EXACT => {}
        _ => errors.push(mode.not_supported(&[ALL, EXACT])),
    }
}

/// Reports what is wrong with the configuration of devices.
pub(super) fn validate_configurations(configurations: &Field<'_, '_>, errors: &mut Errors) {
    bounded(configurations, CONFIGURATIONS, errors);
    for configuration in configurations.items() {
        validate_configuration(&configuration, errors);
    }
}

fn validate_configuration(configuration: &Field<'_, '_>, errors: &mut Errors) {
    let opaque = configuration.child("opaque");
    if !opaque.is_set() {
        errors.push(opaque.required(""));
        return;
    }
    validate_driver(&opaque.child("driver"), errors);
    let parameters = opaque.child("parameters");
    match parameters.value() {
        None => errors.push(parameters.required("")),
        Some(value @ Value::Map(_)) => {
            if holdfast_value::json::to_string(value).len() > PARAMETERS {
                errors.push(parameters.too_long(PARAMETERS));
            }
        }
        Some(_) => errors.push(parameters.invalid_as("<value omitted>", "parameters must be a valid JSON object")),
    }
}

/// Reports what can be no name of a driver.
pub(super) fn validate_driver(driver: &Field<'_, '_>, errors: &mut Errors) {
    let name = driver.text();
    if name.is_empty() {
        errors.push(driver.required(""));
        return;
    }
    if name.len() > DRIVER_NAME {
        errors.push(driver.too_long(DRIVER_NAME));
    }
    let faults = dns_subdomain(&name.to_lowercase());
    errors.extend(faults.into_iter().map(|fault| driver.invalid_text(fault)));
}

/// Reports what can be no name of a pool of devices.
pub(super) fn validate_pool(pool: &Field<'_, '_>, errors: &mut Errors) {
    if pool.text().is_empty() {
        errors.push(pool.required(""));
        return;
    }
    if pool.text().len() > POOL_NAME {
        errors.push(pool.too_long(POOL_NAME));
    }
    for part in pool.text().split('/') {
        errors.extend(
            dns_subdomain(part)
                .into_iter()
                .map(|fault| pool.invalid_as(part, fault)),
        );
    }
}

/// Reports an attribute's name without a domain, or one that is no attribute's name.
fn validate_attribute_name(name: &Field<'_, '_>, errors: &mut Errors) {
    let text = name.text();
    if text.is_empty() {
        errors.push(name.required("name must not be empty"));
        return;
    }
    if !text.contains('/') {
        errors.push(name.invalid("a fully qualified name must be a domain and a name separated by a slash"));
        return;
    }
    validate_qualified_name(name, text, errors);
}

/// Reports the faults of a name of an attribute or a capacity: an identifier of C, behind a domain or not.
pub(super) fn validate_qualified_name(at: &Field<'_, '_>, name: &str, errors: &mut Errors) {
    let (domain, identifier) = match name.split_once('/') {
        Some((domain, identifier)) => (Some(domain), identifier),
        None => (None, name),
    };
    match domain {
        Some("") => errors.push(at.required("the domain must not be empty")),
        Some(domain) => {
            if domain.len() > DOMAIN {
                errors.push(at.too_long(DOMAIN));
            }
            errors.extend(
                dns_subdomain(domain)
                    .into_iter()
                    .map(|fault| at.invalid_as(domain, fault)),
            );
        }
        None => {}
    }
    if identifier.is_empty() {
        errors.push(at.required("the name must not be empty"));
        return;
    }
    if identifier.len() > IDENTIFIER {
        errors.push(at.too_long(IDENTIFIER));
    }
    let letter = |byte: u8| byte == b'_' || byte.is_ascii_alphabetic();
    let fits = letter(identifier.as_bytes()[0]) && identifier.bytes().all(|byte| letter(byte) || byte.is_ascii_digit());
    if !fits {
        errors.push(at.invalid_as(
            identifier,
            "a valid C identifier must start with alphabetic character or '_', followed by a string of alphanumeric \
             characters or '_' (e.g. 'my_name',  or 'MY_NAME',  or 'MyName', regex used for validation is \
             '[A-Za-z_][A-Za-z0-9_]*')",
        ));
    }
}

/// Reports a list of more than `most` items.
pub(super) fn bounded(list: &Field<'_, '_>, most: usize, errors: &mut Errors) {
    if list.len() > most {
        errors.push(list.too_many(most));
    }
}

/// The names by which results and constraints refer to the requests of a claim: `request`, or `request/alternative`.
pub(super) struct RequestNames(HashSet<SmolStr>);

impl RequestNames {
    /// The names of the requests of `devices`.
    pub(super) fn of(devices: &Field<'_, '_>) -> Self {
        let mut names = HashSet::new();
        for request in devices.child("requests").items() {
            let name = request.child("name");
            names.insert(SmolStr::new(name.text()));
            for alternative in request.child("firstAvailable").items() {
                let below = alternative.child("name");
                names.insert(smol_str_of(name.text(), below.text()));
            }
        }
        Self(names)
    }

    /// Reports references that stand there twice, are no names or name no request.
    pub(super) fn validate_references(&self, references: &Field<'_, '_>, errors: &mut Errors) {
        bounded(references, REQUESTS, errors);
        let mut seen = HashSet::new();
        for reference in references.items() {
            self.validate(&reference, errors);
            if !seen.insert(reference.text()) {
                errors.push(reference.duplicate());
            }
        }
    }

    /// Reports what names no request.
    pub(super) fn validate(&self, reference: &Field<'_, '_>, errors: &mut Errors) {
        const NO_REQUEST: &str =
            "must be the name of a request in the claim or the name of a request and a subrequest separated by '/'";
        let segments: Vec<&str> = reference.text().split('/').collect();
        if segments.len() > 2 {
            errors.push(reference.invalid_text(NO_REQUEST));
            return;
        }
        for segment in segments {
            errors.extend(
                dns_label(segment)
                    .into_iter()
                    .map(|fault| reference.invalid_as(segment, fault)),
            );
        }
        if !self.0.contains(reference.text()) {
            errors.push(reference.invalid_text(NO_REQUEST));
        }
    }
}

fn smol_str_of(request: &str, alternative: &str) -> SmolStr {
    SmolStr::from(format!("{request}/{alternative}"))
}
