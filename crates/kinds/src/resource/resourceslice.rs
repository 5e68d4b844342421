//! ResourceSlices: devices that a driver offers.

use std::collections::HashMap;

use holdfast_gotext::quote::quote;
use holdfast_kind_tables::Kind;
use holdfast_kind_tables::metadata_checks::of_core;
use holdfast_resource::{Rejection, SelectorWords, Strategy, WriteContext};
use holdfast_schema::metadata::formats::dns_subdomain;
use holdfast_schema::{Check, Field, FieldError, Part, Rules};
use holdfast_value::Value;

use super::device::{DeviceRules, default_taints};
use super::names::exceeds;
use crate::config::Config;
use crate::kind::kind;
use crate::pod_spec::validate_node_selector;
use crate::rules::ResourceSliceRule;
use crate::validation::{Errors, immutable, immutable_text, report};

/// Strategy of ResourceSlices.
pub(crate) struct ResourceSlice;

/// Maximum number of devices in a slice. It is lower if devices have taints or consume counters.
const DEVICES: usize = 128;
const ADVANCED_DEVICES: usize = 64;
const WHERE: &str = "exactly one of `nodeName`, `nodeSelector`, `allNodes`, `perDeviceNodeSelection` is required";

/// Returns the kind with its capabilities.
pub(super) fn declare(config: &Config) -> Kind {
    kind(ResourceSlice)
        .selector_words(SelectorWords::NamesVersion)
        .metadata_checks(of_core(0, 1))
        .converts_by(config, super::GROUP, super::versions::SLICES)
        .counts_dropped_fields()
        .done()
}

impl Strategy for ResourceSlice {
    /// upstream: pkg/registry/resource/resourceslice#resourceSliceStrategy.PrepareForCreate
    fn prepare_for_create(&self, context: &WriteContext<'_>, object: &mut Value) -> Result<(), Rejection> {
        prepare(context, object);
        Ok(())
    }

    /// upstream: pkg/registry/resource/resourceslice#resourceSliceStrategy.PrepareForUpdate
    fn prepare_for_update(
        &self,
        context: &WriteContext<'_>,
        object: &mut Value,
        _old: &Value,
    ) -> Result<(), Rejection> {
        prepare(context, object);
        Ok(())
    }

    /// upstream: pkg/registry/resource/resourceslice#resourceSliceStrategy.Validate
    fn validate(&self, context: &WriteContext<'_>, object: &Value) -> Vec<FieldError> {
        context.check(object, &SliceRules { old: None })
    }

    /// upstream: pkg/registry/resource/resourceslice#resourceSliceStrategy.ValidateUpdate
    fn validate_update(&self, context: &WriteContext<'_>, object: &Value, old: &Value) -> Vec<FieldError> {
        let old = old.get("spec");
        context.check(object, &SliceRules { old })
    }

    /// upstream: pkg/registry/resource/resourceslice#resourceSliceStrategy.WarningsOnCreate
    /// upstream: pkg/registry/resource/resourceslice#resourceSliceStrategy.WarningsOnUpdate
    fn warnings(&self, _context: &WriteContext<'_>, object: &Value, _old: Option<&Value>) -> Vec<String> {
        let driver = object.str_at(&["spec", "driver"]).unwrap_or_default();
        let is_lowercase = driver.to_lowercase() == driver;
        let warning = || {
            format!(
                "spec.driver: driver names should be lowercase; {} contains uppercase characters",
                quote(driver)
            )
        };
        (!is_lowercase).then(warning).into_iter().collect()
    }
}

/// upstream: pkg/registry/resource/resourceslice#resourceSliceStrategy.PrepareForCreate
fn prepare(context: &WriteContext<'_>, object: &mut Value) {
    if let Some(spec) = object.at_mut(&["spec"]) {
        default_taints(spec, || context.now());
    }
}

/// Hand-written checks of `validateResourceSliceSpec`.
struct SliceRules<'o> {
    /// Spec of the old object.
    old: Option<&'o Value>,
}

impl<'v> Rules<'v> for SliceRules<'_> {
    type Rule = ResourceSliceRule;

    /// upstream: pkg/apis/resource/validation#validateResourceSliceSpec
    fn rule(&self, rule: ResourceSliceRule, part: &Part<'v, '_>, check: &mut Check<'_>) {
        match rule {
            ResourceSliceRule::Kept => self.validate_kept(part, &mut check.errors),
            ResourceSliceRule::Place => validate_place(part, &mut check.errors),
            ResourceSliceRule::OneList => {
                if check.is_given(&part.child("sharedCounters")) && check.is_given(&part.child("devices")) {
                    let why = "only one of `sharedCounters` or `devices` is allowed";
                    check.errors.push(part.invalid_as("", why));
                }
            }
            ResourceSliceRule::Devices => self.validate_devices(part, check),
        }
    }
}

