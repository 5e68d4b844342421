//! Metadata that the server itself sets in objects of every kind.

use std::time::SystemTime;

use holdfast_gotext::time::{Precision, Timestamp};
use holdfast_ownership::Comparison;
use holdfast_resource::{Generation, ResourceRules};
use holdfast_schema::same_once_stored;
use holdfast_value::{List, SeenValues, SmolStr, Value};

use crate::identifiers::Identifiers;

/// Maximum number of letters of `generateName` in the name; a name has at most 63 letters, five of them generated.
const GENERATED_PREFIX: usize = 58;

/// Metadata that a client cannot set on an object that it creates.
const SERVER_OWNED: [&str; 5] = [
    "creationTimestamp",
    "deletionGracePeriodSeconds",
    "deletionTimestamp",
    "selfLink",
    "uid",
];

/// Removes the fields that a client cannot set from a new object.
pub fn wipe(object: &mut Value) {
    for field in SERVER_OWNED {
        object.remove_at(&["metadata", field]);
    }
}

/// Returns the name of a new object, or its `generateName`.
pub fn wanted_name(object: &Value) -> &str {
    match name(object) {
        "" => object.str_at(&["metadata", "generateName"]).unwrap_or_default(),
        name => name,
    }
}

/// Sets the identity of a new object: name (if it is to be generated), namespace, uid and creation timestamp.
pub fn fill_in(object: &mut Value, namespace: &str, identifiers: &dyn Identifiers, now: SystemTime) {
    let prefix = object.str_at(&["metadata", "generateName"]).unwrap_or_default();
    if !prefix.is_empty() && name(object).is_empty() {
        let ends = prefix.char_indices().map(|(at, letter)| at + letter.len_utf8());
        let end = ends
            .take_while(|ends| *ends <= GENERATED_PREFIX)
            .last()
            .unwrap_or_default();
        let name = format!("{}{}", prefix.get(..end).unwrap_or_default(), identifiers.name_suffix());
        object.set_at(&["metadata", "name"], name.into());
    }
    set_namespace(object, namespace);
    object.set_at(&["metadata", "uid"], identifiers.uid().into());
    object.set_at(&["metadata", "creationTimestamp"], rfc3339(now).into());
}

/// Sets the namespace of the object to that of the request path; removes it for cluster-scoped resources.
pub fn set_namespace(object: &mut Value, namespace: &str) {
    if namespace.is_empty() {
        object.remove_at(&["metadata", "namespace"]);
    } else if object.str_at(&["metadata", "namespace"]) != Some(namespace) {
        object.set_at(&["metadata", "namespace"], namespace.into());
    }
}

/// Copies the fields that an update can neither change nor omit from the existing object.
pub fn keep(object: &mut Value, old: &Value) {
    for field in ["creationTimestamp", "generation"] {
        take(object, old, &["metadata", field]);
    }
    if object.str_at(&["metadata", "uid"]).unwrap_or_default().is_empty() {
        take(object, old, &["metadata", "uid"]);
    }
    if old.at(&["metadata", "deletionTimestamp"]).is_some() {
        take(object, old, &["metadata", "deletionTimestamp"]);
    }
    if object.at(&["metadata", "deletionGracePeriodSeconds"]).is_none() {
        take(object, old, &["metadata", "deletionGracePeriodSeconds"]);
    }
}

/// Sets the node at `path` to its value in `old`; removes it if `old` lacks it.
pub fn take(object: &mut Value, old: &Value, path: &[&str]) {
    match old.at(path) {
        Some(value) => {
            // Equal subtrees are not replaced, so that shared ones stay shared.
            if object.at(path) != Some(value) {
                object.set_at(path, value.clone());
            }
        }
        None => {
            object.remove_at(path);
        }
    }
}

/// Fields that a write to a subresource without metadata changes leaves unchanged (`ResetObjectMetaForStatus`).
const NOT_OF_A_STATUS: [[&str; 2]; 7] = [
    ["metadata", "annotations"],
    ["metadata", "deletionTimestamp"],
    ["metadata", "finalizers"],
    ["metadata", "generation"],
    ["metadata", "labels"],
    ["metadata", "ownerReferences"],
    ["metadata", "selfLink"],
];

