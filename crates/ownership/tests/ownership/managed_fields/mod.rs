//! Effects of writes on `managedFields`: lists of operations and the resulting entries.

mod apply;
mod client_side_apply;
mod decoding;
mod host;
mod many_updaters;
mod options;
mod scale;
mod subresources;
mod times;
mod traces;
mod update;
mod versions;
