//! Resources defined by deriving `CustomResource`: their operator applies the CRD and then reconciles the objects, in
//! two versions, with a status and dependents that are deleted with their owner.

use std::sync::Arc;
use std::time::Duration;

use futures_util::{StreamExt as _, future};
use k8s_openapi::api::core::v1::ConfigMap;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::api::{Api, DeleteParams, ListParams, Patch, PatchParams, PostParams, PropagationPolicy};
use kube::core::crd::merge_crds;
use kube::runtime::controller::Action;
use kube::runtime::finalizer::{Event as Finalizer, finalizer};
use kube::runtime::wait::{await_condition, conditions};
use kube::runtime::watcher::Config as WatcherConfig;
use kube::runtime::{Controller, watcher};
use kube::{Client, CustomResource, CustomResourceExt as _, Error, KubeSchema, Resource as _, ResourceExt as _};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::kube_rs::{WAIT_TIMEOUT, next, start, until};

/// A cache of several shards; each is a ConfigMap that the operator maintains.
#[derive(CustomResource, KubeSchema, Serialize, Deserialize, Clone, Debug, PartialEq)]
#[kube(
    group = "caches.example.com",
    version = "v1",
    kind = "Cache",
    namespaced,
    status = "CacheStatus",
    shortname = "ca",
    category = "storage",
    selectable = ".spec.engine",
    scale(spec_replicas_path = ".spec.replicas", status_replicas_path = ".status.replicas"),
    printcolumn = r#"{"name": "Engine", "type": "string", "jsonPath": ".spec.engine"}"#,
    printcolumn = r#"{"name": "Ready", "type": "string", "jsonPath": ".status.conditions[?(@.type==\"Ready\")].status"}"#
)]
#[serde(rename_all = "camelCase")]
struct CacheSpec {
    engine: Engine,
    #[serde(default = "one")]
    #[schemars(range(min = 0, max = 9))]
    replicas: i32,
    #[x_kube(merge_strategy = ListMerge::Map(vec!["name".into()]))]
    #[serde(default)]
    shards: Vec<Shard>,
    #[x_kube(merge_strategy = ListMerge::Set)]
    #[serde(default)]
    zones: Vec<String>,
}

/// A quota of caches, which is checked by rules.
#[derive(CustomResource, KubeSchema, Serialize, Deserialize, Clone, Debug)]
#[kube(
    group = "caches.example.com",
    version = "v1",
    kind = "Quota",
    namespaced,
    validation = Rule::new("self.metadata.name.startsWith(self.spec.team)").message("a quota is named after its team")
)]
#[serde(rename_all = "camelCase")]
#[x_kube(
    validation = Rule::new("self.least <= self.most").message(Message::Expression(
        "'at least %d is more than at most %d'.format([self.least, self.most])".into()
    )),
    validation = Rule::new("oldSelf.closed == false || self.most == oldSelf.most").message("a closed quota stays")
)]
struct QuotaSpec {
    #[x_kube(validation = Rule::new("self == oldSelf").message("team stays").reason(Reason::FieldValueForbidden))]
    #[schemars(length(max = 20))]
    team: String,
    #[serde(default)]
    least: i64,
    most: i64,
    #[serde(default)]
    closed: bool,
    #[schemars(length(max = 10))]
    #[x_kube(validation = "self.all(engine, engine in ['Lru', 'Lfu'])")]
    #[serde(default)]
    engines: Vec<String>,
}

#[derive(Serialize, Deserialize, Clone, Copy, Debug, PartialEq, JsonSchema)]
enum Engine {
    Lru,
    Lfu,
}

#[derive(Serialize, Deserialize, Clone, Debug, PartialEq, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct Shard {
    #[schemars(length(min = 1, max = 12))]
    name: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    megabytes: Option<u32>,
}

#[derive(KubeSchema, Serialize, Deserialize, Clone, Debug, PartialEq)]
#[serde(rename_all = "camelCase")]
struct CacheStatus {
    #[serde(default)]
    replicas: i32,
    #[x_kube(merge_strategy = ListMerge::Map(vec!["type".into()]))]
    #[serde(default)]
    conditions: Vec<Condition>,
}

