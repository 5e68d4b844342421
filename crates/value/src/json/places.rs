//! Positions of fields in a text: trees are sorted by key, but some callers need the order of the text.

use std::collections::HashMap;

use super::scan::end_of_string;
use crate::limits::Limits;
use crate::tree::Value;

/// Returns, for each path (keys joined by dots, indices in brackets, as in [`Finding`](crate::Finding)), the byte
/// offset in `text` of the first occurrence of its key, or of the second if the flag is true; `usize::MAX` if there is
/// none.
///
/// `text` must be JSON; for other input the offsets are meaningless.
pub fn places(text: &[u8], paths: &[(&str, bool)]) -> Vec<usize> {
    let mut wanted: HashMap<u64, Vec<usize>> = HashMap::new();
    for (at, (path, _)) in paths.iter().enumerate() {
        wanted.entry(hash(EMPTY, path.as_bytes())).or_default().push(at);
    }
    let mut scan = Scan {
        text,
        at: 0,
        path: EMPTY,
        paths,
        wanted,
        places: vec![usize::MAX; paths.len()],
        seen: vec![false; paths.len()],
        containers: Vec::new(),
    };
    scan.run();
    scan.places
}

/// Returns the number after the key at byte `place` of the JSON `text`, in its original notation.
#[expect(clippy::indexing_slicing, reason = "the part is within the scanned text")]
pub fn number_behind(text: &[u8], place: usize) -> Option<&str> {
    text.get(place).filter(|byte| **byte == b'"')?;
    let after_key = text.get(end_of_string(text, place)?..)?;
    let rest = after_key.trim_ascii_start().strip_prefix(b":")?.trim_ascii_start();
    let is_part = |byte: &u8| byte.is_ascii_digit() || matches!(byte, b'+' | b'-' | b'.' | b'e' | b'E');
    let end = rest.iter().position(|byte| !is_part(byte)).unwrap_or(rest.len());
    std::str::from_utf8(&rest[..end])
        .ok()
        .filter(|number| !number.is_empty())
}

/// Hash (FNV-1a) of the empty path.
const EMPTY: u64 = 0xcbf2_9ce4_8422_2325;

/// Extends the hash of a path by `bytes`.
fn hash(path: u64, bytes: &[u8]) -> u64 {
    let mix = |hash: u64, byte: &u8| (hash ^ u64::from(*byte)).wrapping_mul(0x100_0000_01b3);
    bytes.iter().fold(path, mix)
}

/// Scanner that identifies paths only by their hash, so that a long key costs no more than its text, however much is
/// below it.
struct Scan<'t> {
    text: &'t [u8],
    at: usize,
    /// Path of the value that is being read.
    path: u64,
    paths: &'t [(&'t str, bool)],
    wanted: HashMap<u64, Vec<usize>>,
    places: Vec<usize>,
    seen: Vec<bool>,
    /// Open maps and lists: their path, and the next index of a list.
    containers: Vec<(u64, Option<usize>)>,
}

impl Scan<'_> {
    fn run(&mut self) {
        while let Some(byte) = self.text.get(self.at) {
            match byte {
                b'{' => self.containers.push((self.path, None)),
                b'[' => {
                    self.containers.push((self.path, Some(0)));
                    self.name_item();
                }
                b'}' | b']' => {
                    if let Some((path, _)) = self.containers.pop() {
                        self.path = path;
                    }
                }
                b',' => self.name_item(),
                b'"' => {
                    self.string();
                    continue;
                }
                _ => {}
            }
            self.at += 1;
        }
    }

    /// Appends the index of the next item to the path, if the container is a list.
    fn name_item(&mut self) {
        if let Some((path, Some(index))) = self.containers.last_mut() {
            self.path = hash(*path, format!("[{index}]").as_bytes());
            *index += 1;
        }
    }

    /// Skips a string; if it is a key, its path becomes the current one.
    #[expect(clippy::indexing_slicing, reason = "the pending entries are indices of paths")]
    fn string(&mut self) {
        let start = self.at;
        self.at = end_of_string(self.text, start).unwrap_or(self.text.len());
        let after = self.text.get(self.at..).unwrap_or_default();
        let next = after.iter().find(|byte| !byte.is_ascii_whitespace());
        let Some((path, None)) = self.containers.last().copied() else {
            return;
        };
        if next != Some(&b':') {
            return;
        }
        let key = self.text.get(start..self.at).unwrap_or_default();
        let Ok(Value::String(key)) = super::parse(key, &Limits::TRUSTED) else {
            return;
        };
        let dot: &[u8] = if path == EMPTY { b"" } else { b"." };
        self.path = hash(hash(path, dot), key.as_bytes());
        for at in self.wanted.get(&self.path).into_iter().flatten() {
            let (_, second) = self.paths[*at];
            if self.places[*at] == usize::MAX && (!second || self.seen[*at]) {
                self.places[*at] = start;
            }
            self.seen[*at] = true;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_returns_offset_of_each_key() {
        let text = br#"{"b": {"x": [{"k": "b.x"}, [1, {"k": 2}]], "x": 1}, "a\n": 1, "c": "\"a\\", "a": {"b": 1}}"#;
        let keys = ["b.x[0].k", "b.x[1][1].k", "a\n", "a.b", "a", "b.x", "missing"];
        let paths: Vec<(&str, bool)> = keys.iter().map(|path| (*path, false)).collect();
        let found = places(text, &paths);
        let order: Vec<&[u8]> = found[..6].iter().map(|at| &text[*at..*at + 3]).collect();
        assert_eq!(order, [b"\"k\"", b"\"k\"", b"\"a\\", b"\"b\"", b"\"a\"", b"\"x\""]);
        assert!(found[5] < found[0] && found[0] < found[1] && found[1] < found[2] && found[2] < found[4]);
        assert_eq!(found[6], usize::MAX);
    }

    #[test]
    fn a_repeated_key_can_be_read_where_it_repeats() {
        let text = br#"{"a": 1, "b": 2, "a": 3}"#;
        assert_eq!(
            places(text, &[("a", true), ("b", false), ("b", true)]),
            [17, 9, usize::MAX]
        );
    }

    #[test]
    fn numbers_are_given_as_they_are_written() {
        let text = br#"{"a": [{"b\"" : -3.50e0 }], "c": "1", "d":7}"#;
        let found = places(text, &[("a[0].b\"", false), ("c", false), ("d", false), ("e", false)]);
        let numbers: Vec<Option<&str>> = found.iter().map(|place| number_behind(text, *place)).collect();
        assert_eq!(numbers, [Some("-3.50e0"), None, Some("7"), None]);
    }

    #[test]
    fn a_text_that_is_no_json_does_no_harm() {
        for text in ["", "}", "]],", "\"", "{\"a", "{\"a\\", "[{\"a\":]}"] {
            assert_eq!(places(text.as_bytes(), &[("b", false)]), [usize::MAX]);
        }
    }
}
