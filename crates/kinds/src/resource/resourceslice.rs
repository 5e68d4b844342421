//! ResourceSlices: the devices that a driver offers.

use std::collections::HashSet;

use holdfast_resource::metadata::formats::{dns_label, dns_subdomain};
use holdfast_resource::{Field, FieldError, Strategy, WriteContext};
use holdfast_value::Value;

use super::requests::{bounded, validate_driver, validate_pool, validate_qualified_name};
use crate::validation::{Errors, immutable, report, required_text};

/// What only ResourceSlices do.
pub(crate) struct ResourceSlice;

/// The most devices of a slice; fewer where they have taints or consume counters.
const DEVICES: usize = 128;
const ADVANCED_DEVICES: usize = 64;
/// The most attributes and capacities of a device, together.
const PROPERTIES: usize = 32;
const ATTRIBUTE_TEXT: usize = 64;
const TAINTS: usize = 16;
const TAINT_EFFECTS: [&str; 3] = ["NoExecute", "NoSchedule", "None"];

const WHERE: &str = "exactly one of `nodeName`, `nodeSelector`, `allNodes`, `perDeviceNodeSelection` is required";

impl Strategy for ResourceSlice {
    fn validate(&self, _context: &WriteContext<'_>, object: &Value) -> Vec<FieldError> {
        let mut errors = Errors::new();
        validate_spec(&Field::root(object).child("spec"), None, &mut errors);
        errors
    }

    fn validate_update(&self, _context: &WriteContext<'_>, object: &Value, old: &Value) -> Vec<FieldError> {
        let mut errors = Errors::new();
        let old = Field::root(old);
        validate_spec(
            &Field::root(object).child("spec"),
            Some(&old.child("spec")),
            &mut errors,
        );
        errors
    }
}

fn validate_spec(spec: &Field<'_, '_>, old: Option<&Field<'_, '_>>, errors: &mut Errors) {
    let (driver, pool) = (spec.child("driver"), spec.child("pool"));
    validate_driver(&driver, errors);
    let name = pool.child("name");
    validate_pool(&name, errors);
    let (slices, generation) = (pool.child("resourceSliceCount"), pool.child("generation"));
    let count = slices.number().unwrap_or_default();
    if count <= 0 {
        errors.push(slices.invalid_as(count, "must be greater than zero"));
    }
    if generation.number().unwrap_or_default() < 0 {
        errors.push(generation.invalid("must be greater than or equal to zero"));
    }
    if let Some(old) = old {
        immutable(&name, &old.child("pool").child("name"), errors);
        immutable(&driver, &old.child("driver"), errors);
        immutable(&spec.child("nodeName"), &old.child("nodeName"), errors);
    }
    validate_place(spec, errors);
    validate_devices(spec, errors);
}

/// Where the devices can be reached from: one way of four.
fn validate_place(spec: &Field<'_, '_>, errors: &mut Errors) {
    let mut given = Vec::new();
    let node = spec.child("nodeName");
    if node.is_set() {
        if node.text().is_empty() {
            errors.push(node.invalid("must be either unset or set to a non-empty string"));
        } else {
            given.push("`nodeName`");
            report(&node, dns_subdomain(node.text()), errors);
        }
    }
    let selector = spec.child("nodeSelector");
    if selector.is_set() {
        given.push("`nodeSelector`");
        let terms = selector.child("nodeSelectorTerms");
        if terms.is_empty() {
            errors.push(terms.required("must have at least one node selector term"));
        }
        if terms.len() != 1 {
            errors.push(terms.invalid("must have exactly one node selector term"));
        }
    }
    for (part, shown) in [
        ("allNodes", "`allNodes`"),
        ("perDeviceNodeSelection", "`perDeviceNodeSelection`"),
    ] {
        let part = spec.child(part);
        if part.is_true() {
            given.push(shown);
        } else if part.is_set() {
            errors.push(part.invalid("must be either unset or set to true"));
        }
    }
    match given.len() {
        0 => errors.push(spec.required(WHERE)),
        1 => {}
        _ => {
            let shown = format!("{{{}}}", given.join(", "));
            errors.push(spec.invalid_as(shown, format!("{WHERE}, but multiple fields are set")));
        }
    }
}

fn validate_devices(spec: &Field<'_, '_>, errors: &mut Errors) {
    let devices = spec.child("devices");
    let advanced =
        |device: &Field<'_, '_>| !device.child("taints").is_empty() || !device.child("consumesCounters").is_empty();
    let most = if devices.items().any(|device| advanced(&device)) {
        ADVANCED_DEVICES
    } else {
        DEVICES
    };
    bounded(&devices, most, errors);
    let by_device = spec.child("perDeviceNodeSelection").is_true();
    let mut names = HashSet::new();
    for device in devices.items() {
        validate_device(&device, by_device, errors);
        let name = device.child("name").text();
        if !names.insert(name) {
            errors.push(FieldError::duplicate(&device.path(), name));
        }
    }
}

