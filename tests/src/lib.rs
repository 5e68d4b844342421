#![forbid(unsafe_code)]
//! Shared parts of the tests and the benchmark that start the real binary: a server of their own, a client of it,
//! webhooks, aggregated servers, and CRDs like those of well-known operators.

pub mod aggregated;
pub mod book;
mod client;
pub mod clients;
mod crd_race;
mod environment;
pub mod hog;
#[path = "../../crates/server/tests/server/hook/mod.rs"]
pub mod hook;
pub mod issuer;
pub mod kubelet;
mod objects;
pub mod operators;
mod process;
mod reference;
mod server;
pub mod tool;

pub use client::{Connection, Http2, Target};
pub use crd_race::{RaceOutcome, race_with_crd_deletion};
pub use environment::Environment;
pub use objects::{Client, MERGE};
pub use process::{Process, wait_for_end};
pub use reference::Reference;
pub use server::{ADMIN_TOKEN, Binary, NODE_TOKEN, Server, USER_TOKEN, root};
