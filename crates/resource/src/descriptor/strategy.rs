//! Behaviour of one kind beyond the generic behaviour, and the services of the server that it may use.

use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use holdfast_authorization::User;
use holdfast_schema::metadata::rest_of_metadata_update;
use holdfast_schema::types::TypeTable;
use holdfast_schema::{
    AnyChanges, AnyRules, Check, FieldError, GroupKind, GroupResource, KindType, KindTypes, NoRules, Parts, Provenance,
    Validation,
};
use holdfast_value::Value;
use parking_lot::Mutex;

use super::resource::Resource;
use crate::access::Access;

/// Additions of a kind to the generic behaviour of writes. Each method is one step of a write; its default does
/// nothing. Other behaviour of only some kinds is a capability; see [`Capabilities`](crate::Capabilities).
///
/// Objects are in the storage version of the resource, except in [`Strategy::default_fields`], which receives the
/// version of the request.
pub trait Strategy: Send + Sync {
    /// Fills in missing fields and those that depend on other fields; unconditional defaults are already filled in.
    /// `version` is the version of the object, such as `v1`.
    fn default_fields(&self, version: &str, object: &mut Value) {
        let _ = (version, object);
    }

    /// Prepares an object that is about to be created: drops fields that the client may not set, and fills in those
    /// that only the server knows. The status of kinds with a status subresource is already removed, and so are fields
    /// whose feature gate is off.
    ///
    /// upstream: k8s.io/apiserver/pkg/registry/rest#RESTCreateStrategy
    fn prepare_for_create(&self, context: &WriteContext<'_>, object: &mut Value) -> Result<(), Rejection> {
        let _ = (context, object);
        Ok(())
    }

    /// Checks that the user may make this update, on the object after mutating admission: fields that the update left
    /// out, such as the uid or the resource version, are not filled in yet.
    fn authorize_update(&self, context: &WriteContext<'_>, object: &Value, old: &Value) -> Result<(), Rejection> {
        let _ = (context, object, old);
        Ok(())
    }

    /// Prepares an object that is about to replace `old`: fields that this write may not touch are copied from `old`.
    /// The fields that the descriptor names for this write (such as the status) are already copied from `old`, and
    /// fields whose feature gate is off are already removed.
    ///
    /// upstream: k8s.io/apiserver/pkg/registry/rest#RESTUpdateStrategy
    fn prepare_for_update(&self, context: &WriteContext<'_>, object: &mut Value, old: &Value) -> Result<(), Rejection> {
        let _ = (context, object, old);
        Ok(())
    }

    /// Prepares an object whose deletion begins and that is not removed yet, such as by setting its phase.
    ///
    /// upstream: k8s.io/apiserver/pkg/registry/rest#RESTGracefulDeleteStrategy
    fn prepare_for_delete(&self, context: &WriteContext<'_>, object: &mut Value) {
        let _ = (context, object);
    }

    /// Returns the checks of values in code, in addition to the validation tags of the kind.
    fn rules<'v>(&self) -> &dyn AnyRules<'v> {
        &NoRules
    }

    /// Returns the checks of changes in code, in addition to the validation tags of the kind.
    fn changes<'v>(&self) -> &dyn AnyChanges<'v> {
        &NoRules
    }

    /// Validates an object that is to be created. Metadata is already validated.
    ///
    /// upstream: k8s.io/apiserver/pkg/registry/rest#RESTCreateStrategy
    fn validate(&self, context: &WriteContext<'_>, object: &Value) -> Vec<FieldError> {
        context.check(object, self.rules())
    }

    /// Validates an object that is to replace `old`, including those checks of [`Strategy::validate`] that apply to
    /// updates. Metadata is already validated.
    ///
    /// upstream: k8s.io/apiserver/pkg/registry/rest#RESTUpdateStrategy
    fn validate_update(&self, context: &WriteContext<'_>, object: &Value, old: &Value) -> Vec<FieldError> {
        let mut errors = self.validate(context, object);
        errors.extend(context.rest_of_metadata(object, old));
        errors.extend(context.check_changes(object, old, self.changes()));
        errors
    }

