//! Many writers of one object: no client observes a race, and no work is wasted.

use crate::hook;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};

use crate::hook::Hook;
use crate::support::{APPLY, Answer, CONFIG_MAPS, MERGE, Server, config_map};
use futures_util::future::join_all;
use holdfast_admission::{AdmissionPlugin, Interest};
use holdfast_resource::{Rejection, WriteContext};
use holdfast_value::Value;
use serde_json::json;
use tokio::runtime::Handle;

const MANAGERS: usize = 16;
const ROUNDS: usize = 8;

/// An admission plugin that counts the runs of writes to ConfigMaps.
struct Runs(Arc<AtomicUsize>);

impl AdmissionPlugin for Runs {
    fn name(&self) -> &'static str {
        "Runs"
    }

    fn interests(&self) -> &[Interest] {
        &[Interest::EVERYTHING]
    }

    fn mutate(&self, context: &WriteContext<'_>, _: Option<&mut Value>, _: Option<&Value>) -> Result<(), Rejection> {
        if context.resource.plural == "configmaps" {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
        Ok(())
    }
}

/// Starts a server that counts, with a ConfigMap `a`.
async fn counting() -> (Arc<Server>, Arc<AtomicUsize>) {
    let runs = Arc::new(AtomicUsize::new(0));
    let server = Server::start_with_plugin(Runs(Arc::clone(&runs))).await;
    assert_eq!(server.post(CONFIG_MAPS, &config_map("a", "1")).await.code, 201);
    runs.store(0, Ordering::Relaxed);
    (Arc::new(server), runs)
}

