//! The page at `/ui` in Chromium, used as a person uses it. Each test starts a server and runs one flow of
//! `tests/clients/ui/flows.mjs`. If `HOLDFAST_PICTURES` names a folder, the flows store the pictures of `docs` there.

use std::path::Path;
use std::process::Command;

use conformance::{ADMIN_TOKEN, Binary, Server, USER_TOKEN, clients};
use test_support::needs;

/// Name of the folder of the flows, and of their installation.
const NAME: &str = "ui";

/// Runs a flow against a new server with these flags.
fn run_flow(flow: &str, flags: &[&str]) {
    let folder = clients::installed(NAME, "package.json", |sources, folder| {
        std::fs::copy(sources.join("package.json"), folder.join("package.json")).unwrap();
        let mut packages = Command::new("npm");
        packages
            .args([
                "install",
                "--no-audit",
                "--no-fund",
                "--ignore-scripts",
                "--no-package-lock",
            ])
            .current_dir(folder);
        vec![packages]
    })
    .unwrap();
    let server = Server::start(&Binary::debug().unwrap(), flags).unwrap();
    let scripts = tempfile::tempdir_in(&folder).unwrap();
    // The scripts resolve their packages in the folder around theirs.
    for script in ["browser.mjs", "flows.mjs"] {
        std::fs::copy(clients::sources(NAME).join(script), scripts.path().join(script)).unwrap();
    }
    let output = Command::new("node")
        .arg("flows.mjs")
        .arg(flow)
        .current_dir(scripts.path())
        .env("HOLDFAST_URL", format!("https://{}", server.address))
        .env("HOLDFAST_TOKEN", ADMIN_TOKEN)
        .env("HOLDFAST_USER_TOKEN", USER_TOKEN)
        .env("HOLDFAST_BINARY", server.binary().path())
        .env("HOLDFAST_KUBECONFIG", server.kubeconfig())
        // The requests that prepare the server accept its own certificate, as the browser does.
        .env("NODE_TLS_REJECT_UNAUTHORIZED", "0")
        .output()
        .unwrap();
    if !output.status.success() {
        let picture = scripts.path().join("failed.png");
        keep(&picture, &folder.join(format!("{flow}.png")));
    }
    assert!(
        output.status.success(),
        "{flow}: {}{}\n{}",
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr),
        server.log_tail()
    );
}

/// Keeps the picture of a flow that failed, if there is one.
fn keep(picture: &Path, target: &Path) {
    if std::fs::copy(picture, target).is_ok() {
        println!("{}", target.display());
    }
}

#[needs(clients, chromium)]
#[test]
fn page_logs_in_by_token_and_keeps_none() {
    run_flow("login", &[]);
}

#[needs(clients, chromium)]
#[test]
fn page_lists_objects_live_by_keyboard() {
    run_flow("objects", &[]);
}

#[needs(clients, chromium)]
#[test]
fn page_shows_owners_of_fields() {
    run_flow("owners", &[]);
}

#[needs(clients, chromium)]
#[test]
fn page_previews_applies_and_decides_conflicts() {
    run_flow("previews", &[]);
}

#[needs(clients, chromium)]
#[test]
fn page_changes_ownership_of_fields() {
    run_flow("ownership", &[]);
}

#[needs(clients, chromium)]
#[test]
fn page_shows_managers_relatives_and_permissions() {
    run_flow("surroundings", &[]);
}

#[needs(clients, chromium)]
#[test]
fn page_is_usable_with_many_objects() {
    run_flow("many", &[]);
}

#[needs(clients, chromium)]
#[test]
fn page_shows_what_few_rights_allow() {
    run_flow("restricted", &[]);
}

#[needs(clients, chromium)]
#[test]
fn page_shows_hostile_names_as_text() {
    run_flow("hostile", &[]);
}

#[needs(clients, chromium)]
#[test]
fn page_link_of_command_logs_in_once() {
    run_flow("session", &[]);
}
