//! Requests that store nothing: reviews, connections and computed objects.

use holdfast_resource::{Connecter, Connection, Operation, Review, Verb, WriteContext};
use holdfast_value::Value;
use holdfast_writes::{Stage, Target};

use super::environment::{lookup, stage};
use crate::http::ApiError;
use crate::write::Context;

/// Returns the result of `compute` over the current state, for a kind that is not stored.
///
/// # Errors
/// If the kind rejects the request; the error is the one that the client gets.
pub(crate) fn compute<T>(
    context: &Context,
    target: &Target,
    operation: Operation,
    compute: impl FnOnce(&Stage<'_>, &WriteContext<'_>) -> Result<T, ApiError>,
) -> Result<T, ApiError> {
    let snapshot = context.shared.store.snapshot();
    let lookup = lookup(context, target.registry.outside_run(), &snapshot);
    let stage = stage(context, target, &lookup);
    let call = stage.call(operation, &target.name);
    let answer = compute(&stage, &call)?;
    call.after_commit().stored();
    Ok(answer)
}

/// Returns the answer of `review` to a POST of `object`, which is decoded, typed and defaulted, with the warnings for
/// the client. Stores nothing.
///
/// # Errors
/// If the review is rejected; the error is the one that the client gets.
pub(crate) async fn answer(
    context: &Context,
    target: &Target,
    review: &dyn Review,
    object: Value,
) -> Result<(Value, Vec<String>), ApiError> {
    let snapshot = context.shared.store.snapshot();
    let lookup = lookup(context, target.registry.outside_run(), &snapshot);
    Ok(stage(context, target, &lookup).answer(review, object).await?)
}

/// Runs admission for a request of `verb` to `connecter` with `options`, and returns the connection.
///
/// # Errors
/// If admission denies the request; the error is the one that the client gets.
pub(crate) async fn connect(
    context: &Context,
    target: &Target,
    verb: Verb,
    connecter: &dyn Connecter,
    options: Value,
) -> Result<(Connection, Vec<String>), ApiError> {
    let snapshot = context.shared.store.snapshot();
    let lookup = lookup(context, target.registry.outside_run(), &snapshot);
    Ok(stage(context, target, &lookup)
        .connect(verb, connecter, options)
        .await?)
}

#[cfg(test)]
mod tests {
    use holdfast_resource::{Rejection, Responder};

    use super::super::testing::{CONFIG, World, rejection};
    use super::*;

    #[tokio::test]
    async fn a_review_is_answered_and_not_stored() {
        const REVIEW: &str = "{apiVersion: authentication.k8s.io/v1, kind: SelfSubjectReview, metadata: {}}";
        let world = World::new();
        let target = world.target(REVIEW, "");
        let Some(Responder::Review(review)) = target.resource.capabilities.responder("") else {
            panic!("the kind is answered")
        };
        let answered = answer(&world.context, &target, review.as_ref(), world.object(REVIEW)).await;
        let (object, warnings) = answered.ok().unwrap();
        assert_eq!(object.str_at(&["status", "userInfo", "username"]), Some("tester"));
        assert!(warnings.is_empty() && world.snapshot().is_empty());
    }

    #[tokio::test]
    async fn a_question_sees_the_objects_as_they_are_now() {
        let world = World::new();
        world.create(CONFIG).await;
        let target = world.target(CONFIG, "");
        let outcome = compute(&world.context, &target, Operation::Update, |stage, call| {
            let found = call.lookup.get(&stage.resource().group_resource(), "default", "a");
            found.ok_or_else(|| stage.rejection(Rejection::Failed("none".to_owned()), "a").into())
        });
        assert_eq!(outcome.ok().unwrap().str_at(&["data", "k"]), Some("1"));
    }

    #[tokio::test]
    async fn a_refused_question_is_an_error() {
        let world = World::new();
        let outcome: Result<(), _> = compute(&world.context, &world.target(CONFIG, ""), Operation::Update, |_, _| {
            Err(ApiError::bad_request("no"))
        });
        assert_eq!(rejection(outcome), (400, "no".to_owned()));
    }

    #[tokio::test]
    async fn a_connection_to_what_is_not_there_is_refused() {
        const POD: &str = "{apiVersion: v1, kind: Pod, metadata: {name: p}}";
        let world = World::new();
        let target = world.target(POD, "log");
        let connecter = target.resource.capabilities.connecter("log").unwrap();
        let options = Value::empty_map();
        let connected = connect(&world.context, &target, Verb::Get, connecter, options).await;
        assert!(
            matches!(&connected, Ok((Connection::Refused(_), _))) || connected.is_err(),
            "there is no such pod"
        );
    }
}
