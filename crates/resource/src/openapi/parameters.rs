//! The parameters that requests may carry.

use crate::{Connecter, ParameterForm};

/// A parameter of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Parameter {
    pub(super) name: &'static str,
    /// `string`, `integer` or `boolean`.
    pub(super) of: &'static str,
    /// Whether it is a part of the path; else it stands in the query.
    pub(super) in_path: bool,
    /// What it means; empty for `name`, whose words depend on the kind.
    pub(super) description: &'static str,
}

const fn query(name: &'static str, of: &'static str, description: &'static str) -> Parameter {
    Parameter {
        name,
        of,
        in_path: false,
        description,
    }
}

const fn path(name: &'static str, description: &'static str) -> Parameter {
    Parameter {
        name,
        of: "string",
        in_path: true,
        description,
    }
}

const ALLOW_WATCH_BOOKMARKS: Parameter = query(
    "allowWatchBookmarks",
    "boolean",
    "Asks a watch for events of type BOOKMARK, which tell how far it has come.",
);
const CONTINUE: Parameter = query(
    "continue",
    "string",
    "The token that the last page of the list gave, to get the next page.",
);
const FIELD_SELECTOR: Parameter = query(
    "fieldSelector",
    "string",
    "Only objects whose fields match this selector are given. Defaults to everything.",
);
const LABEL_SELECTOR: Parameter = query(
    "labelSelector",
    "string",
    "Only objects whose labels match this selector are given. Defaults to everything.",
);
const LIMIT: Parameter = query("limit", "integer", "The most items that one page of a list may hold.");
const RESOURCE_VERSION: Parameter = query(
    "resourceVersion",
    "string",
    "Which state the answer may be from; a watch begins after it. Defaults to the newest.",
);
const RESOURCE_VERSION_MATCH: Parameter = query(
    "resourceVersionMatch",
    "string",
    "How resourceVersion is meant for a list: Exact or NotOlderThan.",
);
const SEND_INITIAL_EVENTS: Parameter = query(
    "sendInitialEvents",
    "boolean",
    "Makes a watch begin with the objects that are there and a bookmark behind them.",
);
const SHARD_SELECTOR: Parameter = query(
    "shardSelector",
    "string",
    "Only objects that fall into these ranges of hashes are given.",
);
const TIMEOUT_SECONDS: Parameter = query(
    "timeoutSeconds",
    "integer",
    "After how many seconds the call ends, whatever happens.",
);
const WATCH: Parameter = query(
    "watch",
    "boolean",
    "Answers with a stream of changes instead of a list.",
);
const DRY_RUN: Parameter = query(
    "dryRun",
    "string",
    "With All, everything is done but storing the outcome.",
);
const FIELD_MANAGER: Parameter = query(
    "fieldManager",
    "string",
    "Who makes the change: at most 128 printable characters. Required for apply patches.",
);
const FIELD_VALIDATION: Parameter = query(
    "fieldValidation",
    "string",
    "What unknown and repeated fields lead to: Ignore (nothing), Warn (a warning, the default) or Strict (an error).",
);
const FORCE: Parameter = query(
    "force",
    "boolean",
    "Makes an apply patch take fields over from other managers. Only for apply patches.",
);
const GRACE_PERIOD_SECONDS: Parameter = query(
    "gracePeriodSeconds",
    "integer",
    "How many seconds the object gets before it is deleted; 0 deletes at once. Defaults to what the kind says.",
);
const IGNORE_STORE_READ_ERROR: Parameter = query(
    "ignoreStoreReadErrorWithClusterBreakingPotential",
    "boolean",
    "Deletes an object that cannot be read any more, without looking at it. Dangerous.",
);
const ORPHAN_DEPENDENTS: Parameter = query(
    "orphanDependents",
    "boolean",
    "Deprecated, see propagationPolicy: whether dependents stay.",
);
const PROPAGATION_POLICY: Parameter = query(
    "propagationPolicy",
    "string",
    "What becomes of dependents: Orphan, Background or Foreground. Defaults to what the kind says.",
);

/// The form of the answer, which every request may ask for.
pub(super) const PRETTY: Parameter = query("pretty", "string", "With true, JSON is answered in lines and indented.");
/// The namespace in a path.
pub(super) const NAMESPACE: Parameter = path("namespace", "The namespace of the object.");
/// The name in a path.
pub(super) const NAME: Parameter = path("name", "");
/// The rest of the path of a proxied request.
pub(super) const PATH: Parameter = path("path", "The path of the resource behind the proxy.");

/// What lists and watches may carry.
pub(super) const LIST: [Parameter; 11] = [
    ALLOW_WATCH_BOOKMARKS,
    CONTINUE,
    FIELD_SELECTOR,
    LABEL_SELECTOR,
    LIMIT,
    RESOURCE_VERSION,
    RESOURCE_VERSION_MATCH,
    SEND_INITIAL_EVENTS,
    SHARD_SELECTOR,
    TIMEOUT_SECONDS,
    WATCH,
];
/// What creations and replacements may carry.
pub(super) const WRITE: [Parameter; 3] = [DRY_RUN, FIELD_MANAGER, FIELD_VALIDATION];
/// What patches may carry.
pub(super) const PATCH: [Parameter; 4] = [DRY_RUN, FIELD_MANAGER, FIELD_VALIDATION, FORCE];
/// What deletions may carry.
pub(super) const DELETE: [Parameter; 5] = [
    DRY_RUN,
    GRACE_PERIOD_SECONDS,
    IGNORE_STORE_READ_ERROR,
    ORPHAN_DEPENDENTS,
    PROPAGATION_POLICY,
];
/// What deletions of whole collections may carry.
pub(super) const DELETE_COLLECTION: [Parameter; 14] = [
    CONTINUE,
    DRY_RUN,
    FIELD_SELECTOR,
    GRACE_PERIOD_SECONDS,
    IGNORE_STORE_READ_ERROR,
    LABEL_SELECTOR,
    LIMIT,
    ORPHAN_DEPENDENTS,
    PROPAGATION_POLICY,
    RESOURCE_VERSION,
    RESOURCE_VERSION_MATCH,
    SEND_INITIAL_EVENTS,
    SHARD_SELECTOR,
    TIMEOUT_SECONDS,
];

/// What requests to a subresource may carry through which they come to a node or to a pod.
pub(super) fn of_connecter(connecter: &dyn Connecter) -> Vec<Parameter> {
    let parameters = connecter.parameters().iter();
    let shown = parameters.filter_map(|parameter| {
        let of = match parameter.form {
            ParameterForm::Flag => "boolean",
            ParameterForm::Number | ParameterForm::Ports => "integer",
            ParameterForm::Path | ParameterForm::Text | ParameterForm::Texts => "string",
            ParameterForm::Time => return None,
        };
        Some(query(parameter.name, of, parameter.description))
    });
    shown.collect()
}
