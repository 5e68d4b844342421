//! Fields that a write changed, with their owners.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use holdfast_ownership::{Blame, Owner, blame};
use holdfast_value::Value;

/// Maximum number of fields that a line names.
const MAX_FIELDS: usize = 12;

/// Fields that every write sets, or that the name of the object repeats.
const OMITTED: [&str; 8] = [
    ".apiVersion",
    ".kind",
    ".metadata.creationTimestamp",
    ".metadata.generation",
    ".metadata.name",
    ".metadata.namespace",
    ".metadata.resourceVersion",
    ".metadata.uid",
];

/// Returns the changed fields of an object with their owners, such as `.data.colour (kubectl), -.data.size (editor)`. A minus
/// precedes a removed field, with its former owners.
pub(super) fn describe(before: Option<&Value>, after: Option<&Value>) -> String {
    let (before, after) = (fields(before), fields(after));
    let set = after
        .iter()
        .filter(|(path, field)| before.get(*path).is_none_or(|earlier| earlier.value != field.value));
    let removed = before.iter().filter(|(path, _)| !after.contains_key(*path));
    let all: Vec<(&str, &String, &Blame)> = set
        .map(|(path, field)| ("", path, field))
        .chain(removed.map(|(path, field)| ("-", path, field)))
        .collect();
    let mut text = String::new();
    for (at, (sign, path, field)) in all.iter().take(MAX_FIELDS).enumerate() {
        let separator = if at == 0 { "" } else { ", " };
        let _ = write!(text, "{separator}{sign}{path}");
        if !field.owners.is_empty() {
            let owners: Vec<String> = field.owners.iter().map(owner).collect();
            let _ = write!(text, " ({})", owners.join(", "));
        }
    }
    if all.len() > MAX_FIELDS {
        let _ = write!(text, " and {} more", all.len() - MAX_FIELDS);
    }
    text
}

fn fields(object: Option<&Value>) -> BTreeMap<String, Blame> {
    let all = object.map(blame).unwrap_or_default();
    let named = all.into_iter().map(|field| (field.path.to_string(), field));
    named.filter(|(path, _)| !OMITTED.contains(&path.as_str())).collect()
}

fn owner(owner: &Owner) -> String {
    match owner.subresource.is_empty() {
        true => owner.manager.to_string(),
        false => format!("{}/{}", owner.manager, owner.subresource),
    }
}

#[cfg(test)]
mod tests {
    use holdfast_value::{Limits, json};

    use super::*;

    fn object(data: &str, owned: &str) -> Value {
        let text = format!(
            r#"{{"kind":"ConfigMap","metadata":{{"name":"a","resourceVersion":"7","managedFields":[{{"manager":"kubectl",
               "operation":"Apply","apiVersion":"v1","fieldsType":"FieldsV1","fieldsV1":{{"f:data":{owned}}}}}]}},"data":{data}}}"#
        );
        json::parse(text.as_bytes(), &Limits::REQUEST).unwrap()
    }

    #[test]
    fn changed_fields_have_their_owners() {
        let before = object(r#"{"colour":"red","size":"1"}"#, r#"{"f:colour":{},"f:size":{}}"#);
        let after = object(r#"{"colour":"blue","shape":"round"}"#, r#"{"f:colour":{}}"#);
        assert_eq!(
            describe(Some(&before), Some(&after)),
            ".data.colour (kubectl), .data.shape, -.data.size (kubectl)"
        );
        assert_eq!(describe(Some(&after), Some(&after)), "");
    }

    #[test]
    fn created_and_deleted_objects_show_all_fields() {
        let only = object(r#"{"colour":"red"}"#, r#"{"f:colour":{}}"#);
        assert_eq!(describe(None, Some(&only)), ".data.colour (kubectl)");
        assert_eq!(describe(Some(&only), None), "-.data.colour (kubectl)");
        assert_eq!(describe(None, None), "");
    }

    #[test]
    fn many_fields_are_counted() {
        let data: Vec<String> = (0..20).map(|number| format!(r#""k{number}":"1""#)).collect();
        let text = describe(None, Some(&object(&format!("{{{}}}", data.join(",")), "{}")));
        assert!(text.ends_with(" and 8 more"), "{text}");
    }
}
