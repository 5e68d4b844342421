//! Tests of the HTTP API over a real store, without the binary. One program, because each program links the whole server.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    clippy::disallowed_methods,
    missing_docs,
    unreachable_pub,
    reason = "a helper of tests fails as a test does"
)]

mod access;
mod actions;
mod audit;
mod bodies;
mod connection;
mod contention;
mod conversion;
mod custom_writes;
mod discovery_facts;
mod fairness;
mod growth;
mod hook;
mod limits;
mod loopback;
mod noop_applies;
mod policies;
mod quotas;
mod reads;
mod representations;
mod support;
mod tokens;
mod versions;
mod watches;
mod webhook_calls;
mod webhooks;
mod websockets;
mod wire;
mod writes;
