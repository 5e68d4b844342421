//! What is to be done before the first request: kinds see what is stored, and the namespaces that are always there are.

use std::sync::Arc;

use futures_util::future::try_join_all;
use holdfast_resource::{GroupResource, Resource, Verb};
use holdfast_store::HistoryError;
use holdfast_value::{SmolStr, Value};
use http::StatusCode;

use super::Target;
use crate::ApiError;
use crate::handlers::representation::Shown;
use crate::objects;
use crate::state::Context;
use crate::user::User;

/// The namespaces that exist from the start.
pub const NAMESPACES: [&str; 4] = ["default", "kube-node-lease", "kube-public", "kube-system"];

/// Who makes them.
const MANAGER: &str = "kube-apiserver";

/// Shows the kinds what is stored, keeps on showing them what changes, and creates the namespaces that are missing.
///
/// # Errors
/// Where a namespace cannot be stored.
pub async fn start(context: &Arc<Context>) -> Result<(), ApiError> {
    for resource in context.registry().resources() {
        if resource.strategy.observes() {
            observe(context, Arc::clone(resource));
        }
    }
    // Made together, they are one write to the disk.
    try_join_all(NAMESPACES.map(|name| create_namespace(context, name))).await?;
    Ok(())
}

/// Shows a kind its objects as they are now, and then each change in a task that ends with the store.
fn observe(context: &Arc<Context>, resource: Arc<Resource>) {
    let Some(storage) = resource.storage.clone() else {
        return;
    };
    let snapshot = context.store.snapshot();
    for entry in snapshot.range(storage.prefix.as_bytes()) {
        resource.strategy.observe(None, Some(&objects::tree(entry)));
    }
    // Opened here and not in the task: what comes before its first turn may soon be history.
    let mut watcher = context.store.watch(storage.prefix.as_str(), snapshot.revision());
    let context = Arc::clone(context);
    tokio::spawn(async move {
        while let Ok(changes) = &mut watcher {
            loop {
                match changes.next().await {
                    Ok(event) => {
                        let before = event.previous().map(|entry| objects::tree(entry));
                        let removed = event.kind() == holdfast_store::EventKind::Delete;
                        let now = (!removed).then(|| objects::tree(event.current()));
                        resource.strategy.observe(before.as_ref(), now.as_ref());
                    }
                    Err(HistoryError::Compacted { oldest, .. }) => {
                        tracing::error!(resource = %resource.group_resource(), oldest, "changes were missed");
                        let prefix = storage.prefix.as_str();
                        watcher = context.store.watch(prefix, show_anew(&context, &resource, prefix));
                        break;
                    }
                    Err(_) => return,
                }
            }
        }
    });
}

/// Shows a kind that missed changes its objects as they are now, and says at which revision that is.
fn show_anew(context: &Context, resource: &Resource, prefix: &str) -> u64 {
    let snapshot = context.store.snapshot();
    resource.strategy.observe_anew();
    for entry in snapshot.range(prefix.as_bytes()) {
        resource.strategy.observe(None, Some(&objects::tree(entry)));
    }
    snapshot.revision()
}

async fn create_namespace(context: &Arc<Context>, name: &str) -> Result<(), ApiError> {
    let registry = context.registry();
    let namespaces = GroupResource {
        group: SmolStr::default(),
        resource: SmolStr::new_static("namespaces"),
    };
    let Some(resource) = registry.resource(&namespaces).cloned() else {
        return Ok(());
    };
    let Some(version) = resource
        .versions
        .iter()
        .find(|version| version.verbs.contains(&Verb::Create))
    else {
        return Ok(());
    };
    let mut object = Value::empty_map();
    object.set_at(&["apiVersion"], version.api_version.clone().into());
    object.set_at(&["kind"], resource.kind.clone().into());
    object.set_at(&["metadata", "name"], name.into());
    let types = context.field_managers.types();
    if let Some(kind_type) = types.kind(&version.api_version, &resource.kind) {
        object = kind_type.typed(object)?;
    }
    let target = Target {
        shown: Shown::new(&resource, version),
        subresource: SmolStr::default(),
        scale: None,
        body_version: version.api_version.clone(),
        body_kind: resource.kind.clone(),
        reset_fields: version.reset_fields.clone(),
        namespace: SmolStr::default(),
        name: SmolStr::default(),
        user: Arc::new(User::server()),
        manager: SmolStr::new_static(MANAGER),
        dry_run: false,
        registry,
    };
    match super::create(context, target, object).await {
        Ok(_) => Ok(()),
        Err(error) if error.code() == StatusCode::CONFLICT => Ok(()),
        Err(error) => Err(error),
    }
}
