//! The book in `docs`: the pages that are generated from the code, and the contents of the others.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::PathBuf;

use anyhow::{Context as _, Result, ensure};
use bytes::Bytes;
use http::Method;
use serde_json::Value;

use crate::client::{Connection, Target};
use crate::server::{Binary, Server, root};

/// Names of the pages that the binary writes, as arguments and as files.
const WRITTEN: [&str; 4] = ["flags", "feature-gates", "admission-plugins", "metrics"];

/// Paths of the health checks.
const HEALTH: [&str; 3] = ["/healthz", "/livez", "/readyz"];

/// A page of the reference.
pub struct Page {
    /// Path of its file.
    pub path: PathBuf,
    /// Its text.
    pub text: String,
}

/// Returns the reference pages that `binary` writes.
///
/// # Errors
/// If the binary cannot be run.
pub async fn reference(binary: &Binary) -> Result<Vec<Page>> {
    let mut pages = Vec::new();
    for name in WRITTEN {
        let output = binary.command().args(["reference", name]).output()?;
        ensure!(
            output.status.success(),
            "reference {name}: {}",
            String::from_utf8_lossy(&output.stderr)
        );
        pages.push(page(name, String::from_utf8(output.stdout)?));
    }
    let server = Server::start_with_default_controllers(binary, &[])?;
    let mut connection = Target::new(&server)?.connect().await?;
    pages.push(page("endpoints", endpoints(&mut connection).await?));
    Ok(pages)
}

fn page(name: &str, text: String) -> Page {
    Page {
        path: root().join(format!("docs/reference/{name}.md")),
        text,
    }
}

/// Returns the endpoints that a server serves.
async fn endpoints(connection: &mut Connection) -> Result<String> {
    let mut text = String::from(
        "# Endpoints\n\nThis page lists the endpoints of a server with the default flags. `--runtime-config` and `--feature-gates` enable \
         more APIs. Custom resources and aggregated servers add endpoints while the server runs.\n\n## Paths without resources\n\n",
    );
    let paths = get(connection, "/").await?;
    let of_resources = |path: &str| path.starts_with("/api/") || path.starts_with("/apis/");
    let mut checks = BTreeMap::<&str, Vec<&str>>::new();
    for path in strings(&paths, "paths").filter(|path| !of_resources(path)) {
        match HEALTH
            .into_iter()
            .find_map(|root| Some((root, path.strip_prefix(root)?.strip_prefix('/')?)))
        {
            Some((root, check)) => checks.entry(check).or_default().push(root),
            None => text += &format!("- `{path}`\n"),
        }
    }
    text += "\n## Health checks\n\nEach check has its own path, such as `/livez/ping`. `?exclude=CHECK` excludes a check from the result of a path.\n\n| check | part of |\n|---|---|\n";
    for (check, roots) in checks {
        let roots: Vec<String> = roots.iter().map(|root| format!("`{root}`")).collect();
        let _ = writeln!(text, "| `{check}` | {} |", roots.join(", "));
    }
    text += "\n## Resources\n\nThe path of a resource of group `G` and version `V` begins with `/apis/G/V/`. Without a group, it begins with \
             `/api/v1/`. If the resource is namespaced, `namespaces/NAMESPACE/RESOURCE` follows.\n\n\
             | group and version | resource | kind | namespaced | verbs |\n|---|---|---|---|---|\n";
    let groups = get(connection, "/apis").await?;
    let versions = array(&groups, "groups")
        .flat_map(|group| array(group, "versions"))
        .filter_map(|version| version.get("groupVersion")?.as_str());
    let mut rows = BTreeMap::new();
    for (at, version) in ["v1"].into_iter().chain(versions).enumerate() {
        let root = if at == 0 { "/api" } else { "/apis" };
        let list = get(connection, &format!("{root}/{version}")).await?;
        for resource in array(&list, "resources") {
            let named = |field: &str| resource.get(field).and_then(Value::as_str).unwrap_or_default();
            let namespaced = resource.get("namespaced").and_then(Value::as_bool).unwrap_or_default();
            let verbs: Vec<&str> = strings(resource, "verbs").collect();
            let row = format!(
                "| `{version}` | `{}` | {} | {} | {} |",
                named("name"),
                named("kind"),
                if namespaced { "yes" } else { "no" },
                verbs.join(", ")
            );
            rows.insert((version.to_owned(), named("name").to_owned()), row);
        }
    }
    for row in rows.values() {
        let _ = writeln!(text, "{row}");
    }
    Ok(text)
}

