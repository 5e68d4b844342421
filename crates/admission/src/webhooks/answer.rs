//! Responses of webhooks: an AdmissionReview with a response
//! (<https://kubernetes.io/docs/reference/access-authn-authz/extensible-admission-controllers/#response>).

use holdfast_resource::conversion::is_unversioned;
use holdfast_schema::types::decode_base64;
use holdfast_value::{Limits, Value, json, json_patch};

use super::{ReviewVersion, WebhookType};

/// A webhook's response to a write.
#[derive(Debug)]
pub struct Answer {
    /// True if the write is allowed.
    pub allowed: bool,
    /// Status of a rejection.
    pub status: Option<Value>,
    /// Warnings for the client.
    pub warnings: Vec<String>,
    /// Audit annotations of the write: keys and values.
    pub annotations: Vec<(String, String)>,
    /// Patch; `None` for no change.
    pub patch: Option<Patch>,
}

/// Patch of a webhook, as it was received.
#[derive(Debug)]
pub struct Patch {
    webhook_type: String,
    bytes: Vec<u8>,
}

/// Error of a response, with the message that clients see after the name of the webhook.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AnswerError {
    /// It cannot be decoded as a review.
    #[error("failed to call webhook: {0}")]
    Unreadable(String),
    /// It is a review without the required fields.
    #[error("received invalid webhook response: {0}")]
    Invalid(String),
    /// Its patch cannot be decoded.
    #[error("received undecodable patch in webhook response: {0}")]
    Patch(String),
    /// Its patch is of another type than JSONPatch.
    #[error("unsupported patch type {0:?}")]
    PatchType(String),
}

/// Maximum length of a patch in bytes.
const PATCH_BYTES: usize = 3 << 20;

/// The only type of patches.
const JSON_PATCH: &str = "JSONPatch";

impl Answer {
    /// Reads the response to the review of that uid and version.
    ///
    /// upstream: k8s.io/apiserver/pkg/admission/plugin/webhook/request#VerifyAdmissionResponse
    ///
    /// # Errors
    /// If it is not a valid response.
    pub fn read(
        bytes: &[u8],
        uid: &str,
        version: ReviewVersion,
        webhook_type: WebhookType,
    ) -> Result<Self, AnswerError> {
        let review = json::parse(bytes, &Limits::REQUEST).map_err(|error| {
            AnswerError::Unreadable(format!("couldn't get version/kind; json parse error: {error}"))
        })?;
        check_kind(&review, version)?;
        let patch_bytes = check_types(&review)?;
        let invalid = |why: &str| AnswerError::Invalid(why.to_owned());
        let response = review
            .get("response")
            .filter(|response| response.as_map().is_some())
            .ok_or_else(|| invalid("webhook response was absent"))?;
        if version == ReviewVersion::V1 {
            let found = response.str_at(&["uid"]).unwrap_or_default();
            if found != uid {
                return Err(invalid(&format!("expected response.uid={uid:?}, got {found:?}")));
            }
            check_written_kind(&review)?;
        }
        let (patch, patch_type) = (response.str_at(&["patch"]), response.str_at(&["patchType"]));
        let patch = patch.filter(|patch| !patch.is_empty());
        let strict = version == ReviewVersion::V1;
        match (webhook_type, patch, patch_type) {
            (WebhookType::Validating, Some(_), _) if strict => {
                return Err(invalid("validating webhook may not return response.patch"));
            }
            (WebhookType::Validating, None, Some(_)) if strict => {
                return Err(invalid("validating webhook may not return response.patchType"));
            }
            (WebhookType::Mutating, Some(_), None) if strict => {
                return Err(invalid("webhook returned response.patch but not response.patchType"));
            }
            (WebhookType::Mutating, None, Some(_)) if strict => {
                return Err(invalid("webhook returned response.patchType but not response.patch"));
            }
            (WebhookType::Mutating, _, Some("")) if strict => {
                return Err(invalid("webhook returned invalid response.patchType of \"\""));
            }
            _ => {}
        }
        let warnings = response
            .get("warnings")
            .and_then(Value::as_list)
            .into_iter()
            .flat_map(|list| list.iter());
        let annotations = response
            .get("auditAnnotations")
            .and_then(Value::as_map)
            .into_iter()
            .flat_map(|annotations| annotations.iter())
            .filter_map(|(key, value)| Some((key.to_string(), value.as_str()?.to_owned())));
        let allowed = response.get("allowed").and_then(Value::as_bool) == Some(true);
        let patch = patch.filter(|_| webhook_type == WebhookType::Mutating).map(|_| Patch {
            // The patch type of v1beta1 reviews was never checked.
            webhook_type: patch_type.filter(|_| strict).unwrap_or(JSON_PATCH).to_owned(),
            bytes: patch_bytes,
        });
        Ok(Self {
            allowed,
            status: response.get("status").filter(|status| !status.is_null()).cloned(),
            warnings: warnings.filter_map(|text| text.as_str().map(str::to_owned)).collect(),
            annotations: annotations.collect(),
            patch,
        })
    }
}

