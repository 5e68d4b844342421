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
mod capability;
mod check;
pub mod conversion;
pub mod convert;
pub mod counters;
pub mod durations;
mod field;
pub mod field_error;
pub mod jsonpath;
mod kind_type;
pub mod metadata;
mod names;
mod nested;
pub mod openapi;
mod parts;
pub mod quota;
mod registry;
mod resource;
mod responder;
mod same;
pub mod schema;
pub mod selector;
mod strategic_merge;
mod strategy;
pub mod structural;
pub mod table;
pub mod version_order;

pub use capability::{
    AdmissionExemptions, AtRestRules, Capabilities, Claim, Claims, Converts, Defines, DefiningObject, DeletionRules,
    Followed, InitialObjects, Old, RawExtensions, RawForm, Responder, RowConditions, RowRules, SelectorWords,
    TokenClaim,
};
pub use check::{Check, NoRules, Part, Rules};
pub use conversion::{ConversionError, ConversionWebhook};
pub use convert::ConversionCaller;
pub use field::Field;
pub use field_error::{Aggregate, FieldError, FieldErrorKind, FieldPath};
pub use kind_type::{
    Conventions, Findings, KindName, KindType, KindTypes, TableType, TableTypes, TypedObject, Validation,
};
pub use names::{GroupKind, GroupResource, GroupVersion, GroupVersionKind};
pub use nested::{nested_field, nested_integer, nested_path, nested_text};
pub use parts::{Fact, Known, Parts};
pub use registry::{DefinedGroup, Registry, RegistryBuilder, Served};
pub use resource::{
    AtRest, CreationChecks, Definition, Encoding, GarbageCollection, Generation, MetadataChecks, NameRule,
    RepeatedChecks, Resource, ResourceRules, ResourceVersion, ScaleFields, Scope, Storage, Subresource, UpdateOrder,
    Verb,
};
pub use responder::{
    ActionStep, ComputedObjects, ConnectParameter, Connecter, Connection, ParameterForm, Review, SubresourceAction,
};
pub use same::{same, same_once_stored};
pub use strategic_merge::{
    PatchError, PatchErrorKind, PatchMember, PatchStrategy, PatchType, TablePatchType, consumed_patch, strategic_merge,
};
pub use strategy::{
    AuditAnnotations, Beside, Generic, Lookup, Operation, OutcomeCall, Refusal, Strategy, WriteContext,
};
