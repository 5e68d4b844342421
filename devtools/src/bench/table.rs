//! The table of figures: one figure a cell.

use std::fmt::Write as _;
use std::fs;

use anyhow::{Context as _, Result};
use conformance::root;

use super::Row;

/// Document with all tables.
const WHOLE: &str = "docs/performance.md";
/// Document with the most important rows of the table of the stores.
const FRONT: &str = "README.md";

/// Markers around the table in a document.
const BEGIN: &str = "<!-- figures: written by `cargo xtask bench --write` -->\n";
const END: &str = "<!-- end of figures -->\n";

/// Markers around the table of the stores.
const BEGIN_STORES: &str = "<!-- figures of stores: written by `cargo xtask bench --store etcd --write` -->\n";

/// Markers around the rows of that table in README.
const BEGIN_FRONT: &str = "<!-- figures of the front page: written by `cargo xtask bench --store etcd --write` -->\n";

/// Titles of the rows in README.
const FRONT_ROWS: [&str; 3] = [
    "memory, idle",
    "apply that changes one field, server CPU each",
    "start to ready with 100000 objects of 561 bytes",
];

pub(super) fn text(rows: &[Row]) -> String {
    table(rows.iter())
}

/// Writes the table into its document.
///
/// # Errors
/// If the document cannot be read or written, or has no place for the table.
pub(super) fn write(rows: &[Row]) -> Result<()> {
    put(WHOLE, BEGIN, &text(rows))
}

/// Writes the table of the stores into its document, and its most important rows into README.
///
/// # Errors
/// The same as [`write()`].
pub(super) fn write_stores(table: &str) -> Result<()> {
    put(WHOLE, BEGIN_STORES, table)?;
    put(FRONT, BEGIN_FRONT, &front(table))
}

/// Returns the rows for README: the embedded store and the reference.
fn front(stores: &str) -> String {
    let mut text =
        "| one run on one machine with 2 cores | Holdfast | kube-apiserver 1.36 on etcd |\n|---|---:|---:|\n"
            .to_owned();
    for line in stores.lines() {
        let mut cells = line.trim_matches('|').split('|').map(str::trim);
        let (Some(title), Some(embedded), Some(_), Some(reference)) =
            (cells.next(), cells.next(), cells.next(), cells.next())
        else {
            continue;
        };
        if FRONT_ROWS.contains(&title) {
            // Writes to a string cannot fail.
            let _ = writeln!(text, "| {title} | {embedded} | {reference} |");
        }
    }
    text
}

fn table<'a>(rows: impl Iterator<Item = &'a Row>) -> String {
    let mut text = "| | Holdfast | kube-apiserver 1.36.2 + etcd | target |\n|---|---:|---:|---:|\n".to_owned();
    for row in rows {
        // Writes to a string cannot fail.
        let _ = writeln!(
            text,
            "| {} | {} | {} | {} |",
            row.what, row.holdfast, row.reference, row.target
        );
    }
    text
}

pub(crate) fn put(document: &str, begin: &str, table: &str) -> Result<()> {
    let path = root().join(document);
    let before = fs::read_to_string(&path).with_context(|| document.to_owned())?;
    let after = replaced(&before, begin, table).with_context(|| format!("{document} has no place for the table"))?;
    fs::write(&path, after).with_context(|| document.to_owned())
}

/// Returns the document with another table between the marks; `None` if they are missing.
fn replaced(document: &str, begin: &str, table: &str) -> Option<String> {
    let (head, rest) = document.split_once(begin)?;
    let (_, tail) = rest.split_once(END)?;
    Some(format!("{head}{begin}{table}{END}{tail}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_takes_its_place_again() {
        let document = format!("a\n{BEGIN}old\n{END}z\n");
        let once = replaced(&document, BEGIN, "new\n").unwrap();
        assert_eq!(once, format!("a\n{BEGIN}new\n{END}z\n"));
        assert_eq!(replaced(&once, BEGIN, "new\n").unwrap(), once);
        assert_eq!(replaced("a\n", BEGIN, "new\n"), None);
    }

    #[test]
    fn documents_have_places_for_their_tables() {
        for (document, begin) in [(WHOLE, BEGIN), (FRONT, BEGIN_FRONT), (WHOLE, BEGIN_STORES)] {
            let text = fs::read_to_string(root().join(document)).unwrap();
            assert!(replaced(&text, begin, "").is_some(), "{document}: {begin}");
        }
    }

    #[test]
    fn front_rows_are_those_of_the_table_of_stores() {
        let between = |document: &str, begin: &str| {
            let text = fs::read_to_string(root().join(document)).unwrap();
            let (_, rest) = text.split_once(begin).unwrap();
            rest.split_once(END).unwrap().0.to_owned()
        };
        let shown = between(FRONT, BEGIN_FRONT);
        assert_eq!(shown.lines().count(), 2 + FRONT_ROWS.len());
        assert_eq!(shown, front(&between(WHOLE, BEGIN_STORES)));
    }
}
