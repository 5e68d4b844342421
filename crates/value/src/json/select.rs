//! Partial reads: rows of tables need a few fields of large objects, and the skipped parts cost next to nothing.

use std::ops::Range;

use super::{Dialect, Reader};
use crate::finding::Duplicates;
use crate::limits::Limits;
use crate::tree::{Entry, List, Map, Value};
use smol_str::SmolStr;

/// Selection of the parts of a value to read.
///
/// ```
/// use holdfast_value::json::{Selected, parse_selected};
///
/// let mut selected = Selected::nothing();
/// selected.add(["metadata", "name"].into_iter());
/// let read = parse_selected(br#"{"metadata":{"name":"a","uid":"b"},"spec":{}}"#, &selected).unwrap();
/// assert_eq!(read.to_string(), r#"{"metadata":{"name":"a"}}"#);
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Selected {
    /// The whole value.
    Whole,
    /// These members of a map, and of the maps in a list. Other values are read whole.
    Members(Vec<(SmolStr, Selected)>),
}

impl Selected {
    /// Selects only the maps themselves, without members.
    pub fn nothing() -> Self {
        Self::Members(Vec::new())
    }

    /// Adds the value at `path`, a sequence of member names, to the selection.
    pub fn add<'p>(&mut self, mut path: impl Iterator<Item = &'p str>) {
        match (path.next(), &mut *self) {
            (None, _) => *self = Self::Whole,
            (Some(_), Self::Whole) => {}
            (Some(name), Self::Members(members)) => {
                let at = members.iter().position(|(known, _)| known == name).unwrap_or_else(|| {
                    members.push((SmolStr::new(name), Self::nothing()));
                    members.len() - 1
                });
                if let Some((_, member)) = members.get_mut(at) {
                    member.add(path);
                }
            }
        }
    }
}

/// Reads the selected parts of a JSON text that was written by a program. Returns `None` if the text cannot be read
/// this way; the caller then reads it whole, which finds the error. Unselected parts are not validated, and the rest of
/// a map after its last selected member is not scanned.
pub fn parse_selected(bytes: &[u8], selected: &Selected) -> Option<Value> {
    parse_selected_with_range(bytes, selected, "").map(|(value, _)| value)
}

/// Reads the selected parts and also returns the range of the value of the member `noted`, if the text is a map that
/// has it.
pub fn parse_selected_with_range(
    bytes: &[u8],
    selected: &Selected,
    noted: &str,
) -> Option<(Value, Option<Range<usize>>)> {
    let text = std::str::from_utf8(bytes).ok()?;
    let mut reader = Reader::from_parts(text, &Limits::TRUSTED, Dialect::Json, Duplicates::Replace);
    reader.skip_space();
    let mut place = None;
    let value = match (selected, reader.peek()?) {
        (Selected::Members(members), b'{') => read_members(&mut reader, members, Some((noted, &mut place)))?,
        _ => read(&mut reader, selected)?,
    };
    reader.peek().is_none().then_some((value, place))
}

/// Recursive, as deep as the selection.
fn read(reader: &mut Reader<'_>, selected: &Selected) -> Option<Value> {
    match (selected, reader.peek()?) {
        (Selected::Members(members), b'{') => read_members(reader, members, None),
        (Selected::Members(members), b'[') => read_items(reader, members),
        (_, b'"') => reader.text().ok(),
        _ => reader.one().ok(),
    }
}

/// Texts of the values at `path` (member names from the root) of a JSON text that is known to be valid, without the blanks
/// around them. Lists on the way are followed into each of their items.
///
/// ```
/// use holdfast_value::json::texts_at;
///
/// let pod = br#"{"containers":[{"image":"a"},{"image":"b"}]}"#;
/// assert_eq!(texts_at(pod, &["containers", "image"]), [br#""a""#, br#""b""#]);
/// ```
pub fn texts_at<'t>(bytes: &'t [u8], path: &[&str]) -> Vec<&'t [u8]> {
    let mut found = Vec::new();
    if let Ok(text) = std::str::from_utf8(bytes) {
        let mut reader = Reader::from_parts(text, &Limits::TRUSTED, Dialect::Json, Duplicates::Replace);
        reader.skip_space();
        // An error ends the walk: the caller has found it when it read the text.
        let _ = collect_ranges(&mut reader, path, &mut found);
    }
    let texts = found.into_iter().filter_map(|range| bytes.get(range));
    texts.map(<[u8]>::trim_ascii).collect()
}

