#![forbid(unsafe_code)]
#![warn(clippy::indexing_slicing)]
//! Built-in kinds: those that kube-apiserver 1.36 serves without CRDs.
//!
//! Facts about a kind that are data (names, verbs, fields, unconditional defaults, keys) are in the crate
//! [`holdfast_kind_tables`]. Each kind has one file for its behaviour, by API group: `apps/deployment.rs` sets defaults
//! that depend on other fields, prepares objects for storage, and validates them. [`registry()`] combines both.
//!
//! To add the behaviour of a kind, write its file with a [`Strategy`](holdfast_resource::Strategy), and add it with its
//! capabilities to the list of kinds in the `mod.rs` of its group.

mod admissionregistration;
mod apiextensions;
mod apiregistration;
mod apps;
mod authentication;
mod authorization;
mod autoscaling;
mod batch;
mod cells;
mod certificates;
mod claim_spec;
mod config;
mod coordination;
mod core;
pub mod counters;
pub mod defaults;
mod discovery;
mod events;
mod flowcontrol;
mod generation;
#[cfg(any(test, feature = "testing"))]
pub mod harness;
mod kind;
mod networking;
mod node;
pub mod pod_resources;
pub mod pod_spec;
mod policy;
mod quota;
mod rbac;
mod registry;
mod resource;
mod rules;
mod scheduling;
mod storage;
mod storageversion;
mod storageversionmigration;
#[cfg(test)]
mod tests;
mod time;
pub mod validation;
mod versions;
mod volume_sources;
mod workload;

pub use certificates::{may_use_signer, pem};
pub use config::{Config, KubeletAddresses, random};
pub use core::qos_class;
pub use rbac::{changes_ownership_alone, node_rules};
pub use registry::{registry, registry_with_types, table_types};
pub use scheduling::SYSTEM_CLASSES;
