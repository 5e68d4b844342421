//! What one kind does beyond the generic behaviour, and what it may ask of the server while it does.

use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use holdfast_authorization::User;
use holdfast_value::Value;
use parking_lot::Mutex;

use crate::access::Access;
use crate::metadata::rest_of_metadata_update;
use crate::schema::{EmptyField, TypeTable};
use crate::{
    Check, FieldError, GroupKind, GroupResource, KindType, KindTypes, NoRules, Parts, Resource, Rules, Validation,
};

/// What a kind adds to the generic behaviour of writes. Each method is one step of the way of a write; its default does
/// nothing. What only some kinds do besides is a capability; see [`Capabilities`](crate::Capabilities).
///
/// Objects come in the version that the resource is stored in, but for [`Strategy::default_fields`], which sees the
/// version of the request.
pub trait Strategy: Send + Sync {
    /// Fills in what the object leaves out and what depends on other fields; unconditional defaults are filled in
    /// already. `version` is the version of the object, such as `v1`.
    fn default_fields(&self, version: &str, object: &mut Value) {
        let _ = (version, object);
    }

    /// Shapes an object that is about to be created: what the client may not set is dropped, what only the server knows
    /// is filled in. The status of kinds with a status subresource is gone already, and so are fields whose feature is off.
    fn prepare_for_create(&self, context: &WriteContext<'_>, object: &mut Value) -> Result<(), Refusal> {
        let _ = (context, object);
        Ok(())
    }

    /// Checks whether the user may make this update, on the object as mutating admission leaves it: what the update left out,
    /// such as the uid or the resource version, is not filled in yet.
    fn authorize_update(&self, context: &WriteContext<'_>, object: &Value, old: &Value) -> Result<(), Refusal> {
        let _ = (context, object, old);
        Ok(())
    }

    /// Shapes an object that is about to take the place of `old`: what this write may not touch is taken from `old`. The
    /// fields that the descriptor names for this write (such as the status) are taken from `old` already, and fields whose
    /// feature is off are gone.
    fn prepare_for_update(&self, context: &WriteContext<'_>, object: &mut Value, old: &Value) -> Result<(), Refusal> {
        let _ = (context, object, old);
        Ok(())
    }

    /// Shapes an object whose deletion begins and that stays for now, such as by setting its phase.
    fn prepare_for_delete(&self, context: &WriteContext<'_>, object: &mut Value) {
        let _ = (context, object);
    }

    /// What the kind checks in code, beside marks.
    fn rules<'v>(&self) -> &dyn Rules<'v> {
        &NoRules
    }

    /// Says what is wrong with an object that is to be created. Metadata is checked already.
    fn validate(&self, context: &WriteContext<'_>, object: &Value) -> Vec<FieldError> {
        context.check(object, self.rules())
    }

    /// Says what is wrong with an object that is to take the place of `old`, the checks of [`Strategy::validate`]
    /// included where they hold for updates. Metadata is checked already.
    fn validate_update(&self, context: &WriteContext<'_>, object: &Value, old: &Value) -> Vec<FieldError> {
        let mut errors = self.validate(context, object);
        errors.extend(context.rest_of_metadata(object, old));
        errors.extend(context.check_changes(object, old, self.rules()));
        errors
    }

    /// What the client reads in Warning headers about an object that is accepted. `old` is there for updates.
    fn warnings(&self, context: &WriteContext<'_>, object: &Value, old: Option<&Value>) -> Vec<String> {
        let _ = (context, object, old);
        Vec::new()
    }
}

/// The strategy of kinds that do what their descriptor says, and nothing else.
pub struct Generic;

impl Strategy for Generic {}

/// The operations that admission and strategies distinguish.
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