/// Resets the fields at `paths` to their values in `old`; removes them if there is no `old`.
pub fn reset_fields(object: &mut Value, old: Option<&Value>, paths: &[Vec<SmolStr>]) {
    for path in paths {
        let path: Vec<&str> = path.iter().map(SmolStr::as_str).collect();
        match old {
            Some(old) if path == ["metadata"] => {
                for kept in NOT_OF_A_STATUS {
                    take(object, old, &kept);
                }
            }
            Some(old) => take(object, old, &path),
            None => {
                object.remove_at(&path);
            }
        }
    }
}

/// Sets the generation of a new object.
pub fn first_generation(object: &mut Value, rules: &ResourceRules) {
    match rules.generation {
        // The value from the client is kept.
        Generation::Unmanaged | Generation::Counted { from_one: false, .. } => {}
        Generation::Counted { from_one: true, .. } => object.set_at(&["metadata", "generation"], Value::Int(1)),
    }
}

/// Increments the generation if a write to the object itself, or to a subresource that counts, has changed a field that
/// counts.
pub fn next_generation(object: &mut Value, old: &Value, rules: &ResourceRules, subresource: &str) {
    let Generation::Counted {
        fields, subresources, ..
    } = &rules.generation
    else {
        return;
    };
    if !subresource.is_empty() && !subresources.iter().any(|counted| counted == subresource) {
        return;
    }
    let is_same = comparison(rules);
    if fields.iter().any(|field| differs(object, old, field, is_same)) {
        raise_generation(object, old);
    }
}

/// Makes the generation one more than in `old`.
pub fn raise_generation(object: &mut Value, old: &Value) {
    let generation = old.at(&["metadata", "generation"]).and_then(Value::as_i64);
    object.set_at(
        &["metadata", "generation"],
        Value::Int(generation.unwrap_or_default() + 1),
    );
}

/// Returns true if the objects differ at a dotted path; `*` means everything except metadata.
fn differs(a: &Value, b: &Value, path: &str, is_same: Comparison) -> bool {
    if path != "*" {
        let path: Vec<&str> = path.split('.').collect();
        return !is_same(a.at(&path), b.at(&path));
    }
    let changed = all_but_metadata(a).any(|(name, value)| !is_same(Some(value), b.get(name)));
    changed || all_but_metadata(b).any(|(name, _)| a.get(name).is_none())
}

/// Returns the comparison of two fields: in the structs of built-in kinds an empty list equals a missing one; custom
/// objects are compared as trees.
pub(crate) fn comparison(rules: &ResourceRules) -> Comparison {
    match rules.protobuf {
        true => same_once_stored,
        false => |a, b| a == b,
    }
}

fn all_but_metadata(object: &Value) -> impl Iterator<Item = &(SmolStr, Value)> {
    let fields = object.as_map().into_iter().flatten();
    fields.filter(|(name, _)| name != "metadata")
}

/// Returns the name; empty if there is none.
pub fn name(object: &Value) -> &str {
    object.str_at(&["metadata", "name"]).unwrap_or_default()
}

/// Returns the uid; empty if there is none.
pub fn uid(object: &Value) -> &str {
    object.str_at(&["metadata", "uid"]).unwrap_or_default()
}

/// Returns the finalizers.
pub fn finalizers(object: &Value) -> impl Iterator<Item = &str> {
    let list = object.at(&["metadata", "finalizers"]).and_then(Value::as_list);
    list.into_iter().flat_map(|list| list.iter()).filter_map(Value::as_str)
}

/// Sets the finalizers; an empty list removes the field.
pub fn set_finalizers(object: &mut Value, finalizers: Vec<SmolStr>) {
    if finalizers.is_empty() {
        object.remove_at(&["metadata", "finalizers"]);
    } else {
        let list: List = finalizers.into_iter().map(Value::String).collect();
        object.set_at(&["metadata", "finalizers"], list.into());
    }
}

