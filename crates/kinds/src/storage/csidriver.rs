//! CSIDrivers: <https://kubernetes-csi.github.io/docs/csi-driver-object.html>.

use std::collections::HashSet;

use holdfast_kind_tables::Kind;
use holdfast_kind_tables::features::{Feature, Features};
use holdfast_kind_tables::metadata_checks::of_core;
use holdfast_resource::{Strategy, WriteContext};
use holdfast_schema::{AnyChanges, AnyRules, Changes, Check, Field, FieldError, Part, Rules};
use holdfast_value::Value;

use crate::config::Config;
use crate::defaults::{is_zero, set_missing_at};
use crate::kind::kind;
use crate::rules::{CsiDriverChange, CsiDriverRule};
use crate::validation::{Errors, immutable};

/// Strategy of CSIDrivers.
pub(crate) struct CsiDriver {
    /// Enabled features.
    pub(crate) features: Features,
}

const REQUESTS: [&str; 2] = ["spec", "tokenRequests"];
/// Volume lifecycle modes in the order of the reference's messages.
const MODES: [&str; 2] = ["Persistent", "Ephemeral"];

/// Returns the kind with its capabilities.
pub(super) fn declare(config: &Config) -> Kind {
    kind(CsiDriver {
        features: config.features,
    })
    .metadata_checks(of_core(0, 1))
    .done()
}

impl Strategy for CsiDriver {
    /// upstream: pkg/apis/storage/v1#SetDefaults_CSIDriver
    fn default_fields(&self, _version: &str, object: &mut Value) {
        let flags = [
            ("attachRequired", true),
            ("podInfoOnMount", false),
            ("requiresRepublish", false),
            ("seLinuxMount", false),
            ("storageCapacity", false),
        ];
        for (flag, default) in flags {
            set_missing_at(object, &["spec"], flag, || default.into());
        }
        if self.features.has(Feature::VolumeLimitScaling) {
            set_missing_at(object, &["spec"], "preventPodSchedulingIfMissing", || false.into());
        }
        set_missing_at(object, &["spec"], "fsGroupPolicy", || "ReadWriteOnceWithFSType".into());
        if object.get("spec").is_some() && is_zero(object.at(&["spec", "volumeLifecycleModes"])) {
            object.set_at(&["spec", "volumeLifecycleModes"], vec!["Persistent".into()].into());
        }
    }

    fn rules<'v>(&self) -> &dyn AnyRules<'v> {
        self
    }

    fn changes<'v>(&self) -> &dyn AnyChanges<'v> {
        self
    }

    /// upstream: pkg/registry/storage/csidriver#csiDriverStrategy.WarningsOnCreate
    /// upstream: pkg/registry/storage/csidriver#csiDriverStrategy.WarningsOnUpdate
    fn warnings(&self, _context: &WriteContext<'_>, object: &Value, old: Option<&Value>) -> Vec<String> {
        let root = Field::root(object);
        let spec = root.child("spec");
        let same = old.is_some_and(|old| old.at(&REQUESTS) == object.at(&REQUESTS));
        if !same && !spec.child("tokenRequests").is_empty() && !spec.child("serviceAccountTokenInSecrets").is_set() {
            return vec![
                "spec.serviceAccountTokenInSecrets is unset; if supported by this CSI driver, set to true to prevent possible \
                 logging of tokens in volume attributes"
                    .to_owned(),
            ];
        }
        Vec::new()
    }
}

impl<'v> Rules<'v> for CsiDriver {
    type Rule = CsiDriverRule;

    fn rule(&self, rule: CsiDriverRule, part: &Part<'v, '_>, check: &mut Check<'_>) {
        match rule {
            CsiDriverRule::Tokens => self.validate_tokens(part, check),
            CsiDriverRule::Modes => validate_modes(&part.child("volumeLifecycleModes"), &mut check.errors),
            CsiDriverRule::Secrets => validate_secrets(part, &mut check.errors),
        }
    }
}

impl<'v> Changes<'v> for CsiDriver {
    type Change = CsiDriverChange;

    fn change(&self, change: CsiDriverChange, part: &Part<'v, '_>, old: &Part<'v, '_>, check: &mut Check<'_>) {
        let CsiDriverChange::AttachRequired = change;
        let attach = part.child("attachRequired");
        // The reference reports this field by another name.
        let shown = Field::placed(attach.value(), "spec.attachedRequired");
        immutable(&shown, &old.child("attachRequired"), &mut check.errors);
    }
}

