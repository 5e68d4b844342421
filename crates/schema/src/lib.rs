#![forbid(unsafe_code)]
#![warn(clippy::indexing_slicing)]
//! Types of objects, as data, and the checks that follow from them.
//!
//! A [`types::TypeTable`] holds the built-in types with their fields, defaults and validation tags. [`Check`] validates
//! objects by these tags, [`metadata`] validates the metadata of objects of any kind, and [`strategic_merge()`] applies a
//! patch by the tags of the types. A [`KindType`] is the interface to the type of one kind, whether it is built in or
//! comes from a CRD.
//!
//! Invariant: nothing here knows a resource or does I/O.

mod check;
pub mod durations;
mod field;
pub mod field_error;
mod go_field;
mod kind_type;
pub mod metadata;
mod names;
mod nested;
mod parts;
mod rule_names;
mod same;
mod strategic_merge;
pub mod types;

pub use check::{AnyChanges, AnyRules, Changes, Check, NoRules, Part, Rules, Validation};
pub use field::Field;
pub use field_error::{Aggregate, FieldError, FieldErrorKind, FieldPath};
pub use go_field::{GoField, read_go_file};
pub use kind_type::{
    Conventions, FieldDefaults, Findings, KindName, KindType, KindTypes, PublishedSchema, TableType, TableTypes,
    TypedObject,
};
pub use metadata::{CreationChecks, MetadataChecks, MetadataRules, NameRule, RepeatedChecks, UpdateOrder};
pub use names::{GroupKind, GroupResource, GroupVersion, GroupVersionKind};
pub use nested::{ScaleFields, nested_field, nested_integer, nested_path, nested_text};
pub use parts::{Fact, Parts, StoredFacts};
pub use rule_names::{NoRule, RuleId, RuleNames, RuleSet};
pub use same::{same, same_once_stored};
pub use strategic_merge::{
    PatchError, PatchErrorKind, PatchMember, PatchStrategy, PatchType, TablePatchType, consumed_patch, strategic_merge,
};
pub use types::{Origin, Provenance};