fn one() -> i32 {
    1
}

/// The resource before it had shards.
mod earlier {
    use super::*;

    #[derive(CustomResource, Serialize, Deserialize, Clone, Debug, PartialEq, JsonSchema)]
    #[kube(
        group = "caches.example.com",
        version = "v1alpha1",
        kind = "Cache",
        namespaced,
        status = "CacheStatus",
        deprecated = "caches.example.com/v1alpha1 goes away"
    )]
    pub(super) struct CacheSpec {
        pub(super) engine: Engine,
        #[serde(default)]
        pub(super) zones: Vec<String>,
    }
}

const NAME: &str = "caches.caches.example.com";
const FINALIZER: &str = "caches.example.com/cleanup";

fn cache(name: &str, shards: &[&str]) -> Value {
    let shards: Vec<_> = shards.iter().map(|name| json!({"name": name})).collect();
    json!({
        "apiVersion": "caches.example.com/v1",
        "kind": "Cache",
        "metadata": {"name": name},
        "spec": {"engine": "Lru", "shards": shards},
    })
}

/// Applies a CRD as its operator does at each start, and waits until it is established.
async fn define(client: &Client, crd: &CustomResourceDefinition) -> CustomResourceDefinition {
    let crds: Api<CustomResourceDefinition> = Api::all(client.clone());
    let name = crd.name_any();
    crds.patch(&name, &PatchParams::apply("operator").force(), &Patch::Apply(crd))
        .await
        .unwrap();
    let established = await_condition(crds, &name, conditions::is_crd_established());
    let answer = tokio::time::timeout(WAIT_TIMEOUT, established).await;
    answer.expect("not established in time").unwrap().unwrap()
}

#[tokio::test]
async fn a_derived_crd_is_served_as_soon_as_it_is_established() {
    let (_server, client) = start().await;
    let made = define(&client, &Cache::crd()).await;
    let status = made.status.clone().unwrap();
    assert_eq!(status.accepted_names.unwrap().list_kind.as_deref(), Some("CacheList"));
    assert_eq!(status.stored_versions.unwrap(), ["v1"]);

    // The apply of the operator at its next start changes nothing.
    let again = define(&client, &Cache::crd()).await;
    assert_eq!(again.resource_version(), made.resource_version());

    let caches: Api<Cache> = Api::default_namespaced(client.clone());
    let spec = CacheSpec {
        engine: Engine::Lru,
        replicas: 2,
        shards: vec![Shard {
            name: "a".into(),
            megabytes: Some(64),
        }],
        zones: vec!["north".into()],
    };
    let answer = caches
        .create(&PostParams::default(), &Cache::new("typed", spec.clone()))
        .await
        .unwrap();
    assert_eq!((answer.spec, answer.metadata.generation), (spec, Some(1)));
    let filled = caches
        .patch(
            "filled",
            &PatchParams::apply("someone"),
            &Patch::Apply(cache("filled", &[])),
        )
        .await
        .unwrap();
    assert_eq!(filled.spec.replicas, 1);

    let scale = caches.get_scale("typed").await.unwrap();
    assert_eq!(scale.spec.unwrap().replicas, Some(2));
    let scaled = Patch::Merge(json!({"spec": {"replicas": 5}}));
    caches
        .patch_scale("typed", &PatchParams::default(), &scaled)
        .await
        .unwrap();
    assert_eq!(caches.get("typed").await.unwrap().spec.replicas, 5);

    let lfu = Patch::Merge(json!({"spec": {"engine": "Lfu"}}));
    caches.patch("typed", &PatchParams::default(), &lfu).await.unwrap();
    let selected = caches
        .list(&ListParams::default().fields("spec.engine=Lfu"))
        .await
        .unwrap();
    assert_eq!(selected.items.len(), 1);

    let mut unknown = cache("unknown", &[]);
    unknown["spec"]["size"] = json!(3);
    let strict = PatchParams {
        field_validation: Some(kube::api::ValidationDirective::Strict),
        ..PatchParams::apply("someone")
    };
    let rejected = caches
        .patch("unknown", &strict, &Patch::Apply(&unknown))
        .await
        .unwrap_err()
        .to_string();
    assert!(
        rejected.contains(".spec.size: field not declared in schema"),
        "{rejected}"
    );
}

