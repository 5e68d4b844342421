//! The status of a claim: which devices it got, what they say of themselves, and who may use them.

use std::collections::HashSet;

use holdfast_resource::metadata::formats::dns_label;
use holdfast_resource::{Field, FieldError};
use holdfast_value::Value;

use super::names::{
    exceeds, validate_binding_conditions, validate_driver, validate_pool, validate_set, validate_slice, validate_uid,
};
use super::requests::{RequestNames, Stored, validate_configuration, validate_raw, validate_toleration};
use crate::defaults::{change_items, none_if_empty};
use crate::validation::addresses::interface_address;
use crate::validation::conditions::validate_conditions;
use crate::validation::{Errors, immutable, one_of, report, required_fields, same};

const RESERVED: usize = 256;
const RESULTS: usize = 32;
/// The most configurations: those of the claim and of the class.
const CONFIGURATIONS: usize = 64;
const SOURCES: [&str; 2] = ["FromClaim", "FromClass"];
const CONDITIONS: usize = 8;
/// The largest data of a device, in bytes.
const DATA: usize = 10 * 1024;
const INTERFACE_NAME: usize = 256;
const HARDWARE_ADDRESS: usize = 128;
const ADDRESSES: usize = 16;

/// A device, and which share of it.
#[derive(PartialEq, Eq, Hash)]
struct DeviceId<'v>([&'v str; 4]);

impl<'v> DeviceId<'v> {
    const PARTS: [&'static str; 4] = ["driver", "pool", "device", "shareID"];

    fn of(device: &'v Value) -> Self {
        Self(Self::PARTS.map(|part| device.str_at(&[part]).unwrap_or_default()))
    }

    /// As errors show it, with its fields in the order of the reference.
    fn shown(&self) -> String {
        let names = ["Driver", "Pool", "Device", "ShareID"];
        let parts = names
            .iter()
            .zip(self.0)
            .map(|(name, part)| format!("\"{name}\":{}", Value::from(part)));
        format!("{{{}}}", parts.collect::<Vec<_>>().join(","))
    }
}

/// The devices that a status allocates.
fn allocated(status: Option<&Value>) -> HashSet<DeviceId<'_>> {
    let results = status.and_then(|status| status.at(&["allocation", "devices", "results"]));
    let results = results.and_then(Value::as_list).into_iter().flatten();
    results.map(DeviceId::of).collect()
}

/// What a status becomes when it is stored: of devices that are no longer allocated nothing is known
/// (`dropDeallocatedStatusDevices`).
pub(super) fn prepare_status(claim: &mut Value, old: &Value) {
    let mut gone = allocated(old.get("status"));
    for device in allocated(claim.get("status")) {
        gone.remove(&device);
    }
    let Some(status) = claim.at(&["status"]) else {
        return;
    };
    let devices = status.get("devices").and_then(Value::as_list);
    if !gone.is_empty() && devices.is_some_and(|devices| devices.iter().any(|one| gone.contains(&DeviceId::of(one)))) {
        let kept = devices.into_iter().flatten();
        let kept: Vec<Value> = kept.filter(|one| !gone.contains(&DeviceId::of(one))).cloned().collect();
        if kept.is_empty() {
            claim.remove_at(&["status", "devices"]);
        } else {
            claim.set_at(&["status", "devices"], kept.into());
        }
    }
    if let Some(status) = claim.at_mut(&["status"]) {
        let empty = |device: &Value| {
            device
                .get("conditions")
                .and_then(Value::as_list)
                .is_some_and(|list| list.is_empty())
        };
        change_items(status, "devices", empty, |device| {
            none_if_empty(device, &["conditions"])
        });
    }
}

