//! Names at the root of a crate: its modules, and the items that `lib.rs` imports or re-exports.

use std::collections::{BTreeMap, BTreeSet};

use super::source::Token;

/// Origin of a name at the root of a crate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Origin {
    /// Top-level module of this name: the name is a module, or an item that `lib.rs` re-exports from it.
    Module(String),
    /// Another crate.
    OtherCrate,
}

/// Returns the origins of the names at the root of a crate, by the tokens of its `lib.rs`. Items that `lib.rs` itself
/// defines have none.
pub(super) fn root_origins(tokens: &[Token<'_>]) -> BTreeMap<String, Origin> {
    let modules = modules(tokens);
    let mut origins = BTreeMap::new();
    for import in imports(tokens) {
        let absolute = import.path.strip_prefix(&["crate"]).unwrap_or(&import.path);
        let path = absolute.strip_prefix(&["self"]).unwrap_or(absolute);
        let (Some(first), Some(last)) = (path.first(), path.last()) else {
            continue;
        };
        let origin = match modules.contains(first) {
            true => Origin::Module((*first).to_owned()),
            false => Origin::OtherCrate,
        };
        origins.insert(import.alias.unwrap_or(last).to_owned(), origin);
    }
    origins.extend(
        modules
            .into_iter()
            .map(|name| (name.to_owned(), Origin::Module(name.to_owned()))),
    );
    origins
}

/// Returns the modules that `lib.rs` declares.
fn modules<'s>(tokens: &[Token<'s>]) -> BTreeSet<&'s str> {
    let declared = outer(tokens).filter_map(|rest| match rest {
        [Token::Name("mod"), Token::Name(name), ..] => Some(*name),
        _ => None,
    });
    declared.collect()
}

/// A name that a `use` brings into scope.
#[derive(Debug)]
struct Import<'s> {
    path: Vec<&'s str>,
    alias: Option<&'s str>,
}

/// Returns the imports at the top level of `lib.rs`.
fn imports<'s>(tokens: &[Token<'s>]) -> Vec<Import<'s>> {
    let mut found = Vec::new();
    for rest in outer(tokens) {
        if let [Token::Name("use"), tree @ ..] = rest {
            read_tree(tree, &[], &mut found);
        }
    }
    found
}

/// Reads a `use` tree below `prefix`, up to the comma, brace or semicolon that ends it. Returns the tokens after it.
fn read_tree<'t, 's>(mut rest: &'t [Token<'s>], prefix: &[&'s str], found: &mut Vec<Import<'s>>) -> &'t [Token<'s>] {
    let mut path = prefix.to_vec();
    let mut alias = None;
    loop {
        match rest {
            [Token::Name("as"), Token::Name(name), ..] => {
                alias = Some(*name);
                rest = &rest[2..];
            }
            [Token::Name("self"), ..] if !path.is_empty() => rest = &rest[1..],
            [Token::Name(name), ..] => {
                path.push(name);
                rest = &rest[1..];
            }
            [Token::Path, ..] => rest = &rest[1..],
            [Token::Mark('{'), group @ ..] => {
                rest = group;
                while !matches!(rest, [] | [Token::Mark('}'), ..]) {
                    rest = read_tree(rest, &path, found);
                    rest = rest.strip_prefix(&[Token::Mark(',')]).unwrap_or(rest);
                }
                return rest.get(1..).unwrap_or_default();
            }
            // A glob: its names are unknown.
            [Token::Mark('*'), ..] => return &rest[1..],
            _ => {
                found.push(Import { path, alias });
                return rest;
            }
        }
    }
}

/// Returns the rests of the tokens that begin outside all braces.
fn outer<'t, 's>(tokens: &'t [Token<'s>]) -> impl Iterator<Item = &'t [Token<'s>]> {
    let mut depth = 0_usize;
    tokens.iter().enumerate().filter_map(move |(at, token)| {
        match token {
            Token::Mark('{') => depth += 1,
            Token::Mark('}') => depth = depth.saturating_sub(1),
            _ => {}
        }
        (depth == 0).then(|| &tokens[at..])
    })
}
