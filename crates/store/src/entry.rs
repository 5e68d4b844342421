//! Values as they are stored and entries as they are served.
//!
//! A stored object does not contain its own `metadata.resourceVersion`, because the revision is unknown before the
//! commit. A value therefore holds the offset at which this text belongs, and an entry holds the finished bytes: the
//! revision is inserted once, and the response, the cache and every watcher share the result.

use std::fmt;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, OnceLock};

use bytes::Bytes;

use crate::key::{Key, Revision, table_by_segments};
use crate::packed::Text;

/// Interface by which the user of the store defines an index for each entry and the prefixes of tables.
///
/// The store does not interpret values: the caller that opens it defines how to index them.
pub trait Indexer: Send + Sync + Sized + 'static {
    /// Facts about a value that should be available without parsing it: labels, owners, selectable fields.
    type Index: Send + Sync + 'static;

    /// Slot of an event in which watchers share its encodings. `()` if nothing is shared.
    type Encodings: Default + Send + Sync + 'static;

    /// Builds the index of `value`, whose resource version is already inserted. The store calls it at most once for an
    /// entry, when its index is first needed and did not arrive with the commit.
    fn index(&self, key: &Key, value: &[u8]) -> Self::Index;

    /// Returns the length of the part of `prefix` that names its table, 0 if `prefix` spans tables.
    ///
    /// Counts, scans and wake-ups are cheap within a table. For a key, the result must always be the same as for every
    /// sufficiently long prefix of that key.
    fn table(&self, prefix: &[u8]) -> usize {
        table_by_segments(prefix)
    }
}

/// An indexer without an index.
impl Indexer for () {
    type Index = ();
    type Encodings = ();

    fn index(&self, _key: &Key, _value: &[u8]) {}
}

/// Identity of the form in which a value is stored: the provider and key that encrypted it. A [`Transformer`](crate::Transformer) assigns
/// the numbers, which are valid for one process.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct StoredForm(u16);

impl StoredForm {
    /// Form of a value that is stored unchanged.
    pub const PLAIN: Self = Self(0);

    /// Form of a value that cannot be transformed. In the state, a placeholder represents it.
    pub const UNREADABLE: Self = Self(u16::MAX);

    /// Creates the form with this number.
    pub fn new(number: u16) -> Self {
        Self(number)
    }
}

/// Bytes to store, and the offset at which their revision is to be inserted when they are served.
#[derive(Clone, PartialEq, Eq)]
pub struct Value {
    bytes: Bytes,
    revision_at: Option<u32>,
    form: StoredForm,
}

impl Value {
    /// Creates a value whose bytes are served unchanged.
    pub fn plain(bytes: impl Into<Bytes>) -> Self {
        Self {
            bytes: bytes.into(),
            revision_at: None,
            form: StoredForm::PLAIN,
        }
    }

    /// Creates a value from an encoded object whose decimal revision belongs at byte `revision_at`, such as between the
    /// quotes of `"resourceVersion":""`. A commit rejects an offset beyond the end.
    pub fn object(bytes: impl Into<Bytes>, revision_at: u32) -> Self {
        Self {
            bytes: bytes.into(),
            revision_at: Some(revision_at),
            form: StoredForm::PLAIN,
        }
    }

    /// Returns the same value with the form in which an engine stores it.
    pub fn with_form(self, form: StoredForm) -> Self {
        Self { form, ..self }
    }

    /// Returns the form in which an engine stores the value.
    pub(crate) fn form(&self) -> StoredForm {
        self.form
    }

    /// Returns the value as the engine stores it in other bytes, with the offset that it has in its own.
    pub(crate) fn as_stored(&self, stored: Bytes) -> Self {
        Self {
            bytes: stored,
            ..self.clone()
        }
    }

    /// Returns the bytes without a revision, as they are stored.
    pub fn bytes(&self) -> &Bytes {
        &self.bytes
    }

    /// Returns the offset of the revision, if there is one.
    pub fn revision_at(&self) -> Option<u32> {
        self.revision_at
    }

    /// Returns true if the offset is within the bytes.
    pub(crate) fn is_consistent(&self) -> bool {
        self.revision_at.is_none_or(|at| at as usize <= self.bytes.len())
    }
}

impl fmt::Debug for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "Value({} bytes, revision at {:?})",
            self.bytes.len(),
            self.revision_at
        )
    }
}

/// One version of one key, as it is served. Shared and immutable.
pub struct Entry<X: Indexer> {
    key: Key,
    text: Text,
    revision_at: Option<u32>,
    /// Position of the operation in its transaction: together with the revision, the identity of a version.
    position: u16,
    form: StoredForm,
    /// Length of another encoding of the value; 0 while it is unknown.
    encoded_length: AtomicU32,
    mod_revision: Revision,
    create_revision: Revision,
    /// Allocated separately: most entries from the disk are listed and watched without an index.
    index: OnceLock<Box<X::Index>>,
    indexer: Arc<X>,
}