fn validate_device(device: &Field<'_, '_>, by_device: bool, errors: &mut Errors) {
    let name = device.child("name");
    report(&name, dns_label(name.text()), errors);
    let (attributes, capacity) = (device.child("attributes"), device.child("capacity"));
    let properties = attributes.len() + capacity.len();
    if properties > PROPERTIES {
        errors.push(device.invalid_as(
            properties as i64,
            format!("the total number of attributes and capacities must not exceed {PROPERTIES}"),
        ));
    }
    for (key, attribute) in attributes.entries() {
        validate_qualified_name(&attribute, key, errors);
        validate_attribute(&attribute, errors);
    }
    let shared = device.child("allowMultipleAllocations").is_true();
    for (key, one) in capacity.entries() {
        validate_qualified_name(&one, key, errors);
        let policy = one.child("requestPolicy");
        if policy.is_set() && !shared {
            errors.push(policy.forbidden("allowMultipleAllocations must be true"));
        }
    }
    let taints = device.child("taints");
    bounded(&taints, TAINTS, errors);
    for taint in taints.items() {
        required_text(
            &taint.child("key"),
            holdfast_resource::metadata::formats::qualified_name,
            errors,
        );
        let effect = taint.child("effect");
        if effect.text().is_empty() {
            errors.push(effect.required(""));
        } else if !TAINT_EFFECTS.contains(&effect.text()) {
            errors.push(effect.not_supported(&TAINT_EFFECTS));
        }
    }
    let placed = ["nodeName", "nodeSelector", "allNodes"]
        .iter()
        .filter(|part| device.child(part).is_set())
        .count();
    if by_device && placed != 1 {
        errors.push(device.required(
            "exactly one of `nodeName`, `nodeSelector`, or `allNodes` is required when `perDeviceNodeSelection` is set to \
             true in the ResourceSlice spec",
        ));
    } else if !by_device && placed > 0 {
        errors.push(device.invalid_as(
            Value::Null,
            "`nodeName`, `nodeSelector` and `allNodes` can only be set if `perDeviceNodeSelection` is set to true in the \
             ResourceSlice spec",
        ));
    }
}

fn validate_attribute(attribute: &Field<'_, '_>, errors: &mut Errors) {
    for part in ["string", "version"] {
        let text = attribute.child(part);
        if text.text().len() > ATTRIBUTE_TEXT {
            errors.push(text.too_long(ATTRIBUTE_TEXT));
        }
        if part == "version" && text.is_set() && !is_semantic_version(text.text()) {
            errors.push(text.invalid("must be a string compatible with semver.org spec 2.0.0"));
        }
    }
    match attribute.len() {
        1 => {}
        0 => errors.push(attribute.invalid_as("", "exactly one value must be specified")),
        _ => errors.push(attribute.invalid("exactly one value must be specified")),
    }
}

/// Whether a text is a version as <https://semver.org/> has it.
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
    use crate::harness::Harness;

    fn slice(spec: &str) -> String {
        format!("{{apiVersion: resource.k8s.io/v1, kind: ResourceSlice, metadata: {{name: a}}, spec: {{{spec}}}}}")
    }

    const POOL: &str = "driver: d.example.com, pool: {name: p, generation: 1, resourceSliceCount: 1}";

    #[test]
    fn a_slice_says_where_its_devices_are_in_one_way() {
        assert_eq!(
            Harness::new().errors(&slice("")),
            [
                "spec.driver: Required value",
                "spec.pool.name: Required value",
                "spec.pool.resourceSliceCount: Invalid value: 0: must be greater than zero",
                "spec: Required value: exactly one of `nodeName`, `nodeSelector`, `allNodes`, `perDeviceNodeSelection` is \
                 required",
            ]
        );
        let both = Harness::new().errors(&slice(&format!("{POOL}, nodeName: one, allNodes: true")));
        assert!(
            both[0].starts_with("spec: Invalid value: \"{`nodeName`, `allNodes`}\": "),
            "{both:?}"
        );
    }

    #[test]
    fn devices_have_names_and_attributes_one_value() {
        let errors =
            |device: &str| Harness::new().errors(&slice(&format!("{POOL}, nodeName: one, devices: [{{{device}}}]")));
        assert!(errors("name: a, attributes: {x: {int: 1}, example.com/z: {version: 1.0.0}}").is_empty());
        assert_eq!(errors("name: Bad_").len(), 1);
        assert_eq!(errors("name: a, attributes: {x: {int: 1, bool: true}}").len(), 1);
    }

    #[test]
    fn driver_and_pool_stay() {
        let old = slice(&format!("{POOL}, nodeName: one"));
        assert_eq!(
            Harness::new().update_errors(&old, &old.replace("d.example.com", "e.example.com")),
            [r#"spec.driver: Invalid value: "e.example.com": field is immutable"#]
        );
    }

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
