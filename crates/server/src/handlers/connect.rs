//! Requests that lead on to a node or a pod: proxies, logs, commands. Nothing leads there from here, so that the answer says
//! how far the request came.

use http::StatusCode;

use holdfast_resource::{Connection, Operation};

use crate::ApiError;
use crate::body::ResponseBody;
use crate::options::WriteOptions;
use crate::request::ResourceRequest;
use crate::response::Response;
use crate::state::Context;
use crate::write::{self, Target};

/// Answers a request to a subresource that leads on.
///
/// # Errors
/// Why it comes no further.
pub(super) fn connect(context: &Context, request: &ResourceRequest) -> Result<Response, ApiError> {
    let mut target = Target::of_request(request, &WriteOptions::default());
    // What the address takes are options in the query, which no type is needed for.
    target.body_version = target.shown.api_version.clone();
    target.body_kind = target.shown.kind.clone();
    let parameter = |name: &str| request.query.get(name).map(str::to_owned);
    let strategy = &target.shown.resource.strategy;
    write::ask(context, &target, Operation::Update, |pipeline, call| {
        match strategy.connect(call, &parameter) {
            Connection::Nothing => {
                let mut answer = Response::new(ResponseBody::empty());
                *answer.status_mut() = StatusCode::NO_CONTENT;
                Ok(answer)
            }
            Connection::Refused(refusal) => Err(pipeline.refusal(refusal, &target.name)),
        }
    })
}
