//! Tests of the built-in kinds against the facts of the reference.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    missing_docs,
    unreachable_pub,
    reason = "a helper of tests fails as a test does"
)]

mod openapi;
mod tables;
mod versions;
