//! Archives and the index for `setup-envtest`, in the form of controller-tools' `envtest-releases.yaml`.
//!
//! `setup-envtest` unpacks regular files only, so the archive contains the binary under both names.

use std::fmt::Write as _;

use anyhow::Result;

use crate::archive::{Entry, PROGRAM_MODE, gzip, tar};
use crate::build::Binary;
use crate::checksum::sha512;
use crate::release::Release;

/// Name of the index.
pub(crate) const INDEX: &str = "envtest-releases.yaml";

/// Folder in the archives.
const FOLDER: &str = "controller-tools/envtest";

/// Programs of envtest that the binary replaces.
const PROGRAMS: [&str; 2] = ["etcd", "kube-apiserver"];

/// Adds the archives and the index.
pub(crate) fn add(release: &mut Release, binaries: &[Binary]) -> Result<()> {
    let mut index = format!("releases:\n  v{}:\n", release.kubernetes);
    for binary in binaries {
        let target = &binary.target;
        let name = format!(
            "envtest-v{}-{}-{}.tar.gz",
            release.kubernetes, target.system, target.architecture
        );
        let entries = PROGRAMS.map(|program| Entry {
            path: format!("{FOLDER}/{program}"),
            mode: PROGRAM_MODE,
            bytes: &binary.bytes,
        });
        let bytes = gzip(&tar(&[], &entries, release.time, 0)?)?;
        let (hash, link) = (sha512(&bytes), release.url(&name));
        // Writes to a string cannot fail.
        let _ = write!(index, "    {name}:\n      hash: {hash}\n      selfLink: {link}\n");
        release.put(&name, &bytes)?;
    }
    release.put(INDEX, index.as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn index_has_hash_and_link_of_each_archive() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("binary");
        std::fs::write(&path, "program").unwrap();
        let binary = Binary::read("aarch64-unknown-linux-musl".parse().unwrap(), path).unwrap();
        let out = folder.path().join("out");
        let mut release = Release::new(out.clone(), Some("https://example.com".to_owned())).unwrap();
        add(&mut release, &[binary]).unwrap();
        let name = format!("envtest-v{}-linux-arm64.tar.gz", release.kubernetes);
        let hash = sha512(&std::fs::read(out.join(&name)).unwrap());
        let index = std::fs::read_to_string(out.join(INDEX)).unwrap();
        let version = &release.kubernetes;
        let expected = format!(
            "releases:\n  v{version}:\n    {name}:\n      hash: {hash}\n      selfLink: https://example.com/{name}\n"
        );
        assert_eq!(index, expected);
    }
}
