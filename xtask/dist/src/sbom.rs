//! List of components in the form of CycloneDX, made by [cargo-cyclonedx](https://github.com/CycloneDX/cyclonedx-rust-cargo).

use std::fs;
use std::process::Command;

use anyhow::{Context as _, Result, ensure};
use serde_json::Value;

use crate::build::Binary;
use crate::release::{Release, root};

/// Extension of the lists.
const EXTENSION: &str = ".cdx.json";

/// Adds the list of components of each binary.
pub(crate) fn add(release: &mut Release, binaries: &[Binary]) -> Result<()> {
    for binary in binaries {
        let target = &binary.target;
        let output = Command::new("cargo")
            .args([
                "cyclonedx",
                "--format",
                "json",
                "--describe",
                "binaries",
                "--spec-version",
                "1.5",
            ])
            .args(["--no-build-deps", "--target", target.triple(), "--manifest-path"])
            .arg(root().join("crates/holdfast/Cargo.toml"))
            .env("SOURCE_DATE_EPOCH", release.time.to_string())
            .output()
            .context("cargo")?;
        ensure!(
            output.status.success(),
            "cargo cyclonedx (cargo install cargo-cyclonedx): {}",
            String::from_utf8_lossy(&output.stderr)
        );
        let text = take_result()?;
        let name = format!(
            "holdfast-{}-{}-{}.cdx.json",
            release.version, target.system, target.architecture
        );
        release.put(&name, &relative(&text)?)?;
    }
    Ok(())
}

/// Returns the list of the server, and removes it and those that the program has written next to the other manifests.
fn take_result() -> Result<String> {
    let mut found = None;
    let folders = ["crates", "devtools", "examples", "tests", "xtask"];
    let mut waiting: Vec<_> = folders.iter().map(|folder| root().join(folder)).collect();
    while let Some(folder) = waiting.pop() {
        for entry in fs::read_dir(&folder)? {
            let entry = entry?;
            let path = entry.path();
            if entry.file_type()?.is_dir() {
                waiting.push(path);
            } else if path
                .file_name()
                .is_some_and(|name| name.to_string_lossy().ends_with(EXTENSION))
            {
                if folder.ends_with("crates/holdfast") {
                    found = Some(fs::read_to_string(&path)?);
                }
                fs::remove_file(&path)?;
            }
        }
    }
    found.context("cargo cyclonedx wrote no list for the server")
}

/// Removes what differs between machines: paths of the sources, and the random serial number.
fn relative(text: &str) -> Result<Vec<u8>> {
    let portable = text.replace(&format!("file://{}", root().display()), "file://.");
    let mut list: Value = serde_json::from_str(&portable)?;
    if let Some(fields) = list.as_object_mut() {
        fields.remove("serialNumber");
    }
    Ok(serde_json::to_vec_pretty(&list)?)
}
