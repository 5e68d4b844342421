//! Rules of structured merge, each demonstrated by a few operations and the resulting state.

#![allow(clippy::unwrap_used, clippy::panic)] // Checks panic.

mod laws;
mod merging;
mod ownership;
mod pruning;
mod scenario;
mod sets;
mod validation;
mod versions;