#[tokio::test]
async fn object_violating_a_derived_schema_is_rejected_with_causes() {
    let (_server, client) = start().await;
    define(&client, &Cache::crd()).await;
    let caches: Api<Cache> = Api::default_namespaced(client);
    let mut wrong = cache("wrong", &["", "far-too-long-a-name"]);
    wrong["spec"]["replicas"] = json!(10);
    wrong["spec"]["engine"] = json!("Fifo");
    let rejected = caches
        .patch("wrong", &PatchParams::apply("someone"), &Patch::Apply(wrong))
        .await;
    let Err(Error::Api(status)) = rejected else {
        panic!("accepted: {rejected:?}")
    };
    assert_eq!((status.code, status.reason.as_str()), (422, "Invalid"));
    let mut causes: Vec<_> = status
        .details
        .as_ref()
        .unwrap()
        .causes
        .iter()
        .map(|cause| cause.field.as_str())
        .collect();
    causes.sort_unstable();
    assert_eq!(
        causes,
        [
            "spec.engine",
            "spec.replicas",
            "spec.shards[0].name",
            "spec.shards[1].name"
        ],
        "{}",
        status.message
    );
}

#[tokio::test]
async fn derived_rules_are_checked_with_their_messages() {
    let (_server, client) = start().await;
    define(&client, &Quota::crd()).await;
    let quotas: Api<Quota> = Api::default_namespaced(client);
    let spec = QuotaSpec {
        team: "blue".into(),
        least: 1,
        most: 5,
        closed: false,
        engines: vec!["Lru".into()],
    };
    let rejected = async |quota: Quota| match quotas.create(&PostParams::default(), &quota).await {
        Err(Error::Api(status)) if status.code == 422 => status.message.clone(),
        other => panic!("not refused as invalid: {other:?}"),
    };
    let wrong = Quota::new(
        "red-1",
        QuotaSpec {
            least: 7,
            ..spec.clone()
        },
    );
    let message = rejected(wrong).await;
    assert!(message.contains("a quota is named after its team"), "{message}");
    assert!(
        message.contains("spec: Invalid value: at least 7 is more than at most 5"),
        "{message}"
    );
    let wrong = QuotaSpec {
        engines: vec!["Fifo".into()],
        ..spec.clone()
    };
    let message = rejected(Quota::new("blue-1", wrong)).await;
    assert!(
        message.contains("spec.engines: Invalid value: failed rule: self.all(engine, engine in ['Lru', 'Lfu'])"),
        "{message}"
    );

    quotas
        .create(&PostParams::default(), &Quota::new("blue-1", spec))
        .await
        .unwrap();
    let merge = async |change: Value| {
        let patch = Patch::Merge(json!({"spec": change}));
        let patched = quotas.patch("blue-1", &PatchParams::default(), &patch).await;
        patched.map(|_| ()).map_err(|error| error.to_string())
    };
    let moved = merge(json!({"team": "b"})).await.unwrap_err();
    assert!(moved.contains("spec.team: Forbidden: team stays"), "{moved}");
    merge(json!({"most": 6, "closed": true})).await.unwrap();
    let changed = merge(json!({"most": 7})).await.unwrap_err();
    assert!(changed.contains("a closed quota stays"), "{changed}");
}

