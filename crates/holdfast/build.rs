//! Finds out what this is a build of: the commit, whether its sources were changed, the date and the compiler.
//!
//! A build without a repository takes these from the environment: `HOLDFAST_GIT_COMMIT`, `HOLDFAST_GIT_TREE_STATE`. The
//! date is that of `SOURCE_DATE_EPOCH` where it is set, so that builds can be repeated.

#![allow(clippy::print_stdout, reason = "Cargo reads these lines")]

use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;
use std::{env, fs};

use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;

/// The functions that each start runs and those that the first alone runs, written by `cargo xtask order`.
const ORDER: [(&str, &str); 2] = [
    (".text.start", "link-order.txt"),
    (".text.first", "link-order-first.txt"),
];

/// The target for which Rust brings a linker that takes such a list.
const TARGET: &str = "x86_64-unknown-linux-gnu";

/// The first glibc that reads relocations which stand as bits.
const PACKED_RELOCATIONS: (u32, u32) = (2, 36);

/// Set where the program is to start with older ones, too.
const OLD_GLIBC: &str = "HOLDFAST_OLD_GLIBC";

const NO_COMMIT: &str = "0000000000000000000000000000000000000000";

fn main() {
    for variable in [
        "HOLDFAST_GIT_COMMIT",
        "HOLDFAST_GIT_TREE_STATE",
        "SOURCE_DATE_EPOCH",
        OLD_GLIBC,
    ] {
        println!("cargo::rerun-if-env-changed={variable}");
    }
    // The log of HEAD changes with every commit and checkout; what is built changes with the sources.
    if let Some(log) = output("git", &["rev-parse", "--git-path", "logs/HEAD"]) {
        println!("cargo::rerun-if-changed={log}");
    }
    println!("cargo::rerun-if-changed=..");
    if links_with_own_linker() {
        order_functions();
        pack_relocations();
    }
    let (commit, state) = source();
    let compiler = env::var("RUSTC").ok().and_then(|rustc| output(&rustc, &["--version"]));
    let compiler = compiler.unwrap_or_default();
    let compiler: Vec<&str> = compiler.split(' ').take(2).collect();
    for (variable, value) in [
        ("HOLDFAST_GIT_COMMIT", commit),
        ("HOLDFAST_GIT_TREE_STATE", state),
        ("HOLDFAST_BUILD_DATE", date()),
        ("HOLDFAST_COMPILER", compiler.join(" ")),
    ] {
        println!("cargo::rustc-env={variable}={value}");
    }
}

/// Whether a release is linked by the linker that Rust brings along for this target, as it is by default.
fn links_with_own_linker() -> bool {
    let is = |variable: &str, value: &str| env::var(variable).is_ok_and(|found| found == value);
    let flags = env::var("CARGO_ENCODED_RUSTFLAGS").unwrap_or_default();
    let usual = env::var_os("RUSTC_LINKER").is_none() && !flags.contains("link");
    is("TARGET", TARGET) && is("PROFILE", "release") && usual && brings_linker()
}

/// Has the linker put beside each other what a start runs.
fn order_functions() {
    let script = Path::new(&env::var("OUT_DIR").unwrap_or_default()).join("order.ld");
    // Without the script the program is the same, and takes more memory.
    let names = ORDER.map(|(section, file)| (section, fs::read_to_string(file).unwrap_or_default()));
    if fs::write(&script, script_of(&names)).is_ok() {
        println!("cargo::rustc-link-arg-bins=-Wl,-T,{}", script.display());
    }
}

/// Has the linker write as bits where addresses are to be set, 14 KB in the place of 1.2 MB, all of which a start reads. Only
/// for machines whose glibc knows them, such as the one that builds.
fn pack_relocations() {
    let version = output("getconf", &["GNU_LIBC_VERSION"]);
    let number = version.as_deref().and_then(|text| text.trim().strip_prefix("glibc "));
    let number = number.and_then(|text| text.split_once('.'));
    let number = number.and_then(|(major, minor)| Some((major.parse().ok()?, minor.parse().ok()?)));
    let knows = number.is_some_and(|number: (u32, u32)| number >= PACKED_RELOCATIONS);
    if knows && env::var_os("HOST") == env::var_os("TARGET") && env::var_os(OLD_GLIBC).is_none() {
        println!("cargo::rustc-link-arg-bins=-Wl,-z,pack-relative-relocs");
    }
}

