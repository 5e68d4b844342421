//! What one kind does beyond the generic behaviour, and what it may ask of the server while it does.

use std::borrow::Cow;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::SystemTime;

use holdfast_authorization::User;
use holdfast_value::Value;
use parking_lot::Mutex;

use crate::access::Access;
use crate::metadata::formats::Faults;
use crate::schema::TypeTable;
use crate::{Action, Connecter, ConversionError, ConversionWebhook, FieldError, GroupKind, GroupResource, Resource};

/// What a kind adds to the generic behaviour. Each method is one step of the way of a write; its default does nothing.
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
    /// is filled in. The status of kinds with a status subresource is gone already.
    fn prepare_for_create(&self, context: &WriteContext<'_>, object: &mut Value) -> Result<(), Refusal> {
        let _ = (context, object);
        Ok(())
    }

    /// Shapes an object that is about to take the place of `old`: what this write may not touch is taken from `old`. The
    /// fields that the descriptor names for this write (such as the status) are taken from `old` already.
    fn prepare_for_update(&self, context: &WriteContext<'_>, object: &mut Value, old: &Value) -> Result<(), Refusal> {
        let _ = (context, object, old);
        Ok(())
    }

    /// Says what is wrong with the kind of an object; where anything is, nothing else is looked at. Built-in kinds are of
    /// their kind once they are read.
    fn validate_identity(&self, object: &Value) -> Vec<FieldError> {
        let _ = object;
        Vec::new()
    }

    /// Says what is wrong with an object that is to be created. Metadata is checked already.
    fn validate(&self, context: &WriteContext<'_>, object: &Value) -> Vec<FieldError> {
        let _ = (context, object);
        Vec::new()
    }

    /// Says what is wrong with an object that is to take the place of `old`, the checks of [`Strategy::validate`]
    /// included where they hold for updates. Metadata is checked already.
    fn validate_update(&self, context: &WriteContext<'_>, object: &Value, old: &Value) -> Vec<FieldError> {
        let _ = old;
        self.validate(context, object)
    }

    /// What is wrong with `name` as the name of `object`, or as what its name is to begin with; asked where the rule of the
    /// resource is [`NameRule::Own`](crate::NameRule::Own).
    fn name_faults(&self, object: &Value, name: &str) -> Faults {
        let _ = (object, name);
        Faults::new()
    }

    /// What the client is told in Warning headers about an object that is accepted. `old` is there for updates.
    fn warnings(&self, context: &WriteContext<'_>, object: &Value, old: Option<&Value>) -> Vec<String> {
        let _ = (context, object, old);
        Vec::new()
    }

    /// What every answer about the kind warns of where its version goes out of use.
    fn deprecation(&self, version: &str) -> Option<Cow<'_, str>> {
        let _ = version;
        None
    }

    /// Turns an object of one served version into another. Kinds with a single version are never asked.
    fn convert(&self, object: Value, to_api_version: &str) -> Result<Value, ConversionError> {
        Err(ConversionError::Unknown {
            from: object.str_at(&["apiVersion"]).unwrap_or_default().to_owned(),
            to: to_api_version.to_owned(),
        })
    }

    /// As [`Strategy::convert`], for an object as a write leaves it: it has what its version is to give it, and gets no more.
    ///
    /// # Errors
    /// Those of [`Strategy::convert`].
    fn convert_written(&self, object: Value, to_api_version: &str) -> Result<Value, ConversionError> {
        self.convert(object, to_api_version)
    }

    /// The webhook that turns objects of one version into another, where there is one. [`Strategy::convert`] is then asked
    /// for the version that an object is in alone, before the webhook gets it, and [`Strategy::converted`] for what comes back.
    fn conversion_webhook(&self) -> Option<&ConversionWebhook> {
        None
    }

    /// An object as its webhook has converted it, in the form that its version has.
    fn converted(&self, object: Value) -> Value {
        object
    }

    /// An object of a served version as it is once it was in the stored version and back: with what that version is to write
    /// down about it, such as annotations for fields that it lacks. Whoever writes an object owns that too.
    fn settle(&self, object: Value) -> Value {
        object
    }

    /// Whether objects of the kind have a protobuf form. Custom resources have none.
    fn has_protobuf(&self) -> bool {
        true
    }

    /// Whether the cells of tables come from the stored version of an object, whatever version is asked for, rather than from
    /// the version that is shown.
    fn tables_stored_version(&self) -> bool {
        false
    }

    /// Annotations that stand for what the reference keeps in fields that no version has. The metadata in the rows of tables
    /// comes from there, and lacks them.
    fn internal_annotations(&self) -> &'static [&'static str] {
        &[]
    }

    /// What the row of an object tells clients beside its cells: a list of `TableRowCondition`, if there is anything.
    fn row_conditions(&self, object: &Value) -> Option<Value> {
        let _ = object;
        None
    }

    /// The object in another version for the sake of field management: what a manager owns in that version is looked for
    /// in it. Unlike [`Strategy::convert`] it may leave in what the other version does not know.
    fn convert_for_managers(&self, object: Value, to_api_version: &str) -> Result<Value, ConversionError> {
        self.convert(object, to_api_version)
    }

    /// How many seconds an object of a kind with graceful deletion gets before it goes; 0 to go at once. `requested` is
    /// what the client asks for.
    fn grace_period(&self, object: &Value, requested: Option<i64>) -> i64 {
        let _ = object;
        requested.unwrap_or_default()
    }

    /// Whether deletion of the object waits for something beyond `metadata.finalizers`, such as the `spec.finalizers` of a
    /// namespace.
    fn holds_deletion(&self, object: &Value) -> bool {
        let _ = object;
        false
    }

    /// Whether the kind itself looks at the preconditions of a deletion, ahead of the check for all kinds and in words of its
    /// own.
    fn checks_preconditions(&self) -> bool {
        false
    }

    /// What a client is to be warned of that deletes an object and does not say what is to become of its dependents.
    fn deletion_warning(&self) -> Option<&'static str> {
        None
    }

    /// Shapes an object whose deletion begins and that stays for now, such as by setting its phase.
    fn prepare_for_delete(&self, context: &WriteContext<'_>, object: &mut Value) {
        let _ = (context, object);
    }

    /// What answers at once for the resource itself (`subresource` is empty) or for a subresource of it, in place of
    /// something that is stored.
    fn virtual_resource(&self, subresource: &str) -> Option<&dyn Virtual> {
        let _ = subresource;
        None
    }

    /// The objects of the kind that are there from the start, in a version that is served. Those that are missing when the
    /// server starts are created in the server's own name.
    fn initial_objects(&self) -> Vec<Value> {
        Vec::new()
    }

    /// What an object that is there already is to be instead when the server starts, given what is there from the start;
    /// `None` leaves it as it is.
    fn reconcile(&self, stored: &Value, initial: &Value) -> Option<Value> {
        let _ = (stored, initial);
        None
    }

    /// What a POST to a subresource does to stored objects (to the collection, where `subresource` is empty).
    fn action(&self, subresource: &str) -> Option<&dyn Action> {
        let _ = subresource;
        None
    }

    /// A subresource through which requests come to a node or to a pod, if that is what it is.
    fn connecter(&self, subresource: &str) -> Option<&dyn Connecter> {
        let _ = subresource;
        None
    }

    /// Whether a new object keeps what its creator sends in the fields that writes to the object do not touch. Nobody owns
    /// them even so.
    fn keeps_reset_fields_at_creation(&self) -> bool {
        false
    }

    /// Fields that a write to a subresource changes although nobody comes to own them by it: dotted paths that stand among
    /// those which such a write does not touch.
    fn unowned_fields(&self, subresource: &str) -> &'static [&'static str] {
        let _ = subresource;
        &[]
    }

    /// Whether objects of the kind define resources; see [`Strategy::define`].
    fn defines(&self) -> bool {
        false
    }

    /// The resource that a stored object of the kind defines, for as long as it does: a state in which nothing is served
    /// has none. `before` is the resource of the state before, whose parts are kept where they are the same.
    fn define(&self, object: &DefiningObject, before: Option<&Arc<Resource>>) -> Option<Arc<Resource>> {
        let _ = (object, before);
        None
    }

    /// Whether [`Strategy::observe`] wants to see the objects of the kind.
    fn observes(&self) -> bool {
        false
    }

    /// Is told of each stored object at start (`old` is `None`) and of each committed change after that, in order; so a
    /// kind can keep count of what its objects hold, such as allocated addresses. Where changes were missed, it is told how
    /// each object differs from what it was told last.
    fn observe(&self, old: Option<&Value>, new: Option<&Value>) {
        let _ = (old, new);
    }
}

