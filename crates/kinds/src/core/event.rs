//! Events, which two groups serve: <https://kubernetes.io/docs/reference/kubernetes-api/cluster-resources/event-v1/>.
//!
//! They are kept as those of the core group. The group `events.k8s.io` has other names for some fields and stricter rules.

use holdfast_resource::metadata::formats::qualified_name;
use holdfast_resource::{ConversionError, Field, FieldError, Strategy, WriteContext};
use holdfast_value::Value;

use crate::defaults::{is_zero, set_missing};
use crate::validation::{Errors, immutable, report};

/// What only Events do.
pub(crate) struct Event {
    /// Whether these are the events of the group `events.k8s.io`.
    pub(crate) of_own_group: bool,
}

const CORE: &str = "v1";
const OWN: &str = "events.k8s.io/v1";

/// The names of fields in the core group and in the own one, where they differ.
const RENAMED: [(&str, &str); 7] = [
    ("involvedObject", "regarding"),
    ("message", "note"),
    ("reportingComponent", "reportingController"),
    ("source", "deprecatedSource"),
    ("firstTimestamp", "deprecatedFirstTimestamp"),
    ("lastTimestamp", "deprecatedLastTimestamp"),
    ("count", "deprecatedCount"),
];

/// What the core group shows even where it is empty; the own group leaves it out then.
const ALWAYS_SHOWN: [&str; 2] = ["reportingComponent", "reportingInstance"];

const INSTANCE_LENGTH: usize = 128;
const NOTE_LENGTH: usize = 1024;

impl Strategy for Event {
    fn tables_stored_version(&self) -> bool {
        true
    }

    fn validate(&self, context: &WriteContext<'_>, object: &Value) -> Vec<FieldError> {
        let root = Field::root(object);
        let mut errors = Errors::new();
        let timed = !is_zero(object.get("eventTime"));
        validate_place(&root, context.namespace, timed, &mut errors);
        if timed {
            self.validate_report(&root, &mut errors);
        }
        if self.of_own_group && !timed {
            errors.push(root.child("eventTime").required(""));
        }
        if self.of_own_group {
            let (sort, note) = (root.child("type"), root.child("message"));
            if !matches!(sort.text(), "Normal" | "Warning") {
                errors.push(sort.invalid_as("", format!("has invalid value: {}", sort.text())));
            }
            if note.text().len() > NOTE_LENGTH {
                errors.push(note.invalid_as("", format!("can have at most {NOTE_LENGTH} characters")));
            }
        }
        errors
    }

    fn validate_update(&self, context: &WriteContext<'_>, object: &Value, old: &Value) -> Vec<FieldError> {
        if !self.of_own_group {
            return self.validate(context, object);
        }
        let (root, old) = (Field::root(object), Field::root(old));
        let mut errors = Errors::new();
        // The reference looks at the reason twice.
        for part in [
            "involvedObject",
            "reason",
            "reason",
            "message",
            "source",
            "firstTimestamp",
            "lastTimestamp",
            "count",
            "type",
            "eventTime",
            "action",
            "related",
            "reportingComponent",
            "reportingInstance",
        ] {
            immutable(&root.child(part), &old.child(part), &mut errors);
        }
        errors
    }

    fn convert(&self, mut object: Value, to_api_version: &str) -> Result<Value, ConversionError> {
        let from = object.str_at(&["apiVersion"]).unwrap_or_default().to_owned();
        let to_own = match (from.as_str(), to_api_version) {
            (from, to) if from == to => return Ok(object),
            (CORE, OWN) => true,
            (OWN, CORE) => false,
            (_, to) => {
                let to = to.to_owned();
                return Err(ConversionError::Unknown { from, to });
            }
        };
        for (core, own) in RENAMED {
            let (old, new) = if to_own { (core, own) } else { (own, core) };
            if let Some(value) = object.remove_at(&[old]) {
                object.set_at(&[new], value);
            }
        }
        if to_own {
            for field in ["reportingController", "reportingInstance"] {
                if is_zero(object.get(field)) {
                    object.remove_at(&[field]);
                }
            }
        } else {
            for field in ALWAYS_SHOWN {
                set_missing(&mut object, field, || "".into());
            }
        }
        object.set_at(&["apiVersion"], to_api_version.into());
        Ok(object)
    }
}

