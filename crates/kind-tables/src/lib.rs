#![forbid(unsafe_code)]
#![warn(clippy::indexing_slicing)]
//! Facts about the built-in kinds of kube-apiserver 1.36 that are data: names, verbs, fields, unconditional defaults,
//! validation tags, columns, descriptions, feature gates and served versions.
//!
//! The folder `tables` has the facts, and `cargo xtask generate` writes most of them. The crate `holdfast-kinds` has the
//! rules, and passes each [`Kind`] to [`resources`].

pub mod apis;
mod columns;
mod descriptions;
pub mod features;
mod group_versions;
mod kind;
pub mod metadata_checks;
mod resources;
mod types;

pub use columns::Columns;
pub use descriptions::Descriptions;
pub use group_versions::{all_group_versions, group_versions};
pub use kind::Kind;
pub use resources::{KindOf, ResourceTableError, resources};
pub use types::{
    TablesError, decodable_versions, older_kinds, types, types_at_rest, types_of, unserved, written_types,
};