    /// Returns the warnings for the client about an accepted object, sent as Warning headers. `old` is set for updates.
    ///
    /// upstream: k8s.io/apiserver/pkg/registry/rest#RESTCreateStrategy
    /// upstream: k8s.io/apiserver/pkg/registry/rest#RESTUpdateStrategy
    fn warnings(&self, context: &WriteContext<'_>, object: &Value, old: Option<&Value>) -> Vec<String> {
        let _ = (context, object, old);
        Vec::new()
    }
}

/// Strategy of kinds whose behaviour is only that of their descriptor.
pub struct Generic;

impl Strategy for Generic {}

/// Operations that admission and strategies distinguish.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    /// A new object.
    Create,
    /// A change of an object, by PUT or any PATCH.
    Update,
    /// A deletion.
    Delete,
    /// A request through a [`Connecter`](crate::Connecter).
    Connect,
}

/// Context of a write: the request, the server's services and the known facts.
pub struct WriteContext<'a> {
    /// Operation of the request.
    pub operation: Operation,
    /// The subresource that is written to, if any.
    pub subresource: Option<&'a str>,
    /// The namespace; empty for cluster-scoped resources.
    pub namespace: &'a str,
    /// The name of the object; for a create by generateName, the generated name.
    pub name: &'a str,
    /// The group and version of the request, such as `apps/v1`.
    pub api_version: &'a str,
    /// The user who writes.
    pub user: &'a User,
    /// Authorization of users and authentication of tokens.
    pub access: Access<'a>,
    /// True if the request is a PATCH.
    pub patches: bool,
    /// True if nothing will be stored.
    pub dry_run: bool,
    /// The run of the write, for state outside the request and the store; see [`WriteContext::now`] and
    /// [`SharedState`](crate::SharedState).
    pub run: &'a dyn WriteRun,
    /// The resource that is written.
    pub resource: &'a Resource,
    /// The types of the built-in kinds.
    pub kinds: &'a KindTypes,
    /// The same as a table.
    pub types: &'a TypeTable,
    /// Provenance of the written object.
    pub provenance: Provenance<'a>,
    /// Facts about parts of the object, known and found.
    pub parts: Parts<'a>,
    /// True if the raw extensions of the object differ in bytes from those of the existing object, even if they are
    /// semantically equal.
    pub raw_rewritten: bool,
    /// The other objects.
    pub lookup: &'a dyn Lookup,
    /// Annotations of the request in the audit log, if it is audited.
    pub audit: Option<&'a dyn AuditAnnotations>,
    /// Callbacks to run when the outcome of the write is known; see [`WriteContext::on_outcome`].
    pub outcome: Mutex<Vec<OutcomeCall>>,
    /// Other results of the write; see [`WriteContext::warn`].
    pub beside: Mutex<SideResults>,
}

/// Results of a write other than its object.
#[derive(Default)]
pub struct SideResults {
    /// Warnings for the client.
    pub warnings: Vec<String>,
}

/// Callback for the outcome of a write: called with `true` if it was stored.
pub type OutcomeCall = Box<dyn FnOnce(bool) + Send>;

/// The run of a write, which records what its steps read outside the request and the store.
pub trait WriteRun: Sync {
    /// Returns the time of the write, which is the same for all of its steps, and records the read.
    fn now(&self) -> SystemTime;

    /// Records a read of state that a kind or a plugin keeps between writes.
    fn record_shared_state(&self);
}

