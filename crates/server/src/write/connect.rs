//! Requests that are connected through to a node or a pod: admission sees them before anybody looks for where they lead.

use holdfast_resource::{Connecter, Connection, Operation};
use holdfast_value::Value;

use super::Target;
use super::pipeline::Pipeline;
use super::webhooks::{Asked, Given};
use crate::ApiError;
use crate::state::Context;

/// How far a request comes that asks `connecter` for `options`.
///
/// # Errors
/// What the client is to be told of a refusal by admission.
pub(crate) async fn connect(
    context: &Context,
    target: &Target,
    connecter: &dyn Connecter,
    mut options: Value,
) -> Result<Connection, ApiError> {
    let snapshot = context.store.snapshot();
    let pipeline = Pipeline::new(context, target, &snapshot);
    let call = pipeline.call(Operation::Connect, &target.name);
    if connecter.connects() {
        let asked = Asked::new("CONNECT", &target.name, Given::Nothing);
        let refuse = |refusal| pipeline.refusal(refusal, &target.name);
        let admitted = async {
            pipeline
                .mutate(&call, &asked, Some(&mut options), None, Some(&refuse))
                .await?;
            pipeline.validate(&call, &asked, Some(&options), None, &refuse).await
        };
        admitted.await.map_err(|error| call.refused(error))?;
    }
    let connection = connecter.connect(&call, &options);
    call.outcome().stored();
    Ok(connection)
}