#[tokio::test]
async fn two_derived_versions_show_the_same_objects() {
    let (_server, client) = start().await;
    define(&client, &earlier::Cache::crd()).await;
    let old: Api<earlier::Cache> = Api::default_namespaced(client.clone());
    let wish = json!({
        "apiVersion": "caches.example.com/v1alpha1", "kind": "Cache",
        "metadata": {"name": "old"}, "spec": {"engine": "Lru", "zones": ["north"]},
    });
    old.patch("old", &PatchParams::apply("old-operator"), &Patch::Apply(wish))
        .await
        .unwrap();

    // The operator is brought up to date: another version is stored from then on, and both are served.
    let both = merge_crds(vec![earlier::Cache::crd(), Cache::crd()], "v1").unwrap();
    let crd = define(&client, &both).await;
    assert_eq!(crd.status.unwrap().stored_versions.unwrap(), ["v1alpha1", "v1"]);
    let new: Api<Cache> = Api::default_namespaced(client.clone());
    let shown = new.get("old").await.unwrap();
    assert_eq!(
        (shown.spec.replicas, &shown.spec.zones[..]),
        (1, &["north".to_owned()][..])
    );

    let mut events = Box::pin(watcher(old.clone(), WatcherConfig::default()));
    for _begin_object_end in 0..3 {
        next(&mut events).await.unwrap();
    }
    // A value that the old version cannot represent cannot be applied while a manager owns fields in that version.
    let mut wish = cache("old", &["a"]);
    wish["spec"].as_object_mut().unwrap().remove("engine");
    wish["spec"]["zones"] = json!(["south"]);
    let apply = async || {
        new.patch("old", &PatchParams::apply("new-operator"), &Patch::Apply(&wish))
            .await
    };
    let Err(Error::Api(status)) = apply().await else {
        panic!("shards have a place in the old version")
    };
    assert_eq!(
        status.message,
        "failed to convert new object: .spec.shards: field not declared in schema"
    );
    // So the operator updates its own entry first.
    let entry =
        json!([{"op": "replace", "path": "/metadata/managedFields/0/apiVersion", "value": "caches.example.com/v1"}]);
    let migration = Patch::Json::<()>(serde_json::from_value(entry).unwrap());
    let by = PatchParams {
        field_manager: Some("migration".into()),
        ..PatchParams::default()
    };
    new.patch("old", &by, &migration).await.unwrap();
    next(&mut events).await.unwrap();
    apply().await.unwrap();
    match next(&mut events).await.unwrap() {
        watcher::Event::Apply(cache) => assert_eq!(cache.spec.zones, ["north", "south"]),
        other => panic!("{other:?}"),
    }
    // The defaults of the new version came with the write that migrated.
    let shown = new.get("old").await.unwrap();
    // Entries of one operation are ordered by their seconds first, which the test does not choose.
    let mut managers: Vec<_> = shown
        .managed_fields()
        .iter()
        .map(|entry| (entry.manager.as_deref(), entry.api_version.as_deref()))
        .collect();
    managers.sort_unstable();
    let in_new_version = Some("caches.example.com/v1");
    assert_eq!(
        managers,
        ["migration", "new-operator", "old-operator"].map(|manager| (Some(manager), in_new_version)),
        "{shown:?}"
    );
}

/// Reconciles one cache: a ConfigMap for each shard, a status that reports it, and a note when the cache is deleted.
async fn reconcile(cache: Arc<Cache>, client: Arc<Client>) -> Result<Action, kube::runtime::finalizer::Error<Error>> {
    let client = Client::clone(&client);
    let caches: Api<Cache> = Api::default_namespaced(client.clone());
    finalizer(&caches.clone(), FINALIZER, cache, |event| async {
        match event {
            Finalizer::Apply(cache) => keep(&cache, &caches, &client).await,
            Finalizer::Cleanup(cache) => {
                let notes: Api<ConfigMap> = Api::default_namespaced(client);
                let note = json!({
                    "apiVersion": "v1", "kind": "ConfigMap",
                    "metadata": {"name": "notes"}, "data": {cache.name_any(): "cleaned up"},
                });
                notes
                    .patch("notes", &PatchParams::apply("operator").force(), &Patch::Apply(note))
                    .await?;
                Ok(Action::await_change())
            }
        }
    })
    .await
}

