//! Behaviour that only some kinds have: each capability is a trait or data in the descriptor, and absent from kinds
//! without it.

use std::borrow::Cow;
use std::sync::Arc;
use std::time::SystemTime;

use holdfast_schema::metadata::formats::Messages;
use holdfast_schema::types::TypeTable;
use holdfast_value::{Limits, Value, json};

use super::resource::Resource;
use super::responder::{ComputedObjects, Connecter, Review, SubresourceAction};
use crate::conversion::ConversionError;
use crate::quota::QuotaRules;

/// The capabilities of one kind. The default has none.
#[derive(Clone, Default)]
pub struct Capabilities {
    /// Conversion between the versions of the kind.
    pub converts: Option<Arc<dyn Converts>>,
    /// Definitions of resources by objects of the kind.
    pub defines: Option<Arc<dyn Defines>>,
    /// Observer of the stored objects of the kind.
    pub followed: Option<Arc<dyn Followed>>,
    /// Unique values that objects of the kind hold, each stored under a key of its own.
    pub claims: Option<Arc<dyn Claims>>,
    /// Objects of the kind that exist from the start.
    pub initial_objects: Option<Arc<dyn InitialObjects>>,
    /// Handlers that replace the generic verbs, by subresource; see [`Capabilities::responder`].
    pub responders: Vec<(&'static str, Responder)>,
    /// Validation of a name, or of the beginning of one. It applies if the name rule of the resource is
    /// [`NameRule::Own`](holdfast_schema::NameRule::Own).
    pub name_errors: Option<fn(&Value, &str) -> Messages>,
    /// True if objects of the kind are the namespaces in which other objects live.
    pub is_namespace: bool,
    /// Parts of admission that do not apply to writes to the kind.
    pub exempt: AdmissionExemptions,
    /// Path of the template of the Pods that objects of the kind create.
    pub pod_template: Option<&'static [&'static str]>,
    /// Paths of parts whose validation depends only on their own content; at most
    /// [`Parts::MAX_PARTS`](holdfast_schema::Parts::MAX_PARTS).
    pub parts: Vec<&'static [&'static str]>,
    /// Differences in deletion from other kinds.
    pub deletion: DeletionRules,
    /// Rules by which quotas count the objects.
    pub quota: QuotaRules,
    /// Wording of the error for a field selector with an unknown field.
    pub selector_words: SelectorWords,
    /// Rules for the form of its objects in etcd.
    pub at_rest: AtRestRules,
    /// True if `metadata.generation` counts an update that changes only fields that the server drops.
    pub counts_dropped_fields: bool,
    /// Differences in the rows of tables from other kinds.
    pub rows: RowRules,
    /// True if a new object keeps the creator's values in the fields that writes to the object reset. The creator does
    /// not own these fields.
    pub keeps_reset_fields_at_creation: bool,
    /// Raw extensions of its objects.
    pub raw: Option<RawExtensions>,
    /// Claim of service account tokens that may name an object of the kind and become invalid with it.
    pub token_claim: Option<TokenClaim>,
    /// Fields that a write to a subresource changes without owning them: the subresource, and a dotted path among the
    /// fields that such a write does not touch.
    pub unowned_fields: &'static [(&'static str, &'static str)],
}

impl Capabilities {
    /// Returns the handler that replaces the generic verbs at `subresource`; an empty `subresource` is the resource
    /// itself.
    pub fn responder(&self, subresource: &str) -> Option<&Responder> {
        let (_, responder) = self.responders.iter().find(|(name, _)| *name == subresource)?;
        Some(responder)
    }

    /// Returns the handler through which requests reach a node, a pod or a service, if `subresource` has one.
    pub fn connecter(&self, subresource: &str) -> Option<&dyn Connecter> {
        match self.responder(subresource)? {
            Responder::Connect(connecter) => Some(connecter.as_ref()),
            _ => None,
        }
    }
}

/// Claim by which tokens of service accounts name the objects of a kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TokenClaim {
    /// The claim that holds name and uid.
    pub name: &'static str,
    /// Name of such an object in messages.
    pub called: &'static str,
}

