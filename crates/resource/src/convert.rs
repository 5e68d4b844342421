//! Objects in the versions of their resource, converted by the server or by a webhook.
//!
//! Most kinds convert their objects themselves, at once. Custom resources may have a conversion webhook, whose calls
//! are awaited and may fail. A [`ConversionCaller`] sends the reviews to webhooks.

use std::pin::Pin;

use holdfast_value::{Growth, Value};

use crate::conversion::{ConversionError, ConversionWebhook, WebhookFailure};
use crate::descriptor::Resource;

/// Future of a webhook's response.
pub type Converted<'a> = Pin<Box<dyn Future<Output = Result<Vec<Value>, WebhookFailure>> + Send + 'a>>;

/// Sends reviews to conversion webhooks.
pub trait ConversionCaller: Send + Sync {
    /// Returns the conversion by a webhook of `objects`, none of which is in `api_version`.
    fn convert<'a>(
        &'a self,
        webhook: &'a ConversionWebhook,
        objects: &'a [Value],
        api_version: &'a str,
    ) -> Converted<'a>;
}

/// Returns the webhook that converts `object` to `api_version`, if any.
pub fn webhook<'r>(resource: &'r Resource, object: &Value, api_version: &str) -> Option<&'r ConversionWebhook> {
    let webhook = resource.conversion_webhook()?;
    (object.str_at(&["apiVersion"]) != Some(api_version)).then_some(webhook)
}

/// Returns `object` in another version of its resource. Only conversion by a webhook waits.
///
/// # Errors
/// If there is no such conversion, or if the webhook fails.
pub async fn convert(
    caller: &dyn ConversionCaller,
    resource: &Resource,
    object: Value,
    api_version: &str,
) -> Result<Value, ConversionError> {
    let Some(webhook) = webhook(resource, &object, api_version) else {
        return resource.convert(object, api_version);
    };
    let object = in_current_form(resource, object)?;
    one_by_webhook(caller, resource, webhook, object, api_version).await
}

/// Returns a single object as its webhook converts it.
async fn one_by_webhook(
    caller: &dyn ConversionCaller,
    resource: &Resource,
    webhook: &ConversionWebhook,
    object: Value,
    api_version: &str,
) -> Result<Value, ConversionError> {
    let mut converted = Box::pin(by_webhook(caller, resource, webhook, vec![object], api_version)).await?;
    Ok(converted.pop().unwrap_or_default())
}

/// Converts like [`convert`], but an object that a write produced.
///
/// # Errors
/// If [`convert`] fails.
pub async fn convert_written(
    caller: &dyn ConversionCaller,
    resource: &Resource,
    object: Value,
    api_version: &str,
) -> Result<Value, ConversionError> {
    let Some(webhook) = webhook(resource, &object, api_version) else {
        return resource.convert_written(object, api_version);
    };
    one_by_webhook(caller, resource, webhook, object, api_version).await
}

/// Returns a stored object in the form that clients see in `api_version`.
///
/// # Errors
/// If [`convert`] fails.
pub async fn to_requested(
    caller: &dyn ConversionCaller,
    resource: &Resource,
    stored: Value,
    api_version: &str,
) -> Result<Value, ConversionError> {
    if webhook(resource, &stored, api_version).is_none() {
        return to_requested_at_once(resource, stored, api_version);
    }
    convert(caller, resource, stored, api_version).await
}

/// Converts an object like [`to_requested`] if that needs no webhook.
///
/// # Errors
/// If the kind cannot convert to that version.
pub fn to_requested_at_once(resource: &Resource, stored: Value, api_version: &str) -> Result<Value, ConversionError> {
    if resource.is_stored_in(api_version) && !resource.conventions.form_changes {
        return Ok(stored);
    }
    resource.convert(stored, api_version)
}

/// Returns a stored object in the current form of its version, in which it is sent to its webhook.
///
/// # Errors
/// If its version no longer exists.
pub fn in_current_form(resource: &Resource, stored: Value) -> Result<Value, ConversionError> {
    let own = stored.str_at(&["apiVersion"]).unwrap_or_default().to_owned();
    let converted = resource.convert(stored, &own);
    converted.map_err(|_| ConversionError::NoSuchSource(own))
}

/// Returns the webhook's conversion of objects that are in other versions, in the current form of these. They lose the
/// fields that the new version does not specify.
///
/// # Errors
/// If the webhook fails, or an object becomes too large.
pub async fn by_webhook(
    caller: &dyn ConversionCaller,
    resource: &Resource,
    webhook: &ConversionWebhook,
    objects: Vec<Value>,
    api_version: &str,
) -> Result<Vec<Value>, ConversionError> {
    let converted = caller
        .convert(webhook, &objects, api_version)
        .await?
        .into_iter()
        .map(|object| {
            let object = resource.converted(object);
            Growth::default().draw_value(&object)?;
            Ok(object)
        });
    converted.collect()
}
