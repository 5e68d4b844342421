//! What a write takes from what is limited: the statuses of quotas that are stored together with it.

use std::sync::Arc;

use holdfast_admission::Charge;
use holdfast_resource::Operation;
use holdfast_store::{CommitError, Committed, Transaction};
use holdfast_value::Value;

use super::commit::Failure;
use super::pipeline::Pipeline;
use super::{Target, metadata, tracking};
use crate::ApiError;
use crate::objects::{self, Entry, Index, Objects, Snapshot};
use crate::state::Context;

/// How often a write is charged when others take from the same quotas and are faster. In each such race one of the writes
/// comes to its end, and there are never more writes at a time than this.
const RACES: usize = 1000;

/// An object whose status changes together with a write.
pub(super) struct Charged {
    key: String,
    live: Arc<Entry>,
    object: Value,
    target: Target,
}

/// What a write of `object` in the place of `live` takes.
///
/// # Errors
/// What the client is to be told where too little is left.
pub(super) fn of(pipeline: &Pipeline<'_>, object: &Value, live: Option<&Arc<Entry>>) -> Result<Vec<Charged>, ApiError> {
    let name = metadata::name(object);
    let operation = match live {
        Some(_) => Operation::Update,
        None => Operation::Create,
    };
    let call = pipeline.call(operation, name);
    let read = live.map(|live| || objects::tree(live));
    let old = read.as_ref().map(|read| read as &dyn Fn() -> Value);
    let admission = &pipeline.context.admission;
    let charges = admission
        .charge(&call, pipeline.resource(), object, old)
        .map_err(|refusal| pipeline.refusal(refusal, name))?;
    charges
        .into_iter()
        .map(|charge| Charged::new(pipeline, charge))
        .collect()
}

impl Charged {
    fn new(pipeline: &Pipeline<'_>, charge: Charge) -> Result<Self, ApiError> {
        let Charge { resource, mut object } = charge;
        let registry = &pipeline.target.registry;
        let missing = || ApiError::internal(format!("{resource} has no status"));
        let of = registry.resource(&resource).ok_or_else(missing)?;
        let server = Target::of_server(registry, of, "status").ok_or_else(missing)?;
        let target = Target {
            namespace: object.str_at(&["metadata", "namespace"]).unwrap_or_default().into(),
            name: metadata::name(&object).into(),
            ..server
        };
        let storage = of.storage.as_ref().ok_or_else(missing)?;
        let key = storage.key(&target.namespace, &target.name);
        let live = pipeline.snapshot.get(key.as_bytes()).ok_or_else(missing)?;
        tracking::update_as(
            pipeline.context,
            &target,
            pipeline.now,
            Some(&objects::tree(live)),
            &mut object,
        );
        Ok(Self {
            key,
            live: Arc::clone(live),
            object,
            target,
        })
    }

    fn index(&self) -> Index {
        let (registry, resource) = (&self.target.registry, &self.target.shown.resource);
        objects::index_of(registry, resource, &self.object, &self.target.shown.api_version)
    }

    fn add_to(&self, transaction: Transaction<Objects>) -> Transaction<Objects> {
        transaction
            .guard(self.key.as_str(), self.live.mod_revision())
            .put_indexed(self.key.as_str(), objects::encode(&self.object), self.index())
    }
}

/// Commits what `write` makes together with `charges`. Where another write was faster in taking from the same objects,
/// `charge` says what is taken by the state after that; the write itself stays as it is.
pub(super) async fn commit(
    context: &Context,
    mut charges: Vec<Charged>,
    write: impl Fn() -> Transaction<Objects>,
    charge: impl Fn(&Snapshot) -> Result<Vec<Charged>, ApiError>,
) -> Result<Committed<Objects>, Failure> {
    for _ in 0..RACES {
        let transaction = charges
            .iter()
            .fold(write(), |transaction, charged| charged.add_to(transaction));
        match context.store.commit(transaction).await {
            Ok(committed) => {
                // The write itself comes first.
                for (charged, entry) in charges.into_iter().zip(committed.entries.iter().skip(1).flatten()) {
                    context.trees.remember(entry, charged.object, Some(&charged.live));
                }
                return Ok(committed);
            }
            Err(CommitError::GuardFailed { key, .. })
                if charges.iter().any(|charged| charged.key.as_bytes() == key.as_bytes()) =>
            {
                charges = charge(&context.store.snapshot()).map_err(Failure::Refused)?;
            }
            Err(error) => return Err(error.into()),
        }
    }
    Err(Failure::Lost)
}
