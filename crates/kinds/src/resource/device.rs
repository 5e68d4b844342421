//! Devices of a ResourceSlice.

use std::time::SystemTime;

use holdfast_schema::metadata::formats::dns_subdomain;
use holdfast_schema::{Check, Field, Part, Rules};
use holdfast_value::Value;

use super::names::{QUALIFIED_NAME, validate_binding_conditions, validate_map, validate_qualified_name};
use super::request_policy::validate_request_policy;
use crate::defaults::change_items;
use crate::pod_spec::validate_node_selector;
use crate::rules::DeviceRule;
use crate::time::time_text;
use crate::validation::{Errors, report, same};

/// Maximum number of attributes and capacities of a device together.
const PROPERTIES: usize = 32;
const ATTRIBUTE_TEXT: usize = 64;

const PLACED: &str = "exactly one of `nodeName`, `nodeSelector`, or `allNodes` is required when `perDeviceNodeSelection` is set \
     to true in the ResourceSlice spec";
const NOT_PLACED: &str = "`nodeName`, `nodeSelector` and `allNodes` can only be set if `perDeviceNodeSelection` is set to true in \
     the ResourceSlice spec";

/// Sets the missing `timeAdded` of taints. The clock is only read if one is missing.
///
/// upstream: pkg/apis/resource/v1#SetDefaults_DeviceTaint
pub(super) fn default_taints(spec: &mut Value, now: impl Fn() -> SystemTime) {
    let lacks = |taint: &Value| taint.as_map().is_some_and(|taint| taint.get("timeAdded").is_none());
    let has_new = |device: &Value| {
        let taints = device.get("taints").and_then(Value::as_list);
        taints.is_some_and(|taints| taints.iter().any(lacks))
    };
    change_items(spec, "devices", has_new, |device| {
        change_items(device, "taints", lacks, |taint| {
            taint.set_at(&["timeAdded"], time_text(now()))
        });
    });
}

/// Hand-written checks of `validateDevice`.
pub(super) struct DeviceRules<'o> {
    /// Old device. Unchanged taints are not validated again.
    pub(super) old: Option<&'o Value>,
    /// True if each device specifies the nodes that can access it.
    pub(super) by_device: bool,
}

impl<'v> Rules<'v> for DeviceRules<'_> {
    type Rule = DeviceRule;

    fn rule(&self, rule: DeviceRule, part: &Part<'v, '_>, check: &mut Check<'_>) {
        match rule {
            DeviceRule::Properties => validate_properties(part, &mut check.errors),
            DeviceRule::Capacity => validate_capacity(part, &mut check.errors),
            DeviceRule::Taints if self.has(&part.child("taints"), "taints") => {}
            DeviceRule::Taints => check.field(part, "taints", self),
            DeviceRule::Place => validate_place(part, self.by_device, &mut check.errors),
            DeviceRule::Binding => validate_binding_conditions(part, &mut check.errors),
        }
    }
}

impl DeviceRules<'_> {
    /// Returns true if the field `name` is the same in the old device.
    fn has(&self, field: &Field<'_, '_>, name: &str) -> bool {
        self.old.is_some_and(|old| same(field.value(), old.get(name)))
    }
}

/// Validates how a device may be shared. This depends on another field, so unchanged capacities are validated too.
///
/// upstream: pkg/apis/resource/validation#validateDevice
fn validate_capacity(device: &Field<'_, '_>, errors: &mut Errors) {
    let check = match device.child("allowMultipleAllocations").is_true() {
        true => validate_request_policy,
        false => forbid_request_policy,
    };
    let capacity = device.child("capacity");
    validate_map(&capacity, QUALIFIED_NAME, errors, validate_qualified_name, check);
}

/// Validates the attributes of a device and its total number of properties.
///
/// upstream: pkg/apis/resource/validation#validateDevice
fn validate_properties(device: &Field<'_, '_>, errors: &mut Errors) {
    let attributes = device.child("attributes");
    let properties = attributes.len() + device.child("capacity").len();
    if properties > PROPERTIES {
        errors.push(device.invalid_as(
            properties as i64,
            format!("the total number of attributes and capacities must not exceed {PROPERTIES}"),
        ));
    }
    validate_map(
        &attributes,
        QUALIFIED_NAME,
        errors,
        validate_qualified_name,
        validate_attribute,
    );
}

