use test_support::Layers;

/// Top-level modules in order, lowest first.
const LAYERS: [&str; 36] = [
    "limits",
    "escaping",
    "declaration",
    "regexp",
    "netip",
    "extension",
    "types",
    "error",
    "regex_cache",
    "environment",
    "time",
    "budget",
    "value",
    "activation",
    "functions",
    "syntax",
    "checked",
    "operators",
    "lexer",
    "source",
    "recovery",
    "parser",
    "selection",
    "inference",
    "operate",
    "library",
    "validators",
    "checker",
    "node",
    "cost",
    "evaluate",
    "program",
    "compile",
    "composition",
    "plain",
    "tests",
];

#[test]
fn module_imports_only_modules_before_it() {
    Layers::new(env!("CARGO_MANIFEST_DIR"), &LAYERS).check();
}
