#![forbid(unsafe_code)]
#![warn(clippy::indexing_slicing)]
//! Kubernetes protobuf to and from the object tree.
//!
//! [`Messages`] reads and writes the message of any type of a
//! [`TypeTable`](holdfast_resource::schema::TypeTable): the table says under which numbers the fields of a type stand, and
//! what the reference writes for unset fields. What is read has the form that
//! [`decode`](holdfast_resource::schema::decode) gives to JSON; what has that form is written byte for byte as the
//! reference writes it. A whole object travels within an [`Envelope`]; lists and watch events are put together of objects
//! that were written before.
//!
//! Invariant: nothing here knows a kind, and there is no second description of the types: only the order of their fields by
//! number is kept beside the table.

mod back_to_front;
mod decode;
mod encode;
mod envelope;
mod error;
mod layout;
mod openapi;
mod wire;

pub use envelope::{Envelope, ListHead, MAGIC, TAIL, write_envelope, write_list, write_watch_event};
pub use error::{DecodeError, EncodeError};
pub use layout::Messages;
pub use openapi::{openapi_v2, openapi_v3};
pub use wire::write_bytes;
