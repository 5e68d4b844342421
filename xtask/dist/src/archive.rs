//! Archives that are the same in each run: fixed times, owners and order.

use std::fs;
use std::io::Write as _;

use anyhow::Result;
use flate2::Compression;
use flate2::write::GzEncoder;

use crate::build::{Binary, Document};
use crate::release::{Release, root};

/// Mode of programs.
pub(crate) const PROGRAM_MODE: u32 = 0o755;
/// Mode of other files.
pub(crate) const FILE_MODE: u32 = 0o644;

/// Files at the root of the repository that each archive contains.
const TEXTS: [&str; 3] = ["LICENSE", "README.md", "CHANGELOG.md"];

/// A file in an archive.
#[derive(Debug)]
pub(crate) struct Entry<'b> {
    /// Path in the archive.
    pub(crate) path: String,
    /// Permissions.
    pub(crate) mode: u32,
    /// Content.
    pub(crate) bytes: &'b [u8],
}

/// Returns a tar archive of the entries and of empty folders. All belong to `owner`.
pub(crate) fn tar(folders: &[&str], entries: &[Entry<'_>], time: u64, owner: u64) -> Result<Vec<u8>> {
    let mut archive = tar::Builder::new(Vec::new());
    let header_of = |kind: tar::EntryType, mode: u32, size: usize| -> Result<tar::Header> {
        let mut header = tar::Header::new_ustar();
        header.set_entry_type(kind);
        header.set_mode(mode);
        header.set_mtime(time);
        header.set_uid(owner);
        header.set_gid(owner);
        header.set_size(u64::try_from(size)?);
        Ok(header)
    };
    for folder in folders {
        let mut header = header_of(tar::EntryType::Directory, PROGRAM_MODE, 0)?;
        archive.append_data(&mut header, format!("{folder}/"), std::io::empty())?;
    }
    for entry in entries {
        let mut header = header_of(tar::EntryType::Regular, entry.mode, entry.bytes.len())?;
        archive.append_data(&mut header, &entry.path, entry.bytes)?;
    }
    Ok(archive.into_inner()?)
}

/// Compresses bytes. The header of the result contains neither time nor name.
pub(crate) fn gzip(bytes: &[u8]) -> Result<Vec<u8>> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::best());
    encoder.write_all(bytes)?;
    Ok(encoder.finish()?)
}

/// Name of the archive of a binary.
pub(crate) fn name(release: &Release, binary: &Binary) -> String {
    let target = &binary.target;
    format!(
        "holdfast-{}-{}-{}.tar.gz",
        release.version, target.system, target.architecture
    )
}

/// Adds an archive for each binary, with licence, completions and manual pages.
pub(crate) fn add(release: &mut Release, binaries: &[Binary], documents: &[Document]) -> Result<()> {
    let texts = TEXTS.map(|name| fs::read(root().join(name)));
    for binary in binaries {
        let name = name(release, binary);
        let folder = name.trim_end_matches(".tar.gz");
        let mut entries = vec![Entry {
            path: format!("{folder}/holdfast"),
            mode: PROGRAM_MODE,
            bytes: &binary.bytes,
        }];
        for (name, text) in TEXTS.iter().zip(&texts) {
            let bytes = text.as_ref().map_err(|error| anyhow::anyhow!("{name}: {error}"))?;
            entries.push(Entry {
                path: format!("{folder}/{name}"),
                mode: FILE_MODE,
                bytes,
            });
        }
        for document in documents {
            entries.push(Entry {
                path: format!("{folder}/{}/{}", document.folder, document.name),
                mode: FILE_MODE,
                bytes: &document.bytes,
            });
        }
        let bytes = gzip(&tar(&[], &entries, release.time, 0)?)?;
        release.put(&name, &bytes)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::io::Read as _;

    use super::*;

    #[test]
    fn archives_of_the_same_files_are_the_same() {
        let entries = [Entry {
            path: "a/program".to_owned(),
            mode: PROGRAM_MODE,
            bytes: b"text",
        }];
        let make = || gzip(&tar(&["data"], &entries, 1_700_000_000, 65_532).unwrap()).unwrap();
        assert_eq!(make(), make());
        let bytes = make();
        let mut archive = tar::Archive::new(flate2::read::GzDecoder::new(bytes.as_slice()));
        let mut found = Vec::new();
        for entry in archive.entries().unwrap() {
            let mut entry = entry.unwrap();
            let mut content = String::new();
            entry.read_to_string(&mut content).unwrap();
            let header = entry.header();
            let path = entry.path().unwrap().display().to_string();
            found.push((
                path,
                header.mode().unwrap(),
                header.uid().unwrap(),
                header.mtime().unwrap(),
                content,
            ));
        }
        let expected = [
            ("data/".to_owned(), PROGRAM_MODE, 65_532, 1_700_000_000, String::new()),
            (
                "a/program".to_owned(),
                PROGRAM_MODE,
                65_532,
                1_700_000_000,
                "text".to_owned(),
            ),
        ];
        assert_eq!(found, expected);
    }
}