async fn keep(cache: &Cache, caches: &Api<Cache>, client: &Client) -> Result<Action, Error> {
    let parameters = PatchParams::apply("operator").force();
    let maps: Api<ConfigMap> = Api::default_namespaced(client.clone());
    let name = cache.name_any();
    for shard in &cache.spec.shards {
        let map = format!("{name}-{}", shard.name);
        let wish = json!({
            "apiVersion": "v1", "kind": "ConfigMap",
            "metadata": {
                "name": map, "labels": {"cache": name}, "ownerReferences": [cache.controller_owner_ref(&()).unwrap()],
            },
            "data": {"megabytes": shard.megabytes.unwrap_or(16).to_string()},
        });
        maps.patch(&map, &parameters, &Patch::Apply(wish)).await?;
    }
    let of_cache = ListParams::default().labels(&format!("cache={name}"));
    for map in maps.list(&of_cache).await?.items {
        let map = map.name_any();
        if !cache
            .spec
            .shards
            .iter()
            .any(|shard| map == format!("{name}-{}", shard.name))
        {
            maps.delete(&map, &DeleteParams::default()).await?;
        }
    }
    let status = json!({
        "apiVersion": "caches.example.com/v1", "kind": "Cache",
        "status": {
            "replicas": cache.spec.shards.len(),
            "conditions": [condition("Ready", cache.metadata.generation)],
        },
    });
    caches.patch_status(&name, &parameters, &Patch::Apply(status)).await?;
    Ok(Action::await_change())
}

fn condition(name: &str, generation: Option<i64>) -> Value {
    let mut condition = json!({
        "type": name, "status": "True", "reason": "Kept", "message": "", "lastTransitionTime": "2026-01-02T03:04:05Z",
    });
    // An apply may only set a field to null if the CRD makes it nullable.
    if let Some(generation) = generation {
        condition["observedGeneration"] = generation.into();
    }
    condition
}

/// Holds when the operator has seen the newest wish.
fn is_kept(cache: Option<&Cache>) -> bool {
    let Some(cache) = cache else { return false };
    let conditions = cache.status.as_ref().map_or(&[][..], |status| &status.conditions);
    conditions
        .iter()
        .any(|condition| condition.type_ == "Ready" && condition.observed_generation == cache.metadata.generation)
}

#[tokio::test]
async fn an_operator_keeps_its_resources_and_what_they_own() {
    let (_server, client) = start().await;
    define(&client, &Cache::crd()).await;
    let caches: Api<Cache> = Api::default_namespaced(client.clone());
    let maps: Api<ConfigMap> = Api::default_namespaced(client.clone());
    let controller = Controller::new(caches.clone(), WatcherConfig::default())
        .owns(maps.clone(), WatcherConfig::default().labels("cache"))
        .run(
            reconcile,
            |_, _, _| Action::requeue(Duration::from_millis(100)),
            Arc::new(client.clone()),
        );
    let running = tokio::spawn(controller.for_each(|_| async {}));
    let kept = async || {
        let kept = tokio::time::timeout(WAIT_TIMEOUT, await_condition(caches.clone(), "main", is_kept)).await;
        kept.expect("not kept in time").unwrap().unwrap()
    };
    let shards = async || {
        let list = maps.list(&ListParams::default().labels("cache=main")).await.unwrap();
        list.items.iter().map(|map| map.name_any()).collect::<Vec<_>>()
    };
    let user = PatchParams::apply("user");

    caches
        .patch("main", &user, &Patch::Apply(cache("main", &["a", "b"])))
        .await
        .unwrap();
    let object = kept().await;
    assert_eq!(object.finalizers(), [FINALIZER]);
    assert_eq!(shards().await, ["main-a", "main-b"]);

    // The user changes the spec and not the status; another client adds a condition to the status.
    let other = json!({
        "apiVersion": "caches.example.com/v1", "kind": "Cache",
        "status": {"conditions": [condition("Backed-up", None)]},
    });
    caches
        .patch_status("main", &PatchParams::apply("backups"), &Patch::Apply(other))
        .await
        .unwrap();
    let changed = caches
        .patch("main", &user, &Patch::Apply(cache("main", &["b", "c"])))
        .await
        .unwrap();
    let object = kept().await;
    assert_eq!(object.metadata.generation, changed.metadata.generation);
    let types: Vec<_> = object
        .status
        .unwrap()
        .conditions
        .into_iter()
        .map(|condition| condition.type_)
        .collect();
    assert_eq!(types, ["Ready", "Backed-up"]);
    assert_eq!(shards().await, ["main-b", "main-c"]);

    // Deleted dependents are recreated.
    maps.delete("main-b", &DeleteParams::default()).await.unwrap();
    until("the map is made again", async || {
        maps.get_opt("main-b").await.unwrap().is_some()
    })
    .await;

    let uid = caches.get("main").await.unwrap().uid().unwrap();
    caches.delete("main", &DeleteParams::foreground()).await.unwrap();
    let gone = await_condition(caches.clone(), "main", conditions::is_deleted(&uid));
    tokio::time::timeout(WAIT_TIMEOUT, gone)
        .await
        .expect("not gone in time")
        .unwrap();
    assert_eq!(maps.get("notes").await.unwrap().data.unwrap()["main"], "cleaned up");
    // The references do not block the deletion of their owner: the garbage collector deletes the ConfigMaps after it.
    until("the maps are gone", async || shards().await.is_empty()).await;
    running.abort();
}

