//! The server as a whole: request handling, limits, documents, health, and the client for the server's own controllers.

pub mod aggregation;
mod audit;
pub mod browsers;
pub mod debugging;
pub mod discovery;
pub mod fairness;
mod filters;
mod flagz;
pub mod health;
pub mod inflight;
pub mod loopback;
pub mod node_graph;
pub mod openapi;
pub mod paths;
pub mod service;
mod start;
mod statusz;
pub mod storage_versions;
pub mod testing;
pub mod token_uses;
mod zpage;

pub use start::start;