async fn get(connection: &mut Connection, path: &str) -> Result<Value> {
    let bytes = connection.send(Method::GET, path, "", Bytes::new()).await?;
    serde_json::from_slice(&bytes).with_context(|| path.to_owned())
}

fn array<'v>(value: &'v Value, field: &str) -> impl Iterator<Item = &'v Value> + use<'v> {
    value.get(field).and_then(Value::as_array).into_iter().flatten()
}

fn strings<'v>(value: &'v Value, field: &str) -> impl Iterator<Item = &'v str> + use<'v> {
    array(value, field).filter_map(Value::as_str)
}

/// Code block with a language.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Block<'t> {
    /// Commands for a shell.
    Commands(&'t str),
    /// Part of the output of the preceding commands.
    Output(&'t str),
}

impl<'t> Block<'t> {
    /// Returns the commands; `None` for output.
    pub fn commands(&self) -> Option<&'t str> {
        match self {
            Self::Commands(text) => Some(text),
            Self::Output(_) => None,
        }
    }
}

/// Returns the blocks marked `sh` and `text` of a page.
pub fn blocks(text: &str) -> Vec<Block<'_>> {
    let mut parts = text.split("\n```");
    parts.next();
    let mut blocks = Vec::new();
    // The text between two code blocks is every other part.
    for part in parts.step_by(2) {
        match part.split_once('\n') {
            Some(("sh", commands)) => blocks.push(Block::Commands(commands)),
            Some(("text", output)) => blocks.push(Block::Output(output)),
            _ => {}
        }
    }
    blocks
}

/// Returns the first line of `shown` that `printed` does not contain after the preceding ones. Any white space is
/// equal, and `…` matches anything.
pub fn missing<'t>(shown: &'t str, printed: &str) -> Option<&'t str> {
    let mut lines = printed.lines();
    shown.lines().find(|line| {
        let words: Vec<&str> = line.split_whitespace().collect();
        !lines.any(|printed| alike(&words, &printed.split_whitespace().collect::<Vec<_>>()))
    })
}

fn alike(shown: &[&str], printed: &[&str]) -> bool {
    match (shown, printed) {
        ([], []) => true,
        (["…", rest @ ..], printed) => {
            (0..=printed.len()).any(|at| printed.get(at..).is_some_and(|left| alike(rest, left)))
        }
        ([word, shown @ ..], [said, printed @ ..]) => word == said && alike(shown, printed),
        _ => false,
    }
}

/// Returns the files that a page links to, without the part behind `#`.
pub fn links(text: &str) -> Vec<String> {
    let targets = text.split("](").skip(1).filter_map(|rest| rest.split_once(')'));
    let files = targets.map(|(target, _)| target.split('#').next().unwrap_or_default());
    files
        .filter(|target| !target.is_empty() && !target.contains("://"))
        .map(str::to_owned)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_and_their_output_are_found() {
        let page = "# A\n\n```sh\nls\ncat a\n```\n```text\nb\n```\nwords\n```console\nrm\n```\n```sh\ntrue\n```\n";
        let found = [
            Block::Commands("ls\ncat a"),
            Block::Output("b"),
            Block::Commands("true"),
        ];
        assert_eq!(blocks(page), found);
    }

    #[test]
    fn output_is_compared_by_words_and_in_order() {
        let printed = "NAME  AGE\ndefault  Active   5s\nend";
        assert_eq!(missing("NAME AGE\ndefault Active …", printed), None);
        assert_eq!(missing("… 5s\nend", printed), None);
        assert_eq!(missing("end\nNAME AGE", printed), Some("NAME AGE"));
        assert_eq!(missing("default", printed), Some("default"));
    }

    #[test]
    fn links_to_files_are_found() {
        let text = "[a](b.md), [c](d/e.md#f), [g](#h) and [i](https://j.example)";
        assert_eq!(links(text), ["b.md", "d/e.md"]);
    }
}
