use test_support::Layers;

/// Top-level modules in order, lowest first.
const LAYERS: [&str; 20] = [
    "clock",
    "key",
    "packed",
    "entry",
    "codec",
    "transform",
    "history",
    "error",
    "restore",
    "state",
    "transaction",
    "completion",
    "config",
    "engine",
    "watch",
    "versions",
    "store",
    "embedded",
    "etcd",
    "tests",
];

#[test]
fn module_imports_only_modules_before_it() {
    Layers::new(env!("CARGO_MANIFEST_DIR"), &LAYERS).check();
}
