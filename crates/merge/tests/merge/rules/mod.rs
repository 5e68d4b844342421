//! Rules of structured merge, each demonstrated by a few operations and the resulting state.

mod laws;
mod merging;
mod ownership;
mod pruning;
mod scenario;
mod sets;
mod validation;
mod versions;
