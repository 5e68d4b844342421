//! A disk that can be full: a file system in memory, in a mount namespace of its own, so that an ordinary user can
//! create it if the system lets users create namespaces.

use std::io::{self, BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};

/// File system of its own, for as long as the value lives.
pub(super) struct Disk {
    /// Keeps the namespace, until its input ends.
    holder: Child,
    _input: Option<ChildStdin>,
    folder: PathBuf,
}

impl Disk {
    /// Creates a file system of this size in bytes at `folder`, which other processes do not see.
    pub(super) fn new(folder: &Path, bytes: u64) -> io::Result<Self> {
        let script = r#"mount -t tmpfs -o "size=$1" tmpfs "$0" && echo mounted && read -r _"#;
        let mut holder = Command::new("unshare")
            .args(["--user", "--map-root-user", "--mount", "sh", "-c", script])
            .arg(folder)
            .arg(bytes.to_string())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()?;
        let mut line = String::new();
        if let Some(output) = holder.stdout.take() {
            BufReader::new(output).read_line(&mut line)?;
        }
        let disk = Self {
            _input: holder.stdin.take(),
            holder,
            folder: folder.to_owned(),
        };
        match line.trim() {
            "mounted" => Ok(disk),
            _ => Err(io::Error::other("a file system in memory cannot be mounted")),
        }
    }

    /// Returns a command that sees it.
    pub(super) fn command(&self, program: &Path) -> Command {
        let mut command = Command::new("nsenter");
        command
            .args(["--user", "--mount", "--preserve-credentials", "--target"])
            .arg(self.holder.id().to_string())
            .arg(program);
        command
    }

    /// Fills all remaining space.
    pub(super) fn fill(&self) -> io::Result<()> {
        let mut fill = self.command(Path::new("dd"));
        fill.arg("if=/dev/zero")
            .arg(format!("of={}", self.filler().display()))
            .args(["bs=64k", "status=none"])
            .stderr(Stdio::null());
        // It ends when no space is left.
        fill.status().map(drop)
    }

    /// Gives that room back.
    pub(super) fn clear(&self) -> io::Result<()> {
        let mut clear = self.command(Path::new("rm"));
        match clear.arg("-f").arg(self.filler()).status()?.success() {
            true => Ok(()),
            false => Err(io::Error::other("the room cannot be given back")),
        }
    }

    fn filler(&self) -> PathBuf {
        self.folder.join("filler")
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        // The process may have exited already.
        let _ = self.holder.kill();
        let _ = self.holder.wait();
    }
}