/// The linker script that puts the functions of these names before all others, in sections of these names. Each stands in a
/// section of its own name; that of a Rust function ends with a hash, which is given where several have the name.
///
/// Hashes differ with versions and features. What has one of these names and another hash comes next: functions of the lists
/// are among it where their hashes changed, and it is a fifth of the program.
fn script_of(sections: &[(&str, String)]) -> String {
    let mut script = "SECTIONS\n{\n".to_owned();
    let mut alike = BTreeSet::new();
    for (section, names) in sections {
        let patterns = names.lines().map(|name| match without_hash(name) {
            Some(bare) => {
                alike.insert(format!("{bare}17h*"));
                format!("{name}*")
            }
            None if name.starts_with("_ZN") => format!("{name}17h*"),
            None => name.to_owned(),
        });
        add_section(&mut script, section, patterns);
    }
    add_section(&mut script, ".text.alike", alike.into_iter());
    script.push_str("}\nINSERT BEFORE .text;\n");
    script
}

fn add_section(script: &mut String, section: &str, patterns: impl Iterator<Item = String>) {
    script.push_str(&format!("  {section} : {{\n"));
    for pattern in patterns {
        // What the compiler takes for unlikely stands apart, and a start does some of it.
        script.push_str(&format!("    *(.text.{pattern} .text.unlikely.{pattern})\n"));
    }
    script.push_str("  }\n");
}

/// The name of a Rust function that is given with its hash, such as `17h0123456789abcdefE`, without that.
fn without_hash(name: &str) -> Option<&str> {
    let (bare, hash) = name.rsplit_once("17h")?;
    (name.starts_with("_ZN") && hash.len() == 17 && hash.ends_with('E')).then_some(bare)
}

/// Whether the compiler has a linker of its own, which it then links with.
fn brings_linker() -> bool {
    let rustc = env::var("RUSTC").unwrap_or_default();
    let folder = output(&rustc, &["--print", "sysroot"]);
    folder.is_some_and(|folder| {
        Path::new(&folder)
            .join("lib/rustlib")
            .join(TARGET)
            .join("bin/gcc-ld/ld.lld")
            .exists()
    })
}

/// The commit, and whether the sources are as it has them.
fn source() -> (String, String) {
    let variable_of = |variable| env::var(variable).ok().filter(|value| !value.is_empty());
    let commit = variable_of("HOLDFAST_GIT_COMMIT").or_else(|| output("git", &["rev-parse", "HEAD"]));
    let Some(commit) = commit else {
        return (NO_COMMIT.to_owned(), "archive".to_owned());
    };
    let found = || match output("git", &["status", "--porcelain", "--untracked-files=no"]) {
        Some(changes) if changes.is_empty() => "clean".to_owned(),
        Some(_) => "dirty".to_owned(),
        None => "archive".to_owned(),
    };
    (commit, variable_of("HOLDFAST_GIT_TREE_STATE").unwrap_or_else(found))
}

fn date() -> String {
    let epoch = env::var("SOURCE_DATE_EPOCH").ok().and_then(|text| text.parse().ok());
    let date = epoch.and_then(|seconds| OffsetDateTime::from_unix_timestamp(seconds).ok());
    let date = date.unwrap_or_else(OffsetDateTime::now_utc);
    let whole = date.replace_nanosecond(0).unwrap_or(date);
    whole.format(&Rfc3339).unwrap_or_default()
}

/// What a program prints; `None` where it cannot be run or fails.
fn output(program: &str, arguments: &[&str]) -> Option<String> {
    let output = Command::new(program).args(arguments).output().ok()?;
    let text = String::from_utf8(output.stdout).ok()?;
    output.status.success().then(|| text.trim().to_owned())
}
