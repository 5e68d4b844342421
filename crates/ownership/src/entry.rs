//! Entry of `metadata.managedFields`: the owner of fields with its operation, version and subresource.

use holdfast_gotext::quote::quote;
use holdfast_merge::{FieldsError, Set};
use holdfast_value::{Map, SmolStr, Value, json};

use crate::timestamp::Timestamp;

/// Operation by which a manager became the owner of fields.
///
/// ```
/// use holdfast_ownership::Operation;
///
/// assert_eq!(Operation::Apply.name(), "Apply");
/// assert_eq!(Operation::Update.name(), "Update");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Operation {
    /// By Server-Side Apply.
    Apply,
    /// By any other write.
    Update,
}

impl Operation {
    /// Returns the operation's name in entries.
    pub fn name(self) -> &'static str {
        match self {
            Operation::Apply => "Apply",
            Operation::Update => "Update",
        }
    }

    fn from_name(name: &str) -> Option<Self> {
        [Operation::Apply, Operation::Update]
            .into_iter()
            .find(|operation| operation.name() == name)
    }
}

/// Error of reading `managedFields`, with the reference's message.
///
/// ```
/// use holdfast_ownership::{DecodeError, check_managed_fields};
/// use holdfast_value::{Limits, json};
///
/// let object = json::parse(br#"{"metadata":{"managedFields":[{"operation":"Guess"}]}}"#, &Limits::REQUEST)?;
/// assert!(matches!(check_managed_fields(&object), Err(DecodeError::Operation)));
/// # Ok::<(), holdfast_value::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DecodeError {
    /// It is not a list, or has an item that is not an entry.
    #[error("managedFields must be a list of entries")]
    Shape,
    /// An operation is neither of the two.
    #[error("operation must be `Apply` or `Update`")]
    Operation,
    /// An entry has no version.
    #[error("apiVersion must not be empty")]
    ApiVersion,
    /// An entry has no `fieldsType`.
    #[error("missing fieldsType in managed fields entry {0}")]
    NoFieldsType(usize),
    /// An entry has an unknown `fieldsType`.
    #[error("invalid fieldsType {0:?} in managed fields entry {1}")]
    FieldsType(String, usize),
    /// The fields of an entry are not a field set.
    #[error("error decoding set: {0}")]
    Fields(#[from] FieldsError),
}

/// Entry without its fields.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Entry {
    pub(crate) manager: SmolStr,
    pub(crate) operation: Operation,
    pub(crate) api_version: SmolStr,
    pub(crate) subresource: SmolStr,
    pub(crate) time: Option<Timestamp>,
}

/// Origin of an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Source {
    /// This server wrote it, in its canonical form.
    Stored,
    /// A client sent it, in any form.
    Request,
}

impl Entry {
    /// Reads the entry at index `at` without [its fields](owned).
    pub(crate) fn decode(value: &Value, at: usize, source: Source) -> Result<Self, DecodeError> {
        let map = value.as_map().ok_or(DecodeError::Shape)?;
        let operation = Operation::from_name(&text(map, "operation")?).ok_or(DecodeError::Operation)?;
        let api_version = text(map, "apiVersion")?;
        if api_version.is_empty() {
            return Err(DecodeError::ApiVersion);
        }
        match text(map, "fieldsType")?.as_str() {
            "FieldsV1" => {}
            "" => return Err(DecodeError::NoFieldsType(at)),
            other => return Err(DecodeError::FieldsType(other.to_owned(), at)),
        }
        let time = match (text(map, "time")?, source) {
            (none, _) if none.is_empty() => None,
            (text, Source::Stored) => Some(Timestamp::read_stored(&text).ok_or(DecodeError::Shape)?),
            (text, Source::Request) => Some(Timestamp::parse(&text).ok_or(DecodeError::Shape)?),
        };
        Ok(Entry {
            manager: text(map, "manager")?,
            operation,
            api_version,
            subresource: text(map, "subresource")?,
            time,
        })
    }

    /// Returns the entry with its fields.
    pub(crate) fn encode(&self, fields: Value) -> Value {
        let mut members = Vec::with_capacity(7);
        members.push((
            SmolStr::new_static("apiVersion"),
            Value::String(self.api_version.clone()),
        ));
        members.push((
            SmolStr::new_static("fieldsType"),
            Value::String(SmolStr::new_static("FieldsV1")),
        ));
        members.push((SmolStr::new_static("fieldsV1"), fields));
        if !self.manager.is_empty() {
            members.push((SmolStr::new_static("manager"), Value::String(self.manager.clone())));
        }
        let operation = SmolStr::new_static(self.operation.name());
        members.push((SmolStr::new_static("operation"), Value::String(operation)));
        if !self.subresource.is_empty() {
            members.push((
                SmolStr::new_static("subresource"),
                Value::String(self.subresource.clone()),
            ));
        }
        if let Some(time) = &self.time {
            members.push((SmolStr::new_static("time"), time.to_value()));
        }
        Value::Map(Map::from_sorted(members))
    }

    /// Returns the identity of the entry: manager, operation, subresource and, only for updates, the version; an
    /// applier that changes its version keeps its entry. The text is the reference's: its order determines the order in
    /// which conflicts are reported and updates within one second are merged.
    pub(crate) fn identifier(&self) -> SmolStr {
        let mut out = Vec::with_capacity(96);
        let mut member = |name: &str, value: &str| {
            if !value.is_empty() {
                out.push(if out.is_empty() { b'{' } else { b',' });
                json::write_string(name, &mut out);
                out.push(b':');
                json::write_string(value, &mut out);
            }
        };
        member("manager", &self.manager);
        member("operation", self.operation.name());
        if self.operation == Operation::Update {
            member("apiVersion", &self.api_version);
        }
        member("subresource", &self.subresource);
        out.push(b'}');
        SmolStr::from(String::from_utf8(out).unwrap_or_default())
    }

    /// Returns the manager as messages name it: `"tool" with subresource "scale" using apps/v1`.
    pub(crate) fn display_name(&self) -> String {
        let mut name = quote(&self.manager);
        if !self.subresource.is_empty() {
            name.push_str(" with subresource ");
            name.push_str(&quote(&self.subresource));
        }
        if self.operation == Operation::Update {
            name.push_str(" using ");
            name.push_str(&self.api_version);
        }
        name
    }
}

/// Reads the fields of an entry.
pub(crate) fn owned(entry: &Value) -> Result<Set, DecodeError> {
    match entry.get("fieldsV1") {
        None | Some(Value::Null) => Ok(Set::new()),
        Some(fields) => Ok(Set::from_fields_v1_value(fields)?),
    }
}

/// Returns the string member `name`, or an empty string if there is none.
fn text(map: &Map, name: &str) -> Result<SmolStr, DecodeError> {
    match map.get(name) {
        None | Some(Value::Null) => Ok(SmolStr::default()),
        Some(Value::String(text)) => Ok(text.clone()),
        Some(_) => Err(DecodeError::Shape),
    }
}
