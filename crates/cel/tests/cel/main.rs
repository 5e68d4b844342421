//! Expressions from text to value: meaning, errors, costs and robustness.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod compile_errors;
mod costs;
mod harm;
mod language;
mod libraries;
mod policies;
mod support;
