//! Page of the book with the changes of a release.

use std::fs;

use anyhow::{Context as _, Result};
use conformance::root;

use super::release::Release;

/// Tags around the generated part.
const BEGIN: &str = "<!-- upstream: written by `cargo xtask upstream --write` -->\n";
const END: &str = "<!-- end of upstream -->\n";

/// Writes the list to the page of the release, and returns the path of the page.
///
/// # Errors
/// If the release has no version, or the page cannot be written.
pub(super) fn write(to: &Release, from: &str, list: &str) -> Result<String> {
    let minor = to.minor()?;
    let page = format!("docs/contributing/kubernetes-{minor}.md");
    let path = root().join(&page);
    let before = fs::read_to_string(&path).unwrap_or_else(|_| empty(minor));
    let list = format!("\nChanges from {from} to {to}.\n\n{list}\n");
    let after = replaced(&before, &list).with_context(|| format!("{page} has no place for the list"))?;
    fs::write(&path, after).with_context(|| page.clone())?;
    Ok(page)
}

/// Returns a page without a list.
fn empty(minor: &str) -> String {
    format!(
        "# Kubernetes {minor}\n\n[The recipe](next-kubernetes-release.md) describes how to work with this list.\n\n{BEGIN}{END}"
    )
}

/// Returns the page with another list between the tags; `None` if they are missing.
fn replaced(page: &str, list: &str) -> Option<String> {
    let (head, rest) = page.split_once(BEGIN)?;
    let (_, tail) = rest.split_once(END)?;
    Some(format!("{head}{BEGIN}{list}{END}{tail}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn new_list_replaces_only_the_old_list() {
        let page = format!("{}after\n", empty("1.37"));
        let first = replaced(&page, "first\n").unwrap();
        assert_eq!(first, page.replace(END, &format!("first\n{END}")));
        assert_eq!(replaced(&first, "").unwrap(), page);
        assert_eq!(replaced("text\n", ""), None);
    }
}
