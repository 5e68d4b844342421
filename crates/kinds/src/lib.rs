#![forbid(unsafe_code)]
//! See the package description; the rooms of the project are in `ARCHITECTURE.md`.

pub mod tables;
