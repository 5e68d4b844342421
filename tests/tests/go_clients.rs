//! client-go and controller-runtime against the real binary, in the place of envtest's: the module in `tests/clients/go`.

#![allow(clippy::unwrap_used, reason = "what fails here is the test")]

use std::process::Command;

use conformance::{Binary, root};
use test_support::needs;

#[needs(clients, go)]
#[test]
fn client_go_and_controller_runtime_work_in_an_environment() {
    let folder = tempfile::tempdir().unwrap();
    let made = Binary::debug()
        .unwrap()
        .command()
        .args(["envtest", "--dir"])
        .arg(folder.path())
        .output()
        .unwrap();
    assert!(made.status.success(), "{made:?}");
    let tests = Command::new("go")
        .args(["test", "-count=1", "./..."])
        .current_dir(root().join("tests/clients/go"))
        .env("KUBEBUILDER_ASSETS", folder.path())
        .env_remove("HOLDFAST_CONTROLLERS")
        .output()
        .unwrap();
    assert!(
        tests.status.success(),
        "{}{}",
        String::from_utf8_lossy(&tests.stdout),
        String::from_utf8_lossy(&tests.stderr)
    );
}
