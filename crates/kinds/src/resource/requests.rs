//! Device requests: selectors, constraints and configuration in claims, claim templates and device classes.

use std::collections::{HashMap, HashSet};

use holdfast_schema::metadata::formats::{dns_label, label_value};
use holdfast_schema::{AnyRules, Check, Field, Part, Rules};
use holdfast_value::{Value, json};

use super::names::{own_text, validate_attribute_name, validate_set};
use super::selectors::validate_expression;
use crate::defaults::{change_items, is_zero, none_if_empty, set_missing};
use crate::rules::DeviceRequestRule;
use crate::validation::{Errors, report};

/// Maximum number of request names in a list.
const REQUESTS: usize = 32;
/// Maximum size of opaque parameters in bytes.
const PARAMETERS: usize = 10 * 1024;
const OPERATORS: [&str; 2] = ["Equal", "Exists"];

const ALL: &str = "All";
const EXACT: &str = "ExactCount";

/// Sets the default number of requested devices.
///
/// upstream: pkg/apis/resource/v1#SetDefaults_ExactDeviceRequest
/// upstream: pkg/apis/resource/v1#SetDefaults_DeviceSubRequest
pub(super) fn default_devices(version: &str, devices: &mut Value) {
    // In v1beta1 the request itself asks for devices if it names a class.
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

/// upstream: pkg/apis/resource/v1#SetDefaults_ExactDeviceRequest
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

/// Prepares a new or changed spec with device requests for storage.
pub(super) fn prepare_spec(object: &mut Value, path: &[&str]) {
    let requests: Vec<&str> = path.iter().copied().chain(["devices", "requests"]).collect();
    none_if_empty(object, &requests);
}

/// Hand-written checks of device requests in claims, claim templates and device classes.
pub(super) struct RequestRules<'v> {
    pub(super) names: RequestNames<'v>,
    /// State of the selectors: stored or new.
    pub(super) selectors: Stored,
    /// State of the configurations: stored or new.
    pub(super) configurations: Stored,
}

impl<'v> RequestRules<'v> {
    /// Returns the rules of the requests in `devices`.
    pub(super) fn new(devices: Option<&'v Value>) -> Self {
        Self {
            names: RequestNames::from_field(&Field::placed(devices, "")),
            selectors: Stored::No,
            configurations: Stored::No,
        }
    }
}

impl<'v> Rules<'v> for RequestRules<'v> {
    type Rule = DeviceRequestRule;

    fn rule(&self, rule: DeviceRequestRule, part: &Part<'v, '_>, check: &mut Check<'_>) {
        match rule {
            DeviceRequestRule::Members => validate_members(part, self, check),
            DeviceRequestRule::Count => validate_count(part, &mut check.errors),
            DeviceRequestRule::Expression if self.selectors == Stored::No => {
                validate_expression(&part.child("expression"), &mut check.errors);
            }
            DeviceRequestRule::Expression => {}
            DeviceRequestRule::Operator => validate_operator(part, &mut check.errors),
            DeviceRequestRule::Requests => self
                .names
                .validate_references(&part.child("requests"), &mut check.errors),
            DeviceRequestRule::Attribute => validate_attribute(part, &mut check.errors),
            DeviceRequestRule::Parameters => {
                let parameters = part.child("parameters");
                validate_raw(&parameters, PARAMETERS, self.configurations, &mut check.errors);
            }
        }
    }
}

/// Checks that a request has exactly one of two forms.
///
/// upstream: pkg/apis/resource/validation#validateDeviceRequest
fn validate_members<'v>(request: &Part<'v, '_>, rules: &dyn AnyRules<'v>, check: &mut Check<'_>) {
    let (exactly, first) = (request.child("exactly"), request.child("firstAvailable"));
    match (exactly.is_set(), !first.is_empty()) {
        (false, false) => {
            let why = "exactly one of `exactly` or `firstAvailable` is required";
            check.errors.push(request.required(why));
        }
        (true, true) => check.errors.push(request.invalid_as(
            Value::Null,
            "exactly one of `exactly` or `firstAvailable` is required, but multiple fields are set",
        )),
        (true, false) => check.field(request, "exactly", rules),
        (false, true) => check.field(request, "firstAvailable", rules),
    }
}

/// upstream: pkg/apis/resource/validation#validateDeviceAllocationMode
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

/// Validates the value of a toleration. The operator determines which values are allowed.
///
/// upstream: pkg/apis/resource/validation#validateDeviceToleration
fn validate_operator(toleration: &Field<'_, '_>, errors: &mut Errors) {
    let (operator, value) = (toleration.child("operator"), toleration.child("value"));
    match operator.text() {
        "Exists" if !value.text().is_empty() => {
            errors.push(value.invalid("must be empty for operator `Exists`"));
        }
        "Exists" => {}
        "Equal" => report(&value, label_value(value.text()), errors),
        "" => errors.push(operator.required("")),
        _ => errors.push(operator.not_supported(&OPERATORS)),
    }
}

/// Validates the attribute that devices must or must not share.
///
/// upstream: pkg/apis/resource/validation#validateDeviceConstraint
fn validate_attribute(constraint: &Field<'_, '_>, errors: &mut Errors) {
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

/// State of a validated value: newer limits do not apply to stored values.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Stored {
    /// The value is unchanged.
    Yes,
    /// The value is new or has changed.
    No,
}

/// Reports a value that is not a JSON object of at most `most` bytes.
///
/// upstream: pkg/apis/resource/validation#validateRawExtension
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

/// Names by which results and constraints refer to the requests of a claim: `request` or `request/alternative`.
pub(super) struct RequestNames<'v>(HashMap<&'v str, HashSet<&'v str>>);

impl<'v> RequestNames<'v> {
    /// Returns the names of the requests in `devices`.
    ///
    /// upstream: pkg/apis/resource/validation#gatherRequestNames
    pub(super) fn from_field(devices: &Field<'v, '_>) -> Self {
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

    /// Reports references that are duplicate, invalid or do not name a request.
    ///
    /// upstream: pkg/apis/resource/validation#validateRequestNameRef
    /// upstream: pkg/apis/resource/validation#validateSet
    pub(super) fn validate_references(&self, references: &Field<'_, '_>, errors: &mut Errors) {
        let check = |reference: &Field<'_, '_>, errors: &mut Errors| self.validate(reference, errors);
        validate_set(references, REQUESTS, errors, check, own_text);
    }

    /// Reports a reference that does not name a request.
    ///
    /// upstream: pkg/apis/resource/validation#validateRequestNameRef
    pub(super) fn validate(&self, reference: &Field<'_, '_>, errors: &mut Errors) {
        const NO_REQUEST: &str =
            "must be the name of a request in the claim or the name of a request and a subrequest separated by '/'";
        let segments: Vec<&str> = reference.text().split('/').collect();
        if segments.len() > 2 {
            errors.push(reference.invalid_text(NO_REQUEST));
            return;
        }
        for segment in segments {
            let messages = dns_label(segment);
            errors.extend(
                messages
                    .into_iter()
                    .map(|message| reference.invalid_as(segment, message)),
            );
        }
        if !self.has(reference.text()) {
            errors.push(reference.invalid_text(NO_REQUEST));
        }
    }
}