impl Event {
    /// What a reporter has to say of itself since events have a time of their own.
    fn validate_report(&self, event: &Field<'_, '_>, errors: &mut Errors) {
        let reporter = event.child("reportingComponent");
        // The own group shows its own name of the field.
        let shown = if self.of_own_group {
            "reportingController"
        } else {
            "reportingComponent"
        };
        let reporter = Field::placed(reporter.value(), shown);
        if reporter.text().is_empty() {
            errors.push(reporter.required(""));
        }
        report(&reporter, qualified_name(reporter.text()), errors);
        let instance = event.child("reportingInstance");
        if instance.text().is_empty() {
            errors.push(instance.required(""));
        } else if instance.text().len() > INSTANCE_LENGTH {
            errors.push(instance.invalid_as("", format!("can have at most {INSTANCE_LENGTH} characters")));
        }
        for part in ["action", "reason"] {
            let field = event.child(part);
            if field.text().is_empty() {
                errors.push(field.required(""));
            } else if field.text().len() > INSTANCE_LENGTH {
                errors.push(field.invalid_as("", format!("can have at most {INSTANCE_LENGTH} characters")));
            }
        }
    }
}

/// An event lives in the namespace of what it is about; those about cluster-scoped objects live in `default`, or where they
/// have a time of their own, in `kube-system`. Such events may tell from elsewhere of what is in a namespace.
fn validate_place(event: &Field<'_, '_>, namespace: &str, timed: bool, errors: &mut Errors) {
    let about = event.child("involvedObject");
    let place = about.child("namespace");
    let fits = match (place.text(), timed) {
        ("", false) => matches!(namespace, "" | "default"),
        ("", true) => matches!(namespace, "default" | "kube-system"),
        (other, false) => other == namespace,
        (_, true) => true,
    };
    if !fits {
        errors.push(place.invalid_text("does not match event.namespace"));
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn fields_change_their_names_between_the_groups() {
        let mut core = Value::empty_map();
        core.set_at(&["apiVersion"], CORE.into());
        core.set_at(&["involvedObject", "name"], "a".into());
        core.set_at(&["message"], "m".into());
        core.set_at(&["reason"], "r".into());
        let strategy = Event { of_own_group: true };
        let own = strategy.convert(core.clone(), OWN).unwrap();
        assert_eq!(own.str_at(&["regarding", "name"]), Some("a"));
        assert_eq!((own.str_at(&["note"]), own.str_at(&["reason"])), (Some("m"), Some("r")));
        assert!(strategy.convert(core.clone(), "v2").is_err());
        for shown in ALWAYS_SHOWN {
            core.set_at(&[shown], "".into());
        }
        assert_eq!(strategy.convert(own, CORE).unwrap(), core);
    }

    #[test]
    fn a_reporter_that_nobody_named_is_shown_in_the_core_group_alone() {
        let strategy = Event { of_own_group: false };
        let mut core = Value::empty_map();
        core.set_at(&["apiVersion"], CORE.into());
        core.set_at(&["reportingComponent"], "".into());
        core.set_at(&["reportingInstance"], "".into());
        let own = strategy.convert(core.clone(), OWN).unwrap();
        assert!(own.get("reportingController").is_none() && own.get("reportingInstance").is_none());
        assert_eq!(strategy.convert(own, CORE).unwrap(), core);
    }

    #[test]
    fn events_about_cluster_scoped_objects_live_in_namespaces_of_the_system() {
        let told = |namespace: &str, about: &str, timed: bool| {
            let mut event = Value::empty_map();
            event.set_at(&["involvedObject", "namespace"], about.into());
            let (root, mut errors) = (Field::root(&event), Errors::new());
            validate_place(&root, namespace, timed, &mut errors);
            errors.is_empty()
        };
        for (namespace, about, untimed, timed) in [
            ("default", "", true, true),
            ("kube-system", "", false, true),
            ("a", "", false, false),
            ("a", "a", true, true),
            ("a", "b", false, true),
        ] {
            let fits = [told(namespace, about, false), told(namespace, about, true)];
            assert_eq!(fits, [untimed, timed], "{namespace} {about}");
        }
    }
}
