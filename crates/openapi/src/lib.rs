#![forbid(unsafe_code)]
#![warn(clippy::indexing_slicing)]
//! The OpenAPI documents of the served API: `/openapi/v3` with one document for each group version, and `/openapi/v2`.
//!
//! This crate caches nothing: a [`Publication`] builds each document from the registry and the table of types, when it
//! is requested; the server caches the documents as long as it wants. See
//! <https://kubernetes.io/docs/concepts/overview/kubernetes-api/#openapi-interface-definition>.

mod custom;
mod documents;
mod operations;
mod parameters;
mod paths;
mod schemas;

use holdfast_value::{Map, SmolStr, Value};

pub use documents::Publication;

/// Source of the descriptions of types and fields in the documents.
pub trait Descriptions {
    /// Returns the description of the type.
    fn of_type(&self, name: &str) -> Option<&str>;
    /// Returns the description of the field of the type.
    fn of_field(&self, name: &str, field: &str) -> Option<&str>;
    /// Returns a type of objects and one of lists, whose descriptions of the common fields of all objects and all lists
    /// apply to any kind.
    fn of_any_kind(&self) -> (&str, &str);
}

/// A source without descriptions.
pub struct NoDescriptions;

impl Descriptions for NoDescriptions {
    fn of_type(&self, _: &str) -> Option<&str> {
        None
    }

    fn of_field(&self, _: &str, _: &str) -> Option<&str> {
        None
    }

    fn of_any_kind(&self) -> (&str, &str) {
        ("", "")
    }
}

/// Version of OpenAPI that a document has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Form {
    V2,
    V3,
}

impl Form {
    /// Returns a reference to a type.
    fn reference(self, name: &str) -> Value {
        let place = match self {
            Form::V2 => "#/definitions/",
            Form::V3 => "#/components/schemas/",
        };
        object([("$ref", Value::from(format!("{place}{name}")))])
    }
}

/// Returns a map of these entries.
fn object<const N: usize>(entries: [(&'static str, Value); N]) -> Value {
    let entries = entries.map(|(key, value)| (SmolStr::new_static(key), value));
    Value::Map(Map::from_unsorted(entries.to_vec()))
}

/// Returns a list of texts.
fn texts<T: AsRef<str>>(texts: impl IntoIterator<Item = T>) -> Value {
    let items: Vec<Value> = texts.into_iter().map(|text| Value::from(text.as_ref())).collect();
    Value::from(items)
}