/// Raw extensions of a kind. kube-apiserver keeps their bytes as clients send them and compares bytes, so a write that
/// re-encodes the object changes them even if the meaning is the same.
#[derive(Clone, Copy, Debug)]
pub struct RawExtensions {
    /// Paths of the raw extensions that clients write with the object; a list on the path means each of its items.
    pub fields: &'static [&'static [&'static str]],
    /// Paths of the raw extensions in the status.
    pub status_fields: &'static [&'static [&'static str]],
    /// Dotted path of the field around them, if that is immutable.
    pub immutable: Option<&'static str>,
}

impl RawExtensions {
    /// Returns true if an object has raw extensions.
    pub fn are_in(&self, object: &Value) -> bool {
        self.fields.iter().any(|path| has_value(object, path))
    }

    /// Keeps the texts of the raw extensions of `object`, which was read from `json_text`; see [`json::with_text`].
    pub fn keep_texts(&self, object: &mut Value, json_text: &[u8]) {
        let texts = self.paths().flat_map(|path| json::texts_at(json_text, path));
        self.set_texts(object, &mut texts.map(Cow::Borrowed));
    }

    /// Keeps the texts of the raw extensions of `object`, which was read from its form in the store: JSON with compact
    /// texts, followed by their layout (see [`RawExtensions::suffix`]).
    pub fn keep_stored_texts(&self, object: &mut Value, stored: &[u8]) {
        let texts: Vec<&[u8]> = self.paths().flat_map(|path| json::texts_at(stored, path)).collect();
        let is_blank = |byte: &u8| matches!(byte, b' ' | b'\t');
        let end = stored.iter().rposition(|byte| !is_blank(byte)).map_or(0, |at| at + 1);
        let layouts = stored.get(end..).and_then(|blanks| blanks.strip_suffix(b" "));
        match layouts.and_then(|layouts| json::Layout::read_all(layouts, texts.len())) {
            Some(layouts) => {
                let texts = texts.into_iter().zip(layouts);
                self.set_texts(object, &mut texts.map(|(text, layout)| Cow::Owned(layout.join(text))));
            }
            None => self.set_texts(object, &mut texts.into_iter().map(Cow::Borrowed)),
        }
    }

    /// Returns the bytes that follow an object in the store whose raw extensions have this form: white space from which
    /// the form and the texts can be read.
    pub fn suffix(&self, object: &Value, raw_form: RawForm) -> Vec<u8> {
        let mut suffix = Vec::new();
        if raw_form == RawForm::Verbatim {
            let mut layouts = Vec::new();
            for path in self.paths() {
                for_each_value(object, path, &mut |value| {
                    layouts.push(json::Layout::split(&json::text_of(value)).1);
                });
            }
            suffix = json::Layout::write_all(&layouts);
        }
        suffix.extend(raw_form.suffix());
        suffix
    }

    /// Gives the raw extensions of `object` the texts that a write leaves them: those of `existing` where they have the same
    /// content and the write keeps them, in the form `raw_form` at most.
    pub fn settle_texts(&self, object: &mut Value, existing: Option<&Value>, raw_form: RawForm) {
        let mut kept = Vec::new();
        for path in self.fields {
            let mut before = Vec::new();
            if let Some(existing) = existing {
                for_each_value(existing, path, &mut |value| before.push(value));
            }
            let mut before = before.into_iter();
            for_each_value(object, path, &mut |value| {
                let same = before.next().filter(|before| *before == value);
                let text = json::text_of(same.unwrap_or(value));
                kept.push(match raw_form {
                    RawForm::Verbatim => text.into_owned(),
                    RawForm::Compact => json::Layout::split(&text).0,
                    RawForm::Marshalled => json::to_vec(&json::without_text(value.clone())),
                });
            });
        }
        let mut kept = kept.into_iter().map(Cow::Owned);
        for path in self.fields {
            keep_texts(object, path, &mut kept);
        }
    }

    /// Returns true if the raw extensions of two objects have the same texts.
    pub fn have_same_texts(&self, one: &Value, other: &Value) -> bool {
        let texts = |object: &Value| {
            let mut texts = Vec::new();
            for path in self.fields {
                for_each_value(object, path, &mut |value| texts.push(json::text_of(value).into_owned()));
            }
            texts
        };
        texts(one) == texts(other)
    }

    fn paths(&self) -> impl Iterator<Item = &'static [&'static str]> {
        self.fields.iter().chain(self.status_fields).copied()
    }

    fn set_texts<'t>(&self, object: &mut Value, texts: &mut dyn Iterator<Item = Cow<'t, [u8]>>) {
        for path in self.paths() {
            keep_texts(object, path, texts);
        }
    }

