//! What only some kinds do: each capability is a trait or data that hangs on the descriptor, and is absent from kinds that
//! lack it.

use std::sync::Arc;
use std::time::SystemTime;

use holdfast_value::{Limits, Value, json};

use crate::metadata::formats::Faults;
use crate::quota::QuotaRules;
use crate::schema::TypeTable;
use crate::{ComputedObjects, Connecter, ConversionError, Resource, Review, SubresourceAction};

/// The capabilities of one kind. The default has none.
#[derive(Clone, Default)]
pub struct Capabilities {
    /// Conversion between the versions of the kind.
    pub converts: Option<Arc<dyn Converts>>,
    /// Objects of the kind define resources.
    pub defines: Option<Arc<dyn Defines>>,
    /// Something follows the stored objects of the kind.
    pub followed: Option<Arc<dyn Followed>>,
    /// Objects of the kind hold what no other may hold, and say so under keys of their own.
    pub claims: Option<Arc<dyn Claims>>,
    /// Objects of the kind exist from the start.
    pub initial_objects: Option<Arc<dyn InitialObjects>>,
    /// What answers in place of the generic verbs, by subresource; see [`Capabilities::responder`].
    pub responders: Vec<(&'static str, Responder)>,
    /// What is wrong with a text as the name of an object, or as what its name begins with. It holds where the rule of the
    /// resource is [`NameRule::Own`](crate::NameRule::Own).
    pub name_faults: Option<fn(&Value, &str) -> Faults>,
    /// Objects of the kind are the namespaces in which other objects live.
    pub is_namespace: bool,
    /// What of admission has no say in writes to the kind.
    pub exempt: AdmissionExemptions,
    /// Where objects of the kind have the template of the Pods that they make.
    pub pod_template: Option<&'static [&'static str]>,
    /// Where the objects have parts that are checked by what they hold alone; no more than [`Parts::MOST`](crate::Parts::MOST).
    pub parts: Vec<&'static [&'static str]>,
    /// How deletion differs from that of other kinds.
    pub deletion: DeletionRules,
    /// How quotas count the objects.
    pub quota: QuotaRules,
    /// How a refusal of a selector by an unknown field is worded.
    pub selector_words: SelectorWords,
    /// How its objects lie in etcd.
    pub at_rest: AtRestRules,
    /// Whether `metadata.generation` counts an update whose only change are fields that the server drops.
    pub counts_dropped_fields: bool,
    /// How the rows of tables differ from those of other kinds.
    pub rows: RowRules,
    /// Whether a new object keeps what its creator sends in the fields that writes to the object do not touch. The
    /// creator does not own them.
    pub keeps_reset_fields_at_creation: bool,
    /// Raw extensions of its objects.
    pub raw: Option<RawExtensions>,
    /// Tokens of service accounts may name an object of the kind and end with it.
    pub token_claim: Option<TokenClaim>,
    /// Fields that a write to a subresource changes without owning them: the subresource and a dotted
    /// path among those which such a write does not touch.
    pub unowned_fields: &'static [(&'static str, &'static str)],
}

impl Capabilities {
    /// What answers at `subresource` (at the resource itself, where that is empty) in place of the generic verbs.
    pub fn responder(&self, subresource: &str) -> Option<&Responder> {
        let (_, responder) = self.responders.iter().find(|(name, _)| *name == subresource)?;
        Some(responder)
    }

    /// The subresource through which requests reach a node, a pod or a service, if `subresource` is one.
    pub fn connecter(&self, subresource: &str) -> Option<&dyn Connecter> {
        match self.responder(subresource)? {
            Responder::Connect(connecter) => Some(connecter.as_ref()),
            _ => None,
        }
    }

    /// What is wrong with `name` by the kind's own rule.
    pub fn name_faults(&self, object: &Value, name: &str) -> Faults {
        self.name_faults.map(|of| of(object, name)).unwrap_or_default()
    }
}

/// How tokens of service accounts name the objects of a kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TokenClaim {
    /// The claim that holds name and uid.
    pub name: &'static str,
    /// What messages call such an object.
    pub called: &'static str,
}

