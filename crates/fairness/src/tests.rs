//! Tests of the whole crate.

mod layers;
