//! Manifests in files and directories.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, bail};
use holdfast_value::{Limits, Value, yaml};

use crate::files;

/// Endings of manifests in directories, as in kubectl.
const ENDINGS: [&str; 3] = ["yaml", "yml", "json"];

const NO_INPUT: &str = "cannot read the standard input";

/// Returns the objects in the files and directories, in their order. The objects of a list are returned one by one.
pub(crate) fn read(paths: &[PathBuf]) -> Result<Vec<Value>> {
    let mut manifests = Vec::new();
    for path in paths {
        for file in files_at(path)? {
            let text = text_of(&file)?;
            let parsed = parse(&text, &mut manifests);
            parsed.with_context(|| file.display().to_string())?;
        }
    }
    if manifests.is_empty() {
        bail!("the files contain no objects");
    }
    Ok(manifests)
}

/// Returns the file, or the manifests of the directory in the order of their names.
pub(crate) fn files_at(path: &Path) -> Result<Vec<PathBuf>> {
    if !path.is_dir() {
        return Ok(vec![path.to_owned()]);
    }
    let shown = || format!("cannot read {}", path.display());
    let mut files = Vec::new();
    for entry in fs::read_dir(path).with_context(shown)? {
        let file = entry.with_context(shown)?.path();
        let ending = file.extension().and_then(|ending| ending.to_str()).unwrap_or_default();
        if ENDINGS.contains(&ending) && file.is_file() {
            files.push(file);
        }
    }
    files.sort();
    Ok(files)
}

/// Returns the text of the file; `-` is the standard input.
pub(crate) fn text_of(path: &Path) -> Result<String> {
    if path != Path::new("-") {
        return files::read_text(path);
    }
    let read = files::read_all(std::io::stdin().lock());
    String::from_utf8(read.context(NO_INPUT)?).context(NO_INPUT)
}

/// Adds the objects of each document.
fn parse(text: &str, manifests: &mut Vec<Value>) -> Result<()> {
    for document in files::documents(text) {
        let object = yaml::parse(document.text.as_bytes(), &Limits::REQUEST)?;
        let items = object.get("items").and_then(Value::as_list);
        match (object.str_at(&["kind"]), items) {
            _ if object.is_null() => {}
            (Some("List"), Some(items)) => {
                for item in items.iter() {
                    add(item, manifests)?;
                }
            }
            _ => add(&object, manifests)?,
        }
    }
    Ok(())
}

fn add(object: &Value, manifests: &mut Vec<Value>) -> Result<()> {
    for path in [&["apiVersion"][..], &["kind"], &["metadata", "name"]] {
        if object.str_at(path).unwrap_or_default().is_empty() {
            bail!("an object has no {}", path.join("."));
        }
    }
    manifests.push(object.clone());
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn objects_are_read_from_files_and_directories() {
        let folder = tempfile::tempdir().unwrap();
        let object = |name: &str| format!("{{apiVersion: v1, kind: Pod, metadata: {{name: {name}}}}}\n");
        let write = |file: &str, text: String| fs::write(folder.path().join(file), text).unwrap();
        write(
            "b.yml",
            format!("---\n{}--- \n# nothing\n---\n{}", object("c"), object("d")),
        );
        write(
            "a.json",
            format!(
                "{{kind: List, apiVersion: v1, items: [{}, {}]}}",
                object("a"),
                object("b")
            ),
        );
        write("other.txt", "[".to_owned());
        let names = |paths: &[PathBuf]| {
            let manifests = read(paths).map_err(|error| format!("{error:#}"))?;
            let names = manifests
                .iter()
                .filter_map(|manifest| manifest.str_at(&["metadata", "name"]));
            Ok::<_, String>(names.collect::<Vec<_>>().join(""))
        };
        assert_eq!(names(&[folder.path().to_owned()]).unwrap(), "abcd");
        assert_eq!(names(&[folder.path().join("b.yml")]).unwrap(), "cd");
        write("b.yml", "kind: Pod".to_owned());
        assert!(
            names(&[folder.path().to_owned()])
                .unwrap_err()
                .ends_with("an object has no apiVersion")
        );
        write("a.json", String::new());
        assert_eq!(
            names(&[folder.path().join("a.json")]).unwrap_err(),
            "the files contain no objects"
        );
    }
}
