#![forbid(unsafe_code)]
#![warn(clippy::indexing_slicing)]
//! Structured merge: the algorithm behind Kubernetes' Server-Side Apply.
//!
//! An object is merged field by field by the rules of its [`Schema`]. [`Managers`] records the paths that each manager
//! owns. [`Updater::apply`] merges a manager's configuration, fails with [`Conflicts`] if it would change a field of
//! another manager, and removes fields that the manager no longer configures; [`Updater::update`] records the fields
//! that a manager changed. The results are those of the Go library structured-merge-diff v6, which kube-apiserver uses.
//!
//! ```
//! use std::sync::Arc;
//! use holdfast_merge::{
//!     ApplyError, Duplicates, FieldSpec, IdentityConverter, Managers, MapSpec, Scalar, SchemaBuilder, Typed, UpdaterBuilder,
//! };
//! use holdfast_value::{Limits, Value, json};
//!
//! let schema = Arc::new(
//!     SchemaBuilder::new()
//!         .define("Scale", MapSpec::from_fields([FieldSpec::new("replicas", Scalar::Numeric)]))
//!         .build(),
//! );
//! let scale = schema.named("Scale").unwrap();
//! let object = |text: &str| {
//!     let value = json::parse(text.as_bytes(), &Limits::default()).unwrap();
//!     Typed::new(value, schema.clone(), scale, Duplicates::Rejected).unwrap()
//! };
//! let updater = UpdaterBuilder::new(IdentityConverter).build();
//!
//! // Alice applies first and owns what she applied.
//! let nothing = Typed::trusted(Value::Null, schema.clone(), scale);
//! let first = updater.apply(&nothing, &object(r#"{"replicas":3}"#), "v1", Managers::new(), "alice", false).unwrap();
//! let existing = first.object.unwrap();
//! assert_eq!(first.managers.get("alice").unwrap().set.to_fields_v1(), r#"{"f:replicas":{}}"#);
//!
//! // Bob wants another value: a conflict.
//! let wish = object(r#"{"replicas":5}"#);
//! let rejected = updater.apply(&existing, &wish, "v1", first.managers.clone(), "bob", false);
//! let Err(ApplyError::Conflicts(conflicts)) = rejected else { panic!("bob went through") };
//! assert_eq!(conflicts.to_string(), r#"conflict with "alice": .replicas"#);
//!
//! // With force the field becomes his.
//! let forced = updater.apply(&existing, &wish, "v1", first.managers, "bob", true).unwrap();
//! assert!(forced.managers.get("alice").is_none());
//! ```

mod conflict;
mod managers;
mod path;
mod path_element;
mod path_text;
mod scan;
mod schema;
mod set;
mod typed;
mod updater;

pub use conflict::{Conflict, Conflicts};
pub use managers::{Managers, VersionedSet};
pub use path::Path;
pub use path_element::{Key, PathElement, PathElementError};
pub use path_text::{PathText, PathTextError};
pub use scan::ScanError;
pub use schema::{
    DEDUCED, FieldSpec, ListSpec, MapSpec, Reference, Relationship, Scalar, Schema, SchemaBuilder, SchemaError, Target,
    Type, TypeRef, TypeSpec, UNTYPED_ATOMIC,
};
pub use set::{FieldsError, Filter, Matcher, MemberMatcher, Paths, Set, fields_v1_source, fields_v1_text};
pub use typed::{Comparison, Duplicates, KeyFields, RepeatedItems, Typed, ValidationError, ValidationErrors};
pub use updater::{Applied, ApplyError, ConvertError, Converter, IdentityConverter, Updater, UpdaterBuilder};
