//! Shared state of the write path.

use std::sync::Arc;

use holdfast_admission::AdmissionChain;
use holdfast_resource::Registry;
use holdfast_resource::access::{Access, TokenIssuer};
use holdfast_schema::types::TypeTable;
use holdfast_writes::Target;

use super::decode::BodyTypes;
use super::turns::Turn;
use super::{FieldManagers, Fingerprints, SizeLimit, Turns};
use crate::http::ApiError;
use crate::objects::Trees;
use crate::objects::crd_registry::CrdRegistry;
use crate::representation::{self, Shared};
use crate::webhooks::Webhooks;

/// Shared state of the write path.
pub struct Context {
    /// State that all layers share.
    pub shared: Shared,
    /// Progress of the registry behind the objects that define resources; a write of a CRD waits for it.
    pub crds: Arc<CrdRegistry>,
    /// Types of the kinds, and management of field ownership in their objects.
    pub field_managers: FieldManagers,
    /// Cache of parsed objects.
    pub trees: Trees,
    /// Queues of the writers of each object.
    pub turns: Turns,
    /// Hasher that makes the fingerprints of applies.
    pub fingerprints: Fingerprints,
    /// The admission plugins.
    pub admission: AdmissionChain,
    /// The admission webhooks and their client.
    pub webhooks: Webhooks,
    /// Issuer of tokens for service accounts.
    pub issuer: Arc<dyn TokenIssuer>,
    /// Context for the conversion of objects.
    pub representation: Arc<representation::Context>,
    /// Size limit of an object.
    pub size_limit: SizeLimit,
}

impl Context {
    /// Returns the resources that are served now.
    pub fn registry(&self) -> Arc<Registry> {
        self.shared.registry.load_full()
    }

    /// Returns the authorizer and the token authenticator for the run of a write.
    pub fn access(&self) -> Access<'_> {
        Access {
            authorizer: self.shared.authorizer.as_ref(),
            tokens: self.shared.tokens.as_ref(),
            issuer: self.issuer.as_ref(),
        }
    }

    /// Waits until no other writer precedes a write to the object that `target` names. A dry run does not wait.
    ///
    /// # Errors
    /// If the deadline passes (504), or if too many writers wait already (429).
    pub(super) async fn turn(&self, target: &Target) -> Result<Turn<'_>, ApiError> {
        if target.request.dry_run {
            return Ok(self.turns.none());
        }
        let key = target.key(&target.name);
        self.turns.take(&key, target.request.deadline).await
    }

    /// Returns the types of the built-in kinds.
    pub fn types(&self) -> &Arc<TypeTable> {
        &self.representation.types
    }

    /// Returns the types of the built-in kinds, for all formats of bodies.
    pub(crate) fn body_types(&self) -> BodyTypes<'_> {
        BodyTypes {
            kinds: self.field_managers.types(),
            messages: &self.representation.messages,
        }
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt as _;

    use super::super::testing::{CONFIG, World};

    #[tokio::test]
    async fn a_dry_run_waits_for_no_other_write() {
        let world = World::new();
        let (context, mut target) = (&world.context, world.target(CONFIG, ""));
        let first = context.turn(&target).await;
        assert!(first.is_ok() && context.turn(&target).now_or_never().is_none());
        target.request.dry_run = true;
        assert!(context.turn(&target).now_or_never().is_some());
    }
}