#[tokio::test]
async fn a_crd_takes_its_objects_and_theirs_along() {
    let (_server, client) = start().await;
    let uid = define(&client, &Cache::crd()).await.uid().unwrap();
    let caches: Api<Cache> = Api::default_namespaced(client.clone());
    let made = caches
        .patch(
            "main",
            &PatchParams::apply("user"),
            &Patch::Apply(cache("main", &["a"])),
        )
        .await
        .unwrap();
    keep(&made, &caches, &client).await.unwrap();
    let maps: Api<ConfigMap> = Api::default_namespaced(client.clone());
    assert!(maps.get_opt("main-a").await.unwrap().is_some());

    let crds: Api<CustomResourceDefinition> = Api::all(client.clone());
    let background = DeleteParams {
        propagation_policy: Some(PropagationPolicy::Background),
        ..DeleteParams::default()
    };
    crds.delete(NAME, &background).await.unwrap();
    let gone = await_condition(crds, NAME, conditions::is_deleted(&uid));
    tokio::time::timeout(WAIT_TIMEOUT, gone)
        .await
        .expect("not gone in time")
        .unwrap();
    // The server receives the change through its own watch, maybe a moment after this watch.
    until(
        "its objects are not served",
        async || matches!(caches.list(&ListParams::default()).await, Err(Error::Api(status)) if status.code == 404),
    )
    .await;
    until("what the object owned is gone", async || {
        maps.get_opt("main-a").await.unwrap().is_none()
    })
    .await;
}

#[tokio::test]
async fn of_many_candidates_one_leads_at_a_time() {
    let (_server, client) = start().await;
    define(&client, &Cache::crd()).await;
    let caches: Api<Cache> = Api::default_namespaced(client);
    caches
        .patch("seat", &PatchParams::apply("user"), &Patch::Apply(cache("seat", &[])))
        .await
        .unwrap();
    // Each candidate adds itself after it has read that a term is free; the resource version that it read guards the
    // write.
    let candidates = (0..8).map(|candidate| {
        let caches = caches.clone();
        async move {
            let mut terms = Vec::new();
            loop {
                let mut seat = caches.get("seat").await.unwrap();
                let term = seat.spec.zones.len();
                if term == 20 {
                    return terms;
                }
                seat.spec.zones.push(format!("{term}-{candidate}"));
                match caches.replace("seat", &PostParams::default(), &seat).await {
                    Ok(_) => terms.push(term),
                    Err(Error::Api(status)) => assert_eq!(status.reason, "Conflict", "{}", status.message),
                    Err(error) => panic!("{error}"),
                }
            }
        }
    });
    let mut terms: Vec<usize> = future::join_all(candidates).await.into_iter().flatten().collect();
    terms.sort_unstable();
    assert_eq!(terms, (0..20).collect::<Vec<_>>());
}
