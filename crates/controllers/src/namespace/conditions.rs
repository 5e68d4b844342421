//! The five conditions of a terminating namespace about its deletion, with the texts of the reference
//! (<https://kubernetes.io/docs/reference/kubernetes-api/cluster-resources/namespace-v1/#NamespaceStatus>).

use std::collections::BTreeMap;

use holdfast_gotext::errors::aggregate;
use holdfast_server::operations::loopback::RequestError;
use holdfast_value::Value;

/// Result of the deletion of a namespace's content.
#[derive(Debug, Default)]
pub(super) struct Findings {
    /// Errors of failed deletions.
    pub(super) failures: Vec<RequestError>,
    /// Number of remaining objects of each resource, which is named `PLURAL.GROUP`.
    pub(super) remaining: BTreeMap<String, usize>,
    /// Number of objects that each finalizer protects.
    pub(super) finalizers: BTreeMap<String, usize>,
}

/// A condition: its type, and its reason and message if there is no problem.
struct Condition {
    name: &'static str,
    well_reason: &'static str,
    well_message: &'static str,
}

/// All conditions, in their order. The first two never have a problem here: discovery is the server's own registry.
const CONDITIONS: [Condition; 5] = [
    Condition {
        name: "NamespaceDeletionDiscoveryFailure",
        well_reason: "ResourcesDiscovered",
        well_message: "All resources successfully discovered",
    },
    Condition {
        name: "NamespaceDeletionGroupVersionParsingFailure",
        well_reason: "ParsedGroupVersions",
        well_message: "All legacy kube types successfully parsed",
    },
    Condition {
        name: "NamespaceDeletionContentFailure",
        well_reason: "ContentDeleted",
        well_message: "All content successfully deleted, may be waiting on finalization",
    },
    Condition {
        name: "NamespaceContentRemaining",
        well_reason: "ContentRemoved",
        well_message: "All content successfully removed",
    },
    Condition {
        name: "NamespaceFinalizersRemaining",
        well_reason: "ContentHasNoFinalizers",
        well_message: "All content-preserving finalizers finished",
    },
];

impl Findings {
    /// Returns the number of remaining objects.
    pub(super) fn left(&self) -> usize {
        self.remaining.values().sum()
    }

    /// Returns true if nothing is left and nothing failed.
    pub(super) fn is_clear(&self) -> bool {
        self.failures.is_empty() && self.remaining.is_empty()
    }

    /// Returns the new conditions, given those of the status; `None` if they are equal.
    #[expect(clippy::indexing_slicing, reason = "the index was found in this very list")]
    pub(super) fn conditions(&self, old_conditions: &[Value], now: &str) -> Option<Vec<Value>> {
        let mut conditions = old_conditions.to_vec();
        let mut changed = false;
        for condition in &CONDITIONS {
            let trouble = self.trouble(condition.name);
            let (status, reason, message) = match &trouble {
                Some((reason, message)) => ("True", *reason, message.as_str()),
                None => ("False", condition.well_reason, condition.well_message),
            };
            let before = conditions
                .iter()
                .position(|known| known.str_at(&["type"]) == Some(condition.name));
            let same = |known: &Value| {
                let text = |key| known.str_at(&[key]).unwrap_or_default();
                // A condition whose status does not change is not written again.
                text("status") == status
                    && (trouble.is_none() || (text("reason"), text("message")) == (reason, message))
            };
            if before.is_some_and(|at| same(&conditions[at])) {
                continue;
            }
            changed = true;
            let mut next = Value::empty_map();
            for (key, value) in [
                ("type", condition.name),
                ("status", status),
                ("lastTransitionTime", now),
                ("reason", reason),
                ("message", message),
            ] {
                next.set_at(&[key], value.into());
            }
            match before {
                Some(at) => conditions[at] = next,
                None => conditions.push(next),
            }
        }
        changed.then_some(conditions)
    }

    /// Returns the reason and the message of a condition that reports a problem.
    fn trouble(&self, condition: &str) -> Option<(&'static str, String)> {
        match condition {
            "NamespaceDeletionContentFailure" if !self.failures.is_empty() => {
                let count = self.failures.len();
                let texts: Vec<&str> = self.failures.iter().map(|failure| failure.message.as_str()).collect();
                let messages = aggregate(&texts);
                let message = format!("Failed to delete all resource types, {count} remaining: {messages}");
                Some(("ContentDeletionFailed", message))
            }
            "NamespaceContentRemaining" if !self.remaining.is_empty() => {
                let parts: Vec<String> = self
                    .remaining
                    .iter()
                    .map(|(resource, count)| format!("{resource} has {count} resource instances"))
                    .collect();
                let message = format!("Some resources are remaining: {}", parts.join(", "));
                Some(("SomeResourcesRemain", message))
            }
            "NamespaceFinalizersRemaining" if !self.finalizers.is_empty() => {
                let texts: Vec<String> = self
                    .finalizers
                    .iter()
                    .map(|(finalizer, count)| format!("{finalizer} in {count} resource instances"))
                    .collect();
                let parts = texts.join(", ");
                let message = format!("Some content in the namespace has finalizers remaining: {parts}");
                Some(("SomeFinalizersRemain", message))
            }
            _ => None,
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "what fails here is the test")]
mod tests {
    use super::*;

    fn held() -> Findings {
        Findings {
            remaining: [("configmaps.".to_owned(), 2), ("deployments.apps".to_owned(), 1)].into(),
            finalizers: [("example.com/hold".to_owned(), 3)].into(),
            ..Findings::default()
        }
    }

    fn messages(conditions: &[Value]) -> Vec<(&str, &str)> {
        conditions
            .iter()
            .map(|condition| {
                let text = |key| condition.str_at(&[key]).unwrap();
                (text("status"), text("message"))
            })
            .collect()
    }

    #[test]
    fn remaining_objects_are_reported_with_their_finalizers() {
        let conditions = held().conditions(&[], "2026-01-01T00:00:00Z").unwrap();
        assert_eq!(
            messages(&conditions)[2..],
            [
                (
                    "False",
                    "All content successfully deleted, may be waiting on finalization"
                ),
                (
                    "True",
                    "Some resources are remaining: configmaps. has 2 resource instances, deployments.apps has 1 resource instances"
                ),
                (
                    "True",
                    "Some content in the namespace has finalizers remaining: example.com/hold in 3 resource instances"
                ),
            ]
        );
    }

    #[test]
    fn unchanged_conditions_are_not_reported_again() {
        let old_conditions = held().conditions(&[], "2026-01-01T00:00:00Z").unwrap();
        assert!(held().conditions(&old_conditions, "2027-01-01T00:00:00Z").is_none());
        let clear = Findings::default()
            .conditions(&old_conditions, "2027-01-01T00:00:00Z")
            .unwrap();
        assert_eq!(clear[4].str_at(&["status"]), Some("False"));
        assert_eq!(clear[4].str_at(&["lastTransitionTime"]), Some("2027-01-01T00:00:00Z"));
        assert_eq!(clear[2].str_at(&["lastTransitionTime"]), Some("2026-01-01T00:00:00Z"));
    }

    #[test]
    fn failures_are_reported_once_each() {
        let failure = RequestError {
            code: 500,
            reason: "InternalError".into(),
            message: "no".to_owned(),
        };
        let findings = Findings {
            failures: vec![failure.clone(), failure],
            ..Findings::default()
        };
        let conditions = findings.conditions(&[], "").unwrap();
        assert_eq!(
            messages(&conditions)[2],
            ("True", "Failed to delete all resource types, 2 remaining: no")
        );
    }
}
