//! What it takes to show stored objects.

use std::sync::Arc;

use holdfast_proto::Messages;
use holdfast_resource::schema::TypeTable;

use crate::metrics::Metrics;
use crate::runtime::{Clock, Identifiers};
use crate::webhooks::Client;

/// What it takes to show stored objects.
pub struct Context {
    /// The types of the built-in kinds.
    pub types: Arc<TypeTable>,
    /// Their protobuf messages.
    pub messages: Messages,
    /// The client of conversion webhooks.
    pub webhooks: Arc<Client>,
    /// The source of the uids of conversion reviews.
    pub identifiers: Arc<dyn Identifiers>,
    /// The time of day, by which tables tell ages.
    pub clock: Arc<dyn Clock>,
    /// The counters of conversions.
    pub metrics: Arc<Metrics>,
}
