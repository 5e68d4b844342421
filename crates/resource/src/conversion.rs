//! Conversion of objects between versions by a webhook: the review sent to it, and the parts of its response that count
//! (<https://kubernetes.io/docs/tasks/extend-kubernetes/custom-resources/custom-resource-definition-versioning/#webhook-conversion>).
//!
//! The server sends the review. A webhook may change the content of objects, their labels and annotations; the rest of
//! their metadata stays as it was, whatever the response.

use std::fmt;
use std::time::Duration;

use holdfast_gotext::quote::quote;
use holdfast_value::{Limits, SmolStr, Value, json};

use holdfast_schema::metadata::labels::validate_labels;
use holdfast_schema::metadata::validate_annotations;
use holdfast_schema::{Aggregate, Field, FieldPath};

/// Timeout of a webhook call.
pub const TIMEOUT: Duration = Duration::from_secs(30);

/// API group of reviews.
const GROUP: &str = "apiextensions.k8s.io";

const KIND: &str = "ConversionReview";

/// Limits of a response, which holds as many objects as were sent.
const ANSWER: Limits = Limits {
    max_bytes: 16 << 20,
    max_depth: Limits::TRUSTED.max_depth,
    max_nodes: 4_000_000,
};

/// Reason why an object is not converted.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ConversionError {
    /// The kind does not know this conversion.
    #[error("no conversion from {from} to {to}")]
    Unknown {
        /// The `apiVersion` of the object.
        from: String,
        /// The requested `apiVersion`.
        to: String,
    },
    /// The CRD has no such version.
    #[error("request to convert CR to an invalid group/version: {0}")]
    NoSuchTarget(String),
    /// The object is in a version that the CRD no longer has.
    #[error("request to convert CR from an invalid group/version: {0}")]
    NoSuchSource(String),
    /// The defaults of the version make the object too large.
    #[error(transparent)]
    Overgrown(#[from] holdfast_value::Error),
    /// The conversion webhook failed.
    #[error(transparent)]
    Webhook(#[from] WebhookFailure),
}

/// Versions of reviews.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ConversionReviewVersion {
    /// `v1`, whose responses must be reviews of the same version and uid.
    V1,
    /// `v1beta1`, whose responses may omit both.
    V1Beta1,
}

impl ConversionReviewVersion {
    /// Returns the version of that name.
    pub fn named(name: &str) -> Option<Self> {
        match name {
            "v1" => Some(Self::V1),
            "v1beta1" => Some(Self::V1Beta1),
            _ => None,
        }
    }

    fn name(self) -> &'static str {
        match self {
            Self::V1 => "v1",
            Self::V1Beta1 => "v1beta1",
        }
    }
}

/// A webhook that converts the objects of a resource.
#[derive(Clone, Debug)]
pub struct ConversionWebhook {
    /// Name of the CRD.
    pub crd: SmolStr,
    /// Client configuration of the webhook: a `clientConfig`.
    pub client_config: Value,
    /// Version of the reviews that the webhook accepts; `None` if none of those is known.
    pub review_version: Option<ConversionReviewVersion>,
}

/// Reason why there are no converted objects, in the words that clients see.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct WebhookFailure {
    /// Error message.
    pub message: String,
    /// Type of the failure.
    pub kind: WebhookFailureKind,
}

/// Types of webhook failures, as metrics distinguish them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WebhookFailureKind {
    /// The call failed.
    Call,
    /// The response is malformed or reports a failure.
    Answer,
    /// The response has more or fewer objects than the request.
    Count,
    /// The response has an object that is not the one sent.
    Object,
}

impl WebhookFailureKind {
    /// Returns the name in metrics.
    pub fn name(self) -> &'static str {
        match self {
            Self::Call => "conversion_webhook_call_failure",
            Self::Answer => "conversion_webhook_malformed_response_failure",
            Self::Count => "conversion_webhook_partial_response_failure",
            Self::Object => "conversion_webhook_invalid_converted_object_failure",
        }
    }
}