/// Checks that the values in the response have the types of their fields, and returns the bytes of the patch.
///
/// upstream: k8s.io/apiserver/pkg/admission/plugin/webhook/request#VerifyAdmissionResponse
fn check_types(review: &Value) -> Result<Vec<u8>, AnswerError> {
    let check = |of: Option<&Value>, owner: &str, path: &str, wanted: &str, go: &str| match of {
        Some(value) if !value.is_null() && value.json_kind() != wanted => Err(AnswerError::Unreadable(format!(
            "json: cannot unmarshal {} into Go struct field {owner}.{path} of type {go}",
            value.json_kind()
        ))),
        _ => Ok(()),
    };
    let response = review.get("response");
    check(
        response,
        "AdmissionReview",
        "response",
        "object",
        "v1.AdmissionResponse",
    )?;
    let field = |name: &str| response.and_then(|response| response.get(name));
    for (name, wanted, go) in RESPONSE {
        let path = format!("response.{name}");
        check(field(name), "AdmissionResponse", &path, wanted, go)?;
    }
    for (name, wanted, go) in [
        ("status", "string", "string"),
        ("message", "string", "string"),
        ("reason", "string", "v1.StatusReason"),
        ("code", "number", "int32"),
    ] {
        let path = format!("response.status.{name}");
        check(
            field("status").and_then(|status| status.get(name)),
            "Status",
            &path,
            wanted,
            go,
        )?;
    }
    let annotations = field("auditAnnotations").and_then(Value::as_map);
    for (_, value) in annotations.into_iter().flat_map(|annotations| annotations.iter()) {
        check(
            Some(value),
            "AdmissionResponse",
            "response.auditAnnotations",
            "string",
            "string",
        )?;
    }
    let warnings = field("warnings").and_then(Value::as_list);
    for warning in warnings.into_iter().flat_map(|warnings| warnings.iter()) {
        check(
            Some(warning),
            "AdmissionResponse",
            "response.warnings",
            "string",
            "string",
        )?;
    }
    decode_base64(field("patch").and_then(Value::as_str).unwrap_or_default())
        .map_err(|at| AnswerError::Unreadable(format!("illegal base64 data at input byte {at}")))
}

/// Fields of a response with the JSON and the Go types of their values.
const RESPONSE: [(&str, &str, &str); 7] = [
    ("uid", "string", "types.UID"),
    ("allowed", "bool", "bool"),
    ("status", "object", "v1.Status"),
    ("patch", "string", "[]uint8"),
    ("patchType", "string", "v1.PatchType"),
    ("auditAnnotations", "object", "map[string]string"),
    ("warnings", "array", "[]string"),
];

