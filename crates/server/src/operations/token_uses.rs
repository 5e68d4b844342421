//! Labels of Secrets with the day on which their service account tokens were last used. kube-controller-manager deletes
//! Secrets whose tokens nobody uses by these labels.

use std::sync::Arc;

use holdfast_value::Value;
use tokio::sync::mpsc::Receiver;

use super::loopback::{Client, RequestError, path_of};
use super::service::Service;
use crate::http::negotiation::PatchType;
use crate::identity::{LAST_USED, SecretUse};
use crate::runtime::background;

/// Field manager of the label, with kube-apiserver's name.
const MANAGER: &str = "kube-apiserver";

/// Notes the `uses` of tokens in the labels of their Secrets for as long as the server serves.
pub fn follow(service: &Arc<Service>, mut uses: Receiver<SecretUse>) {
    let client = Client::new(Arc::clone(service), "legacy-token-tracking");
    let context = &service.context;
    let (background, shutdown) = (context.background.clone(), context.shutdown.clone());
    let ended = shutdown.clone();
    let work = async move {
        loop {
            let used = tokio::select! {
                used = uses.recv() => used,
                () = ended.closing() => return,
            };
            // Without senders there are no more uses, so that only the end of the server is awaited.
            let Some(used) = used else { return ended.closing().await };
            if let Err(error) = note(&client, &used).await {
                let SecretUse { namespace, name, .. } = used;
                tracing::warn!(%namespace, %name, %error, "cannot label the secret of a token with the day of its use");
            }
        }
    };
    background.spawn(background::OBSERVERS, "uses of tokens in secrets", &shutdown, work);
}

/// Labels the Secret, unless it was deleted or another use has already been noted.
async fn note(client: &Client, used: &SecretUse) -> Result<(), RequestError> {
    let Some(secrets) = client.resource("", "secrets") else {
        return Ok(());
    };
    let SecretUse {
        namespace,
        name,
        uid,
        day,
    } = used;
    let stored = client.get(&secrets, namespace, name).map(|secret| secret.tree());
    let is_due = |secret: &Value| {
        secret.str_at(&["metadata", "uid"]) == Some(uid)
            && secret.str_at(&["metadata", "labels", LAST_USED]) != Some(day)
    };
    if !stored.as_ref().is_some_and(is_due) {
        return Ok(());
    }
    let secret = path_of(&secrets, namespace, name).unwrap_or_default();
    let mut patch = Value::empty_map();
    patch.set_at(&["metadata", "uid"], uid.as_str().into());
    patch.set_at(&["metadata", "labels", LAST_USED], day.as_str().into());
    let path = format!("{secret}?fieldManager={MANAGER}");
    match client.patch(&path, PatchType::Merge, &patch).await {
        Err(error) if !error.is_not_found() && !error.is_conflict() => Err(error),
        _ => Ok(()),
    }
}
