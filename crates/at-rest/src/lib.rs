#![forbid(unsafe_code)]
#![cfg_attr(
    test,
    allow(clippy::disallowed_methods, reason = "tests measure the time of the system")
)]
#![warn(clippy::indexing_slicing)]
//! Storage encoding: objects as kube-apiserver stores them in etcd.
//!
//! The state of a server holds objects in their served form: JSON in the storage version. etcd holds the form that
//! kube-apiserver writes, so that both servers can use the same objects: protobuf in its envelope for built-in kinds;
//! JSON for CRDs, custom objects and API services; some kinds in a version that is not served. [`StorageCodec`] converts
//! between the two forms, byte for byte in both directions.
//!
//! Input may differ from output: older servers may have written objects in versions that are no longer served. They are
//! read as long as the reference's scheme knows the version, and get the defaults of newer fields.
//!
//! [`encryption`] encrypts what is stored, in etcd and in the embedded store.
//!
//! Invariant: this crate knows no kind. Types come from tables, and the conversions of a kind from its strategy.

mod codec;
mod custom;
pub mod encryption;
mod error;

pub use codec::{OlderKind, StorageCodec};
pub use error::AtRestError;
