//! Keys that occur more than once in a map: their positions and their treatment.

use super::Frame;
use crate::finding::Duplicates;
use crate::tree::{Entry, Map, Value};

/// Returns the path of the key that waits for its value in the innermost open container.
#[expect(
    clippy::indexing_slicing,
    reason = "the offset never exceeds the length of the text, nor a frame's first entry the number of entries"
)]
pub(super) fn path(frames: &[Frame], items: &[Value], entries: &[Entry]) -> String {
    use std::fmt::Write;

    let mut path = String::new();
    for (at, frame) in frames.iter().enumerate() {
        // The members of a container end where those of the next container of its type begin.
        match frame {
            Frame::List { first } => {
                let end = frames[at + 1..].iter().find_map(|frame| match frame {
                    Frame::List { first } => Some(*first),
                    Frame::Map { .. } => None,
                });
                let _ = write!(path, "[{}]", end.unwrap_or(items.len()) - first);
            }
            Frame::Map { .. } => {
                let end = frames[at + 1..].iter().find_map(|frame| match frame {
                    Frame::Map { first, .. } => Some(*first),
                    Frame::List { .. } => None,
                });
                if !path.is_empty() {
                    path.push('.');
                }
                let waiting = entries[..end.unwrap_or(entries.len())].last();
                path.push_str(waiting.map_or("", |(key, _)| key));
            }
        }
    }
    path
}

/// Returns the sorted entries with one entry per key. All entries of a key are handled together, so that many
/// repetitions of a large map cost no more than one.
pub(super) fn without_repetition(entries: Vec<Entry>, duplicates: Duplicates) -> Vec<Entry> {
    let mut single = Vec::with_capacity(entries.len());
    let mut entries = entries.into_iter().peekable();
    while let Some((key, mut value)) = entries.next() {
        let mut maps = Vec::new();
        while let Some((_, later)) = entries.next_if(|(next, _)| *next == key) {
            match std::mem::replace(&mut value, later) {
                Value::Map(map) if duplicates == Duplicates::Merge => maps.push(map),
                // A value that is not a map discards all values before it.
                _ => maps.clear(),
            }
        }
        if let (false, Value::Map(last)) = (maps.is_empty(), &mut value) {
            maps.push(std::mem::take(last));
            let mut merged: Vec<Entry> = maps.into_iter().flat_map(Map::into_entries).collect();
            merged.sort_by(|a, b| a.0.as_str().cmp(b.0.as_str()));
            value = Value::Map(Map::from_sorted(without_repetition(merged, duplicates)));
        }
        single.push((key, value));
    }
    single
}