impl SliceRules<'_> {
    /// Validates immutable fields. The reference does so between its checks of the values.
    ///
    /// upstream: pkg/apis/resource/validation#ValidateResourceSliceUpdate
    fn validate_kept(&self, spec: &Field<'_, '_>, errors: &mut Errors) {
        if self.old.is_none() {
            return;
        }
        let old = Field::placed(self.old, "spec");
        let (pool, old_pool) = (spec.child("pool"), old.child("pool"));
        immutable_text(&pool.child("name"), &old_pool.child("name"), errors);
        immutable_text(&spec.child("driver"), &old.child("driver"), errors);
        immutable(&spec.child("nodeName"), &old.child("nodeName"), errors);
    }

    /// upstream: pkg/apis/resource/validation#validateResourceSliceSpec
    fn validate_devices<'v>(&self, spec: &Part<'v, '_>, check: &mut Check<'_>) {
        let devices = spec.child("devices");
        let is_advanced =
            |device: &Field<'_, '_>| !device.child("taints").is_empty() || !device.child("consumesCounters").is_empty();
        let most = if devices.items().any(|device| is_advanced(&device)) {
            ADVANCED_DEVICES
        } else {
            DEVICES
        };
        if exceeds(&devices, most, &mut check.errors) {
            return;
        }
        let old_devices = self.old.and_then(|old| old.get("devices")).and_then(Value::as_list);
        let mut before = HashMap::new();
        for device in old_devices.into_iter().flatten() {
            before
                .entry(device.str_at(&["name"]).unwrap_or_default())
                .or_insert(device);
        }
        let by_device = spec.child("perDeviceNodeSelection").is_true();
        for device in check.items(spec, "devices", &devices) {
            let old = before.get(device.child("name").text()).copied();
            check.values(&device, &DeviceRules { old, by_device });
        }
        check.distinct(&devices, "name");
    }
}

