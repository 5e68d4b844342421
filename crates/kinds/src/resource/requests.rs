//! What is asked of devices: selectors, requests, constraints and configuration, as claims, their templates and device
//! classes hold them.

use std::collections::{HashMap, HashSet};

use holdfast_resource::Field;
use holdfast_resource::metadata::formats::{dns_label, dns_subdomain, label_value};
use holdfast_resource::metadata::labels::validate_label_name;
use holdfast_value::{Value, json};

use super::TAINT_EFFECTS;
use super::names::{name_of, own_text, validate_attribute_name, validate_driver, validate_set, validate_slice};
use super::selectors::validate_selectors;
use crate::defaults::{change_items, is_zero, none_if_empty, set_missing};
use crate::validation::{Errors, may_have_blanks, optional_one_of, report, required_text};

/// The most requests of a claim, and the most names of requests in a list of them.
const REQUESTS: usize = 32;
const CONSTRAINTS: usize = 32;
const CONFIGURATIONS: usize = 32;
const ALTERNATIVES: usize = 8;
/// The largest opaque parameters, in bytes.
const PARAMETERS: usize = 10 * 1024;
const OPERATORS: [&str; 2] = ["Equal", "Exists"];

const ALL: &str = "All";
const EXACT: &str = "ExactCount";

