#![forbid(unsafe_code)]
//! `cargo xtask`: the habits of the project as commands.

mod bench;
mod cases;
mod compare;
mod docs;
mod e2e;
mod fuzz;
mod generate;
mod habits;
mod names;
mod order;
mod soak;
mod stores;
mod suites;
mod traces;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

#[derive(Parser)]
#[command(name = "cargo xtask", about = "The habits of the project")]
struct Arguments {
    #[command(subcommand)]
    habit: Habit,
}

#[derive(Subcommand)]
enum Habit {
    /// Check formatting and lints, as .ci/run does.
    Lint,
    /// Run the tests of the workspace; with --slow those that take minutes too.
    Test {
        /// Run the ignored tests as well: the long kill tests and the like.
        #[arg(long)]
        slow: bool,
    },
    /// Check licences, sources, advisories and duplicate versions of dependencies with cargo-deny.
    Deny,
    /// Write the tables of the built-in kinds anew from their sources.
    Generate(generate::Arguments),
    /// Replay recorded exchanges against the server and compare with the list of those known to pass.
    Traces(traces::Arguments),
    /// Replay single questions against the server and compare with the lists of those that are known to pass.
    Cases(cases::Arguments),
    /// Send the same random writes to a kube-apiserver and to Holdfast, and show where the answers differ.
    Compare(compare::Arguments),
    /// Use, abuse and kill a server for some minutes, and see that it lost nothing.
    Soak(soak::Arguments),
    /// Feed any bytes to what reads them, for some minutes, and keep what breaks it.
    Fuzz(fuzz::Arguments),
    /// Print the way to the etcd that tests use, which is built or downloaded where there is none.
    Etcd(habits::EtcdArguments),
    /// Build a kube-apiserver from its Go module, which takes ten minutes, and print the way to it.
    KubeApiserver,
    /// Run the suites of published Go modules that test with envtest against the server in its place.
    Suites(suites::Arguments),
    /// Run Kubernetes' own end-to-end tests against a server, but for those that need Pods which run; building them takes ten
    /// minutes, once.
    E2e(e2e::Arguments),
    /// Write the pages of the reference in docs/reference, as the code has them.
    Docs,
    /// Note which functions a server runs while it starts, which the linker puts beside each other; needs valgrind.
    Order,
    /// Start a release server and measure it.
    Bench(bench::Arguments),
}

fn main() -> ExitCode {
    let outcome = match Arguments::parse().habit {
        Habit::Lint => habits::lint(),
        Habit::Test { slow } => habits::test(slow),
        Habit::Deny => habits::deny(),
        Habit::Generate(arguments) => generate::run(&arguments),
        Habit::Traces(arguments) => traces::run(&arguments),
        Habit::Cases(arguments) => cases::run(&arguments),
        Habit::Compare(arguments) => compare::run(&arguments),
        Habit::Soak(arguments) => soak::run(&arguments),
        Habit::Fuzz(arguments) => fuzz::run(&arguments),
        Habit::Etcd(arguments) => habits::etcd(&arguments),
        Habit::KubeApiserver => habits::kube_apiserver(),
        Habit::Suites(arguments) => suites::run(&arguments),
        Habit::E2e(arguments) => e2e::run(&arguments),
        Habit::Docs => docs::run(),
        Habit::Order => order::run(),
        Habit::Bench(arguments) => bench::run(&arguments),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            habits::complain(&format!("{error:#}"));
            ExitCode::FAILURE
        }
    }
}