/// Identity and time of a version.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Version {
    pub(crate) mod_revision: Revision,
    pub(crate) create_revision: Revision,
    pub(crate) position: u16,
}

impl<X: Indexer> Entry<X> {
    #[expect(
        clippy::indexing_slicing,
        reason = "the place was found in these bytes when the entry was made"
    )]
    pub(crate) fn new(
        indexer: &Arc<X>,
        key: Key,
        value: Stored<'_>,
        version: Version,
        index: Option<X::Index>,
    ) -> Arc<Self> {
        let Version {
            mod_revision,
            create_revision,
            position,
        } = version;
        let bytes = match value {
            Stored {
                bytes,
                revision_at: Some(at),
                ..
            } => splice(&bytes[..at as usize], mod_revision, &bytes[at as usize..]),
            Stored {
                shared: Some(shared), ..
            } => shared.clone(),
            Stored { bytes, .. } => Bytes::copy_from_slice(bytes),
        };
        // A new value is read next by watchers; a value from the disk may never be read.
        let text = match value.shared {
            Some(_) => Text::Plain(bytes),
            None => Text::unread(bytes),
        };
        Arc::new(Self {
            key,
            text,
            revision_at: value.revision_at,
            position,
            form: value.form,
            encoded_length: AtomicU32::new(0),
            mod_revision,
            create_revision,
            index: index.map_or_else(OnceLock::new, |index| OnceLock::from(Box::new(index))),
            indexer: indexer.clone(),
        })
    }

    /// Creates the same value under another revision, for a delete event if the deleter provided no bytes.
    pub(crate) fn at(&self, mod_revision: Revision, position: u16) -> Arc<Self> {
        let version = Version {
            mod_revision,
            create_revision: self.create_revision,
            position,
        };
        self.with_version(version, self.form)
    }

    /// Creates the same value as another version, which is stored in `form`.
    pub(crate) fn with_version(&self, version: Version, form: StoredForm) -> Arc<Self> {
        let current = self.bytes_once();
        let renumbered = match self.revision_at {
            None => current,
            Some(at) => {
                let Parts { head, tail } = self.parts(&current, at);
                splice(head, version.mod_revision, tail)
            }
        };
        Arc::new(Self {
            key: self.key.clone(),
            text: Text::Plain(renumbered),
            revision_at: self.revision_at,
            position: version.position,
            form,
            encoded_length: AtomicU32::new(0),
            mod_revision: version.mod_revision,
            create_revision: version.create_revision,
            index: OnceLock::new(),
            indexer: self.indexer.clone(),
        })
    }

    /// Returns true if the values are equal except for their revisions.
    pub(crate) fn has_same_value(&self, other: &Self) -> bool {
        if self.revision_at != other.revision_at {
            return false;
        }
        let (own, others) = (self.bytes_once(), other.bytes_once());
        match self.revision_at {
            None => own == others,
            Some(at) => self.parts(&own, at) == other.parts(&others, at),
        }
    }

    /// Returns the parts of the value before and after its revision, which is at byte `at`.
    fn parts<'b>(&self, bytes: &'b [u8], at: u32) -> Parts<'b> {
        let (head, rest) = bytes.split_at_checked(at as usize).unwrap_or((bytes, &[]));
        let digits = itoa::Buffer::new().format(self.mod_revision).len();
        Parts {
            head,
            tail: rest.get(digits..).unwrap_or_default(),
        }
    }

    /// Returns the key.
    pub fn key(&self) -> &Key {
        &self.key
    }

    /// Returns the value with its revision inserted.
    pub fn bytes(&self) -> &Bytes {
        self.text.bytes()
    }

    /// Returns the same bytes for a single use: a large value from the disk that was not requested yet remains packed.
    pub fn bytes_once(&self) -> Bytes {
        self.text.bytes_once()
    }

    /// Returns the length of the value in bytes, with its revision inserted.
    pub fn length(&self) -> usize {
        self.text.len()
    }

    /// Returns the length that [`Self::set_encoded_length`] noted, if any.
    pub fn encoded_length(&self) -> Option<usize> {
        match self.encoded_length.load(Ordering::Relaxed) {
            0 => None,
            length => Some(length as usize),
        }
    }

    /// Notes the length of another encoding of this value, so that it need not be encoded again to learn it. The store's
    /// user chooses the encoding, and always the same one.
    pub fn set_encoded_length(&self, length: usize) {
        self.encoded_length
            .store(u32::try_from(length).unwrap_or_default(), Ordering::Relaxed);
    }

    /// Returns the value as it was written, without its revision.
    pub fn value(&self) -> Value {
        let Some(at) = self.revision_at else {
            return Value::plain(self.bytes_once());
        };
        let bytes = self.bytes_once();
        let Parts { head, tail } = self.parts(&bytes, at);
        Value::object([head, tail].concat(), at)
    }

    /// Returns the revision of this version: for an object, its `metadata.resourceVersion`.
    pub fn mod_revision(&self) -> Revision {
        self.mod_revision
    }

    /// Returns the revision of the key's most recent creation.
    pub fn create_revision(&self) -> Revision {
        self.create_revision
    }

    /// Returns the offset of the revision's digits within [`Entry::bytes`], if it has a revision.
    pub fn revision_at(&self) -> Option<u32> {
        self.revision_at
    }

    /// Returns the index of the value; builds it if necessary.
    pub fn index(&self) -> &X::Index {
        self.index
            .get_or_init(|| Box::new(self.indexer.index(&self.key, &self.bytes_once())))
    }

    /// Returns the index of the value, if it was built.
    pub fn known_index(&self) -> Option<&X::Index> {
        self.index.get().map(Box::as_ref)
    }

    /// Returns the form in which the engine stores this version.
    pub fn form(&self) -> StoredForm {
        self.form
    }

    pub(crate) fn position(&self) -> u16 {
        self.position
    }

    /// Returns the approximate memory of this entry.
    pub(crate) fn weight(&self) -> usize {
        size_of::<Self>() + self.text.len() + self.key.len()
    }
}

