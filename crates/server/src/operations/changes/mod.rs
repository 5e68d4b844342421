//! The API group `holdfast.dev`: requests about many objects at once. kube-apiserver does not have it.
//!
//! Its document about the [history] of an object is a subresource of the object. Its resources can only be created, like
//! reviews. The documents of the group are served at its own paths. The lists of
//! all groups and the OpenAPI documents do not name it, so that they are those of kube-apiserver. A CRD or an APIService
//! of the same group has precedence.

mod diff;
mod diff_watch;
mod document;
mod field_diffs;
pub(super) mod history;
mod options;
mod subject;
mod transaction;

use std::sync::Arc;

use http::{Method, StatusCode};
use serde_json::{Value, json};

use crate::api::context::Context;
use crate::api::router::Incoming;
use crate::http::ApiError;
use crate::http::request_info::RequestInfo;
use crate::http::response::{self, Response, page_not_found};

/// Name of the group.
const GROUP: &str = "holdfast.dev";

/// Version of the group, as `apiVersion` of its objects.
pub(super) const API_VERSION: &str = "holdfast.dev/v1";

/// Path of the group.
const PATH: &str = "/apis/holdfast.dev";

/// Returns true if the path belongs to the group.
pub(super) fn serves(path: &str) -> bool {
    path.strip_prefix(PATH)
        .is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

/// Returns true if the request watches diffs, so that no time limit applies to it.
pub(super) fn is_watch(info: &RequestInfo) -> bool {
    let is_diffs = || {
        let target = info.resource.as_ref();
        target.is_some_and(|target| target.group == GROUP && target.resource == "diffs")
    };
    info.verb == "create" && is_diffs() && diff::is_watch(&info.query)
}

/// Returns true if the request may change objects. Then it is finished even if its client disconnects.
pub(super) fn is_write(info: &RequestInfo) -> bool {
    info.path.ends_with("/transactions")
}

/// Returns the answer to a request for a path of the group.
///
/// # Errors
/// 404 or 405 for other paths and methods, otherwise the error of the resource.
pub(super) async fn respond(context: &Arc<Context>, incoming: Incoming) -> Result<Response, ApiError> {
    let path = incoming.info.path.strip_prefix(PATH).unwrap_or_default();
    let is_post = incoming.method == Method::POST;
    match path.trim_matches('/') {
        "" if incoming.method == Method::GET => document(context, &incoming, &group()),
        "v1" if incoming.method == Method::GET => document(context, &incoming, &resources()),
        "v1/diffs" if is_post => diff::create(context, incoming).await,
        "v1/transactions" if is_post => transaction::create(context, incoming).await,
        "" | "v1" | "v1/diffs" | "v1/transactions" => Err(ApiError::method_not_allowed()),
        _ => Ok(page_not_found()),
    }
}

fn document(context: &Arc<Context>, incoming: &Incoming, document: &Value) -> Result<Response, ApiError> {
    let form = incoming.negotiated.document()?;
    response::document(context.messages(), StatusCode::OK, &form, document)
}

fn group() -> Value {
    let version = json!({"groupVersion": API_VERSION, "version": "v1"});
    json!({"kind": "APIGroup", "apiVersion": "v1", "name": GROUP, "versions": [version], "preferredVersion": version})
}

fn resources() -> Value {
    let resource = |plural: &str, singular: &str, kind: &str| json!({"name": plural, "singularName": singular, "namespaced": false, "kind": kind, "verbs": ["create"]});
    json!({
        "kind": "APIResourceList",
        "apiVersion": "v1",
        "groupVersion": API_VERSION,
        "resources": [resource("diffs", "diff", "Diff"), resource("transactions", "transaction", "Transaction")],
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn info(method: &Method, uri: &str) -> RequestInfo {
        RequestInfo::parse(method, &uri.parse().unwrap()).unwrap()
    }

    #[test]
    fn paths_of_the_group_are_known() {
        for (path, expected) in [
            ("/apis/holdfast.dev", true),
            ("/apis/holdfast.dev/v1/diffs", true),
            ("/apis/holdfast.device", false),
            ("/apis/apps", false),
        ] {
            assert_eq!(serves(path), expected, "{path}");
        }
    }

    #[test]
    fn only_a_watch_of_diffs_has_no_time_limit() {
        for (method, uri, expected) in [
            (Method::POST, "/apis/holdfast.dev/v1/diffs?watch=true", true),
            (Method::POST, "/apis/holdfast.dev/v1/diffs", false),
            (Method::POST, "/apis/holdfast.dev/v1/diffs?watch=0", false),
            (Method::POST, "/apis/apps/v1/diffs?watch=true", false),
            (Method::PUT, "/apis/holdfast.dev/v1/diffs?watch=true", false),
        ] {
            assert_eq!(is_watch(&info(&method, uri)), expected, "{uri}");
        }
    }
}
