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
pub mod conversion;
pub mod convert;
mod counted;
pub mod counters;
mod descriptor;
mod field_selector;
pub mod jsonpath;
pub mod quota;
mod registry;
pub mod selector;
pub mod table;
pub mod version_order;

pub use conversion::{ConversionError, ConversionWebhook};
pub use convert::ConversionCaller;
pub use counted::Counted;
pub use descriptor::{
    ActionStep, AdmissionExemptions, AtRest, AtRestRules, AuditAnnotations, BackendTls, Capabilities, Claim,
    ClaimProblem, ClaimRepair, Claims, CommandStreams, ComputedObjects, ConnectParameter, Connecter, Connection,
    Converts, CrdState, Defines, DefiningObject, DeletionRules, Destination, Encoding, ExchangeKind, Followed,
    GarbageCollection, Generation, Generic, HiddenField, InitialObjects, Lookup, Old, Operation, OutcomeCall,
    ParameterForm, RawExtensions, RawForm, Rejection, Resource, ResourceRules, ResourceVersion, Responder, Review,
    RowConditions, RowRules, SchemaViolation, Scope, SelectorWords, SideResults, Storage, Strategy, Subresource,
    SubresourceAction, TokenClaim, TokenDraft, Verb, WriteClock, WriteContext, is_global_unicast,
};
pub use field_selector::{FieldSelector, selectable_fields};
pub use registry::{DefinedGroup, Registry, RegistryBuilder, Served};
