//! `cargo xtask docs`: writes the pages of the book that are made of what the code has.

use std::fs;

use anyhow::{Context as _, Result, ensure};
use clap::Args;
use conformance::{Binary, book};

use crate::habits::say;

#[derive(Args)]
pub(crate) struct Arguments {
    /// Write nothing, and fail where a page is out of date.
    #[arg(long)]
    check: bool,
}

pub(crate) fn run(arguments: &Arguments) -> Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let pages = runtime.block_on(book::reference(&Binary::debug()?))?;
    let mut stale = Vec::new();
    for page in pages {
        let kept = fs::read_to_string(&page.path).unwrap_or_default();
        if kept == page.text {
            continue;
        }
        let name = page.path.display().to_string();
        if !arguments.check {
            fs::write(&page.path, page.text).with_context(|| name.clone())?;
            say(&format!("wrote {name}"));
        }
        stale.push(name);
    }
    ensure!(
        !arguments.check || stale.is_empty(),
        "out of date, cargo xtask docs writes: {}",
        stale.join(", ")
    );
    Ok(())
}
