use holdfast_resource::{Known, RawForm};
use holdfast_value::Value;

use crate::AfterCommit;

/// The object in place, as a run finds it.
#[derive(Clone, Debug)]
pub struct Live {
    /// The object as it is stored.
    pub stored: Value,
    /// Whether that is how clients see it in the version of the request.
    pub shown_as_stored: bool,
    /// Form of its raw extensions.
    pub raw_form: RawForm,
    /// Whether nothing was written since it was created.
    pub as_created: bool,
    /// What is known of its parts.
    pub known: Known,
}

/// What a run came to.
pub struct Staged {
    /// What is to be done.
    pub write: Write,
    /// The object in its storage version.
    pub object: Value,
    /// Form of its raw extensions.
    pub raw_form: RawForm,
    /// What is known of its parts.
    pub known: Known,
    /// Who wants to hear of the end of the write.
    pub after: AfterCommit,
    /// What the client is to be warned of.
    pub warnings: Vec<String>,
}

/// What is to be done to the store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Write {
    /// The object is as it should be.
    Unchanged,
    /// The object is to be stored.
    Put,
    /// The object is to be removed.
    Delete,
}
