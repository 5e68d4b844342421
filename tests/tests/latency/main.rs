//! Tests that measure the latency of a user next to a greedy one. A program of their own, because other tests would disturb them.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    missing_docs,
    unreachable_pub,
    reason = "a helper of tests fails as a test does"
)]

mod fairness;
mod slow_readers;