impl ConversionWebhook {
    /// Returns the review that requests `objects` in `api_version`; `uid` identifies the request. It leaves out
    /// resource versions, which only concern the server.
    ///
    /// upstream: k8s.io/apiextensions-apiserver/pkg/apiserver/conversion#createConversionReviewObjects
    ///
    /// # Errors
    /// If the webhook accepts no known version of reviews.
    pub fn review(&self, uid: &str, objects: &[Value], api_version: &str) -> Result<Vec<u8>, WebhookFailure> {
        let version = self.review_version.ok_or_else(|| WebhookFailure {
            message: "no supported conversion review versions".to_owned(),
            kind: WebhookFailureKind::Call,
        })?;
        let group = format!("{GROUP}/{}", version.name());
        let mut bytes = Vec::with_capacity(2048 * objects.len());
        bytes.extend_from_slice(br#"{"kind":"ConversionReview","apiVersion":"#);
        json::write_string(&group, &mut bytes);
        bytes.extend_from_slice(br#","request":{"uid":"#);
        json::write_string(uid, &mut bytes);
        bytes.extend_from_slice(br#","desiredAPIVersion":"#);
        json::write_string(api_version, &mut bytes);
        bytes.extend_from_slice(br#","objects":["#);
        for (at, object) in objects.iter().enumerate() {
            if at > 0 {
                bytes.push(b',');
            }
            let mut object = object.clone();
            object.remove_at(&["metadata", "resourceVersion"]);
            json::write(&object, &mut bytes);
        }
        bytes.extend_from_slice(br#"]},"response":{"uid":"","convertedObjects":null,"result":{"metadata":{}}}}"#);
        Ok(bytes)
    }

    /// Returns the failure of a request to convert `objects`, of which there is at least one.
    pub fn unanswered(&self, objects: &[Value], why: &str) -> WebhookFailure {
        failure(WebhookFailureKind::Call, objects, &format!("failed: {why}"))
    }

    /// Returns the objects that a response has for `objects`, in their order, each with its original metadata except
    /// for labels and annotations.
    ///
    /// # Errors
    /// If these are not the same objects in another version, or if there are none.
    #[expect(clippy::indexing_slicing, reason = "the place of one of the objects")]
    pub fn converted(
        &self,
        answer: &[u8],
        uid: &str,
        objects: &[Value],
        api_version: &str,
    ) -> Result<Vec<Value>, WebhookFailure> {
        let version = self.review_version.unwrap_or(ConversionReviewVersion::V1);
        let review = read(answer, version)
            .map_err(|why| failure(WebhookFailureKind::Call, objects, &format!("failed: {why}")))?;
        let converted = of_response(&review, uid, version)
            .map_err(|why| failure(WebhookFailureKind::Answer, objects, &format!("failed: {why}")))?;
        if converted.len() != objects.len() {
            let why = format!("returned {} objects, expected {}", converted.len(), objects.len());
            return Err(failure(WebhookFailureKind::Count, objects, &why));
        }
        let pairs = objects.iter().zip(converted).enumerate();
        let checked = pairs.map(|(at, (original, converted))| {
            // The reference reports a value that is not an object without naming the original.
            if let Some(message) = no_object(&converted) {
                let kind = WebhookFailureKind::Object;
                return Err(WebhookFailure { message, kind });
            }
            adopt(original, converted, at, api_version)
                .map_err(|why| failure(WebhookFailureKind::Object, &objects[at..], &why))
        });
        checked.collect()
    }
}

fn failure(kind: WebhookFailureKind, objects: &[Value], why: &str) -> WebhookFailure {
    let text = |name: &str| {
        objects
            .first()
            .and_then(|object| object.str_at(&[name]))
            .unwrap_or_default()
    };
    WebhookFailure {
        message: format!(
            "conversion webhook for {}, Kind={} {why}",
            text("apiVersion"),
            text("kind")
        ),
        kind,
    }
}

/// Reads a response as a review of that version.
fn read(answer: &[u8], version: ConversionReviewVersion) -> Result<Value, String> {
    let unreadable = |why: &dyn std::fmt::Display| format!("couldn't get version/kind; json parse error: {why}");
    let review = json::parse(answer, &ANSWER).map_err(|error| unreadable(&error))?;
    if review.as_map().is_none() {
        return Err(unreadable(&"json: cannot unmarshal into Go value of type struct"));
    }
    let written = WrittenKind::read(&review)?;
    let completed = written.completed(version);
    if completed.version.is_empty() {
        return Err(format!(
            "Object 'apiVersion' is missing in '{}'",
            json::to_string(&review)
        ));
    }
    let (api_version, kind) = (completed.api_version(), completed.kind);
    let known = ConversionReviewVersion::named(completed.version);
    match known.filter(|_| completed.group == GROUP && kind == KIND) {
        Some(found) if found == version => Ok(review),
        Some(found) => Err(format!(
            "converting ({}.{KIND}) to ({}.{KIND}): unknown conversion",
            found.name(),
            version.name()
        )),
        None if is_unversioned(&api_version, kind) => Err(format!(
            "converting (v1.{kind}) to ({}.{KIND}): unknown conversion",
            version.name()
        )),
        None => Err(format!(
            "no kind {} is registered for version {} in scheme \"holdfast\"",
            quote(kind),
            quote(&api_version)
        )),
    }
}

/// Group, version and kind of a response, as written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct WrittenKind<'a> {
    group: &'a str,
    version: &'a str,
    kind: &'a str,
}

impl<'a> WrittenKind<'a> {
    fn read(review: &'a Value) -> Result<Self, String> {
        let text = |name: &str| review.str_at(&[name]).unwrap_or_default();
        let (api_version, kind) = (text("apiVersion"), text("kind"));
        let (group, version) = match api_version.split_once('/') {
            Some((_, version)) if version.contains('/') => {
                return Err(format!("unexpected GroupVersion string: {api_version}"));
            }
            Some(parts) => parts,
            None => ("", api_version),
        };
        Ok(Self { group, version, kind })
    }

    /// Returns the kind with missing parts filled in from the review that was sent.
    ///
    /// upstream: k8s.io/apimachinery/pkg/runtime/serializer/json#gvkWithDefaults
    fn completed(self, sent: ConversionReviewVersion) -> Self {
        let mut completed = self;
        if completed.kind.is_empty() {
            completed.kind = KIND;
        }
        if completed.group.is_empty() && completed.version.is_empty() {
            completed.group = GROUP;
        }
        if completed.version.is_empty() && completed.group == GROUP {
            completed.version = sent.name();
        }
        completed
    }

    fn api_version(&self) -> String {
        match self.group {
            "" => self.version.to_owned(),
            group => format!("{group}/{}", self.version),
        }
    }
}

impl fmt::Display for WrittenKind<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}, Kind={}", self.group, self.version, self.kind)
    }
}

/// Returns true if this is one of the kinds that belong to every API and are never converted.
pub fn is_unversioned(api_version: &str, kind: &str) -> bool {
    const KINDS: [&str; 5] = ["Status", "APIVersions", "APIGroup", "APIGroupList", "APIResourceList"];
    api_version == "v1" && KINDS.contains(&kind)
}

/// Returns the objects in the response of a review.
///
/// upstream: k8s.io/apiextensions-apiserver/pkg/apiserver/conversion#getConvertedObjectsFromResponse
fn of_response(review: &Value, uid: &str, version: ConversionReviewVersion) -> Result<Vec<Value>, String> {
    let strict = version == ConversionReviewVersion::V1;
    let expected = WrittenKind {
        group: GROUP,
        version: version.name(),
        kind: KIND,
    };
    let written = WrittenKind::read(review)?;
    if strict && written != expected {
        return Err(format!("expected webhook response of {expected}, got {written}"));
    }
    let response = review
        .get("response")
        .filter(|response| response.as_map().is_some())
        .ok_or("no response provided")?;
    let found = response.str_at(&["uid"]).unwrap_or_default();
    if strict && found != uid {
        return Err(format!("expected response.uid={uid:?}, got {found:?}"));
    }
    let status = response.str_at(&["result", "status"]).unwrap_or_default();
    if status != "Success" {
        return Err(match response.str_at(&["result", "message"]).unwrap_or_default() {
            "" => format!("response.result.status was '{status}', not 'Success'"),
            message => message.to_owned(),
        });
    }
    let objects = response.get("convertedObjects").and_then(Value::as_list);
    Ok(objects.map(|objects| objects.to_vec()).unwrap_or_default())
}

/// Returns the reason why a converted object is not a valid object.
fn no_object(converted: &Value) -> Option<String> {
    if converted.is_null() {
        return Some("unexpected end of JSON input".to_owned());
    }
    let nameless = converted.str_at(&["kind"]).unwrap_or_default().is_empty();
    nameless.then(|| format!("Object 'Kind' is missing in '{}'", json::to_string(converted)))
}

/// Returns `converted` instead of `original`, if it is the same object in that version.
///
/// upstream: k8s.io/apiextensions-apiserver/pkg/apiserver/conversion#webhookConverter.Convert
fn adopt(original: &Value, converted: Value, at: usize, api_version: &str) -> Result<Value, String> {
    let text = |of: &Value, path: &[&str]| of.str_at(path).unwrap_or_default().to_owned();
    let of_index = |what: &str, expected: &str, received: &str| {
        Err(format!(
            "returned invalid object at index {at}: invalid {what} (expected {expected}, received {received})"
        ))
    };
    let received = text(&converted, &["apiVersion"]);
    if received != api_version {
        return of_index("groupVersion", api_version, &received);
    }
    let (expected, received) = (text(original, &["kind"]), text(&converted, &["kind"]));
    if received != expected {
        return of_index("kind", &expected, &received);
    }
    for (what, name) in [("name", "name"), ("namespace", "namespace"), ("UID", "uid")] {
        let path = ["metadata", name];
        let (expected, received) = (text(original, &path), text(&converted, &path));
        if received != expected {
            return Err(format!(
                "returned invalid object: must have the same {what}: {expected} != {received}"
            ));
        }
    }
    restore_metadata(original, converted).map_err(|why| format!("returned invalid metadata: {why}"))
}

/// Returns the converted object with the metadata of the original, except for labels and annotations.
///
/// upstream: k8s.io/apiextensions-apiserver/pkg/apiserver/conversion#restoreObjectMeta
fn restore_metadata(original: &Value, mut converted: Value) -> Result<Value, String> {
    let returned = converted
        .get("metadata")
        .cloned()
        .ok_or("missing metadata in converted object")?;
    if returned.as_map().is_none() {
        let go_type = returned.go_type();
        return Err(format!("invalid metadata of type {go_type} in converted object"));
    }
    let mut metadata = original.get("metadata").cloned().unwrap_or_else(Value::empty_map);
    for name in ["labels", "annotations"] {
        let Some(texts) = returned.get(name).filter(|texts| !texts.is_null()) else {
            metadata.remove_at(&[name]);
            continue;
        };
        let Some(map) = texts.as_map() else {
            let go_type = texts.go_type();
            return Err(format!("invalid metadata.{name} of type {go_type} in converted object"));
        };
        if let Some((key, value)) = map.iter().find(|(_, value)| value.as_str().is_none()) {
            let go_type = value.go_type();
            return Err(format!(
                "metadata.{name}[{key}] must be a string, but is {go_type} in converted object"
            ));
        }
        // The webhook is not responsible for earlier errors.
        if metadata.get(name) != Some(texts) {
            check_texts(&returned, name)?;
        }
        metadata.set_at(&[name], texts.clone());
    }
    converted.set_at(&["metadata"], metadata);
    Ok(converted)
}

fn check_texts(metadata: &Value, name: &str) -> Result<(), String> {
    let mut errors = Vec::new();
    match metadata.get(name).and_then(Value::as_map) {
        // The reference's path lacks a letter here.
        Some(texts) if name == "annotations" => {
            validate_annotations(&FieldPath::new("metadata.annotation"), texts, &mut errors);
        }
        _ => validate_labels(&Field::placed(metadata.get(name), "metadata.labels"), &mut errors),
    }
    match errors.is_empty() {
        true => Ok(()),
        false => Err(Aggregate(&errors).to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Value {
        json::parse(text.as_bytes(), &Limits::TRUSTED).unwrap()
    }

    fn webhook(version: &str) -> ConversionWebhook {
        ConversionWebhook {
            crd: SmolStr::new_static("as.x.io"),
            client_config: Value::Null,
            review_version: ConversionReviewVersion::named(version),
        }
    }

    fn original() -> Value {
        parse(
            r#"{"apiVersion":"x.io/v1","kind":"A","metadata":{"name":"n","uid":"u","resourceVersion":"7","generation":2,
            "labels":{"a":"b"}},"spec":{"old":1}}"#,
        )
    }

    /// Returns the result of a review with this response to the request `q`.
    fn answered(version: &str, response: &str) -> Result<String, String> {
        let review = format!(
            r#"{{"apiVersion":"apiextensions.k8s.io/{version}","kind":"ConversionReview","response":{response}}}"#
        );
        let converted = webhook(version)
            .converted(review.as_bytes(), "q", &[original()], "x.io/v2")
            .map_err(|failure| failure.to_string())?;
        Ok(json::to_string(&converted[0]))
    }

    fn read_back(object: &str) -> Result<String, String> {
        answered(
            "v1",
            &format!(r#"{{"uid":"q","result":{{"status":"Success"}},"convertedObjects":[{object}]}}"#),
        )
    }

    #[test]
    fn a_review_holds_the_objects_without_their_resource_versions() {
        let body = webhook("v1beta1").review("q", &[original()], "x.io/v2").unwrap();
        let review = parse(std::str::from_utf8(&body).unwrap());
        assert_eq!(review.str_at(&["apiVersion"]), Some("apiextensions.k8s.io/v1beta1"));
        assert_eq!(review.str_at(&["request", "desiredAPIVersion"]), Some("x.io/v2"));
        let objects = review.at(&["request", "objects"]).and_then(Value::as_list).unwrap();
        let mut expected = original();
        expected.remove_at(&["metadata", "resourceVersion"]);
        assert_eq!(objects[..], [expected]);
        let unknown = webhook("v7").review("q", &[original()], "x.io/v2").unwrap_err();
        assert_eq!(unknown.message, "no supported conversion review versions");
    }

    #[test]
    fn webhook_changes_only_labels_and_annotations() {
        let converted = read_back(
            r#"{"apiVersion":"x.io/v2","kind":"A","metadata":{"name":"n","uid":"u","generation":9,"finalizers":["f"],
            "annotations":{"c":"d"}},"spec":{"new":1}}"#,
        );
        assert_eq!(
            converted.unwrap(),
            r#"{"apiVersion":"x.io/v2","kind":"A","metadata":{"annotations":{"c":"d"},"generation":2,"name":"n","resourceVersion":"7","uid":"u"},"spec":{"new":1}}"#
        );
    }

