//! The state that this layer and all layers above share.

use std::sync::Arc;

use arc_swap::ArcSwap;
use holdfast_admission::policies::Policies;
use holdfast_authorization::Authorizer;
use holdfast_resource::Registry;
use holdfast_resource::access::TokenAuthenticator;

use crate::metrics::Metrics;
use crate::objects::Store;
use crate::runtime::{Clock, Identifiers};

/// Handles to the state that all requests share. Clones refer to the same state.
#[derive(Clone)]
pub struct Shared {
    /// The currently served resources. A request loads one snapshot and uses it until its end.
    pub registry: Arc<ArcSwap<Registry>>,
    /// The store of objects.
    pub store: Arc<Store>,
    /// The admission policies.
    pub policies: Arc<Policies>,
    /// The authorizer of requests.
    pub authorizer: Arc<dyn Authorizer>,
    /// The users of bearer tokens.
    pub tokens: Arc<dyn TokenAuthenticator>,
    /// The source of uids, of audit IDs and of the suffixes of generated names.
    pub identifiers: Arc<dyn Identifiers>,
    /// The source of the time of day.
    pub clock: Arc<dyn Clock>,
    /// The metrics of the server.
    pub metrics: Arc<Metrics>,
}
