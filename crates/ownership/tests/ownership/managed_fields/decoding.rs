//! Entries that the server stored are returned in exactly the form that they have.

use super::host::{Host, object};

#[test]
fn entries_go_through_an_apply_as_they_are() {
    let mut host = Host::config_map();
    let existing = object(
        "{apiVersion: v1, kind: ConfigMap, metadata: {name: one, uid: '1', managedFields: [\
         {manager: a, operation: Apply, apiVersion: v1, time: '1970-01-01T00:00:09Z', fieldsType: FieldsV1, \
         fieldsV1: {'f:data': {'f:a': {}}}}, \
         {manager: \"b\\\"<\\n\", operation: Update, apiVersion: v1, fieldsType: FieldsV1, \
         fieldsV1: {'f:metadata': {'f:labels': {'.': {}}}}, subresource: status}]}, data: {a: '1'}}",
    );
    host.existing = Some(existing.clone());
    assert!(!host.apply("a", "data: {a: '1'}").unwrap());
    assert_eq!(host.existing, Some(existing));
}