/// `validateResourceClaimStatusUpdate`
pub(super) fn validate_status(claim: &Field<'_, '_>, old: &Field<'_, '_>, errors: &mut Errors) {
    let (status, old_status, spec) = (claim.child("status"), old.child("status"), claim.child("spec"));
    let (reserved, allocation) = (status.child("reservedFor"), status.child("allocation"));
    validate_set(&reserved, RESERVED, errors, validate_consumer, |consumer| {
        consumer.child("uid").text().into()
    });
    let given = allocated(status.value());
    validate_devices(&status.child("devices"), &given, errors);
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
        validate_allocation(&allocation, &RequestNames::of(&spec.child("devices")), errors);
    }
}

/// `validateResourceClaimUserReference`
fn validate_consumer(consumer: &Field<'_, '_>, errors: &mut Errors) {
    required_fields(consumer, &["resource", "name", "uid"], errors);
}

/// `validateAllocationResult`
fn validate_allocation(allocation: &Field<'_, '_>, names: &RequestNames<'_>, errors: &mut Errors) {
    let devices = allocation.child("devices");
    validate_slice(&devices.child("results"), RESULTS, errors, |result, errors| {
        validate_result(result, names, errors);
    });
    validate_slice(
        &devices.child("config"),
        CONFIGURATIONS,
        errors,
        |configuration, errors| {
            one_of(&configuration.child("source"), &SOURCES, errors);
            names.validate_references(&configuration.child("requests"), errors);
            validate_configuration(configuration, Stored::No, errors);
        },
    );
    let selector = allocation.child("nodeSelector");
    if selector.is_set() {
        crate::core::pod_spec::validate_node_selector(&selector, errors);
    }
}

/// `validateDeviceRequestAllocationResult`
fn validate_result(result: &Field<'_, '_>, names: &RequestNames<'_>, errors: &mut Errors) {
    names.validate(&result.child("request"), errors);
    validate_identity(result, errors);
    validate_binding_conditions(result, errors);
    for toleration in result.child("tolerations").items() {
        validate_toleration(&toleration, errors);
    }
    validate_share(result, errors);
}

/// The names of a device and of where it comes from.
fn validate_identity(device: &Field<'_, '_>, errors: &mut Errors) {
    validate_driver(&device.child("driver"), errors);
    validate_pool(&device.child("pool"), errors);
    let name = device.child("device");
    report(&name, dns_label(name.text()), errors);
}

fn validate_share(device: &Field<'_, '_>, errors: &mut Errors) {
    let share = device.child("shareID");
    if share.is_set() {
        validate_uid(&share, errors);
    }
}

/// What devices say of themselves; each once.
fn validate_devices(devices: &Field<'_, '_>, allocated: &HashSet<DeviceId<'_>>, errors: &mut Errors) {
    for device in devices.items() {
        validate_device(&device, allocated, errors);
    }
    let mut seen = HashSet::new();
    for (device, value) in devices.items().zip(devices.slice()) {
        let id = DeviceId::of(value);
        let shown = id.shown();
        if !seen.insert(id) {
            errors.push(FieldError {
                value: None,
                ..device.duplicate().with_detail(shown)
            });
        }
    }
}

/// `validateDeviceStatus`
fn validate_device(device: &Field<'_, '_>, allocated: &HashSet<DeviceId<'_>>, errors: &mut Errors) {
    validate_identity(device, errors);
    validate_share(device, errors);
    let id = DeviceId::of(device.value().unwrap_or(&Value::Null));
    if !allocated.contains(&id) {
        let why = format!("{}: must be an allocated device in the claim", id.shown());
        errors.push(FieldError {
            value: None,
            ..device.invalid(why)
        });
    }
    let conditions = device.child("conditions");
    exceeds(&conditions, CONDITIONS, errors);
    validate_conditions(&conditions, errors);
    let data = device.child("data");
    if data.is_set() {
        validate_raw(&data, DATA, Stored::No, errors);
    }
    validate_network(&device.child("networkData"), errors);
}