/// What a step of a write may know of the write and of the world.
pub struct WriteContext<'a> {
    /// What is being done.
    pub operation: Operation,
    /// The subresource that is written to, if any.
    pub subresource: Option<&'a str>,
    /// The namespace; empty for cluster-scoped resources.
    pub namespace: &'a str,
    /// The name of the object; for a create by generateName, the name made up for it.
    pub name: &'a str,
    /// The group and version of the request, such as `apps/v1`.
    pub api_version: &'a str,
    /// The user who writes.
    pub user: &'a User,
    /// What users may do, and whose tokens are.
    pub access: Access<'a>,
    /// Whether the request is a PATCH.
    pub patches: bool,
    /// Whether nothing will be stored.
    pub dry_run: bool,
    /// The time of the write.
    pub now: SystemTime,
    /// The resource that is written.
    pub resource: &'a Resource,
    /// The types of the built-in kinds.
    pub kinds: &'a KindTypes,
    /// The same as a table.
    pub types: &'a TypeTable,
    /// What the request gives as empty and the object does not hold for that.
    pub empties: &'a [EmptyField],
    /// What is known of parts of the object, and what is found of them.
    pub parts: Parts<'a>,
    /// Whether the raw extensions of the object are other bytes than those of the object in place, though they may say the same.
    pub raw_rewritten: bool,
    /// The other objects.
    pub lookup: &'a dyn Lookup,
    /// What the audit log says of the request, where it is audited.
    pub audit: Option<&'a dyn AuditAnnotations>,
    /// What is to be called when the outcome of the write is known; see [`WriteContext::on_outcome`].
    pub outcome: Mutex<Vec<OutcomeCall>>,
    /// What the write brings about besides; see [`WriteContext::warn`].
    pub beside: Mutex<Beside>,
}

/// What a write brings about beside the object that it is for.
#[derive(Default)]
pub struct Beside {
    /// What the client is to be warned of.
    pub warnings: Vec<String>,
}

/// Is called once the outcome of a write is known: with `true` when it was stored.
pub type OutcomeCall = Box<dyn FnOnce(bool) + Send>;

impl WriteContext<'_> {
    /// Has `call` called once the outcome of the write is known: with `true` when it was stored, with `false` when it
    /// was refused, lost a race or was a dry run. What a strategy reserved is given back there.
    pub fn on_outcome(&self, call: impl FnOnce(bool) + Send + 'static) {
        self.outcome.lock().push(Box::new(call));
    }

    /// The subresource that an update is for. A new object is looked at as a whole, whatever path it is created through.
    fn updated_subresource(&self) -> Option<&str> {
        self.subresource.filter(|_| self.operation != Operation::Create)
    }

    /// Drops the fields of the object whose feature gates are off, unless `old` uses them.
    pub fn drop_disabled(&self, object: &mut Value, old: Option<&Value>) {
        if let Some(of) = self.kind_type(object) {
            of.drop_disabled(object, old);
        }
    }

    /// What is wrong with the values of an object, as its type and `rules` say.
    pub fn check<'v>(&self, object: &'v Value, rules: &dyn Rules<'v>) -> Vec<FieldError> {
        self.validated(object, None, rules)
    }

    fn validated<'v>(&self, object: &'v Value, old: Option<&'v Value>, rules: &dyn Rules<'v>) -> Vec<FieldError> {
        let Some(of) = self.kind_type(object) else {
            return Vec::new();
        };
        let found = of.validate(&Validation {
            object,
            old,
            subresource: self.updated_subresource(),
            rules,
            empties: self.empties,
            parts: Some(&self.parts),
        });
        found.warnings.into_iter().for_each(|text| self.warn(text));
        found.errors
    }

    /// The type of an object that is written, which is in the version of the request or in that which is stored.
    fn kind_type(&self, object: &Value) -> Option<Arc<dyn KindType>> {
        let (api_version, kind) = (object.str_at(&["apiVersion"])?, object.str_at(&["kind"])?);
        self.kinds.of_body(self.resource, api_version, kind)
    }

    /// A check of what is written, which knows what the request gives as empty.
    pub fn new_check(&self) -> Check<'_> {
        let mut check = Check::new(self.types);
        check.empties = self.empties;
        check.parts = Some(&self.parts);
        check
    }

    /// What of an object may not differ from what it was and does, as the marks of its type and `rules` say.
    pub fn check_changes<'v>(&self, object: &'v Value, old: &'v Value, rules: &dyn Rules<'v>) -> Vec<FieldError> {
        let mut check = self.new_check();
        check.object_changes(object, old, self.subresource, rules);
        check.errors
    }

    /// What is wrong with metadata that the kind reports between the faults of the object and those of its change; see
    /// [`UpdateOrder`](crate::UpdateOrder).
    pub fn rest_of_metadata(&self, object: &Value, old: &Value) -> Vec<FieldError> {
        rest_of_metadata_update(self.resource, self.subresource.unwrap_or_default(), object, old)
    }

    /// What is wrong with the values of an object, and then with how it differs from what it was.
    pub fn check_update<'v>(&self, object: &'v Value, old: &'v Value, rules: &dyn Rules<'v>) -> Vec<FieldError> {
        self.validated(object, Some(old), rules)
    }

    /// Whether the request gives something as empty in the field at `path` or below it.
    pub fn gives_empty_in(&self, path: &str) -> bool {
        let below = |empty: &EmptyField| {
            let rest = empty.path.as_str().strip_prefix(path);
            rest.is_some_and(|rest| rest.is_empty() || rest.starts_with(['.', '[']))
        };
        self.empties.iter().any(below)
    }

    /// Has the audit log say `value` of the request under `key`, where the request is audited.
    pub fn annotate(&self, key: &str, value: impl FnOnce() -> String) {
        if let Some(audit) = self.audit {
            audit.annotate(key, value());
        }
    }

    /// Has the client warned.
    pub fn warn(&self, text: String) {
        self.beside.lock().warnings.push(text);
    }
}