/// Removes duplicate owner references and returns the warnings for the client: none without duplicates.
/// `after_admission` is true if mutating admission was already called.
///
/// upstream: k8s.io/apiserver/pkg/endpoints/handlers#dedupOwnerReferencesAndAddWarning
pub fn drop_repeated_owners(object: &mut Value, after_admission: bool) -> Vec<String> {
    let list = object.at(&["metadata", "ownerReferences"]).and_then(Value::as_list);
    let Some(list) = list.filter(|list| list.len() > 1) else {
        return Vec::new();
    };
    let mut seen = SeenValues::new();
    let (mut once, mut uids) = (Vec::with_capacity(list.len()), Vec::new());
    for reference in list {
        if seen.insert(reference) {
            once.push(reference.clone());
        } else {
            uids.push(reference.str_at(&["uid"]).unwrap_or_default());
        }
    }
    if uids.is_empty() {
        return Vec::new();
    }
    let when = if after_admission {
        " after mutating admission happens"
    } else {
        ""
    };
    let warning = format!(
        ".metadata.ownerReferences contains duplicate entries{when}; API server dedups owner references in 1.20+, and may reject such requests as early as 1.24; please fix your requests; duplicate UID(s) observed: {}",
        uids.join(", ")
    );
    object.set_at(&["metadata", "ownerReferences"], once.into());
    vec![warning]
}

