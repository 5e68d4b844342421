//! Requests to webhooks: an AdmissionReview with a request
//! (<https://kubernetes.io/docs/reference/access-authn-authz/extensible-admission-controllers/#request>).

use holdfast_authorization::User;
use holdfast_schema::{GroupVersion, GroupVersionKind};
use holdfast_value::{Map, SmolStr, Value, json};

use super::matching::Invocation;

/// Version of reviews.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReviewVersion {
    /// `admission.k8s.io/v1`.
    V1,
    /// `admission.k8s.io/v1beta1`.
    V1Beta1,
}

impl ReviewVersion {
    /// Returns the version of that name, without the group.
    pub fn named(name: &str) -> Option<Self> {
        match name {
            "v1" => Some(Self::V1),
            "v1beta1" => Some(Self::V1Beta1),
            _ => None,
        }
    }

    /// Returns the name without the group.
    pub fn name(self) -> &'static str {
        match self {
            Self::V1 => "v1",
            Self::V1Beta1 => "v1beta1",
        }
    }
}

/// A write that a webhook reviews.
#[derive(Clone, Copy)]
pub struct Review<'a> {
    /// Unique identifier of this request.
    pub uid: &'a str,
    /// Resource and kind under which the write is sent to the webhook.
    pub invocation: &'a Invocation,
    /// Kind of the request body.
    pub request_kind: &'a GroupVersionKind,
    /// Group and version of the address.
    pub request_version: &'a GroupVersion,
    /// Plural name of the resource of the address.
    pub request_resource: &'a str,
    /// Subresource; empty for the object itself.
    pub subresource: &'a str,
    /// Name of the object.
    pub name: &'a str,
    /// Namespace; empty for cluster-scoped resources.
    pub namespace: &'a str,
    /// `CREATE`, `UPDATE`, `DELETE` or `CONNECT`.
    pub operation: &'a str,
    /// User who makes the request.
    pub user: &'a User,
    /// Object, in the version of the invocation.
    pub object: Option<&'a Value>,
    /// Old object, in the version of the invocation.
    pub old_object: Option<&'a Value>,
    /// True if nothing is stored.
    pub dry_run: bool,
    /// Options of the write.
    pub options: &'a Value,
}

/// Fields of a request, in the order of the reference.
const REQUEST_FIELDS: [&str; 15] = [
    "uid",
    "kind",
    "resource",
    "subResource",
    "requestKind",
    "requestResource",
    "requestSubResource",
    "name",
    "namespace",
    "operation",
    "userInfo",
    "object",
    "oldObject",
    "dryRun",
    "options",
];

impl Review<'_> {
    /// Encodes the review in that version as JSON, with its fields in the order of the reference.
    pub fn encode(&self, version: ReviewVersion) -> Vec<u8> {
        let mut request = self.described();
        request.insert("uid", self.uid);
        request.insert("object", self.object.cloned().unwrap_or_default());
        request.insert("oldObject", self.old_object.cloned().unwrap_or_default());
        let mut review = format!(
            r#"{{"kind":"AdmissionReview","apiVersion":"admission.k8s.io/{}","request":"#,
            version.name()
        );
        let mut before = '{';
        for key in REQUEST_FIELDS {
            if let Some(value) = request.get(key) {
                review.push(before);
                review.push_str(&format!("\"{key}\":"));
                review.push_str(&json::to_string(value));
                before = ',';
            }
        }
        review.push_str("}}");
        review.into_bytes()
    }
}

impl Review<'_> {
    /// Returns the request without its objects and its identifier: the value of `request` in the expressions of
    /// policies.
    pub fn described(&self) -> Map {
        let invocation = self.invocation;
        let mut request = Map::new();
        request.insert("kind", kind(&invocation.kind));
        request.insert(
            "resource",
            resource(&invocation.group, &invocation.version, &invocation.resource),
        );
        request.insert("requestKind", kind(self.request_kind));
        let version_of = self.request_version;
        request.insert(
            "requestResource",
            resource(&version_of.group, &version_of.version, self.request_resource),
        );
        for (key, text) in [
            ("subResource", self.subresource),
            ("requestSubResource", self.subresource),
            ("name", self.name),
            ("namespace", self.namespace),
        ] {
            if !text.is_empty() {
                request.insert(key, text);
            }
        }
        request.insert("operation", self.operation);
        request.insert("userInfo", user(self.user));
        request.insert("dryRun", Value::Bool(self.dry_run));
        request.insert("options", self.options.clone());
        request
    }
}

