//! `upstream:` lines in comments of the crates: each names a declaration of Kubernetes that the code below mirrors.

use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, ensure};
use conformance::root;

/// An `upstream:` line.
pub(super) struct UpstreamLine {
    /// File, relative to the repository.
    pub(super) file: PathBuf,
    pub(super) number: usize,
    /// Name of the declaration: `PACKAGE#NAME` or `PACKAGE#TYPE.METHOD`.
    pub(super) symbol: String,
}

impl fmt::Display for UpstreamLine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}: {}", self.file.display(), self.number, self.symbol)
    }
}

/// Returns the lines of all crates, by file.
///
/// # Errors
/// If a file cannot be read or a line has another form.
pub(super) fn of_repository() -> Result<Vec<UpstreamLine>> {
    let mut files = Vec::new();
    find_sources(&root().join("crates"), &mut files)?;
    files.sort();
    let mut lines = Vec::new();
    for file in files {
        let text = fs::read_to_string(&file).with_context(|| file.display().to_string())?;
        let relative = file.strip_prefix(root()).unwrap_or(&file);
        lines.extend(of_text(relative, &text)?);
    }
    Ok(lines)
}

fn find_sources(folder: &Path, files: &mut Vec<PathBuf>) -> Result<()> {
    for entry in fs::read_dir(folder).with_context(|| folder.display().to_string())? {
        let path = entry?.path();
        if path.is_dir() {
            find_sources(&path, files)?;
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            files.push(path);
        }
    }
    Ok(())
}

fn of_text(file: &Path, text: &str) -> Result<Vec<UpstreamLine>> {
    let mut lines = Vec::new();
    for (index, line) in text.lines().enumerate() {
        let comment = line.trim_start();
        let Some(comment) = comment.strip_prefix("///").or_else(|| comment.strip_prefix("//!")) else {
            continue;
        };
        let Some(symbol) = comment.trim_start().strip_prefix("upstream:") else {
            continue;
        };
        let symbol = symbol.trim();
        ensure!(
            is_symbol(symbol),
            "{}:{}: {symbol:?} is not PACKAGE#NAME",
            file.display(),
            index + 1
        );
        lines.push(UpstreamLine {
            file: file.to_owned(),
            number: index + 1,
            symbol: symbol.to_owned(),
        });
    }
    Ok(lines)
}

/// Returns true if the text is the path of a package, `#`, and a name or a type and its method.
fn is_symbol(text: &str) -> bool {
    let is_name = |name: &str| {
        let first = name.chars().next();
        first.is_some_and(|first| first.is_alphabetic() || first == '_')
            && name.chars().all(|c| c.is_alphanumeric() || c == '_')
    };
    let is_package = |package: &str| {
        package.contains('/')
            && package.split('/').all(|part| {
                !part.is_empty()
                    && part
                        .chars()
                        .all(|c| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_'))
            })
    };
    text.split_once('#').is_some_and(|(package, name)| {
        let (owner, method) = name.split_once('.').unwrap_or((name, name));
        is_package(package) && is_name(owner) && is_name(method)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn symbols(text: &str) -> Result<Vec<String>> {
        let lines = of_text(Path::new("lib.rs"), text)?;
        Ok(lines.into_iter().map(|line| line.symbol).collect())
    }

    #[test]
    fn doc_comments_name_functions_types_and_methods() {
        let text =
            "//! upstream: pkg/a#B\n    /// upstream: k8s.io/b/v2#T.m\n// upstream: pkg/c#D\nlet upstream: u8 = 1;\n";
        assert_eq!(symbols(text).unwrap(), ["pkg/a#B", "k8s.io/b/v2#T.m"]);
    }

    #[test]
    fn lines_of_another_form_are_errors() {
        for line in [
            "`pkg/a#B`.",
            "pkg/a",
            "ValidateThing",
            "pkg/a#",
            "pkg/a#B.",
            "pkg/a#B#C",
            "pkg/a#B and pkg/a#C",
        ] {
            assert!(symbols(&format!("/// upstream: {line}\n")).is_err(), "{line}");
        }
    }

    #[test]
    fn lines_of_the_repository_are_well_formed() {
        assert!(!of_repository().unwrap().is_empty());
    }
}
