//! One write: its verb, and how it is sent.

use std::fmt;

use http::Method;
use serde_json::{Value, json};

/// Operation on an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verb {
    Create,
    Apply,
    ForceApply,
    Update,
    MergePatch,
    StrategicMergePatch,
    JsonPatch,
    Delete,
}

impl Verb {
    /// Operations that can begin a sequence.
    pub(super) const FIRST: [Self; 2] = [Self::Create, Self::Apply];

    pub(super) const ALL: [Self; 8] = [
        Self::Apply,
        Self::ForceApply,
        Self::Update,
        Self::MergePatch,
        Self::StrategicMergePatch,
        Self::JsonPatch,
        Self::Create,
        Self::Delete,
    ];

    pub(super) fn media_type(self) -> &'static str {
        match self {
            Self::Apply | Self::ForceApply => "application/apply-patch+yaml",
            Self::MergePatch => "application/merge-patch+json",
            Self::StrategicMergePatch => "application/strategic-merge-patch+json",
            Self::JsonPatch => "application/json-patch+json",
            Self::Create | Self::Update | Self::Delete => "application/json",
        }
    }
}

/// A write of one object.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Step {
    pub(super) verb: Verb,
    /// The field manager.
    pub(super) manager: &'static str,
    pub(super) body: Value,
}

impl Step {
    /// Returns method, path with query, and media type, for an object in the collection at `path`.
    pub(super) fn request(&self, path: &str, name: &str) -> (Method, String, &'static str) {
        let (method, path) = match self.verb {
            Verb::Create => (Method::POST, path.to_owned()),
            Verb::Update => (Method::PUT, format!("{path}/{name}")),
            Verb::Delete => (Method::DELETE, format!("{path}/{name}")),
            _ => (Method::PATCH, format!("{path}/{name}")),
        };
        let query = match self.verb {
            Verb::Delete => String::new(),
            Verb::ForceApply => format!("?fieldManager={}&force=true", self.manager),
            _ => format!("?fieldManager={}", self.manager),
        };
        (method, path + &query, self.verb.media_type())
    }

    /// Returns the body, with the object's name if the body is an object.
    pub(super) fn body_named(&self, name: &str) -> Value {
        let mut body = self.body.clone();
        if matches!(self.verb, Verb::Create | Verb::Update | Verb::Apply | Verb::ForceApply) {
            match body.pointer_mut("/metadata") {
                Some(Value::Object(metadata)) => {
                    metadata.insert("name".to_owned(), name.into());
                }
                Some(_) => {}
                None => {
                    if let Value::Object(members) = &mut body {
                        members.insert("metadata".to_owned(), json!({"name": name}));
                    }
                }
            }
        }
        body
    }
}

impl fmt::Display for Step {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(to, "{:?} by {}: {}", self.verb, self.manager, self.body)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn step(verb: Verb, body: Value) -> Step {
        Step {
            verb,
            manager: "one",
            body,
        }
    }

    #[test]
    fn objects_carry_the_name_and_patches_do_not() {
        let named = json!({"metadata": {"name": "a"}});
        assert_eq!(step(Verb::Apply, json!({})).body_named("a"), named);
        assert_eq!(step(Verb::MergePatch, json!({})).body_named("a"), json!({}));
        let wrong = json!({"metadata": 5});
        assert_eq!(step(Verb::Create, wrong.clone()).body_named("a"), wrong);
    }

    #[test]
    fn requests_go_to_the_object_or_its_collection() {
        let address = |verb| step(verb, Value::Null).request("/api/v1/nodes", "a");
        assert_eq!(address(Verb::Create).1, "/api/v1/nodes?fieldManager=one");
        assert_eq!(
            address(Verb::ForceApply),
            (
                Method::PATCH,
                "/api/v1/nodes/a?fieldManager=one&force=true".to_owned(),
                "application/apply-patch+yaml"
            )
        );
        assert_eq!(address(Verb::Delete).1, "/api/v1/nodes/a");
    }
}
