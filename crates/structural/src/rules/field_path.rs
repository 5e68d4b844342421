//! Paths of fields in rules: `.spec.name` and `['a key']`.

use holdfast_schema::FieldPath;

use crate::node::{Additional, Node};

/// Syntax for fields in a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Notation {
    /// `.a`, and `['a']` for names that are not identifiers.
    Bracketed,
    /// Only `.a`.
    Dotted,
}

impl Node {
    /// Returns the field below values of this schema that a rule names by `path`; the path of errors is relative to the
    /// value.
    ///
    /// # Errors
    /// If the path leads to no field.
    pub fn field_path(&self, path: &str) -> Result<FieldPath, String> {
        self.at_path(path, Notation::Bracketed).map(|(path, _)| path)
    }

    /// Returns the field that `path` leads to, and its schema, if it has one.
    ///
    /// upstream: k8s.io/apiextensions-apiserver/pkg/apiserver/schema/cel#ValidFieldPath
    ///
    /// # Errors
    /// If the path leads to no field.
    pub fn at_path(&self, path: &str, notation: Notation) -> Result<(FieldPath, Option<&Node>), String> {
        let mut tokens = Tokens(path);
        let (mut node, mut found) = (Some(self), FieldPath::default());
        while let Some(token) = tokens.next() {
            let name = match token {
                "." => tokens.expect()?.to_owned(),
                "[" if notation == Notation::Dotted => return Err("array notation is not allowed".to_owned()),
                "[" => {
                    let quoted = tokens.expect()?;
                    let inner = quoted
                        .strip_prefix('\'')
                        .and_then(|text| text.strip_suffix('\''))
                        .ok_or_else(|| format!("expected single quoted string but got {quoted}"))?;
                    let name = unescape(inner)?;
                    match tokens.expect()? {
                        "]" => name,
                        other => return Err(format!("expected ] but got {other}")),
                    }
                }
                other => return Err(format!("expected [ or . but got: {other}")),
            };
            let missing = || "does not refer to a valid field".to_owned();
            let parent = node.ok_or_else(missing)?;
            (node, found) = match &parent.additional {
                _ if !parent.properties.is_empty() => {
                    (Some(parent.property(&name).ok_or_else(missing)?), found.child(&name))
                }
                Additional::Schema(values) => (Some(&**values), found.key(&name)),
                Additional::Allowed(_) => (None, found.key(&name)),
                Additional::Unsaid => return Err(missing()),
            };
        }
        Ok((found, node))
    }
}

/// The parts of a path: `.`, `[`, `]`, quoted texts, and the text between them.
struct Tokens<'t>(&'t str);

impl<'t> Tokens<'t> {
    #[expect(clippy::indexing_slicing, reason = "the search begins behind the first byte")]
    fn next(&mut self) -> Option<&'t str> {
        let text = self.0;
        let first = text.chars().next()?;
        let bytes = text.as_bytes();
        let end = match first {
            '\'' => (1..bytes.len())
                .find(|at| bytes[*at] == b'\'' && bytes[at - 1] != b'\\')
                .map_or(text.len(), |at| at + 1),
            '.' | '[' | ']' => 1,
            _ => text.find(['.', '[', ']']).unwrap_or(text.len()),
        };
        let (token, rest) = text.split_at(end);
        self.0 = rest;
        Some(token)
    }

    fn expect(&mut self) -> Result<&'t str, String> {
        self.next().ok_or_else(|| "unexpected end of JSON path".to_owned())
    }
}

fn unescape(text: &str) -> Result<String, String> {
    let (mut out, mut letters) = (String::with_capacity(text.len()), text.chars());
    while let Some(letter) = letters.next() {
        if letter != '\\' {
            out.push(letter);
            continue;
        }
        out.push(match letters.next() {
            Some('a') => '\u{7}',
            Some('b') => '\u{8}',
            Some('f') => '\u{c}',
            Some('n') => '\n',
            Some('r') => '\r',
            Some('t') => '\t',
            Some('v') => '\u{b}',
            Some(itself @ ('\'' | '\\')) => itself,
            other => {
                let other = other.map(String::from).unwrap_or_default();
                return Err(format!("invalid string literal: invalid escape char \\{other}"));
            }
        });
    }
    Ok(out)
}

#[cfg(test)]
mod tests {
    use holdfast_value::{Limits, json};

    use super::*;
    use crate::JsonType;

    #[test]
    fn a_path_leads_through_properties_and_maps() {
        let schema = r#"{"type":"object","properties":{"o":{"type":"object","properties":{"x":{"type":"integer"},
            "a.b":{"type":"string"}}},"m":{"type":"object","additionalProperties":{"type":"object","properties":{"y":{
            "type":"string"}}}},"s":{"type":"string"}}}"#;
        let node = Node::read(&json::parse(schema.as_bytes(), &Limits::TRUSTED).unwrap());
        for (path, found) in [
            (".o.x", Ok("o.x")),
            (".o['a.b']", Ok("o.a.b")),
            ("['o']['x']", Ok("o.x")),
            (".m['k\\'s'].y", Ok("m[k's].y")),
            (".m.k", Ok("m[k]")),
            (".o.y", Err("does not refer to a valid field")),
            (".s.y", Err("does not refer to a valid field")),
            ("o", Err("expected [ or . but got: o")),
            (".", Err("unexpected end of JSON path")),
            (".o[0]", Err("expected single quoted string but got 0")),
            (".o['x'", Err("unexpected end of JSON path")),
            (".o['x'.y", Err("expected ] but got .")),
            (".m['\\q']", Err("invalid string literal: invalid escape char \\q")),
        ] {
            let result = node.field_path(path).map(|path| path.as_str().to_owned());
            assert_eq!(result.as_deref().map_err(String::as_str), found, "{path}");
        }
        let dotted = |path: &str| node.at_path(path, Notation::Dotted);
        assert_eq!(dotted(".m['k']").unwrap_err(), "array notation is not allowed");
        assert_eq!(dotted(".o.x").unwrap().1.unwrap().kind, Some(JsonType::Integer));
    }
}
