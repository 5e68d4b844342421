#![forbid(unsafe_code)]
//! Development tools that need the server or a client. `cargo xtask NAME` runs them.

mod bench;
mod cases;
mod commands;
mod compare;
mod docs;
mod e2e;
mod fuzz;
mod generate;
mod names;
mod order;
mod simulate;
mod soak;
mod stores;
mod suites;
mod traces;
mod upstream;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

#[derive(Parser)]
#[command(name = "cargo xtask", about = "Development tools that need the server or a client")]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Regenerate the tables of the built-in kinds from their sources.
    Generate(generate::Arguments),
    /// Replay recorded exchanges against the server and compare with the list of those known to pass.
    Traces(traces::Arguments),
    /// Replay single questions against the server and compare with the lists of those that are known to pass.
    Cases(cases::Arguments),
    /// Send the same random writes to a kube-apiserver and to Holdfast, and show differences of the responses.
    Compare(compare::Arguments),
    /// Simulate a server with all choices from a seed, for many seeds, and print the steps of a seed that fails.
    Simulate(simulate::Arguments),
    /// Use, abuse and kill a server for some minutes, and check that no data is lost.
    Soak(soak::Arguments),
    /// Run the fuzz targets for some minutes, and keep the inputs that break them.
    Fuzz(fuzz::Arguments),
    /// Print the path of the etcd that tests use, which is built or downloaded if it is missing.
    Etcd(commands::EtcdArguments),
    /// Build a kube-apiserver from its Go module, for ten minutes, and print its path.
    KubeApiserver,
    /// Run the suites of published Go modules that test with envtest, with this server instead of envtest's binaries.
    Suites(suites::Arguments),
    /// Run Kubernetes' own end-to-end tests against a server, except for those that need running Pods; building them
    /// needs ten minutes, once.
    E2e(e2e::Arguments),
    /// Compare two releases of Kubernetes, and check that `upstream:` lines name declarations of the first one.
    Upstream(upstream::Arguments),
    /// Write the pages of the reference in docs/reference, as the code has them.
    Docs,
    /// Record the functions that a server runs while it starts, which the linker then places together; needs valgrind.
    Order,
    /// Start a release server and measure it.
    Bench(bench::Arguments),
}

fn main() -> ExitCode {
    let result = match Arguments::parse().command {
        Command::Generate(arguments) => generate::run(&arguments),
        Command::Traces(arguments) => traces::run(&arguments),
        Command::Cases(arguments) => cases::run(&arguments),
        Command::Compare(arguments) => compare::run(&arguments),
        Command::Simulate(arguments) => simulate::run(&arguments),
        Command::Soak(arguments) => soak::run(&arguments),
        Command::Fuzz(arguments) => fuzz::run(&arguments),
        Command::Etcd(arguments) => commands::etcd(&arguments),
        Command::KubeApiserver => commands::kube_apiserver(),
        Command::Suites(arguments) => suites::run(&arguments),
        Command::E2e(arguments) => e2e::run(&arguments),
        Command::Upstream(arguments) => upstream::run(&arguments),
        Command::Docs => docs::run(),
        Command::Order => order::run(),
        Command::Bench(arguments) => bench::run(&arguments),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            commands::complain(&format!("{error:#}"));
            ExitCode::FAILURE
        }
    }
}
