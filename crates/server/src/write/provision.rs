//! Namespaces that the server creates for new objects, if the admission plugin `NamespaceAutoProvision` is enabled.

use std::sync::Arc;

use holdfast_resource::Rejection;
use holdfast_schema::metadata::new_object;
use holdfast_value::SmolStr;
use holdfast_writes::Target;
use http::StatusCode;

use super::create::create;
use crate::http::ApiError;
use crate::objects::Snapshot;
use crate::write::Context;

/// Creates the namespace in which `target` creates the object `name`, if `snapshot` lacks it. Returns true if it exists
/// from now on, so that the write needs a newer snapshot. A dry run creates none.
///
/// # Errors
/// If the namespace is rejected; the error is reported as one of the object.
pub(super) async fn provide(
    context: &Arc<Context>,
    target: &Target,
    name: &str,
    snapshot: &Snapshot,
) -> Result<bool, ApiError> {
    let (registry, namespace) = (target.registry.outside_run(), &target.namespace);
    if target.request.dry_run || namespace.is_empty() || !target.resource.namespaced() {
        return Ok(false);
    }
    let Some(namespaces) = registry.namespaces() else {
        return Ok(false);
    };
    let key = namespaces.storage.as_ref().map(|storage| storage.key("", namespace));
    if key.is_none_or(|key| snapshot.get(key.as_bytes()).is_some()) {
        return Ok(false);
    }
    let Some(mut own) = Target::of_server(registry, namespaces, "", *target.request.now.outside_run()) else {
        return Ok(false);
    };
    // Policies and webhooks observe this write like any other.
    own.writer.internal = false;
    own.writer.manager = SmolStr::new_static("kube-apiserver");
    own.request.deadline = target.request.deadline;
    let Some(of) = own.body.kind_type.clone() else {
        return Ok(false);
    };
    let object = new_object(&own.api_version, &namespaces.kind, "", namespace);
    let typed = of.decode(&object).map_err(ApiError::internal)?;
    let object = of.fill_in(typed.object).map_err(ApiError::too_large_because)?;
    match Box::pin(create(context, own, object)).await {
        Ok(_) => Ok(true),
        // Another write was faster.
        Err(error) if error.code() == StatusCode::CONFLICT => Ok(true),
        Err(error) if error.code() == StatusCode::FORBIDDEN => Err(error),
        Err(error) => {
            let (resource, kind) = (&target.resource, target.resource.stored_kind());
            let rejection = Rejection::forbidden(error.status().message.clone());
            Err(ApiError::rejection(rejection, &resource.group_resource(), &kind, name))
        }
    }
}

#[cfg(test)]
mod tests {
    use holdfast_admission::{AdmissionPlugin, Interest};
    use holdfast_value::Value;

    use super::super::testing::{CONFIG, World, applied, rejection};
    use super::super::update::update;
    use super::*;

    struct Provides;

    impl AdmissionPlugin for Provides {
        fn name(&self) -> &'static str {
            "Provides"
        }

        fn interests(&self) -> &[Interest] {
            &[]
        }

        fn provides_namespaces(&self) -> bool {
            true
        }
    }

    fn namespace(name: &str) -> String {
        format!("{{apiVersion: v1, kind: Namespace, metadata: {{name: {name}}}}}")
    }

    fn target(world: &World, namespace: &str) -> Target {
        let mut target = world.target(CONFIG, "");
        target.namespace = namespace.into();
        target
    }

    fn object(world: &World) -> Value {
        world.object(CONFIG)
    }

    #[tokio::test]
    async fn the_namespace_of_a_new_object_is_made() {
        let world = World::with_plugins(vec![Box::new(Provides)]);
        let made = create(&world.context, target(&world, "made"), object(&world)).await;
        assert!(made.is_ok() && world.entry(&namespace("made")).is_some());
        let again = create(&world.context, target(&world, "made"), object(&world)).await;
        assert_eq!(rejection(again).0, 409);
        let applied = update(&world.context, target(&world, "applied"), applied(CONFIG)).await;
        assert!(applied.is_ok() && world.entry(&namespace("applied")).is_some());
        let mut dry = target(&world, "dry");
        dry.request.dry_run = true;
        assert!(create(&world.context, dry, object(&world)).await.is_ok());
        assert!(world.entry(&namespace("dry")).is_none());
    }

    #[tokio::test]
    async fn a_namespace_that_cannot_be_made_refuses_the_object() {
        let world = World::with_plugins(vec![Box::new(Provides)]);
        let (code, why) = rejection(create(&world.context, target(&world, "No_Name"), object(&world)).await);
        assert_eq!(code, 403);
        assert!(
            why.starts_with(
                "configmaps \"a\" is forbidden: Namespace \"No_Name\" is invalid: metadata.name: Invalid value"
            ),
            "{why}"
        );
    }

    #[tokio::test]
    async fn no_namespace_is_made_unless_the_plugin_is_on() {
        let world = World::new();
        assert!(
            create(&world.context, target(&world, "made"), object(&world))
                .await
                .is_ok()
        );
        assert!(world.entry(&namespace("made")).is_none());
    }
}
