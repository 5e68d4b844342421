//! Texts of paths, by which clients name fields in requests.

use std::fmt::Write as _;

use holdfast_value::{SmolStr, Value};

use crate::scan::Scanner;
use crate::{Key, Path, PathElement, Set};

/// Field or subtree, named by the text of its path in the form of conflict messages.
///
/// The text of a path does not tell where a name with dots ends: `.metadata.labels.app.kubernetes.io/name` is a path of
/// three elements. Therefore a text is compared with the texts of paths instead of being converted to a path. A name
/// with other special characters is written in brackets: `.data["a,b"]`.
///
/// ```
/// use holdfast_merge::{Path, PathElement, PathText};
///
/// let text = PathText::parse(r#".spec.ports[protocol="TCP",port=80]"#)?;
/// assert_eq!(text.as_str(), r#".spec.ports[port=80,protocol="TCP"]"#);
///
/// let mut path = Path::from_fields(["spec", "replicas"]);
/// assert!(PathText::parse(".spec")?.covers(&path));
/// assert!(!PathText::parse(".spec.rep")?.covers(&path));
/// # Ok::<(), holdfast_merge::PathTextError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct PathText(String);

/// Error of a text that is not a path.
///
/// ```
/// use holdfast_merge::PathText;
///
/// let error = PathText::parse("spec").unwrap_err();
/// assert_eq!((error.text.as_str(), error.at), ("spec", 0));
/// ```
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{text:?} is not the path of a field: {why} at byte {at}")]
pub struct PathTextError {
    /// The whole text.
    pub text: String,
    /// Description of the error.
    pub why: &'static str,
    /// Byte offset from 0.
    pub at: usize,
}

impl PathText {
    /// Maximum number of paths in one list.
    pub const MAX_PATHS: usize = 64;

    /// Parses the text of one path.
    ///
    /// # Errors
    /// If the text is not the path of a field.
    pub fn parse(text: &str) -> Result<Self, PathTextError> {
        let mut paths = Self::parse_list(text)?;
        match paths.pop() {
            Some(path) if paths.is_empty() => Ok(path),
            _ => Err(failed(text, 0, "expected one path")),
        }
    }

    /// Parses a list of paths, which are separated by commas.
    ///
    /// # Errors
    /// If the text contains something other than paths of fields, or too many of them.
    pub fn parse_list(text: &str) -> Result<Vec<Self>, PathTextError> {
        let mut scanner = Scanner::new(text);
        let mut paths = Vec::new();
        let parsed = loop {
            if paths.len() == Self::MAX_PATHS {
                break scanner.error("too many paths");
            }
            match path(&mut scanner) {
                Ok(path) => paths.push(Self(path)),
                Err(error) => break Err(error),
            }
            if !scanner.take(b',') {
                break scanner.end();
            }
        };
        parsed.map_err(|error| failed(text, error.at, error.what))?;
        Ok(paths)
    }

    /// Returns the text in the form of conflict messages.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// True if this names the path or a container around it.
    pub fn covers(&self, path: &[PathElement]) -> bool {
        let mut rest = self.0.as_str();
        for element in path {
            match strip_element(rest, element) {
                Some("") => return true,
                Some(more) => rest = more,
                None => return false,
            }
        }
        false
    }

    /// Returns the paths of this name in a set: paths that are members of the set or have members below them.
    pub fn find_in(&self, set: &Set) -> Set {
        let mut found = Set::new();
        find(&self.0, set, &mut Path::new(), &mut found);
        found
    }

    /// Returns the path of this name in an object, in which items of lists are identified by their positions. No schema is
    /// needed, but items must contain their key fields, except those with defaults.
    pub fn position_in(&self, object: &Value) -> Option<Path> {
        let mut path = Path::new();
        locate(&self.0, object, &mut path).then_some(path)
    }

    /// Returns the leaf of a set that this name lies in: a member that is a container around the name and has no members
    /// below it.
    pub fn leaf_around(&self, set: &Set) -> Option<Path> {
        let mut level = set.clone();
        let (mut rest, mut path) = (self.0.as_str(), Path::new());
        loop {
            let (element, more) = elements(&level).find_map(|element| {
                let more = strip_element(rest, element)?;
                more.starts_with(['.', '[']).then(|| (element.clone(), more))
            })?;
            level = level.with_prefix(&element);
            path.push(element);
            if level.is_empty() {
                return Some(path);
            }
            rest = more;
        }
    }
}

fn failed(text: &str, at: usize, why: &'static str) -> PathTextError {
    PathTextError {
        text: text.to_owned(),
        why,
        at,
    }
}

