//! Values at fixed paths of a JSON text, read in one walk into a flat list. The maps and lists around them are not made.

use std::ops::Range;

use smol_str::SmolStr;

use super::select::{Missing, separate, skip};
use super::{Dialect, Reader};
use crate::finding::Duplicates;
use crate::limits::Limits;
use crate::tree::Value;

/// Maximum number of members of one map that are on paths: each is one bit while the map is read.
const MAX_MEMBERS: usize = 64;

/// Numbered paths into a JSON object. No path is the beginning of another.
///
/// ```
/// use holdfast_value::json::{PathSet, PathValue, read_paths};
///
/// let mut paths = PathSet::default();
/// let name = paths.add(["metadata", "name"].into_iter()).unwrap();
/// let mut values = Vec::new();
/// read_paths(br#"{"metadata":{"name":"a","labels":{}},"data":{}}"#, &paths, "", &mut values).unwrap();
/// assert_eq!(values, [PathValue { path: name, value: "a".into() }]);
/// ```
#[derive(Clone, Debug, Default)]
pub struct PathSet {
    members: Vec<Member>,
    count: u16,
}

/// Value that was found at a path.
///
/// ```
/// use holdfast_value::json::{PathSet, read_paths};
///
/// let mut paths = PathSet::default();
/// paths.add_in_items(["spec", "ports"].into_iter(), "port").unwrap();
/// let mut values = Vec::new();
/// read_paths(br#"{"spec":{"ports":[{"port":80},{"port":443}]}}"#, &paths, "", &mut values).unwrap();
/// assert_eq!(values.iter().map(|found| found.value.to_string()).collect::<Vec<_>>(), ["80", "443"]);
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct PathValue {
    /// Number of the path.
    pub path: u16,
    /// Value at the path. `null` is a value.
    pub value: Value,
}

/// Member of a map on a path.
#[derive(Clone, Debug)]
struct Member {
    name: SmolStr,
    then: Then,
}

/// Continuation of the paths at a member.
#[derive(Clone, Debug)]
enum Then {
    /// The path with this number ends.
    End(u16),
    /// The value is a map; the paths lead to these members.
    Members(Vec<Member>),
    /// The value is a list of maps; the paths lead to these members of each.
    Items(Vec<Member>),
}

impl PathSet {
    /// Adds a path of member names through maps, and returns its number. `None` if it is empty, if it is the
    /// beginning of another path or the reverse, or if more than 64 members of a map are on paths.
    pub fn add<'p>(&mut self, path: impl Iterator<Item = &'p str>) -> Option<u16> {
        let number = add(&mut self.members, path, None, self.count)?;
        self.count = self.count.max(number + 1);
        Some(number)
    }

    /// Adds the path to the member `name` of each map in the list at `path`, and returns its number. `None` as for
    /// [`Self::add`].
    pub fn add_in_items<'p>(&mut self, path: impl Iterator<Item = &'p str>, name: &str) -> Option<u16> {
        let number = add(&mut self.members, path, Some(name), self.count)?;
        self.count = self.count.max(number + 1);
        Some(number)
    }
}

/// Adds a path to a tree of members. Returns its number: `next` if it is new. Recursive, as deep as the path is long.
fn add<'p>(
    members: &mut Vec<Member>,
    mut path: impl Iterator<Item = &'p str>,
    in_items: Option<&str>,
    next: u16,
) -> Option<u16> {
    let mut at = members;
    let mut name = path.next()?;
    loop {
        let following = path.next();
        let found = at.iter().position(|member| member.name == name);
        let position = match found {
            Some(position) => position,
            None if at.len() == MAX_MEMBERS => return None,
            None => {
                let then = match (following, in_items) {
                    (Some(_), _) => Then::Members(Vec::new()),
                    (None, Some(_)) => Then::Items(Vec::new()),
                    (None, None) => Then::End(next),
                };
                at.push(Member {
                    name: name.into(),
                    then,
                });
                at.len() - 1
            }
        };
        match (&mut at.get_mut(position)?.then, following, in_items) {
            (Then::End(number), None, None) => return Some(*number),
            (Then::Members(members), Some(following), _) => {
                at = members;
                name = following;
            }
            (Then::Items(members), None, Some(inner)) => return add(members, std::iter::once(inner), None, next),
            _ => return None,
        }
    }
}