/// Raw extensions of a kind. kube-apiserver keeps their bytes as clients send them and compares bytes, so that a write which
/// re-encodes the object changes them even though it means the same.
#[derive(Clone, Copy, Debug)]
pub struct RawExtensions {
    /// Paths of the raw extensions that clients write with the object; lists on the way are followed into each of their items.
    pub fields: &'static [&'static [&'static str]],
    /// Paths of those in the status.
    pub status_fields: &'static [&'static [&'static str]],
    /// Dotted path of the field around them, if that is immutable.
    pub immutable: Option<&'static str>,
}

impl RawExtensions {
    /// Returns true if an object has one.
    pub fn are_in(&self, object: &Value) -> bool {
        self.fields.iter().any(|path| has_value(object, path))
    }

    /// Has those of `object`, which was read from `json_text`, be written as they are there; see [`json::with_text`].
    pub fn keep_texts(&self, object: &mut Value, json_text: &[u8]) {
        for path in self.fields.iter().chain(self.status_fields) {
            let mut texts = json::texts_at(json_text, path).into_iter();
            keep_texts(object, path, &mut texts);
        }
    }

    /// Returns the form of those in an object that was sent as this JSON text.
    pub fn form_in(&self, json_text: &[u8]) -> RawForm {
        let texts = self.fields.iter().flat_map(|path| json::texts_at(json_text, path));
        texts.map(RawForm::from_text).max().unwrap_or_default()
    }
}

/// Recursive, as deep as the path is long.
fn has_value(value: &Value, path: &[&str]) -> bool {
    match (value, path) {
        (Value::List(items), [_, ..]) => items.iter().any(|item| has_value(item, path)),
        (value, [name, rest @ ..]) => value.get(name).is_some_and(|value| has_value(value, rest)),
        (_, []) => true,
    }
}

/// Recursive, as deep as the path is long. `texts` are those of the values at `path`, in their order.
fn keep_texts<'t>(value: &mut Value, path: &[&str], texts: &mut impl Iterator<Item = &'t [u8]>) {
    let Some((name, rest)) = path.split_first() else {
        if let Some(text) = texts.next() {
            *value = json::with_text(std::mem::take(value), text);
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
    /// As Go marshals a tree: keys are sorted and numbers are in their shortest form. No write changes it.
    #[default]
    Marshalled,
    /// Without blanks and with HTML characters escaped, as Go marshals a raw message. Strategic merge patches and applies change
    /// it, since they go through a tree.
    Compact,
    /// Anything else. Every patch changes it.
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
}

/// What of admission has no say in writes to a kind. Otherwise a mistake in a policy or a webhook could not be mended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AdmissionExemptions {
    /// Admission policies.
    pub policies: bool,
    /// Admission webhooks.
    pub webhooks: bool,
    /// Whether those that come from files of the server apply all the same: clients cannot change these.
    pub but_of_files: bool,
}

/// The object that another takes the place of, as it is served; none where the other is new.
pub type Old<'a> = Option<&'a dyn Fn() -> Value>;

/// How objects of a kind lie in etcd, beyond the name of the version.
#[derive(Clone, Copy, Default)]
pub struct AtRestRules {
    /// Turns an object of the stored version into what kube-apiserver keeps of it.
    pub kept: Option<fn(Value, Old<'_>) -> Value>,
    /// Turns an object that was read, in the version that it was kept in, into the stored version; fills in and takes away what
    /// kube-apiserver does whenever it reads.
    pub read: Option<fn(Value) -> Value>,
}

/// What answers at the address of a resource or of a subresource in place of the generic verbs.
#[derive(Clone)]
pub enum Responder {
    /// A POST is answered, and nothing is stored.
    Review(Arc<dyn Review>),
    /// What is read is made when it is read.
    Computed(Arc<dyn ComputedObjects>),
    /// A POST changes objects that are stored.
    Action(Arc<dyn SubresourceAction>),
    /// Requests go on to a node, a pod or a service.
    Connect(Arc<dyn Connecter>),
}

/// Conversion between the versions of a kind.
pub trait Converts: Send + Sync {
    /// Turns an object of one served version into another.
    ///
    /// # Errors
    /// Where the kind does not know one of the versions.
    fn convert(&self, object: Value, to_api_version: &str) -> Result<Value, ConversionError>;

    /// As [`Converts::convert`], for an object as a write leaves it: it has what its version gives it, and gets no more.
    ///
    /// # Errors
    /// Those of [`Converts::convert`].
    fn convert_written(&self, object: Value, to_api_version: &str) -> Result<Value, ConversionError> {
        self.convert(object, to_api_version)
    }

    /// The object in another version for the sake of field management: what a manager owns in that version is looked for
    /// in it. It may hold fields that the other version does not know.
    ///
    /// # Errors
    /// Those of [`Converts::convert`].
    fn convert_for_managers(&self, object: Value, to_api_version: &str) -> Result<Value, ConversionError> {
        self.convert(object, to_api_version)
    }

    /// An object of a served version after conversion to the stored version and back: with what that version notes about it,
    /// such as annotations for fields that it lacks. The writer of an object owns that too.
    fn round_trip(&self, object: Value) -> Value {
        object
    }
}

/// A kind whose objects define resources.
pub trait Defines: Send + Sync {
    /// The resource that a stored object of the kind defines, for as long as it does: a state in which nothing is served
    /// has none. `before` is the resource of the state before, whose parts are kept where they are the same.
    fn define(&self, object: &DefiningObject, before: Option<&Arc<Resource>>) -> Option<Arc<Resource>>;
}

/// A stored object that defines a resource.
pub struct DefiningObject {
    /// The object.
    pub object: Value,
    /// The revision of the store at which it came to be so.
    pub revision: u64,
    /// The revision of the store at which the object was created.
    pub create_revision: u64,
    /// Reads the object again, so that nothing large need be kept of it until it is needed.
    pub read: Arc<dyn Fn() -> Value + Send + Sync>,
    /// The built-in types, of which defined objects have metadata.
    pub types: Arc<TypeTable>,
}

/// Follows the stored objects of a kind, to keep count of what they hold, such as allocated addresses.
pub trait Followed: Send + Sync {
    /// Receives each stored object at start (`old` is `None`) and each committed change after that, in order. Where changes
    /// were missed, it receives how each object differs from what it received last.
    fn observe(&self, old: Option<&Value>, new: Option<&Value>);
}

/// What objects of a kind hold that no other may hold, such as addresses, as keys that are written together with them. Where one
/// server has a store to itself, what [`Followed`] counts is enough.
pub trait Claims: Send + Sync {
    /// The writes that go with a change of an object (`old` or `new` is `None` where it is created or deleted), at that time. `read`
    /// gives what is stored under a key.
    fn beside(
        &self,
        old: Option<&Value>,
        new: Option<&Value>,
        read: &dyn Fn(&str) -> Option<Value>,
        now: SystemTime,
    ) -> Vec<Claim>;

    /// What mends the claims that are not those of `objects`, which are all of the kind. `below` gives what is stored under
    /// keys that begin so, at the same moment. What has to be recreated is removed first, and made when it is missing.
    fn repair(&self, objects: &[Value], below: &dyn Fn(&str) -> Vec<Value>, now: SystemTime) -> Vec<Claim>;
}

/// A write of a key that goes with that of an object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Claim {
    /// The key.
    pub key: String,
    /// What it is to hold, as JSON with an empty `resourceVersion`; `None` to remove it.
    pub object: Option<String>,
    /// Whether it must be absent; otherwise it must be what was read.
    pub is_new: bool,
}

/// The objects of a kind that exist from the start.
pub trait InitialObjects: Send + Sync {
    /// These objects, in a version that is served. Those that are missing when the server starts are created in the server's
    /// own name.
    fn initial_objects(&self) -> Vec<Value>;

    /// What an object that exists already becomes when the server starts, given what exists from the start; `None` leaves it
    /// as it is.
    fn reconcile(&self, stored: &Value, initial: &Value) -> Option<Value> {
        let _ = (stored, initial);
        None
    }

    /// Whether an object that exists was made by an earlier version, and goes.
    fn is_obsolete(&self, stored: &Value) -> bool {
        let _ = stored;
        false
    }

    /// The field manager in whose name they are written, where that is not the server's own.
    fn field_manager(&self) -> Option<&'static str> {
        None
    }
}

/// How the deletion of objects of a kind differs from that of other kinds.
#[derive(Clone, Copy, Default)]
pub struct DeletionRules {
    /// How many seconds an object of a kind with graceful deletion gets before it goes, given what the client asks for; 0 to
    /// go at once. Without it the client decides.
    pub grace_period: Option<fn(&Value, Option<i64>) -> i64>,
    /// Whether deletion of the object waits for something beyond `metadata.finalizers`, such as the `spec.finalizers` of a
    /// namespace.
    pub held: Option<fn(&Value) -> bool>,
    /// Whether the kind itself looks at the preconditions of a deletion, ahead of the check for all kinds and in words of its
    /// own.
    pub checks_preconditions: bool,
    /// Whether the first deletion of an object marks it alone, whatever it says of dependents.
    pub first_marks_alone: bool,
    /// A warning for clients that delete an object and do not say what becomes of its dependents.
    pub warning: Option<&'static str>,
}

impl DeletionRules {
    /// Whether deletion of the object waits for something beyond `metadata.finalizers`.
    pub fn holds(&self, object: &Value) -> bool {
        self.held.is_some_and(|held| held(object))
    }

