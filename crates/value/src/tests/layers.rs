use test_support::Layers;

/// Top-level modules in order, lowest first.
const LAYERS: [&str; 19] = [
    "error",
    "limits",
    "tree",
    "compare",
    "number",
    "finding",
    "growth",
    "members",
    "names",
    "json",
    "pointer",
    "serde",
    "seen",
    "cbor",
    "json_patch",
    "merge_patch",
    "text",
    "yaml",
    "tests",
];

#[test]
fn module_imports_only_modules_before_it() {
    Layers::new(env!("CARGO_MANIFEST_DIR"), &LAYERS).check();
}
