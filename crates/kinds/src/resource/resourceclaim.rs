//! ResourceClaims: devices that are asked for, and those that were given.

use std::collections::HashSet;

use holdfast_resource::metadata::formats::dns_label;
use holdfast_resource::{Field, FieldError, Strategy, WriteContext};
use holdfast_value::Value;

use super::requests::{
    RequestNames, bounded, default_devices, validate_configurations, validate_devices, validate_driver, validate_pool,
};
use crate::validation::{Errors, immutable, report, same};

/// What only ResourceClaims do.
pub(crate) struct ResourceClaim;

const RESERVED: usize = 256;
const RESULTS: usize = 32;

impl Strategy for ResourceClaim {
    fn default_fields(&self, _version: &str, object: &mut Value) {
        if let Some(devices) = object.at_mut(&["spec", "devices"]) {
            default_devices(devices);
        }
    }

    fn validate(&self, _context: &WriteContext<'_>, object: &Value) -> Vec<FieldError> {
        let root = Field::root(object);
        let spec = root.child("spec");
        let mut errors = Errors::new();
        validate_devices(&spec.child("devices"), &mut errors);
        errors
    }

    fn validate_update(&self, context: &WriteContext<'_>, object: &Value, old: &Value) -> Vec<FieldError> {
        let (root, old) = (Field::root(object), Field::root(old));
        let mut errors = Errors::new();
        if context.subresource == Some("status") {
            validate_status(&root, &old, &mut errors);
        } else {
            immutable(&root.child("spec"), &old.child("spec"), &mut errors);
        }
        errors
    }
}

fn validate_status(claim: &Field<'_, '_>, old: &Field<'_, '_>, errors: &mut Errors) {
    let (status, old_status, spec) = (claim.child("status"), old.child("status"), claim.child("spec"));
    let (reserved, allocation) = (status.child("reservedFor"), status.child("allocation"));
    bounded(&reserved, RESERVED, errors);
    let mut uids = HashSet::new();
    for consumer in reserved.items() {
        for part in ["resource", "name", "uid"] {
            let part = consumer.child(part);
            if part.text().is_empty() {
                errors.push(part.required(""));
            }
        }
        let uid = consumer.child("uid");
        if !uids.insert(uid.text()) {
            errors.push(FieldError::duplicate(&consumer.path(), uid.text()));
        }
    }
    if !reserved.is_empty() && !allocation.is_set() {
        errors.push(reserved.forbidden("may not be specified when `allocated` is not set"));
    } else if claim.child("metadata").child("deletionTimestamp").is_set() {
        let before = old_status.child("reservedFor");
        let is_new = |consumer: &Value| !before.slice().iter().any(|known| same(Some(known), Some(consumer)));
        if reserved.slice().iter().any(is_new) {
            errors.push(reserved.forbidden(
                "new entries may not be added while `deallocationRequested` or `deletionTimestamp` are set",
            ));
        }
    }
    let before = old_status.child("allocation");
    if before.is_set() && allocation.is_set() {
        immutable(&allocation, &before, errors);
    } else if allocation.is_set() {
        let names = RequestNames::of(&spec.child("devices"));
        validate_results(&allocation.child("devices"), &names, errors);
    }
}

fn validate_results(devices: &Field<'_, '_>, names: &RequestNames, errors: &mut Errors) {
    let results = devices.child("results");
    bounded(&results, RESULTS, errors);
    for result in results.items() {
        names.validate(&result.child("request"), errors);
        validate_driver(&result.child("driver"), errors);
        validate_pool(&result.child("pool"), errors);
        let device = result.child("device");
        report(&device, dns_label(device.text()), errors);
    }
    validate_configurations(&devices.child("config"), errors);
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
    fn one_device_is_asked_for_where_nothing_is_said() {
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
    fn results_name_requests_of_the_claim_and_the_spec_never_changes() {
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
