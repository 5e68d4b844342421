#![forbid(unsafe_code)]
#![warn(clippy::indexing_slicing)]
//! Conversion between Kubernetes protobuf and the object tree.
//!
//! [`Messages`] reads and writes the message of any type of a [`TypeTable`](holdfast_schema::types::TypeTable): the
//! table contains the field numbers of a type, and the values that the reference writes for unset fields. Decoded trees
//! have the form that [`decode`](holdfast_schema::types::decode) gives to JSON; a tree in that form is encoded byte
//! for byte as by the reference. A whole object is sent in an [`Envelope`]; lists and watch events are assembled from
//! objects that were encoded before.
//!
//! Invariant: this crate knows no kind and has no second description of the types, except an index of their fields by
//! number.

mod back_to_front;
mod decode;
mod encode;
mod envelope;
mod error;
mod layout;
mod openapi;
mod record;
mod wire;

pub use envelope::{
    Envelope, ListHead, MAGIC, TAIL, write_envelope, write_envelope_head, write_list, write_watch_event,
};
pub use error::{DecodeError, EncodeError};
pub use layout::Messages;
pub use openapi::{openapi_v2, openapi_v3};
pub use wire::{field_length, write_bytes, write_field_head};
