//! LeaseCandidates: candidates for holding a Lease
//! (<https://kubernetes.io/docs/concepts/cluster-administration/coordinated-leader-election/>).

use std::cmp::Ordering;

use holdfast_cel::Version;
use holdfast_kind_tables::Kind;
use holdfast_kind_tables::metadata_checks::of_apimachinery;
use holdfast_resource::{Strategy, WriteContext};
use holdfast_schema::metadata::formats::{config_key, qualified_name};
use holdfast_schema::{Field, FieldError};
use holdfast_value::Value;

use crate::config::Config;
use crate::kind::kind;
use crate::validation::{Errors, immutable_text, report};
use crate::versions::Versions;

/// Strategy of LeaseCandidates.
pub(crate) struct LeaseCandidate;

const OLDEST: &str = "OldestEmulationVersion";

/// API versions of LeaseCandidates.
const CANDIDATES: Versions = Versions::alike(&["coordination.k8s.io/v1beta1", "coordination.k8s.io/v1alpha2"]);

/// Returns the kind with its capabilities.
pub(super) fn declare(config: &Config) -> Kind {
    kind(LeaseCandidate)
        .named_by(|_, name| config_key(name))
        .metadata_checks(of_apimachinery(0, 1))
        .converts_by(config, "coordination.k8s.io", CANDIDATES)
        .done()
}

impl Strategy for LeaseCandidate {
    /// upstream: pkg/registry/coordination/leasecandidate#LeaseCandidateStrategy.Validate
    fn validate(&self, _context: &WriteContext<'_>, object: &Value) -> Vec<FieldError> {
        let mut errors = Errors::new();
        validate_spec(&Field::root(object).child("spec"), &mut errors);
        errors
    }

    /// upstream: pkg/registry/coordination/leasecandidate#LeaseCandidateStrategy.ValidateUpdate
    fn validate_update(&self, context: &WriteContext<'_>, object: &Value, old: &Value) -> Vec<FieldError> {
        let mut errors = self.validate(context, object);
        let (root, old_root) = (Field::root(object), Field::root(old));
        let (spec, old_spec) = (root.child("spec"), old_root.child("spec"));
        immutable_text(&spec.child("leaseName"), &old_spec.child("leaseName"), &mut errors);
        errors
    }
}

/// Returns the version in a field; `None` if it is empty or invalid. Reports an invalid one.
///
/// upstream: pkg/apis/coordination/validation#ValidateLeaseCandidateSpec
fn version(field: &Field<'_, '_>, errors: &mut Errors) -> Option<Version> {
    if field.text().is_empty() {
        return None;
    }
    let version = Version::parse(field.text());
    if version.is_err() {
        errors.push(field.invalid("must be a valid semantic version"));
    }
    version.ok()
}

/// upstream: pkg/apis/coordination/validation#ValidateLeaseCandidateSpec
fn validate_spec(spec: &Field<'_, '_>, errors: &mut Errors) {
    let (name, strategy) = (spec.child("leaseName"), spec.child("strategy"));
    if name.text().is_empty() {
        errors.push(name.required(""));
    }
    let (emulated, binary) = (spec.child("emulationVersion"), spec.child("binaryVersion"));
    let emulated_version = version(&emulated, errors);
    if binary.text().is_empty() {
        errors.push(binary.required(""));
    }
    let binary_version = version(&binary, errors);
    // An invalid version counts as 0.0.0.
    let zero = || Version::parse("0.0.0").ok();
    if !binary.text().is_empty()
        && !emulated.text().is_empty()
        && let (Some(binary_version), Some(emulated_version)) =
            (binary_version.or_else(zero), emulated_version.clone().or_else(zero))
        && binary_version.compare(&emulated_version) == Ordering::Less
    {
        errors.push(binary.invalid("must be greater than or equal to `emulationVersion`"));
    }
    if strategy.text().is_empty() {
        errors.push(strategy.required(""));
        return;
    }
    let is_zero = |version: &Version| zero().is_some_and(|zero| version.compare(&zero) == Ordering::Equal);
    if strategy.text() == OLDEST && emulated_version.as_ref().is_none_or(is_zero) {
        errors.push(emulated.required("must be specified when `strategy` is 'OldestEmulationVersion'"));
    }
    validate_strategy(&strategy, errors);
}

/// Validates the strategy of a coordinated lease. Error paths repeat the field name.
///
/// upstream: pkg/apis/coordination/validation#ValidateCoordinatedLeaseStrategy
pub(super) fn validate_strategy(strategy: &Field<'_, '_>, errors: &mut Errors) {
    let twice = strategy.shown_as("strategy");
    if !strategy.text().contains('/') {
        if strategy.text() != OLDEST {
            errors.push(twice.not_supported(&[OLDEST]));
        }
        return;
    }
    report(&twice, qualified_name(strategy.text()), errors);
}

#[cfg(test)]
mod tests {
    use crate::harness::Harness;

    fn candidate(spec: &str) -> String {
        format!(
            "{{apiVersion: coordination.k8s.io/v1beta1, kind: LeaseCandidate, metadata: {{name: a, namespace: b}}, spec: {{{spec}}}}}"
        )
    }

    #[test]
    fn a_candidate_says_its_lease_versions_and_strategy() {
        let harness = Harness::serving("api/beta=true", "");
        let good = "leaseName: l, binaryVersion: 1.36.0, emulationVersion: 1.35.0, strategy: OldestEmulationVersion";
        assert_eq!(harness.errors(&candidate(good)), Vec::<String>::new());
        assert_eq!(
            harness.errors(&candidate(
                "leaseName: '', binaryVersion: x, strategy: OldestEmulationVersion"
            )),
            [
                "spec.leaseName: Required value",
                r#"spec.binaryVersion: Invalid value: "x": must be a valid semantic version"#,
                "spec.emulationVersion: Required value: must be specified when `strategy` is 'OldestEmulationVersion'",
            ]
        );
        assert_eq!(
            harness.errors(&candidate(
                "leaseName: l, binaryVersion: 1.35.0, emulationVersion: 1.36.0, strategy: Odd"
            )),
            [
                r#"spec.binaryVersion: Invalid value: "1.35.0": must be greater than or equal to `emulationVersion`"#,
                r#"spec.strategy.strategy: Unsupported value: "Odd": supported values: "OldestEmulationVersion""#,
            ]
        );
    }
}