/// Recursive, as deep as the path is long.
fn collect_ranges(reader: &mut Reader<'_>, path: &[&str], found: &mut Vec<Range<usize>>) -> Option<()> {
    let Some((wanted, rest)) = path.split_first() else {
        let start = reader.at();
        reader.pass()?;
        found.push(start..reader.at());
        return Some(());
    };
    match reader.peek()? {
        b'{' => {
            skip(reader, b'{');
            while !reader.take(b'}') {
                let is_wanted = reader.name().ok()? == *wanted;
                reader.skip_space();
                match is_wanted {
                    true => collect_ranges(reader, rest, found)?,
                    false => reader.pass()?,
                }
                separate(reader, b'}')?;
            }
            reader.skip_space();
        }
        b'[' => {
            skip(reader, b'[');
            while !reader.take(b']') {
                collect_ranges(reader, path, found)?;
                separate(reader, b']')?;
            }
            reader.skip_space();
        }
        _ => reader.pass()?,
    }
    Some(())
}

fn read_members(
    reader: &mut Reader<'_>,
    members: &[(SmolStr, Selected)],
    mut noted: Option<(&str, &mut Option<Range<usize>>)>,
) -> Option<Value> {
    let mut entries: Vec<Entry> = Vec::with_capacity(members.len());
    // Members that were not found yet.
    let mut missing = Missing::for_members(members.len());
    skip(reader, b'{');
    while !reader.take(b'}') {
        if missing.is_nothing() && noted.as_ref().is_none_or(|(_, place)| place.is_some()) {
            reader.pass_rest()?;
            break;
        }
        if reader.peek() != Some(b'"') {
            return None;
        }
        let name = reader.name().ok()?;
        let wanted = (members.iter().enumerate()).find(|(_, (known, _))| known == name);
        let place = noted.as_mut().filter(|(noted, _)| *noted == name);
        reader.skip_space();
        let start = reader.at();
        match wanted {
            None => reader.pass()?,
            Some((at, (name, selected))) => {
                entries.push((name.clone(), read(reader, selected)?));
                missing.found(at);
            }
        }
        if let Some((_, place)) = place {
            **place = Some(start..reader.at());
        }
        separate(reader, b'}')?;
    }
    reader.skip_space();
    // The last one that was read of a repeated name wins.
    Some(Value::Map(Map::from_unsorted(entries)))
}

/// Bit set of the selected members of a map that were not found yet. If there are more members than bits, some always
/// count as missing.
pub(super) struct Missing(u64);

impl Missing {
    pub(super) fn for_members(members: usize) -> Self {
        Self(1_u64.checked_shl(members as u32).map_or(u64::MAX, |bit| bit - 1))
    }

    /// Returns false if the member was found before.
    pub(super) fn found(&mut self, at: usize) -> bool {
        // Members without a bit are always missing.
        let bit = 1_u64.checked_shl(at as u32).unwrap_or_default();
        let is_new = bit == 0 || self.0 & bit != 0;
        self.0 &= !bit;
        is_new
    }

    pub(super) fn is_nothing(&self) -> bool {
        self.0 == 0
    }
}

fn read_items(reader: &mut Reader<'_>, members: &[(SmolStr, Selected)]) -> Option<Value> {
    let mut items = Vec::new();
    skip(reader, b'[');
    while !reader.take(b']') {
        items.push(match reader.peek()? {
            b'{' => read_members(reader, members, None)?,
            b'"' => reader.text().ok()?,
            _ => reader.one().ok()?,
        });
        separate(reader, b']')?;
    }
    reader.skip_space();
    Some(Value::List(List::from(items)))
}

/// Consumes `byte` if it is next, and the space after it.
pub(super) fn skip(reader: &mut Reader<'_>, byte: u8) {
    reader.take(byte);
    reader.skip_space();
}