/// Reads the values at `paths` of a JSON object that was written by a program, appends them to `values` in the order of
/// the text, and returns the range of the value of its member `noted`. Parts without paths are not validated, and the rest
/// of a map after its last member on a path is not scanned.
///
/// `None` if the text cannot be read this way, for example because a map repeats a member on a path. The caller then reads
/// the whole text; `values` is incomplete.
pub fn read_paths(
    bytes: &[u8],
    paths: &PathSet,
    noted: &str,
    values: &mut Vec<PathValue>,
) -> Option<Option<Range<usize>>> {
    let text = std::str::from_utf8(bytes).ok()?;
    let mut walk = Walk {
        reader: Reader::from_parts(text, &Limits::TRUSTED, Dialect::Json, Duplicates::Replace),
        values,
    };
    walk.reader.skip_space();
    if walk.reader.peek() != Some(b'{') {
        return None;
    }
    let mut range = None;
    walk.members(&paths.members, Some((noted, &mut range)))?;
    walk.reader.peek().is_none().then_some(range)
}

struct Walk<'t, 'v> {
    reader: Reader<'t>,
    values: &'v mut Vec<PathValue>,
}

impl Walk<'_, '_> {
    /// Reads the value of a member, and the space after it. Recursive, as deep as the paths are long.
    fn value(&mut self, then: &Then) -> Option<()> {
        match (then, self.reader.peek()?) {
            (Then::End(path), first) => {
                let value = match first {
                    b'"' => self.reader.text().ok()?,
                    _ => self.reader.one().ok()?,
                };
                self.values.push(PathValue { path: *path, value });
                Some(())
            }
            (Then::Members(members), b'{') => self.members(members, None),
            (Then::Items(members), b'[') => self.items(members),
            _ => self.reader.pass(),
        }
    }

    fn items(&mut self, members: &[Member]) -> Option<()> {
        skip(&mut self.reader, b'[');
        while !self.reader.take(b']') {
            match self.reader.peek()? {
                b'{' => self.members(members, None)?,
                _ => self.reader.pass()?,
            }
            separate(&mut self.reader, b']')?;
        }
        self.reader.skip_space();
        Some(())
    }