    /// How many seconds the object gets before it goes, where the client asks for `requested`.
    pub fn grace_period(&self, object: &Value, requested: Option<i64>) -> i64 {
        match self.grace_period {
            Some(of) => of(object, requested),
            None => requested.unwrap_or_default(),
        }
    }
}

/// The words of the refusal of a selector by a field that the kind does not know. They differ between kinds in the reference.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SelectorWords {
    /// As kinds with fields of their own do, or else those without, by which the kind is.
    #[default]
    Usual,
    /// As kinds without fields of their own, although the kind has some.
    Plain,
    /// With the kind.
    NamesKind,
    /// With the version and the kind.
    NamesVersion,
}

/// How the rows of tables of a kind differ from those of other kinds.
#[derive(Clone, Copy, Default)]
pub struct RowRules {
    /// Whether cells come from the stored version of an object, whatever version is requested, rather than from the version
    /// that is shown.
    pub of_stored_version: bool,
    /// Annotations that stand for what the reference keeps in fields that no version has. The metadata in rows, and metadata
    /// that are shown alone, come from there and lack them.
    pub hidden_annotations: &'static [&'static str],
    /// What the row of an object shows beside its cells.
    pub conditions: Option<RowConditions>,
}

/// What the row of an object shows beside its cells.
#[derive(Clone, Copy)]
pub struct RowConditions {
    /// A list of `TableRowCondition`, if there is anything to show.
    pub of: fn(&Value) -> Option<Value>,
    /// The path of all that this reads.
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