/// What is answered at once and never stored: a review, a request for a token, the state of a component.
///
/// The verbs stand in the descriptor as for any resource; those that a kind does not have here are never asked. Objects
/// come in the version of the request, typed, with their defaults and with the namespace of the address.
pub trait Virtual: Send + Sync {
    /// The answer to a POST of `object`: the whole object that the client is shown.
    ///
    /// # Errors
    /// Why there is no answer.
    fn create(&self, context: &WriteContext<'_>, object: Value) -> Result<Value, Refusal> {
        let _ = object;
        Err(Refusal::Internal(format!("{} cannot be created", context.name)))
    }

    /// The answer to a GET of the object of that name.
    ///
    /// # Errors
    /// Why there is none.
    fn get(&self, context: &WriteContext<'_>, name: &str) -> Result<Value, Refusal> {
        let _ = context;
        Err(Refusal::Internal(format!("{name} cannot be read")))
    }

    /// The objects that a list shows.
    ///
    /// # Errors
    /// Why there is no list.
    fn list(&self, context: &WriteContext<'_>) -> Result<Vec<Value>, Refusal> {
        let _ = context;
        Ok(Vec::new())
    }

    /// The kind that a refusal of an invalid object names, where it is not that of the object.
    fn named_when_invalid(&self) -> Option<&'static str> {
        None
    }
}

/// A stored object that defines a resource.
pub struct DefiningObject {
    /// The object.
    pub object: Value,
    /// The revision of the store at which it came to be so.
    pub revision: u64,
    /// Reads the object again, so that nothing large need be kept of it until it is needed.
    pub read: Arc<dyn Fn() -> Value + Send + Sync>,
    /// The built-in types, of which defined objects have metadata.
    pub types: Arc<TypeTable>,
}

/// The sorts of writes that admission and strategies tell apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    /// A new object.
    Create,
    /// A change of an object, by PUT or any PATCH.
    Update,
    /// A deletion.
    Delete,
    /// A request through a [`Connecter`].
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
    /// The user who writes.
    pub user: &'a User,
    /// What users may do, and whose tokens are.
    pub access: Access<'a>,
    /// Whether nothing will be stored.
    pub dry_run: bool,
    /// The time of the write.
    pub now: SystemTime,
    /// The other objects.
    pub lookup: &'a dyn Lookup,
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

    /// Has the client warned.
    pub fn warn(&self, text: String) {
        self.beside.lock().warnings.push(text);
    }
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
    fn resource_of(&self, kind: &GroupKind) -> Option<GroupResource> {
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
