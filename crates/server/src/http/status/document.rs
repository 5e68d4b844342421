//! Content of a `Status`, and its encoding.

use holdfast_schema::{Field, GroupResource};
use holdfast_value::Value;
use serde::Serialize;
use smol_str::SmolStr;

use super::conflicts::FieldConflicts;
use super::duplicates::ItemCollisions;

/// The fields of a failed `Status`
/// (<https://kubernetes.io/docs/reference/kubernetes-api/common-definitions/status/>).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Status {
    /// The HTTP status code.
    pub code: u16,
    /// Reason, in one CamelCase word; empty if the reference has no word for it.
    pub reason: SmolStr,
    /// Message for people.
    pub message: String,
    /// Subject of the error. `Some` of empty details is written as `{}`, which clients can distinguish from none.
    pub details: Option<Details>,
    /// Token with which an expired list can continue nevertheless (`metadata.continue`); empty for none.
    pub continue_token: String,
    /// Warnings for the client, sent in headers.
    pub warnings: Vec<String>,
}

/// Subject of a `Status`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Details {
    /// The name of the object.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub name: String,
    /// The group of the resource.
    #[serde(skip_serializing_if = "SmolStr::is_empty")]
    pub group: SmolStr,
    /// The plural name of the resource, or the kind in validation errors.
    #[serde(skip_serializing_if = "SmolStr::is_empty")]
    pub kind: SmolStr,
    /// The uid of the object.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub uid: String,
    /// Individual causes of the error.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub causes: Vec<Cause>,
    /// Advised delay of a retry in seconds; 0 for no advice.
    #[serde(skip_serializing_if = "is_zero")]
    pub retry_after_seconds: u32,
    /// Position of the operation of a transaction that failed. The reference has no such field.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub operation_index: Option<usize>,
    /// Items of an applied configuration that have the same key, if the client requests them. The reference has no such
    /// field.
    #[serde(flatten, skip_serializing_if = "Option::is_none")]
    pub duplicates: Option<Box<ItemCollisions>>,
    /// Owners and values of fields that conflict, if the client requests them. The reference has no such fields.
    #[serde(flatten)]
    pub conflicts: FieldConflicts,
}

/// One of the causes of a failure.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Cause {
    /// Reason, in one CamelCase word.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub reason: String,
    /// Message for people.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub message: String,
    /// Path of the field.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub field: String,
}

fn is_zero(number: &u32) -> bool {
    *number == 0
}

impl Details {
    /// Names of the fields that the reference does not have.
    pub const OWN_FIELDS: [&'static str; 5] = [
        "conflicts",
        "conflictsOmitted",
        "operationIndex",
        "collisions",
        "smallestApply",
    ];

    /// True if there are fields that the reference does not have.
    pub(super) fn has_own_fields(&self) -> bool {
        !self.conflicts.is_empty() || self.operation_index.is_some() || self.duplicates.is_some()
    }

    /// Returns the details with the fields of the reference only.
    pub(super) fn without_own_fields(&self) -> Self {
        Self {
            operation_index: None,
            duplicates: None,
            conflicts: FieldConflicts::default(),
            ..self.clone()
        }
    }

    pub(crate) fn new(resource: &GroupResource, name: &str) -> Self {
        Self {
            name: name.to_owned(),
            group: resource.group.clone(),
            kind: resource.resource.clone(),
            ..Self::default()
        }
    }

    /// Reads the `details` of a `Status` from a webhook.
    pub(super) fn from_status(details: &Value) -> Self {
        let root = Field::root(details);
        let text = |field: &Field<'_, '_>, name: &str| field.child(name).text().to_owned();
        let list = root.child("causes");
        let causes = list.items().map(|cause| Cause {
            reason: text(&cause, "reason"),
            message: text(&cause, "message"),
            field: text(&cause, "field"),
        });
        let retry = root.child("retryAfterSeconds").number();
        Self {
            name: text(&root, "name"),
            group: text(&root, "group").into(),
            kind: text(&root, "kind").into(),
            uid: text(&root, "uid"),
            causes: causes.collect(),
            retry_after_seconds: retry
                .and_then(|seconds| u32::try_from(seconds).ok())
                .unwrap_or_default(),
            operation_index: None,
            duplicates: None,
            conflicts: FieldConflicts::default(),
        }
    }

    pub(super) fn of_causes(causes: Vec<Cause>) -> Self {
        Self {
            causes,
            ..Self::default()
        }
    }
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Document<'a> {
    pub(super) kind: &'a str,
    pub(super) api_version: &'a str,
    pub(super) metadata: ListMeta<'a>,
    pub(super) status: &'a str,
    #[serde(skip_serializing_if = "str::is_empty")]
    pub(super) message: &'a str,
    #[serde(skip_serializing_if = "str::is_empty")]
    pub(super) reason: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) details: Option<&'a Details>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) code: Option<u16>,
}

#[derive(Serialize)]
pub(super) struct ListMeta<'a> {
    #[serde(rename = "continue", skip_serializing_if = "str::is_empty")]
    pub(super) continue_token: &'a str,
}
