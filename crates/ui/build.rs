//! Compresses the files of `dist`, which `cargo xtask ui` builds from the sources in `ui`, and names their versions.

#![allow(clippy::print_stdout, reason = "Cargo reads these lines")]

use std::env;
use std::fmt::Write as _;
use std::fs;
use std::io::Write as _;
use std::path::Path;

use anyhow::{Context as _, Result};
use data_encoding::BASE64URL_NOPAD;
use flate2::Compression;
use flate2::write::GzEncoder;
use sha2::{Digest as _, Sha256};

/// Files and their media types.
const FILES: [(&str, &str); 5] = [
    ("index.html", "text/html; charset=utf-8"),
    ("app.css", "text/css; charset=utf-8"),
    ("app.js", "text/javascript; charset=utf-8"),
    ("icon.svg", "image/svg+xml"),
    ("licenses.txt", "text/plain; charset=utf-8"),
];

/// Number of bytes of the hash in the name of a version.
const ETAG_BYTES: usize = 16;

fn main() -> Result<()> {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-changed=dist");
    let folder = env::var_os("OUT_DIR").context("OUT_DIR is not set")?;
    let target = Path::new(&folder);
    let mut table = format!("const FILES: [File; {}] = [\n", FILES.len());
    for (name, media_type) in FILES {
        let content = fs::read(Path::new("dist").join(name)).with_context(|| format!("dist/{name}"))?;
        let digest = Sha256::digest(&content);
        let version: Vec<u8> = digest.into_iter().take(ETAG_BYTES).collect();
        let etag = BASE64URL_NOPAD.encode(&version);
        let mut encoder = GzEncoder::new(Vec::new(), Compression::best());
        encoder.write_all(&content)?;
        let path = target.join(format!("{name}.gz"));
        fs::write(&path, encoder.finish()?)?;
        writeln!(
            table,
            "    File {{ name: {name:?}, media_type: {media_type:?}, etag: \"\\\"{etag}\\\"\", gzip: include_bytes!({path:?}) }},"
        )?;
    }
    table.push_str("];\n");
    fs::write(target.join("files.rs"), table)?;
    Ok(())
}
