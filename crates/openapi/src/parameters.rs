//! The parameters of requests.

use holdfast_resource::{Connecter, ParameterForm};

/// A parameter of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Parameter {
    pub(super) name: &'static str,
    /// `string`, `integer` or `boolean`.
    pub(super) of: &'static str,
    /// True if it is a part of the path; otherwise it is in the query.
    pub(super) in_path: bool,
    /// Description; empty for `name`, whose description depends on the kind.
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

/// Requests that have an option.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Request {
    /// Lists and watches.
    List,
    /// Gets of custom resources. The reference publishes no options for those of built-in kinds.
    GetCustom,
    /// Creations and replacements.
    Write,
    /// Patches.
    Patch,
    /// Deletions.
    Delete,
    /// Deletions of whole collections.
    DeleteCollection,
}

use Request::{Delete, DeleteCollection, GetCustom, List, Patch, Write};

/// Options in the query of requests, by name: the type of each, the requests, and its description. The server reads
/// them in `http/options.rs`.
const OPTIONS: &[(&str, &str, &[Request], &str)] = &[
    (
        "allowWatchBookmarks",
        "boolean",
        &[List],
        "Asks a watch for events of type BOOKMARK, which say how far it has come.",
    ),
    (
        "continue",
        "string",
        &[List, DeleteCollection],
        "The token that the last page of the list gave, to get the next page.",
    ),
    (
        "dryRun",
        "string",
        &[Write, Patch, Delete, DeleteCollection],
        "With All, everything is done but storing the outcome.",
    ),
    (
        "fieldManager",
        "string",
        &[Write, Patch],
        "Who makes the change: at most 128 printable characters. Required for apply patches.",
    ),
    (
        "fieldSelector",
        "string",
        &[List, DeleteCollection],
        "Only objects whose fields match this selector are given. Defaults to everything.",
    ),
    (
        "fieldValidation",
        "string",
        &[Write, Patch],
        "What unknown and repeated fields lead to: Ignore (nothing), Warn (a warning, the default) or Strict (an error).",
    ),
    (
        "force",
        "boolean",
        &[Patch],
        "Makes an apply patch take fields over from other managers. Only for apply patches.",
    ),
    (
        "gracePeriodSeconds",
        "integer",
        &[Delete, DeleteCollection],
        "How many seconds the object gets before it is deleted; 0 deletes at once. Defaults to what the kind says.",
    ),
    (
        "ignoreStoreReadErrorWithClusterBreakingPotential",
        "boolean",
        &[Delete, DeleteCollection],
        "Deletes an object that cannot be read any more, without looking at it. Dangerous.",
    ),
    (
        "labelSelector",
        "string",
        &[List, DeleteCollection],
        "Only objects whose labels match this selector are given. Defaults to everything.",
    ),
    (
        "limit",
        "integer",
        &[List, DeleteCollection],
        "The most items that one page of a list may hold.",
    ),
    (
        "orphanDependents",
        "boolean",
        &[Delete, DeleteCollection],
        "Deprecated, see propagationPolicy: whether dependents stay.",
    ),
    (
        "propagationPolicy",
        "string",
        &[Delete, DeleteCollection],
        "What becomes of dependents: Orphan, Background or Foreground. Defaults to what the kind says.",
    ),
    (
        "resourceVersion",
        "string",
        &[List, GetCustom, DeleteCollection],
        "Which state the answer may be from; a watch begins after it. Defaults to the newest.",
    ),
    (
        "resourceVersionMatch",
        "string",
        &[List, DeleteCollection],
        "How resourceVersion is meant for a list: Exact or NotOlderThan.",
    ),
    (
        "sendInitialEvents",
        "boolean",
        &[List, DeleteCollection],
        "Makes a watch begin with the objects that are there and a bookmark behind them.",
    ),
    (
        "shardSelector",
        "string",
        &[List, DeleteCollection],
        "Only objects that fall into these ranges of hashes are given.",
    ),
    (
        "timeoutSeconds",
        "integer",
        &[List, DeleteCollection],
        "After how many seconds the call ends, whatever happens.",
    ),
    (
        "watch",
        "boolean",
        &[List],
        "Answers with a stream of changes instead of a list.",
    ),
];

/// Returns the options that such a request may have.
pub(super) fn options_of(request: Request) -> Vec<Parameter> {
    let options = OPTIONS.iter().filter(|(_, _, requests, _)| requests.contains(&request));
    options
        .map(|(name, of, _, description)| query(name, of, description))
        .collect()
}

/// The format of the response, which every request may specify.
pub(super) const PRETTY: Parameter = query("pretty", "string", "With true, JSON is answered in lines and indented.");
/// The namespace in a path.
pub(super) const NAMESPACE: Parameter = path("namespace", "The namespace of the object.");
/// The name in a path.
pub(super) const NAME: Parameter = path("name", "");
/// The rest of the path of a proxied request.
pub(super) const PATH: Parameter = path("path", "The path of the resource behind the proxy.");

/// Returns the parameters of requests that reach a node or a pod through a subresource.
pub(super) fn of_connecter(connecter: &dyn Connecter) -> Vec<Parameter> {
    let parameters = connecter.parameters().iter();
    let shown = parameters.filter_map(|parameter| {
        let json_type = match parameter.form {
            ParameterForm::Flag => "boolean",
            ParameterForm::Number | ParameterForm::Ports => "integer",
            ParameterForm::Path | ParameterForm::Text | ParameterForm::Texts => "string",
            ParameterForm::Time => return None,
        };
        Some(query(parameter.name, json_type, parameter.description))
    });
    shown.collect()
}
