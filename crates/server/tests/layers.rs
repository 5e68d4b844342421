//! The layers of the folders in `src`: a folder imports only itself and folders before it.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

/// The folders in order, lowest first. `lib.rs` describes them.
const LAYERS: [&str; 12] = [
    "runtime",
    "wire",
    "http",
    "objects",
    "identity",
    "metrics",
    "webhooks",
    "representation",
    "read",
    "write",
    "api",
    "operations",
];

/// The exported macros, which are at the root of the crate regardless of the file that defines them.
const MACROS: [(&str, &str); 1] = [("verify_signatures", "wire")];

/// The imports that still violate the order: a file and the folder that it imports. This list only shrinks.
const ALLOWED: [(&str, &str); 0] = [];

/// A token of a source; comments, strings and spaces are left out.
#[derive(Debug, PartialEq, Eq)]
enum Token<'s> {
    Name(&'s str),
    /// `::`
    Path,
    Mark(char),
}

fn tokens(source: &str) -> Vec<Token<'_>> {
    let (mut tokens, mut rest) = (Vec::new(), source);
    while let Some(first) = rest.chars().next() {
        let end = |length: Option<usize>| length.unwrap_or(rest.len());
        let taken = if rest.starts_with("//") {
            end(rest.find('\n'))
        } else if rest.starts_with("/*") {
            end(rest.find("*/").map(|at| at + 2))
        } else if let Some(length) = string_length(rest) {
            length
        } else if rest.starts_with("::") {
            tokens.push(Token::Path);
            2
        } else if first.is_alphanumeric() || first == '_' {
            let length = end(rest.find(|c: char| !c.is_alphanumeric() && c != '_'));
            tokens.push(Token::Name(&rest[..length]));
            length
        } else {
            if !first.is_whitespace() {
                tokens.push(Token::Mark(first));
            }
            first.len_utf8()
        };
        rest = &rest[taken..];
    }
    tokens
}

/// Returns the length of the string or character at the start of `rest`, if there is one.
fn string_length(rest: &str) -> Option<usize> {
    let raw = rest.trim_start_matches('b');
    let prefix = rest.len() - raw.len();
    if prefix <= 1 && raw.starts_with('r') {
        let hashes = raw[1..].len() - raw[1..].trim_start_matches('#').len();
        if raw[1 + hashes..].starts_with('"') {
            let end = format!("\"{}", "#".repeat(hashes));
            let body = prefix + 2 + hashes;
            return Some(rest[body..].find(&end).map_or(rest.len(), |at| body + at + end.len()));
        }
    }
    let quote = rest.chars().next().filter(|quote| matches!(quote, '"' | '\''))?;
    let mut chars = rest.char_indices().skip(1);
    while let Some((at, found)) = chars.next() {
        match found {
            '\\' => drop(chars.next()),
            _ if found == quote => return Some(at + 1),
            // A lifetime has no closing quote.
            _ if quote == '\'' && at > 1 && !rest[1..].starts_with('\\') => return None,
            _ => {}
        }
    }
    None
}

/// Returns the names directly below the crate root in the paths of `source`, which is the module `module`.
fn root_names<'s>(source: &'s str, module: &[&str]) -> BTreeSet<&'s str> {
    let tokens = tokens(source);
    let mut names = BTreeSet::new();
    // The depth of braces at which each inline module ends.
    let (mut depth, mut inline) = (0_usize, Vec::new());
    let mut at = 0;
    while at < tokens.len() {
        match &tokens[at..] {
            [Token::Name("mod"), Token::Name(_), Token::Mark('{'), ..] => {
                inline.push(depth);
                depth += 1;
                at += 3;
            }
            [Token::Mark('{'), ..] => {
                depth += 1;
                at += 1;
            }
            [Token::Mark('}'), ..] => {
                depth = depth.saturating_sub(1);
                if inline.last() == Some(&depth) {
                    inline.pop();
                }
                at += 1;
            }
            [Token::Name("crate"), Token::Path, path @ ..] => {
                first_names(path, &mut names);
                at += 2;
            }
            [Token::Name("super"), ..] => {
                let mut levels = 0;
                while let [Token::Name("super"), Token::Path, ..] = &tokens[at..] {
                    levels += 1;
                    at += 2;
                }
                if levels > 0 && levels == module.len() + inline.len() {
                    first_names(&tokens[at..], &mut names);
                }
                at += usize::from(levels == 0);
            }
            _ => at += 1,
        }
    }
    names
}

