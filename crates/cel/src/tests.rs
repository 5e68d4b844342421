//! Tests that need several modules.

mod layers;
mod recovery;
