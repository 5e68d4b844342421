#![forbid(unsafe_code)]
#![warn(clippy::indexing_slicing)]
//! The Kubernetes-compatible HTTP server.
//!
//! The folders stand in layers: each uses only those above it in the list below, which `tests/layers.rs` checks. A request
//! comes in by the connection (`wire`); `operations::service` finds out who asks (`identity`), whether they may, and what about
//! (`http::request_info`); the router and the handler of the verb (`api`) read and write. Handlers know resources as data alone.

pub mod api;
pub mod http;
pub mod identity;
pub mod metrics;
pub mod objects;
pub mod operations;
pub mod read;
mod representation;
pub mod runtime;
pub mod webhooks;
pub mod wire;
pub mod write;
