//! Errors of an apply.

use std::fmt;

use holdfast_value::{SmolStr, Value};

use crate::entry::{DecodeError, Operation};

/// Error of an apply, with the message of the reference's Status.
///
/// ```
/// # use std::{sync::Arc, time::SystemTime};
/// # use holdfast_merge::{DEDUCED, SchemaBuilder};
/// # use holdfast_ownership::{FieldManager, OneVersion};
/// use holdfast_ownership::ApplyError;
/// use holdfast_value::{Limits, json};
///
/// # let schema = Arc::new(SchemaBuilder::new().define_deduced().build());
/// # let any = schema.named(DEDUCED).unwrap();
/// # let manager = FieldManager::builder("v1", "Thing", Arc::new(OneVersion::new("v1", schema, any))).build();
/// // `manager` is the field manager of a kind `Thing` of version `v1`.
/// let apply = |text: &str| {
///     let config = json::parse(text.as_bytes(), &Limits::REQUEST).unwrap();
///     manager.apply(None, &config, "alice", false, SystemTime::now())
/// };
/// assert!(matches!(apply(r#"{"apiVersion":"v1","kind":"Other"}"#), Err(ApplyError::WrongKind(_))));
/// let owned = r#"{"apiVersion":"v1","kind":"Thing","metadata":{"managedFields":[{"manager":"bob","operation":"Apply",
///     "apiVersion":"v1","fieldsType":"FieldsV1","fieldsV1":{}}]}}"#;
/// assert!(matches!(apply(owned), Err(ApplyError::ManagedFieldsInConfiguration)));
/// ```
#[derive(Debug, thiserror::Error)]
pub enum ApplyError {
    /// 409: other managers own fields that the apply would change.
    #[error(transparent)]
    Conflicts(#[from] Conflicts),
    /// 400: the configuration has another kind or version than the request.
    #[error("invalid object type: {0}")]
    WrongKind(String),
    /// 400: the configuration has `metadata.managedFields`.
    #[error("metadata.managedFields must be nil")]
    ManagedFieldsInConfiguration,
    /// 400: a field cannot be unset.
    #[error("{0}")]
    Unset(String),
    /// 500: items of the configuration have the same key.
    #[error(transparent)]
    Duplicates(Box<DuplicateItems>),
    /// 500: the existing object's `managedFields` cannot be read.
    #[error("failed to decode managed fields: {0}")]
    Decode(#[from] DecodeError),
    /// 500: the configuration or the existing object does not fit its type, or cannot be converted.
    #[error("{0}")]
    Failed(String),
}

/// Items of a configuration that have the same key in an associative list, so that nobody can own them separately.
///
/// ```
/// # use std::{sync::Arc, time::SystemTime};
/// # use holdfast_merge::{FieldSpec, ListSpec, MapSpec, Scalar, SchemaBuilder};
/// # use holdfast_ownership::{FieldManager, OneVersion};
/// use holdfast_ownership::{ApplyError, ApplyOptions};
/// use holdfast_value::{Limits, json};
///
/// # let texts = ["apiVersion", "kind"].map(|name| FieldSpec::new(name, Scalar::String));
/// # let tags = FieldSpec::new("tags", ListSpec::set(Scalar::String));
/// # let spec = MapSpec::from_fields(texts.into_iter().chain([tags]));
/// # let schema = Arc::new(SchemaBuilder::new().define("Thing", spec).build());
/// # let thing = schema.named("Thing").unwrap();
/// # let manager = FieldManager::builder("v1", "Thing", Arc::new(OneVersion::new("v1", schema, thing))).build();
/// // `manager` is the field manager of a kind `Thing` with a set of tags.
/// let config = json::parse(br#"{"apiVersion":"v1","kind":"Thing","tags":["a","b","a"]}"#, &Limits::REQUEST)?;
/// let options = ApplyOptions { conflict_details: true, ..ApplyOptions::default() };
/// let rejected = manager.apply_with(None, &config, "alice", &options, SystemTime::now());
/// let Err(ApplyError::Duplicates(duplicates)) = rejected else { panic!("{rejected:?}") };
/// assert_eq!(duplicates.collisions.len(), 1);
/// assert_eq!(duplicates.smallest.at(&["tags"]).unwrap().to_string(), r#"["a","b"]"#);
/// # Ok::<(), holdfast_value::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[error("{message}")]
pub struct DuplicateItems {
    /// Message of the reference.
    pub message: String,
    /// Keys that occur more than once.
    pub collisions: Vec<Collision>,
    /// Configuration with the first of the items of each key.
    pub smallest: Value,
}

/// Items with the same key.
///
/// ```
/// use holdfast_ownership::Collision;
///
/// let collision = Collision {
///     path: r#".tags[="a"]"#.into(),
///     positions: vec![0, 2],
///     items: vec!["a".into(), "a".into()],
///     managers: Vec::new(),
/// };
/// assert_eq!(collision.positions.len(), collision.items.len());
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct Collision {
    /// Path of the items: `.spec.ports[port=53,protocol="TCP"]`.
    pub path: String,
    /// Positions of the items in the list.
    pub positions: Vec<usize>,
    /// The items.
    pub items: Vec<Value>,
    /// Managers that own the existing item with this key, as messages name them.
    pub managers: Vec<String>,
}

/// Field that the apply would change and that another manager owns.
///
/// ```
/// use holdfast_ownership::Conflict;
///
/// let conflict = Conflict { manager: r#""alice" using v1"#.into(), path: ".size".into(), details: None };
/// assert_eq!(conflict.message(), r#"conflict with "alice" using v1"#);
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Conflict {
    /// Owner as messages name it: `"tool" with subresource "scale" using apps/v1`.
    pub manager: String,
    /// Path of the field: `.spec.replicas`.
    pub path: String,
    /// Owner and values of the field, if [`ApplyOptions`](crate::ApplyOptions) requests them.
    pub details: Option<Box<ConflictDetails>>,
}

/// Owner and values of a field that conflicts.
///
/// ```
/// # use std::{sync::Arc, time::SystemTime};
/// # use holdfast_merge::{DEDUCED, SchemaBuilder};
/// # use holdfast_ownership::{FieldManager, OneVersion};
/// use holdfast_ownership::{ApplyError, ApplyOptions};
/// use holdfast_value::{Limits, json};
///
/// # let schema = Arc::new(SchemaBuilder::new().define_deduced().build());
/// # let any = schema.named(DEDUCED).unwrap();
/// # let manager = FieldManager::builder("v1", "Thing", Arc::new(OneVersion::new("v1", schema, any))).build();
/// // `manager` is the field manager of a kind `Thing` of version `v1`.
/// let object = |text: &str| json::parse(text.as_bytes(), &Limits::REQUEST).unwrap();
/// let config = object(r#"{"apiVersion":"v1","kind":"Thing","size":1}"#);
/// let existing = manager.apply(None, &config, "alice", false, SystemTime::now())?.object;
/// let config = object(r#"{"apiVersion":"v1","kind":"Thing","size":2}"#);
/// let options = ApplyOptions { conflict_details: true, ..ApplyOptions::default() };
/// let rejected = manager.apply_with(Some(&existing), &config, "bob", &options, SystemTime::now());
/// let Err(ApplyError::Conflicts(conflicts)) = rejected else { panic!("{rejected:?}") };
/// let details = conflicts.iter().next().unwrap().details.as_ref().unwrap();
/// assert_eq!(details.manager, "alice");
/// assert_eq!((details.stored.clone(), details.requested.clone()), (Some(1.into()), Some(2.into())));
/// # Ok::<(), ApplyError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConflictDetails {
    /// Name of the manager that owns the field.
    pub manager: SmolStr,
    /// Operation by which it became the owner.
    pub operation: Operation,
    /// Subresource through which it writes; empty for the object itself.
    pub subresource: SmolStr,
    /// Version in which it writes, and in which path and values are.
    pub api_version: SmolStr,
    /// Time of its last change to its fields, as RFC 3339, if known.
    pub time: Option<SmolStr>,
    /// Existing value of the field.
    pub stored: Option<Value>,
    /// Value that the apply requests. `None` if it removes the field.
    pub requested: Option<Value>,
}

impl Conflict {
    /// Returns the message of this conflict's cause in a Status.
    pub fn message(&self) -> String {
        format!("conflict with {}", self.manager)
    }
}

/// Conflicts of an apply, grouped by manager.
///
/// ```
/// use holdfast_ownership::{Conflict, Conflicts};
///
/// let conflict = |path: &str| Conflict { manager: r#""alice""#.into(), path: path.into(), details: None };
/// let conflicts: Conflicts = [conflict(".a"), conflict(".b")].into_iter().collect();
/// assert_eq!(conflicts.iter().count(), 2);
/// assert!(conflicts.to_string().starts_with("Apply failed with 2 conflicts: conflicts with \"alice\""));
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Conflicts(pub(crate) Vec<Conflict>);

impl FromIterator<Conflict> for Conflicts {
    fn from_iter<I: IntoIterator<Item = Conflict>>(conflicts: I) -> Self {
        Self(conflicts.into_iter().collect())
    }
}

impl Conflicts {
    /// Iterates over the conflicts in the order of a Status' causes.
    pub fn iter(&self) -> std::slice::Iter<'_, Conflict> {
        self.0.iter()
    }
}

/// Formats the message of the Status.
impl fmt::Display for Conflicts {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let [conflict] = self.0.as_slice() {
            let Conflict { manager, path, .. } = conflict;
            return write!(out, "Apply failed with 1 conflict: conflict with {manager}: {path}");
        }
        write!(out, "Apply failed with {} conflicts:", self.0.len())?;
        for (at, of_manager) in self.0.chunk_by(|a, b| a.manager == b.manager).enumerate() {
            let separator = if at == 0 { ' ' } else { '\n' };
            let manager = of_manager.first().map_or("", |conflict| &conflict.manager);
            write!(out, "{separator}conflicts with {manager}:")?;
            for conflict in of_manager {
                write!(out, "\n- {}", conflict.path)?;
            }
        }
        Ok(())
    }
}

impl std::error::Error for Conflicts {}
