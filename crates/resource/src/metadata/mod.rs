//! What holds for the metadata of every kind, and the forms of text that it shares with the fields of kinds.

pub mod formats;
pub mod labels;
