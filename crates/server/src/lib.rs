#![forbid(unsafe_code)]
#![cfg_attr(
    test,
    allow(clippy::disallowed_methods, reason = "tests measure the time of the system")
)]
#![warn(clippy::indexing_slicing)]
//! The Kubernetes-compatible HTTP server.
//!
//! The folders form layers. Each imports only those before it in this list, which `tests/layers.rs` checks:
//!
//! - [`runtime`]: the clock, identifiers, background tasks, long work, shutdown, the build.
//! - [`wire`]: connections, TLS and certificates, bodies, slow clients, requests in flight, WebSocket framing.
//! - [`http`]: headers, negotiation, parameters, request info, answers and the `Status` of errors.
//! - [`objects`]: stored objects and their index, lookups, informers, CRDs, encoded events.
//! - [`identity`]: authentication, impersonation, service account tokens, authorization of a request.
//! - [`metrics`]: the metrics of the server.
//! - [`webhooks`]: the client of webhooks.
//! - [`authentication`]: tokens that other servers vouch for: OpenID Connect issuers and the token webhook.
//! - [`authorization`]: authorizers that ask webhooks, and the configuration of the chain of authorizers.
//! - [`nodes`]: requests that are passed on to kubelets, pods and services: logs, commands, proxies.
//! - `representation`: an object in an answer: its version, its metadata, a row of a table.
//! - [`read`]: lists, continue tokens, watches.
//! - [`mod@write`]: a write from its decoded object to its commit.
//! - [`api`]: the router, one file for each verb, and the context that connects the layers.
//! - [`operations`]: the service of all requests, health, discovery, OpenAPI, the loopback client, the start.

pub mod api;
pub mod authentication;
pub mod authorization;
pub mod http;
pub mod identity;
pub mod metrics;
pub mod nodes;
pub mod objects;
pub mod operations;
pub mod read;
mod representation;
pub mod runtime;
pub mod webhooks;
pub mod wire;
pub mod write;
