#![forbid(unsafe_code)]
#![warn(clippy::indexing_slicing)]
//! Stored objects as kube-apiserver keeps them in etcd.
//!
//! The state of a server holds objects as they are served: JSON in the version that they are stored in. etcd holds what
//! kube-apiserver writes there, so that both can work on the same objects: protobuf in its envelope for built-in kinds, JSON
//! for definitions of resources, for what these define and for API services, some in a version that is not served.
//! [`Kept`] is the way between the two, in both directions exact to the byte.
//!
//! What is read need not be what is written: objects may have been written by older servers in versions that are served no
//! more. They are read as long as the reference's scheme knows the version, and take the defaults that fields got since then.
//!
//! Invariant: nothing here knows a kind. Types stand in tables, and what a kind converts its strategy knows.

mod custom;
mod error;
mod kept;

pub use error::Fault;
pub use kept::{Kept, OlderKind};
