//! The context of reads.

use std::sync::Arc;

use crate::objects::EventCache;
use crate::objects::crd_registry::CrdRegistry;
use crate::representation::{self, Shared};
use crate::runtime::shutdown::Shutdown;

/// The context of reads.
pub struct Context {
    /// The state that all layers share.
    pub shared: Shared,
    /// The progress of the served resources in following the CRDs; a watch ends when its resource changes.
    pub crds: Arc<CrdRegistry>,
    /// The context of the representation of objects.
    pub representation: Arc<representation::Context>,
    /// The cache of encoded events.
    pub frames: EventCache,
    /// The shutdown phase of the server; watches end with it.
    pub shutdown: Shutdown,
}