    /// Returns the form in which the raw extensions of an object are written.
    pub fn form_of(&self, object: &Value) -> RawForm {
        let mut form = RawForm::default();
        for path in self.fields {
            for_each_value(object, path, &mut |value| {
                form = form.max(RawForm::from_text(&json::text_of(value)));
            });
        }
        form
    }

    /// Returns the form of the raw extensions in an object that was sent as this JSON text.
    pub fn form_in(&self, json_text: &[u8]) -> RawForm {
        let texts = self.fields.iter().flat_map(|path| json::texts_at(json_text, path));
        texts.map(RawForm::from_text).max().unwrap_or_default()
    }
}

/// Returns true if there is a value at `path`. Recursive, to the depth of the path.
fn has_value(value: &Value, path: &[&str]) -> bool {
    match (value, path) {
        (Value::List(items), [_, ..]) => items.iter().any(|item| has_value(item, path)),
        (value, [name, rest @ ..]) => value.get(name).is_some_and(|value| has_value(value, rest)),
        (_, []) => true,
    }
}

/// Calls `visit` with the values at `path`. Recursive, to the depth of the path.
fn for_each_value<'v>(value: &'v Value, path: &[&str], visit: &mut dyn FnMut(&'v Value)) {
    match (value, path) {
        (value, []) => visit(value),
        (Value::List(items), _) => items.iter().for_each(|item| for_each_value(item, path, visit)),
        (value, [name, rest @ ..]) => {
            if let Some(value) = value.get(name) {
                for_each_value(value, rest, visit);
            }
        }
    }
}

/// Keeps the `texts` of the values at `path`, in their order. Recursive, to the depth of the path.
fn keep_texts<'t>(value: &mut Value, path: &[&str], texts: &mut dyn Iterator<Item = Cow<'t, [u8]>>) {
    let Some((name, rest)) = path.split_first() else {
        if let Some(text) = texts.next() {
            *value = json::with_text(std::mem::take(value), &text);
        }
        return;
    };
    if let Some(items) = value.as_list_mut() {
        for item in items.make_mut() {
            keep_texts(item, path, texts);
        }
    } else if let Some(member) = value.at_mut(&[name]) {
        keep_texts(member, rest, texts);
    }
}

/// Form of the bytes of raw extensions: which writes change them by re-encoding the object.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum RawForm {
    /// The form in which Go marshals a tree: keys are sorted and numbers are in their shortest form. No write changes
    /// it.
    #[default]
    Marshalled,
    /// Without whitespace and with HTML characters escaped, as Go marshals a raw message. Strategic merge patches and
    /// applies change it, since they go through a tree.
    Compact,
    /// Any other form. Every patch changes it.
    Verbatim,
}

impl RawForm {
    /// Returns the form of a JSON value.
    pub fn from_text(text: &[u8]) -> Self {
        if !json::is_compact(text) || json::html_safe(text.to_vec()) != text {
            return Self::Verbatim;
        }
        let marshalled = json::parse(text, &Limits::TRUSTED).map(|value| json::to_string(&value));
        match marshalled {
            Ok(marshalled) if marshalled.as_bytes() == text => Self::Marshalled,
            _ => Self::Compact,
        }
    }

    /// Returns the byte that follows a stored object whose raw extensions have this form, if any. It is white space, so
    /// it is not part of the object.
    pub fn suffix(self) -> Option<u8> {
        match self {
            Self::Marshalled => None,
            Self::Compact => Some(b'\t'),
            Self::Verbatim => Some(b' '),
        }
    }

    /// Returns the form of the raw extensions of an object that is stored as `bytes`.
    pub fn from_suffix(bytes: &[u8]) -> Self {
        let forms = [Self::Compact, Self::Verbatim];
        let is_noted = |form: &Self| bytes.last().copied() == form.suffix();
        forms.into_iter().find(is_noted).unwrap_or_default()
    }
}

/// Parts of admission that do not apply to writes to a kind. Without exemptions, a mistake in a policy or a webhook
/// could not be repaired.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AdmissionExemptions {
    /// True if admission policies do not apply.
    pub policies: bool,
    /// True if admission webhooks do not apply.
    pub webhooks: bool,
    /// True if policies and webhooks from files of the server apply nevertheless, since clients cannot change these.
    pub but_of_files: bool,
}

/// The served form of the object that another replaces; none if the other is new.
pub type Old<'a> = Option<&'a dyn Fn() -> Value>;