/// Checks the kind of a review. A review without a kind is treated as one of the version that was sent.
///
/// upstream: k8s.io/apiserver/pkg/admission/plugin/webhook/request#VerifyAdmissionResponse
fn check_kind(review: &Value, version: ReviewVersion) -> Result<(), AnswerError> {
    if review.as_map().is_none() {
        let why = "couldn't get version/kind; json parse error: json: cannot unmarshal into Go value of type struct";
        return Err(AnswerError::Unreadable(why.to_owned()));
    }
    let sent = format!("admission.k8s.io/{}", version.name());
    let text = |key: &str| review.str_at(&[key]).filter(|text| !text.is_empty());
    let (api_version, kind) = (
        text("apiVersion").unwrap_or(&sent),
        text("kind").unwrap_or("AdmissionReview"),
    );
    let known = api_version
        .strip_prefix("admission.k8s.io/")
        .and_then(ReviewVersion::named);
    match known.filter(|_| kind == "AdmissionReview") {
        Some(found) if found == version => Ok(()),
        Some(found) => Err(AnswerError::Unreadable(format!(
            "converting ({}.AdmissionReview) to ({}.AdmissionReview): unknown conversion",
            found.name(),
            version.name()
        ))),
        None if is_unversioned(api_version, kind) => Err(AnswerError::Unreadable(format!(
            "converting (v1.{kind}) to ({}.AdmissionReview): unknown conversion",
            version.name()
        ))),
        None => Err(AnswerError::Unreadable(format!(
            "no kind {kind:?} is registered for version {api_version:?} in scheme \"holdfast\""
        ))),
    }
}

/// Checks that a review of the current version declares its kind.
///
/// upstream: k8s.io/apiserver/pkg/admission/plugin/webhook/request#VerifyAdmissionResponse
fn check_written_kind(review: &Value) -> Result<(), AnswerError> {
    let text = |key: &str| review.str_at(&[key]).unwrap_or_default();
    let (api_version, kind) = (text("apiVersion"), text("kind"));
    if !api_version.is_empty() && !kind.is_empty() {
        return Ok(());
    }
    let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
    Err(AnswerError::Invalid(format!(
        "expected webhook response of admission.k8s.io/v1, Kind=AdmissionReview, got {group}/{version}, Kind={kind}"
    )))
}

impl Patch {
    /// Returns the operations as a tree, for the audit log.
    pub fn tree(&self) -> Option<Value> {
        json::parse(&self.bytes, &Limits::REQUEST).ok()
    }

    /// Returns the operations; `None` if there are none.
    ///
    /// # Errors
    /// If they cannot be decoded.
    pub fn operations(&self) -> Result<Option<json_patch::Patch>, AnswerError> {
        if self.bytes.len() > PATCH_BYTES {
            return Err(AnswerError::Patch(format!("it has more than {PATCH_BYTES} bytes")));
        }
        let limits = Limits::REQUEST;
        let reject = |error: holdfast_value::Error| AnswerError::Patch(error.to_string());
        let parsed = json::parse(&self.bytes, &limits).map_err(reject)?;
        if parsed.is_null() || parsed.as_list().is_some_and(|operations| operations.is_empty()) {
            return Ok(None);
        }
        let patch = json_patch::Patch::from_untyped(&parsed).map_err(reject)?;
        if self.webhook_type != JSON_PATCH {
            return Err(AnswerError::PatchType(self.webhook_type.clone()));
        }
        Ok(Some(patch))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str, webhook_type: WebhookType) -> Result<Answer, String> {
        Answer::read(text.as_bytes(), "u", ReviewVersion::V1, webhook_type).map_err(|error| error.to_string())
    }

    fn rejected(text: &str, webhook_type: WebhookType) -> String {
        read(text, webhook_type).unwrap_err()
    }

