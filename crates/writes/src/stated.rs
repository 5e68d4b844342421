//! Group, version and kind in an object, and the type that the reference registers for them: the first step of decoding
//! bodies, patched objects and options.

use std::sync::Arc;

use holdfast_gotext::quote::quote;
use holdfast_schema::{GroupVersion, KindType, KindTypes};
use holdfast_value::{SmolStr, Value};

/// Version of the reference's internal form of an object, which has no field names in JSON.
pub const INTERNAL: &str = "__internal";

/// Group, version and kind in an object; empty if they are missing.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Stated {
    /// The group.
    pub group: SmolStr,
    /// The version.
    pub version: SmolStr,
    /// The kind.
    pub kind: SmolStr,
}

impl Stated {
    /// Reads the group, version and kind of the tree `object`.
    ///
    /// upstream: k8s.io/apimachinery/pkg/runtime/serializer/json#SimpleMetaFactory.Interpret
    ///
    /// # Errors
    /// If the tree cannot have them; the message is the reference's.
    pub fn from_object(object: &Value) -> Result<Self, String> {
        let unreadable = |why: String| format!("couldn't get version/kind; json parse error: {why}");
        if !matches!(object, Value::Map(_) | Value::Null) {
            return Err(unreadable(not_an_object(object)));
        }
        let (mut api_version, mut kind) = ("", "");
        for (key, value) in object.as_map().into_iter().flatten() {
            let (name, stated) = if folds_to(key, "apiVersion") {
                ("apiVersion", &mut api_version)
            } else if folds_to(key, "kind") {
                ("kind", &mut kind)
            } else {
                continue;
            };
            match value {
                Value::Null => {}
                Value::String(text) => *stated = text,
                other => {
                    return Err(unreadable(format!(
                        "json: cannot unmarshal {} into Go struct field .{name} of type string",
                        other.json_kind()
                    )));
                }
            }
        }
        Self::new(api_version, kind).ok_or_else(|| format!("unexpected GroupVersion string: {api_version}"))
    }

    /// Parses `apiVersion` and `kind`; returns `None` for an `apiVersion` with more than one slash.
    pub fn new(api_version: &str, kind: &str) -> Option<Self> {
        let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
        (!version.contains('/')).then(|| Self {
            group: group.into(),
            version: version.into(),
            kind: kind.into(),
        })
    }

    /// Fills in missing values from `group`, `version` and `kind`.
    pub fn or(mut self, group: &str, version: &str, kind: &str) -> Self {
        if self.kind.is_empty() {
            self.kind = kind.into();
        }
        if self.version.is_empty() && (self.group.is_empty() || self.group == group) {
            self.group = group.into();
            self.version = version.into();
        }
        self
    }

    /// Returns true if this is the kind and version of `kind_type`.
    pub fn is(&self, kind_type: &dyn KindType) -> bool {
        let GroupVersion { group, version } = &kind_type.name().group_version;
        self.kind == kind_type.kind() && self.version == *version && self.group == *group
    }

    /// Returns the `apiVersion`.
    pub fn api_version(&self) -> String {
        if self.group.is_empty() {
            self.version.to_string()
        } else {
            format!("{}/{}", self.group, self.version)
        }
    }

    /// Returns the error message for a kind that is not registered.
    ///
    /// upstream: k8s.io/apimachinery/pkg/runtime#notRegisteredErr.Error
    pub fn unregistered(&self) -> String {
        let kind = quote(&self.kind);
        if self.version == INTERNAL {
            let group = quote(&self.group);
            return format!(
                "no kind {kind} is registered for the internal version of group {group} in scheme \"holdfast\""
            );
        }
        let version = quote(&self.api_version());
        format!("no kind {kind} is registered for version {version} in scheme \"holdfast\"")
    }

    /// Returns the error message for an object that cannot replace one of the kind `kind` in `group`.
    ///
    /// upstream: k8s.io/apimachinery/pkg/conversion#Converter.Convert
    pub fn unconvertible(&self, group: &str, kind: &str) -> String {
        let found = if self.version == INTERNAL {
            package(&self.group)
        } else {
            &self.version
        };
        format!(
            "converting ({found}.{}) to ({}.{kind}): unknown conversion",
            self.kind,
            package(group)
        )
    }

    /// Returns true if the reference has one internal form for objects of this kind and of `kind_type`, in all
    /// versions.
    pub fn converts_to(&self, kind_type: &dyn KindType) -> bool {
        let group = &kind_type.name().group_version.group;
        self.kind == kind_type.kind() && home(&self.group, &self.kind) == home(group, &self.kind)
    }

    /// Finds the type that is registered under this name where objects of `kind_type` are decoded. The reference
    /// consists of three servers, each of which knows only the kinds of its own groups and those that every group has.
    pub fn find(&self, types: &KindTypes, kind_type: &dyn KindType) -> Option<RegisteredType> {
        let server = |group: &str| OWN_SERVERS.iter().position(|own| *own == group);
        let is_of_all = self.group.is_empty() && self.version == "v1" && OF_ALL_SERVERS.contains(&self.kind.as_str());
        if !is_of_all && server(&self.group) != server(&kind_type.name().group_version.group) {
            return None;
        }
        if let Some(kind_type) = types.kind(&self.api_version(), &self.kind) {
            return Some(RegisteredType::Type(Arc::clone(kind_type)));
        }
        if self.version == INTERNAL {
            return types
                .knows_in_group(&self.group, &self.kind)
                .then_some(RegisteredType::Internal);
        }
        let is_known =
            types.knows_unserved(&self.api_version(), &self.kind) || types.knows_list(&self.api_version(), &self.kind);
        is_known.then_some(RegisteredType::Other)
    }
}

