//! The folder of a release, with the checksums of its files.

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result, ensure};

use crate::checksum::sha256;

/// Source file with the version of Kubernetes that the server mirrors.
const KUBERNETES_VERSION: &str = "crates/server/src/runtime/version.rs";

/// A release that is being made.
#[derive(Debug)]
pub(crate) struct Release {
    folder: PathBuf,
    url: String,
    /// Version of Holdfast.
    pub(crate) version: &'static str,
    /// Version of Kubernetes whose behaviour the server has.
    pub(crate) kubernetes: String,
    /// Time of the files, in seconds since the Unix epoch.
    pub(crate) time: u64,
    /// Names and SHA-256 checksums of the files.
    files: Vec<(String, String)>,
}

impl Release {
    /// Creates the folder. The time is `SOURCE_DATE_EPOCH`, or that of the last commit.
    pub(crate) fn new(folder: PathBuf, url: Option<String>) -> Result<Self> {
        let version = env!("CARGO_PKG_VERSION");
        let folder = std::path::absolute(folder)?;
        fs::create_dir_all(&folder).with_context(|| folder.display().to_string())?;
        let url = url.unwrap_or_else(|| format!("{}/releases/download/v{version}", env!("CARGO_PKG_REPOSITORY")));
        Ok(Self {
            folder,
            url,
            version,
            kubernetes: kubernetes_version()?,
            time: source_time()?,
            files: Vec::new(),
        })
    }

    /// Folder of the files.
    pub(crate) fn folder(&self) -> &Path {
        &self.folder
    }

    /// URL of a file of the release.
    pub(crate) fn url(&self, name: &str) -> String {
        format!("{}/{name}", self.url)
    }

    /// Writes a file.
    pub(crate) fn put(&mut self, name: &str, bytes: &[u8]) -> Result<()> {
        let path = self.folder.join(name);
        fs::write(&path, bytes).with_context(|| path.display().to_string())?;
        self.note(name, bytes);
        Ok(())
    }

    /// Notes a file that another program has written.
    pub(crate) fn adopt(&mut self, name: &str) -> Result<()> {
        let path = self.folder.join(name);
        let bytes = fs::read(&path).with_context(|| path.display().to_string())?;
        self.note(name, &bytes);
        Ok(())
    }

    fn note(&mut self, name: &str, bytes: &[u8]) {
        self.files.retain(|(noted, _)| noted != name);
        self.files.push((name.to_owned(), sha256(bytes)));
    }

    /// Returns the SHA-256 of a file of the release.
    pub(crate) fn checksum(&self, name: &str) -> Option<&str> {
        let mut files = self.files.iter();
        files
            .find(|(noted, _)| noted == name)
            .map(|(_, checksum)| checksum.as_str())
    }

    /// Writes `SHA256SUMS` in the form of `sha256sum`.
    pub(crate) fn finish(mut self) -> Result<()> {
        self.files.sort();
        let mut text = String::new();
        for (name, checksum) in &self.files {
            // Writes to a string cannot fail.
            let _ = writeln!(text, "{checksum}  {name}");
        }
        fs::write(self.folder.join("SHA256SUMS"), text)?;
        Ok(())
    }
}

/// Returns the root of the repository.
pub(crate) fn root() -> PathBuf {
    let manifest = Path::new(env!("CARGO_MANIFEST_DIR"));
    manifest.ancestors().nth(2).unwrap_or(manifest).to_path_buf()
}

fn kubernetes_version() -> Result<String> {
    let text = fs::read_to_string(root().join(KUBERNETES_VERSION)).context(KUBERNETES_VERSION)?;
    let version = text
        .split("KUBERNETES: &str = \"")
        .nth(1)
        .and_then(|rest| rest.split('"').next());
    Ok(version
        .with_context(|| format!("{KUBERNETES_VERSION} has no version"))?
        .to_owned())
}

fn source_time() -> Result<u64> {
    if let Some(time) = std::env::var_os("SOURCE_DATE_EPOCH") {
        return time.to_string_lossy().parse().context("SOURCE_DATE_EPOCH");
    }
    let mut command = Command::new("git");
    let output = command
        .args(["log", "-1", "--format=%ct"])
        .current_dir(root())
        .output()
        .context("git")?;
    ensure!(
        output.status.success(),
        "git log: {}",
        String::from_utf8_lossy(&output.stderr)
    );
    Ok(String::from_utf8_lossy(&output.stdout).trim().parse()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn checksums_of_all_files_are_written() {
        let folder = tempfile::tempdir().unwrap();
        let mut release = Release::new(folder.path().to_owned(), Some("https://example.com".to_owned())).unwrap();
        assert!(release.kubernetes.starts_with("1."), "{}", release.kubernetes);
        release.put("b", b"abc").unwrap();
        fs::write(folder.path().join("a"), "abc").unwrap();
        release.adopt("a").unwrap();
        release.put("b", b"abc").unwrap();
        assert_eq!(release.url("b"), "https://example.com/b");
        release.finish().unwrap();
        let sums = fs::read_to_string(folder.path().join("SHA256SUMS")).unwrap();
        let checksum = sha256(b"abc");
        assert_eq!(sums, format!("{checksum}  a\n{checksum}  b\n"));
    }
}