/// Rules for the form of objects of a kind in etcd, beyond the name of the version.
#[derive(Clone, Copy, Default)]
pub struct AtRestRules {
    /// Converts an object of the storage version into the form in which kube-apiserver stores it.
    pub kept: Option<fn(Value, Old<'_>) -> Value>,
    /// Converts an object that was read, in the version in which it was stored, into the storage version, with the
    /// additions and removals that kube-apiserver makes at each read.
    pub read: Option<fn(Value) -> Value>,
    /// Field that is stored in some objects but not served.
    pub hidden: Option<HiddenField>,
}

/// Field that kube-apiserver stores in some objects and removes when it reads them. The store keeps its value as a byte of
/// white space after the served object, so that a copy of the object to another store is exact.
#[derive(Clone, Copy, Debug)]
pub struct HiddenField {
    /// Path of the field.
    pub path: &'static [&'static str],
    /// The values that are removed.
    pub values: [&'static str; 2],
}

impl HiddenField {
    // No line breaks, since these end the events of watches.
    const SUFFIXES: [u8; 2] = [b' ', b'\t'];

    /// Returns the byte that follows the served form of an object that was `stored` with the field and lost it.
    pub fn suffix(&self, stored: &Value, served: &Value) -> Option<u8> {
        let value = stored.str_at(self.path).filter(|_| served.at(self.path).is_none())?;
        let values = self.values.into_iter().zip(Self::SUFFIXES);
        values
            .filter(|(known, _)| *known == value)
            .map(|(_, suffix)| suffix)
            .next()
    }

    /// Adds the field to an object that was read from `served` if it is noted there.
    pub fn restore(&self, object: &mut Value, served: &[u8]) {
        let mut values = self.values.into_iter().zip(Self::SUFFIXES);
        let noted = values.find(|(_, suffix)| served.last() == Some(suffix));
        if let Some((value, _)) = noted.filter(|_| object.at(self.path).is_none()) {
            object.set_at(self.path, value.into());
        }
    }
}

/// Handler that replaces the generic verbs at the address of a resource or of a subresource.
#[derive(Clone)]
pub enum Responder {
    /// Answers a POST and stores nothing.
    Review(Arc<dyn Review>),
    /// Objects are computed when they are read.
    Computed(Arc<dyn ComputedObjects>),
    /// Handles a POST that changes stored objects.
    Action(Arc<dyn SubresourceAction>),
    /// Forwards requests to a node, a pod or a service.
    Connect(Arc<dyn Connecter>),
}

/// Conversion between the versions of a kind.
pub trait Converts: Send + Sync {
    /// Converts an object of one served version into another.
    ///
    /// # Errors
    /// If the kind does not know one of the versions.
    fn convert(&self, object: Value, to_api_version: &str) -> Result<Value, ConversionError>;

    /// Converts like [`Converts::convert`], but an object that a write produced: its version has already filled it in,
    /// and nothing more is added.
    ///
    /// # Errors
    /// If [`Converts::convert`] fails.
    fn convert_written(&self, object: Value, to_api_version: &str) -> Result<Value, ConversionError> {
        self.convert(object, to_api_version)
    }

    /// Converts an object for field management, which looks in it for the fields that a manager owns in that version.
    /// The result may hold fields that the other version does not know.
    ///
    /// # Errors
    /// If [`Converts::convert`] fails.
    fn convert_for_managers(&self, object: Value, to_api_version: &str) -> Result<Value, ConversionError> {
        self.convert(object, to_api_version)
    }

    /// Returns an object of a served version after conversion to the storage version and back: with the additions of
    /// that version, such as annotations for fields that it lacks. The writer of an object owns these too.
    fn round_trip(&self, object: Value) -> Value {
        object
    }
}

/// A kind whose objects define resources.
pub trait Defines: Send + Sync {
    /// Returns the resource that a stored object of the kind defines; none in a state in which nothing is served.
    /// `before` is the resource of the previous state, whose unchanged parts are reused.
    fn define(&self, object: &DefiningObject, before: Option<&Arc<Resource>>) -> Option<Arc<Resource>>;

    /// Returns the reason why a defining object, which was stored before today's rules, has schemas that are not
    /// structural; `None` if its schemas are structural.
    fn schema_violation(&self, object: &Value) -> Option<SchemaViolation>;
}

/// Reason why schemas of a defining object are not structural.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SchemaViolation {
    /// A schema has keywords that a structural schema cannot have, so that it is unknown what else it violates.
    Unreadable(String),
    /// Rules of structural schemas are violated.
    Violated(String),
}

