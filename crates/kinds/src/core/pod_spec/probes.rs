//! Probes and lifecycle hooks of a container.

use holdfast_resource::Field;

use crate::validation::ports::{port_number, port_number_or_name};
use crate::validation::{Errors, numbers};

/// Checks a probe whose first success settles it: liveness and startup.
pub(super) fn validate_liveness(probe: &Field<'_, '_>, errors: &mut Errors) {
    validate_probe(probe, errors);
    let threshold = probe.child("successThreshold");
    if probe.is_set() && threshold.number() != Some(1) {
        errors.push(threshold.invalid_number("must be 1"));
    }
}

/// Checks a readiness probe.
pub(super) fn validate_readiness(probe: &Field<'_, '_>, errors: &mut Errors) {
    validate_probe(probe, errors);
    let grace = probe.child("terminationGracePeriodSeconds");
    if grace.is_set() {
        errors.push(grace.invalid("must not be set for readinessProbes"));
    }
}

/// Checks what runs after the start and before the stop of a container.
pub(super) fn validate_lifecycle(lifecycle: &Field<'_, '_>, grace: Option<i64>, errors: &mut Errors) {
    for part in ["postStart", "preStop"] {
        let handler = lifecycle.child(part);
        if handler.is_set() {
            validate_handler(&handler, &LIFECYCLE_HANDLERS, grace, errors);
        }
    }
}

fn validate_probe(probe: &Field<'_, '_>, errors: &mut Errors) {
    if !probe.is_set() {
        return;
    }
    validate_handler(probe, &PROBE_HANDLERS, None, errors);
    for part in [
        "initialDelaySeconds",
        "timeoutSeconds",
        "periodSeconds",
        "successThreshold",
        "failureThreshold",
    ] {
        numbers::not_negative(&probe.child(part), errors);
    }
    let grace = probe.child("terminationGracePeriodSeconds");
    if grace.number().is_some_and(|seconds| seconds <= 0) {
        errors.push(grace.invalid("must be greater than 0"));
    }
}

/// Checks an action of a Pod that has so long to end.
type HandlerCheck = fn(&Field<'_, '_>, Option<i64>, &mut Errors);

const PROBE_HANDLERS: [(&str, HandlerCheck); 4] = [
    ("exec", validate_exec),
    ("httpGet", validate_http_get),
    ("tcpSocket", validate_tcp_socket),
    ("grpc", validate_grpc),
];

const LIFECYCLE_HANDLERS: [(&str, HandlerCheck); 4] = [
    ("exec", validate_exec),
    ("httpGet", validate_http_get),
    ("tcpSocket", validate_tcp_socket),
    ("sleep", validate_sleep),
];

/// `validateHandler`: exactly one handler is there, and that one is well.
fn validate_handler(
    handler: &Field<'_, '_>,
    handlers: &[(&str, HandlerCheck)],
    grace: Option<i64>,
    errors: &mut Errors,
) {
    let mut found = false;
    for (name, check) in handlers {
        let action = handler.child(name);
        if !action.is_set() {
            continue;
        }
        if found {
            errors.push(action.forbidden("may not specify more than 1 handler type"));
        } else {
            check(&action, grace, errors);
        }
        found = true;
    }
    if !found {
        errors.push(handler.required("must specify a handler type"));
    }
}

fn validate_exec(action: &Field<'_, '_>, _grace: Option<i64>, errors: &mut Errors) {
    let command = action.child("command");
    if command.is_empty() {
        errors.push(command.required(""));
    }
}

fn validate_http_get(action: &Field<'_, '_>, _grace: Option<i64>, errors: &mut Errors) {
    let path = action.child("path");
    if path.text().is_empty() {
        errors.push(path.required(""));
    }
    port_number_or_name(&action.child("port"), errors);
    let scheme = action.child("scheme");
    if !matches!(scheme.text(), "HTTP" | "HTTPS") {
        errors.push(scheme.not_supported(&["HTTP", "HTTPS"]));
    }
    for header in action.child("httpHeaders").items() {
        let name = header.child("name");
        let text = name.text();
        let allowed = |byte: u8| byte == b'-' || byte.is_ascii_alphanumeric();
        if text.is_empty() || !text.bytes().all(allowed) {
            // The reference gives this place without the index of the header.
            let place = action.path().child("httpHeaders");
            errors.push(holdfast_resource::FieldError::invalid(&place, text, HEADER_NAME));
        }
    }
}

const HEADER_NAME: &str = "a valid HTTP header must consist of alphanumeric characters or '-' (e.g. 'X-Header-Name', regex used \
     for validation is '[-A-Za-z0-9]+')";

fn validate_tcp_socket(action: &Field<'_, '_>, _grace: Option<i64>, errors: &mut Errors) {
    port_number_or_name(&action.child("port"), errors);
}

fn validate_grpc(action: &Field<'_, '_>, _grace: Option<i64>, errors: &mut Errors) {
    port_number(&action.child("port"), errors);
}

/// `validateSleepAction`: a Pod does not sleep longer than it has to end.
fn validate_sleep(action: &Field<'_, '_>, grace: Option<i64>, errors: &mut Errors) {
    let seconds = action.child("seconds").number().unwrap_or_default();
    if let Some(grace) = grace.filter(|grace| !(0..=*grace).contains(&seconds)) {
        errors.push(action.invalid_as(
            seconds,
            format!("must be non-negative and less than terminationGracePeriodSeconds ({grace})"),
        ));
    }
}
