//! The official Python and JavaScript clients against the real binary. Each is installed from its registry below the build
//! directory, once for each list of what it needs. The tests run where
//! `HOLDFAST_REQUIRE` names `clients`, and are ignored elsewhere, since a registry may be out of reach.

#![allow(clippy::unwrap_used, clippy::panic, reason = "what fails here is the test")]

use std::path::{Path, PathBuf};
use std::process::Command;

use conformance::{Binary, Server, root};
use test_support::needs;

/// A client in another language.
struct Client {
    /// The folder below `tests/clients`, and where it is installed.
    name: &'static str,
    /// The file that lists what is installed.
    wants: &'static str,
    /// Installs into a folder; each line is one command.
    install: fn(&Path, &Path) -> Vec<Command>,
    /// Runs the checks.
    run: fn(&Path, &Path) -> Command,
}

impl Client {
    fn sources(&self) -> PathBuf {
        root().join("tests/clients").join(self.name)
    }

    /// Where the client is installed, or why it is not.
    fn installed(&self) -> Result<PathBuf, String> {
        let folder = root().join("target/clients").join(self.name);
        let stamp = folder.join("installed");
        let wants = std::fs::read_to_string(self.sources().join(self.wants)).unwrap();
        if std::fs::read_to_string(&stamp).is_ok_and(|has| has == wants) {
            return Ok(folder);
        }
        std::fs::create_dir_all(&folder).unwrap();
        for mut command in (self.install)(&self.sources(), &folder) {
            let output = command.output().map_err(|error| format!("{command:?}: {error}"))?;
            if !output.status.success() {
                return Err(format!("{command:?}: {}", String::from_utf8_lossy(&output.stderr)));
            }
        }
        std::fs::write(stamp, wants).unwrap();
        Ok(folder)
    }

    fn check(&self) {
        let folder = self.installed().unwrap();
        let server = Server::start(&Binary::debug().unwrap(), &[]).unwrap();
        let output = (self.run)(&self.sources(), &folder)
            .arg(server.kubeconfig())
            .env("HOLDFAST_SERVER", format!("https://{}", server.address))
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&output.stdout);
        assert!(
            output.status.success() && said.trim_end().ends_with("held"),
            "{said}{}",
            String::from_utf8_lossy(&output.stderr)
        );
    }
}

#[needs(clients)]
#[test]
fn the_python_client_works_typed_dynamic_and_watching() {
    Client {
        name: "python",
        wants: "requirements.txt",
        install: |sources, folder| {
            let mut environment = Command::new("python3");
            environment.args(["-m", "venv"]).arg(folder);
            let mut packages = Command::new(folder.join("bin/pip"));
            packages
                .args(["install", "--quiet", "--disable-pip-version-check", "--requirement"])
                .arg(sources.join("requirements.txt"));
            vec![environment, packages]
        },
        run: |sources, folder| {
            let mut command = Command::new(folder.join("bin/python"));
            command.arg(sources.join("conformance.py"));
            command
        },
    }
    .check();
}

#[needs(clients)]
#[test]
fn the_javascript_client_works_with_its_informer() {
    Client {
        name: "javascript",
        wants: "package.json",
        install: |sources, folder| {
            std::fs::copy(sources.join("package.json"), folder.join("package.json")).unwrap();
            let mut packages = Command::new("npm");
            packages
                .args([
                    "install",
                    "--no-audit",
                    "--no-fund",
                    "--ignore-scripts",
                    "--no-package-lock",
                ])
                .current_dir(folder);
            vec![packages]
        },
        run: |sources, folder| {
            // The script finds its packages from where it lies.
            std::fs::copy(sources.join("conformance.mjs"), folder.join("conformance.mjs")).unwrap();
            let mut command = Command::new("node");
            command.arg(folder.join("conformance.mjs"));
            command
        },
    }
    .check();
}
