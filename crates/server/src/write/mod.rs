//! Write path around the run: decoding, the queues of writers, the commit.
//!
//! The run itself, from the decoded object to the staged write, is `holdfast_writes`. Writers of one object wait for
//! each other (`turns.rs`). If another writer was faster nevertheless, the run starts over from the new existing
//! object. Quota usage is computed last and stored together with the write (`reservations.rs`). The stored object is
//! encoded once.

mod answers;
mod commit;
mod context;
mod create;
pub(crate) mod decode;
mod delete;
mod environment;
mod freshness;
mod noop_applies;
mod parent_guard;
mod patch_body;
mod provision;
mod reservations;
mod size_limit;
mod subresource_action;
#[cfg(test)]
pub(crate) mod testing;
mod transaction;
mod turns;
mod update;
mod write_result;

use std::sync::Arc;

use holdfast_resource::AuditAnnotations;
use holdfast_writes::{Target, WriteOptions, WriteRequest, manager_name};

pub(crate) use answers::{answer, compute, connect};
pub use context::Context;
pub(crate) use create::create;
pub(crate) use delete::{delete, remove_unread};
pub use holdfast_writes::FieldManagers;
pub use noop_applies::Fingerprints;
pub(crate) use noop_applies::answer as noop_answer;
pub(crate) use patch_body::read as read_patch;
pub use size_limit::SizeLimit;
pub(crate) use subresource_action::perform;
pub(crate) use transaction::{MAX_OPERATIONS, Operation, OperationChange, Precondition, transact};
pub use turns::Turns;
pub(crate) use update::{apply, update};
pub(crate) use write_result::{WriteResult, WrittenObject};

use crate::http::request::ResourceRequest;

/// Returns the target of the write `request`.
pub(crate) fn target(request: &ResourceRequest, options: WriteOptions) -> Target {
    let (registry, resource) = (&request.registry, &request.served.resource);
    let (version, user) = (&request.version().api_version, &request.user);
    let mut target = Target::new(registry, resource, version, &request.subresource, user, request.now);
    (target.namespace, target.name) = (request.namespace.clone(), request.name.clone());
    target.writer.internal = request.unadmitted;
    target.writer.manager = manager_name(&options.field_manager, &request.user_agent());
    let audit = request.audit.clone();
    target.request = WriteRequest {
        dry_run: options.dry_run,
        options,
        deadline: request.deadline,
        audit: audit.map(|audit| Arc::new(audit) as Arc<dyn AuditAnnotations>),
        ..target.request
    };
    target
}
