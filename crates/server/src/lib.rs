#![forbid(unsafe_code)]
//! The Kubernetes-compatible HTTP server.
//!
//! A request goes through these rooms in turn: the connection, authentication (who asks), the request info (what about),
//! authorization (may they), the router (which resource and verb), and a handler. Handlers know resources as data alone.

pub mod admission;
pub mod body;
mod handlers;
pub mod lookup;
pub mod negotiation;
pub mod objects;
pub mod options;
pub mod query;
pub mod request;
pub mod request_info;
pub mod response;
pub mod router;
pub mod state;
pub mod status;
pub mod user;

pub use status::ApiError;
