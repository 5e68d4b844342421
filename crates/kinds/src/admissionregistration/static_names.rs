//! Names that are reserved for configurations in the server's manifest files. API objects should not have them.

use holdfast_kind_tables::features::Feature;
use holdfast_schema::{Field, FieldError};
use holdfast_value::Value;

use crate::config::Config;

const SUFFIX: &str = ".static.k8s.io";

/// Treatment of an object with a reserved name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum StaticNames {
    /// The object is rejected: the gate `ManifestBasedAdmissionControlConfig` is on.
    Refused,
    /// The client gets a warning.
    WarnedOf,
}

impl StaticNames {
    pub(super) fn from_config(config: &Config) -> Self {
        match config.features.has(Feature::ManifestBasedAdmissionControlConfig) {
            true => Self::Refused,
            false => Self::WarnedOf,
        }
    }

    /// upstream: pkg/apis/admissionregistration/validation#ValidateStaticSuffix
    pub(super) fn errors(self, object: &Value) -> Option<FieldError> {
        let root = Field::root(object);
        let metadata = root.child("metadata");
        let name = metadata.child("name");
        let is_refused = self == Self::Refused && name.text().ends_with(SUFFIX);
        is_refused.then(|| name.invalid(reserved()))
    }

    /// Warns of the name on every update, and on creation if the name is not rejected.
    ///
    /// upstream: pkg/apis/admissionregistration/validation#WarningsForStaticSuffix
    pub(super) fn warnings(self, object: &Value, old: Option<&Value>) -> Vec<String> {
        let name = object.str_at(&["metadata", "name"]).unwrap_or_default();
        let is_warned_of = (self == Self::WarnedOf || old.is_some()) && name.ends_with(SUFFIX);
        let warning = is_warned_of.then(|| format!("metadata.name: {}", reserved()));
        warning.into_iter().collect()
    }
}

fn reserved() -> String {
    format!(
        "names ending with {SUFFIX:?} are reserved for static manifest-based configurations and cannot be managed via the API"
    )
}

#[cfg(test)]
mod tests {
    use crate::harness::Harness;

    const BINDING: &str = "{apiVersion: admissionregistration.k8s.io/v1, kind: ValidatingAdmissionPolicyBinding, metadata: {name: \
         a.static.k8s.io}, spec: {policyName: p, validationActions: [Deny]}}";
    const WEBHOOKS: &str = "{apiVersion: admissionregistration.k8s.io/v1, kind: MutatingWebhookConfiguration, metadata: {name: \
         a.static.k8s.io}}";

    #[test]
    fn names_of_files_are_refused_or_warned_of_as_the_gate_says() {
        let reserved = "names ending with \".static.k8s.io\" are reserved for static manifest-based configurations and cannot be \
                        managed via the API";
        for object in [BINDING, WEBHOOKS] {
            let on = Harness::with_gates("ManifestBasedAdmissionControlConfig=true");
            assert_eq!(
                on.errors(object),
                [format!("metadata.name: Invalid value: \"a.static.k8s.io\": {reserved}")]
            );
            let off = Harness::new();
            assert_eq!(off.errors(object), [""; 0]);
            assert_eq!(off.warnings(object), [format!("metadata.name: {reserved}")]);
            assert!(off.warnings(&object.replace("a.static", "a")).is_empty());
            for harness in [on, off] {
                assert_eq!(
                    harness.update_warnings(object, object),
                    [format!("metadata.name: {reserved}")]
                );
            }
        }
    }
}
