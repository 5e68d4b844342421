//! Probes and lifecycle hooks of a container.

use holdfast_schema::{Field, FieldError};

use crate::validation::Errors;

/// Validates that the success threshold of a liveness or startup probe is one.
///
/// upstream: pkg/apis/core/validation#validateLivenessProbe
/// upstream: pkg/apis/core/validation#validateStartupProbe
pub(super) fn validate_success_threshold(probe: &Field<'_, '_>, errors: &mut Errors) {
    let threshold = probe.child("successThreshold");
    if probe.is_set() && threshold.number() != Some(1) {
        errors.push(threshold.invalid_number("must be 1"));
    }
}

/// Validates that a readiness probe sets no field that it must not have.
///
/// upstream: pkg/apis/core/validation#validateReadinessProbe
pub(super) fn validate_readiness(probe: &Field<'_, '_>, errors: &mut Errors) {
    let grace = probe.child("terminationGracePeriodSeconds");
    if grace.is_set() {
        errors.push(grace.invalid("must not be set for readinessProbes"));
    }
}

/// Validates the headers of an HTTP action. The reference omits the index from their path.
///
/// upstream: pkg/apis/core/validation#validateHTTPGetAction
pub(super) fn validate_headers(action: &Field<'_, '_>, errors: &mut Errors) {
    for header in action.child("httpHeaders").items() {
        let name = header.child("name");
        let text = name.text();
        let allowed = |byte: u8| byte == b'-' || byte.is_ascii_alphanumeric();
        if text.is_empty() || !text.bytes().all(allowed) {
            let place = action.path().child("httpHeaders");
            errors.push(FieldError::invalid(&place, text, HEADER_NAME));
        }
    }
}

const HEADER_NAME: &str = "a valid HTTP header must consist of alphanumeric characters or '-' (e.g. 'X-Header-Name', regex used \
     for validation is '[-A-Za-z0-9]+')";

/// Validates that a sleep action is not longer than the grace period.
///
/// upstream: pkg/apis/core/validation#validateSleepAction
pub(super) fn validate_sleep(action: &Field<'_, '_>, grace: Option<i64>, errors: &mut Errors) {
    let seconds = action.child("seconds").number().unwrap_or_default();
    if let Some(grace) = grace.filter(|grace| !(0..=*grace).contains(&seconds)) {
        errors.push(action.invalid_as(
            seconds,
            format!("must be non-negative and less than terminationGracePeriodSeconds ({grace})"),
        ));
    }
}
