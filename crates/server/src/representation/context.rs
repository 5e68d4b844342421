//! The context for representing stored objects in answers.

use std::sync::Arc;

use holdfast_proto::Messages;
use holdfast_schema::types::TypeTable;

use super::Shared;
use crate::webhooks::Client;

/// The context for representing stored objects in answers.
pub struct Context {
    /// The types of the built-in kinds.
    pub types: Arc<TypeTable>,
    /// Their protobuf messages.
    pub messages: Messages,
    /// The state that all layers share.
    pub shared: Shared,
    /// The client of conversion webhooks.
    pub webhooks: Arc<Client>,
}
