#![forbid(unsafe_code)]
//! Passes on the path of the enums of rules, which the build script of `holdfast-kind-tables` generates.

use std::error::Error;
use std::io::Write as _;

fn main() -> Result<(), Box<dyn Error>> {
    let path = std::env::var("DEP_HOLDFAST_KIND_TABLES_RULE_ENUMS")?;
    let mut out = std::io::stdout();
    writeln!(out, "cargo::rerun-if-changed=build.rs")?;
    writeln!(out, "cargo::rustc-env=RULE_ENUMS={path}")?;
    Ok(())
}