/// Validates the nodes that can access the devices: exactly one of four fields is set.
///
/// upstream: pkg/apis/resource/validation#validateResourceSliceSpec
fn validate_place(spec: &Field<'_, '_>, errors: &mut Errors) {
    let mut fields = Vec::new();
    let node = spec.child("nodeName");
    if node.is_set() {
        if node.text().is_empty() {
            errors.push(node.invalid("must be either unset or set to a non-empty string"));
        } else {
            fields.push("`nodeName`");
            report(&node, dns_subdomain(node.text()), errors);
        }
    }
    let selector = spec.child("nodeSelector");
    if selector.is_set() {
        fields.push("`nodeSelector`");
        validate_node_selector(&selector, errors);
        let terms = selector.child("nodeSelectorTerms");
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
            fields.push(shown);
        } else if part.is_set() {
            errors.push(part.invalid("must be either unset or set to true"));
        }
    }
    match fields.len() {
        0 => errors.push(spec.required(WHERE)),
        1 => {}
        _ => {
            let shown = format!("{{{}}}", fields.join(", "));
            errors.push(spec.invalid_as(shown, format!("{WHERE}, but multiple fields are set")));
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::harness::{Harness, at};

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
    fn devices_that_are_no_longer_shared_have_no_policies() {
        let device = |shared: &str| {
            slice(&format!(
                "{POOL}, allNodes: true, devices: [{{name: a, {shared} capacity: {{m: {{value: 4Gi, requestPolicy: {{default: 1Gi, \
                 validRange: {{min: 1Gi}}}}}}}}}}]"
            ))
        };
        assert_eq!(
            Harness::new().update_errors(&device("allowMultipleAllocations: true,"), &device("")),
            ["spec.devices[0].capacity[m].requestPolicy: Forbidden: allowMultipleAllocations must be true"]
        );
    }

    #[test]
    fn empty_counters_beside_devices_are_both_lists() {
        let both = slice(&format!(
            "{POOL}, allNodes: true, sharedCounters: [], devices: [{{name: a}}]"
        ));
        assert_eq!(
            Harness::new().errors(&both),
            [r#"spec: Invalid value: "": only one of `sharedCounters` or `devices` is allowed"#]
        );
    }

    #[test]
    fn names_of_drivers_are_lowercase() {
        let shouted = slice(&format!("{POOL}, allNodes: true").replace("d.example", "D.example"));
        assert_eq!(
            Harness::new().warnings(&shouted),
            [r#"spec.driver: driver names should be lowercase; "D.example.com" contains uppercase characters"#]
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

    fn errors_of(device: &str) -> Vec<String> {
        Harness::new().errors(&slice(&format!(
            "{POOL}, nodeName: one, devices: [{{name: a, {device}}}]"
        )))
    }

    #[test]
    fn devices_wait_for_a_few_conditions_of_two_types() {
        let errors = errors_of("bindingConditions: ['a b', c, c], bindingFailureConditions: [d, d, c, e, f]");
        let texts: Vec<&str> = errors
            .iter()
            .filter_map(|error| error.strip_prefix("spec.devices[0]."))
            .collect();
        assert!(
            texts[0].starts_with("bindingConditions[0]: Invalid value: \"a b\": name part must consist of"),
            "{texts:?}"
        );
        assert_eq!(
            texts[1..],
            [
                "bindingFailureConditions: Too many: 5: must have at most 4 items",
                "bindingConditions[2]: Duplicate value: \"c\"",
                "bindingFailureConditions[1]: Duplicate value: \"d\"",
                "bindingFailureConditions[2]: Invalid value: \"c\": bindingFailureConditions must not overlap with bindingConditions",
            ]
        );
    }

    #[test]
    fn request_policy_outside_of_capacity_is_rejected() {
        let errors = |policy: &str| {
            let capacity = format!("capacity: {{m: {{value: '4', requestPolicy: {{{policy}}}}}}}");
            errors_of(&format!("allowMultipleAllocations: true, {capacity}"))
        };
        let place = "spec.devices[0].capacity[m].requestPolicy";
        assert!(errors("default: '1', validRange: {min: '1', max: '4', step: '1'}").is_empty());
        assert_eq!(
            errors("default: '1', validRange: {min: '3', max: '2', step: '2'}"),
            [
                format!("{place}.validRange.min: Invalid value: \"1\": default is less than min: 3"),
                format!("{place}.validRange.max: Invalid value: \"3\": min is larger than max: 2"),
                format!("{place}.validRange.step: Invalid value: \"2\": one step 5 is larger than capacity value: 4"),
                format!(
                    "{place}.validRange.step: Invalid value: \"2\": value is not a multiple of a given step (2) from (3)"
                ),
            ]
        );
        assert_eq!(
            errors("default: '3', validValues: ['2', '1', 1000m, '5']"),
            [
                format!("{place}.validValues[1]: Invalid value: \"1\": values must be sorted in ascending order"),
                format!("{place}.validValues[3]: Invalid value: \"5\": option is larger than capacity value: 4"),
                format!("{place}.validValues[2]: Duplicate value: \"1\""),
                format!(
                    "{place}.validValues: Invalid value: \"3\": default value is not valid according to the requestPolicy"
                ),
            ]
        );
        assert_eq!(
            errors("validValues: ['1']"),
            [format!(
                "{place}.default: Required value: required when validValues is defined"
            )]
        );
    }

    #[test]
    fn a_step_of_nothing_is_refused_without_dividing_by_it() {
        let policy = "requestPolicy: {default: '1', validRange: {min: '1', step: '0'}}";
        let errors = errors_of(&format!(
            "allowMultipleAllocations: true, capacity: {{m: {{value: '4', {policy}}}}}"
        ));
        assert_eq!(errors.len(), 1);
    }

    #[test]
    fn taint_times_are_set_and_gated_fields_are_dropped() {
        let device = "taints: [{key: k, effect: None}], attributes: {a: {int: 1, strings: [b]}}";
        let object = Harness::new().create(&slice(&format!(
            "{POOL}, nodeName: one, devices: [{{name: a, {device}}}]"
        )));
        assert_eq!(
            at(&object, "spec.devices.0.taints.0.timeAdded"),
            r#""2001-09-09T01:46:40Z""#
        );
        assert_eq!(at(&object, "spec.devices.0.attributes.a"), r#"{"int":1}"#);
    }

    #[test]
    fn counters_are_named_once_and_consumed_by_name() {
        assert_eq!(
            errors_of("consumesCounters: [{counterSet: c, counters: {m: {value: '1'}}}, {counterSet: c}]"),
            [
                "spec.devices[0].consumesCounters[1].counters: Required value",
                r#"spec.devices[0].consumesCounters[1]: Duplicate value: "c""#,
            ]
        );
        let shared = slice(&format!(
            "{POOL}, nodeName: one, sharedCounters: [{{counters: {{Bad_: {{value: '1'}}}}}}]"
        ));
        let fields = Harness::new().errors(&shared);
        assert!(fields.len() == 2 && fields[1].starts_with("spec.sharedCounters[0].counters: Invalid value: \"Bad_\""));
    }
}
