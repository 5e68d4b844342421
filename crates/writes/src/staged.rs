use holdfast_resource::RawForm;
use holdfast_schema::{Provenance, StoredFacts};
use holdfast_value::Value;

use crate::call::AfterCommit;

/// Existing object as it is stored at the begin of a run.
#[derive(Clone, Debug)]
pub struct StoredObject {
    /// The object.
    pub object: Value,
    /// Facts about it.
    pub provenance: Provenance<'static>,
    /// Form of its raw extensions.
    pub raw_form: RawForm,
}

#[cfg(any(test, feature = "testing"))]
impl StoredObject {
    /// Creates an object that is stored in the requested form, and about which nothing else is proven.
    pub fn unproven(object: Value) -> Self {
        Self {
            object,
            provenance: Provenance::from_store(StoredFacts::UNPROVEN).in_requested_form(),
            raw_form: RawForm::default(),
        }
    }
}

/// Existing object in the requested version.
#[derive(Clone, Copy)]
pub(crate) struct Existing<'a> {
    /// The object.
    pub(crate) object: &'a Value,
    /// Facts about the stored object, or about the tree from which the object was made.
    pub(crate) provenance: Provenance<'a>,
}

/// Result of the write pipeline, ready to commit.
pub struct Staged {
    /// Change of the store.
    pub write: Write,
    /// The object in its storage version.
    pub object: Value,
    /// Form of its raw extensions.
    pub raw_form: RawForm,
    /// Facts about the object that hold once it is stored.
    pub facts: StoredFacts,
    /// Callbacks that run after the commit succeeds or fails.
    pub after: AfterCommit,
    /// Warnings for the client.
    pub warnings: Vec<String>,
}

/// Change of the store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Write {
    /// The object is as it should be.
    Unchanged,
    /// The object is to be stored.
    Put,
    /// The object is to be removed.
    Delete,
}
