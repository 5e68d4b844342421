//! The order of the modules in `src`: a module imports only itself and modules before it.

use test_support::Layers;

/// The modules in order, lowest first.
const LAYERS: [&str; 13] = [
    "access",
    "counters",
    "version_order",
    "jsonpath",
    "conversion",
    "quota",
    "selector",
    "table",
    "descriptor",
    "convert",
    "counted",
    "field_selector",
    "registry",
];

#[test]
fn module_imports_only_modules_before_it() {
    Layers::new(env!("CARGO_MANIFEST_DIR"), &LAYERS).check();
}
