//! The official Python and JavaScript clients and kopf against the real binary. Each is installed from its registry
//! below the build directory, once for each list of requirements. The tests run if `HOLDFAST_REQUIRE` names `clients`,
//! and are ignored otherwise, since a registry may be unreachable.

use std::path::Path;
use std::process::Command;

use conformance::{Binary, Server, clients};
use test_support::needs;

/// A client in another language.
struct Client {
    /// Name of the folder below `tests/clients`, and of the folder of the installation.
    name: &'static str,
    /// The file that lists what is installed.
    wants: &'static str,
    /// Installs into a folder; each line is one command.
    install: fn(&Path, &Path) -> Vec<Command>,
    /// Runs the checks of a script.
    run: fn(&Path, &Path) -> Command,
}

impl Client {
    /// Runs the checks with additional arguments after the kubeconfig.
    fn check(&self, more: &[&str]) {
        let folder = clients::installed(self.name, self.wants, self.install).unwrap();
        let server = Server::start(&Binary::debug().unwrap(), &[]).unwrap();
        let output = (self.run)(&clients::sources(self.name), &folder)
            .arg(server.kubeconfig())
            .args(more)
            // kopf's client reads it when it is loaded.
            .env("KUBECONFIG", server.kubeconfig())
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

/// Returns the Python client and kopf, with the script that checks them.
fn python(run: fn(&Path, &Path) -> Command) -> Client {
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
        run,
    }
}

fn in_python(folder: &Path, script: &Path) -> Command {
    let mut command = Command::new(folder.join("bin/python"));
    command.arg(script);
    command
}

#[needs(clients)]
#[test]
fn the_python_client_works_typed_dynamic_and_watching() {
    python(|sources, folder| in_python(folder, &sources.join("conformance.py"))).check(&[]);
}

#[needs(clients)]
#[test]
fn kopf_operator_handles_creation_update_deletion_and_timers() {
    python(|sources, folder| in_python(folder, &sources.join("operator_checks.py"))).check(&[]);
}

/// Both releases of the JavaScript client, with the Node.js that its registry has: the client asks for a newer one than many
/// machines have.
const JAVASCRIPT: Client = Client {
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
        // The script resolves its packages relative to its own folder.
        std::fs::copy(sources.join("conformance.mjs"), folder.join("conformance.mjs")).unwrap();
        let processor = if cfg!(target_arch = "aarch64") { "arm64" } else { "x64" };
        let node = format!("node_modules/node-linux-{processor}/bin/node");
        let mut command = Command::new(folder.join(node));
        command.arg(folder.join("conformance.mjs"));
        command
    },
};

#[needs(clients)]
#[test]
fn the_javascript_client_1_works_with_its_informer() {
    JAVASCRIPT.check(&["client-node-1"]);
}

#[needs(clients)]
#[test]
fn the_javascript_client_2_works_with_its_informer() {
    JAVASCRIPT.check(&["client-node-2"]);
}
