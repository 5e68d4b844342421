use holdfast_resource::RawForm;
use holdfast_schema::Known;
use holdfast_value::Value;

use crate::call::AfterCommit;

/// Existing object at the begin of a run.
#[derive(Clone, Debug)]
pub struct Live {
    /// The object as it is stored.
    pub stored: Value,
    /// True if clients see it in that form in the requested version.
    pub shown_as_stored: bool,
    /// Form of its raw extensions.
    pub raw_form: RawForm,
    /// True if it was not written since its creation.
    pub as_created: bool,
    /// Known properties of its parts.
    pub known: Known,
}

/// Result of the write pipeline, ready to commit.
pub struct Staged {
    /// Change of the store.
    pub write: Write,
    /// The object in its storage version.
    pub object: Value,
    /// Form of its raw extensions.
    pub raw_form: RawForm,
    /// Known properties of its parts.
    pub known: Known,
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