fn kind(kind: &GroupVersionKind) -> Value {
    texts(&[
        ("group", &kind.group_version.group),
        ("version", &kind.group_version.version),
        ("kind", &kind.kind),
    ])
}

fn resource(group: &str, version: &str, resource: &str) -> Value {
    texts(&[("group", group), ("version", version), ("resource", resource)])
}

fn texts(entries: &[(&'static str, &str)]) -> Value {
    let mut map = Map::new();
    for (key, text) in entries {
        map.insert(*key, *text);
    }
    Value::Map(map)
}

fn user(user: &User) -> Value {
    let mut map = Map::new();
    let list = |texts: &[SmolStr]| Value::from(texts.iter().map(|text| Value::from(text.as_str())).collect::<Vec<_>>());
    if !user.name.is_empty() {
        map.insert("username", user.name.as_str());
    }
    if !user.uid.is_empty() {
        map.insert("uid", user.uid.as_str());
    }
    if !user.groups.is_empty() {
        map.insert("groups", list(&user.groups));
    }
    if !user.extra.is_empty() {
        let mut extra = Map::new();
        for (key, values) in &user.extra {
            extra.insert(key.clone(), list(values));
        }
        map.insert("extra", Value::Map(extra));
    }
    Value::Map(map)
}

#[cfg(test)]
mod tests {
    use holdfast_value::Limits;

    use super::*;

    #[test]
    fn a_review_has_the_fields_of_the_reference_in_its_order() {
        let kind = GroupVersionKind {
            group_version: GroupVersion::new("", "v1"),
            kind: "Pod".into(),
        };
        let invocation = Invocation {
            resource: "pods".into(),
            group: SmolStr::default(),
            version: "v1".into(),
            kind: kind.clone(),
        };
        let object = json::parse(br#"{"kind":"Pod"}"#, &Limits::REQUEST).unwrap();
        let review = Review {
            uid: "u",
            invocation: &invocation,
            request_kind: &kind,
            request_version: &kind.group_version,
            request_resource: "pods",
            subresource: "",
            name: "web",
            namespace: "default",
            operation: "CREATE",
            user: &User::default(),
            object: Some(&object),
            old_object: None,
            dry_run: true,
            options: &Value::Null,
        };
        let kind = r#"{"group":"","version":"v1","kind":"Pod"}"#;
        let resource = r#"{"group":"","version":"v1","resource":"pods"}"#;
        let sent = String::from_utf8(review.encode(ReviewVersion::V1)).unwrap();
        let expected = [
            r#"{"kind":"AdmissionReview","apiVersion":"admission.k8s.io/v1","request":{"uid":"u""#,
            &format!(r#""kind":{kind},"resource":{resource},"requestKind":{kind},"requestResource":{resource}"#),
            r#""name":"web","namespace":"default","operation":"CREATE","userInfo":{}"#,
            r#""object":{"kind":"Pod"},"oldObject":null,"dryRun":true,"options":null}}"#,
        ];
        let normal = |text: &str| json::parse(text.as_bytes(), &Limits::REQUEST).unwrap();
        assert_eq!(normal(&sent), normal(&expected.join(",")));
        let places: Vec<usize> = [
            "\"uid\"",
            "\"requestKind\"",
            "\"name\"",
            "\"object\"",
            "\"oldObject\"",
            "\"options\"",
        ]
        .iter()
        .map(|key| sent.find(key).unwrap())
        .collect();
        assert!(places.is_sorted(), "{sent}");
    }
}