/// A stored object that defines a resource.
pub struct DefiningObject {
    /// The object.
    pub object: Value,
    /// Revision of the store at which the object got this state.
    pub revision: u64,
    /// Revision of the store at which the object was created.
    pub create_revision: u64,
    /// Reads the object again, so that large parts of it need not be kept in memory.
    pub read: Arc<dyn Fn() -> Value + Send + Sync>,
    /// The built-in types, which include the metadata of custom objects.
    pub types: Arc<TypeTable>,
}

/// Observes the stored objects of a kind, to count the values that they hold, such as allocated addresses.
pub trait Followed: Send + Sync {
    /// Receives each stored object at start (`old` is `None`) and each committed change after that, in order. After
    /// missed changes, it receives the difference of each object from the one that it received last.
    fn observe(&self, old: Option<&Value>, new: Option<&Value>);
}

/// Values that at most one object of a kind may hold, such as addresses, as keys that are written together with the
/// objects. If one server has a store to itself, the counts of [`Followed`] are enough.
pub trait Claims: Send + Sync {
    /// Returns the writes that accompany a change of an object (`old` or `new` is `None` if it is created or deleted)
    /// at that time. `read` returns the value stored under a key.
    fn beside(
        &self,
        old: Option<&Value>,
        new: Option<&Value>,
        read: &dyn Fn(&str) -> Option<Value>,
        now: SystemTime,
    ) -> Vec<Claim>;

    /// Returns writes that repair the claims, given all `objects` of the kind, and the problems to report. `below`
    /// returns the values stored under keys with a prefix, at the same moment. A claim to be recreated is removed
    /// first, and created once it is missing.
    fn repair(&self, objects: &[Value], below: &dyn Fn(&str) -> Vec<Value>, now: SystemTime) -> ClaimRepair;
}

/// Result of a check of all claims of a kind.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ClaimRepair {
    /// Writes that repair the claims.
    pub claims: Vec<Claim>,
    /// Problems that the writes repair, or that only people can resolve.
    pub problems: Vec<ClaimProblem>,
}

/// Problem with the claims of an object, which an event reports.
#[derive(Clone, Debug, PartialEq)]
pub struct ClaimProblem {
    /// The object that the event is about.
    pub object: Value,
    /// True if the claim is a port, false if it is an address.
    pub is_of_port: bool,
    /// Reason of the event.
    pub reason: &'static str,
    /// Action of the controller that the event names.
    pub action: &'static str,
    /// Message of the event.
    pub message: String,
}

/// A write of a key that accompanies the write of an object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Claim {
    /// The key.
    pub key: String,
    /// New value, as JSON with an empty `resourceVersion`; `None` to remove the key.
    pub object: Option<String>,
    /// True if the key must be absent; otherwise its value must be the one that was read.
    pub is_new: bool,
}

/// The objects of a kind that exist from the start.
pub trait InitialObjects: Send + Sync {
    /// Returns these objects, in a served version. Objects that are missing when the server starts are created in the
    /// server's own name.
    fn initial_objects(&self) -> Vec<Value>;

    /// Returns the new state of an existing object when the server starts, given the initial object; `None` leaves it
    /// unchanged.
    fn reconcile(&self, stored: &Value, initial: &Value) -> Option<Value> {
        let _ = (stored, initial);
        None
    }

    /// Returns true if an earlier version created an existing object that is now to be deleted.
    fn is_obsolete(&self, stored: &Value) -> bool {
        let _ = stored;
        false
    }

    /// Returns the field manager of their writes, if it is not the server's own.
    fn field_manager(&self) -> Option<&'static str> {
        None
    }
}

/// Differences in the deletion of objects of a kind from other kinds.
#[derive(Clone, Copy, Default)]
pub struct DeletionRules {
    /// Returns the grace period in seconds of an object of a kind with graceful deletion, given the client's request; 0
    /// deletes it at once. Without this function the client decides.
    pub grace_period: Option<fn(&Value, Option<i64>) -> i64>,
    /// Returns true if deletion of the object waits for something beyond `metadata.finalizers`, such as the
    /// `spec.finalizers` of a namespace.
    pub held: Option<fn(&Value) -> bool>,
    /// True if the kind itself checks the preconditions of a deletion, before the check for all kinds and with its own
    /// messages.
    pub checks_preconditions: bool,
    /// True if the first deletion of an object only marks it, whatever its propagation policy.
    pub first_marks_alone: bool,
    /// Warning for clients that delete an object without a propagation policy for its dependents.
    pub warning: Option<&'static str>,
}

