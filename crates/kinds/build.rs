#![forbid(unsafe_code)]
//! Passes on the path of the enums of rules, which the build script of `holdfast-kind-tables` generates, and writes the lines of the
//! table of default roles.

use std::error::Error;
use std::io::Write as _;
use std::path::{Path, PathBuf};

use holdfast_table_source::{Source, role_lines};

/// Table of the default roles.
const ROLES: &str = "src/rbac/bootstrap.toml";

fn main() -> Result<(), Box<dyn Error>> {
    let path = std::env::var("DEP_HOLDFAST_KIND_TABLES_RULE_ENUMS")?;
    let mut out = std::io::stdout();
    writeln!(out, "cargo::rerun-if-changed=build.rs")?;
    writeln!(out, "cargo::rustc-env=RULE_ENUMS={path}")?;
    writeln!(out, "cargo::rerun-if-changed={ROLES}")?;
    let lines = role_lines(&Source::read("kinds", Path::new(ROLES))?)?;
    let folder = PathBuf::from(std::env::var("OUT_DIR")?);
    std::fs::write(folder.join("bootstrap.txt"), lines)?;
    Ok(())
}
