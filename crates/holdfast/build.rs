//! Stamps packages with commit, tree state and date, orders the functions of packages for a quick start, and limits how
//! much freed memory the C library keeps.
//!
//! Only the profile `dist`, which packages and benchmarks use, is stamped: a stamp would make every commit and every edit
//! rebuild this crate. Other builds report the values of an unstamped Kubernetes build. The environment variables
//! `HOLDFAST_GIT_COMMIT` and `HOLDFAST_GIT_TREE_STATE` replace what git reports, and stamp any profile. `SOURCE_DATE_EPOCH`
//! sets the date, so that builds can be reproduced.

#![allow(clippy::print_stdout, reason = "Cargo reads these lines")]

use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;
use std::{env, fs};

use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;

/// Sections of the program, and the files that list their functions. `cargo xtask order` writes the files: the functions that
/// every start runs, and those that only the first start runs.
const ORDER: [(&str, &str); 2] = [
    (".text.start", "link-order.txt"),
    (".text.first", "link-order-first.txt"),
];

/// Target for which Rust ships a linker that reads such a script.
const TARGET: &str = "x86_64-unknown-linux-gnu";

/// First version of glibc that reads packed relocations.
const PACKED_RELOCATIONS: (u32, u32) = (2, 36);

/// Environment variable that makes the program compatible with older versions of glibc.
const OLD_GLIBC: &str = "HOLDFAST_OLD_GLIBC";

/// Source of the settings of the C library's allocator. Rust can call `mallopt` in unsafe code only.
const ALLOCATOR: &str = "src/allocator.c";

/// Environment variable with the commit of the build.
const COMMIT: &str = "HOLDFAST_GIT_COMMIT";

/// Environment variable with the state of the work tree.
const TREE_STATE: &str = "HOLDFAST_GIT_TREE_STATE";

/// Commit of a build without git and without a stamp.
const NO_COMMIT: &str = "0000000000000000000000000000000000000000";

/// Tree state of a build without git and without a stamp.
const NO_TREE: &str = "archive";

/// Date of a build without a stamp, the same as Kubernetes'.
const NO_DATE: &str = "1970-01-01T00:00:00Z";

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    for variable in [COMMIT, TREE_STATE, "SOURCE_DATE_EPOCH", OLD_GLIBC] {
        println!("cargo::rerun-if-env-changed={variable}");
    }
    set_up_allocator();
    let is_package = is_package();
    if is_package && links_with_own_linker() {
        order_functions();
        pack_relocations();
    }
    let stamp = if is_package || variable(COMMIT).is_some() {
        watch_sources();
        Stamp::from_git()
    } else {
        Stamp::none()
    };
    let compiler_version = env::var("RUSTC").ok().and_then(|rustc| output(&rustc, &["--version"]));
    let compiler = compiler_version.iter().flat_map(|version| version.split(' ')).take(2);
    for (variable, value) in [
        (COMMIT, stamp.commit),
        (TREE_STATE, stamp.tree_state),
        ("HOLDFAST_BUILD_DATE", stamp.date),
        ("HOLDFAST_COMPILER", compiler.collect::<Vec<_>>().join(" ")),
    ] {
        println!("cargo::rustc-env={variable}={value}");
    }
}

/// Links the settings of the allocator into the program. Other C libraries than glibc have no such settings.
fn set_up_allocator() {
    println!("cargo::rerun-if-changed={ALLOCATOR}");
    if variable("CARGO_CFG_TARGET_ENV").is_some_and(|environment| environment == "gnu") {
        for object in cc::Build::new().file(ALLOCATOR).compile_intermediates() {
            println!("cargo::rustc-link-arg-bins={}", object.display());
        }
    }
}

/// True if this is a build of the profile `dist`. Cargo only reports to build scripts if a profile derives from
/// `release`, but the output folder has the profile's name: `target/PROFILE/build/PACKAGE/out`, or
/// `target/TARGET/PROFILE/…`.
fn is_package() -> bool {
    let folder = env::var("OUT_DIR").unwrap_or_default();
    let profile = Path::new(&folder).ancestors().nth(3).and_then(Path::file_name);
    profile.is_some_and(|name| name == "dist")
}

/// Runs this script again after each commit, checkout and change of a source.
fn watch_sources() {
    if let Some(log) = output("git", &["rev-parse", "--git-path", "logs/HEAD"]) {
        println!("cargo::rerun-if-changed={log}");
    }
    println!("cargo::rerun-if-changed=..");
}

/// True if the build uses the linker that Rust ships for this target, which is the default.
fn links_with_own_linker() -> bool {
    let is_target = env::var("TARGET").is_ok_and(|target| target == TARGET);
    let flags = env::var("CARGO_ENCODED_RUSTFLAGS").unwrap_or_default();
    let is_default = env::var_os("RUSTC_LINKER").is_none() && !flags.contains("link");
    is_target && is_default && ships_linker()
}

