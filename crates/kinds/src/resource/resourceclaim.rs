//! ResourceClaims: device requests and their allocation.

use holdfast_kind_tables::Kind;
use holdfast_kind_tables::features::{Feature, Features};
use holdfast_kind_tables::metadata_checks::{COMMON_CHECKS, at_creation, in_order};
use holdfast_resource::table::{NamedCell, items};
use holdfast_resource::{Rejection, Strategy, WriteContext};
use holdfast_schema::metadata::validate_metadata;
use holdfast_schema::{CreationChecks, Field, FieldError, NoRules, UpdateOrder};
use holdfast_value::Value;

use super::admin_access;
use super::allocation::{StatusRules, prepare_status};
use super::requests::{RequestRules, default_devices, prepare_spec};
use super::status_rights;
use crate::config::Config;
use crate::kind::kind;
use crate::quota;
use crate::validation::Errors;

/// Strategy of ResourceClaims.
pub(crate) struct ResourceClaim {
    pub(super) features: Features,
}

/// Returns the kind with its capabilities.
pub(super) fn declare(config: &Config) -> Kind {
    kind(ResourceClaim {
        features: config.features,
    })
    .cells(CELLS)
    .raw(&[&["spec", "devices", "config", "opaque", "parameters"]], Some("spec"))
    .raw_in_status(&[
        &["status", "allocation", "devices", "config", "opaque", "parameters"],
        &["status", "devices", "data"],
    ])
    .takes_of_quotas(quota::DeviceClaims)
    .empty_status()
    .read_by(super::at_rest::claim)
    .converts_by(config, super::GROUP, super::versions::CLAIMS)
    .metadata_checks(in_order(
        UpdateOrder::WholeFirst,
        at_creation(COMMON_CHECKS, CreationChecks::Own),
    ))
    .done()
}

impl Strategy for ResourceClaim {
    /// upstream: pkg/apis/resource/v1#SetDefaults_ExactDeviceRequest
    /// upstream: pkg/apis/resource/v1#SetDefaults_DeviceSubRequest
    fn default_fields(&self, version: &str, object: &mut Value) {
        if let Some(devices) = object.at_mut(&["spec", "devices"]) {
            default_devices(version, devices);
        }
    }

    /// upstream: pkg/registry/resource/resourceclaim#resourceclaimStrategy.PrepareForCreate
    fn prepare_for_create(&self, _context: &WriteContext<'_>, object: &mut Value) -> Result<(), Rejection> {
        prepare_spec(object, &["spec"]);
        Ok(())
    }

    /// upstream: pkg/registry/resource/resourceclaim#resourceclaimStrategy.PrepareForUpdate
    /// upstream: pkg/registry/resource/resourceclaim#resourceclaimStatusStrategy.PrepareForUpdate
    fn prepare_for_update(&self, context: &WriteContext<'_>, object: &mut Value, old: &Value) -> Result<(), Rejection> {
        if context.subresource == Some("status") {
            prepare_status(object, old);
        } else {
            prepare_spec(object, &["spec"]);
        }
        Ok(())
    }

    /// upstream: pkg/registry/resource/resourceclaim#resourceclaimStrategy.Validate
    fn validate(&self, context: &WriteContext<'_>, object: &Value) -> Vec<FieldError> {
        let devices = object.at(&["spec", "devices"]);
        let mut errors = Errors::new();
        admin_access::validate_requests(context, &Field::placed(devices, ""), &mut errors);
        errors.extend(validate_metadata(&context.resource.metadata_rules(), object));
        errors.extend(context.check(object, &RequestRules::new(devices)));
        errors
    }

    /// upstream: pkg/registry/resource/resourceclaim#resourceclaimStrategy.ValidateUpdate
    /// upstream: pkg/registry/resource/resourceclaim#resourceclaimStatusStrategy.ValidateUpdate
    fn validate_update(&self, context: &WriteContext<'_>, object: &Value, before: &Value) -> Vec<FieldError> {
        let (root, old) = (Field::root(object), Field::root(before));
        let mut errors = Errors::new();
        if context.subresource == Some("status") {
            let (status, old_status) = (root.child("status"), old.child("status"));
            admin_access::validate_results(context, &status, &old_status, &mut errors);
            if self.features.has(Feature::DRAResourceClaimGranularStatusAuthorization) {
                let of_devices = self.features.has(Feature::DRAResourceClaimDeviceStatus);
                status_rights::validate(context, &status, &old_status, of_devices, &mut errors);
            }
            errors.extend(context.check(object, &StatusRules::new(object, before)));
        } else {
            errors = context.check_changes(object, before, &NoRules);
        }
        errors
    }
}

