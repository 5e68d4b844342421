//! Manifests with their places in files.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use anyhow::Result;
use holdfast_value::{Limits, Value, yaml};

use super::findings::{Finding, Place, Problem, Rule};
use crate::apply::manifests::{files_at, text_of};
use crate::files;

/// Group of files that tools read and that no server knows.
const KUSTOMIZE_GROUP: &str = "kustomize.config.k8s.io/";

/// Maximum depth of directories below a given one.
const MAX_DIRECTORY_DEPTH: usize = 32;

/// File or directory that a field manager applies.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Source {
    pub(super) manager: String,
    pub(super) path: PathBuf,
}

/// Object to check.
#[derive(Debug)]
pub(super) struct Manifest {
    pub(super) place: Place,
    pub(super) manager: String,
    pub(super) object: Value,
    /// Text of the document, if the object is the only one in it. Repeated keys are visible only in the text.
    pub(super) text: Option<String>,
}

impl Manifest {
    /// Returns the text at `path`, or an empty one.
    pub(super) fn text_at(&self, path: &[&str]) -> &str {
        self.object.str_at(path).unwrap_or_default()
    }
}

/// Returns the objects in the files and directories, in their order. Adds a finding for each document that cannot be read.
///
/// # Errors
/// If a file or directory cannot be read.
pub(super) fn read(sources: &[Source], recursive: bool, findings: &mut Vec<Finding>) -> Result<Vec<Manifest>> {
    let mut reader = Reader {
        manifests: Vec::new(),
        findings,
    };
    for source in sources {
        let mut paths = BTreeSet::from([source.path.clone()]);
        if recursive {
            add_directories(&source.path, MAX_DIRECTORY_DEPTH, &mut paths)?;
        }
        for path in paths {
            for file in files_at(&path)? {
                let text = text_of(&file)?;
                reader.read_file(&file, &source.manager, &text);
            }
        }
    }
    Ok(reader.manifests)
}

/// Adds the directories below `path`. Symbolic links are not followed.
fn add_directories(path: &Path, depth: usize, directories: &mut BTreeSet<PathBuf>) -> Result<()> {
    if depth == 0 || !path.is_dir() {
        return Ok(());
    }
    for entry in std::fs::read_dir(path)? {
        let entry = entry?;
        if entry.file_type()?.is_dir() {
            let directory = entry.path();
            directories.insert(directory.clone());
            add_directories(&directory, depth - 1, directories)?;
        }
    }
    Ok(())
}

struct Reader<'a> {
    manifests: Vec<Manifest>,
    findings: &'a mut Vec<Finding>,
}

impl Reader<'_> {
    fn read_file(&mut self, file: &Path, manager: &str, text: &str) {
        for document in files::documents(text) {
            let mut place = Place {
                file: file.to_owned(),
                line: document.line,
            };
            let object = match yaml::parse(document.text.as_bytes(), &Limits::REQUEST) {
                Ok(object) => object,
                Err(error) => {
                    let line = error.position().map_or(1, |position| position.line);
                    place.line += line - 1;
                    self.add_problem(place, Problem::new(Rule::Syntax, error.to_string()));
                    continue;
                }
            };
            // A document of comments has no object.
            if object.is_null() {
                continue;
            }
            match object.get("items").and_then(Value::as_list) {
                Some(items) if object.str_at(&["kind"]) == Some("List") => {
                    for item in items.iter() {
                        self.add(place.clone(), manager, item.clone(), None);
                    }
                }
                _ => self.add(place, manager, object, Some(document.text)),
            }
        }
    }

    fn add(&mut self, place: Place, manager: &str, object: Value, text: Option<String>) {
        let manifest = Manifest {
            place,
            manager: manager.to_owned(),
            object,
            text,
        };
        if manifest.text_at(&["apiVersion"]).starts_with(KUSTOMIZE_GROUP) {
            return;
        }
        let is_missing = |path: &[&str]| manifest.text_at(path).is_empty();
        let missing = match () {
            () if is_missing(&["apiVersion"]) => "apiVersion",
            () if is_missing(&["kind"]) => "kind",
            () if is_missing(&["metadata", "name"]) && is_missing(&["metadata", "generateName"]) => "metadata.name",
            () => {
                self.manifests.push(manifest);
                return;
            }
        };
        let problem = Problem::new(Rule::Syntax, format!("the object has no {missing}"));
        self.add_problem(manifest.place, problem);
    }

    fn add_problem(&mut self, place: Place, problem: Problem) {
        self.findings.push(Finding::without_object(place, problem));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn manifests_have_lines_and_documents_findings() {
        let folder = tempfile::tempdir().unwrap();
        let below = folder.path().join("below");
        std::fs::create_dir(&below).unwrap();
        let pod = "apiVersion: v1\nkind: Pod\nmetadata: {name: a}\n";
        let kustomization = "apiVersion: kustomize.config.k8s.io/v1beta1\nkind: Kustomization\n";
        let text = format!("# first\n---\n{pod}---\n{kustomization}---\nkind: Pod\n---\na: b\nc: [\n---\n");
        std::fs::write(below.join("a.yaml"), text).unwrap();
        let sources = [Source {
            manager: "team".to_owned(),
            path: folder.path().to_owned(),
        }];
        let mut findings = Vec::new();
        assert!(read(&sources, false, &mut findings).unwrap().is_empty() && findings.is_empty());
        let manifests = read(&sources, true, &mut findings).unwrap();
        let found: Vec<_> = manifests
            .iter()
            .map(|manifest| (manifest.place.line, manifest.manager.as_str(), manifest.text.as_deref()))
            .collect();
        assert_eq!(found, [(3, "team", Some(pod))]);
        let lines: Vec<_> = findings
            .iter()
            .map(|finding| (finding.place.line, finding.rule))
            .collect();
        assert_eq!(lines.first(), Some(&(10, Rule::Syntax)));
        assert_eq!(lines.len(), 2);
        assert!(lines.iter().all(|(line, _)| *line >= 10));
    }
}
