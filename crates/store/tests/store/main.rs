//! Tests of the engines: crashes, damage, concurrency, watches, a model.
#![allow(clippy::disallowed_methods, reason = "tests measure the time of the system")]
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    missing_docs,
    unreachable_pub,
    reason = "a helper of tests fails as a test does"
)]

mod concurrency;
mod crash;
mod damage;
mod files;
mod model;
mod transform;
mod watch;