/// Returns the status codes of this many concurrent writers, each of which sends its writes one after another.
async fn by_all<F: Future<Output = Answer> + Send + 'static>(
    server: &Arc<Server>,
    write: impl Fn(Arc<Server>, usize, usize) -> F + Clone + Send + 'static,
) -> Vec<u16> {
    let writers = (0..MANAGERS).map(|manager| {
        let (server, write) = (Arc::clone(server), write.clone());
        tokio::spawn(async move {
            let mut codes = Vec::new();
            for round in 0..ROUNDS {
                codes.push(write(Arc::clone(&server), manager, round).await.code);
            }
            codes
        })
    });
    let codes = join_all(writers).await;
    codes.into_iter().flat_map(Result::unwrap).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn applies_by_many_managers_never_conflict_and_each_merges_once() {
    let (server, runs) = counting().await;
    let codes = by_all(&server, |server, manager, round| async move {
        let path = format!("{CONFIG_MAPS}/a?fieldManager=m{manager}");
        let body = json!({
            "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"},
            "data": {format!("k{manager}"): format!("{round}")},
        });
        server.patch(&path, APPLY, &body.to_string()).await
    });
    assert_eq!(codes.await, vec![200; MANAGERS * ROUNDS]);
    assert_eq!(runs.load(Ordering::Relaxed), MANAGERS * ROUNDS);
    let existing = server.get(&format!("{CONFIG_MAPS}/a")).await;
    assert_eq!(existing.at("/data").as_object().unwrap().len(), MANAGERS + 1);
    assert_eq!(
        existing.at("/metadata/managedFields").as_array().unwrap().len(),
        MANAGERS + 1
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn patches_and_replacements_without_a_version_never_conflict() {
    let (server, runs) = counting().await;
    let codes = by_all(&server, |server, manager, round| async move {
        let path = format!("{CONFIG_MAPS}/a");
        let label = json!({"metadata": {"labels": {format!("l{manager}"): format!("{round}")}}}).to_string();
        match manager % 4 {
            0 => server.patch(&path, MERGE, &label).await,
            1 => {
                let strategic = "application/strategic-merge-patch+json";
                server.patch(&path, strategic, &label).await
            }
            2 => {
                let add = json!([{"op": "add", "path": format!("/data/k{manager}"), "value": format!("{round}")}]);
                let patch = "application/json-patch+json";
                server.patch(&path, patch, &add.to_string()).await
            }
            _ => server.put(&path, &config_map("a", &format!("{manager}.{round}"))).await,
        }
    });
    assert_eq!(codes.await, vec![200; MANAGERS * ROUNDS]);
    assert_eq!(runs.load(Ordering::Relaxed), MANAGERS * ROUNDS);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn write_with_stale_version_conflicts() {
    let (server, _) = counting().await;
    let existing = server.get(&format!("{CONFIG_MAPS}/a")).await.body;
    let codes = by_all(&server, move |server, manager, round| {
        let mut object = existing.clone();
        object["data"]["k"] = json!(format!("{manager}.{round}"));
        async move { server.put(&format!("{CONFIG_MAPS}/a"), &object.to_string()).await }
    });
    let codes = codes.await;
    let count = |wanted| codes.iter().filter(|code| **code == wanted).count();
    assert_eq!((count(200), count(409)), (1, MANAGERS * ROUNDS - 1));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn creations_are_not_disturbed_by_writes_to_their_namespace() {
    let (server, runs) = counting().await;
    let codes = by_all(&server, |server, manager, round| async move {
        if manager % 4 == 0 {
            let label = json!({"metadata": {"labels": {"l": format!("{manager}.{round}")}}});
            return server
                .patch("/api/v1/namespaces/default", MERGE, &label.to_string())
                .await;
        }
        server
            .post(CONFIG_MAPS, &config_map(&format!("m{manager}.{round}"), "1"))
            .await
    });
    let codes = codes.await;
    assert!(codes.iter().all(|code| matches!(code, 200 | 201)), "{codes:?}");
    assert_eq!(runs.load(Ordering::Relaxed), MANAGERS / 4 * 3 * ROUNDS);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn evictions_that_share_a_budget_never_conflict() {
    const PODS: &str = "/api/v1/namespaces/default/pods";
    const BUDGETS: &str = "/apis/policy/v1/namespaces/default/poddisruptionbudgets";
    let server = Arc::new(Server::start().await);
    for at in 0..MANAGERS {
        let pod = json!({
            "metadata": {"name": format!("p{at}"), "labels": {"app": "x"}},
            "spec": {"nodeName": "one", "containers": [{"name": "c", "image": "i"}]},
        });
        assert_eq!(server.post(PODS, &pod.to_string()).await.code, 201);
        let status = json!({"status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}});
        let path = format!("{PODS}/p{at}/status");
        assert_eq!(server.patch(&path, MERGE, &status.to_string()).await.code, 200);
    }
    let budget =
        json!({"metadata": {"name": "b"}, "spec": {"minAvailable": 1, "selector": {"matchLabels": {"app": "x"}}}});
    assert_eq!(server.post(BUDGETS, &budget.to_string()).await.code, 201);
    let status = json!({"status": {
        "observedGeneration": 1, "disruptionsAllowed": MANAGERS - 1, "currentHealthy": MANAGERS, "desiredHealthy": 1,
        "expectedPods": MANAGERS,
    }});
    let path = format!("{BUDGETS}/b/status");
    assert_eq!(server.patch(&path, MERGE, &status.to_string()).await.code, 200);
    let evictions = (0..MANAGERS).map(|at| {
        let server = Arc::clone(&server);
        tokio::spawn(async move {
            let eviction = json!({
                "apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": format!("p{at}")},
                "deleteOptions": {"gracePeriodSeconds": 0},
            });
            server
                .post(&format!("{PODS}/p{at}/eviction"), &eviction.to_string())
                .await
                .code
        })
    });
    let mut codes: Vec<u16> = join_all(evictions).await.into_iter().map(Result::unwrap).collect();
    codes.sort_unstable();
    assert_eq!(codes, [vec![201; MANAGERS - 1], vec![429]].concat());
    assert_eq!(
        server
            .get(&format!("{BUDGETS}/b"))
            .await
            .at("/status/disruptionsAllowed"),
        0
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_webhook_may_write_to_the_object_that_it_reviews() {
    let server = Arc::new(Server::start().await);
    assert_eq!(server.post(CONFIG_MAPS, &config_map("a", "1")).await.code, 201);
    let (within, called) = (Arc::new(OnceLock::<Arc<Server>>::new()), AtomicBool::new(false));
    let writer = Arc::clone(&within);
    let hook = Hook::start(move |_| {
        if !called.swap(true, Ordering::Relaxed) {
            let server = writer.get().unwrap();
            let path = format!("{CONFIG_MAPS}/a");
            let write = server.patch(&path, MERGE, r#"{"data":{"by":"webhook"}}"#);
            let answer = tokio::task::block_in_place(|| Handle::current().block_on(write));
            assert_eq!(answer.code, 200, "{}", answer.body);
        }
        hook::allow()
    })
    .await;
    within.set(Arc::clone(&server)).ok().unwrap();
    let webhook = hook.webhook("h.example.com", &["UPDATE"], "/v1/configmaps", json!({}));
    server.configure("mutating", "h", &[webhook]).await;
    let path = format!("{CONFIG_MAPS}/a");
    let outer = server.patch(&path, MERGE, r#"{"data":{"by-client":"1"}}"#).await;
    assert_eq!(outer.code, 200, "{}", outer.body);
    assert_eq!(outer.at("/data"), &json!({"k": "1", "by": "webhook", "by-client": "1"}));
    // Three writes: the client's, the webhook's own, and the client's again after the conflict.
    assert_eq!(hook.calls().len(), 3);
}
