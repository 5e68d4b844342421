//! The whole of `metadata.managedFields`: conversion between the list in an object and the managers with their fields.

use std::cmp::Ordering;
use std::collections::BTreeMap;

use holdfast_merge::Set;
use holdfast_value::{List, SmolStr, Value};

use crate::entry::{self, DecodeError, Entry, Source};
use crate::timestamp::Timestamp;

/// Path of the list in an object.
const PATH: [&str; 2] = ["metadata", "managedFields"];

/// Entries of an object, by identifier.
#[derive(Clone, Debug, Default)]
pub(crate) struct Managed(pub(crate) BTreeMap<SmolStr, Record>);

/// Entry with its fields and its form in the object.
#[derive(Clone, Debug)]
pub(crate) struct Record {
    pub(crate) entry: Entry,
    pub(crate) set: Set,
    /// Entry as it was read, with the decoded parts: its form is reused if nothing has changed.
    stored: Option<Stored>,
    /// Fields in the form to write, if the set was not needed; then the set is empty.
    written: Option<Value>,
}

/// Entry of an object whose fields are not decoded yet.
#[derive(Clone)]
pub(crate) struct Unread<'v> {
    pub(crate) entry: Entry,
    pub(crate) value: &'v Value,
}

impl Unread<'_> {
    /// Decodes the entry with its fields.
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

    /// Creates a record from `fields` in the form to write. Its set must not be used.
    pub(crate) fn written(entry: Entry, fields: Value) -> Self {
        Self {
            written: Some(fields),
            ..Self::new(entry, Set::new())
        }
    }

    /// Reuses the stored form of the previous record as far as nothing has changed.
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
    /// Reads the entries of `object`; none if it has no list. The last of several entries with one identifier wins.
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

    /// Reads the entries of a stored `object` except that of `identifier`, which is returned without decoding its
    /// fields.
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

    /// Writes the entries into `object`, or removes the list if there are none.
    pub(crate) fn encode_into(&self, object: &mut Value) {
        match self.encode_list() {
            Some(list) => object.set_at(&PATH, list),
            None => remove_from(object),
        }
    }

    /// Returns the entries in order: applies first, then by time in seconds, then by manager, version and subresource.
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

/// Iterates over the entries of a list with their identifiers; none if there is no list.
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

/// Checks that `managedFields` of `object` can be read.
///
/// upstream: k8s.io/apimachinery/pkg/util/managedfields#ValidateManagedFields
///
/// ```
/// use holdfast_ownership::check_managed_fields;
/// use holdfast_value::{Limits, json};
///
/// let object = json::parse(br#"{"metadata":{"managedFields":[{"operation":"Guess"}]}}"#, &Limits::REQUEST)?;
/// assert!(check_managed_fields(&object).is_err());
/// # Ok::<(), holdfast_value::Error>(())
/// ```
///
/// # Errors
/// Returns the error of the first entry that cannot be read.
pub fn check(object: &Value) -> Result<(), DecodeError> {
    Managed::decode(object, Source::Request).map(drop)
}

/// Removes the list from `object`.
pub(crate) fn remove_from(object: &mut Value) {
    object.remove_at(&PATH);
}

/// Returns the list in `object`.
pub(crate) fn list_in(object: &Value) -> Option<&Value> {
    object.at(&PATH)
}

/// Returns the seconds by which entries are sorted: entries without a time come first.
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
