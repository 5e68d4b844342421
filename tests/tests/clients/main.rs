//! Tests with unmodified clients: kubectl, client-go, controller-runtime, kube-rs, Python, Java, JavaScript.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    missing_docs,
    unreachable_pub,
    reason = "a helper of tests fails as a test does"
)]

mod envtest;
mod go_clients;
mod java_clients;
mod kube_rs;
mod kubectl;
mod other_clients;
mod page;
