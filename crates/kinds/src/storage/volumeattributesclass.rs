//! VolumeAttributesClasses: <https://kubernetes.io/docs/concepts/storage/volume-attributes-classes/>.

use holdfast_kind_tables::Kind;
use holdfast_kind_tables::metadata_checks::{COMMON_CHECKS, in_order};
use holdfast_resource::{Strategy, WriteContext};
use holdfast_schema::{AnyRules, Check, Field, FieldError, Part, Rules, UpdateOrder};
use holdfast_value::Value;

use super::storageclass::{validate_parameters, validate_provisioner};
use crate::config::Config;
use crate::kind::kind;
use crate::rules::VolumeAttributesClassRule;
use crate::validation::same;
use crate::versions::Versions;

/// Strategy of VolumeAttributesClasses.
pub(crate) struct VolumeAttributesClass;

/// API versions of VolumeAttributesClasses.
const ATTRIBUTES_CLASSES: Versions = Versions::alike(&["storage.k8s.io/v1", "storage.k8s.io/v1beta1"]);

/// Returns the kind with its capabilities.
pub(super) fn declare(config: &Config) -> Kind {
    kind(VolumeAttributesClass)
        .converts_by(config, "storage.k8s.io", ATTRIBUTES_CLASSES)
        .metadata_checks(in_order(UpdateOrder::ChangesFirst, COMMON_CHECKS))
        .done()
}

impl Strategy for VolumeAttributesClass {
    fn rules<'v>(&self) -> &dyn AnyRules<'v> {
        self
    }

    /// upstream: pkg/registry/storage/volumeattributesclass#volumeAttributesClassStrategy.ValidateUpdate
    fn validate_update(&self, context: &WriteContext<'_>, object: &Value, old: &Value) -> Vec<FieldError> {
        let root = Field::root(object);
        let mut errors = Vec::new();
        for part in ["driverName", "parameters"] {
            let field = root.child(part);
            if !same(field.value(), old.get(part)) {
                errors.push(field.forbidden(format!("updates to {part} are forbidden.")));
            }
        }
        errors.extend(context.rest_of_metadata(object, old));
        errors.extend(self.validate(context, object));
        errors
    }
}

impl<'v> Rules<'v> for VolumeAttributesClass {
    type Rule = VolumeAttributesClassRule;

    fn rule(&self, rule: VolumeAttributesClassRule, part: &Part<'v, '_>, check: &mut Check<'_>) {
        match rule {
            VolumeAttributesClassRule::DriverName => validate_provisioner(&part.child("driverName"), &mut check.errors),
            VolumeAttributesClassRule::Limits => validate_parameters(&part.child("parameters"), &mut check.errors),
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::harness::Harness;

    #[test]
    fn parameters_are_immutable_and_validated_on_update() {
        let class = "{apiVersion: storage.k8s.io/v1, kind: VolumeAttributesClass, metadata: {name: a}, driverName: d, \
                     parameters: {a: b}}";
        assert_eq!(
            Harness::new().update_errors(class, &class.replace("parameters: {a: b}", "parameters: {}")),
            [
                "parameters: Forbidden: updates to parameters are forbidden.",
                "parameters: Required value: must contain at least one key/value pair",
            ]
        );
    }
}
