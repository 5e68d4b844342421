//! Benchmark of converting a Deployment of some 6 KB to its form in etcd and back.

#![allow(missing_docs)]
#![allow(clippy::unwrap_used)] // Without its table there is nothing to measure.

use std::hint::black_box;
use std::sync::Arc;

use criterion::{Criterion, criterion_group, criterion_main};
use holdfast_at_rest::{OlderKind, StorageCodec};
use holdfast_kinds::Config;
use holdfast_store::Value;

const DEPLOYMENT: &[u8] = include_bytes!("../../value/benches/deployment.json");
const KEY: &[u8] = b"/registry/deployments/default/web";
const CUSTOM: &[u8] = b"/registry/example.com/widgets/default/web";

fn keeping(criterion: &mut Criterion) {
    let older = holdfast_kind_tables::older_kinds().map(|(api_version, kind, like)| OlderKind {
        api_version,
        kind,
        like,
    });
    let types = Arc::new(holdfast_kind_tables::types_at_rest(&Config::default().apis).unwrap());
    let codec = StorageCodec::new(holdfast_kinds::registry(&Config::default()).unwrap(), types, older);
    let stored = codec.to_rest(KEY, &Value::plain(DEPLOYMENT), None).unwrap();
    let served = codec.from_rest(KEY, &stored).unwrap();
    let custom = codec.from_rest(CUSTOM, DEPLOYMENT).unwrap();
    let custom_stored = codec.to_rest(CUSTOM, &custom, None).unwrap();
    let mut group = criterion.benchmark_group("deployment");
    group.bench_function("to etcd", |bench| {
        bench.iter(|| codec.to_rest(KEY, black_box(&served), None))
    });
    group.bench_function("from etcd", |bench| {
        bench.iter(|| codec.from_rest(KEY, black_box(&stored)))
    });
    group.bench_function("to etcd as a custom object", |bench| {
        bench.iter(|| codec.to_rest(CUSTOM, black_box(&custom), None));
    });
    group.bench_function("from etcd as a custom object", |bench| {
        bench.iter(|| codec.from_rest(CUSTOM, black_box(&custom_stored)));
    });
    group.finish();
}

criterion_group!(benches, keeping);
criterion_main!(benches);
