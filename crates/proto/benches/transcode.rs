//! Benchmark of writing and reading a Deployment of some 6 KB in protobuf, compared with JSON.

#![allow(missing_docs)]
#![allow(clippy::unwrap_used)] // Without its table there is nothing to measure.

use std::hint::black_box;
use std::sync::Arc;

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use holdfast_proto::Messages;
use holdfast_schema::types;
use holdfast_value::{Limits, json};

/// A Deployment as an API server returns it, with managed fields: some 6 KB.
const DEPLOYMENT: &[u8] = include_bytes!("../../value/benches/deployment.json");

fn transcoding(criterion: &mut Criterion) {
    let limits = Limits::default();
    let types = Arc::new(holdfast_kind_tables::types().unwrap());
    let deployment = types.id("io.k8s.api.apps.v1.Deployment").unwrap();
    let messages = Messages::new(Arc::clone(&types));
    let read = json::parse(DEPLOYMENT, &limits).unwrap();
    let value = types::decode(&types, deployment, &read).unwrap().value;
    let mut message = Vec::new();
    messages.encode(deployment, &value, &mut message).unwrap();

    let mut group = criterion.benchmark_group("deployment");
    group.throughput(Throughput::Bytes(DEPLOYMENT.len() as u64));
    let mut out = Vec::with_capacity(8192);
    group.bench_function("to protobuf", |bench| {
        bench.iter(|| {
            out.clear();
            messages.encode(deployment, black_box(&value), &mut out)
        });
    });
    group.bench_function("from protobuf", |bench| {
        bench.iter(|| messages.decode(deployment, black_box(&message), &limits));
    });
    group.bench_function("to JSON", |bench| {
        bench.iter(|| {
            out.clear();
            json::write(black_box(&value), &mut out);
        });
    });
    group.bench_function("from JSON into the form of its type", |bench| {
        bench.iter(|| {
            types::decode(
                &types,
                deployment,
                &json::parse(black_box(DEPLOYMENT), &limits).unwrap(),
            )
        });
    });
    group.bench_function("from stored JSON to protobuf", |bench| {
        bench.iter(|| {
            out.clear();
            let value = json::parse(black_box(DEPLOYMENT), &Limits::TRUSTED).unwrap();
            messages.encode(deployment, &value, &mut out)
        });
    });
    group.bench_function("from stored JSON to protobuf by way of a record", |bench| {
        bench.iter(|| {
            out.clear();
            messages.encode_text(deployment, black_box(DEPLOYMENT), &mut out)
        });
    });
    group.finish();
    criterion.bench_function("messages of all built-in types", |bench| {
        bench.iter(|| Messages::new(Arc::clone(&types)));
    });
}

criterion_group!(benches, transcoding);
criterion_main!(benches);
