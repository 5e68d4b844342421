//! Tests of the protobuf encoding.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    missing_docs,
    unreachable_pub,
    reason = "a helper of tests fails as a test does"
)]

#[path = "../invariants/mod.rs"]
mod invariants;
mod messages;
mod records;
mod reference;
#[path = "../invariants/text.rs"]
mod text_invariants;
