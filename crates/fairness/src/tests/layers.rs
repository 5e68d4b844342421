use test_support::Layers;

/// Top-level modules in order, lowest first.
const LAYERS: [&str; 14] = [
    "allocation",
    "shuffle",
    "configuration",
    "classify",
    "dropped",
    "work",
    "time",
    "statistics",
    "integrator",
    "queues",
    "level",
    "watches",
    "fairness",
    "tests",
];

#[test]
fn module_imports_only_modules_before_it() {
    Layers::new(env!("CARGO_MANIFEST_DIR"), &LAYERS).check();
}