/// Returns the rest of the text after the element at its beginning. Formats only elements of lists, because objects have
/// many fields.
fn strip_element<'t>(text: &'t str, element: &PathElement) -> Option<&'t str> {
    match element {
        PathElement::Field(name) => text.strip_prefix('.')?.strip_prefix(name.as_str()),
        _ if text.starts_with('[') => text.strip_prefix(element.to_string().as_str()),
        _ => None,
    }
}

fn elements(set: &Set) -> impl Iterator<Item = &PathElement> {
    set.level().entries().map(|entry| entry.element())
}

fn find(text: &str, set: &Set, path: &mut Path, found: &mut Set) {
    for element in elements(set) {
        let Some(rest) = strip_element(text, element) else {
            continue;
        };
        path.push(element.clone());
        if rest.is_empty() {
            found.insert(path);
        } else {
            find(rest, &set.with_prefix(element), path, found);
        }
        path.pop();
    }
}

fn locate(text: &str, value: &Value, path: &mut Path) -> bool {
    if text.is_empty() {
        return true;
    }
    match value {
        Value::Map(map) => map.iter().any(|(name, child)| {
            let element = PathElement::Field(name.clone());
            let Some(rest) = strip_element(text, &element) else {
                return false;
            };
            path.push(element);
            let found = locate(rest, child, path);
            if !found {
                path.pop();
            }
            found
        }),
        Value::List(items) => {
            let mut scanner = Scanner::new(text);
            if !scanner.take(b'[') {
                return false;
            }
            let element = bracketed(&mut scanner).ok().filter(|_| scanner.take(b']'));
            let position = element.and_then(|element| position_of(&element, items));
            let item = position.and_then(|position| items.get(position).zip(i64::try_from(position).ok()));
            item.is_some_and(|(item, position)| {
                path.push(PathElement::Index(position));
                let found = locate(scanner.rest(), item, path);
                if !found {
                    path.pop();
                }
                found
            })
        }
        _ => false,
    }
}

/// Returns the position of the item that an element identifies.
fn position_of(element: &PathElement, items: &[Value]) -> Option<usize> {
    match element {
        PathElement::Index(position) => usize::try_from(*position).ok(),
        PathElement::Value(wanted) => items.iter().position(|item| item == wanted),
        PathElement::Field(_) => None,
        PathElement::Key(key) => {
            let fields = key.fields();
            let count = |item: &Value| {
                let found: Vec<_> = fields.iter().map(|(name, wanted)| (item.get(name), wanted)).collect();
                let differs = found
                    .iter()
                    .any(|(value, wanted)| value.is_some_and(|value| value != *wanted));
                let there = found.iter().filter(|(value, _)| value.is_some()).count();
                if differs { 0 } else { there }
            };
            let whole = items.iter().position(|item| count(item) == fields.len());
            whole.or_else(|| items.iter().position(|item| count(item) > 0))
        }
    }
}

/// Reads a path and returns its text in the form of conflict messages.
fn path(scanner: &mut Scanner<'_>) -> Result<String, crate::ScanError> {
    let mut text = String::new();
    loop {
        let element = match scanner.peek() {
            Some(b'.') => {
                scanner.take(b'.');
                PathElement::field(name(scanner)?)
            }
            Some(b'[') => {
                scanner.take(b'[');
                let element = bracketed(scanner)?;
                if !scanner.take(b']') {
                    return scanner.error("expected a closing bracket");
                }
                element
            }
            _ if text.is_empty() => return scanner.error("expected a dot"),
            _ => return Ok(text),
        };
        // Writing to a string never fails.
        let _ = write!(text, "{element}");
    }
}

fn name(scanner: &mut Scanner<'_>) -> Result<SmolStr, crate::ScanError> {
    match scanner.until(b".[],=\"") {
        "" => scanner.error("expected a name"),
        name => Ok(SmolStr::new(name)),
    }
}