/// What the audit log says of a request besides what it is about and how it ended
/// (<https://kubernetes.io/docs/reference/labels-annotations-taints/audit-annotations/>).
pub trait AuditAnnotations: Send + Sync {
    /// Says `value` under `key`. What was said first under a key stays.
    fn annotate(&self, key: &str, value: String);

    /// Whether the log keeps the bodies of the request, so that what changes them may stand there too.
    fn records_bodies(&self) -> bool;

    /// Records how long a webhook took, which may change objects or refuse writes.
    fn webhook_took(&self, mutates: bool, time: Duration);

    /// Records how long the store took.
    fn store_took(&self, time: Duration);
}

/// The stored objects, as a strategy or an admission plugin may ask for them. Objects come in the version they are
/// stored in.
pub trait Lookup: Sync {
    /// The object of that name. `namespace` is empty for cluster-scoped resources.
    fn get(&self, resource: &GroupResource, namespace: &str, name: &str) -> Option<Value>;

    /// Shows each object of the resource in `namespace` (in all where it is empty) until `visit` breaks off.
    fn list(&self, resource: &GroupResource, namespace: &str, visit: &mut dyn FnMut(&Value) -> ControlFlow<()>);

    /// As [`Lookup::list`], for those who keep what they made of an object: shows the revision at which each was written (0
    /// where that is not known) and reads it only for those who ask.
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

    /// The resource whose objects are of that kind, if it is served.
    fn resource_of(&self, kind: &GroupKind) -> Option<&Resource> {
        let _ = kind;
        None
    }

    /// Whether the store takes writes, as far as is known.
    ///
    /// # Errors
    /// Why it does not.
    fn storage_health(&self) -> Result<(), String> {
        Ok(())
    }
}

/// A write that is refused, in the terms of the API's Status; the server makes the message's frame.
#[derive(Clone, Debug)]
pub enum Refusal {
    /// 422 with causes.
    Invalid(Vec<FieldError>),
    /// 403: `RESOURCE "NAME" is forbidden: MESSAGE`, with causes where there are some.
    Forbidden {
        /// What stands behind `is forbidden: `.
        message: String,
        /// The causes, as reason, message and field.
        causes: Vec<(String, String, String)>,
    },
    /// 403 about another object than the one written.
    ForbiddenOn {
        /// What the message names.
        resource: GroupResource,
        /// Its name.
        name: String,
        /// What stands behind `is forbidden: `.
        message: String,
    },
    /// 404 of another object than the one written, such as its namespace: `RESOURCE "NAME" not found`.
    NotFound {
        /// What was not found.
        resource: GroupResource,
        /// Its name.
        name: String,
    },
    /// 409: `Operation cannot be fulfilled on RESOURCE "NAME": MESSAGE`.
    Conflict(String),
    /// 409 about another object or subresource than the one written.
    ConflictOn {
        /// What the message names.
        resource: GroupResource,
        /// Its name.
        name: String,
        /// Why.
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
        /// Why.
        message: String,
        /// After how many seconds to try again; 0 for no advice.
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

impl Refusal {
    /// A 403 without causes.
    pub fn forbidden(message: impl Into<String>) -> Self {
        Self::Forbidden {
            message: message.into(),
            causes: Vec::new(),
        }
    }
}
