//! Benchmark of the ownership part of an apply, from a parsed object to a new one: entries are read, the configuration
//! is merged, entries are written. The object is a Deployment with two containers as a server stores it, with two
//! managers in addition to the applier.

#![allow(missing_docs)] // What the macros of the harness define has none.

use std::hint::black_box;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use criterion::{Criterion, criterion_group, criterion_main};
use holdfast_merge::{FieldSpec, ListSpec, MapSpec, Reference, Scalar, Schema, SchemaBuilder};
use holdfast_ownership::{FieldManager, OneVersion, blame};
use holdfast_value::{Limits, Value, json};

criterion_group!(benches, deployment);
criterion_main!(benches);

fn deployment(criterion: &mut Criterion) {
    let schema = Arc::new(schema());
    let Some(merge_type) = schema.named("Deployment") else {
        return;
    };
    let versions = Arc::new(OneVersion::new("apps/v1", schema, merge_type));
    let manager = FieldManager::builder("apps/v1", "Deployment", versions).build();
    let at = |seconds: u64| SystemTime::UNIX_EPOCH + Duration::from_secs(1_700_000_000 + seconds);

    let config = object(&configuration("nginx:1.14.2"));
    let changed = object(&configuration("nginx:1.25"));
    let created = manager.update(None, object(&existing()), "creator", at(0));
    let Ok(applied) = manager.apply(Some(&created), &config, "alpha", true, at(1)) else {
        return;
    };
    let other =
        object(r#"{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"name":"web","labels":{"team":"a"}}}"#);
    let Ok(existing) = manager.apply(Some(&applied.object), &other, "bravo", false, at(2)) else {
        return;
    };
    let existing = existing.object;
    let scaled = {
        let mut scaled = existing.clone();
        scaled.set_at(&["spec", "replicas"], 7.into());
        scaled
    };

    let mut group = criterion.benchmark_group("deployment");
    group.bench_function("apply unchanged", |bench| {
        bench.iter(|| {
            manager
                .apply(Some(black_box(&existing)), &config, "alpha", false, at(3))
                .is_ok()
        });
    });
    group.bench_function("apply one change", |bench| {
        bench.iter(|| {
            manager
                .apply(Some(black_box(&existing)), &changed, "alpha", false, at(3))
                .is_ok()
        });
    });
    group.bench_function("create by apply", |bench| {
        bench.iter(|| manager.apply(None, black_box(&config), "alpha", false, at(3)).is_ok());
    });
    group.bench_function("update one change", |bench| {
        bench.iter(|| manager.update(Some(black_box(&existing)), scaled.clone(), "tool", at(3)));
    });
    group.bench_function("blame", |bench| bench.iter(|| blame(black_box(&existing)).len()));
    group.finish();
}

fn object(text: &str) -> Value {
    json::parse(text.as_bytes(), &Limits::default()).unwrap_or_default()
}

fn configuration(image: &str) -> String {
    format!(
        r#"{{"apiVersion":"apps/v1","kind":"Deployment","metadata":{{"name":"web","namespace":"default",
        "labels":{{"app":"web","tier":"front"}},"annotations":{{"example.com/note":"one"}}}},"spec":{{"replicas":3,
        "selector":{{"matchLabels":{{"app":"web"}}}},"template":{{"metadata":{{"labels":{{"app":"web","tier":"front"}}}},
        "spec":{{"containers":[{{"name":"main","image":"{image}","args":["--verbose","--port=80"],
        "env":[{{"name":"A","value":"1"}},{{"name":"B","value":"2"}}],"ports":[{{"containerPort":80,"name":"http"}}],
        "resources":{{"limits":{{"cpu":"1","memory":"1Gi"}},"requests":{{"cpu":"100m","memory":"128Mi"}}}}}},
        {{"name":"sidecar","image":"envoy:1.30","env":[{{"name":"C","value":"3"}}],
        "ports":[{{"containerPort":9901,"name":"admin","protocol":"TCP"}}]}}]}}}}}}}}"#
    )
}

