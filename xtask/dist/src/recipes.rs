//! Recipes of package managers: the templates of `packaging` with version, URLs and checksums.

use std::fs;

use anyhow::{Context as _, Result, ensure};

use crate::archive;
use crate::build::Binary;
use crate::release::{Release, root};

/// Templates below `packaging`, and the names of their results.
const TEMPLATES: [(&str, &str); 2] = [
    ("homebrew/holdfast.rb", "holdfast.rb"),
    ("krew/holdfast.yaml", "holdfast-krew.yaml"),
];

/// Lines of a template between these markers are kept only if the platform was built.
const BEGIN: &str = "# begin ";
const END: &str = "# end";

/// Adds the recipes.
pub(crate) fn add(release: &mut Release, binaries: &[Binary]) -> Result<()> {
    for (template, name) in TEMPLATES {
        let path = root().join("packaging").join(template);
        let text = fs::read_to_string(&path).with_context(|| path.display().to_string())?;
        let filled = fill(&text, release, binaries)?;
        release.put(name, filled.as_bytes())?;
    }
    Ok(())
}

fn fill(template: &str, release: &Release, binaries: &[Binary]) -> Result<String> {
    let platform = |binary: &Binary| format!("{}-{}", binary.target.system, binary.target.architecture);
    let mut text = String::new();
    let mut keep = true;
    for line in template.lines() {
        let words = line.trim_start();
        if let Some(name) = words.strip_prefix(BEGIN) {
            keep = binaries.iter().any(|binary| platform(binary).starts_with(name));
        } else if words == END {
            keep = true;
        } else if keep {
            text += line;
            text.push('\n');
        }
    }
    text = text.replace("@version@", release.version);
    for binary in binaries {
        let name = archive::name(release, binary);
        let checksum = release
            .checksum(&name)
            .with_context(|| format!("{name} is not in the release"))?;
        let platform = platform(binary);
        text = text
            .replace(&format!("@url {platform}@"), &release.url(&name))
            .replace(&format!("@sha256 {platform}@"), checksum);
    }
    ensure!(
        !text.contains("@url ") && !text.contains("@sha256 "),
        "a recipe has unknown platforms: {text}"
    );
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn filled(template: &str, triples: &[&str]) -> String {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("binary");
        fs::write(&path, "program").unwrap();
        let read = |triple: &&str| Binary::read(triple.parse().unwrap(), path.clone()).unwrap();
        let binaries: Vec<Binary> = triples.iter().map(read).collect();
        let url = Some("https://example.com".to_owned());
        let mut release = Release::new(folder.path().join("out"), url).unwrap();
        for binary in &binaries {
            let name = archive::name(&release, binary);
            release.put(&name, b"abc").unwrap();
        }
        let path = root().join("packaging").join(template);
        fill(&fs::read_to_string(path).unwrap(), &release, &binaries).unwrap()
    }

    #[test]
    fn recipes_contain_the_platforms_that_were_built() {
        for (template, _) in TEMPLATES {
            let text = filled(template, &["x86_64-unknown-linux-musl", "aarch64-apple-darwin"]);
            for part in ["linux-amd64.tar.gz", "darwin-arm64.tar.gz", "ba7816bf8f01cfea"] {
                assert!(text.contains(part), "{template}: {part}: {text}");
            }
            for part in ["linux-arm64", "darwin-amd64", "@", "# begin"] {
                assert!(!text.contains(part), "{template}: {part}: {text}");
            }
        }
    }
}