    fn members(&mut self, members: &[Member], mut noted: Option<(&str, &mut Option<Range<usize>>)>) -> Option<()> {
        let mut missing = Missing::for_members(members.len());
        skip(&mut self.reader, b'{');
        while !self.reader.take(b'}') {
            if missing.is_nothing() && noted.as_ref().is_none_or(|(_, range)| range.is_some()) {
                self.reader.pass_rest()?;
                break;
            }
            if self.reader.peek() != Some(b'"') {
                return None;
            }
            let name = self.reader.name().ok()?;
            let wanted = members.iter().enumerate().find(|(_, member)| member.name == name);
            let is_noted = noted.as_ref().is_some_and(|(noted, _)| *noted == name);
            self.reader.skip_space();
            let start = self.reader.at();
            match wanted {
                None => self.reader.pass()?,
                Some((at, member)) => {
                    if !missing.found(at) {
                        return None;
                    }
                    self.value(&member.then)?;
                }
            }
            if let Some((_, range)) = noted.as_mut().filter(|_| is_noted) {
                **range = Some(start..self.reader.at());
            }
            separate(&mut self.reader, b'}')?;
        }
        self.reader.skip_space();
        Some(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(text: &str, paths: &PathSet) -> Option<Vec<(u16, String)>> {
        let mut values = Vec::new();
        read_paths(text.as_bytes(), paths, "", &mut values)?;
        Some(
            values
                .iter()
                .map(|found| (found.path, found.value.to_string()))
                .collect(),
        )
    }

    fn set(paths: &[&str]) -> PathSet {
        let mut set = PathSet::default();
        for path in paths {
            match path.split_once("[].") {
                Some((list, name)) => set.add_in_items(list.split('.'), name).unwrap(),
                None => set.add(path.split('.')).unwrap(),
            };
        }
        set
    }

    #[test]
    fn values_are_found_in_maps_and_items() {
        let text = r#" { "a" : { "b" : [ 1 ] , "c" : null } , "l" : [ {"n":"x","i":1} , 2 , [{"n":"no"}], {"i":2}, {"n":"y"} ] , "z":{"b":7} } "#;
        let paths = set(["a.b", "l[].n", "a.c", "a.d", "l[].i", "z.b.c", "l.n"].split_at(5).0);
        let values = [(0, "[1]"), (2, "null"), (1, "\"x\""), (4, "1"), (4, "2"), (1, "\"y\"")];
        let expected = values.map(|(path, value)| (path, value.to_owned()));
        assert_eq!(found(text, &paths).unwrap(), expected);
        assert_eq!(found(text, &set(&["z.b.c", "l.n", "a[].b"])).unwrap(), []);
        assert_eq!(found("{}", &paths).unwrap(), []);
    }

    #[test]
    fn equal_paths_have_one_number() {
        let mut paths = PathSet::default();
        assert_eq!(paths.add(["a", "b"].into_iter()), Some(0));
        assert_eq!(paths.add_in_items(["a", "l"].into_iter(), "n"), Some(1));
        assert_eq!(paths.add_in_items(["a", "l"].into_iter(), "n"), Some(1));
        assert_eq!(paths.add_in_items(["a", "l"].into_iter(), "m"), Some(2));
        assert_eq!(paths.add(["a", "b"].into_iter()), Some(0));
        assert_eq!(paths.add(["c"].into_iter()), Some(3));
    }

    #[test]
    fn path_that_begins_another_is_rejected() {
        let mut paths = set(&["a.b", "l[].n"]);
        assert_eq!(paths.add(["a"].into_iter()), None);
        assert_eq!(paths.add(["a", "b", "c"].into_iter()), None);
        assert_eq!(paths.add(["l"].into_iter()), None);
        assert_eq!(paths.add(["l", "n"].into_iter()), None);
        assert_eq!(paths.add_in_items(["a"].into_iter(), "b"), None);
        assert_eq!(paths.add(std::iter::empty()), None);
        assert_eq!(paths.add(["d"].into_iter()), Some(2));
    }

    #[test]
    fn range_of_noted_member_is_returned() {
        let text = r#"{"a":{"m":1},"m":{"a":"}"},"b":[2]}"#;
        for path in ["m.a", "b", "a.m"] {
            let range = read_paths(text.as_bytes(), &set(&[path]), "m", &mut Vec::new()).unwrap();
            assert_eq!(&text[range.unwrap()], r#"{"a":"}"}"#);
        }
        assert_eq!(
            read_paths(text.as_bytes(), &set(&["b"]), "c", &mut Vec::new()),
            Some(None)
        );
    }

    #[test]
    fn repeated_members_and_invalid_text_are_not_read() {
        for text in [
            "",
            "[]",
            "{",
            "{\"a\"",
            "{\"a\":",
            "{\"b\":}",
            "{\"a\":{\"b\":1},\"a\":{},\"c\":1}",
            "{\"a\":{\"b\":1,\"\\u0062\":2,\"c\":1}}",
            "{\"l\":[{\"n\":1,\"n\":1,\"i\":2}]}",
            "{\"a\":{\"b\":\"x}}",
            "{\"l\":[{},]}",
            "{\"l\":[{} {}]}",
            "{\"l\":[}",
            "{a:1}",
            "{} {}",
        ] {
            assert_eq!(
                found(text, &set(&["a.b", "a.c", "l[].n", "l[].i", "d"])),
                None,
                "{text}"
            );
        }
        assert_eq!(read_paths(b"{\"a\":\"\xff\"}", &set(&["b"]), "", &mut Vec::new()), None);
    }
}
