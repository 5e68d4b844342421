//! Expressions from text to value: what they mean, what is wrong with them, what they cost, and that none does harm.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod compile_errors;
mod costs;
mod harm;
mod language;
mod libraries;
mod policies;
mod support;