    #[test]
    fn response_with_another_object_is_rejected() {
        let object = |api_version: &str, kind: &str, metadata: &str| {
            format!(r#"{{"apiVersion":"{api_version}","kind":"{kind}","metadata":{metadata}}}"#)
        };
        let same = r#"{"name":"n","uid":"u"}"#;
        for (object, why) in [
            (
                object("x.io/v1", "A", same),
                "returned invalid object at index 0: invalid groupVersion (expected x.io/v2, received x.io/v1)",
            ),
            (
                object("x.io/v2", "B", same),
                "returned invalid object at index 0: invalid kind (expected A, received B)",
            ),
            (
                object("x.io/v2", "A", r#"{"name":"m","uid":"u"}"#),
                "returned invalid object: must have the same name: n != m",
            ),
            (
                object("x.io/v2", "A", r#"{"name":"n","namespace":"m","uid":"u"}"#),
                "returned invalid object: must have the same namespace:  != m",
            ),
            (
                object("x.io/v2", "A", r#"{"name":"n"}"#),
                "returned invalid object: must have the same UID: u != ",
            ),
            (
                object("x.io/v2", "A", r#"{"name":"n","uid":"u","labels":{"a":1}}"#),
                "returned invalid metadata: metadata.labels[a] must be a string, but is int64 in converted object",
            ),
            (
                object("x.io/v2", "A", r#"{"name":"n","uid":"u","labels":[]}"#),
                "returned invalid metadata: invalid metadata.labels of type []interface {} in converted object",
            ),
        ] {
            let failed = read_back(&object).unwrap_err();
            assert_eq!(failed, format!("conversion webhook for x.io/v1, Kind=A {why}"));
        }
        assert_eq!(read_back("{}").unwrap_err(), "Object 'Kind' is missing in '{}'");
        assert_eq!(read_back("null").unwrap_err(), "unexpected end of JSON input");
        let label = object("x.io/v2", "A", r#"{"name":"n","uid":"u","labels":{"a":"not good"}}"#);
        let failed = read_back(&label).unwrap_err();
        let start =
            "conversion webhook for x.io/v1, Kind=A returned invalid metadata: metadata.labels: Invalid value: ";
        assert!(failed.starts_with(start), "{failed}");
    }

    #[test]
    fn an_answer_says_of_what_it_is_one_and_that_it_succeeded() {
        let failed = |version: &str, response: &str| answered(version, response).unwrap_err();
        let start = "conversion webhook for x.io/v1, Kind=A";
        for (response, why) in [
            ("null", "failed: no response provided"),
            (r#"{"uid":"p"}"#, r#"failed: expected response.uid="q", got "p""#),
            (
                r#"{"uid":"q","result":{"status":"Failure","message":"no way"}}"#,
                "failed: no way",
            ),
            (r#"{"uid":"q"}"#, "failed: response.result.status was '', not 'Success'"),
            (
                r#"{"uid":"q","result":{"status":"Success"}}"#,
                "returned 0 objects, expected 1",
            ),
        ] {
            assert_eq!(failed("v1", response), format!("{start} {why}"));
        }
        // The older version requires no uid.
        let old = failed("v1beta1", r#"{"result":{"status":"Success"}}"#);
        assert_eq!(old, format!("{start} returned 0 objects, expected 1"));

        let read = |answer: &str| {
            let read = webhook("v1").converted(answer.as_bytes(), "q", &[original()], "x.io/v2");
            read.unwrap_err()
        };
        assert_eq!(
            read("{}").message,
            format!(
                "{start} failed: expected webhook response of apiextensions.k8s.io/v1, Kind=ConversionReview, got /, Kind="
            )
        );
        assert_eq!(read("[").kind, WebhookFailureKind::Call);
        for (answer, why) in [
            (
                r#"{"apiVersion":"apiextensions.k8s.io/v1"}"#,
                "expected webhook response of apiextensions.k8s.io/v1, Kind=ConversionReview, got apiextensions.k8s.io/v1, \
                 Kind=",
            ),
            (
                r#"{"kind":"ConversionReview"}"#,
                "expected webhook response of apiextensions.k8s.io/v1, Kind=ConversionReview, got /, Kind=ConversionReview",
            ),
            (
                r#"{"apiVersion":"apiextensions.k8s.io/","kind":"ConversionReview"}"#,
                "expected webhook response of apiextensions.k8s.io/v1, Kind=ConversionReview, got apiextensions.k8s.io/, \
                 Kind=ConversionReview",
            ),
            (
                r#"{"apiVersion":"apiextensions.k8s.io/v1beta1"}"#,
                "converting (v1beta1.ConversionReview) to (v1.ConversionReview): unknown conversion",
            ),
            (
                r#"{"apiVersion":"v1"}"#,
                r#"no kind "ConversionReview" is registered for version "v1" in scheme "holdfast""#,
            ),
            (
                r#"{"kind":"Pod"}"#,
                r#"no kind "Pod" is registered for version "apiextensions.k8s.io/v1" in scheme "holdfast""#,
            ),
            (r#"{"apiVersion":"a/b/c"}"#, "unexpected GroupVersion string: a/b/c"),
            (
                r#"{"apiVersion":"a/"}"#,
                r#"Object 'apiVersion' is missing in '{"apiVersion":"a/"}'"#,
            ),
        ] {
            assert_eq!(read(answer).message, format!("{start} failed: {why}"), "{answer}");
        }
        assert_eq!(
            read(r#"{"apiVersion":"apiextensions.k8s.io/v1beta1","kind":"ConversionReview"}"#).message,
            format!(
                "{start} failed: converting (v1beta1.ConversionReview) to (v1.ConversionReview): unknown conversion"
            )
        );
    }
}
