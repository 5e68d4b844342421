//! The projects in `examples` that are scripts. Those in Rust are packages with tests of their own.

use std::fs;
use std::path::Path;
use std::process::Command;

use conformance::tool::{printed, script};
use conformance::{Binary, root};
use test_support::{free_address, needs};

/// Runs the script of an example against a temporary server, and returns its output.
fn run(example: &str) -> String {
    let binary = Binary::debug().unwrap();
    let folder = tempfile::tempdir().unwrap();
    script(
        folder.path(),
        "holdfast",
        &format!("exec {} \"$@\"\n", binary.path().display()),
    );
    let path = format!("{}:{}", folder.path().display(), std::env::var("PATH").unwrap());
    let demo = root().join("examples").join(example).join("demo.sh");
    let mut command = binary.command();
    command
        .arg("run")
        .arg(format!("--secure-port={}", free_address().unwrap().port()))
        .args(["--", "sh"])
        .arg(demo)
        .env("PATH", path)
        .current_dir(folder.path());
    printed(&mut command, "")
}

#[needs(kubectl)]
#[test]
fn two_appliers_share_objects_and_conflict() {
    let output = run("gitops");
    assert!(output.contains(r#"conflict with "platform": .data.theme"#), "{output}");
    assert!(output.ends_with("done\n"), "{output}");
}

#[needs(kubectl)]
#[test]
fn platform_api_serves_a_team_within_its_rights() {
    let output = run("platform-api");
    for line in [
        "a database never shrinks",
        "exceeded quota: databases",
        "database.platform.example.com \"orders\" deleted",
    ] {
        assert!(output.contains(line), "{line}: {output}");
    }
    assert!(output.ends_with("done\n"), "{output}");
}

#[test]
fn each_example_is_described() {
    let list = fs::read_to_string(root().join("examples/README.md")).unwrap();
    for entry in fs::read_dir(root().join("examples")).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            let name = path.file_name().unwrap().to_string_lossy();
            assert!(list.contains(&format!("[{name}]({name}/")), "{name}");
        }
    }
    for link in conformance::book::links(&list) {
        assert!(Path::new(&root()).join("examples").join(&link).exists(), "{link}");
    }
}

/// The page shows text of users, so it must never interpret it as HTML.
#[test]
fn page_of_the_platform_api_writes_text_only() {
    let page = fs::read_to_string(root().join("examples/platform-api/ui.html")).unwrap();
    for dangerous in [
        "innerHTML",
        "outerHTML",
        "insertAdjacentHTML",
        "document.write",
        "eval(",
    ] {
        assert!(!page.contains(dangerous), "{dangerous}");
    }
    assert!(page.lines().count() <= 100);
}

/// Parses the scripts of packages and examples.
#[test]
fn scripts_have_no_syntax_errors() {
    for name in [
        "packaging/check.sh",
        "examples/gitops/demo.sh",
        "examples/platform-api/demo.sh",
        "examples/platform-api/controller.sh",
    ] {
        let output = Command::new("bash").arg("-n").arg(root().join(name)).output().unwrap();
        assert!(output.status.success(), "{name}: {output:?}");
    }
}
