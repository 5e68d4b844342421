//! Conversion of objects between the versions of their resource.
//!
//! Most kinds know it themselves, and then it is done at once. Custom resources may have a webhook that does it: then it is
//! waited for, and may fail. What can be asked for together is sent in one review. Whatever does not depend on what an
//! object holds (deletion, the collection of garbage, the end of namespaces) goes by what is stored and asks no webhook.

use std::time::Instant;

use holdfast_admission::webhooks::ClientConfig;
use holdfast_resource::conversion::{ConversionError, ConversionWebhook, TIMEOUT, WebhookFailure};
use holdfast_resource::{Field, Resource};
use holdfast_value::{Growth, Value};

use crate::http::ApiError;
use crate::objects::{self, Entry};
use crate::representation::Context;
use crate::representation::Shown;

/// The most objects of one review, and the size at which no more are added.
pub(crate) const TOGETHER: usize = 64;
pub(crate) const BYTES_TOGETHER: usize = 2 << 20;

/// The webhook that has to be asked for `object` in `api_version`, if any.
pub(crate) fn webhook<'r>(resource: &'r Resource, object: &Value, api_version: &str) -> Option<&'r ConversionWebhook> {
    let webhook = resource.conversion_webhook()?;
    (object.str_at(&["apiVersion"]) != Some(api_version)).then_some(webhook)
}

/// `object` in another version of its resource. Kinds that know the way themselves wait for nothing.
///
/// # Errors
/// 500 where there is no such way, or where the webhook fails.
pub(crate) async fn convert(
    context: &Context,
    resource: &Resource,
    object: Value,
    api_version: &str,
) -> Result<Value, ApiError> {
    let Some(webhook) = webhook(resource, &object, api_version) else {
        return at_once(resource, object, api_version);
    };
    let own = object.str_at(&["apiVersion"]).unwrap_or_default().to_owned();
    let object = formed(resource, object, &own)?;
    let mut converted = Box::pin(by_webhook(context, resource, webhook, vec![object], api_version)).await?;
    Ok(converted.pop().unwrap_or_default())
}

/// As [`convert`], for an object as a write leaves it.
///
/// # Errors
/// Those of [`convert`].
pub(crate) async fn convert_written(
    context: &Context,
    resource: &Resource,
    object: Value,
    api_version: &str,
) -> Result<Value, ApiError> {
    let Some(webhook) = webhook(resource, &object, api_version) else {
        let converted = resource.convert_written(object, api_version);
        return converted.map_err(|error| refused(&error));
    };
    let mut converted = Box::pin(by_webhook(context, resource, webhook, vec![object], api_version)).await?;
    Ok(converted.pop().unwrap_or_default())
}

/// The same where no webhook has to be asked.
///
/// # Errors
/// 500 where the kind does not know the way.
pub(crate) fn at_once(resource: &Resource, object: Value, api_version: &str) -> Result<Value, ApiError> {
    let converted = resource.convert(object, api_version);
    converted.map_err(|error| refused(&error))
}

fn refused(error: &ConversionError) -> ApiError {
    match error {
        ConversionError::Unknown { .. } => ApiError::internal(error.to_string()),
        ConversionError::Overgrown(error) => ApiError::too_large_because(error),
        ConversionError::NoSuchTarget(_) | ConversionError::NoSuchSource(_) => {
            ApiError::unclassified(error.to_string())
        }
    }
}

/// Stored objects in the version that is shown. Those that need a webhook go into one review.
///
/// # Errors
/// As [`convert`].
#[expect(
    clippy::indexing_slicing,
    reason = "a tree for each entry, and the place of one of them"
)]
pub(crate) async fn stored(context: &Context, shown: &Shown, entries: &[&Entry]) -> Result<Vec<Value>, ApiError> {
    let mut trees = Vec::with_capacity(entries.len());
    let mut others = Vec::new();
    for (at, entry) in entries.iter().enumerate() {
        let tree = objects::tree(entry);
        if shown.webhook(&tree).is_some() {
            let own = tree.str_at(&["apiVersion"]).unwrap_or_default().to_owned();
            others.push((at, formed(&shown.resource, tree, &own)?));
            trees.push(Value::Null);
        } else {
            trees.push(shown.convert(context, tree).await?);
        }
    }
    let (places, others): (Vec<usize>, Vec<Value>) = others.into_iter().unzip();
    if let Some(webhook) = others.first().and_then(|other| shown.webhook(other)) {
        let (resource, version) = (&shown.resource, &shown.api_version);
        let converted = Box::pin(by_webhook(context, resource, webhook, others, version)).await?;
        for (at, tree) in places.into_iter().zip(converted) {
            trees[at] = tree;
        }
    }
    Ok(trees)
}

/// A stored object in the form that its version has, which is how it goes to its webhook.
fn formed(resource: &Resource, object: Value, own: &str) -> Result<Value, ApiError> {
    let formed = resource.convert(object, own);
    formed.map_err(|_| refused(&ConversionError::NoSuchSource(own.to_owned())))
}

/// Objects that are in other versions and have the form of these, as their webhook converts them. They lose what the new one
/// does not specify.
async fn by_webhook(
    context: &Context,
    resource: &Resource,
    webhook: &ConversionWebhook,
    objects: Vec<Value>,
    api_version: &str,
) -> Result<Vec<Value>, ApiError> {
    let converted = ask(context, webhook, &objects, api_version).await;
    let converted = converted.map_err(|failure| ApiError::unclassified(failure.message))?;
    let converted = converted.into_iter().map(|object| {
        let object = resource.converted(object);
        Growth::default()
            .draw_value(&object)
            .map_err(ApiError::too_large_because)?;
        Ok(object)
    });
    converted.collect()
}

/// What a webhook makes of `objects`, none of which is in `api_version`.
///
/// # Errors
/// What it did instead.
pub(crate) async fn ask(
    context: &Context,
    webhook: &ConversionWebhook,
    objects: &[Value],
    api_version: &str,
) -> Result<Vec<Value>, WebhookFailure> {
    let begun = Instant::now();
    let uid = context.identifiers.uid();
    let review = webhook.review(&uid, objects, api_version)?;
    let client = ClientConfig::of(&Field::root(&webhook.client_config));
    let answer = context.webhooks.call(&client, review, TIMEOUT).await;
    let converted = match answer {
        Ok(answer) => webhook.converted(&answer, &uid, objects, api_version),
        Err(why) => Err(webhook.unanswered(objects, &why.to_string())),
    };
    let from = objects.first().and_then(|object| object.str_at(&["apiVersion"]));
    let versions =
        [from.unwrap_or_default(), api_version].map(|version| version.rsplit('/').next().unwrap_or_default());
    let failure = converted.as_ref().err().map(|failure| failure.kind);
    let metrics = &context.metrics;
    metrics.converted(&webhook.definition, versions, failure, begun.elapsed());
    converted
}
