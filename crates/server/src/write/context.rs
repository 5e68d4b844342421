//! What writes need.

use std::sync::Arc;

use arc_swap::ArcSwap;
use holdfast_admission::AdmissionChain;
use holdfast_admission::policies::Policies;
use holdfast_authorization::Authorizer;
use holdfast_resource::Registry;
use holdfast_resource::access::{Access, TokenAuthenticator, TokenIssuer};
use holdfast_resource::schema::TypeTable;

use super::decode::BodyTypes;
use super::{FieldManagers, Turns};
use crate::metrics::Metrics;
use crate::objects::definitions::Definitions;
use crate::objects::{Store, Trees};
use crate::representation;
use crate::runtime::{Clock, Identifiers};
use crate::webhooks::Webhooks;

/// What writes need.
pub struct Context {
    /// The resources that are served now.
    pub registry: Arc<ArcSwap<Registry>>,
    /// How far the resources that are served follow the objects that define them; a write of a definition waits for it.
    pub definitions: Arc<Definitions>,
    /// The objects.
    pub store: Arc<Store>,
    /// The types of the kinds, and who owns what in their objects.
    pub field_managers: FieldManagers,
    /// The parsed objects that are kept.
    pub trees: Trees,
    /// Who writes to which object next.
    pub turns: Turns,
    /// The admission plugins.
    pub admission: AdmissionChain,
    /// The admission policies.
    pub policies: Arc<Policies>,
    /// The admission webhooks and their client.
    pub webhooks: Webhooks,
    /// What users may do.
    pub authorizer: Arc<dyn Authorizer>,
    /// The users of bearer tokens.
    pub tokens: Arc<dyn TokenAuthenticator>,
    /// The maker of tokens for service accounts.
    pub issuer: Arc<dyn TokenIssuer>,
    /// The source of uids and of the ends of generated names.
    pub identifiers: Arc<dyn Identifiers>,
    /// The time of day.
    pub clock: Arc<dyn Clock>,
    /// The counters of policies and webhooks.
    pub metrics: Arc<Metrics>,
    /// What it takes to convert objects.
    pub representation: Arc<representation::Context>,
    /// The most bytes of an object as it is stored.
    pub max_object_bytes: usize,
}

impl Context {
    /// The resources that are served now.
    pub fn registry(&self) -> Arc<Registry> {
        self.registry.load_full()
    }

    /// What users may do, and whose tokens are.
    pub fn access(&self) -> Access<'_> {
        Access {
            authorizer: self.authorizer.as_ref(),
            tokens: self.tokens.as_ref(),
            issuer: self.issuer.as_ref(),
        }
    }

    /// The types of the built-in kinds.
    pub fn types(&self) -> &Arc<TypeTable> {
        &self.representation.types
    }

    /// The types of the built-in kinds, in both forms that bodies come in.
    pub(crate) fn body_types(&self) -> BodyTypes<'_> {
        BodyTypes {
            kinds: self.field_managers.types(),
            messages: &self.representation.messages,
        }
    }
}
