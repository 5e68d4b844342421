//! `holdfast envtest`: creates the directory for `KUBEBUILDER_ASSETS`.

use std::fs;
use std::io::Write as _;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, bail};
use clap::Args;
use holdfast_controllers::Selection;

use super::Role;
use super::api_server::{CONTROLLERS, RECORD};

/// Output location of the assets.
#[derive(Debug, Args)]
pub(crate) struct EnvtestFlags {
    /// Directory to create. The default is holdfast/envtest in the user's data directory
    #[arg(long, value_name = "DIR")]
    dir: Option<PathBuf>,

    /// Controllers that run in every environment, as in the server's flag of this name; * includes the garbage
    /// collector and the namespace controller. If not set, none run, as in envtest
    #[arg(long, value_name = "NAMES", allow_hyphen_values = true)]
    controllers: Option<String>,

    /// Directory in which every environment keeps a timeline of its requests, as in the server's flag of this name
    #[arg(long, value_name = "DIR")]
    record: Option<PathBuf>,
}

/// Creates the directory and prints the lines to export. Explanations are written to the standard error.
pub(crate) fn run(flags: &EnvtestFlags) -> Result<()> {
    if let Some(names) = &flags.controllers {
        let names: Vec<&str> = names.split(',').collect();
        Selection::parse(&names)?;
    }
    let directory = match &flags.dir {
        Some(directory) => directory.clone(),
        None => usual_directory()?,
    };
    let binary = std::env::current_exe().context("cannot find this binary")?;
    let found = find("kubectl", &directory);
    let directory = make(&directory, &binary, found.as_deref())?;
    let mut lines = format!("export KUBEBUILDER_ASSETS={}\n", quoted(&directory)?);
    if let Some(names) = &flags.controllers {
        lines += &format!("export {CONTROLLERS}={}\n", quoted(Path::new(names))?);
    }
    if let Some(directory) = &flags.record {
        let directory = std::path::absolute(directory).context("--record")?;
        lines += &format!("export {RECORD}={}\n", quoted(&directory)?);
    }
    std::io::stdout().write_all(lines.as_bytes())?;
    if found.is_none() {
        let _ = writeln!(
            std::io::stderr(),
            "There is no kubectl in PATH. Tests that call it need one as {}",
            directory.join("kubectl").display()
        );
    }
    Ok(())
}

/// Returns the default directory (<https://specifications.freedesktop.org/basedir-spec/latest/>).
fn usual_directory() -> Result<PathBuf> {
    let absolute = |name: &str| {
        std::env::var_os(name)
            .map(PathBuf::from)
            .filter(|path| path.is_absolute())
    };
    let folder = absolute("XDG_DATA_HOME").or_else(|| Some(absolute("HOME")?.join(".local/share")));
    let data = folder.context("there is no home directory: use --dir")?;
    Ok(data.join("holdfast").join("envtest"))
}

/// Creates the links, including one to kubectl if there is one; returns the directory's absolute path.
fn make(directory: &Path, binary: &Path, kubectl: Option<&Path>) -> Result<PathBuf> {
    fs::create_dir_all(directory).with_context(|| format!("cannot make {}", directory.display()))?;
    let directory = fs::canonicalize(directory).with_context(|| format!("cannot find {}", directory.display()))?;
    for role in [Role::ApiServer, Role::Etcd] {
        link(binary, &directory.join(role.name()))?;
    }
    if let Some(kubectl) = kubectl {
        link(kubectl, &directory.join("kubectl"))?;
    }
    Ok(directory)
}

/// Creates a link and replaces the previous one. A file that is not a link is a program of the user.
fn link(target: &Path, path: &Path) -> Result<()> {
    match fs::symlink_metadata(path) {
        Ok(there) if !there.is_symlink() => bail!(
            "{} is there already and is no link: use an empty directory",
            path.display()
        ),
        Ok(_) if fs::read_link(path).is_ok_and(|old| old == target) => return Ok(()),
        Ok(_) => fs::remove_file(path).with_context(|| format!("cannot replace {}", path.display()))?,
        Err(_) => {}
    }
    symlink(target, path).with_context(|| format!("cannot make the link {}", path.display()))
}

/// Returns the program of this name in `PATH`, except for one in `directory`.
fn find(name: &str, directory: &Path) -> Option<PathBuf> {
    let own = fs::canonicalize(directory).ok();
    let path = std::env::var_os("PATH")?;
    let folders = std::env::split_paths(&path).filter(|folder| own.is_none() || fs::canonicalize(folder).ok() != own);
    let found = folders.map(|folder| folder.join(name)).find(|file| file.is_file())?;
    fs::canonicalize(found).ok()
}

/// Quotes a path for a shell.
fn quoted(path: &Path) -> Result<String> {
    let utf8 = path.to_str();
    let text = utf8.with_context(|| format!("{} is not UTF-8, which a shell may not accept", path.display()))?;
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"/._-+,@%:".contains(&byte);
    if !text.is_empty() && text.bytes().all(plain) {
        return Ok(text.to_owned());
    }
    Ok(format!("'{}'", text.replace('\'', r"'\''")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_directory_links_to_the_binary_and_can_be_made_again() {
        let folder = tempfile::tempdir().unwrap();
        let assets = folder.path().join("a/b");
        for binary in ["/usr/bin/one", "/usr/bin/two", "/usr/bin/two"] {
            let made = make(&assets, Path::new(binary), Some(Path::new("/usr/bin/kubectl"))).unwrap();
            for name in ["kube-apiserver", "etcd"] {
                assert_eq!(fs::read_link(made.join(name)).unwrap(), Path::new(binary));
            }
            assert!(fs::read_link(made.join("kubectl")).unwrap().ends_with("kubectl"));
        }
    }

    #[test]
    fn programs_of_others_stay() {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("etcd"), "a real one").unwrap();
        let error = make(folder.path(), Path::new("/usr/bin/one"), None).unwrap_err();
        assert!(error.to_string().contains("is no link"), "{error}");
        assert_eq!(fs::read_to_string(folder.path().join("etcd")).unwrap(), "a real one");
    }

    #[test]
    fn shells_read_what_is_printed() {
        let quoted = |text: &str| quoted(Path::new(text)).unwrap();
        assert_eq!(quoted("/a/b-c_1.2"), "/a/b-c_1.2");
        assert_eq!(quoted("/a b/$HOME"), "'/a b/$HOME'");
        assert_eq!(quoted("it's"), r"'it'\''s'");
        assert_eq!(quoted("*"), "'*'");
    }
}