/// Returns the same object with all fields that a server fills in.
fn existing() -> String {
    let container = r#""terminationMessagePath":"/dev/termination-log","terminationMessagePolicy":"File","imagePullPolicy":"IfNotPresent""#;
    let text = configuration("nginx:1.14.2").replace(r#""image":"#, &format!("{container},\"image\":")).replace(
        r#""spec":{"containers""#,
        r#""spec":{"restartPolicy":"Always","terminationGracePeriodSeconds":30,"dnsPolicy":"ClusterFirst",
        "securityContext":{},"schedulerName":"default-scheduler","containers""#,
    ).replace(
        r#""spec":{"replicas":3"#,
        r#""spec":{"replicas":3,"strategy":{"type":"RollingUpdate","rollingUpdate":{"maxUnavailable":"25%","maxSurge":"25%"}},
        "revisionHistoryLimit":10,"progressDeadlineSeconds":600"#,
    );
    text.replace(
        r#""metadata":{"name""#,
        r#""status":{},"metadata":{"uid":"9e1b5a42-1b50-4ac9-8d3f-1a2b3c4d5e6f","resourceVersion":"12","generation":1,
        "creationTimestamp":"2026-01-01T00:00:00Z","name""#,
    )
}

fn schema() -> Schema {
    let text = || MapSpec::new(Scalar::String);
    let strings = |names: &[&'static str]| -> Vec<FieldSpec> {
        names.iter().map(|name| FieldSpec::new(*name, Scalar::String)).collect()
    };
    let with = |mut fields: Vec<FieldSpec>, more: Vec<FieldSpec>| {
        fields.extend(more);
        MapSpec::from_fields(fields)
    };
    SchemaBuilder::new()
        .define(
            "Metadata",
            with(
                strings(&["name", "namespace", "uid", "resourceVersion", "creationTimestamp"]),
                vec![
                    FieldSpec::new("generation", Scalar::Numeric),
                    FieldSpec::new("labels", text()),
                    FieldSpec::new("annotations", text()),
                    FieldSpec::new("finalizers", ListSpec::set(Scalar::String)),
                ],
            ),
        )
        .define("Env", MapSpec::from_fields(strings(&["name", "value"])))
        .define(
            "Port",
            MapSpec::from_fields([
                FieldSpec::new("name", Scalar::String),
                FieldSpec::new("containerPort", Scalar::Numeric),
                FieldSpec::new("protocol", Scalar::String).with_default("TCP"),
            ]),
        )
        .define(
            "Container",
            with(
                strings(&[
                    "name",
                    "image",
                    "imagePullPolicy",
                    "terminationMessagePath",
                    "terminationMessagePolicy",
                ]),
                vec![
                    FieldSpec::new("args", ListSpec::atomic(Scalar::String)),
                    FieldSpec::new("env", ListSpec::keyed(Reference::named("Env"), ["name"])),
                    FieldSpec::new(
                        "ports",
                        ListSpec::keyed(Reference::named("Port"), ["containerPort", "protocol"]),
                    ),
                    FieldSpec::new(
                        "resources",
                        MapSpec::from_fields([FieldSpec::new("limits", text()), FieldSpec::new("requests", text())]),
                    ),
                ],
            ),
        )
        .define(
            "PodSpec",
            with(
                strings(&["restartPolicy", "dnsPolicy", "schedulerName"]),
                vec![
                    FieldSpec::new("terminationGracePeriodSeconds", Scalar::Numeric),
                    FieldSpec::new("securityContext", text()),
                    FieldSpec::new("containers", ListSpec::keyed(Reference::named("Container"), ["name"])),
                ],
            ),
        )
        .define(
            "Template",
            MapSpec::from_fields([
                FieldSpec::new("metadata", Reference::named("Metadata")),
                FieldSpec::new("spec", Reference::named("PodSpec")),
            ]),
        )
        .define(
            "Spec",
            MapSpec::from_fields([
                FieldSpec::new("replicas", Scalar::Numeric),
                FieldSpec::new("revisionHistoryLimit", Scalar::Numeric),
                FieldSpec::new("progressDeadlineSeconds", Scalar::Numeric),
                FieldSpec::new(
                    "selector",
                    MapSpec::from_fields([FieldSpec::new("matchLabels", text())]).atomic(),
                ),
                FieldSpec::new(
                    "strategy",
                    MapSpec::from_fields([
                        FieldSpec::new("type", Scalar::String),
                        FieldSpec::new("rollingUpdate", MapSpec::new(Scalar::Untyped)),
                    ]),
                ),
                FieldSpec::new("template", Reference::named("Template")),
            ]),
        )
        .define(
            "Deployment",
            with(
                strings(&["apiVersion", "kind"]),
                vec![
                    FieldSpec::new("metadata", Reference::named("Metadata")),
                    FieldSpec::new("spec", Reference::named("Spec")),
                    FieldSpec::new("status", text()),
                ],
            ),
        )
        .build()
}
