#![forbid(unsafe_code)]
//! Holdfast, the binary.

fn main() {}