/// Fills in how many devices are asked for.
pub(super) fn default_devices(version: &str, devices: &mut Value) {
    // In v1beta1 a request asks for devices itself, if it names a class.
    let asks = |request: &Value| version == "v1beta1" && !is_zero(request.get("deviceClassName"));
    let incomplete = |request: &Value| {
        let lacks = |part: &Value| is_zero(part.get("allocationMode")) || counts(part) && is_zero(part.get("count"));
        request.get("exactly").is_some_and(lacks)
            || asks(request) && lacks(request)
            || request
                .get("firstAvailable")
                .and_then(Value::as_list)
                .is_some_and(|list| list.iter().any(lacks))
    };
    change_items(devices, "requests", incomplete, |request| {
        if asks(request) {
            default_count(request);
        }
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

/// What a new or changed spec with requests for devices becomes when it is stored.
pub(super) fn prepare_spec(object: &mut Value, path: &[&str]) {
    let requests: Vec<&str> = path.iter().copied().chain(["devices", "requests"]).collect();
    none_if_empty(object, &requests);
}

/// Reports what is wrong with the `devices` of a claim: `validateDeviceClaim`.
pub(super) fn validate_devices(devices: &Field<'_, '_>, errors: &mut Errors) {
    let names = RequestNames::of(devices);
    validate_set(&devices.child("requests"), REQUESTS, errors, validate_request, name_of);
    validate_slice(
        &devices.child("constraints"),
        CONSTRAINTS,
        errors,
        |constraint, errors| validate_constraint(constraint, &names, errors),
    );
    validate_slice(
        &devices.child("config"),
        CONFIGURATIONS,
        errors,
        |configuration, errors| {
            names.validate_references(&configuration.child("requests"), errors);
            validate_configuration(configuration, Stored::No, errors);
        },
    );
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
        (false, true) => validate_set(&first, ALTERNATIVES, errors, validate_alternative, name_of),
    }
}

fn validate_alternative(alternative: &Field<'_, '_>, errors: &mut Errors) {
    let name = alternative.child("name");
    report(&name, dns_label(name.text()), errors);
    validate_one_request(alternative, errors);
}

fn validate_one_request(request: &Field<'_, '_>, errors: &mut Errors) {
    required_text(&request.child("deviceClassName"), dns_subdomain, errors);
    validate_selectors(&request.child("selectors"), Stored::No, errors);
    validate_count(request, errors);
    for toleration in request.child("tolerations").items() {
        validate_toleration(&toleration, errors);
    }
}

/// `validateDeviceAllocationMode`
fn validate_count(request: &Field<'_, '_>, errors: &mut Errors) {
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

/// `validateDeviceToleration`
pub(super) fn validate_toleration(toleration: &Field<'_, '_>, errors: &mut Errors) {
    let (key, operator) = (toleration.child("key"), toleration.child("operator"));
    let value = toleration.child("value");
    if !key.text().is_empty() {
        validate_label_name(&key, errors);
    }
    match operator.text() {
        "Exists" if !value.text().is_empty() => {
            errors.push(value.invalid("must be empty for operator `Exists`"));
        }
        "Exists" => {}
        "Equal" => report(&value, label_value(value.text()), errors),
        "" => errors.push(operator.required("")),
        _ => errors.push(operator.not_supported(&OPERATORS)),
    }
    optional_one_of(&toleration.child("effect"), &TAINT_EFFECTS, errors);
}

/// `validateDeviceConstraint`
fn validate_constraint(constraint: &Field<'_, '_>, names: &RequestNames<'_>, errors: &mut Errors) {
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

/// Whether what is checked is stored as it is, so that newer bounds do not hold for it.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Stored {
    /// It is as it was.
    Yes,
    /// It is new or has changed.
    No,
}

/// Reports what is wrong with the configuration of devices.
pub(super) fn validate_configurations(configurations: &Field<'_, '_>, stored: Stored, errors: &mut Errors) {
    validate_slice(configurations, CONFIGURATIONS, errors, |configuration, errors| {
        validate_configuration(configuration, stored, errors);
    });
}

/// `validateDeviceConfiguration`
pub(super) fn validate_configuration(configuration: &Field<'_, '_>, stored: Stored, errors: &mut Errors) {
    let opaque = configuration.child("opaque");
    if !opaque.is_set() {
        errors.push(opaque.required(""));
        return;
    }
    validate_driver(&opaque.child("driver"), errors);
    validate_raw(&opaque.child("parameters"), PARAMETERS, stored, errors);
}

/// Whether the configurations at `path` have parameters in which blanks may stand.
pub(super) fn has_blanks(object: &Value, path: &[&str]) -> bool {
    let configurations = object.at(path).and_then(Value::as_list).into_iter().flatten();
    let mut parameters = configurations.filter_map(|one| one.at(&["opaque", "parameters"]));
    parameters.any(may_have_blanks)
}

/// Reports what is no JSON object of at most `most` bytes: `validateRawExtension`.
pub(super) fn validate_raw(raw: &Field<'_, '_>, most: usize, stored: Stored, errors: &mut Errors) {
    match raw.value() {
        None => errors.push(raw.required("")),
        Some(value) if stored == Stored::No && json::to_string(value).len() > most => {
            errors.push(raw.too_long(most));
        }
        Some(Value::Map(_)) => {}
        Some(_) => errors.push(raw.invalid_as("<value omitted>", "must be a valid JSON object")),
    }
}

/// The names by which results and constraints refer to the requests of a claim: `request`, or `request/alternative`.
pub(super) struct RequestNames<'v>(HashMap<&'v str, HashSet<&'v str>>);

impl<'v> RequestNames<'v> {
    /// The names of the requests of `devices`: `gatherRequestNames`.
    pub(super) fn of(devices: &Field<'v, '_>) -> Self {
        let text = |value: &'v Value| value.str_at(&["name"]).unwrap_or_default();
        let requests = devices.child("requests").slice().iter().map(|request| {
            let alternatives = request.get("firstAvailable").and_then(Value::as_list);
            let below = alternatives.into_iter().flatten().map(text).collect();
            (text(request), below)
        });
        Self(requests.collect())
    }

    fn has(&self, reference: &str) -> bool {
        match reference.split_once('/') {
            None => self.0.contains_key(reference),
            Some((name, below)) => self.0.get(name).is_some_and(|names| names.contains(below)),
        }
    }

    /// Reports references that stand there twice, are no names or name no request.
    pub(super) fn validate_references(&self, references: &Field<'_, '_>, errors: &mut Errors) {
        let check = |reference: &Field<'_, '_>, errors: &mut Errors| self.validate(reference, errors);
        validate_set(references, REQUESTS, errors, check, own_text);
    }

    /// Reports what names no request: `validateRequestNameRef`.
    pub(super) fn validate(&self, reference: &Field<'_, '_>, errors: &mut Errors) {
        const NO_REQUEST: &str =
            "must be the name of a request in the claim or the name of a request and a subrequest separated by '/'";
        let segments: Vec<&str> = reference.text().split('/').collect();
        if segments.len() > 2 {
            errors.push(reference.invalid_text(NO_REQUEST));
            return;
        }
        for segment in segments {
            let faults = dns_label(segment);
            errors.extend(faults.into_iter().map(|fault| reference.invalid_as(segment, fault)));
        }
        if !self.has(reference.text()) {
            errors.push(reference.invalid_text(NO_REQUEST));
        }
    }
}
