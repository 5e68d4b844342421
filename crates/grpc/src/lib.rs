#![forbid(unsafe_code)]
//! Calls of gRPC methods over a Unix socket or TCP. Plugins of key management
//! services, signers of tokens and collectors of traces are called in this way.

mod client;
mod socket;

pub use client::{Client, GrpcError, Responses};
