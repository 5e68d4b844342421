//! Conversion of objects between the versions of their resource.
//!
//! Most kinds convert themselves, which happens immediately. Custom resources may have a conversion webhook: the
//! conversion waits for it, and may fail. Objects that are converted together are sent in one review. Work that does
//! not depend on the content of an object (deletion, garbage collection, namespace deletion) uses the stored object and
//! calls no webhook.

use holdfast_admission::webhooks::ClientConfig;
use holdfast_resource::ConversionCaller;
use holdfast_resource::conversion::{ConversionWebhook, TIMEOUT, WebhookFailure};
use holdfast_resource::convert::{self, Converted};
use holdfast_schema::Field;
use holdfast_value::Value;
use tokio::time::Instant;

use crate::http::ApiError;
use crate::objects::{self, Entry};
use crate::representation::Context;
use crate::representation::RequestedVersion;

/// The maximum number of objects in one review, and the size at which no more are added.
pub(crate) const TOGETHER: usize = 64;
pub(crate) const BYTES_TOGETHER: usize = 2 << 20;

/// Returns stored objects in the requested version. Those that need a webhook are sent in one review.
///
/// # Errors
/// The errors of [`convert`].
#[expect(
    clippy::indexing_slicing,
    reason = "a tree for each entry, and the place of one of them"
)]
pub(crate) async fn stored(
    context: &Context,
    requested: &RequestedVersion,
    entries: &[&Entry],
) -> Result<Vec<Value>, ApiError> {
    let mut trees = Vec::with_capacity(entries.len());
    let mut others = Vec::new();
    for (at, entry) in entries.iter().enumerate() {
        let tree = objects::tree(entry);
        if requested.webhook(&tree).is_some() {
            others.push((at, convert::in_current_form(&requested.resource, tree)?));
            trees.push(Value::Null);
        } else {
            trees.push(requested.convert(context, tree).await?);
        }
    }
    let (places, others): (Vec<usize>, Vec<Value>) = others.into_iter().unzip();
    if let Some(webhook) = others.first().and_then(|other| requested.webhook(other)) {
        let (resource, version) = (&requested.resource, &requested.api_version);
        let converted = Box::pin(convert::by_webhook(context, resource, webhook, others, version)).await?;
        for (at, tree) in places.into_iter().zip(converted) {
            trees[at] = tree;
        }
    }
    Ok(trees)
}

impl ConversionCaller for Context {
    fn convert<'a>(
        &'a self,
        webhook: &'a ConversionWebhook,
        objects: &'a [Value],
        api_version: &'a str,
    ) -> Converted<'a> {
        Box::pin(ask(self, webhook, objects, api_version))
    }
}

/// Calls the webhook to convert `objects`, none of which is in `api_version`.
///
/// # Errors
/// If the webhook fails or its response is invalid; the error describes the failure.
async fn ask(
    context: &Context,
    webhook: &ConversionWebhook,
    objects: &[Value],
    api_version: &str,
) -> Result<Vec<Value>, WebhookFailure> {
    let begun = Instant::now();
    let uid = context.shared.identifiers.uid();
    let review = webhook.review(&uid, objects, api_version)?;
    let client = ClientConfig::from_field(&Field::root(&webhook.client_config));
    let answer = context.webhooks.call(&client, review, TIMEOUT).await;
    let converted = match answer {
        Ok(answer) => webhook.converted(&answer, &uid, objects, api_version),
        Err(why) => Err(webhook.unanswered(objects, &why.to_string())),
    };
    let from = objects.first().and_then(|object| object.str_at(&["apiVersion"]));
    let versions =
        [from.unwrap_or_default(), api_version].map(|version| version.rsplit('/').next().unwrap_or_default());
    let failure = converted.as_ref().err().map(|failure| failure.kind);
    let metrics = &context.shared.metrics;
    metrics.converted(&webhook.crd, versions, failure, begun.elapsed());
    converted
}
