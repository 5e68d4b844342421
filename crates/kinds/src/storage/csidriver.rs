//! CSIDrivers: <https://kubernetes-csi.github.io/docs/csi-driver-object.html>.

use std::collections::HashSet;

use holdfast_resource::{Field, FieldError, Refusal, Strategy, WriteContext};
use holdfast_value::Value;

use crate::defaults::{is_zero, set_missing_at};
use crate::validation::{Errors, immutable, there_one_of};

/// What only CSIDrivers do.
pub(crate) struct CsiDriver;

const REQUESTS: [&str; 2] = ["spec", "tokenRequests"];
/// What a feature gate holds back.
const PREVENT: [&str; 2] = ["spec", "preventPodSchedulingIfMissing"];
const POLICIES: [&str; 3] = ["File", "None", "ReadWriteOnceWithFSType"];
/// In the order in which the reference lists them.
const MODES: [&str; 2] = ["Persistent", "Ephemeral"];
const UPDATE_SECONDS_LEAST: i64 = 10;
const TOKEN_SECONDS_LEAST: i64 = 600;
const TOKEN_SECONDS_MOST: i64 = 1 << 32;

impl Strategy for CsiDriver {
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
        set_missing_at(object, &["spec"], "fsGroupPolicy", || "ReadWriteOnceWithFSType".into());
        if object.get("spec").is_some() && is_zero(object.at(&["spec", "volumeLifecycleModes"])) {
            object.set_at(&["spec", "volumeLifecycleModes"], vec!["Persistent".into()].into());
        }
    }

    fn prepare_for_create(&self, _context: &WriteContext<'_>, object: &mut Value) -> Result<(), Refusal> {
        object.remove_at(&PREVENT);
        Ok(())
    }

    fn prepare_for_update(&self, _context: &WriteContext<'_>, object: &mut Value, old: &Value) -> Result<(), Refusal> {
        if old.at(&PREVENT).is_none() {
            object.remove_at(&PREVENT);
        }
        Ok(())
    }

    fn validate(&self, _context: &WriteContext<'_>, object: &Value) -> Vec<FieldError> {
        let mut errors = Errors::new();
        validate_spec(&Field::root(object).child("spec"), &mut errors);
        errors
    }

    fn validate_update(&self, context: &WriteContext<'_>, object: &Value, old: &Value) -> Vec<FieldError> {
        let (root, old_root) = (Field::root(object), Field::root(old));
        let (spec, old_spec) = (root.child("spec"), old_root.child("spec"));
        let mut errors = self.validate(context, object);
        // The reference gives this field another name.
        let attach = spec.child("attachRequired");
        let shown = Field::placed(attach.value(), "spec.attachedRequired");
        immutable(&shown, &old_spec.child("attachRequired"), &mut errors);
        immutable(
            &spec.child("volumeLifecycleModes"),
            &old_spec.child("volumeLifecycleModes"),
            &mut errors,
        );
        errors
    }

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

/// `validateCSIDriverSpec`
fn validate_spec(spec: &Field<'_, '_>, errors: &mut Errors) {
    there_one_of(&spec.child("fsGroupPolicy"), &POLICIES, errors);
    let requests = spec.child("tokenRequests");
    validate_tokens(&requests, errors);
    // The reference reports the list rather than the item.
    let modes = spec.child("volumeLifecycleModes");
    for mode in modes.items().filter(|mode| !MODES.contains(&mode.text())) {
        errors.push(FieldError::not_supported(&modes.path(), mode.text(), &MODES));
    }
    let period = spec.child("nodeAllocatableUpdatePeriodSeconds");
    if period.number().is_some_and(|period| period < UPDATE_SECONDS_LEAST) {
        let why = format!("must be greater than or equal to {UPDATE_SECONDS_LEAST} seconds");
        errors.push(period.invalid(why));
    }
    let in_secrets = spec.child("serviceAccountTokenInSecrets");
    if in_secrets.is_set() && requests.is_empty() {
        errors.push(in_secrets.invalid("serviceAccountTokenInSecrets is set but no tokenRequests are specified"));
    }
}

fn validate_tokens(requests: &Field<'_, '_>, errors: &mut Errors) {
    let mut audiences = HashSet::new();
    for request in requests.items() {
        let (audience, seconds) = (request.child("audience"), request.child("expirationSeconds"));
        if !audiences.insert(audience.text()) {
            errors.push(audience.duplicate());
        }
        match seconds.number() {
            Some(few) if few < TOKEN_SECONDS_LEAST => {
                errors.push(seconds.invalid("may not specify a duration less than 10 minutes"));
            }
            Some(many) if many > TOKEN_SECONDS_MOST => {
                errors.push(seconds.invalid("may not specify a duration larger than 2^32 seconds"));
            }
            _ => {}
        }
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
        let told = [
            r#"spec.fsGroupPolicy: Unsupported value: "": supported values: "File", "None", "ReadWriteOnceWithFSType""#,
            r#"spec.volumeLifecycleModes: Unsupported value: "Odd": supported values: "Persistent", "Ephemeral""#,
            "spec.nodeAllocatableUpdatePeriodSeconds: Invalid value: 9: must be greater than or equal to 10 seconds",
            "spec.serviceAccountTokenInSecrets: Invalid value: true: serviceAccountTokenInSecrets is set but no tokenRequests \
             are specified",
        ];
        assert_eq!(harness.errors(&odd), told);
        let update = harness.update_errors(&driver("attachRequired: false"), &odd);
        assert_eq!(update[..4], told);
        assert_eq!(update.len(), 6);
    }

    #[test]
    fn what_a_feature_gate_holds_back_is_dropped() {
        let object = Harness::new().create(&driver("preventPodSchedulingIfMissing: true"));
        assert!(object.at(&super::PREVENT).is_none());
    }

    #[test]
    fn tokens_in_attributes_are_warned_of_when_they_are_first_asked_for() {
        let harness = Harness::new();
        let asks = driver("tokenRequests: [{audience: a}]");
        assert_eq!(harness.warnings(&asks).len(), 1);
        assert!(harness.warnings(&driver("")).is_empty());
        let settled = driver("tokenRequests: [{audience: a}], serviceAccountTokenInSecrets: true");
        assert!(harness.warnings(&settled).is_empty());
        let changed = driver("tokenRequests: [{audience: a}], podInfoOnMount: true");
        assert!(harness.update_warnings(&asks, &changed).is_empty());
        let more = driver("tokenRequests: [{audience: a}, {audience: b}]");
        assert_eq!(harness.update_warnings(&asks, &more).len(), 1);
    }
}
