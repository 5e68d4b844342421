//! `holdfast snapshot`: a file with the objects at one revision, saved while the server runs.

use std::path::{Path, PathBuf};

use anyhow::{Result, bail};
use clap::{Args, Subcommand};
use holdfast_store::Image;

use crate::progress::Progress;

/// Default increment of the revision of a restored store over that of its snapshot: more revisions than were assigned
/// since, so that no client mistakes an old state for the last one that it has seen.
const BUMP: u64 = 1_000_000_000;

/// Snapshots of an embedded store.
#[derive(Debug, Subcommand)]
pub(crate) enum Snapshot {
    /// Write all objects to a file, while a server serves them or not. Keys and certificates in pki/ are not in it
    Save {
        /// The file to write; it must not exist
        file: PathBuf,
        #[command(flatten)]
        store: StoreFlags,
    },
    /// Create a store from a snapshot, in a data directory without a store
    Restore {
        /// The snapshot
        file: PathBuf,
        #[command(flatten)]
        store: StoreFlags,
        /// Increment of the store's revision over that of the snapshot, so that no revision is assigned twice
        #[arg(long, value_name = "NUMBER", default_value_t = BUMP, value_parser = clap::value_parser!(u64).range(..=1 << 40))]
        bump_revision: u64,
    },
    /// Read every entry of a snapshot, or of a data directory, and check it
    Verify {
        /// The snapshot or data directory
        path: PathBuf,
    },
}

/// Location of the store.
#[derive(Debug, Args)]
pub(crate) struct StoreFlags {
    /// Data directory
    #[arg(long, value_name = "DIR", default_value = "./holdfast-data")]
    data_dir: PathBuf,
}

pub(crate) fn run(command: &Snapshot) -> Result<()> {
    match command {
        Snapshot::Save { file, store } => save(&store.data_dir, file),
        Snapshot::Restore {
            file,
            store,
            bump_revision,
        } => restore(file, &store.data_dir, *bump_revision),
        Snapshot::Verify { path } => verify(path),
    }
}

fn save(directory: &Path, file: &Path) -> Result<()> {
    let image = Image::of_directory(directory)?;
    let summary = image.summary();
    let mut progress = Progress::new("saved", summary.entries);
    image.write(file, summary.revision, |done| progress.reached(done))?;
    progress.finish(&format!(" at revision {} to {}", summary.revision, file.display()));
    Ok(())
}

fn restore(file: &Path, directory: &Path, bump: u64) -> Result<()> {
    let image = Image::of_file(file)?;
    let summary = image.summary();
    let Some(revision) = summary.revision.checked_add(bump) else {
        bail!("the revision {} cannot be raised by {bump}", summary.revision);
    };
    let mut progress = Progress::new("restored", summary.entries);
    image.restore(directory, revision, |done| progress.reached(done))?;
    progress.finish(&format!(" at revision {revision} in {}", directory.display()));
    Ok(())
}

fn verify(path: &Path) -> Result<()> {
    let image = if path.is_dir() {
        Image::of_directory(path)?
    } else {
        Image::of_file(path)?
    };
    let summary = image.summary();
    let mut progress = Progress::new("verified", summary.entries);
    image.verify(|done| progress.reached(done))?;
    progress.finish(&format!(" at revision {} in {}", summary.revision, path.display()));
    Ok(())
}
