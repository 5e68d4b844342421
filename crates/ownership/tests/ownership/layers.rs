use test_support::Layers;

/// Top-level modules in order, lowest first.
const LAYERS: [&str; 19] = [
    "timestamp",
    "entry",
    "managed",
    "lookup",
    "blame",
    "field_owners",
    "field_changes",
    "cap",
    "error",
    "duplicates",
    "versions",
    "conflict_views",
    "last_applied",
    "options",
    "unset",
    "field_manager",
    "manager_name",
    "scale",
    "times",
];

#[test]
fn module_imports_only_modules_before_it() {
    Layers::new(env!("CARGO_MANIFEST_DIR"), &LAYERS).check();
}
