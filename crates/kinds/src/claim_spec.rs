//! Specification of a volume claim, in a PersistentVolumeClaim and in the claim templates of Pods and StatefulSets.

use holdfast_schema::metadata::formats::{dns_label, dns_subdomain};
use holdfast_schema::{Check, Field, FieldError, Part, Rules};
use holdfast_value::Value;

use crate::rules::PersistentVolumeClaimRule;
use crate::validation::resources::quantity;
use crate::validation::{Errors, optional_text};

/// Access modes, as messages list them.
const ACCESS_MODES: [&str; 4] = ["ReadOnlyMany", "ReadWriteMany", "ReadWriteOnce", "ReadWriteOncePod"];

/// Checks of `ValidatePersistentVolumeClaimSpec` in code.
pub(crate) struct ClaimRules;

impl<'v> Rules<'v> for ClaimRules {
    type Rule = PersistentVolumeClaimRule;

    fn rule(&self, rule: PersistentVolumeClaimRule, spec: &Part<'v, '_>, check: &mut Check<'_>) {
        let errors = &mut check.errors;
        match rule {
            PersistentVolumeClaimRule::AccessModes => validate_access_modes(&spec.child("accessModes"), errors),
            PersistentVolumeClaimRule::Storage => validate_storage(spec, errors),
            PersistentVolumeClaimRule::DataSources => {
                validate_source(&spec.child("dataSource"), errors);
                validate_source(&spec.child("dataSourceRef"), errors);
                validate_sources_agree(spec, errors);
            }
        }
    }
}

/// Validates that a claim requests storage.
///
/// upstream: pkg/apis/core/validation#ValidatePersistentVolumeClaimSpec
fn validate_storage(spec: &Field<'_, '_>, errors: &mut Errors) {
    let resources = spec.child("resources");
    // The reference reports the list of requests under the name of the resources.
    let requests = resources.child("requests");
    let path = resources.path();
    let shown = Field::placed(requests.value(), path.as_str());
    let storage = shown.entry("storage");
    match quantity(&storage) {
        None => errors.push(storage.required("")),
        Some(amount) if !amount.is_positive() => errors.push(storage.invalid("must be greater than zero")),
        Some(_) => {}
    }
}

/// Reports two sources that differ, or a source in another namespace together with `dataSource`.
///
/// upstream: pkg/apis/core/validation#ValidatePersistentVolumeClaimSpec
fn validate_sources_agree(spec: &Field<'_, '_>, errors: &mut Errors) {
    let (source, reference) = (spec.child("dataSource"), spec.child("dataSourceRef"));
    if !source.is_set() || !reference.is_set() {
        return;
    }
    let group = |source: &Field<'_, '_>| source.child("apiGroup").value().cloned();
    let alike = group(&source) == group(&reference)
        && ["kind", "name"]
            .iter()
            .all(|part| source.child(part).text() == reference.child(part).text());
    let detail = match reference.child("namespace").text() {
        "" if alike => return,
        "" => "must match dataSourceRef",
        _ => "may not be specified when dataSourceRef.namespace is specified",
    };
    // The reference prints the path of the field here, which has no members to print.
    errors.push(spec.invalid_as(Value::empty_map(), detail));
}

/// Validates access modes: known ones; ReadWriteOncePod excludes all others.
///
/// upstream: pkg/apis/core/validation#ValidatePersistentVolumeClaimSpec
pub(crate) fn validate_access_modes(modes: &Field<'_, '_>, errors: &mut Errors) {
    let (mut alone, mut others) = (false, false);
    for mode in modes.items() {
        if !ACCESS_MODES.contains(&mode.text()) {
            errors.push(FieldError::not_supported(&modes.path(), mode.text(), &ACCESS_MODES));
        } else if mode.text() == "ReadWriteOncePod" {
            alone = true;
        } else {
            others = true;
        }
    }
    if alone && others {
        errors.push(modes.forbidden("may not use ReadWriteOncePod with other access modes"));
    }
}

/// upstream: pkg/apis/core/validation#validateDataSource
/// upstream: pkg/apis/core/validation#validateDataSourceRef
fn validate_source(source: &Field<'_, '_>, errors: &mut Errors) {
    if !source.is_set() {
        return;
    }
    for part in ["name", "kind"] {
        let field = source.child(part);
        if field.text().is_empty() {
            errors.push(field.required(""));
        }
    }
    let (group, kind) = (source.child("apiGroup").text(), source.child("kind").text());
    if group.is_empty() && kind != "PersistentVolumeClaim" {
        errors.push(source.invalid_as(
            kind,
            "must be 'PersistentVolumeClaim' when referencing the default apiGroup",
        ));
    }
    if !group.is_empty() {
        let messages = dns_subdomain(group);
        errors.extend(
            messages
                .into_iter()
                .map(|message| source.child("apiGroup").invalid(message)),
        );
    }
    optional_text(&source.child("namespace"), dns_label, errors);
}
