#![forbid(unsafe_code)]
//! Holdfast, the binary: a Kubernetes-compatible API server in one process, and commands for people.

use std::process::ExitCode;

fn main() -> ExitCode {
    holdfast::program::main()
}
