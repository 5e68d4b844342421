//! Tests that need several modules.

mod growth;
mod layers;
mod source;
