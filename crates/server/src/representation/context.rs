//! What it takes to show stored objects.

use std::sync::Arc;

use holdfast_proto::Messages;
use holdfast_resource::schema::TypeTable;

use super::Shared;
use crate::webhooks::Client;

/// What it takes to show stored objects.
pub struct Context {
    /// The types of the built-in kinds.
    pub types: Arc<TypeTable>,
    /// Their protobuf messages.
    pub messages: Messages,
    /// What all layers share.
    pub shared: Shared,
    /// The client of conversion webhooks.
    pub webhooks: Arc<Client>,
}