impl WriteContext<'_> {
    /// Returns the time of the write. Call this only if the time is needed: the result of a run that reads the clock
    /// may differ at another time, so the server does not answer a repetition of it from memory.
    pub fn now(&self) -> SystemTime {
        self.run.now()
    }

    /// Registers `call` to run once the outcome of the write is known: with `true` if it was stored, with `false` if it
    /// was rejected, lost a race or was a dry run. A strategy releases its reservations there.
    pub fn on_outcome(&self, call: impl FnOnce(bool) + Send + 'static) {
        self.outcome.lock().push(Box::new(call));
    }

    /// Returns the subresource of an update. A new object is validated as a whole, whatever path it is created through.
    fn updated_subresource(&self) -> Option<&str> {
        self.subresource.filter(|_| self.operation != Operation::Create)
    }

    /// Drops the fields of the object whose feature gates are off, unless `old` uses them.
    pub fn drop_disabled(&self, object: &mut Value, old: Option<&Value>) {
        if let Some(of) = self.kind_type(object) {
            of.drop_disabled(object, old);
        }
    }

    /// Validates the values of an object by the tags of its type and by `rules`.
    pub fn check<'v>(&self, object: &'v Value, rules: &dyn AnyRules<'v>) -> Vec<FieldError> {
        self.validated(object, None, rules, &NoRules)
    }

    fn validated<'v>(
        &self,
        object: &'v Value,
        old: Option<&'v Value>,
        rules: &dyn AnyRules<'v>,
        changes: &dyn AnyChanges<'v>,
    ) -> Vec<FieldError> {
        let Some(of) = self.kind_type(object) else {
            return Vec::new();
        };
        let found = of.validate(&Validation {
            object,
            old,
            subresource: self.updated_subresource(),
            rules,
            changes,
            provenance: self.provenance,
            parts: Some(&self.parts),
        });
        found.warnings.into_iter().for_each(|text| self.warn(text));
        found.errors
    }

    /// Returns the type of a written object, which is in the version of the request or in the storage version.
    fn kind_type(&self, object: &Value) -> Option<Arc<dyn KindType>> {
        let (api_version, kind) = (object.str_at(&["apiVersion"])?, object.str_at(&["kind"])?);
        self.resource.body_type(self.kinds, api_version, kind)
    }

    /// Creates a check for the written object, with the fields that the request gives as empty.
    pub fn new_check(&self) -> Check<'_> {
        let mut check = Check::new(self.types);
        check.provenance = self.provenance;
        check.parts = Some(&self.parts);
        check
    }

    /// Validates the changes of an object from `old` by the tags of its type and by `changes`.
    pub fn check_changes<'v>(
        &self,
        object: &'v Value,
        old: &'v Value,
        changes: &dyn AnyChanges<'v>,
    ) -> Vec<FieldError> {
        let mut check = self.new_check();
        check.object_changes(object, old, self.subresource, changes);
        check.errors
    }

    /// Returns the errors of metadata that the kind reports between those of the object and those of its change; see
    /// [`UpdateOrder`](holdfast_schema::UpdateOrder).
    pub fn rest_of_metadata(&self, object: &Value, old: &Value) -> Vec<FieldError> {
        rest_of_metadata_update(
            &self.resource.metadata_rules(),
            self.subresource.unwrap_or_default(),
            object,
            old,
        )
    }

    /// Validates the values of an object, and then its changes from `old`.
    pub fn check_update<'v, R>(&self, object: &'v Value, old: &'v Value, rules: &R) -> Vec<FieldError>
    where
        R: AnyRules<'v> + AnyChanges<'v>,
    {
        self.validated(object, Some(old), rules, rules)
    }

    /// Returns true if the request gives an empty value in the field at `path` or below it.
    pub fn gives_empty_in(&self, path: &str) -> bool {
        self.provenance.gives_empty_in(path)
    }

    /// Adds the annotation `key` with `value` to the audit log, if the request is audited.
    pub fn annotate(&self, key: &str, value: impl FnOnce() -> String) {
        if let Some(audit) = self.audit {
            audit.annotate(key, value());
        }
    }

    /// Adds a warning for the client.
    pub fn warn(&self, text: String) {
        self.beside.lock().warnings.push(text);
    }
}

/// Audit annotations of a request, in addition to its target and its outcome
/// (<https://kubernetes.io/docs/reference/labels-annotations-taints/audit-annotations/>).
pub trait AuditAnnotations: Send + Sync {
    /// Adds `value` under `key`. The first value of a key stays.
    fn annotate(&self, key: &str, value: String);

