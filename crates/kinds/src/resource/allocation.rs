//! Status of a ResourceClaim: allocated devices, their status, and the consumers that the claim is reserved for.

use std::collections::HashSet;

use holdfast_schema::{Check, Field, FieldError, Part, Rules};
use holdfast_value::Value;

use super::names::{own_text, validate_binding_conditions, validate_set, validate_uid};
use super::requests::{RequestRules, Stored, validate_raw};
use crate::defaults::{change_items, none_if_empty};
use crate::rules::ClaimStatusRule;
use crate::validation::addresses::interface_address;
use crate::validation::{Errors, immutable, same};

/// Maximum size of a device's data in bytes.
const DATA: usize = 10 * 1024;
const ADDRESSES: usize = 16;

/// Identity of a device, including its share.
#[derive(PartialEq, Eq, Hash)]
struct DeviceId<'v>([&'v str; 4]);

impl<'v> DeviceId<'v> {
    const PARTS: [&'static str; 4] = ["driver", "pool", "device", "shareID"];

    fn from_device(device: &'v Value) -> Self {
        Self(Self::PARTS.map(|part| device.str_at(&[part]).unwrap_or_default()))
    }

    /// Returns the identity as errors show it, with the fields in the order of the reference.
    fn shown(&self) -> String {
        let names = ["Driver", "Pool", "Device", "ShareID"];
        let parts = names
            .iter()
            .zip(self.0)
            .map(|(name, part)| format!("\"{name}\":{}", Value::from(part)));
        format!("{{{}}}", parts.collect::<Vec<_>>().join(","))
    }
}

/// Returns the devices that a status allocates.
fn allocated(status: Option<&Value>) -> HashSet<DeviceId<'_>> {
    let results = status
        .and_then(|status| status.at(&["allocation", "devices", "results"]))
        .and_then(Value::as_list)
        .into_iter()
        .flatten();
    results.map(DeviceId::from_device).collect()
}

/// Prepares a status for storage: removes the status of devices that are no longer allocated.
///
/// upstream: pkg/registry/resource/resourceclaim#dropDeallocatedStatusDevices
pub(super) fn prepare_status(claim: &mut Value, old: &Value) {
    let mut gone = allocated(old.get("status"));
    for device in allocated(claim.get("status")) {
        gone.remove(&device);
    }
    let Some(status) = claim.at(&["status"]) else {
        return;
    };
    let devices = status.get("devices").and_then(Value::as_list);
    if !gone.is_empty()
        && devices.is_some_and(|devices| devices.iter().any(|one| gone.contains(&DeviceId::from_device(one))))
    {
        let kept: Vec<Value> = devices
            .into_iter()
            .flatten()
            .filter(|one| !gone.contains(&DeviceId::from_device(one)))
            .cloned()
            .collect();
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

/// Hand-written checks of `validateResourceClaimStatusUpdate`.
pub(super) struct StatusRules<'v> {
    devices: RequestRules<'v>,
    allocated: HashSet<DeviceId<'v>>,
    /// True if the claim has been deleted and waits for its finalizers.
    is_ending: bool,
    /// Status of the old object.
    old: Field<'v, 'v>,
}

impl<'v> StatusRules<'v> {
    /// Returns the rules for the status of `claim`, which replaces that of `old`.
    pub(super) fn new(claim: &'v Value, old: &'v Value) -> Self {
        let deletion = claim.at(&["metadata", "deletionTimestamp"]);
        Self {
            devices: RequestRules::new(claim.at(&["spec", "devices"])),
            allocated: allocated(claim.get("status")),
            is_ending: deletion.is_some_and(|time| !time.is_null()),
            old: Field::placed(old.get("status"), "status"),
        }
    }
}

impl<'v> Rules<'v> for StatusRules<'v> {
    type Rule = ClaimStatusRule;

    fn rule(&self, rule: ClaimStatusRule, part: &Part<'v, '_>, check: &mut Check<'_>) {
        let errors = &mut check.errors;
        match rule {
            ClaimStatusRule::Devices => report_repeated_devices(&part.child("devices"), errors),
            ClaimStatusRule::Reserved => self.validate_reserved(part, errors),
            ClaimStatusRule::Allocation => self.validate_allocation(part, check),
            ClaimStatusRule::Selector => validate_selector(&part.child("nodeSelector"), errors),
            ClaimStatusRule::Request => self.devices.names.validate(&part.child("request"), errors),
            ClaimStatusRule::Binding => validate_binding_conditions(part, errors),
            ClaimStatusRule::Share => validate_share(part, errors),
            ClaimStatusRule::Allocated => self.validate_allocated(part, errors),
            ClaimStatusRule::Data => validate_data(&part.child("data"), errors),
            ClaimStatusRule::Addresses => {
                let addresses = part.child("ips");
                validate_set(&addresses, ADDRESSES, errors, interface_address, own_text);
            }
            ClaimStatusRule::DeviceRequest(rule) => self.devices.rule(rule, part, check),
        }
    }
}

