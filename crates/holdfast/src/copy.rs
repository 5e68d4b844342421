//! `holdfast copy`: all objects from one store to another, while no server has either of them.

use std::path::{Path, PathBuf};

use anyhow::{Result, bail};
use clap::Args;
use holdfast_store::{Image, OpenError};

use crate::progress::Progress;

/// From where and whereto.
#[derive(Debug, Args)]
pub(crate) struct CopyFlags {
    /// The data directory to copy from
    #[arg(long, value_name = "DIR", value_parser = place)]
    from: Place,
    /// The data directory to copy to; it must hold no store, or the one that an earlier attempt made
    #[arg(long, value_name = "DIR", value_parser = place)]
    to: Place,
}

/// Where a store is.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Place {
    Directory(PathBuf),
}

fn place(text: &str) -> Result<Place, String> {
    Ok(Place::Directory(text.into()))
}

pub(crate) fn run(flags: &CopyFlags) -> Result<()> {
    match (&flags.from, &flags.to) {
        (Place::Directory(from), Place::Directory(to)) => between_directories(from, to),
    }
}

fn between_directories(from: &Path, to: &Path) -> Result<()> {
    let image = Image::of_idle_directory(from)?;
    let summary = image.summary();
    let mut progress = Progress::new("copied", summary.entries);
    let copied = image.restore(to, summary.revision, |done| progress.reached(done));
    match copied {
        Ok(_) => progress.finish(&format!(" to {}", to.display())),
        // An attempt that was told of too late is no failure.
        Err(error @ OpenError::Occupied { .. }) => match Image::of_idle_directory(to) {
            Ok(there) if there.equals(&image)? => progress.finish(&format!(", which were in {} already", to.display())),
            _ => bail!(error),
        },
        Err(error) => bail!(error),
    }
    Ok(())
}