/// Collects the first names of a path that continues with `path`: one name, or those of a group in braces.
fn first_names<'s>(path: &[Token<'s>], names: &mut BTreeSet<&'s str>) {
    let group = match path {
        [Token::Name(name), ..] => {
            names.insert(*name);
            return;
        }
        [Token::Mark('{'), group @ ..] => group,
        _ => return,
    };
    let (mut depth, mut first) = (1, true);
    for token in group {
        match token {
            Token::Mark('{') => depth += 1,
            Token::Mark('}') => depth -= 1,
            Token::Mark(',') => first = depth == 1,
            Token::Name(name) if first => {
                names.insert(*name);
                first = false;
            }
            _ => {}
        }
        if depth == 0 {
            return;
        }
    }
}

/// Returns the imports of a file that violate the order of the layers, except those in `allowed`.
fn faults(file: &str, source: &str, allowed: &[(&str, &str)]) -> Vec<String> {
    let path = file.trim_end_matches(".rs").trim_end_matches("/mod");
    let module: Vec<&str> = path.split('/').collect();
    let layer = |name: &str| LAYERS.iter().position(|layer| *layer == name);
    let Some(own) = layer(module[0]) else {
        return vec![format!("{file} stands in no layer")];
    };
    let (mut faults, mut used) = (Vec::new(), BTreeSet::new());
    for name in root_names(source, &module) {
        let of_macro = MACROS.iter().find(|(known, _)| *known == name);
        let folder = of_macro.map_or(name, |(_, folder)| folder);
        match layer(folder) {
            None => faults.push(format!("{file} imports crate::{name}, which is no layer")),
            Some(other) if other <= own => {}
            Some(_) if allowed.contains(&(file, folder)) => {
                used.insert(folder);
            }
            Some(_) => faults.push(format!("{file} imports {folder}, which stands after {}", module[0])),
        }
    }
    let left = allowed
        .iter()
        .filter(|(of, folder)| *of == file && !used.contains(folder));
    faults.extend(left.map(|(_, folder)| format!("{file} no longer imports {folder}: allow it no longer")));
    faults
}

#[test]
fn a_folder_imports_only_folders_that_stand_before_it() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let (mut folders, mut found, mut all) = (vec![root.clone()], 0, Vec::new());
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else if path != root.join("lib.rs") {
                let file = path.strip_prefix(&root).unwrap().to_str().unwrap();
                all.extend(faults(file, &fs::read_to_string(&path).unwrap(), &ALLOWED));
                found += 1;
            }
        }
    }
    all.sort();
    assert!(found > LAYERS.len() && all.is_empty(), "{}", all.join("\n"));
}

#[test]
fn an_import_that_points_upwards_is_found_in_every_form() {
    let upward = ["read/list.rs imports api, which stands after read".to_owned()];
    for source in [
        "use crate::api::context::Context;",
        "use crate::{objects::{self, Entry}, api};",
        "use crate::{\n    objects, // crate::write\n    api::context,\n};",
        "fn f() { let _ = crate::api::handle(); }",
        "use super::super::api::handle;",
        "const TEXT: &str = \"\\\"\"; use crate::api::handle;",
        "fn f<'a>(a: &'a str) -> char { '\\'' } use crate::api::handle;",
        "const TEXT: &str = r#\"\"a\"#; use crate::api::handle;",
        "mod tests { use super::*; fn f() { super::super::super::api::handle(); } }",
        "mod tests { } use super::super::api::handle;",
    ] {
        assert_eq!(faults("read/list.rs", source, &[]), upward, "{source}");
    }
}

#[test]
fn an_import_that_points_downwards_or_is_text_is_no_fault() {
    for source in [
        "use crate::{http::ApiError, objects, read::items::Items};",
        "use super::items::Items; use super::super::objects::Entry;",
        "// use crate::api;\n/* crate::api */ /// [`crate::api`]",
        "const TEXT: &str = \"crate::api\"; const RAW: &str = r\"crate::api\";",
        "mod tests { use super::super::items; fn f() { { } super::super::api(); } }",
        "use other_crate::api; crate::verify_signatures!();",
    ] {
        assert_eq!(faults("read/list.rs", source, &[]), [""; 0], "{source}");
    }
}

#[test]
fn every_file_stands_in_a_layer() {
    assert_eq!(faults("extra.rs", "", &[]), ["extra.rs stands in no layer"]);
    assert_eq!(
        faults("read/mod.rs", "use crate::ApiError;", &[]),
        ["read/mod.rs imports crate::ApiError, which is no layer"]
    );
}

#[test]
fn allowed_imports_are_still_needed() {
    let allowed = [("read/list.rs", "api"), ("read/items.rs", "api")];
    assert_eq!(faults("read/list.rs", "use crate::api;", &allowed), [""; 0]);
    assert_eq!(
        faults("read/list.rs", "use crate::http;", &allowed),
        ["read/list.rs no longer imports api: allow it no longer"]
    );
}
