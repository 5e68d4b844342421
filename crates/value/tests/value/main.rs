//! Tests of the object tree: recorded documents, seeded mutations, properties.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    missing_docs,
    unreachable_pub,
    reason = "a helper of tests fails as a test does"
)]

mod corpus;
#[path = "../invariants/mod.rs"]
mod invariants;
mod mutations;
mod properties;
