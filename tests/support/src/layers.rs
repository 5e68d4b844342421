//! Check of the order of modules inside a crate.

mod exports;
mod source;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use self::exports::{Origin, root_origins};
use self::source::{root_names, tokens};

/// Order of the top-level modules of a crate: a module imports only itself and modules before it.
///
/// The check reads the sources. It sees `use` declarations and paths inside code, from `crate` or from `super`. A name
/// that `lib.rs` re-exports counts as an import of the module that defines it, so that no circle hides behind `lib.rs`.
/// Code of unit tests counts too.
///
/// ```no_run
/// test_support::Layers::new(env!("CARGO_MANIFEST_DIR"), &["text", "tree", "parser"]).check();
/// ```
#[derive(Clone, Debug)]
pub struct Layers<'a> {
    sources: PathBuf,
    order: &'a [&'a str],
    allowed: &'a [(&'a str, &'a str)],
    macros: &'a [(&'a str, &'a str)],
    for_tests: &'a [&'a str],
}

impl<'a> Layers<'a> {
    /// Creates the check of the crate in this folder (`env!("CARGO_MANIFEST_DIR")`). `order` lists its top-level
    /// modules, lowest first.
    pub fn new(folder: impl AsRef<Path>, order: &'a [&'a str]) -> Self {
        Self {
            sources: folder.as_ref().join("src"),
            order,
            allowed: &[],
            macros: &[],
            for_tests: &[],
        }
    }

    /// Allows imports against the order: a file, as a path below `src`, and the module that it imports. An import that
    /// no longer exists is a violation, so that the list only shrinks.
    #[must_use]
    pub fn allow(self, allowed: &'a [(&'a str, &'a str)]) -> Self {
        Self { allowed, ..self }
    }

    /// Names the modules that define exported macros. The compiler puts such a macro at the root of the crate, regardless
    /// of the file that defines it.
    #[must_use]
    pub fn macros(self, macros: &'a [(&'a str, &'a str)]) -> Self {
        Self { macros, ..self }
    }

    /// Names modules that only unit tests use, such as a harness. Every module may import them.
    #[must_use]
    pub fn for_tests(self, for_tests: &'a [&'a str]) -> Self {
        Self { for_tests, ..self }
    }

    /// Checks the crate.
    ///
    /// # Panics
    /// If an import violates the order, a module is missing in it, or a source cannot be read.
    pub fn check(&self) {
        let violations = self.violations();
        assert!(
            violations.as_ref().is_ok_and(Vec::is_empty),
            "{}",
            violations.map_or_else(|error| error.to_string(), |violations| violations.join("\n"))
        );
    }

    /// Returns the violations, sorted.
    fn violations(&self) -> io::Result<Vec<String>> {
        let root = self.sources.join("lib.rs");
        let origins = root_origins(&tokens(&fs::read_to_string(&root)?));
        let mut violations = Vec::new();
        let mut modules = BTreeSet::new();
        let mut folders = vec![self.sources.clone()];
        while let Some(folder) = folders.pop() {
            for entry in fs::read_dir(folder)? {
                let path = entry?.path();
                if path.is_dir() {
                    folders.push(path);
                } else if path != root && path.extension().is_some_and(|extension| extension == "rs") {
                    let file = path.strip_prefix(&self.sources).unwrap_or(&path).to_string_lossy();
                    violations.extend(self.file_violations(&file, &fs::read_to_string(&path)?, &origins));
                    modules.insert(module(&file)[0].to_owned());
                }
            }
        }
        let missing = self.order.iter().filter(|layer| !modules.contains(**layer));
        violations.extend(missing.map(|layer| format!("{layer} has no module")));
        violations.sort();
        Ok(violations)
    }

    /// Returns the imports of a file that violate the order, except those that are allowed.
    fn file_violations(&self, file: &str, source: &str, origins: &BTreeMap<String, Origin>) -> Vec<String> {
        let module = module(file);
        let rank = |name: &str| self.order.iter().position(|layer| *layer == name);
        let Some(own) = rank(module[0]) else {
            return vec![format!("{file} is in no layer")];
        };
        let mut violations = Vec::new();
        let mut used = BTreeSet::new();
        for name in root_names(source, &module) {
            let by_macro = self.macros.iter().find(|entry| entry.0 == name).map(|entry| entry.1);
            let layer = match origins.get(name) {
                Some(Origin::OtherCrate) => continue,
                Some(Origin::Module(layer)) => layer.as_str(),
                None => by_macro.unwrap_or(name),
            };
            let shown = match layer == name {
                true => name.to_owned(),
                false => format!("crate::{name} of {layer}"),
            };
            match rank(layer) {
                None => violations.push(format!("{file} imports crate::{name}, which is in no layer")),
                Some(other) if other <= own || self.for_tests.contains(&layer) => {}
                Some(_) if self.allowed.contains(&(file, layer)) => drop(used.insert(layer)),
                Some(_) => violations.push(format!("{file} imports {shown}, which comes after {}", module[0])),
            }
        }
        let unused = self
            .allowed
            .iter()
            .filter(|(of, layer)| *of == file && !used.contains(layer));
        violations.extend(unused.map(|(_, layer)| format!("{file} no longer imports {layer}: allow it no longer")));
        violations
    }
}

/// Returns the path of the module in a file below `src`.
fn module(file: &str) -> Vec<&str> {
    let path = file.trim_end_matches(".rs").trim_end_matches("/mod");
    path.split('/').collect()
}
