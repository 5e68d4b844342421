//! The order of the modules in `src`: a module imports only itself and modules before it.

use test_support::Layers;

/// The modules in order, lowest first.
const LAYERS: [&str; 14] = [
    "durations",
    "names",
    "nested",
    "same",
    "field_error",
    "go_field",
    "field",
    "parts",
    "metadata",
    "rule_names",
    "types",
    "check",
    "strategic_merge",
    "kind_type",
];

#[test]
fn module_imports_only_modules_before_it() {
    Layers::new(env!("CARGO_MANIFEST_DIR"), &LAYERS).check();
}
