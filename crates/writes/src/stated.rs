//! What an object says it is, and what the reference knows by that name: the first step of decoding bodies, patched
//! objects and options alike.

use std::sync::Arc;

use holdfast_gotext::quote::quote;
use holdfast_resource::{GroupVersion, KindType, KindTypes};
use holdfast_value::{SmolStr, Value};

/// The version that stands for the reference's own form of an object, which has no names in JSON.
pub const INTERNAL: &str = "__internal";

/// The group, version and kind that an object states; empty where it says nothing.
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
    /// What the tree `object` states.
    ///
    /// # Errors
    /// Why it is no object that could state anything, in the words of the reference.
    pub fn of(object: &Value) -> Result<Self, String> {
        let unreadable = |why: String| format!("couldn't get version/kind; json parse error: {why}");
        if !matches!(object, Value::Map(_) | Value::Null) {
            return Err(unreadable(not_an_object(object)));
        }
        let text = |name: &str| match object.get(name) {
            None | Some(Value::Null) => Ok(""),
            Some(Value::String(text)) => Ok(text.as_str()),
            Some(other) => Err(unreadable(format!(
                "json: cannot unmarshal {} into Go struct field .{name} of type string",
                other.json_kind()
            ))),
        };
        let (api_version, kind) = (text("apiVersion")?, text("kind")?);
        Self::new(api_version, kind).ok_or_else(|| format!("unexpected GroupVersion string: {api_version}"))
    }

    /// What these texts state; `None` for an `apiVersion` with more than one slash.
    pub fn new(api_version: &str, kind: &str) -> Option<Self> {
        let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
        (!version.contains('/')).then(|| Self {
            group: group.into(),
            version: version.into(),
            kind: kind.into(),
        })
    }

    /// The same with what it leaves open taken from `group`, `version` and `kind`.
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

    /// Whether this is kind and version of `kind_type`.
    pub fn is(&self, kind_type: &dyn KindType) -> bool {
        let GroupVersion { group, version } = &kind_type.name().group_version;
        self.kind == kind_type.kind() && self.version == *version && self.group == *group
    }

    /// The `apiVersion`.
    pub fn api_version(&self) -> String {
        if self.group.is_empty() {
            self.version.to_string()
        } else {
            format!("{}/{}", self.group, self.version)
        }
    }

    /// Why it cannot be read, where the kind is unknown.
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

    /// Why it cannot take the place of an object of the kind `kind` in `group`.
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

    /// Whether the reference holds objects of this kind in one form with those of `kind_type`, whatever their versions.
    pub fn converts_to(&self, kind_type: &dyn KindType) -> bool {
        let group = &kind_type.name().group_version.group;
        self.kind == kind_type.kind() && home(&self.group, &self.kind) == home(group, &self.kind)
    }

    /// What is known by this name.
    pub fn find(&self, types: &KindTypes) -> Option<Known> {
        if let Some(kind_type) = types.kind(&self.api_version(), &self.kind) {
            return Some(Known::Type(Arc::clone(kind_type)));
        }
        if self.version == INTERNAL {
            return types.knows_in_group(&self.group, &self.kind).then_some(Known::Internal);
        }
        let is_known =
            types.knows_unserved(&self.api_version(), &self.kind) || types.knows_list(&self.api_version(), &self.kind);
        is_known.then_some(Known::Other)
    }
}

/// What the reference knows by a name.
pub enum Known {
    /// A type.
    Type(Arc<dyn KindType>),
    /// A kind in the reference's own form: none of the fields that JSON can have.
    Internal,
    /// A kind that is not served, or a list; of these nothing but the name is known.
    Other,
}

/// What the reference says of a body that is JSON but no object.
fn not_an_object(value: &Value) -> String {
    let json_kind = value.json_kind();
    format!(
        "json: cannot unmarshal {json_kind} into Go value of type struct {{ APIVersion string \"json:\\\"apiVersion,omitempty\\\"\"; Kind string \"json:\\\"kind,omitempty\\\"\" }}"
    )
}

/// The group where the reference keeps a kind that has moved from one to another, or is served in two.
fn home<'g>(group: &'g str, kind: &str) -> &'g str {
    match (group, kind) {
        ("extensions", "DaemonSet" | "Deployment" | "ReplicaSet") => "apps",
        ("extensions", "Ingress" | "NetworkPolicy") => "networking.k8s.io",
        ("extensions" | "apps", "Scale") => "autoscaling",
        ("events.k8s.io", "Event") => "",
        _ => group,
    }
}

/// The package that messages name for the reference's own form of the kinds of a group.
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
        Stated::of(&json::parse(text.as_bytes(), &Limits::REQUEST).unwrap())
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
    fn what_is_left_open_is_that_of_the_address() {
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
        let of = |api_version: &str, kind: &str| Stated::new(api_version, kind).unwrap();
        let error = of("policy/v1beta1", "Eviction").unconvertible("", "ConfigMap");
        assert_eq!(
            error,
            "converting (v1beta1.Eviction) to (core.ConfigMap): unknown conversion"
        );
        let error = of(INTERNAL, "ConfigMap").unconvertible("policy", "Eviction");
        assert_eq!(
            error,
            "converting (core.ConfigMap) to (policy.Eviction): unknown conversion"
        );
        let error = of("v1", "Status").unconvertible("meta.k8s.io", "DeleteOptions");
        assert_eq!(
            error,
            "converting (v1.Status) to (v1.DeleteOptions): unknown conversion"
        );
    }
}
