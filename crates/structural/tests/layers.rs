//! The order of the modules in `src`: a module imports only itself and modules before it.

use test_support::Layers;

/// The modules in order, lowest first.
const LAYERS: [&str; 20] = [
    "testing",
    "rule",
    "pattern",
    "formats",
    "node",
    "value_path",
    "correlation",
    "rules",
    "prune",
    "embedded",
    "check_defaults",
    "declare",
    "defaults",
    "duplicates",
    "merge",
    "numbers",
    "result",
    "validate",
    "custom_type",
    "prune_defaults",
];

#[test]
fn module_imports_only_modules_before_it() {
    Layers::new(env!("CARGO_MANIFEST_DIR"), &LAYERS).check();
}