/// `validateNetworkDeviceData`
fn validate_network(network: &Field<'_, '_>, errors: &mut Errors) {
    for (part, most) in [("interfaceName", INTERFACE_NAME), ("hardwareAddress", HARDWARE_ADDRESS)] {
        let part = network.child(part);
        if part.text().len() > most {
            errors.push(part.too_long(most));
        }
    }
    let addresses = network.child("ips");
    validate_set(&addresses, ADDRESSES, errors, interface_address, super::names::own_text);
}

#[cfg(test)]
mod tests {
    use crate::harness::{Harness, at};

    const CLAIM: &str = "apiVersion: resource.k8s.io/v1, kind: ResourceClaim, metadata: {name: a}, spec: {devices: {requests: \
                         [{name: r, exactly: {deviceClassName: c}}]}}";
    const ALLOCATION: &str = "allocation: {devices: {results: [{request: r, driver: d, pool: p, device: x}]}}";

    fn claim(status: &str) -> String {
        format!("{{{CLAIM}, status: {{{status}}}}}")
    }

    fn errors(status: &str) -> Vec<String> {
        Harness::new().subresource_errors(Some("status"), &claim(""), &claim(status))
    }

    #[test]
    fn only_devices_of_the_claim_say_something() {
        let device = |name: &str| format!("{ALLOCATION}, devices: [{{driver: d, pool: p, device: {name}}}]");
        assert!(errors(&device("x")).is_empty(), "{:?}", errors(&device("x")));
        let told = errors(&device("other"));
        assert!(
            told.len() == 1 && told[0].ends_with("must be an allocated device in the claim"),
            "{told:?}"
        );
        let twice = "devices: [{driver: d, pool: p, device: x}, {driver: d, pool: p, device: x}]";
        assert!(
            errors(&format!("{ALLOCATION}, {twice}"))[0]
                .starts_with("status.devices[1]: Duplicate value: {\"Driver\":\"d\",\"Pool\":\"p\"")
        );
    }

    #[test]
    fn a_device_has_conditions_data_and_addresses() {
        let device = |more: &str| {
            errors(&format!(
                "{ALLOCATION}, devices: [{{driver: d, pool: p, device: x, {more}}}]"
            ))
        };
        assert_eq!(
            device("data: [1], networkData: {ips: [10.0.0.1/24, 010.0.0.1/24, x]}"),
            [
                r#"status.devices[0].data: Invalid value: "<value omitted>": must be a valid JSON object"#,
                r#"status.devices[0].networkData.ips[1]: Invalid value: "010.0.0.1/24": must be in canonical form ("10.0.0.1/24")"#,
                r#"status.devices[0].networkData.ips[2]: Invalid value: "x": must be a valid address in CIDR form, (e.g. 10.9.8.7/24 or 2001:db8::1/64)"#,
            ]
        );
        assert_eq!(device("conditions: [{}]").len(), 5);
    }

    #[test]
    fn what_is_no_longer_allocated_says_nothing() {
        let devices = "devices: [{driver: d, pool: p, device: x}]";
        let harness = Harness::new();
        let old = harness.read(&claim(&format!("{ALLOCATION}, {devices}")));
        let mut new = harness.read(&claim(devices));
        super::prepare_status(&mut new, &old);
        assert_eq!(at(&new, "status.devices"), "nothing");
    }

    #[test]
    fn admin_access_needs_leave_of_the_namespace() {
        let asking = CLAIM.replace("deviceClassName: c", "deviceClassName: c, adminAccess: true");
        let asking = format!("{{{asking}}}");
        let told = Harness::new().errors(&asking);
        assert!(
            told.len() == 1 && told[0].starts_with("spec.devices.requests[0].adminAccess: Forbidden: "),
            "{told:?}"
        );
        let namespace = "{apiVersion: v1, kind: Namespace, metadata: {name: default, labels: \
                         {resource.kubernetes.io/admin-access: 'true'}}}";
        assert!(Harness::new().with(namespace).errors(&asking).is_empty());
        let given = ALLOCATION.replace("device: x", "device: x, adminAccess: true");
        assert_eq!(errors(&given).len(), 1);
    }
}
