//! `cargo xtask docs`: writes the pages of the book that are generated from the code.

use std::fs;

use anyhow::{Context as _, Result};
use conformance::{Binary, book};

use crate::commands::say;

pub(crate) fn run() -> Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let pages = runtime.block_on(book::reference(&Binary::debug()?))?;
    for page in pages {
        let existing = fs::read_to_string(&page.path).unwrap_or_default();
        if existing == page.text {
            continue;
        }
        let name = page.path.display();
        fs::write(&page.path, page.text).with_context(|| name.to_string())?;
        say(&format!("wrote {name}"));
    }
    Ok(())
}
