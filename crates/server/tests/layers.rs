//! The layers of the folders in `src`: a folder imports only itself and folders before it.

use test_support::Layers;

/// The folders in order, lowest first. `lib.rs` describes them.
const LAYERS: [&str; 15] = [
    "runtime",
    "wire",
    "http",
    "objects",
    "identity",
    "metrics",
    "webhooks",
    "authentication",
    "authorization",
    "nodes",
    "representation",
    "read",
    "write",
    "api",
    "operations",
];

/// The exported macros, which are at the root of the crate regardless of the file that defines them.
const MACROS: [(&str, &str); 1] = [("verify_signatures", "wire")];

#[test]
fn folder_imports_only_folders_before_it() {
    Layers::new(env!("CARGO_MANIFEST_DIR"), &LAYERS).macros(&MACROS).check();
}