/// Groups for which the reference has a separate server.
const OWN_SERVERS: [&str; 2] = ["apiextensions.k8s.io", "apiregistration.k8s.io"];

/// The kinds of the core group that each of the servers knows.
const OF_ALL_SERVERS: [&str; 12] = [
    "APIGroup",
    "APIGroupList",
    "APIResourceList",
    "APIVersions",
    "CreateOptions",
    "DeleteOptions",
    "GetOptions",
    "ListOptions",
    "PatchOptions",
    "Status",
    "UpdateOptions",
    "WatchEvent",
];

/// Type that the reference registers under a name.
pub enum RegisteredType {
    /// A type.
    Type(Arc<dyn KindType>),
    /// A kind in the reference's internal form, without any field that JSON can have.
    Internal,
    /// A kind that is not served, or a list; only its name is known.
    Other,
}

/// Returns true if the reference decodes `key` into the field `name` of its struct of these two fields. It ignores the
/// case of letters, and the last matching key applies. The long s and the Kelvin sign fold to letters of those names
/// too.
fn folds_to(key: &str, name: &str) -> bool {
    let folded = |letter: char| match letter {
        '\u{17f}' => 's',
        '\u{212a}' => 'k',
        other => other.to_ascii_lowercase(),
    };
    key == name || key.chars().map(folded).eq(name.chars().map(folded))
}

/// Returns the reference's error message for a body that is JSON but not an object.
fn not_an_object(value: &Value) -> String {
    let json_kind = value.json_kind();
    format!(
        "json: cannot unmarshal {json_kind} into Go value of type struct {{ APIVersion string \"json:\\\"apiVersion,omitempty\\\"\"; Kind string \"json:\\\"kind,omitempty\\\"\" }}"
    )
}

/// Returns the group in which the reference stores a kind that has moved to another group, or is served in two.
fn home<'g>(group: &'g str, kind: &str) -> &'g str {
    match (group, kind) {
        ("extensions", "DaemonSet" | "Deployment" | "ReplicaSet") => "apps",
        ("extensions", "Ingress" | "NetworkPolicy") => "networking.k8s.io",
        ("extensions" | "apps", "Scale") => "autoscaling",
        ("events.k8s.io", "Event") => "",
        _ => group,
    }
}

/// Returns the package that error messages name for the internal form of the kinds of a group.
fn package(group: &str) -> &str {
    match group {
        "" => "core",
        "internal.apiserver.k8s.io" => "apiserverinternal",
        "meta.k8s.io" => "v1",
        group => group.split('.').next().unwrap_or_default(),
    }
}

#[cfg(test)]
mod tests {
    use holdfast_value::{Limits, json};

    use super::*;

    fn stated(text: &str) -> Result<Stated, String> {
        Stated::from_object(&json::parse(text.as_bytes(), &Limits::REQUEST).unwrap())
    }

    #[test]
    fn names_are_texts() {
        for name in ["apiVersion", "kind"] {
            let text = format!(
                "couldn't get version/kind; json parse error: json: cannot unmarshal number into Go struct field .{name} of type string"
            );
            assert_eq!(stated(&format!("{{\"{name}\":5}}")).unwrap_err(), text);
            assert_eq!(
                stated(&format!("{{\"{name}\":null}}")),
                Ok(Stated::new("", "").unwrap())
            );
        }
        let error = stated(r#"{"APIVERSION":"a/b/c"}"#).unwrap_err();
        assert_eq!(error, "unexpected GroupVersion string: a/b/c");
        let last = stated("{\"kind\":\"A\",\"\u{212a}IND\":\"B\",\"Kind\":null,\"kinds\":5}");
        assert_eq!(last, Ok(Stated::new("", "B").unwrap()));
        assert!(
            stated(r#"{"KIND":5}"#)
                .unwrap_err()
                .ends_with("field .kind of type string")
        );
        let error = stated(r#"{"apiVersion":"a/b/c"}"#).unwrap_err();
        assert_eq!(error, "unexpected GroupVersion string: a/b/c");
        assert!(
            stated("[]")
                .unwrap_err()
                .contains("json: cannot unmarshal array into Go value")
        );
        assert_eq!(stated("null"), Ok(Stated::new("", "").unwrap()));
    }

    #[test]
    fn missing_values_come_from_the_request_path() {
        let or = |api_version: &str| {
            let stated = Stated::new(api_version, "").unwrap().or("apps", "v1", "Deployment");
            (stated.api_version(), stated.kind)
        };
        for (stated, expected) in [
            ("", "apps/v1"),
            ("/", "apps/v1"),
            ("apps/", "apps/v1"),
            ("v1", "v1"),
            ("v1/", "v1/"),
        ] {
            assert_eq!(or(stated), (expected.to_owned(), "Deployment".into()), "{stated}");
        }
        assert_eq!(Stated::new("/v1", "ConfigMap"), Stated::new("v1", "ConfigMap"));
    }

    #[test]
    fn refusals_name_packages_of_the_reference() {
        let stated = |api_version: &str, kind: &str| Stated::new(api_version, kind).unwrap();
        let error = stated("policy/v1beta1", "Eviction").unconvertible("", "ConfigMap");
        assert_eq!(
            error,
            "converting (v1beta1.Eviction) to (core.ConfigMap): unknown conversion"
        );
        let error = stated(INTERNAL, "ConfigMap").unconvertible("policy", "Eviction");
        assert_eq!(
            error,
            "converting (core.ConfigMap) to (policy.Eviction): unknown conversion"
        );
        let error = stated("v1", "Status").unconvertible("meta.k8s.io", "DeleteOptions");
        assert_eq!(
            error,
            "converting (v1.Status) to (v1.DeleteOptions): unknown conversion"
        );
    }
}