impl DeletionRules {
    /// Returns true if deletion of the object waits for something beyond `metadata.finalizers`.
    pub fn holds(&self, object: &Value) -> bool {
        self.held.is_some_and(|held| held(object))
    }

    /// Returns the grace period of the object in seconds, if the client requests `requested`.
    pub fn grace_period(&self, object: &Value, requested: Option<i64>) -> i64 {
        match self.grace_period {
            Some(of) => of(object, requested),
            None => requested.unwrap_or_default(),
        }
    }
}

/// Wording of the error for a field selector with a field that the kind does not support. It differs between kinds in
/// the reference.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SelectorWords {
    /// The words of kinds with fields of their own, or of kinds without, depending on the kind.
    #[default]
    Usual,
    /// The words of kinds without fields of their own, although the kind has some.
    Plain,
    /// The message with the kind.
    NamesKind,
    /// The message with the version and the kind.
    NamesVersion,
}

/// Differences in the rows of tables of a kind from other kinds.
#[derive(Clone, Copy, Default)]
pub struct RowRules {
    /// True if cells come from the storage version of an object, whatever the requested version, rather than from the
    /// requested version.
    pub of_stored_version: bool,
    /// Annotations that represent data which the reference keeps in fields that no version has. As in the reference, the
    /// metadata in rows, and metadata returned without their object, lack these annotations.
    pub hidden_annotations: &'static [&'static str],
    /// Conditions of the row of an object, in addition to its cells.
    pub conditions: Option<RowConditions>,
}

/// Conditions of the row of an object, in addition to its cells.
#[derive(Clone, Copy)]
pub struct RowConditions {
    /// Returns a list of `TableRowCondition`, if there are any.
    pub of: fn(&Value) -> Option<Value>,
    /// Path of the field that this reads.
    pub read: &'static [&'static str],
}

#[cfg(test)]
mod tests {
    use super::*;

    const OF_CLAIMS: RawExtensions = RawExtensions {
        fields: &[&["spec", "config", "parameters"]],
        status_fields: &[&["status", "data"]],
        immutable: None,
    };

    #[test]
    fn raw_extensions_keep_their_texts() {
        let text = br#"{"spec":{"config":[{"parameters":{"b":1,"a":1}},{},{"parameters":{"z":1,"y":1}}]},"status":{"data":{"d":1,"c":1}}}"#;
        let mut object = json::parse(text, &Limits::TRUSTED).unwrap();
        OF_CLAIMS.keep_texts(&mut object, text);
        assert_eq!(json::to_string(&object).as_bytes(), text);
    }

    #[test]
    fn raw_form_depends_on_the_raw_value_only() {
        for (raw, form) in [
            (r#"{"a":1,"b":[true,null,"x"]}"#, RawForm::Marshalled),
            (r#"{"a":"\u003c\u0026"}"#, RawForm::Marshalled),
            ("{}", RawForm::Marshalled),
            (r#"{"b":1,"a":1}"#, RawForm::Compact),
            (r#"{"a":1,"a":1}"#, RawForm::Compact),
            (r#"{"a":1.0}"#, RawForm::Compact),
            (r#"{"a":1e2}"#, RawForm::Compact),
            (r#"{"a":"\u0041"}"#, RawForm::Compact),
            (r#"{"a": 1}"#, RawForm::Verbatim),
            ("{ }", RawForm::Verbatim),
            (r#"{"a":"<"}"#, RawForm::Verbatim),
            ("{\"a\":\"\u{2028}\"}", RawForm::Verbatim),
        ] {
            let body =
                format!(" {{ \"spec\" : {{\"config\": [ {{}}, {{\"parameters\" : {raw} }} ] , \"x\": \"<\"}} }}\n");
            assert_eq!(OF_CLAIMS.form_in(body.as_bytes()), form, "{raw}");
        }
        assert_eq!(OF_CLAIMS.form_in(b"{\"spec\": [ ]}\n"), RawForm::Marshalled);
    }

    #[test]
    fn raw_extensions_are_found_below_lists() {
        let found = |text: &str| OF_CLAIMS.are_in(&json::parse(text.as_bytes(), &Limits::TRUSTED).unwrap());
        assert!(found(r#"{"spec":{"config":[{},{"parameters":{}}]}}"#));
        assert!(!found(r#"{"spec":{"config":[{"x":{}}]}}"#) && !found("{}"));
    }
}
