#![forbid(unsafe_code)]
#![warn(clippy::indexing_slicing)]
//! The object tree that every other crate of Holdfast works on.
//!
//! An object is a [`Value`] from decoding to encoding, never a struct per kind. Maps are kept sorted by key, so two
//! trees are compared and merged by walking both in parallel. Strings of up to 23 bytes are stored inline; lists, maps
//! and longer strings are shared, so that a clone of any subtree costs one reference count.

pub mod cbor;
mod compare;
mod error;
mod finding;
mod growth;
pub mod json;
pub mod json_patch;
mod limits;
mod members;
pub mod merge_patch;
mod names;
mod number;
pub mod pointer;
mod seen;
mod serde;
#[cfg(test)]
mod tests;
pub mod text;
mod tree;
pub mod yaml;

pub use error::{Error, Position};
pub use finding::{Duplicates, Finding, Parsed};
pub use growth::Growth;
pub use limits::Limits;
pub use members::Members;
pub use names::Names;
pub use seen::SeenValues;
pub use smol_str::SmolStr;
pub use tree::{Entry, List, Map, Source, Value};
