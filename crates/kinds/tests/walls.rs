//! The crate `resource` knows no kind: no text in its code names one.

#![allow(clippy::unwrap_used)]

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use holdfast_kinds::{Config, registry};

/// Texts of the crate that are names of kinds too, each with the reason why it stands there.
const ALLOWED: [(&str, &str); 3] = [
    (
        "namespace",
        "objects of any kind have one in their metadata and in their path",
    ),
    ("namespaces", "paths of objects within a namespace begin so"),
    (
        "Event",
        "apimachinery lets no event own anything, of whatever kind that is",
    ),
];

#[test]
fn the_crate_of_descriptors_names_no_kind() {
    let mut names = BTreeSet::new();
    for resource in registry(&Config::default()).unwrap().resources() {
        names.extend([&resource.kind, &resource.plural, &resource.singular].map(ToString::to_string));
    }
    assert!(names.contains("Pod") && names.contains("deployments"));
    let (mut found, mut used) = (Vec::new(), BTreeSet::new());
    for path in sources(Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../resource/src"))) {
        let text = fs::read_to_string(&path).unwrap();
        for literal in literals(code_of(&text)).iter().filter(|literal| !literal.contains(' ')) {
            let words = literal.split(|letter: char| !letter.is_ascii_alphanumeric());
            for word in words.filter(|word| names.contains(*word)) {
                match ALLOWED.iter().find(|(allowed, _)| *allowed == word) {
                    Some((allowed, _)) => drop(used.insert(*allowed)),
                    None => found.push(format!("{}: {literal:?}", path.display())),
                }
            }
        }
    }
    assert_eq!(found, Vec::<String>::new());
    let unused: Vec<_> = ALLOWED.iter().filter(|(allowed, _)| !used.contains(allowed)).collect();
    assert!(unused.is_empty(), "{unused:?}");
}

#[test]
fn literals_are_told_from_comments_and_tests() {
    let text = "/// \"a\"\nfn f(x: &'static str) -> char { g(\"b\\\"c\", 'd', '\"'); h(r#\"e\"#) } // \"i\"\n#[cfg(test)]\nmod tests { \"j\" }\n";
    assert_eq!(literals(code_of(text)), ["b\\\"c", "e"]);
}

/// The source files below a folder, without those of tests.
fn sources(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.extend(sources(&path));
        } else if path.file_name().is_some_and(|name| name != "tests.rs") {
            found.push(path);
        }
    }
    found
}

/// What of a file stands before its tests.
fn code_of(text: &str) -> &str {
    text.split("#[cfg(test)]").next().unwrap_or_default()
}

/// The texts in quotes, as they are written.
fn literals(code: &str) -> Vec<String> {
    let mut found = Vec::new();
    let mut rest = code;
    while let Some(at) = rest.find(['"', '/', '\'']) {
        let (_, here) = rest.split_at(at);
        rest = if here.starts_with("//") {
            here.split_once('\n').map_or("", |(_, behind)| behind)
        } else if let Some(behind) = here.strip_prefix("'\"'") {
            behind
        } else if let Some(text) = here.strip_prefix('"') {
            let mut escaped = false;
            let end = text.find(|letter| {
                let ends = letter == '"' && !escaped;
                escaped = letter == '\\' && !escaped;
                ends
            });
            let (literal, behind) = text.split_at(end.unwrap_or(text.len()));
            found.push(literal.to_owned());
            behind.strip_prefix('"').unwrap_or_default()
        } else {
            here.get(1..).unwrap_or_default()
        };
    }
    found
}
