#![forbid(unsafe_code)]
#![cfg_attr(
    test,
    allow(clippy::disallowed_methods, reason = "tests measure the time of the system")
)]
//! Bounds for what clients cause: rates ([`TokenBucket`]) and memory ([`LruMap`]). The time is an argument. [`Stopwatch`]
//! measures durations that decide nothing.

mod lru_map;
mod stopwatch;
mod token_bucket;

pub use lru_map::{KeyHash, KeyHasher, LruMap};
pub use stopwatch::Stopwatch;
pub use token_bucket::{Moment, TokenBucket};
