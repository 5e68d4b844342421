//! Owners and values of fields that conflict, as an addition to the `details` of a `Status`.

use holdfast_value::{Value, json};
use holdfast_writes::{Conflict, ConflictDetails, Conflicts};
use serde::Serialize;
use smol_str::SmolStr;

/// Length in bytes above which the JSON text of a value is truncated, and its length after truncation.
const MAX_VALUE_BYTES: usize = 4096;

/// Maximum length in bytes of the JSON text of all conflicts.
const MAX_CONFLICTS_BYTES: usize = 256 << 10;

/// Owners and values of fields that conflict. Clients that do not know these fields ignore them.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct FieldConflicts {
    /// Conflicts in the order of the causes.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    conflicts: Vec<FieldConflict>,
    /// Number of conflicts that are left out because of their size.
    #[serde(skip_serializing_if = "is_zero")]
    conflicts_omitted: usize,
}

/// Conflict about one field.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
struct FieldConflict {
    /// Path of the field.
    field: String,
    /// Name of the manager that owns it.
    manager: SmolStr,
    /// Operation by which it became the owner: `Apply` or `Update`.
    operation: &'static str,
    /// Version in which it writes.
    api_version: SmolStr,
    /// Subresource through which it writes.
    #[serde(skip_serializing_if = "SmolStr::is_empty")]
    subresource: SmolStr,
    /// Time of its last change to its fields.
    #[serde(skip_serializing_if = "Option::is_none")]
    time: Option<SmolStr>,
    /// Existing value.
    #[serde(skip_serializing_if = "Option::is_none")]
    stored: Option<Value>,
    /// Begin of the JSON text of an existing value that is too long.
    #[serde(skip_serializing_if = "Option::is_none")]
    stored_truncated: Option<String>,
    /// Requested value; absent if the apply removes the field.
    #[serde(skip_serializing_if = "Option::is_none")]
    requested: Option<Value>,
    /// Begin of the JSON text of a requested value that is too long.
    #[serde(skip_serializing_if = "Option::is_none")]
    requested_truncated: Option<String>,
}

fn is_zero(number: &usize) -> bool {
    *number == 0
}

impl FieldConflicts {
    /// Returns the conflicts that have details, within the limits of size.
    pub(super) fn new(all: &Conflicts) -> Self {
        let mut conflicts = Vec::new();
        let mut left = MAX_CONFLICTS_BYTES;
        for conflict in all.iter() {
            let Some(details) = &conflict.details else { break };
            let conflict = FieldConflict::new(conflict, details);
            let length = serde_json::to_vec(&conflict).map_or(usize::MAX, |text| text.len());
            let Some(remaining) = left.checked_sub(length) else {
                break;
            };
            left = remaining;
            conflicts.push(conflict);
        }
        let requested = all.iter().next().is_some_and(|first| first.details.is_some());
        let conflicts_omitted = match requested {
            true => all.iter().len() - conflicts.len(),
            false => 0,
        };
        Self {
            conflicts,
            conflicts_omitted,
        }
    }

    /// Returns true if there are none.
    pub(crate) fn is_empty(&self) -> bool {
        self.conflicts.is_empty() && self.conflicts_omitted == 0
    }
}

impl FieldConflict {
    fn new(conflict: &Conflict, details: &ConflictDetails) -> Self {
        let (stored, stored_truncated) = bounded(details.stored.as_ref());
        let (requested, requested_truncated) = bounded(details.requested.as_ref());
        Self {
            field: conflict.path.clone(),
            manager: details.manager.clone(),
            operation: details.operation.name(),
            api_version: details.api_version.clone(),
            subresource: details.subresource.clone(),
            time: details.time.clone(),
            stored,
            stored_truncated,
            requested,
            requested_truncated,
        }
    }
}

/// Returns the value, or the begin of its text if it is too long.
pub(crate) fn bounded(value: Option<&Value>) -> (Option<Value>, Option<String>) {
    let Some(value) = value else { return (None, None) };
    let text = json::to_string(value);
    if text.len() <= MAX_VALUE_BYTES {
        return (Some(value.clone()), None);
    }
    let end = text.floor_char_boundary(MAX_VALUE_BYTES);
    (None, text.get(..end).map(|begin| format!("{begin}…")))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn conflicts(count: usize, bytes: usize) -> Conflicts {
        let conflict = |at| Conflict {
            manager: "\"m\"".to_owned(),
            path: format!(".data.k{at}"),
            details: Some(Box::new(ConflictDetails {
                manager: "m".into(),
                operation: holdfast_writes::Operation::Update,
                subresource: "".into(),
                api_version: "v1".into(),
                time: Some("2026-01-01T00:00:00Z".into()),
                stored: Some(Value::from("ü".repeat(bytes / 2).as_str())),
                requested: None,
            })),
        };
        (0..count).map(conflict).collect()
    }

    #[test]
    fn conflict_states_owner_and_values() {
        let json = serde_json::to_string(&FieldConflicts::new(&conflicts(1, 2))).unwrap();
        assert_eq!(
            json,
            r#"{"conflicts":[{"field":".data.k0","manager":"m","operation":"Update","apiVersion":"v1","time":"2026-01-01T00:00:00Z","stored":"ü"}]}"#
        );
        let detailed = conflicts(3, 2);
        let without = detailed.iter().cloned().map(|conflict| Conflict {
            details: None,
            ..conflict
        });
        assert!(FieldConflicts::new(&without.collect()).is_empty());
    }

    #[test]
    fn long_values_are_truncated_and_many_conflicts_omitted() {
        let json = serde_json::to_value(FieldConflicts::new(&conflicts(1, 5000))).unwrap();
        let text = json["conflicts"][0]["storedTruncated"].as_str().unwrap();
        assert!(text.starts_with("\"ü") && text.ends_with("ü…") && text.len() <= MAX_VALUE_BYTES + 3);
        assert!(json["conflicts"][0].get("stored").is_none());
        let many = FieldConflicts::new(&conflicts(200, 3000));
        assert_eq!(many.conflicts.len() + many.conflicts_omitted, 200);
        assert!(many.conflicts.len() > 50 && many.conflicts_omitted > 50);
        assert!(serde_json::to_vec(&many).unwrap().len() < MAX_CONFLICTS_BYTES + 1000);
    }
}
