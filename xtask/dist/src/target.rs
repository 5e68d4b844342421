//! Targets of a release.

use std::fmt;
use std::str::FromStr;

use anyhow::{Error, Result, bail};

/// A platform, as Rust names it and as others name it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Target {
    triple: String,
    /// Name of the operating system in Go and in images.
    pub(crate) system: &'static str,
    /// Name of the architecture in Go, images and Debian packages.
    pub(crate) architecture: &'static str,
}

impl Target {
    /// Returns the target of this machine.
    pub(crate) fn for_this_machine() -> Result<Self> {
        let triple = match (std::env::consts::OS, std::env::consts::ARCH) {
            ("linux", architecture) => format!("{architecture}-unknown-linux-gnu"),
            ("macos", architecture) => format!("{architecture}-apple-darwin"),
            (system, _) => bail!("no release is made on {system}"),
        };
        triple.parse()
    }

    /// The name in Rust.
    pub(crate) fn triple(&self) -> &str {
        &self.triple
    }

    /// True if a build needs another linker than that of this machine.
    pub(crate) fn is_foreign(&self) -> bool {
        !Self::for_this_machine().is_ok_and(|own| own == *self)
    }

    /// True if programs for this target run on this machine.
    pub(crate) fn runs_here(&self) -> bool {
        Self::for_this_machine().is_ok_and(|own| own.system == self.system && own.architecture == self.architecture)
    }
}

impl FromStr for Target {
    type Err = Error;

    fn from_str(triple: &str) -> Result<Self> {
        let architecture = match triple.split('-').next() {
            Some("x86_64") => "amd64",
            Some("aarch64") => "arm64",
            _ => bail!("{triple}: only x86_64 and aarch64 are supported"),
        };
        let system = match triple {
            _ if triple.ends_with("-unknown-linux-musl") || triple.ends_with("-unknown-linux-gnu") => "linux",
            _ if triple.ends_with("-apple-darwin") => "darwin",
            _ => bail!("{triple}: only linux-musl, linux-gnu and apple-darwin are supported"),
        };
        Ok(Self {
            triple: triple.to_owned(),
            system,
            architecture,
        })
    }
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.triple)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn targets_have_the_names_of_go() {
        let target: Target = "aarch64-unknown-linux-musl".parse().unwrap();
        assert_eq!((target.system, target.architecture), ("linux", "arm64"));
        let target: Target = "x86_64-apple-darwin".parse().unwrap();
        assert_eq!((target.system, target.architecture), ("darwin", "amd64"));
    }

    #[test]
    fn unsupported_targets_are_rejected() {
        for triple in ["riscv64gc-unknown-linux-gnu", "x86_64-pc-windows-msvc", ""] {
            assert!(triple.parse::<Target>().is_err(), "{triple}");
        }
    }
}
