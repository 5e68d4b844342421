//! Reader of sources: tokens, and the names that a module imports from the root of its crate.

use std::collections::BTreeSet;

/// A token of a source; comments, strings and spaces are left out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Token<'s> {
    Name(&'s str),
    /// `::`
    Path,
    Mark(char),
}

/// Returns the tokens of a source.
pub(super) fn tokens(source: &str) -> Vec<Token<'_>> {
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
pub(super) fn root_names<'s>(source: &'s str, module: &[&str]) -> BTreeSet<&'s str> {
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
        [Token::Mark('*'), ..] => {
            names.insert("*");
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
            Token::Mark('*') if first => drop(names.insert("*")),
            _ => {}
        }
        if depth == 0 {
            return;
        }
    }
}
