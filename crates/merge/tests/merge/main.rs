//! Tests of the merge engine: recorded vectors, and rules as scenarios and laws.

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
mod rules;
