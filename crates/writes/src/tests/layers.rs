use test_support::Layers;

/// Top-level modules in order, lowest first.
const LAYERS: [&str; 32] = [
    "identifiers",
    "error",
    "options",
    "metadata",
    "reads",
    "target",
    "field_managers",
    "environment",
    "attributes",
    "call",
    "staged",
    "stage",
    "webhooks",
    "admission",
    "testing",
    "webhook_versions",
    "tracking",
    "answer",
    "stated",
    "typed",
    "change",
    "connect",
    "create",
    "deletion",
    "delete",
    "scale",
    "finish_update",
    "policies",
    "scale_update",
    "update",
    "webhook_answers",
    "tests",
];

#[test]
fn module_imports_only_modules_before_it() {
    Layers::new(env!("CARGO_MANIFEST_DIR"), &LAYERS).check();
}