/// Makes the linker place the functions of a start next to each other.
fn order_functions() {
    let script = Path::new(&env::var("OUT_DIR").unwrap_or_default()).join("order.ld");
    // Without the script the program does the same and uses more memory.
    let names = ORDER.map(|(section, file)| (section, fs::read_to_string(file).unwrap_or_default()));
    for (_, file) in ORDER {
        println!("cargo::rerun-if-changed={file}");
    }
    if fs::write(&script, script_of(&names)).is_ok() {
        println!("cargo::rustc-link-arg-bins=-Wl,-T,{}", script.display());
    }
}

/// Makes the linker write relocations as bits: 14 KB instead of 1.2 MB, all of which a start reads. Only machines whose glibc
/// reads this format get it, such as the one that builds.
fn pack_relocations() {
    let version = output("getconf", &["GNU_LIBC_VERSION"]);
    let is_supported = version
        .as_deref()
        .and_then(|text| text.trim().strip_prefix("glibc "))
        .and_then(|text| text.split_once('.'))
        .and_then(|(major, minor)| Some((major.parse().ok()?, minor.parse().ok()?)))
        .is_some_and(|version: (u32, u32)| version >= PACKED_RELOCATIONS);
    if is_supported && env::var_os("HOST") == env::var_os("TARGET") && env::var_os(OLD_GLIBC).is_none() {
        println!("cargo::rustc-link-arg-bins=-Wl,-z,pack-relative-relocs");
    }
}

/// Returns the linker script that places the listed functions first, in sections of these names. The compiler gives each
/// function a section of its own. The name of a Rust function ends with a hash, which the lists contain if several functions
/// share the name.
///
/// Hashes change with versions and features. Functions with a listed name and another hash come next: they include listed
/// functions whose hash has changed, and are a fifth of the program.
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
        // The compiler separates code that it considers unlikely. A start runs some of it.
        script.push_str(&format!("    *(.text.{pattern} .text.unlikely.{pattern})\n"));
    }
    script.push_str("  }\n");
}

/// Returns the name of a Rust function without its hash, such as `17h0123456789abcdefE`. None if it has no hash.
fn without_hash(name: &str) -> Option<&str> {
    let (bare, hash) = name.rsplit_once("17h")?;
    (name.starts_with("_ZN") && hash.len() == 17 && hash.ends_with('E')).then_some(bare)
}

/// True if the compiler ships a linker. It then links with that one by default.
fn ships_linker() -> bool {
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

/// Identity of a build, as `/version` reports it.
struct Stamp {
    commit: String,
    /// `clean`, `dirty`, or `archive` without git.
    tree_state: String,
    /// RFC 3339.
    date: String,
}

impl Stamp {
    /// Returns the stamp of a build that is no package.
    fn none() -> Self {
        Self {
            commit: NO_COMMIT.to_owned(),
            tree_state: NO_TREE.to_owned(),
            date: NO_DATE.to_owned(),
        }
    }

    /// Returns the stamp of the checkout, unless the environment gives another.
    fn from_git() -> Self {
        let date = date();
        let Some(commit) = variable(COMMIT).or_else(|| output("git", &["rev-parse", "HEAD"])) else {
            return Self { date, ..Self::none() };
        };
        let tree_state = variable(TREE_STATE).unwrap_or_else(|| {
            match output("git", &["status", "--porcelain", "--untracked-files=no"]) {
                Some(changes) if changes.is_empty() => "clean".to_owned(),
                Some(_) => "dirty".to_owned(),
                None => NO_TREE.to_owned(),
            }
        });
        Self {
            commit,
            tree_state,
            date,
        }
    }
}

/// Returns the value of an environment variable. None if it is not set or empty.
fn variable(name: &str) -> Option<String> {
    env::var(name).ok().filter(|value| !value.is_empty())
}

/// Returns the date of the build: now, or the one of `SOURCE_DATE_EPOCH`.
fn date() -> String {
    let epoch = variable("SOURCE_DATE_EPOCH").and_then(|text| text.parse().ok());
    let date = epoch
        .and_then(|seconds| OffsetDateTime::from_unix_timestamp(seconds).ok())
        .unwrap_or_else(OffsetDateTime::now_utc);
    let whole_seconds = date.replace_nanosecond(0).unwrap_or(date);
    whole_seconds.format(&Rfc3339).unwrap_or_default()
}

/// Returns what a program prints. None if it cannot be run or fails.
fn output(program: &str, arguments: &[&str]) -> Option<String> {
    let output = Command::new(program).args(arguments).output().ok()?;
    let text = String::from_utf8(output.stdout).ok()?;
    output.status.success().then(|| text.trim().to_owned())
}
