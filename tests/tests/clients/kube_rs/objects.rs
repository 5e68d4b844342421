//! Built-in kinds: written, applied, watched, held by a reflector, and kept by a controller.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use futures_util::{StreamExt as _, TryStreamExt as _};
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use kube::api::{
    Api, ApiResource, DeleteParams, DynamicObject, ListParams, Patch, PatchParams, PostParams, PropagationPolicy,
    WatchEvent, WatchParams,
};
use kube::core::GroupVersionKind;
use kube::runtime::controller::Action;
use kube::runtime::finalizer::{Event as Finalizer, finalizer};
use kube::runtime::watcher::{Config as WatcherConfig, Event};
use kube::runtime::{Controller, WatchStreamExt as _, reflector, watcher};
use kube::{Client, Error, Resource as _, ResourceExt as _};
use serde_json::json;

use crate::kube_rs::{WAIT_TIMEOUT, next, rejection, start, until};

fn config_map(name: &str, value: &str) -> ConfigMap {
    serde_json::from_value(json!({
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": name, "labels": {"team": "one"}},
        "data": {"key": value},
    }))
    .unwrap()
}

pub(crate) fn deployment(name: &str) -> serde_json::Value {
    json!({
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": name},
        "spec": {
            "replicas": 2,
            "selector": {"matchLabels": {"app": name}},
            "template": {
                "metadata": {"labels": {"app": name}},
                "spec": {"containers": [{"name": "main", "image": "registry.example.com/main:1"}]},
            },
        },
    })
}

#[tokio::test]
async fn objects_are_made_read_changed_and_deleted() {
    let (_server, client) = start().await;
    let maps: Api<ConfigMap> = Api::default_namespaced(client.clone());

    let made = maps
        .create(&PostParams::default(), &config_map("one", "a"))
        .await
        .unwrap();
    assert!(made.uid().is_some() && made.creation_timestamp().is_some());
    let again = maps.create(&PostParams::default(), &config_map("one", "a")).await;
    assert_eq!(rejection(again), (409, "AlreadyExists".into()));

    let patched = maps
        .patch(
            "one",
            &PatchParams::default(),
            &Patch::Merge(json!({"data": {"more": "b"}})),
        )
        .await
        .unwrap();
    assert_eq!(patched.data.as_ref().unwrap().len(), 2);

    // A client that read the object before the patch may not overwrite it.
    let mut stale = made.clone();
    stale.data = Some(BTreeMap::from([("key".into(), "stale".into())]));
    let rejected = maps.replace("one", &PostParams::default(), &stale).await;
    assert_eq!(rejection(rejected), (409, "Conflict".into()));
    let mut fresh = patched.clone();
    fresh.data = stale.data;
    maps.replace("one", &PostParams::default(), &fresh).await.unwrap();

    for index in 0..5 {
        maps.create(&PostParams::default(), &config_map(&format!("page-{index}"), "x"))
            .await
            .unwrap();
    }
    let mut pages = ListParams::default().labels("team=one").limit(2);
    let mut names = Vec::new();
    loop {
        let page = maps.list(&pages).await.unwrap();
        names.extend(page.items.iter().map(|map| map.name_any()));
        match page.metadata.continue_.filter(|token| !token.is_empty()) {
            Some(token) => pages = pages.continue_token(&token),
            None => break,
        }
    }
    assert_eq!(names, ["one", "page-0", "page-1", "page-2", "page-3", "page-4"]);

    let metadata = maps
        .list_metadata(&ListParams::default().fields("metadata.name=one"))
        .await
        .unwrap();
    assert_eq!(metadata.items.len(), 1);
    assert_eq!(metadata.items[0].labels()["team"], "one");

    maps.delete("one", &DeleteParams::default()).await.unwrap();
    assert!(maps.get_opt("one").await.unwrap().is_none());
    maps.delete_collection(&DeleteParams::default(), &ListParams::default().labels("team=one"))
        .await
        .unwrap();
    assert!(
        maps.list(&ListParams::default().labels("team=one"))
            .await
            .unwrap()
            .items
            .is_empty()
    );
}

#[tokio::test]
async fn appliers_share_an_object_and_see_conflicts() {
    let (_server, client) = start().await;
    let deployments: Api<Deployment> = Api::default_namespaced(client);
    let apply = |manager: &str| PatchParams::apply(manager);

    deployments
        .patch("web", &apply("alpha"), &Patch::Apply(deployment("web")))
        .await
        .unwrap();
    let wish = json!({"apiVersion": "apps/v1", "kind": "Deployment", "spec": {"replicas": 7}});
    match deployments.patch("web", &apply("bravo"), &Patch::Apply(&wish)).await {
        Err(Error::Api(status)) => {
            assert_eq!((status.code, status.reason.as_str()), (409, "Conflict"));
            assert!(
                status.message.contains("conflict with \"alpha\": .spec.replicas"),
                "{}",
                status.message
            );
        }
        other => panic!("no conflict: {other:?}"),
    }
    let forced = deployments
        .patch("web", &apply("bravo").force(), &Patch::Apply(&wish))
        .await
        .unwrap();
    assert_eq!(forced.spec.as_ref().unwrap().replicas, Some(7));
    let managers: Vec<&str> = forced
        .managed_fields()
        .iter()
        .filter_map(|entry| entry.manager.as_deref())
        .collect();
    assert_eq!(managers, ["alpha", "bravo"]);

    let dry = deployments
        .patch(
            "web",
            &apply("bravo").dry_run(),
            &Patch::Apply(json!({"apiVersion": "apps/v1", "kind": "Deployment", "spec": {"replicas": 1}})),
        )
        .await
        .unwrap();
    assert_eq!(dry.spec.unwrap().replicas, Some(1));
    assert_eq!(deployments.get("web").await.unwrap().spec.unwrap().replicas, Some(7));
}

