use test_support::Layers;

/// Top-level modules in order, lowest first.
const LAYERS: [&str; 12] = [
    "timestamp",
    "entry",
    "managed",
    "blame",
    "cap",
    "error",
    "versions",
    "last_applied",
    "field_manager",
    "manager_name",
    "scale",
    "times",
];

#[test]
fn module_imports_only_modules_before_it() {
    Layers::new(env!("CARGO_MANIFEST_DIR"), &LAYERS).check();
}
