#![forbid(unsafe_code)]
#![warn(clippy::indexing_slicing)]
//! Objects of a known type as records: flat arrays of nodes over the text of the object.
//!
//! A [`Record`] is read from JSON by the types of a [`TypeTable`](holdfast_schema::types::TypeTable). Names of fields
//! become slots while the text is read, so later steps neither compare names nor search for the type of a value. Texts
//! stay where they are in the input; only texts with escapes are copied. Free JSON within an object stays text.
//!
//! Only texts of the usual form have a record: without unknown or repeated fields, and with the values that the types
//! require. For others [`RecordTypes::read`] returns `None`, and the caller reads a tree, which accepts everything.
//!
//! Invariant: this crate knows no kind.

mod layout;
mod node;
mod read;

pub use layout::RecordTypes;
pub use node::{Kind, Node, Record, RecordBuffers};
pub use read::MAX_DEPTH;
