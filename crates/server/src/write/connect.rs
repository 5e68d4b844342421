//! Requests that are connected through to a node or a pod: admission sees them before anybody looks for where they lead.

use holdfast_authorization::{AccessTarget, Attributes, ResourceTarget};
use holdfast_resource::{Connecter, Connection, Operation, Verb};
use holdfast_value::Value;

use super::Target;
use super::pipeline::Pipeline;
use super::webhooks::{Asked, Given};
use crate::http::ApiError;
use crate::write::Context;

/// How far a request of `verb` comes that asks `connecter` for `options`.
///
/// # Errors
/// What the client is to be told of a refusal by admission.
pub(crate) async fn connect(
    context: &Context,
    target: &Target,
    verb: Verb,
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
    check_verb(&pipeline, verb, connecter).map_err(|error| call.refused(error))?;
    target.check_key().map_err(|error| call.refused(error))?;
    let connection = connecter.connect(&call, &options);
    call.outcome().stored();
    Ok(connection)
}

/// Refuses a request of `verb` whose user may not do what is needed besides.
fn check_verb(pipeline: &Pipeline<'_>, verb: Verb, connecter: &dyn Connecter) -> Result<(), ApiError> {
    let Some(needed) = connecter.also_needs().filter(|needed| *needed != verb.name()) else {
        return Ok(());
    };
    let (target, resource) = (pipeline.target, &pipeline.target.shown.resource);
    let version = pipeline.address().version;
    let attributes = Attributes {
        verb: needed,
        target: AccessTarget::Resource(ResourceTarget {
            group: &resource.group,
            version: &version,
            resource: &resource.plural,
            subresource: &target.subresource,
            namespace: &target.namespace,
            name: &target.name,
        }),
    };
    let decision = pipeline.context.authorizer.authorize(&target.user, &attributes);
    if decision.allows() {
        return Ok(());
    }
    Err(ApiError::forbidden(
        &resource.group_resource(),
        &target.name,
        decision.reason(),
    ))
}