/// upstream: pkg/apis/resource/validation#validateSingleAllocatableDeviceCapacity
fn forbid_request_policy(capacity: &Field<'_, '_>, errors: &mut Errors) {
    let policy = capacity.child("requestPolicy");
    if policy.is_set() {
        errors.push(policy.forbidden("allowMultipleAllocations must be true"));
    }
}

/// Validates the nodes that can access a device, if each device specifies them.
///
/// upstream: pkg/apis/resource/validation#validateDevice
fn validate_place(device: &Field<'_, '_>, by_device: bool, errors: &mut Errors) {
    let (node, selector, all) = (
        device.child("nodeName"),
        device.child("nodeSelector"),
        device.child("allNodes"),
    );
    if !by_device {
        if node.is_set() || selector.is_set() || all.is_set() {
            errors.push(device.invalid_as(Value::Null, NOT_PLACED));
        }
        return;
    }
    let mut fields = Vec::new();
    if node.is_set() && node.text().is_empty() {
        errors.push(node.invalid("must not be empty"));
    } else if node.is_set() {
        fields.push("`nodeName`");
        report(&node, dns_subdomain(node.text()), errors);
    }
    if selector.is_set() {
        fields.push("`nodeSelector`");
        validate_node_selector(&selector, errors);
    }
    if all.is_true() {
        fields.push("`allNodes`");
    } else if all.is_set() {
        errors.push(all.invalid("must be either unset or set to true"));
    }
    match fields.len() {
        0 => errors.push(device.required(PLACED)),
        1 => {}
        _ => errors.push(device.invalid_as(format!("{{{}}}", fields.join(", ")), PLACED)),
    }
}

/// upstream: pkg/apis/resource/validation#validateDeviceAttribute
fn validate_attribute(attribute: &Field<'_, '_>, errors: &mut Errors) {
    let (text, version) = (attribute.child("string"), attribute.child("version"));
    if text.text().len() > ATTRIBUTE_TEXT {
        errors.push(text.too_long(ATTRIBUTE_TEXT));
    }
    if version.is_set() {
        if !is_semantic_version(version.text()) {
            errors.push(version.invalid("must be a string compatible with semver.org spec 2.0.0"));
        }
        if version.text().len() > ATTRIBUTE_TEXT {
            errors.push(version.too_long(ATTRIBUTE_TEXT));
        }
    }
    match attribute.len() {
        1 => {}
        0 => errors.push(attribute.invalid_as("", "exactly one value must be specified")),
        _ => errors.push(attribute.invalid("exactly one value must be specified")),
    }
}

/// Returns true if a text is a version according to <https://semver.org/>.
fn is_semantic_version(text: &str) -> bool {
    let (rest, build) = text
        .split_once('+')
        .map_or((text, None), |(rest, build)| (rest, Some(build)));
    let (core, before) = rest
        .split_once('-')
        .map_or((rest, None), |(core, before)| (core, Some(before)));
    let word = |word: &str| !word.is_empty() && word.bytes().all(|byte| byte == b'-' || byte.is_ascii_alphanumeric());
    let digits = |word: &str| !word.is_empty() && word.bytes().all(|byte| byte.is_ascii_digit());
    let number = |word: &str| digits(word) && (word == "0" || !word.starts_with('0'));
    let release = core.split('.').count() == 3 && core.split('.').all(number);
    release
        && before.is_none_or(|before| {
            before
                .split('.')
                .all(|part| word(part) && (!digits(part) || number(part)))
        })
        && build.is_none_or(|build| build.split('.').all(word))
}

#[cfg(test)]
mod tests {
    use super::is_semantic_version;

    #[test]
    fn versions_are_semantic() {
        for version in ["1.0.0", "1.2.3-alpha.1+build.05", "0.0.0"] {
            assert!(is_semantic_version(version), "{version}");
        }
        for version in ["1.0", "01.0.0", "1.0.0-01", "1.0.0-", "v1.0.0", ""] {
            assert!(!is_semantic_version(version), "{version}");
        }
    }
}
