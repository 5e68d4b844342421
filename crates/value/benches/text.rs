//! Benchmark of reading and printing a Deployment, compared with `serde_json`.

#![allow(missing_docs)]

use std::hint::black_box;

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use holdfast_value::{Limits, Value, json, yaml};

/// A Deployment as an API server returns it, with managed fields: some 6 KB.
const DEPLOYMENT: &[u8] = include_bytes!("deployment.json");

fn reading(criterion: &mut Criterion) {
    let limits = Limits::default();
    let value = json::parse(DEPLOYMENT, &limits).unwrap_or_default();
    let sorted = json::to_vec(&value);
    let yaml_text = yaml::to_string(&value);
    let mut group = criterion.benchmark_group("read");
    group.throughput(Throughput::Bytes(DEPLOYMENT.len() as u64));
    group.bench_function("json", |bench| {
        bench.iter(|| json::parse(black_box(DEPLOYMENT), &limits))
    });
    group.bench_function("json with findings", |bench| {
        bench.iter(|| json::parse_with_findings(black_box(DEPLOYMENT), &limits));
    });
    group.bench_function("json with sorted keys", |bench| {
        bench.iter(|| json::parse(black_box(&sorted), &limits))
    });
    group.bench_function("json as yaml", |bench| {
        bench.iter(|| yaml::parse(black_box(DEPLOYMENT), &limits))
    });
    group.bench_function("yaml", |bench| {
        bench.iter(|| yaml::parse(black_box(yaml_text.as_bytes()), &limits))
    });
    group.bench_function("json, serde_json::Value", |bench| {
        bench.iter(|| serde_json::from_slice::<serde_json::Value>(black_box(DEPLOYMENT)));
    });
    group.bench_function("json, this Value by serde_json", |bench| {
        bench.iter(|| serde_json::from_slice::<Value>(black_box(DEPLOYMENT)));
    });
    group.finish();
}

fn printing(criterion: &mut Criterion) {
    let value = json::parse(DEPLOYMENT, &Limits::default()).unwrap_or_default();
    let foreign: serde_json::Value = serde_json::from_slice(DEPLOYMENT).unwrap_or_default();
    let mut group = criterion.benchmark_group("print");
    group.throughput(Throughput::Bytes(DEPLOYMENT.len() as u64));
    let mut out = Vec::with_capacity(64 << 10);
    group.bench_function("json", |bench| {
        bench.iter(|| {
            out.clear();
            json::write(black_box(&value), &mut out);
        });
    });
    group.bench_function("yaml", |bench| {
        bench.iter(|| {
            out.clear();
            yaml::write(black_box(&value), &mut out);
        });
    });
    group.bench_function("json, serde_json::Value", |bench| {
        bench.iter(|| {
            out.clear();
            serde_json::to_writer(&mut out, black_box(&foreign))
        });
    });
    group.bench_function("clone", |bench| bench.iter(|| black_box(&value).clone()));
    group.finish();
}

criterion_group!(benches, reading, printing);
criterion_main!(benches);
