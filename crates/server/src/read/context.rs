//! What reads need.

use std::sync::Arc;

use crate::objects::EventCache;
use crate::objects::definitions::Definitions;
use crate::representation::{self, Shared};
use crate::runtime::shutdown::Shutdown;

/// What reads need.
pub struct Context {
    /// What all layers share.
    pub shared: Shared,
    /// How far the resources that are served follow the objects that define them; a watch ends when its resource changes.
    pub definitions: Arc<Definitions>,
    /// What it takes to show objects.
    pub representation: Arc<representation::Context>,
    /// The events that are encoded already.
    pub frames: EventCache,
    /// How far the end of the server has come; watches end with it.
    pub shutdown: Shutdown,
}
