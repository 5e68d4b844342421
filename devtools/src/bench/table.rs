//! The table of figures: one figure a cell.

use std::fmt::Write as _;
use std::fs;

use anyhow::{Context as _, Result};
use conformance::root;

use super::Row;

/// The whole table.
const WHOLE: &str = "docs/performance.md";
/// Document with the most important rows.
const FRONT: &str = "README.md";

/// Markers around the table in a document.
const BEGIN: &str = "<!-- figures: written by `cargo xtask bench --write` -->\n";
const END: &str = "<!-- end of figures -->\n";

/// Markers around the table of the stores.
const BEGIN_STORES: &str = "<!-- figures of stores: written by `cargo xtask bench --store etcd --write` -->\n";

/// Beginnings of the rows in README.
const FIRST: [&str; 13] = [
    "start to ready",
    "memory, idle",
    "create by apply, server CPU each",
    "unchanged re-apply, server CPU each",
    "unchanged re-apply, remembered, server CPU each",
    "apply that changes one field, server CPU each",
    "get, server CPU each",
    "list of 2,000 Deployments",
    "write sent to watch event received, p50",
    "memory, 10,000 Deployments",
    "memory, 100,000 pods",
    "memory, 10,000 open watches",
    "create by apply, one ValidatingAdmissionPolicy, server CPU each",
];

pub(super) fn text(rows: &[Row]) -> String {
    table(rows.iter())
}

/// Writes the table into both documents.
///
/// # Errors
/// If a document cannot be read or written, or has no place for the table.
pub(super) fn write(rows: &[Row]) -> Result<()> {
    put(WHOLE, BEGIN, &text(rows))?;
    let first = rows
        .iter()
        .filter(|row| FIRST.iter().any(|title| row.what.starts_with(title)));
    put(FRONT, BEGIN, &table(first))
}

/// Writes the table of the stores.
///
/// # Errors
/// The same as [`write()`].
pub(super) fn write_stores(table: &str) -> Result<()> {
    put(WHOLE, BEGIN_STORES, table)
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
    fn both_documents_have_a_place() {
        for (document, begin) in [(WHOLE, BEGIN), (FRONT, BEGIN), (WHOLE, BEGIN_STORES)] {
            let text = fs::read_to_string(root().join(document)).unwrap();
            assert!(replaced(&text, begin, "").is_some(), "{document}: {begin}");
        }
    }
}