    #[test]
    fn answer_values_must_have_field_types() {
        let with = |field: &str| {
            let review = format!(
                r#"{{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview","response":{{"uid":"u",{field}}}}}"#
            );
            rejected(&review, WebhookType::Mutating)
        };
        for (field, why) in [
            (
                r#""allowed":"yes""#,
                "json: cannot unmarshal string into Go struct field AdmissionResponse.response.allowed of type bool",
            ),
            (
                r#""warnings":[1]"#,
                "json: cannot unmarshal number into Go struct field AdmissionResponse.response.warnings of type string",
            ),
            (
                r#""status":{"code":"x"}"#,
                "json: cannot unmarshal string into Go struct field Status.response.status.code of type int32",
            ),
            (r#""patch":"!!!""#, "illegal base64 data at input byte 0"),
        ] {
            assert_eq!(with(field), format!("failed to call webhook: {why}"));
        }
        assert_eq!(
            rejected(r#"{"apiVersion":"v1","kind":"Status"}"#, WebhookType::Mutating),
            "failed to call webhook: converting (v1.Status) to (v1.AdmissionReview): unknown conversion"
        );
    }

    #[test]
    fn an_answer_is_a_review_of_the_same_version_and_uid() {
        let review = |rest: &str| format!(r#"{{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview"{rest}}}"#);
        let fine = review(r#","response":{"uid":"u","allowed":true,"warnings":["w"],"auditAnnotations":{"k":"v"}}"#);
        let answer = read(&fine, WebhookType::Validating).unwrap();
        assert!(answer.allowed);
        assert_eq!(answer.warnings, ["w"]);
        assert_eq!(answer.annotations, [("k".to_owned(), "v".to_owned())]);
        assert_eq!(
            rejected(&review(r#","response":{"uid":"v"}"#), WebhookType::Validating),
            r#"received invalid webhook response: expected response.uid="u", got "v""#
        );
        assert_eq!(
            rejected("{}", WebhookType::Validating),
            "received invalid webhook response: webhook response was absent"
        );
        assert_eq!(
            rejected(
                r#"{"kind":"AdmissionReview","response":{"uid":"u"}}"#,
                WebhookType::Validating
            ),
            "received invalid webhook response: expected webhook response of admission.k8s.io/v1, Kind=AdmissionReview, got /, Kind=AdmissionReview"
        );
        assert_eq!(
            rejected(r#"{"apiVersion":"admission.k8s.io/v1beta1"}"#, WebhookType::Validating),
            "failed to call webhook: converting (v1beta1.AdmissionReview) to (v1.AdmissionReview): unknown conversion"
        );
        assert_eq!(
            rejected(
                r#"{"apiVersion":"admission.k8s.io/v1","kind":"Pod"}"#,
                WebhookType::Validating
            ),
            "failed to call webhook: no kind \"Pod\" is registered for version \"admission.k8s.io/v1\" in scheme \"holdfast\""
        );
    }

    #[test]
    fn older_reviews_are_read_with_less_care() {
        let answer =
            r#"{"response":{"allowed":true,"patch":"W3sib3AiOiJyZW1vdmUiLCJwYXRoIjoiL2EifV0=","patchType":"Odd"}}"#;
        let answer = Answer::read(answer.as_bytes(), "u", ReviewVersion::V1Beta1, WebhookType::Mutating).unwrap();
        assert!(answer.patch.unwrap().operations().unwrap().is_some());
    }

    #[test]
    fn a_patch_comes_with_its_type_and_from_mutating_webhooks_alone() {
        // [{"op":"remove","path":"/a"}]
        let patch = "W3sib3AiOiJyZW1vdmUiLCJwYXRoIjoiL2EifV0=";
        let response = |rest: &str| {
            format!(
                r#"{{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview","response":{{"uid":"u","allowed":true{rest}}}}}"#
            )
        };
        let patched = |rest: &str| {
            let answer = read(&response(rest), WebhookType::Mutating).unwrap();
            answer.patch.unwrap().operations().map_err(|error| error.to_string())
        };
        let with_type = format!(r#","patch":"{patch}","patchType":"JSONPatch""#);
        assert!(patched(&with_type).unwrap().is_some());
        assert_eq!(
            rejected(&response(&with_type), WebhookType::Validating),
            "received invalid webhook response: validating webhook may not return response.patch"
        );
        assert_eq!(
            rejected(&response(&format!(r#","patch":"{patch}""#)), WebhookType::Mutating),
            "received invalid webhook response: webhook returned response.patch but not response.patchType"
        );
        assert_eq!(
            rejected(&response(r#","patchType":"JSONPatch""#), WebhookType::Mutating),
            "received invalid webhook response: webhook returned response.patchType but not response.patch"
        );
        assert_eq!(
            patched(r#","patch":"bm90IGpzb24=","patchType":"JSONPatch""#).unwrap_err(),
            "received undecodable patch in webhook response: invalid character 'o' in literal null (expecting 'u')"
        );
        // {}
        assert_eq!(
            patched(r#","patch":"e30=","patchType":"JSONPatch""#).unwrap_err(),
            "received undecodable patch in webhook response: json: cannot unmarshal object into Go value of type jsonpatch.Patch"
        );
        assert!(patched(r#","patch":"W10=","patchType":"Other""#).unwrap().is_none());
        assert_eq!(
            patched(&format!(r#","patch":"{patch}","patchType":"Other""#)).unwrap_err(),
            "unsupported patch type \"Other\""
        );
    }
}
