//! The descriptor of a resource: the data, the strategy and the capabilities of a kind.
//!
//! The parts of a descriptor refer to each other: a [`Resource`] holds a [`Strategy`] and [`Capabilities`], and their
//! methods receive a [`WriteContext`], which names the resource that is written.

mod capability;
mod destination;
mod resource;
mod responder;
mod strategy;

pub use capability::{
    AdmissionExemptions, AtRestRules, Capabilities, Claim, ClaimProblem, ClaimRepair, Claims, Converts, Defines,
    DefiningObject, DeletionRules, Followed, HiddenField, InitialObjects, Old, RawExtensions, RawForm, Responder,
    RowConditions, RowRules, SchemaViolation, SelectorWords, TokenClaim,
};
pub use destination::{BackendTls, CommandStreams, Destination, ExchangeKind, is_global_unicast};
pub use resource::{
    AtRest, CrdState, Encoding, GarbageCollection, Generation, Resource, ResourceRules, ResourceVersion, Scope,
    Storage, Subresource, Verb,
};
pub use responder::{
    ActionStep, ComputedObjects, ConnectParameter, Connecter, Connection, ParameterForm, Review, SubresourceAction,
    TokenDraft,
};
pub use strategy::{
    AuditAnnotations, Generic, Lookup, Operation, OutcomeCall, Rejection, SideResults, Strategy, WriteClock,
    WriteContext,
};