/// Table cells that are not just the value at a path.
pub(super) const CELLS: &[NamedCell] = &[("resource-claim-state", |object, _| resource_claim_state(object))];

fn resource_claim_state(claim: &Value) -> Value {
    let deleted = claim.at(&["metadata", "deletionTimestamp"]).is_some();
    let allocated = claim
        .at(&["status", "allocation"])
        .is_some_and(|found| !found.is_null());
    let reserved = !items(claim, &["status", "reservedFor"]).is_empty();
    let all_states = [
        (deleted, "deleted"),
        (!allocated && !deleted, "pending"),
        (allocated, "allocated"),
        (allocated && reserved, "reserved"),
    ];
    let states = all_states.iter().filter(|(holds, _)| *holds).map(|(_, name)| *name);
    states.collect::<Vec<_>>().join(",").into()
}

#[cfg(test)]
mod tests {
    use crate::harness::{Harness, at};

    fn claim(devices: &str) -> String {
        format!(
            "{{apiVersion: resource.k8s.io/v1, kind: ResourceClaim, metadata: {{name: a}}, spec: {{devices: \
             {{{devices}}}}}}}"
        )
    }

    const ONE: &str = "requests: [{name: r, exactly: {deviceClassName: c.example.com}}]";

    #[test]
    fn one_device_is_requested_by_default() {
        let object = Harness::new().create(&claim(ONE));
        assert_eq!(at(&object, "spec.devices.requests.0.exactly.count"), "1");
        let all = claim("requests: [{name: r, exactly: {deviceClassName: c, allocationMode: All}}]");
        assert_eq!(
            at(&Harness::new().create(&all), "spec.devices.requests.0.exactly.count"),
            "nothing"
        );
        let first = claim("requests: [{name: r, firstAvailable: [{name: s, deviceClassName: c}]}]");
        let object = Harness::new().create(&first);
        assert_eq!(at(&object, "spec.devices.requests.0.firstAvailable.0.count"), "1");
    }

    #[test]
    fn requests_are_of_one_sort_and_differ_by_name() {
        let errors = |devices: &str| Harness::new().errors(&claim(devices));
        assert_eq!(
            errors("requests: [{name: r}]"),
            ["spec.devices.requests[0]: Required value: exactly one of `exactly` or `firstAvailable` is required"]
        );
        let twice = "requests: [{name: r, exactly: {deviceClassName: c}}, {name: r, exactly: {deviceClassName: c}}]";
        assert_eq!(errors(twice), [r#"spec.devices.requests[1]: Duplicate value: "r""#]);
        assert_eq!(
            errors(&format!("{ONE}, constraints: [{{matchAttribute: bad}}]")),
            [
                "spec.devices.constraints[0].matchAttribute: Invalid value: \"bad\": a fully qualified name must be a domain \
                 and a name separated by a slash"
            ]
        );
    }

    #[test]
    fn result_without_request_or_changed_spec_is_rejected() {
        let harness = Harness::new();
        let status = |request: &str| {
            let allocation = format!(
                "status: {{allocation: {{devices: {{results: [{{request: {request}, driver: d, pool: p, device: x}}]}}}}}}}}"
            );
            claim(ONE).trim_end_matches('}').to_owned() + "}}, " + &allocation
        };
        assert_eq!(
            harness.subresource_errors(Some("status"), &claim(ONE), &status("nope")),
            [
                "status.allocation.devices.results[0].request: Invalid value: \"nope\": must be the name of a request in the \
                 claim or the name of a request and a subrequest separated by '/'"
            ]
        );
        let empty = Vec::<String>::new();
        assert_eq!(
            harness.subresource_errors(Some("status"), &claim(ONE), &status("r")),
            empty
        );
        let other = claim("requests: []");
        assert_eq!(harness.update_errors(&claim(ONE), &other).len(), 1);
    }
}
