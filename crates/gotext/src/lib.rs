#![forbid(unsafe_code)]
#![warn(clippy::indexing_slicing)]
//! Texts as the reference reads and writes them, which is as Go does: each rule stands here once for all who need it.
//!
//! Invariant: nothing here knows of objects, kinds or requests.

pub mod address;
pub mod calendar;
pub mod duration;
pub mod errors;
pub mod number;
pub mod quantity;
pub mod quote;
pub mod time;
pub mod url;
