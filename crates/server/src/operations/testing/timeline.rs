//! `/testing/timeline`: the requests of a server with their clients, answers, and the fields that they changed.

use std::fmt::Write as _;
use std::time::{Duration, SystemTime};

use holdfast_authorization::User;
use holdfast_gotext::duration;
use holdfast_gotext::time::{Precision, Timestamp};
use holdfast_ownership::manager_name;
use holdfast_schema::GroupResource;
use holdfast_value::Value;
use http::{HeaderValue, Method, StatusCode, Uri};
use smol_str::SmolStr;

use super::{Call, FOLDER, changes};
use crate::api::audit;
use crate::api::context::Context;
use crate::http::ApiError;
use crate::http::headers;
use crate::http::request_info::{RequestInfo, ResourcePath};
use crate::http::response::{self, Response};
use crate::objects::{self, Snapshot};
use crate::runtime::timeline::Timeline;

/// Number of lines of an answer, if the request names none.
const DEFAULT_LIMIT: usize = 50;

/// Maximum size of a part that a client chooses, such as its `User-Agent`, in bytes.
const MAX_PART_BYTES: usize = 512;

/// Paths that clients ask again and again while they wait for a server.
const UNRECORDED: [&str; 5] = ["/healthz", "/livez", "/metrics", "/readyz", FOLDER];

/// Returns the newest lines, as text.
pub(super) fn respond(timeline: &Timeline, call: &Call<'_>) -> Result<Response, ApiError> {
    if call.method != Method::GET {
        return Err(ApiError::method_not_allowed());
    }
    let limit = match call.query.get("limit") {
        None => DEFAULT_LIMIT,
        Some(text) => text
            .parse()
            .map_err(|_| ApiError::bad_request("limit must be a number of lines"))?,
    };
    let namespace = call.query.get("namespace").filter(|namespace| !namespace.is_empty());
    Ok(response::text(StatusCode::OK, timeline.newest(namespace, limit)))
}

/// True if requests for the path are part of the timeline.
pub(in crate::operations) fn is_recorded(path: &str) -> bool {
    !UNRECORDED.iter().any(|prefix| path.starts_with(prefix))
}

/// Facts about a request, collected before its handler removes them.
pub(in crate::operations) struct TimelineFacts {
    target: Option<ResourcePath>,
    field_manager: Option<String>,
    /// State before a write.
    before: Option<Snapshot>,
}

/// A request after its handler.
pub(in crate::operations) struct AnsweredRequest<'a> {
    pub(in crate::operations) method: &'a Method,
    pub(in crate::operations) uri: &'a Uri,
    pub(in crate::operations) received: SystemTime,
    pub(in crate::operations) duration: Duration,
    pub(in crate::operations) user: Option<&'a User>,
    pub(in crate::operations) user_agent: Option<&'a HeaderValue>,
}

impl TimelineFacts {
    /// Collects the facts about a request that arrives.
    pub(in crate::operations) fn new(context: &Context, info: &RequestInfo) -> Self {
        let is_write = info.resource.is_some() && matches!(&*info.verb, "create" | "update" | "patch" | "delete");
        Self {
            target: info.resource.clone(),
            field_manager: is_write.then(|| info.query.get("fieldManager").unwrap_or_default().to_owned()),
            before: is_write.then(|| context.shared.store.snapshot()),
        }
    }

    /// Adds the line of the request to the timeline.
    pub(in crate::operations) fn record(
        self,
        timeline: &Timeline,
        context: &Context,
        request: &AnsweredRequest<'_>,
        response: &Response,
    ) {
        let agent = request.user_agent.map(headers::lossy).unwrap_or_default();
        let status = response.status();
        let target = request.uri.path_and_query().map_or("/", |target| target.as_str());
        let mut line = format!(
            "{} {} {} {} {}",
            Timestamp::from(request.received).text(Precision::Micros),
            request.method,
            cut(target),
            status.as_u16(),
            duration::text(request.duration),
        );
        if let Some(user) = request.user {
            let _ = write!(line, " user={}", cut(&user.name));
        }
        if !agent.is_empty() {
            let _ = write!(line, " agent={:?}", cut(&agent));
        }
        if let Some(field_manager) = &self.field_manager {
            let _ = write!(line, " manager={:?}", cut(&manager_name(field_manager, &agent)));
        }
        let mut namespace = self.target.as_ref().map(|target| target.namespace.clone());
        if status.is_success()
            && let (Some(before), Some(target)) = (&self.before, &self.target)
            && let Some(change) = Change::find(context, before, target, response)
        {
            if target.resource == "namespaces" && target.group.is_empty() {
                namespace = Some(change.name.clone());
            }
            if target.name.is_empty() {
                let _ = write!(line, " name={}", cut(&change.name));
            }
            if change.is_deletion() {
                line += " deleted";
            }
            let fields = changes::describe(change.before.as_ref(), change.after.as_ref());
            if !fields.is_empty() && !change.is_deletion() {
                let _ = write!(line, " changed: {fields}");
            }
        }
        timeline.record(namespace.unwrap_or_default(), &line);
    }
}

/// Change of an object.
struct Change {
    name: SmolStr,
    before: Option<Value>,
    after: Option<Value>,
}

impl Change {
    /// Finds the object that a successful write concerned. The states are those before and after the request, so that they
    /// include what others wrote at the same time.
    fn find(context: &Context, before: &Snapshot, target: &ResourcePath, response: &Response) -> Option<Self> {
        let registry = context.registry();
        let resource = registry.resource(&GroupResource {
            group: target.group.clone(),
            resource: target.resource.clone(),
        })?;
        let name = match target.name.is_empty() {
            false => target.name.clone(),
            true => {
                let object = audit::answered_object(&context.representation, response)?;
                SmolStr::new(object.str_at(&["metadata", "name"])?)
            }
        };
        let namespace = if target.of_namespace { "" } else { &*target.namespace };
        let key = resource.storage.as_ref()?.key(namespace, &name);
        let after = context.shared.store.snapshot();
        let (old, new) = (before.get(key.as_bytes()), after.get(key.as_bytes()));
        let revision = |entry: Option<&std::sync::Arc<objects::Entry>>| entry.map(|entry| entry.mod_revision());
        let is_changed = revision(old) != revision(new);
        let tree = |entry: &std::sync::Arc<objects::Entry>| objects::readable(entry);
        Some(Self {
            name,
            before: old.filter(|_| is_changed).and_then(tree),
            after: new.filter(|_| is_changed).and_then(tree),
        })
    }

    fn is_deletion(&self) -> bool {
        self.before.is_some() && self.after.is_none()
    }
}

/// Returns the beginning of a part that a client chooses.
fn cut(text: &str) -> &str {
    let end = text.floor_char_boundary(MAX_PART_BYTES);
    text.split_at(end).0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn probes_and_testing_requests_are_not_recorded() {
        for path in ["/readyz", "/livez/ping", "/metrics", "/testing/faults"] {
            assert!(!is_recorded(path), "{path}");
        }
        assert!(is_recorded("/api/v1/pods") && is_recorded("/version"));
    }

    #[test]
    fn long_part_is_cut_between_characters() {
        assert_eq!(cut("short"), "short");
        let long = "é".repeat(MAX_PART_BYTES);
        assert_eq!(cut(&long).len(), MAX_PART_BYTES);
        assert_eq!(cut(&format!("a{long}")).len(), MAX_PART_BYTES - 1);
    }
}
