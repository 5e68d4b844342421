//! `metadata.managedFields` as a whole: from the list in an object to managers and what they own, and back.

use std::cmp::Ordering;
use std::collections::BTreeMap;

use holdfast_merge::Set;
use holdfast_value::{List, SmolStr, Value};

use crate::entry::{self, DecodeError, Entry, Source};
use crate::timestamp::Timestamp;

/// The path of the list in an object.
const PATH: [&str; 2] = ["metadata", "managedFields"];

/// All entries of an object, by their identifiers.
#[derive(Clone, Debug, Default)]
pub(crate) struct Managed(pub(crate) BTreeMap<SmolStr, Record>);

/// An entry, what it owns, and the form in which it stands in the object.
#[derive(Clone, Debug)]
pub(crate) struct Record {
    pub(crate) entry: Entry,
    pub(crate) set: Set,
    /// The entry as it was read, with all that was read from it: its form is taken over where nothing has changed.
    stored: Option<Stored>,
    /// What it owns as it is to stand in the object, where the set was not needed: that is empty then.
    written: Option<Value>,
}

/// An entry of an object as it stands there: what it owns is not read.
pub(crate) struct Unread<'v> {
    pub(crate) entry: Entry,
    pub(crate) value: &'v Value,
}

impl Unread<'_> {
    /// The entry with what it owns.
    pub(crate) fn read(self, source: Source) -> Result<Record, DecodeError> {
        let Self { entry, value } = self;
        let set = entry::owned(value)?;
        let stored = (source == Source::Stored).then(|| Stored {
            value: value.clone(),
            set: set.clone(),
            api_version: entry.api_version.clone(),
            time: entry.time.clone(),
        });
        Ok(Record {
            stored,
            ..Record::new(entry, set)
        })
    }
}

#[derive(Clone, Debug)]
struct Stored {
    value: Value,
    set: Set,
    api_version: SmolStr,
    time: Option<Timestamp>,
}

impl Record {
    pub(crate) fn new(entry: Entry, set: Set) -> Self {
        Self {
            entry,
            set,
            stored: None,
            written: None,
        }
    }

    /// The record of what is owned by `fields`, as they are to stand in the object. Its set is not to be asked for.
    pub(crate) fn written(entry: Entry, fields: Value) -> Self {
        Self {
            written: Some(fields),
            ..Self::new(entry, Set::new())
        }
    }

    /// The record with the stored form of the one before it, which serves on as far as nothing has changed.
    pub(crate) fn in_place_of(mut self, previous: Option<Record>) -> Self {
        self.stored = previous.and_then(|record| record.stored);
        self
    }

    fn encode(&self) -> Value {
        if let Some(fields) = &self.written {
            return self.entry.encode(fields.clone());
        }
        match &self.stored {
            Some(stored) if stored.set == self.set => {
                if stored.api_version == self.entry.api_version && stored.time == self.entry.time {
                    return stored.value.clone();
                }
                match stored.value.get("fieldsV1") {
                    Some(fields) => self.entry.encode(fields.clone()),
                    None => self.entry.encode(self.set.to_fields_v1_value()),
                }
            }
            _ => self.entry.encode(self.set.to_fields_v1_value()),
        }
    }
}

impl Managed {
    /// Reads the entries of `object`; none where it has no list. Of entries with one identifier the last counts.
    pub(crate) fn decode(object: &Value, source: Source) -> Result<Self, DecodeError> {
        Self::decode_list(object.at(&PATH), source)
    }

    /// Reads a list of entries.
    pub(crate) fn decode_list(list: Option<&Value>, source: Source) -> Result<Self, DecodeError> {
        let mut records = BTreeMap::new();
        for entry in entries(list, source)? {
            let (identifier, unread) = entry?;
            records.insert(identifier, unread.read(source)?);
        }
        Ok(Self(records))
    }

    /// Reads the entries of a stored `object` but that of `identifier`, which is given as it stands: what it owns is not read.
    pub(crate) fn decode_others<'v>(
        object: &'v Value,
        identifier: &str,
    ) -> Result<(Self, Option<Unread<'v>>), DecodeError> {
        let (mut records, mut own) = (BTreeMap::new(), None);
        for entry in entries(object.at(&PATH), Source::Stored)? {
            let (found, unread) = entry?;
            if found == identifier {
                own = Some(unread);
            } else {
                records.insert(found, unread.read(Source::Stored)?);
            }
        }
        Ok((Self(records), own))
    }

    /// Writes the entries into `object`, or takes the list out where there are none.
    pub(crate) fn encode_into(&self, object: &mut Value) {
        match self.encode_list() {
            Some(list) => object.set_at(&PATH, list),
            None => remove_from(object),
        }
    }

    /// The entries in order: applies first, then the older first by seconds, then by manager, version and subresource.
    pub(crate) fn encode_list(&self) -> Option<Value> {
        if self.0.is_empty() {
            return None;
        }
        let mut records: Vec<&Record> = self.0.values().collect();
        records.sort_by(|a, b| order(&a.entry, &b.entry));
        let list: List = records.into_iter().map(Record::encode).collect();
        Some(Value::List(list))
    }
}

/// The entries of a list with their identifiers; none where there is no list.
fn entries(
    list: Option<&Value>,
    source: Source,
) -> Result<impl Iterator<Item = Result<(SmolStr, Unread<'_>), DecodeError>>, DecodeError> {
    let list = match list {
        None | Some(Value::Null) => &[],
        Some(value) => value.as_list().map(|list| &list[..]).ok_or(DecodeError::Shape)?,
    };
    Ok(list.iter().enumerate().map(move |(at, value)| {
        let entry = Entry::decode(value, at, source)?;
        Ok((entry.identifier(), Unread { entry, value }))
    }))
}

/// Whether `managedFields` of `object` can be read.
///
/// # Errors
/// Why they cannot.
pub fn check(object: &Value) -> Result<(), DecodeError> {
    Managed::decode(object, Source::Request).map(drop)
}

/// Takes the list out of `object`.
pub(crate) fn remove_from(object: &mut Value) {
    object.remove_at(&PATH);
}

/// The list in `object`.
pub(crate) fn list_in(object: &Value) -> Option<&Value> {
    object.at(&PATH)
}

/// The seconds by which entries are sorted: what has no time comes first.
pub(crate) fn seconds(entry: &Entry) -> i64 {
    entry.time.as_ref().map_or(0, |time| time.seconds)
}

fn order(a: &Entry, b: &Entry) -> Ordering {
    (a.operation.cmp(&b.operation))
        .then_with(|| seconds(a).cmp(&seconds(b)))
        .then_with(|| a.manager.cmp(&b.manager))
        .then_with(|| a.api_version.cmp(&b.api_version))
        .then_with(|| a.subresource.cmp(&b.subresource))
}