/// Consumes the comma before another member; without a comma the container must end.
pub(super) fn separate(reader: &mut Reader<'_>, end: u8) -> Option<()> {
    match reader.peek()? {
        b',' => {
            skip(reader, b',');
            (reader.peek()? != end).then_some(())
        }
        byte => (byte == end).then_some(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::json;

    fn selected(paths: &[&str]) -> Selected {
        let mut selected = Selected::nothing();
        for path in paths {
            selected.add(path.split('.'));
        }
        selected
    }

    #[test]
    fn only_selected_parts_are_read() {
        let text = r#"{ "kind":"Pod","metadata":{"name":"a","managedFields":[{"f:a":{"k:{\"a\":\"}\"}":{}}}]},
            "spec": {"containers":[{"name":"x","image":"i"},{"image":"]"},7,[{"name":"y","z":1}]],"n":1.5},
            "status":{"phase":null,"on":true, "list":[] } }"#;
        for (paths, expected) in [
            (&["kind"][..], r#"{"kind":"Pod"}"#),
            (&["metadata.name", "missing.at.all"], r#"{"metadata":{"name":"a"}}"#),
            (
                &["spec.containers.name", "spec.n"],
                r#"{"spec":{"containers":[{"name":"x"},{},7,[{"name":"y","z":1}]],"n":1.5}}"#,
            ),
            (
                &["status.on", "status"],
                r#"{"status":{"list":[],"on":true,"phase":null}}"#,
            ),
            (&["status.phase.deeper"], r#"{"status":{"phase":null}}"#),
            (&[], "{}"),
        ] {
            let found = parse_selected(text.as_bytes(), &selected(paths)).map(|value| json::to_string(&value));
            assert_eq!(found.as_deref(), Some(expected), "{paths:?}");
        }
        let whole = json::parse(text.as_bytes(), &Limits::TRUSTED).ok();
        assert_eq!(parse_selected(text.as_bytes(), &Selected::Whole), whole);
    }

    #[test]
    fn last_of_repeated_or_escaped_names_wins() {
        let found = parse_selected(br#"{"a":1,"\u0061":2,"b":3,"c":4}"#, &selected(&["a", "b"]));
        assert_eq!(
            found.map(|value| json::to_string(&value)).as_deref(),
            Some(r#"{"a":2,"b":3}"#)
        );
    }

    #[test]
    fn texts_are_found_in_maps_and_lists() {
        let text = br#" { "x" : [1], "a" : [ {"b": { "c" : 1 } }, {"d":2}, 3, {"b":[]} ], "\u0061": {"b":"s"} } "#;
        let found = texts_at(text, &["a", "b"]);
        assert_eq!(found, [&br#"{ "c" : 1 }"#[..], b"[]", br#""s""#]);
        assert!(texts_at(text, &["a", "e"]).is_empty());
        assert!(texts_at(b"{\"a\":", &["a"]).is_empty());
    }

    #[test]
    fn text_after_last_selected_member_is_not_scanned() {
        let text = r#"{"a":{"b":1,"c":{"d":"}"}},"e":[{"f":1,"g":"]"},{"g":2}],"h":3}"#;
        for (paths, expected) in [
            (&["a.b"][..], r#"{"a":{"b":1}}"#),
            (&["a.c.d", "e.f"], r#"{"a":{"c":{"d":"}"}},"e":[{"f":1},{}]}"#),
            (&["a.b", "h"], r#"{"a":{"b":1},"h":3}"#),
        ] {
            let found = parse_selected(text.as_bytes(), &selected(paths));
            assert_eq!(found.map(|value| json::to_string(&value)).as_deref(), Some(expected));
        }
        let many: Vec<String> = (0..70).map(|at| format!("n{at:02}")).collect();
        let names: Vec<&str> = many.iter().map(String::as_str).collect();
        let members = names.iter().map(|name| format!("\"{name}\":1")).collect::<Vec<_>>();
        let text = format!("{{{}}}", members.join(","));
        let found = parse_selected(text.as_bytes(), &selected(&names));
        assert_eq!(found.map(|value| json::to_string(&value)), Some(text));
    }

    #[test]
    fn noted_member_range_is_returned_if_unselected() {
        let text = r#"{"a":{"metadata":1},"metadata":{"a":"}"},"b":[2]}"#;
        for paths in [&["metadata.a"][..], &["b"], &["metadata"]] {
            let (_, place) = parse_selected_with_range(text.as_bytes(), &selected(paths), "metadata").unwrap();
            assert_eq!(&text[place.unwrap()], r#"{"a":"}"}"#);
        }
        let (_, place) = parse_selected_with_range(text.as_bytes(), &selected(&["b"]), "c").unwrap();
        assert_eq!(place, None);
    }

    #[test]
    fn invalid_json_is_not_read() {
        for text in [
            "",
            "{",
            "{\"a\"",
            "{\"a\":",
            "{\"b\":}",
            "{\"b\":\"x",
            "{\"b\":[}",
            "{\"a\":1,}",
            "{\"b\":1 2}",
            "{a:1}",
            "{} {}",
            "{\"a\":[1,]}",
            "{\"a\":[1 2]}",
            "{\"b\":\"\\",
        ] {
            assert_eq!(parse_selected(text.as_bytes(), &selected(&["a.x"])), None, "{text}");
        }
    }
}