    /// Returns true if the log records the bodies of the request, so that their changes may be recorded too.
    fn records_bodies(&self) -> bool;

    /// Records the duration of a webhook call; `mutates` is true if the webhook may change objects rather than only
    /// deny writes.
    fn webhook_took(&self, mutates: bool, time: Duration);

    /// Records the duration of a call to the store.
    fn store_took(&self, time: Duration);
}

/// The stored objects, for strategies and admission plugins. Objects are in their storage version.
pub trait Lookup: Sync {
    /// Returns the object of that name. `namespace` is empty for cluster-scoped resources.
    fn get(&self, resource: &GroupResource, namespace: &str, name: &str) -> Option<Value>;

    /// Calls `visit` with each object of the resource in `namespace` (in all if it is empty) until it breaks.
    fn list(&self, resource: &GroupResource, namespace: &str, visit: &mut dyn FnMut(&Value) -> ControlFlow<()>);

    /// Lists like [`Lookup::list`], for callers that cache what they derive from an object: provides the revision at
    /// which each was written (0 if unknown) and reads the object only on request.
    fn list_revisions(
        &self,
        resource: &GroupResource,
        namespace: &str,
        visit: &mut dyn FnMut(u64, &dyn Fn() -> Value),
    ) {
        self.list(resource, namespace, &mut |object| {
            visit(0, &|| object.clone());
            ControlFlow::Continue(())
        });
    }

    /// Returns the resource whose objects are of that kind, if it is served.
    fn resource_of(&self, kind: &GroupKind) -> Option<&Resource> {
        let _ = kind;
        None
    }

    /// Returns an error if the store is known not to accept writes.
    ///
    /// # Errors
    /// If the store accepts no writes, with the reason.
    fn storage_health(&self) -> Result<(), String> {
        Ok(())
    }
}

/// A rejected write, in the terms of the API's Status; the server builds the frame of the message.
#[derive(Clone, Debug)]
pub enum Rejection {
    /// 422 with causes.
    Invalid(Vec<FieldError>),
    /// 403: `RESOURCE "NAME" is forbidden: MESSAGE`, with causes if there are any.
    Forbidden {
        /// Text after `is forbidden: `.
        message: String,
        /// The causes, as reason, message and field.
        causes: Vec<(String, String, String)>,
    },
    /// 403 about another object than the one written.
    ForbiddenOn {
        /// Resource that the message names.
        resource: GroupResource,
        /// Its name.
        name: String,
        /// Text after `is forbidden: `.
        message: String,
    },
    /// 404 of another object than the one written, such as its namespace: `RESOURCE "NAME" not found`.
    NotFound {
        /// Resource of the object that was not found.
        resource: GroupResource,
        /// Its name.
        name: String,
    },
    /// 409: `Operation cannot be fulfilled on RESOURCE "NAME": MESSAGE`.
    Conflict(String),
    /// 409 about another object or subresource than the one written.
    ConflictOn {
        /// Resource that the message names.
        resource: GroupResource,
        /// Its name.
        name: String,
        /// Reason of the conflict.
        why: String,
    },
    /// 422 about another kind or name than those written.
    InvalidAs {
        /// The kind that the message names.
        kind: GroupKind,
        /// The name that the message names.
        name: String,
        /// The causes.
        errors: Vec<FieldError>,
    },
    /// 400 with this message.
    BadRequest(String),
    /// 429 with this message.
    TooManyRequests {
        /// Message.
        message: String,
        /// Seconds after which to retry; 0 for no advice.
        retry_after_seconds: u32,
        /// The causes, as reason and message.
        causes: Vec<(String, String)>,
    },
    /// 503 with this message.
    Unavailable(String),
    /// 500: `Internal error occurred: MESSAGE`.
    Internal(String),
    /// 500 with this message and no reason.
    Failed(String),
}

impl Rejection {
    /// Returns a 403 without causes.
    pub fn forbidden(message: impl Into<String>) -> Self {
        Self::Forbidden {
            message: message.into(),
            causes: Vec::new(),
        }
    }
}
