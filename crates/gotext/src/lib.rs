#![forbid(unsafe_code)]
#![warn(clippy::indexing_slicing)]
//! Text formats of Go: each rule of reading or writing that the reference inherits from Go is implemented here once.
//!
//! Invariant: this crate knows nothing of objects, kinds or requests.

pub mod address;
pub mod calendar;
pub mod cidr;
pub mod duration;
pub mod errors;
pub mod number;
pub mod quantity;
pub mod quote;
pub mod time;
pub mod url;