/// Reads the content of brackets: a quoted name, the value of a set's item, a position, or key fields.
fn bracketed(scanner: &mut Scanner<'_>) -> Result<PathElement, crate::ScanError> {
    match scanner.peek() {
        Some(b'"') => match scanner.value(0)? {
            Value::String(name) => Ok(PathElement::Field(name)),
            _ => scanner.error("expected a name"),
        },
        Some(b'=') => {
            scanner.take(b'=');
            Ok(PathElement::Value(scanner.value(0)?))
        }
        Some(b'0'..=b'9') => match scanner.until(b"]").trim().parse() {
            Ok(position) => Ok(PathElement::Index(position)),
            Err(_) => scanner.error("expected a position"),
        },
        _ => {
            let mut fields = Vec::new();
            loop {
                scanner.peek();
                let name = SmolStr::new(scanner.until(b"=,]").trim());
                if name.is_empty() || !scanner.take(b'=') {
                    return scanner.error("expected a key field and its value");
                }
                fields.push((name, scanner.value(0)?));
                if !scanner.take(b',') {
                    return Ok(PathElement::Key(Key::new(fields)));
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(text: &str) -> Vec<String> {
        let paths = PathText::parse_list(text).unwrap();
        paths.iter().map(|path| path.as_str().to_owned()).collect()
    }

    #[test]
    fn text_takes_form_of_conflict_messages() {
        for (text, expected) in [
            (".spec.replicas", &[".spec.replicas"][..]),
            (
                r#".a[ n = "x" ].image, .b["c,d"].e"#,
                &[r#".a[n="x"].image"#, ".b.c,d.e"],
            ),
            (r#".p[q="B",p=80.0][="v"][3]"#, &[r#".p[p=80,q="B"][="v"][3]"#]),
            (".metadata.labels.a.b/c", &[".metadata.labels.a.b/c"]),
        ] {
            assert_eq!(parsed(text), expected, "{text}");
        }
    }

    #[test]
    fn text_that_is_no_path_is_rejected() {
        let many = vec![".a"; PathText::MAX_PATHS + 1].join(",");
        let deep = format!(".a[={}", "[".repeat(100_000));
        let texts = [
            "", "a", ".", ".a..b", ".a,", ".a[", ".a[]", ".a[b]", ".a[b=]", ".a[1x]", ".a=1", ".a]", ".a[\"b]", &many,
            &deep,
        ];
        for text in texts {
            let error = PathText::parse_list(text).unwrap_err();
            assert!(error.to_string().contains("is not the path of a field"), "{error}");
        }
        assert!(PathText::parse(".a,.b").is_err());
    }

    #[test]
    fn text_covers_field_and_subtree() {
        let path = Path::from(vec![
            PathElement::field("labels"),
            PathElement::field("app.io/name"),
            PathElement::key([("port", 80_i64)]),
        ]);
        let covers = |text: &str| PathText::parse(text).unwrap().covers(&path);
        for text in [".labels", ".labels.app.io/name", ".labels.app.io/name[port=80]"] {
            assert!(covers(text), "{text}");
        }
        for text in [
            ".label",
            ".labels.app",
            ".labels.app.io/name[port=8]",
            ".labels.app.io/name[port=80].x",
        ] {
            assert!(!covers(text), "{text}");
        }
    }

    #[test]
    fn text_is_located_in_object() {
        let text = "{labels: {a.b/c: x}, ports: [{port: 80, protocol: UDP}, {port: 80, image: w}], set: [u, v]}";
        let object = holdfast_value::yaml::parse(text.as_bytes(), &holdfast_value::Limits::default()).unwrap();
        let at = |text: &str| {
            PathText::parse(text)
                .unwrap()
                .position_in(&object)
                .map(|path| path.to_string())
        };
        for (text, expected) in [
            (".labels.a.b/c", Some(".labels.a.b/c")),
            (r#".ports[port=80,protocol="UDP"]"#, Some(".ports[0]")),
            (r#".ports[port=80,protocol="TCP"].image"#, Some(".ports[1].image")),
            (r#".set[="v"]"#, Some(".set[1]")),
            (".labels.a", None),
            (".ports[port=81]", None),
            (".set[9]", None),
        ] {
            assert_eq!(at(text).as_deref(), expected, "{text}");
        }
    }

    #[test]
    fn text_finds_members_and_leaves_around_it() {
        let parsed =
            Set::from_fields_v1(br#"{"f:a":{"f:b.c":{},"f:d":{"k:{\"n\":1}":{".":{},"f:e":{}}}},"f:atom":{}}"#);
        let set = parsed.unwrap();
        let found = |text: &str| PathText::parse(text).unwrap().find_in(&set).to_string();
        for text in [".a", ".a.b.c", ".a.d", ".a.d[n=1]", ".a.d[n=1].e", ".atom"] {
            assert_eq!(found(text), text);
        }
        for text in [".a.b", ".x", ".a.d[n=2]"] {
            assert_eq!(found(text), "");
        }
        let leaf = |text: &str| PathText::parse(text).unwrap().leaf_around(&set);
        assert_eq!(leaf(".atom.x").unwrap().to_string(), ".atom");
        assert_eq!(leaf(".atom"), None);
        assert_eq!(leaf(".a.d[n=1].f"), None);
        assert_eq!(leaf(".a.d[n=1].e.f").unwrap().to_string(), ".a.d[n=1].e");
    }
}