#[tokio::test]
async fn subresources_are_read_and_written_apart() {
    let (_server, client) = start().await;
    let deployments: Api<Deployment> = Api::default_namespaced(client);
    let parameters = PatchParams::apply("tests");
    deployments
        .patch("web", &parameters, &Patch::Apply(deployment("web")))
        .await
        .unwrap();

    assert_eq!(
        deployments.get_scale("web").await.unwrap().spec.unwrap().replicas,
        Some(2)
    );
    deployments
        .patch_scale(
            "web",
            &PatchParams::default(),
            &Patch::Merge(json!({"spec": {"replicas": 4}})),
        )
        .await
        .unwrap();
    let status = json!({"spec": {"replicas": 9}, "status": {"observedGeneration": 2, "replicas": 4}});
    let answer = deployments
        .patch_status("web", &PatchParams::default(), &Patch::Merge(status))
        .await
        .unwrap();
    assert_eq!(answer.spec.unwrap().replicas, Some(4));
    assert_eq!(answer.status.unwrap().replicas, Some(4));
}

#[tokio::test]
async fn discovered_kinds_are_handled_without_types() {
    let (_server, client) = start().await;
    let group = kube::discovery::group(&client, "apps").await.unwrap();
    let (resource, capabilities) = group.recommended_kind("Deployment").unwrap();
    assert_eq!(
        resource,
        ApiResource::from_gvk(&GroupVersionKind::gvk("apps", "v1", "Deployment"))
    );
    assert!(capabilities.supports_operation(kube::discovery::verbs::WATCH));

    let deployments: Api<DynamicObject> = Api::default_namespaced_with(client, &resource);
    deployments
        .create(
            &PostParams::default(),
            &serde_json::from_value(deployment("web")).unwrap(),
        )
        .await
        .unwrap();
    let patched = deployments
        .patch(
            "web",
            &PatchParams::default(),
            &Patch::Strategic(json!({"spec": {"replicas": 3}})),
        )
        .await
        .unwrap();
    assert_eq!(patched.data["spec"]["replicas"], 3);
    let orphaning = DeleteParams {
        propagation_policy: Some(PropagationPolicy::Background),
        ..DeleteParams::default()
    };
    deployments.delete("web", &orphaning).await.unwrap();
    assert!(deployments.get_opt("web").await.unwrap().is_none());
}

#[tokio::test]
async fn a_watch_sends_each_change_in_order() {
    let (_server, client) = start().await;
    let maps: Api<ConfigMap> = Api::default_namespaced(client);
    let version = maps
        .list(&ListParams::default())
        .await
        .unwrap()
        .metadata
        .resource_version
        .unwrap();
    maps.create(&PostParams::default(), &config_map("one", "a"))
        .await
        .unwrap();
    let change = Patch::Merge(json!({"data": {"key": "b"}}));
    maps.patch("one", &PatchParams::default(), &change).await.unwrap();
    maps.delete("one", &DeleteParams::default()).await.unwrap();

    let mut events = Box::pin(maps.watch(&WatchParams::default(), &version).await.unwrap());
    let mut seen = Vec::new();
    while seen.len() < 3 {
        seen.push(match next(&mut events).await.unwrap() {
            WatchEvent::Added(map) => format!("added {}", map.data.unwrap()["key"]),
            WatchEvent::Modified(map) => format!("modified {}", map.data.unwrap()["key"]),
            WatchEvent::Deleted(map) => format!("deleted {}", map.data.unwrap()["key"]),
            WatchEvent::Bookmark(_) => continue,
            WatchEvent::Error(status) => panic!("{status:?}"),
        });
    }
    assert_eq!(seen, ["added a", "modified b", "deleted b"]);
}

