//! The options of writes, as data.

use holdfast_schema::{FieldError, FieldPath, GroupKind};
use holdfast_value::{SmolStr, Value};

use crate::error::Error;

/// Handling of unknown and repeated fields in a body.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum FieldValidation {
    /// They are dropped silently.
    Ignore,
    /// They are dropped, and the client receives a warning. This is the default.
    #[default]
    Warn,
    /// The request fails.
    Strict,
}

impl FieldValidation {
    /// The values by their names.
    pub const NAMES: [(&'static str, Self); 4] = [
        ("", Self::Warn),
        ("Ignore", Self::Ignore),
        ("Strict", Self::Strict),
        ("Warn", Self::Warn),
    ];
}

/// Options of all writes of objects.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WriteOptions {
    /// True if nothing is stored (`dryRun=All`).
    pub dry_run: bool,
    /// Name of the field manager; empty if the client leaves it to the User-Agent.
    pub field_manager: String,
    /// Handling of unknown and repeated fields.
    pub field_validation: FieldValidation,
}

/// Handling of the dependents of an object that is deleted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PropagationPolicy {
    /// They are deleted first.
    Foreground,
    /// They are deleted afterwards.
    Background,
    /// They stay.
    Orphan,
}

impl PropagationPolicy {
    const NAMES: [(&'static str, Self); 3] = [
        ("Foreground", Self::Foreground),
        ("Background", Self::Background),
        ("Orphan", Self::Orphan),
    ];
}

/// The options of a DELETE, from the query or from a body of kind `DeleteOptions`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DeleteOptions {
    /// True if nothing is deleted (`dryRun=All`).
    pub dry_run: bool,
    /// Number of seconds that the object has to terminate.
    pub grace_period_seconds: Option<i64>,
    /// The older form of [`DeleteOptions::propagation_policy`].
    pub orphan_dependents: Option<bool>,
    /// Handling of dependents.
    pub propagation_policy: Option<PropagationPolicy>,
    /// The uid that the object must have.
    pub uid: Option<String>,
    /// The resource version that the object must have.
    pub resource_version: Option<String>,
    /// True if the object is deleted even if it cannot be read (`ignoreStoreReadErrorWithClusterBreakingPotential`).
    pub ignores_read_error: bool,
}

impl WriteOptions {
    /// Returns the options as an object of that kind, such as `CreateOptions`.
    pub fn to_object(&self, kind: &str) -> Value {
        let mut object = options_object(kind, self.dry_run);
        if !self.field_manager.is_empty() {
            object.set_at(&["fieldManager"], self.field_manager.as_str().into());
        }
        let named = FieldValidation::NAMES
            .iter()
            .find(|(_, of)| *of == self.field_validation);
        if let Some((name, _)) = named.filter(|(name, _)| !name.is_empty()) {
            object.set_at(&["fieldValidation"], (*name).into());
        }
        object
    }
}

fn options_object(kind: &str, dry_run: bool) -> Value {
    let mut object = Value::empty_map();
    object.set_at(&["kind"], kind.into());
    object.set_at(&["apiVersion"], "meta.k8s.io/v1".into());
    if dry_run {
        object.set_at(&["dryRun"], Value::from(vec![Value::from("All")]));
    }
    object
}

const IGNORES_READ_ERROR: &str = "ignoreStoreReadErrorWithClusterBreakingPotential";

impl DeleteOptions {
    /// Returns the options as an object.
    pub fn to_object(&self) -> Value {
        let mut object = options_object("DeleteOptions", self.dry_run);
        if let Some(seconds) = self.grace_period_seconds {
            object.set_at(&["gracePeriodSeconds"], Value::Int(seconds));
        }
        if let Some(orphans) = self.orphan_dependents {
            object.set_at(&["orphanDependents"], Value::Bool(orphans));
        }
        let policy = PropagationPolicy::NAMES
            .iter()
            .find(|(_, of)| Some(of) == self.propagation_policy.as_ref());
        if let Some((name, _)) = policy {
            object.set_at(&["propagationPolicy"], (*name).into());
        }
        if self.ignores_read_error {
            object.set_at(&[IGNORES_READ_ERROR], Value::Bool(true));
        }
        if let Some(uid) = &self.uid {
            object.set_at(&["preconditions", "uid"], uid.as_str().into());
        }
        if let Some(version) = &self.resource_version {
            object.set_at(&["preconditions", "resourceVersion"], version.as_str().into());
        }
        object
    }

    /// Reads the options of a DELETE from an object that has the form of its type.
    ///
    /// # Errors
    /// [`ErrorKind::Invalid`](crate::ErrorKind::Invalid) if a value is not allowed.
    pub fn from_object(object: &Value) -> Result<Self, Error> {
        let text = |path: &[&str]| object.str_at(path).map(str::to_owned);
        let dry_runs = object
            .get("dryRun")
            .and_then(Value::as_list)
            .into_iter()
            .flat_map(|list| list.iter())
            .map(|item| item.as_str().unwrap_or_default());
        let integer = object.get("gracePeriodSeconds").and_then(Value::as_i64);
        let orphan = object.get("orphanDependents").and_then(Value::as_bool);
        let options = Self::check(dry_runs, integer, orphan, object.str_at(&["propagationPolicy"]))?;
        Ok(Self {
            uid: text(&["preconditions", "uid"]),
            resource_version: text(&["preconditions", "resourceVersion"]),
            ignores_read_error: object.get(IGNORES_READ_ERROR).and_then(Value::as_bool) == Some(true),
            ..options
        })
    }

