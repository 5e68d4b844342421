#![forbid(unsafe_code)]
#![warn(clippy::indexing_slicing)]
//! A Kubernetes-compatible API server inside the process of a test.
//!
//! [`Server::builder`] configures a server and [`ServerBuilder::start`] starts it: in memory, on a free port of
//! 127.0.0.1, without files. Several servers run in one process. They share no objects and no settings: the library
//! installs no logger, handles no signals and changes no limits of the process.
//!
//! The binary `holdfast` is a thin program around the same code.

mod admission;
mod aggregation;
mod apply;
mod audit;
mod authentication;
mod authorization;
mod blame;
mod certificates;
mod check;
mod command_line;
mod compatible;
mod connection;
mod controllers;
mod copy;
mod diff;
mod doctor;
mod documents;
mod egress;
mod election;
mod encryption;
mod endpoints;
mod envtest;
mod error;
mod fairness;
mod files;
mod flags;
mod fork;
mod health;
mod help;
mod history;
mod kubeconfig;
mod kubelets;
mod lint;
mod logging;
mod openapi;
mod page;
mod pki;
mod presence;
mod profiling;
#[doc(hidden)]
pub mod program;
mod progress;
mod reload;
mod remote;
mod run;
mod serve;
mod served;
mod server;
mod service;
mod signing;
mod snapshot;
mod static_admission;
mod storage;
mod store;
mod terminal;
mod testing;
mod token_keys;
mod traces;
mod transport;
mod undo;
mod validation;
mod waiting;
mod webhook;

pub use connection::{Connection, ConnectionError};
pub use error::Error;
pub use server::{Server, ServerBuilder};
