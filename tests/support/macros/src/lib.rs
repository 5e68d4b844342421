#![forbid(unsafe_code)]
//! The attribute `needs`. See the crate `test-support`.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use proc_macro::TokenStream;

/// Ignores a test if something that it needs is absent when it is built: `#[needs(shared)]`, `#[needs(kubectl)]`.
///
/// | need | present if |
/// |---|---|
/// | `shared` | `$HOLDFAST_SHARED` is a folder, or `shared` exists next to the repository |
/// | `clients` | `HOLDFAST_REQUIRE` names them: they are installed from their registries |
/// | `etcd` | `$HOLDFAST_ETCD` is a file, or a program of that name is on the path or in `target/etcd` |
/// | `full_disk` | users may mount a file system in memory in a namespace of their own |
/// | `root` | tests may change the root of a process |
/// | `kube_apiserver` | `$HOLDFAST_KUBE_APISERVER` is a file |
/// | any other | a program of that name is on the path, with `-` for each `_` of the name |
///
/// A need in `HOLDFAST_REQUIRE` (a comma-separated list) is never ignored: the test runs, and fails if the need is
/// absent.
#[proc_macro_attribute]
pub fn needs(needs: TokenStream, item: TokenStream) -> TokenStream {
    let required = std::env::var("HOLDFAST_REQUIRE").unwrap_or_default();
    let missing: Vec<String> = needs
        .to_string()
        .split(',')
        .map(|need| need.trim().to_owned())
        .filter(|need| !required.split(',').any(|name| name == need) && !is_present(need))
        .collect();
    let ignore = match missing.is_empty() {
        true => String::new(),
        false => format!("#[ignore = {:?}]", format!("needs {}", missing.join(", "))),
    };
    // The constant makes Cargo rebuild the test if a variable changes.
    let tracked = r#"const _: [Option<&str>; 4] = [
        option_env!("HOLDFAST_REQUIRE"), option_env!("HOLDFAST_SHARED"), option_env!("HOLDFAST_ETCD"),
        option_env!("HOLDFAST_KUBE_APISERVER"),
    ];"#;
    match format!("{tracked} {ignore}").parse::<TokenStream>() {
        Ok(mut tokens) => {
            tokens.extend(item);
            tokens
        }
        Err(_) => item,
    }
}

fn is_present(need: &str) -> bool {
    match need {
        "shared" => shared().is_some_and(|folder| folder.is_dir()),
        "clients" => false,
        "etcd" => etcd(),
        "full_disk" => full_disk(),
        "root" => runs("chroot", &["/", "true"]),
        "kube_apiserver" => {
            std::env::var_os("HOLDFAST_KUBE_APISERVER").is_some_and(|named| Path::new(&named).is_file())
        }
        program => on_the_path(&program.replace('_', "-")),
    }
}

/// Returns the shared folder, as `test_support::shared_folder` finds it.
fn shared() -> Option<PathBuf> {
    if let Some(named) = std::env::var_os("HOLDFAST_SHARED") {
        return Some(PathBuf::from(named));
    }
    Some(root()?.parent()?.join("shared"))
}

/// Returns true if `test_support::etcd::program` finds one without building it.
fn etcd() -> bool {
    match std::env::var_os("HOLDFAST_ETCD") {
        Some(named) => Path::new(&named).is_file(),
        None => on_the_path("etcd") || root().is_some_and(|root| root.join("target/etcd/etcd").is_file()),
    }
}

/// Returns true if `test_support::etcd` can create a disk that is full.
fn full_disk() -> bool {
    let mount: Vec<&str> = "--user --map-root-user --mount mount -t tmpfs tmpfs /mnt"
        .split(' ')
        .collect();
    on_the_path("nsenter") && runs("unshare", &mount)
}

/// Returns true if a command succeeds.
fn runs(program: &str, arguments: &[&str]) -> bool {
    let mut command = Command::new(program);
    command.args(arguments).stdout(Stdio::null()).stderr(Stdio::null());
    command.status().is_ok_and(|status| status.success())
}

/// Returns the root of the repository.
fn root() -> Option<PathBuf> {
    let package = std::env::var_os("CARGO_MANIFEST_DIR")?;
    let mut folders = Path::new(&package).ancestors();
    folders
        .find(|folder| folder.join("Cargo.lock").exists())
        .map(Path::to_owned)
}

fn on_the_path(program: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).any(|folder| folder.join(program).is_file())
}
