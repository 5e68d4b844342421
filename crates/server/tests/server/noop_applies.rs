//! Repeated applies that changed nothing before: they are answered without a run until something changes that the run
//! would read.

use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::support::{APPLY, Answer, CONFIG_MAPS, MERGE, Server};
use holdfast_admission::{AdmissionPlugin, Interest};
use holdfast_resource::{Rejection, WriteContext};
use holdfast_schema::GroupResource;
use holdfast_value::Value;
use serde_json::json;

/// A step that reads something.
type ReadStep = fn(&WriteContext<'_>);

/// An admission plugin that counts the runs of writes to ConfigMaps, and reads something in each.
struct Runs(Arc<AtomicUsize>, ReadStep);

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
            self.1(context);
        }
        Ok(())
    }
}

fn secrets() -> GroupResource {
    GroupResource {
        group: "".into(),
        resource: "secrets".into(),
    }
}

fn look_up_secret(context: &WriteContext<'_>) {
    context.lookup.get(&secrets(), "default", "s");
}

struct Applies {
    server: Server,
    runs: Arc<AtomicUsize>,
}

impl Applies {
    async fn start() -> Self {
        Self::reading(look_up_secret).await
    }

    /// Starts a server whose plugin runs this step in each run.
    async fn reading(step: ReadStep) -> Self {
        let runs = Arc::new(AtomicUsize::new(0));
        let server = Server::start_with_plugin(Runs(Arc::clone(&runs), step)).await;
        runs.store(0, Ordering::Relaxed);
        Self { server, runs }
    }

    /// Returns the answer to an apply of this data, and the number of runs that it needed.
    async fn apply(&self, query: &str, data: &str) -> (Answer, usize) {
        let path = format!("{CONFIG_MAPS}/a?fieldManager=m{query}");
        let (answer, runs) = (self.server.patch(&path, APPLY, &configuration(data)).await, &self.runs);
        (answer, runs.swap(0, Ordering::Relaxed))
    }
}

fn configuration(data: &str) -> String {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}, "data": {"k": data}}).to_string()
}

#[tokio::test]
async fn noop_apply_needs_no_run_until_something_changes() {
    let applies = Applies::start().await;
    let (created, _) = applies.apply("", "1").await;
    assert_eq!(created.code, 201);
    let (second, runs) = applies.apply("", "1").await;
    assert_eq!((second.code, runs), (200, 1));
    let (third, runs) = applies.apply("", "1").await;
    assert_eq!((third.code, runs), (200, 0), "it is known to change nothing");
    assert_eq!(second.body, third.body);
    assert_eq!(created.version(), third.version());
    assert_eq!(
        created.at("/metadata/managedFields"),
        third.at("/metadata/managedFields")
    );

    for (what, query, data) in [
        ("another text", "", "2"),
        ("it changes something again", "", "1"),
        ("forced", "&force=true", "1"),
        ("a dry run", "&dryRun=All", "1"),
        ("strict", "&fieldValidation=Strict", "1"),
    ] {
        assert_eq!(applies.apply(query, data).await.1, 1, "{what}");
    }
    applies.apply("", "1").await;
    assert_eq!(applies.apply("", "1").await.1, 0);
    let path = format!("{CONFIG_MAPS}/a");
    let (as_manager, text) = (format!("{path}?fieldManager=m"), configuration("1"));
    let other = applies.server.send_as("other", "PATCH", &as_manager, APPLY, &text);
    assert_eq!(other.await.code, 403, "another user is authorized on their own");

    applies.server.patch(&path, MERGE, r#"{"data":{"k":"theirs"}}"#).await;
    applies.runs.store(0, Ordering::Relaxed);
    let (conflict, runs) = applies.apply("", "1").await;
    assert_eq!((conflict.code, runs), (409, 0), "who owns what comes before admission");
    let (taken, runs) = applies.apply("&force=true", "1").await;
    assert_eq!((taken.code, runs), (200, 1));
    assert_eq!(taken.at("/data/k"), "1");
}

#[tokio::test]
async fn apply_runs_again_after_change_of_object_that_it_read() {
    let applies = Applies::start().await;
    let secret = |text: &str| json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s"}, "stringData": {"k": text}});
    let secrets = "/api/v1/namespaces/default/secrets";
    for change in ["nothing", "creation", "update", "deletion"] {
        match change {
            "creation" => assert_eq!(applies.server.post(secrets, &secret("1").to_string()).await.code, 201),
            "update" => {
                let path = format!("{secrets}/s");
                assert_eq!(applies.server.put(&path, &secret("2").to_string()).await.code, 200);
            }
            "deletion" => assert_eq!(applies.server.delete(&format!("{secrets}/s")).await.code, 200),
            _ => drop(applies.apply("", "1").await),
        }
        assert_eq!(applies.apply("", "1").await.1, 1, "after the {change}");
        assert_eq!(applies.apply("", "1").await.1, 0, "after the {change}");
    }
}

#[tokio::test]
async fn apply_that_reads_state_without_revision_runs_each_time() {
    let steps: [(&str, ReadStep); 4] = [
        ("time", |context| {
            context.now();
        }),
        ("list", |context| {
            let mut visit = |_: &Value| ControlFlow::Continue(());
            context.lookup.list(&secrets(), "default", &mut visit);
        }),
        ("permissions", |context| {
            drop(context.access.authorizer.rules(context.user, "default"));
        }),
        ("tokens", |context| {
            drop(context.access.tokens.authenticate("t", &[]));
        }),
    ];
    for (read, step) in steps {
        let applies = Applies::reading(step).await;
        for turn in 0..3 {
            assert_eq!(applies.apply("", "1").await.1, 1, "{read} {turn}");
        }
    }
}

#[tokio::test]
async fn warnings_of_an_apply_are_sent_each_time() {
    let applies = Applies::start().await;
    let path = format!("{CONFIG_MAPS}/a?fieldManager=m");
    let text = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\ndata: {k: '1', k: '2'}\n";
    let mut warnings = Vec::new();
    for _ in 0..3 {
        let answer = applies.server.patch(&path, APPLY, text).await;
        warnings.push(answer.headers.get("warning").cloned());
    }
    assert!(warnings[0].is_some());
    assert!(warnings.iter().all(|warning| *warning == warnings[0]), "{warnings:?}");
    assert_eq!(applies.runs.swap(0, Ordering::Relaxed), 2);
}

#[tokio::test]
async fn webhooks_hear_of_applies_that_changed_nothing_before() {
    let applies = Applies::start().await;
    applies.apply("", "1").await;
    applies.apply("", "1").await;
    assert_eq!(applies.apply("", "1").await.1, 0);
    let webhook = |resource: &str| {
        let rule = json!({"operations": ["UPDATE"], "apiGroups": [""], "apiVersions": ["v1"], "resources": [resource]});
        json!({
            "name": "w.example.com", "rules": [rule], "sideEffects": "None", "admissionReviewVersions": ["v1"],
            "clientConfig": {"url": "https://localhost:1/"},
        })
    };
    applies.server.configure("validating", "w", &[webhook("secrets")]).await;
    assert_eq!(applies.apply("", "1").await.1, 0, "it hears of others");
    applies
        .server
        .configure("validating", "w", &[webhook("configmaps")])
        .await;
    assert_eq!(applies.apply("", "1").await.0.code, 500, "it cannot be called");
    applies.server.unconfigure("validating", "w").await;
    applies.runs.store(0, Ordering::Relaxed);
    assert_eq!(applies.apply("", "1").await.0.code, 200);
}