/// Formats a time for an object: RFC 3339 in UTC, in whole seconds.
pub fn rfc3339(time: SystemTime) -> SmolStr {
    Timestamp::from(time).text(Precision::Seconds)
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, UNIX_EPOCH};

    use holdfast_value::{Limits, json};

    use super::*;

    fn object(text: &str) -> Value {
        json::parse(text.as_bytes(), &Limits::TRUSTED).unwrap()
    }

    struct Fixed;

    impl Identifiers for Fixed {
        fn uid(&self) -> String {
            "u".to_owned()
        }

        fn name_suffix(&self) -> String {
            "bcdfg".to_owned()
        }
    }

    #[test]
    fn metadata_reset_keeps_resource_version_and_managers() {
        let old =
            object(r#"{"metadata":{"labels":{"a":"1"},"managedFields":[],"name":"n","resourceVersion":"7"},"spec":1}"#);
        let mut new = object(
            r#"{"metadata":{"labels":{"a":"2"},"managedFields":[{"manager":"m"}],"name":"n","resourceVersion":"5"},"spec":2}"#,
        );
        reset_fields(&mut new, Some(&old), &[vec!["metadata".into()], vec!["spec".into()]]);
        assert_eq!(
            new,
            object(
                r#"{"metadata":{"labels":{"a":"1"},"managedFields":[{"manager":"m"}],"name":"n","resourceVersion":"5"},"spec":1}"#
            )
        );
    }

    #[test]
    fn a_generated_name_has_at_most_63_letters() {
        let mut long = object(&format!(r#"{{"metadata":{{"generateName":"{}-"}}}}"#, "x".repeat(70)));
        fill_in(&mut long, "a", &Fixed, UNIX_EPOCH);
        assert_eq!(name(&long), format!("{}bcdfg", "x".repeat(58)));
        let mut named = object(r#"{"metadata":{"generateName":"a-","name":"b","uid":"mine"}}"#);
        fill_in(&mut named, "a", &Fixed, UNIX_EPOCH);
        assert_eq!((name(&named), uid(&named)), ("b", "u"));
    }

    #[test]
    fn times_are_written_in_seconds() {
        for (seconds, text) in [
            (0, "1970-01-01T00:00:00Z"),
            (951_782_400, "2000-02-29T00:00:00Z"),
            (1_795_234_567, "2026-11-21T04:16:07Z"),
        ] {
            assert_eq!(rfc3339(UNIX_EPOCH + Duration::from_secs(seconds)), text);
        }
    }

    #[test]
    fn the_generation_counts_the_fields_of_the_rule_alone() {
        let rules = ResourceRules {
            generation: Generation::Counted {
                from_one: true,
                fields: vec!["spec".into(), "metadata.annotations".into()],
                subresources: vec!["scale".into()],
            },
            ..rules()
        };
        let old = object(r#"{"metadata":{"generation":3},"spec":{"a":1},"status":{}}"#);
        let cases = [
            (
                r#"{"metadata":{"generation":3},"spec":{"a":1},"status":{"b":1}}"#,
                "",
                3,
            ),
            (r#"{"metadata":{"generation":3},"spec":{"a":2},"status":{}}"#, "", 4),
            (
                r#"{"metadata":{"generation":3},"spec":{"a":2},"status":{}}"#,
                "status",
                3,
            ),
            (
                r#"{"metadata":{"generation":3},"spec":{"a":2},"status":{}}"#,
                "scale",
                4,
            ),
            (
                r#"{"metadata":{"generation":3,"annotations":{"a":"b"}},"spec":{"a":1}}"#,
                "",
                4,
            ),
        ];
        for (text, subresource, generation) in cases {
            let mut new = object(text);
            next_generation(&mut new, &old, &rules, subresource);
            let found = new.at(&["metadata", "generation"]).and_then(Value::as_i64);
            assert_eq!(found, Some(generation), "{text} {subresource}");
        }
    }

    #[test]
    fn a_generation_that_begins_with_none_is_kept_as_it_was_sent() {
        for (from_one, generation) in [(true, 1), (false, 7)] {
            let generation_rule = Generation::Counted {
                from_one,
                fields: vec!["spec".into()],
                subresources: Vec::new(),
            };
            let rules = ResourceRules {
                generation: generation_rule,
                ..rules()
            };
            let mut new = object(r#"{"metadata":{"generation":7}}"#);
            first_generation(&mut new, &rules);
            assert_eq!(new.at(&["metadata", "generation"]), Some(&Value::Int(generation)));
        }
    }

    #[test]
    fn wildcard_path_ignores_metadata() {
        let old = object(r#"{"metadata":{"labels":{"a":"b"}},"spec":{"a":1}}"#);
        for (text, counts) in [
            (r#"{"metadata":{},"spec":{"a":1}}"#, false),
            (r#"{"spec":{"a":1}}"#, false),
            (r#"{"metadata":{"labels":{"a":"b"}},"spec":{"a":2}}"#, true),
            (r#"{"metadata":{"labels":{"a":"b"}},"spec":{"a":1},"status":{}}"#, true),
            (r#"{"metadata":{"labels":{"a":"b"}}}"#, true),
        ] {
            assert_eq!(differs(&object(text), &old, "*", same_once_stored), counts, "{text}");
        }
    }

    #[test]
    fn an_update_keeps_what_only_the_server_says() {
        let old = object(
            r#"{"metadata":{"creationTimestamp":"t","deletionTimestamp":"d","deletionGracePeriodSeconds":5,"generation":3,
                "uid":"u"}}"#,
        );
        let mut new = object(r#"{"metadata":{"creationTimestamp":"x","generation":9,"name":"n"}}"#);
        keep(&mut new, &old);
        let mut expected = old.clone();
        expected.set_at(&["metadata", "name"], "n".into());
        assert_eq!(new, expected);
        let mut other = object(r#"{"metadata":{"uid":"other"}}"#);
        keep(&mut other, &old);
        assert_eq!(uid(&other), "other", "which is a conflict, not a change");
    }

    #[test]
    fn owners_that_stand_there_twice_are_written_once_and_warned_of() {
        let mut doubled = object(r#"{"metadata":{"ownerReferences":[{"uid":"a"},{"uid":"b"},{"uid":"a"}]}}"#);
        let warnings = drop_repeated_owners(&mut doubled, true);
        assert!(
            warnings[0].starts_with(".metadata.ownerReferences contains duplicate entries after mutating admission")
        );
        assert!(warnings[0].ends_with("duplicate UID(s) observed: a"), "{warnings:?}");
        assert_eq!(
            doubled,
            object(r#"{"metadata":{"ownerReferences":[{"uid":"a"},{"uid":"b"}]}}"#)
        );
        assert!(drop_repeated_owners(&mut doubled, true).is_empty());
    }

    fn rules() -> ResourceRules {
        ResourceRules {
            unconditional_update: true,
            ..ResourceRules::default()
        }
    }
}
