//! Packages for Debian and Red Hat systems, made by [nfpm](https://nfpm.goreleaser.com) from one description.

use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Context as _, Result, ensure};
use serde_json::{Value, json};

use crate::build::{Binary, Document};
use crate::release::{Release, root};

/// Formats of packages, as nfpm names them.
const FORMATS: [&str; 2] = ["deb", "rpm"];

/// Adds the packages of each binary for Linux.
pub(crate) fn add(release: &mut Release, binaries: &[Binary], documents: &[Document]) -> Result<()> {
    for binary in binaries.iter().filter(|binary| binary.target.system == "linux") {
        let staged = tempfile::tempdir()?;
        let description = stage(release, binary, documents, staged.path())?;
        for format in FORMATS {
            let name = format!("holdfast-{}-{}.{format}", release.version, binary.target.architecture);
            let output = Command::new("nfpm")
                .args(["package", "--packager", format, "--config"])
                .arg(&description)
                .arg("--target")
                .arg(release.folder().join(&name))
                .env("SOURCE_DATE_EPOCH", release.time.to_string())
                .output()
                .context("nfpm is missing: go install github.com/goreleaser/nfpm/v2/cmd/nfpm@latest")?;
            ensure!(
                output.status.success(),
                "nfpm: {}",
                String::from_utf8_lossy(&output.stdout)
            );
            release.adopt(&name)?;
        }
    }
    Ok(())
}

/// Writes the files of a package to a folder, and returns the path of the description.
fn stage(release: &Release, binary: &Binary, documents: &[Document], folder: &Path) -> Result<std::path::PathBuf> {
    let mut contents = Vec::new();
    let mut put = |name: &str, bytes: &[u8], target: &str, mode: u32| -> Result<()> {
        let source = folder.join(name);
        fs::write(&source, bytes)?;
        contents.push(json!({
            "src": source,
            "dst": target,
            "file_info": {"mode": mode, "owner": "root", "group": "root"},
        }));
        Ok(())
    };
    put("holdfast", &binary.bytes, "/usr/bin/holdfast", 0o755)?;
    let packaging = root().join("packaging");
    // Packages must not write below /usr/local.
    let unit = fs::read_to_string(packaging.join("holdfast.service"))?.replace("/usr/local/bin/", "/usr/bin/");
    put(
        "holdfast.service",
        unit.as_bytes(),
        "/usr/lib/systemd/system/holdfast.service",
        0o644,
    )?;
    let defaults = fs::read(packaging.join("holdfast.default"))?;
    put("holdfast.default", &defaults, "/etc/default/holdfast", 0o644)?;
    put(
        "LICENSE",
        &fs::read(root().join("LICENSE"))?,
        "/usr/share/doc/holdfast/copyright",
        0o644,
    )?;
    for document in documents {
        let target = match (document.folder, document.name.as_str()) {
            ("man", name) => format!("/usr/share/man/man1/{name}"),
            (_, "holdfast") => "/usr/share/bash-completion/completions/holdfast".to_owned(),
            (_, "_holdfast") => "/usr/share/zsh/vendor-completions/_holdfast".to_owned(),
            (_, name) => format!("/usr/share/fish/vendor_completions.d/{name}"),
        };
        let name = format!("{}-{}", document.folder, document.name);
        put(&name, &document.bytes, &target, 0o644)?;
    }
    for entry in &mut contents {
        if entry["dst"] == "/etc/default/holdfast" {
            // A changed file is kept when the package is upgraded.
            entry["type"] = Value::from("config|noreplace");
        }
    }
    let description = json!({
        "name": "holdfast",
        "arch": binary.target.architecture,
        "platform": "linux",
        "version": release.version,
        "maintainer": "Holdfast project <holdfast@users.noreply.github.com>",
        "description": "Kubernetes-compatible API server in one binary",
        "homepage": env!("CARGO_PKG_REPOSITORY"),
        "license": env!("CARGO_PKG_LICENSE"),
        "section": "net",
        "contents": contents,
    });
    // JSON is YAML.
    let path = folder.join("nfpm.yaml");
    fs::write(&path, serde_json::to_vec(&description)?)?;
    Ok(path)
}
