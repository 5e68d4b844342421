#![forbid(unsafe_code)]
//! `cargo xtask`: the habits of the project.

fn main() {}