impl<'v> StatusRules<'v> {
    /// Validates that only an allocated claim is reserved, and that a claim being deleted gets no new consumers.
    ///
    /// upstream: pkg/apis/resource/validation#validateResourceClaimStatusUpdate
    fn validate_reserved(&self, status: &Field<'_, '_>, errors: &mut Errors) {
        let reserved = status.child("reservedFor");
        if !reserved.is_empty() && !status.child("allocation").is_set() {
            errors.push(reserved.forbidden("may not be specified when `allocated` is not set"));
        } else if self.is_ending {
            let before = self.old.child("reservedFor");
            let is_new = |consumer: &Value| !before.slice().iter().any(|known| same(Some(known), Some(consumer)));
            if reserved.slice().iter().any(is_new) {
                errors.push(reserved.forbidden(
                    "new entries may not be added while `deallocationRequested` or `deletionTimestamp` are set",
                ));
            }
        }
    }

    /// Checks that the status belongs to a device of the claim.
    ///
    /// upstream: pkg/apis/resource/validation#validateDeviceStatus
    fn validate_allocated(&self, device: &Field<'_, '_>, errors: &mut Errors) {
        let id = DeviceId::from_device(device.value().unwrap_or(&Value::Null));
        if !self.allocated.contains(&id) {
            let why = format!("{}: must be an allocated device in the claim", id.shown());
            errors.push(FieldError {
                value: None,
                ..device.invalid(why)
            });
        }
    }

    /// Validates that an existing allocation is not changed.
    ///
    /// upstream: pkg/apis/resource/validation#validateResourceClaimStatusUpdate
    fn validate_allocation(&self, status: &Part<'v, '_>, check: &mut Check<'_>) {
        let (allocation, before) = (status.child("allocation"), self.old.child("allocation"));
        if allocation.is_set() && before.is_set() {
            immutable(&allocation, &before, &mut check.errors);
        } else {
            check.field(status, "allocation", self);
        }
    }
}

/// upstream: pkg/apis/resource/validation#validateDeviceAllocationResult
fn validate_selector(selector: &Field<'_, '_>, errors: &mut Errors) {
    if selector.is_set() {
        crate::pod_spec::validate_node_selector(selector, errors);
    }
}

/// upstream: pkg/apis/resource/validation#validateDeviceStatus
fn validate_data(data: &Field<'_, '_>, errors: &mut Errors) {
    if data.is_set() {
        validate_raw(data, DATA, Stored::No, errors);
    }
}

/// upstream: pkg/apis/resource/validation#validateDeviceRequestAllocationResult
fn validate_share(device: &Field<'_, '_>, errors: &mut Errors) {
    let share = device.child("shareID");
    if share.is_set() {
        validate_uid(&share, errors);
    }
}

/// Reports devices that have more than one status.
fn report_repeated_devices(devices: &Field<'_, '_>, errors: &mut Errors) {
    let mut seen = HashSet::new();
    for (device, value) in devices.items().zip(devices.slice()) {
        let id = DeviceId::from_device(value);
        let shown = id.shown();
        if !seen.insert(id) {
            errors.push(FieldError {
                value: None,
                ..device.duplicate().with_detail(shown)
            });
        }
    }
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
        let messages = errors(&device("other"));
        assert!(
            messages.len() == 1 && messages[0].ends_with("must be an allocated device in the claim"),
            "{messages:?}"
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
    fn status_of_deallocated_device_is_dropped() {
        let devices = "devices: [{driver: d, pool: p, device: x}]";
        let harness = Harness::new();
        let old = harness.read(&claim(&format!("{ALLOCATION}, {devices}")));
        let mut new = harness.read(&claim(devices));
        super::prepare_status(&mut new, &old);
        assert_eq!(at(&new, "status.devices"), "nothing");
    }

    #[test]
    fn admin_access_needs_leave_of_the_namespace() {
        let request = CLAIM.replace("deviceClassName: c", "deviceClassName: c, adminAccess: true");
        let asking = format!("{{{request}}}");
        let messages = Harness::new().errors(&asking);
        assert!(
            messages.len() == 1 && messages[0].starts_with("spec.devices.requests[0].adminAccess: Forbidden: "),
            "{messages:?}"
        );
        let namespace = "{apiVersion: v1, kind: Namespace, metadata: {name: default, labels: \
                         {resource.kubernetes.io/admin-access: 'true'}}}";
        assert!(Harness::new().with(namespace).errors(&asking).is_empty());
        let with_access = ALLOCATION.replace("device: x", "device: x, adminAccess: true");
        assert_eq!(errors(&with_access).len(), 1);
    }
}