#[tokio::test]
async fn watcher_starts_with_existing_objects_and_follows_changes() {
    let (_server, client) = start().await;
    let maps: Api<ConfigMap> = Api::default_namespaced(client);
    maps.create(&PostParams::default(), &config_map("before", "a"))
        .await
        .unwrap();

    for config in [WatcherConfig::default(), WatcherConfig::default().streaming_lists()] {
        let config = config.labels("team=one");
        let mut events = Box::pin(watcher(maps.clone(), config));
        assert!(matches!(next(&mut events).await.unwrap(), Event::Init));
        match next(&mut events).await.unwrap() {
            Event::InitApply(map) => assert_eq!(map.name_any(), "before"),
            other => panic!("{other:?}"),
        }
        assert!(matches!(next(&mut events).await.unwrap(), Event::InitDone));

        maps.create(&PostParams::default(), &config_map("after", "a"))
            .await
            .unwrap();
        match next(&mut events).await.unwrap() {
            Event::Apply(map) => assert_eq!(map.name_any(), "after"),
            other => panic!("{other:?}"),
        }
        // An object that no longer matches the selector is deleted for this watcher.
        let leave = Patch::Merge(json!({"metadata": {"labels": {"team": "two"}}}));
        maps.patch("after", &PatchParams::default(), &leave).await.unwrap();
        match next(&mut events).await.unwrap() {
            Event::Delete(map) => assert_eq!(map.name_any(), "after"),
            other => panic!("{other:?}"),
        }
        maps.delete("after", &DeleteParams::default()).await.unwrap();
    }
}

#[tokio::test]
async fn a_reflector_holds_what_the_server_holds() {
    let (_server, client) = start().await;
    let maps: Api<ConfigMap> = Api::default_namespaced(client);
    maps.create(&PostParams::default(), &config_map("one", "a"))
        .await
        .unwrap();

    let (store, writer) = reflector::store();
    let events = watcher(maps.clone(), WatcherConfig::default().labels("team=one")).default_backoff();
    let following = tokio::spawn(
        events
            .reflect(writer)
            .applied_objects()
            .try_for_each(|_| async { Ok(()) }),
    );
    tokio::time::timeout(WAIT_TIMEOUT, store.wait_until_ready())
        .await
        .unwrap()
        .unwrap();
    assert_eq!(store.len(), 1);

    for index in 0..50 {
        maps.create(&PostParams::default(), &config_map(&format!("map-{index}"), "x"))
            .await
            .unwrap();
    }
    until("the store holds all", || async { store.len() == 51 }).await;
    maps.delete_collection(&DeleteParams::default(), &ListParams::default().labels("team=one"))
        .await
        .unwrap();
    until("the store is empty", || async { store.is_empty() }).await;
    following.abort();
}

/// The finalizer of the controller below.
const FINALIZER: &str = "tests.example.com/cleanup";

/// Makes a secret of each map, owned by it, and notes in another map that a map was cleaned up.
async fn reconcile(map: Arc<ConfigMap>, client: Arc<Client>) -> Result<Action, kube::runtime::finalizer::Error<Error>> {
    let maps: Api<ConfigMap> = Api::default_namespaced(Client::clone(&client));
    finalizer(&maps, FINALIZER, map, |event| async {
        let parameters = PatchParams::apply("tests-controller").force();
        match event {
            Finalizer::Apply(map) => {
                let secret = json!({
                    "apiVersion": "v1",
                    "kind": "Secret",
                    "metadata": {"name": map.name_any(), "ownerReferences": [map.controller_owner_ref(&()).unwrap()]},
                    "stringData": map.data,
                });
                let secrets: Api<Secret> = Api::default_namespaced(Client::clone(&client));
                secrets
                    .patch(&map.name_any(), &parameters, &Patch::Apply(secret))
                    .await?;
            }
            Finalizer::Cleanup(map) => {
                let note = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "notes"}, "data": {map.name_any(): "cleaned up"}});
                maps.patch("notes", &parameters, &Patch::Apply(note)).await?;
            }
        }
        Ok(Action::await_change())
    })
    .await
}

#[tokio::test]
async fn a_controller_keeps_what_it_owns_and_cleans_up() {
    let (_server, client) = start().await;
    let maps: Api<ConfigMap> = Api::default_namespaced(client.clone());
    let secrets: Api<Secret> = Api::default_namespaced(client.clone());
    let controller = Controller::new(maps.clone(), WatcherConfig::default().labels("team=one"))
        .owns(secrets.clone(), WatcherConfig::default())
        .run(
            reconcile,
            |_, _, _| Action::requeue(Duration::from_millis(100)),
            Arc::new(client.clone()),
        );
    let running = tokio::spawn(controller.for_each(|_| async {}));

    maps.create(&PostParams::default(), &config_map("one", "a"))
        .await
        .unwrap();
    until("the secret is made", || async {
        secrets.get_opt("one").await.unwrap().is_some()
    })
    .await;
    secrets.delete("one", &DeleteParams::default()).await.unwrap();
    until("the secret is made again", || async {
        secrets.get_opt("one").await.unwrap().is_some()
    })
    .await;
    assert_eq!(maps.get("one").await.unwrap().finalizers(), [FINALIZER]);

    maps.delete("one", &DeleteParams::default()).await.unwrap();
    until("the map is gone", || async {
        maps.get_opt("one").await.unwrap().is_none()
    })
    .await;
    assert_eq!(maps.get("notes").await.unwrap().data.unwrap()["one"], "cleaned up");
    // The garbage collector deletes the objects that it owned.
    until("the secret is gone", || async {
        secrets.get_opt("one").await.unwrap().is_none()
    })
    .await;
    running.abort();
}