/// Entries are equal if they are the same version of the same key of one store.
impl<X: Indexer> PartialEq for Entry<X> {
    fn eq(&self, other: &Self) -> bool {
        (self.mod_revision, self.position) == (other.mod_revision, other.position) && self.key == other.key
    }
}

impl<X: Indexer> fmt::Debug for Entry<X> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "Entry({} at {}, {} bytes)",
            self.key,
            self.mod_revision,
            self.text.len()
        )
    }
}

/// Parts of a value around its revision.
#[derive(PartialEq, Eq)]
struct Parts<'b> {
    head: &'b [u8],
    tail: &'b [u8],
}

/// A value to be put into an entry: borrowed from the disk, or shared with its writer.
#[derive(Clone, Copy)]
pub(crate) struct Stored<'a> {
    bytes: &'a [u8],
    shared: Option<&'a Bytes>,
    revision_at: Option<u32>,
    form: StoredForm,
}

impl<'a> Stored<'a> {
    /// Creates a value from the disk, which stores it in `form`. `revision_at` must be within `bytes`.
    pub(crate) fn borrowed(bytes: &'a [u8], revision_at: Option<u32>, form: StoredForm) -> Self {
        Self {
            bytes,
            shared: None,
            revision_at,
            form,
        }
    }
}

impl<'a> From<&'a Value> for Stored<'a> {
    fn from(value: &'a Value) -> Self {
        Self {
            bytes: &value.bytes,
            shared: Some(&value.bytes),
            revision_at: value.revision_at,
            form: value.form,
        }
    }
}

fn splice(head: &[u8], revision: Revision, tail: &[u8]) -> Bytes {
    let mut buffer = itoa::Buffer::new();
    let digits = buffer.format(revision).as_bytes();
    let mut bytes = Vec::with_capacity(head.len() + digits.len() + tail.len());
    bytes.extend_from_slice(head);
    bytes.extend_from_slice(digits);
    bytes.extend_from_slice(tail);
    bytes.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(value: &Value, mod_revision: Revision) -> Arc<Entry<()>> {
        let version = Version {
            mod_revision,
            create_revision: 2,
            position: 0,
        };
        Entry::new(&Arc::new(()), "/a".into(), value.into(), version, None)
    }

    #[test]
    fn an_entry_holds_its_own_revision() {
        let value = Value::object(&br#"{"metadata":{"resourceVersion":"","name":"a"}}"#[..], 32);
        let entry = entry(&value, 1234);
        assert_eq!(
            entry.bytes(),
            &br#"{"metadata":{"resourceVersion":"1234","name":"a"}}"#[..]
        );
        let later = entry.at(99_999, 1);
        assert_eq!(
            later.bytes(),
            &br#"{"metadata":{"resourceVersion":"99999","name":"a"}}"#[..]
        );
        assert_eq!((later.mod_revision(), later.create_revision()), (99_999, 2));
    }

    #[test]
    fn an_entry_holds_the_value_that_was_written() {
        for value in [
            Value::object(&br#"{"resourceVersion":""}"#[..], 20),
            Value::plain(&b"1234"[..]),
        ] {
            assert_eq!(entry(&value, 1234).value(), value);
            assert_eq!(entry(&value, 1234).at(99_999, 1).value(), value);
        }
    }

    #[test]
    fn a_plain_value_is_shared_with_its_writer() {
        let value = Value::plain(vec![7; 100]);
        assert_eq!(entry(&value, 5).bytes().as_ptr(), value.bytes().as_ptr());
    }
}
