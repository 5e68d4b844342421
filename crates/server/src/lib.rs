#![forbid(unsafe_code)]
//! The Kubernetes-compatible HTTP server.
//!
//! A request goes through these rooms in turn: the connection, authentication (who asks), the request info (what about),
//! authorization (may they), the router (which resource and verb), and a handler. Handlers know resources as data alone.

pub mod authentication;
pub mod authorization;
pub mod background;
pub mod body;
mod compression;
pub mod connection;
mod conversion;
pub mod definitions;
pub mod discovery;
mod followers;
mod handlers;
mod headers;
pub mod health;
pub mod inflight;
pub mod long_work;
pub mod lookup;
pub mod loopback;
pub mod metrics;
pub mod negotiation;
pub mod objects;
pub mod openapi;
pub mod options;
pub mod paths;
mod protobuf;
pub mod query;
pub mod request;
pub mod request_info;
pub mod response;
pub mod router;
pub mod service;
pub mod shutdown;
mod slow_clients;
pub mod state;
pub mod status;
pub mod tls;
pub mod version;
pub mod watch;
pub mod webhooks;
mod websocket;
pub mod write;
mod x509;

pub use status::ApiError;
