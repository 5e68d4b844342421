//! CSIDrivers: <https://kubernetes-csi.github.io/docs/csi-driver-object.html>.

use std::collections::HashSet;

use holdfast_resource::{Field, FieldError, Strategy, WriteContext};
use holdfast_value::Value;

use crate::defaults::{is_zero, set_missing_at};
use crate::validation::{Errors, immutable, one_of};

/// What only CSIDrivers do.
pub(crate) struct CsiDriver;

const REQUESTS: [&str; 2] = ["spec", "tokenRequests"];
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

    fn validate(&self, _context: &WriteContext<'_>, object: &Value) -> Vec<FieldError> {
        let root = Field::root(object);
        let spec = root.child("spec");
        let mut errors = Errors::new();
        let policies = ["File", "None", "ReadWriteOnceWithFSType"];
        one_of(&spec.child("fsGroupPolicy"), &policies, &mut errors);
        validate_tokens(&spec.child("tokenRequests"), &mut errors);
        for mode in spec.child("volumeLifecycleModes").items() {
            one_of(&mode, &["Ephemeral", "Persistent"], &mut errors);
        }
        errors
    }

    fn validate_update(&self, _context: &WriteContext<'_>, object: &Value, old: &Value) -> Vec<FieldError> {
        let (root, old_root) = (Field::root(object), Field::root(old));
        let (spec, old_spec) = (root.child("spec"), old_root.child("spec"));
        let mut errors = Errors::new();
        // The reference gives this field another name.
        let attach = spec.child("attachRequired");
        let shown = Field::placed(attach.value(), "spec.attachedRequired");
        immutable(&shown, &old_spec.child("attachRequired"), &mut errors);
        immutable(
            &spec.child("volumeLifecycleModes"),
            &old_spec.child("volumeLifecycleModes"),
            &mut errors,
        );
        validate_tokens(&spec.child("tokenRequests"), &mut errors);
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
