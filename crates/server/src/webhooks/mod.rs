//! How webhooks are called, those of admission and those of conversion; and what becomes of their answers in words. Aggregated
//! servers are called by the same means.

mod backend;
mod client;
mod connector;
mod routing;
mod services;
mod trust;

use std::sync::Arc;

use arc_swap::ArcSwap;
use holdfast_admission::webhooks::Webhooks as Configured;
use holdfast_resource::Registry;

use crate::objects::Store;
pub(crate) use services::Services;
pub(crate) use trust::Trust;

pub(crate) use backend::Backend;
pub(crate) use client::CallError;
pub use client::Client;
pub use holdfast_admission::webhooks::authorities_fault;
pub use routing::Routing;

/// The webhooks of admission, and how they are called.
pub struct Webhooks {
    configured: Arc<Configured>,
    client: Arc<Client>,
}

impl Webhooks {
    /// Calls the webhooks of `configured`; the services among them are those of `store`.
    pub fn new(configured: Arc<Configured>, store: Arc<Store>, registry: Arc<ArcSwap<Registry>>) -> Self {
        Self {
            configured,
            client: Arc::new(Client::new(Services::new(store, registry))),
        }
    }

    /// The webhooks that are configured.
    pub(crate) fn configured(&self) -> &Configured {
        &self.configured
    }

    /// How webhooks are called.
    pub fn client(&self) -> &Arc<Client> {
        &self.client
    }
}
