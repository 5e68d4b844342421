//! `holdfast apply`: manifests, conflicts and decisions.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use conformance::{Binary, Client, Server};
use http::StatusCode;
use serde_json::json;

const CONFIG_MAP: &str = "/api/v1/namespaces/default/configmaps/one";

fn manifest(name: &str, a: &str, b: &str) -> String {
    format!("apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: {name}}}\ndata: {{a: '{a}', b: '{b}'}}\n")
}

/// Runs the command against a server, without a terminal.
fn run(program: &Path, server: &Server, folder: &Path, arguments: &[&str]) -> Output {
    Command::new(program)
        .arg("apply")
        .args(["--server-side", "--kubeconfig"])
        .arg(server.data_dir().join("kubeconfig"))
        .args(arguments)
        .current_dir(folder)
        .stdin(Stdio::null())
        .output()
        .unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[tokio::test]
async fn conflicts_are_listed_and_decided_by_flags() {
    let binary = Binary::debug().unwrap();
    let server = Server::start(&binary, &[]).unwrap();
    let mut client = Client::new(&server).await;
    let folder = tempfile::tempdir().unwrap();
    let write = |file: &str, text: String| fs::write(folder.path().join(file), text).unwrap();
    let apply = |arguments: &[&str]| run(binary.path(), &server, folder.path(), arguments);
    write(
        "first.yaml",
        format!("{}---\n{}", manifest("one", "1", "2"), manifest("two", "1", "2")),
    );
    let dry = apply(&["-f", "first.yaml", "--dry-run"]);
    assert_eq!(
        text(&dry.stdout),
        "configmap/one serverside-applied (server dry run)\nconfigmap/two serverside-applied (server dry run)\n"
    );
    assert_eq!(client.get(CONFIG_MAP).await.0, StatusCode::NOT_FOUND);
    let output = apply(&["-f", "first.yaml"]);
    assert_eq!(
        text(&output.stdout),
        "configmap/one serverside-applied\nconfigmap/two serverside-applied\n",
        "{}",
        text(&output.stderr)
    );

    // Another manager conflicts, and nothing is changed.
    write("second.yaml", manifest("one", "3", "4"));
    let output = apply(&["-f", "second.yaml", "--field-manager=ci", "--yes-to=.data.a"]);
    assert_eq!(output.status.code(), Some(1));
    let complaints = text(&output.stderr);
    assert!(
        complaints.contains(".data.b\n  owner:     \"holdfast\", "),
        "{complaints}"
    );
    assert!(
        complaints.contains("  stored:    \"2\"\n  requested: \"4\"\n"),
        "{complaints}"
    );
    assert!(!complaints.contains(".data.a"), "{complaints}");
    assert_eq!(client.get(CONFIG_MAP).await.1["data"], json!({"a": "1", "b": "2"}));

    // The command works as a plugin of kubectl, too.
    let plugin = folder.path().join("kubectl-holdfast");
    symlink(binary.path(), &plugin).unwrap();
    let arguments = ["-f", "second.yaml", "--field-manager=ci", "--yes-to=.data.a,.data.b"];
    let output = run(&plugin, &server, folder.path(), &arguments);
    assert!(output.status.success(), "{}", text(&output.stderr));
    let (_, object) = client.get(CONFIG_MAP).await;
    assert_eq!(object["data"], json!({"a": "3", "b": "4"}));

    // Other errors are those of the server, and objects after them are still applied.
    fs::create_dir(folder.path().join("all")).unwrap();
    write("all/1.yaml", manifest("Bad_Name", "1", "1"));
    write("all/2.json", manifest("three", "1", "1"));
    let output = apply(&["-f", "all"]);
    assert_eq!(output.status.code(), Some(1));
    assert_eq!(text(&output.stdout), "configmap/three serverside-applied\n");
    assert!(
        text(&output.stderr).contains("is invalid: metadata.name"),
        "{}",
        text(&output.stderr)
    );
    let output = apply(&["-f", "first.yaml", "--yes-to=data"]);
    assert!(text(&output.stderr).contains("--yes-to: \"data\" is not the path of a field"));
}

#[tokio::test]
async fn hostile_texts_do_not_change_the_terminal() {
    let binary = Binary::debug().unwrap();
    let server = Server::start(&binary, &[]).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let hostile = r"\e[2J\u009b31m\u202e";
    for (name, manifest) in [
        (
            "name",
            format!("{{apiVersion: v1, kind: ConfigMap, metadata: {{name: \"{hostile}\"}}}}"),
        ),
        (
            "kind",
            format!("{{apiVersion: v1, kind: \"{hostile}\", metadata: {{name: a}}}}"),
        ),
        // The server quotes the value in its message.
        (
            "label",
            format!("{{apiVersion: v1, kind: ConfigMap, metadata: {{name: a, labels: {{a: \"{hostile}\"}}}}}}"),
        ),
    ] {
        fs::write(folder.path().join("file.yaml"), manifest).unwrap();
        let output = run(binary.path(), &server, folder.path(), &["-f", "file.yaml"]);
        assert_eq!(output.status.code(), Some(1), "{name}");
        let complaint = text(&output.stderr);
        let changes = |character: char| (character.is_control() && character != '\n') || character == '\u{202e}';
        assert!(!complaint.contains(changes), "{name}: {complaint:?}");
    }
    let output = run(binary.path(), &server, folder.path(), &["-f", "/dev/zero"]);
    assert!(
        text(&output.stderr).contains("cannot read /dev/zero: it is larger than"),
        "{output:?}"
    );
}