    /// Returns the options without preconditions.
    ///
    /// upstream: k8s.io/apimachinery/pkg/apis/meta/v1/validation#ValidateDeleteOptions
    ///
    /// # Errors
    /// [`ErrorKind::Invalid`](crate::ErrorKind::Invalid) if a value is not allowed.
    pub fn check<'a>(
        dry_runs: impl Iterator<Item = &'a str>,
        grace_period_seconds: Option<i64>,
        orphan_dependents: Option<bool>,
        policy: Option<&str>,
    ) -> Result<Self, Error> {
        let mut errors = Vec::new();
        if let (Some(_), Some(policy)) = (orphan_dependents, policy) {
            const WHY: &str = "orphanDependents and deletionPropagation cannot be both set";
            errors.push(FieldError::invalid(&FieldPath::new("propagationPolicy"), policy, WHY));
        }
        let propagation_policy = policy.and_then(|text| {
            let supported = ["Foreground", "Background", "Orphan", "nil"];
            named(
                &PropagationPolicy::NAMES,
                "propagationPolicy",
                text,
                &supported,
                &mut errors,
            )
        });
        let dry_run = dry_run(dry_runs, &mut errors);
        if !errors.is_empty() {
            let kind = GroupKind {
                group: SmolStr::new_static("meta.k8s.io"),
                kind: SmolStr::new_static("DeleteOptions"),
            };
            return Err(Error::invalid(&kind, "", errors));
        }
        Ok(Self {
            dry_run,
            grace_period_seconds,
            orphan_dependents,
            propagation_policy,
            uid: None,
            resource_version: None,
            ignores_read_error: false,
        })
    }
}

/// Returns the value of that name among `names`; an error that lists the `supported` names if there is none.
pub fn named<T: Copy>(
    names: &[(&str, T)],
    field: &str,
    text: &str,
    supported: &[&str],
    errors: &mut Vec<FieldError>,
) -> Option<T> {
    let found = names.iter().find(|(name, _)| *name == text);
    if found.is_none() {
        errors.push(FieldError::not_supported(&FieldPath::new(field), text, supported));
    }
    found.map(|(_, value)| *value)
}

/// Returns true if nothing is stored, according to the values of `dryRun`.
pub fn dry_run<'a>(values: impl Iterator<Item = &'a str>, errors: &mut Vec<FieldError>) -> bool {
    let values: Vec<Value> = values.map(Value::from).collect();
    let dry = !values.is_empty();
    if values.iter().any(|value| value.as_str() != Some("All")) {
        errors.push(FieldError::not_supported(&FieldPath::new("dryRun"), values, &["All"]));
    }
    dry
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::ErrorKind;

    #[test]
    fn options_are_read_as_they_are_shown() {
        let options = DeleteOptions {
            dry_run: true,
            grace_period_seconds: Some(-1),
            orphan_dependents: None,
            propagation_policy: Some(PropagationPolicy::Foreground),
            uid: Some("u".to_owned()),
            resource_version: Some("7".to_owned()),
            ignores_read_error: true,
        };
        let object = options.to_object();
        assert_eq!(object.str_at(&["kind"]), Some("DeleteOptions"));
        assert_eq!(DeleteOptions::from_object(&object).ok(), Some(options));
        let nothing = DeleteOptions::from_object(&Value::empty_map());
        assert_eq!(nothing.ok(), Some(DeleteOptions::default()));
    }

    #[test]
    fn all_that_is_wrong_with_options_is_reported_at_once() {
        let refused = DeleteOptions::check(["Some", "All"].into_iter(), None, Some(true), Some("Never"));
        let kind = refused.map_err(|error| error.into_parts().0);
        let Err(ErrorKind::Invalid { errors, kind, .. }) = kind else {
            panic!("{kind:?}")
        };
        let texts: Vec<String> = errors.iter().map(ToString::to_string).collect();
        assert_eq!(
            texts,
            [
                "propagationPolicy: Invalid value: \"Never\": orphanDependents and deletionPropagation cannot be both set",
                "propagationPolicy: Unsupported value: \"Never\": supported values: \"Foreground\", \"Background\", \"Orphan\", \
                 \"nil\"",
                "dryRun: Unsupported value: [\"Some\",\"All\"]: supported values: \"All\"",
            ]
        );
        assert_eq!(kind.kind, "DeleteOptions");
    }

    #[test]
    fn options_of_writes_show_what_differs_from_nothing() {
        let strict = WriteOptions {
            field_validation: FieldValidation::Strict,
            field_manager: "m".to_owned(),
            dry_run: true,
        };
        let object = strict.to_object("CreateOptions");
        let text = |field: &str| object.str_at(&[field]);
        assert_eq!(
            (text("fieldManager"), text("fieldValidation")),
            (Some("m"), Some("Strict"))
        );
        let shown = WriteOptions::default().to_object("UpdateOptions");
        let fields: Vec<&str> = shown
            .as_map()
            .into_iter()
            .flatten()
            .map(|(name, _)| name.as_str())
            .collect();
        assert_eq!(fields, ["apiVersion", "kind"]);
    }
}
