//! Tests that start the binary and send it HTTP requests.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    missing_docs,
    unreachable_pub,
    reason = "a helper of tests fails as a test does"
)]

mod admission_plugins;
mod aggregation;
mod apply_command;
mod audit;
mod authentication;
mod authorization;
mod authorized_only;
mod book;
mod command_line;
mod conflict_details;
mod copies;
mod custom_resources;
mod deletion;
mod differences;
mod diffs;
mod egress;
mod encryption;
mod etcd_conditions;
mod examples;
mod external_signer;
mod files;
mod forks_and_timeline;
mod gates;
mod history;
mod kubelets;
mod leader_election;
mod lint;
mod migration;
mod monitoring;
mod nodes;
mod packaging;
mod page;
mod page_command;
mod process;
mod profiling;
mod quotas;
mod secret_tokens;
mod served;
mod service_accounts;
mod several_servers;
mod snapshots;
mod static_admission;
mod tables;
mod testing_endpoints;
mod traces;
mod transactions;
mod watches;
