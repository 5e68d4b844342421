//! Cost of types: reading the built-in table, and bringing a Deployment of some 1 KB into the form of its type.

use std::hint::black_box;

use criterion::{Criterion, criterion_group, criterion_main};
use holdfast_schema::types::{TypeTable, decode, merge_schema, with_defaults};
use holdfast_table_source::{Source, type_lines};
use holdfast_value::{Growth, Limits, json};

const TABLE: &str = include_str!("../../kind-tables/tables/types.toml");

const DEPLOYMENT: &str = r#"{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"name":"web","namespace":"default",
"labels":{"app.kubernetes.io/name":"web","app.kubernetes.io/part-of":"shop","tier":"front"},"annotations":{"owner":
"team-a@example.com"}},"spec":{"replicas":3,"revisionHistoryLimit":5,"minReadySeconds":5,"selector":{"matchLabels":{
"app.kubernetes.io/name":"web"}},"template":{"metadata":{"labels":{"app.kubernetes.io/name":"web","tier":"front"}},"spec":{
"containers":[{"name":"main","image":"registry.example.com/shop/web:1.14.2","ports":[{"name":"http","containerPort":8080}],
"env":[{"name":"MODE","value":"production"},{"name":"POD","valueFrom":{"fieldRef":{"fieldPath":"metadata.name"}}}],
"resources":{"requests":{"cpu":"250m","memory":"64Mi"},"limits":{"cpu":"1","memory":"128Mi"}},"readinessProbe":{"httpGet":{
"path":"/ready","port":"http"},"periodSeconds":5},"volumeMounts":[{"name":"cache","mountPath":"/cache"}]},{"name":"proxy",
"image":"registry.example.com/shop/proxy:2.3","args":["--listen","0.0.0.0:9090"],"ports":[{"containerPort":9090}]}],
"volumes":[{"name":"cache","emptyDir":{}}]}}}}"#;

fn schema(criterion: &mut Criterion) {
    let Ok(lines) = type_lines(&Source::new("types.toml", TABLE)) else {
        return;
    };
    criterion.bench_function("read the table of types", |bench| {
        bench.iter(|| TypeTable::parse(black_box(&lines)));
    });
    let Ok(table) = TypeTable::parse(&lines) else {
        return;
    };
    criterion.bench_function("make the merge schema", |bench| {
        bench.iter(|| merge_schema(black_box(&table)))
    });

    let Some(of) = table.id("io.k8s.api.apps.v1.Deployment") else {
        return;
    };
    let Ok(sent) = json::parse(DEPLOYMENT.as_bytes(), &Limits::REQUEST) else {
        return;
    };
    criterion.bench_function("decode a Deployment", |bench| {
        bench.iter(|| decode(&table, of, black_box(&sent)))
    });
    let Ok(decoded) = decode(&table, of, &sent) else { return };
    criterion.bench_function("decode a Deployment that has its form", |bench| {
        bench.iter(|| decode(&table, of, black_box(&decoded.value)));
    });
    criterion.bench_function("fill in the defaults of a Deployment", |bench| {
        bench.iter(|| with_defaults(&table, of, black_box(&decoded.value), &mut Growth::default()));
    });
}

criterion_group!(benches, schema);
criterion_main!(benches);
