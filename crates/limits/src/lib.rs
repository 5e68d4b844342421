#![forbid(unsafe_code)]
//! Bounds for what clients cause: rates ([`TokenBucket`]) and memory ([`LruMap`]). The time is an argument.

mod lru_map;
mod token_bucket;

pub use lru_map::{KeyHash, KeyHasher, LruMap};
pub use token_bucket::{Moment, TokenBucket};