impl CsiDriver {
    /// upstream: pkg/apis/storage/validation#validateTokenRequests
    fn validate_tokens<'v>(&self, spec: &Part<'v, '_>, check: &mut Check<'_>) {
        let requests = spec.child("tokenRequests");
        let mut audiences = HashSet::new();
        for request in check.items(spec, "tokenRequests", &requests) {
            let audience = request.child("audience");
            if !audiences.insert(audience.text()) {
                check.errors.push(audience.duplicate());
                continue;
            }
            check.values(&request, self);
        }
    }
}

/// Validates the lifecycle modes. Errors are at the list, not at the item.
///
/// upstream: pkg/apis/storage/validation#validateVolumeLifecycleModes
fn validate_modes(modes: &Field<'_, '_>, errors: &mut Errors) {
    for mode in modes.items().filter(|mode| !MODES.contains(&mode.text())) {
        errors.push(FieldError::not_supported(&modes.path(), mode.text(), &MODES));
    }
}

/// upstream: pkg/apis/storage/validation#validateServiceAccountTokenInSecrets
fn validate_secrets(spec: &Field<'_, '_>, errors: &mut Errors) {
    let in_secrets = spec.child("serviceAccountTokenInSecrets");
    if in_secrets.is_set() && spec.child("tokenRequests").is_empty() {
        errors.push(in_secrets.invalid("serviceAccountTokenInSecrets is set but no tokenRequests are specified"));
    }
}

#[cfg(test)]
mod tests {
    use crate::harness::Harness;

    fn driver(spec: &str) -> String {
        format!("{{apiVersion: storage.k8s.io/v1, kind: CSIDriver, metadata: {{name: a}}, spec: {{{spec}}}}}")
    }

    #[test]
    fn a_spec_is_checked_when_it_is_made_and_when_it_changes() {
        let harness = Harness::new();
        let odd = driver(
            "fsGroupPolicy: '', volumeLifecycleModes: [Odd], nodeAllocatableUpdatePeriodSeconds: 9, \
             serviceAccountTokenInSecrets: true",
        );
        let messages = [
            r#"spec.fsGroupPolicy: Unsupported value: "": supported values: "File", "None", "ReadWriteOnceWithFSType""#,
            r#"spec.volumeLifecycleModes: Unsupported value: "Odd": supported values: "Persistent", "Ephemeral""#,
            "spec.nodeAllocatableUpdatePeriodSeconds: Invalid value: 9: must be greater than or equal to 10 seconds",
            "spec.serviceAccountTokenInSecrets: Invalid value: true: serviceAccountTokenInSecrets is set but no tokenRequests \
             are specified",
        ];
        assert_eq!(harness.errors(&odd), messages);
        let update = harness.update_errors(&driver("attachRequired: false"), &odd);
        assert_eq!(update[..4], messages);
        assert_eq!(update.len(), 6);
    }

    #[test]
    fn duplicate_token_request_has_one_error() {
        let twice = driver("tokenRequests: [{audience: a}, {audience: a, expirationSeconds: 1}]");
        assert_eq!(
            Harness::new().errors(&twice),
            [r#"spec.tokenRequests[1].audience: Duplicate value: "a""#]
        );
    }

    #[test]
    fn fields_of_disabled_features_are_dropped() {
        let object = Harness::new().create(&driver("preventPodSchedulingIfMissing: true"));
        assert!(object.at(&["spec", "preventPodSchedulingIfMissing"]).is_none());
    }

    #[test]
    fn first_token_request_warns() {
        let harness = Harness::new();
        let asks = driver("tokenRequests: [{audience: a}]");
        assert_eq!(harness.warnings(&asks).len(), 1);
        assert!(harness.warnings(&driver("")).is_empty());
        let complete = driver("tokenRequests: [{audience: a}], serviceAccountTokenInSecrets: true");
        assert!(harness.warnings(&complete).is_empty());
        let changed = driver("tokenRequests: [{audience: a}], podInfoOnMount: true");
        assert!(harness.update_warnings(&asks, &changed).is_empty());
        let more = driver("tokenRequests: [{audience: a}, {audience: b}]");
        assert_eq!(harness.update_warnings(&asks, &more).len(), 1);
    }
}
