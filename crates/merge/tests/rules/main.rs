//! The rules of structured merge, each shown by a few operations and the state that they lead to.

#![allow(clippy::unwrap_used, clippy::panic)] // Checks panic.

mod laws;
mod merging;
mod ownership;
mod pruning;
mod scenario;
mod sets;
mod validation;
mod versions;
