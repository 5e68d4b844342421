//! Versions of a resource that a webhook converts, for the field managers of one write.
//!
//! Merging is synchronous. It looks up an object that it needs in another version among the conversions so far. A
//! missing conversion is recorded, and merging runs again once it is available. Merging is deterministic, so each run
//! gets one conversion further.

use std::sync::Arc;

use holdfast_merge::{Schema, TypeRef};
use holdfast_ownership::Versions;
use holdfast_value::{SmolStr, Value};
use parking_lot::Mutex;

use crate::field_managers::ResourceVersions;

/// Maximum number of conversions of one write: a few for each version that has managers.
const MAX_CONVERSIONS: usize = 256;

/// Versions of a resource, with the conversions of objects so far.
pub(crate) struct WebhookVersions<V = ResourceVersions> {
    versions: V,
    /// The requested version, through which all conversions pass.
    hub: SmolStr,
    known: Mutex<Conversions>,
}

#[derive(Default)]
struct Conversions {
    conversions: Vec<(Wanted, Result<Value, String>)>,
    wanted: Option<Wanted>,
}

/// An object that is wanted in another version.
#[derive(Clone, PartialEq)]
pub(crate) struct Wanted {
    /// The object.
    pub(crate) object: Value,
    /// The version.
    pub(crate) api_version: SmolStr,
}

impl<V: Versions> WebhookVersions<V> {
    /// Knows of no object yet.
    pub(crate) fn new(versions: V, hub: SmolStr) -> Self {
        Self {
            versions,
            hub,
            known: Mutex::default(),
        }
    }

    /// Removes and returns the conversion that merging lacked.
    pub(crate) fn wanted(&self) -> Option<Wanted> {
        self.known.lock().wanted.take()
    }

    /// Stores the converted object, or the failure of the webhook.
    pub(crate) fn learn(&self, wanted: Wanted, converted: Result<Value, String>) {
        self.known.lock().conversions.push((wanted, converted));
    }

    fn step(&self, object: &Value, api_version: &str) -> Result<Value, String> {
        if object.str_at(&["apiVersion"]) == Some(api_version) {
            return Ok(object.clone());
        }
        let mut known = self.known.lock();
        let mut conversions = known.conversions.iter();
        let found = conversions.find(|(wanted, _)| wanted.api_version == api_version && wanted.object == *object);
        if let Some((_, converted)) = found {
            return converted.clone();
        }
        if known.conversions.len() >= MAX_CONVERSIONS {
            return Err("too many conversions".to_owned());
        }
        known.wanted = Some(Wanted {
            object: object.clone(),
            api_version: SmolStr::new(api_version),
        });
        Err("not converted yet".to_owned())
    }
}

impl<V: Versions> Versions for WebhookVersions<V> {
    fn merge_type(&self, api_version: &str) -> Option<(Arc<Schema>, TypeRef)> {
        self.versions.merge_type(api_version)
    }

    fn missing_version_error(&self, api_version: &str) -> Option<String> {
        self.versions.missing_version_error(api_version)
    }

    fn convert(&self, object: &Value, api_version: &str) -> Result<Value, String> {
        let through = self.step(object, &self.hub)?;
        self.step(&through, api_version)
    }
}

#[cfg(test)]
mod tests {
    use holdfast_value::{Limits, json};

    use super::*;

    struct None;

    impl Versions for None {
        fn merge_type(&self, _api_version: &str) -> Option<(Arc<Schema>, TypeRef)> {
            Option::None
        }

        fn convert(&self, _object: &Value, _api_version: &str) -> Result<Value, String> {
            Err(String::new())
        }
    }

    fn object(version: &str) -> Value {
        json::parse(format!(r#"{{"apiVersion":"{version}"}}"#).as_bytes(), &Limits::TRUSTED).unwrap()
    }

    #[test]
    fn conversions_pass_through_the_requested_version_one_by_one() {
        let versions = WebhookVersions::new(None, SmolStr::new_static("g/v2"));
        let mut steps = Vec::new();
        while versions.convert(&object("g/v1"), "g/v3").is_err() {
            let wanted = versions.wanted().unwrap();
            let from = wanted.object.str_at(&["apiVersion"]).unwrap().to_owned();
            steps.push(format!("{from} to {}", wanted.api_version));
            let converted = object(&wanted.api_version);
            versions.learn(wanted, Ok(converted));
        }
        assert_eq!(steps, ["g/v1 to g/v2", "g/v2 to g/v3"]);
        assert!(versions.wanted().is_none());
        assert_eq!(versions.convert(&object("g/v1"), "g/v3"), Ok(object("g/v3")));
    }

    #[test]
    fn a_failure_is_known_like_an_object() {
        let versions = WebhookVersions::new(None, SmolStr::new_static("g/v1"));
        assert!(versions.convert(&object("g/v1"), "g/v2").is_err());
        let wanted = versions.wanted().unwrap();
        versions.learn(wanted, Err("no way".to_owned()));
        assert_eq!(versions.convert(&object("g/v1"), "g/v2"), Err("no way".to_owned()));
        assert!(versions.wanted().is_none());
    }
}
