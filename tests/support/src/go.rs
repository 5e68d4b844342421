//! Programs that are built from their published Go modules.

use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::run;

/// A program of a Go module.
pub(crate) struct Program {
    /// The module, as `go.etcd.io/etcd/server/v3`.
    pub(crate) module: &'static str,
    pub(crate) version: &'static str,
    /// The package of the program.
    pub(crate) package: &'static str,
    /// The name of the file.
    pub(crate) name: &'static str,
    /// Further flags of the linker.
    pub(crate) link: &'static str,
    /// Version of the modules that the module's own manifest replaces by folders next to it, if it does.
    pub(crate) beside: Option<&'static str>,
    /// True if the package holds tests, from which the program is built.
    pub(crate) is_test: bool,
}

impl Program {
    /// Builds it in `folder`, as a dependency of an empty module: `go install` rejects a module whose own manifest
    /// replaces others.
    ///
    /// # Errors
    /// If Go is not installed or fails; its output is the message.
    pub(crate) fn build(&self, folder: &Path) -> io::Result<PathBuf> {
        let (module, version, package) = (self.module, self.version, self.package);
        let mut manifest = format!("module {}-for-tests\n", self.name);
        if let Some(beside) = self.beside {
            manifest += &format!("replace (\n{})\n", self.replacements(folder, beside)?);
        }
        std::fs::write(folder.join("go.mod"), manifest)?;
        go(folder, &["get", &format!("{module}@{version}")])?;
        let link = format!("-ldflags=-s -w {}", self.link);
        let build: &[&str] = if self.is_test {
            &["test", "-c", "-vet=off"]
        } else {
            &["build"]
        };
        go(folder, &[build, &[&link, "-o", self.name, package]].concat())?;
        Ok(folder.join(self.name))
    }

    /// Replacements for those of the module's manifest: the same modules as they are published.
    fn replacements(&self, folder: &Path, version: &str) -> io::Result<String> {
        std::fs::write(folder.join("go.mod"), format!("module {}-for-tests\n", self.name))?;
        let reported = go(
            folder,
            &["mod", "download", "-json", &format!("{}@{}", self.module, self.version)],
        )?;
        let path = reported
            .lines()
            .find_map(|line| line.trim().strip_prefix("\"GoMod\": \""))
            .and_then(|rest| rest.split('"').next())
            .ok_or_else(|| io::Error::other("go does not say where the manifest is"))?;
        Ok(published(&std::fs::read_to_string(path)?, version))
    }
}

/// Returns the lines of a manifest that replace modules by folders, with published versions in their place.
fn published(manifest: &str, version: &str) -> String {
    manifest
        .lines()
        .filter_map(|line| line.split_once(" => ./"))
        .map(|(module, _)| module.trim().trim_start_matches("replace "))
        .map(|module| format!("\t{module} => {module} {version}\n"))
        .collect()
}

fn go(folder: &Path, arguments: &[&str]) -> io::Result<String> {
    let mut command = Command::new("go");
    command
        .args(arguments)
        .current_dir(folder)
        .env("GOFLAGS", "-mod=mod")
        .env("CGO_ENABLED", "0");
    run(command)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn folders_beside_a_module_are_replaced_by_what_is_published() {
        let manifest = "module m\nreplace k8s.io/a => ./staging/src/k8s.io/a\nreplace (\n\tk8s.io/b => ./staging/b\n\tc => d v1\n)\n";
        assert_eq!(
            published(manifest, "v0.1.2"),
            "\tk8s.io/a => k8s.io/a v0.1.2\n\tk8s.io/b => k8s.io/b v0.1.2\n"
        );
    }
}
