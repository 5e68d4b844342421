#![forbid(unsafe_code)]
#![warn(clippy::indexing_slicing)]
//! Descriptions of resources, as data.
//!
//! A [`Resource`] describes one group's resource: its names and scope, the versions it is served in, its storage, the
//! fields that each write may touch, the [`Strategy`] that shapes and validates written objects, and the
//! [`Capabilities`] that only some kinds have. The request path knows only descriptors; the [`Registry`] is the
//! snapshot of all of them that a request works with.
//!
//! Invariant: nothing here does I/O. A strategy reads other objects through a [`Lookup`].

pub mod access;
mod check;
pub mod conversion;
pub mod convert;
mod counted;
pub mod counters;
mod descriptor;
pub mod durations;
mod field;
pub mod field_error;
mod field_selector;
pub mod jsonpath;
mod kind_type;
pub mod metadata;
mod names;
mod nested;
pub mod openapi;
mod parts;
pub mod quota;
mod registry;
mod same;
pub mod schema;
pub mod selector;
mod strategic_merge;
pub mod structural;
pub mod table;
pub mod version_order;

pub use check::{Check, NoRules, Part, Rules, Validation};
pub use conversion::{ConversionError, ConversionWebhook};
pub use convert::ConversionCaller;
pub use counted::Counted;
pub use descriptor::{
    ActionStep, AdmissionExemptions, AtRest, AtRestRules, AuditAnnotations, Beside, Capabilities, Claim, Claims,
    ComputedObjects, ConnectParameter, Connecter, Connection, Converts, Defines, DefiningObject, Definition,
    DeletionRules, Encoding, Followed, GarbageCollection, Generation, Generic, HiddenField, InitialObjects, Lookup,
    Old, Operation, OutcomeCall, ParameterForm, RawExtensions, RawForm, Refusal, Resource, ResourceRules,
    ResourceVersion, Responder, Review, RowConditions, RowRules, SchemaViolation, Scope, SelectorWords, Storage,
    Strategy, Subresource, SubresourceAction, TokenClaim, Verb, WriteContext,
};
pub use field::Field;
pub use field_error::{Aggregate, FieldError, FieldErrorKind, FieldPath};
pub use field_selector::{FieldSelector, selectable_fields};
pub use kind_type::{
    Conventions, FieldDefaults, Findings, KindName, KindType, KindTypes, PublishedSchema, TableType, TableTypes,
    TypedObject,
};
pub use metadata::{CreationChecks, MetadataChecks, MetadataRules, NameRule, RepeatedChecks, UpdateOrder};
pub use names::{GroupKind, GroupResource, GroupVersion, GroupVersionKind};
pub use nested::{ScaleFields, nested_field, nested_integer, nested_path, nested_text};
pub use parts::{Fact, Known, Parts};
pub use registry::{DefinedGroup, Registry, RegistryBuilder, Served};
pub use same::{same, same_once_stored};
pub use strategic_merge::{
    PatchError, PatchErrorKind, PatchMember, PatchStrategy, PatchType, TablePatchType, consumed_patch, strategic_merge,
};
