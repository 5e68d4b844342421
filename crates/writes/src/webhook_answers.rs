//! The call of one webhook for a write, and the handling of its response.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use holdfast_admission::webhooks::answer::{Answer, AnswerError, Patch};
use holdfast_admission::webhooks::matching::Invocation;
use holdfast_admission::webhooks::review::Review;
use holdfast_admission::webhooks::{Webhook, WebhookType};
use holdfast_ownership::check_managed_fields;
use holdfast_resource::{AuditAnnotations, convert};
use holdfast_schema::metadata::formats::qualified_name;
use holdfast_schema::metadata::validate_managed_fields;
use holdfast_schema::{Aggregate, Field, KindType};
use holdfast_value::{SmolStr, Value, json, json_patch};
use tokio::time::Instant;

use crate::attributes::Attributes;
use crate::call::Call;
use crate::environment::{Ending, Unanswered, WebhookCall};
use crate::error::{Error, ErrorKind};
use crate::stage::Stage;
use crate::typed::{self, Unconvertible};
use crate::webhooks::{CallRecord, MatchedWebhook};

/// Reason for which a webhook does not admit a write.
pub(crate) enum Fault {
    /// The call failed: the failure policy of the webhook decides.
    Unanswered(Unanswered),
    /// It rejects the write.
    Refused { code: u16, error: Error },
    /// Its patch cannot be applied.
    Failed(Error),
}

impl Fault {
    fn unanswered(error: &AnswerError) -> Self {
        Self::Unanswered(Unanswered {
            code: UNAVAILABLE,
            why: error.to_string(),
        })
    }

    fn failed(why: impl fmt::Display) -> Self {
        Self::Failed(Error::internal(why.to_string()))
    }
}

const UNAVAILABLE: u16 = 503;

const BAD_REQUEST: u16 = 400;

/// The warning about a mutating webhook that breaks managed fields.
const SPOILT_MANAGERS: &str = ".metadata.managedFields was in an invalid state after admission; this could be caused by an \
                               outdated mutating admission controller; please fix your requests";

impl Stage<'_> {
    /// Calls a webhook that may change an object. Returns whether it did.
    ///
    /// upstream: k8s.io/apiserver/pkg/admission/plugin/webhook/mutating#mutatingDispatcher.callAttrMutatingHook
    pub(crate) async fn ask_mutating(
        &self,
        matched: MatchedWebhook<'_>,
        record: &CallRecord,
        attributes: &Attributes<'_>,
        object: Option<&mut Value>,
        old: Option<&Value>,
        warnings: &mut Vec<String>,
    ) -> Result<bool, Fault> {
        let MatchedWebhook { webhook, invocation } = matched;
        let question = self.ask(matched, attributes, object.as_deref(), old, WebhookType::Mutating);
        let patch = self.passed(question.await?, webhook, warnings)?;
        let operations = patch.as_ref().map(Patch::operations).transpose();
        match (operations.map_err(|error| Fault::unanswered(&error))?.flatten(), object) {
            (None, _) => Ok(false),
            (Some(operations), Some(object)) => {
                let changed = self.patch(invocation, object, &operations).await?;
                self.annotate_patch(webhook, record, patch.as_ref());
                Ok(changed)
            }
            (Some(_), None) => Err(Fault::failed(format_args!(
                "admission webhook {:?} attempted to modify the object, which is not supported for this operation",
                webhook.name.as_str()
            ))),
        }
    }

    /// Calls a webhook that may reject a write.
    ///
    /// upstream: k8s.io/apiserver/pkg/admission/plugin/webhook/validating#validatingDispatcher.callHook
    pub(crate) async fn ask_validating(
        &self,
        matched: MatchedWebhook<'_>,
        attributes: &Attributes<'_>,
        object: Option<&Value>,
        old: Option<&Value>,
        warnings: &mut Vec<String>,
    ) -> Result<(), Fault> {
        let question = self.ask(matched, attributes, object, old, WebhookType::Validating);
        self.passed(question.await?, matched.webhook, warnings).map(drop)
    }

    /// Counts the call of a webhook, and applies its failure policy.
    ///
    /// # Errors
    /// If the write is rejected; returns the error for the client.
    pub(crate) fn decide<T: Default>(
        &self,
        webhook: &Webhook,
        attributes: &Attributes<'_>,
        record: &CallRecord,
        outcome: Result<T, Fault>,
    ) -> Result<T, Error> {
        let callers = self.environment.callers();
        let called = |code, ending| {
            let (name, operation, taken) = (webhook.name.as_str(), attributes.operation, record.started.elapsed());
            if let Some(audit) = self.target.audit() {
                audit.webhook_took(record.webhook_type == WebhookType::Mutating, taken);
            }
            let call = WebhookCall {
                name,
                webhook_type: record.webhook_type,
                operation,
                taken,
                code,
            };
            callers.called(call, ending);
        };
        let detail = match outcome {
            Ok(value) => {
                called(200, Ending::Passed);
                return Ok(value);
            }
            Err(detail) => detail,
        };
        match detail {
            Fault::Unanswered(Unanswered { code, why }) if webhook.fails_open => {
                tracing::warn!(webhook = %webhook.name, why, "a webhook could not be called; the write continues");
                called(code, Ending::FailedOpen);
                let prefix = match record.webhook_type {
                    WebhookType::Mutating => "failed-open.mutation.webhook.admission.k8s.io",
                    WebhookType::Validating => "failed-open.validating.webhook.admission.k8s.io",
                };
                self.annotate(&record.key(prefix), || webhook.name.to_string());
                // If the request itself timed out, it fails with any failure policy.
                self.target.check_deadline().map(|()| T::default())
            }
            Fault::Unanswered(Unanswered { code, why }) => {
                tracing::warn!(webhook = %webhook.name, why, "a webhook could not be called; the write is rejected");
                called(code, Ending::Unanswered);
                let message = format!("failed calling webhook {:?}: {why}", webhook.name.as_str());
                let error = self.target.check_deadline().err();
                Err(error.unwrap_or_else(|| Error::internal(message)))
            }
            Fault::Refused { code, error } => {
                called(code, Ending::Refused);
                Err(error)
            }
            Fault::Failed(error) => {
                called(0, Ending::Failed);
                Err(error)
            }
        }
    }

    async fn ask(
        &self,
        matched: MatchedWebhook<'_>,
        attributes: &Attributes<'_>,
        object: Option<&Value>,
        old: Option<&Value>,
        webhook_type: WebhookType,
    ) -> Result<Answer, Fault> {
        let MatchedWebhook { webhook, invocation } = matched;
        let version = invocation.kind.group_version.api_version();
        let object = self.in_version(object, &version).await.map_err(Fault::Failed)?;
        let old = self.in_version(old, &version).await.map_err(Fault::Failed)?;
        let uid = self.environment.identifiers().uid();
        let (resource, target) = (self.resource(), self.target);
        let question = Review {
            uid: &uid,
            invocation,
            request_kind: &self.body_kind(),
            request_version: &self.address_version(),
            request_resource: &resource.plural,
            subresource: &target.subresource,
            name: attributes.name,
            namespace: self.review_namespace(attributes.name),
            operation: attributes.operation,
            user: &target.writer.user,
            object: object.as_ref(),
            old_object: old.as_ref(),
            dry_run: target.request.dry_run,
            options: attributes.options(),
        };
        let review = question.encode(webhook.review_version);
        let answer = self
            .environment
            .callers()
            .call(webhook_type, webhook, review, self.time_for(webhook));
        let bytes = answer.await.map_err(Fault::Unanswered)?;
        Answer::read(&bytes, &uid, webhook.review_version, webhook_type).map_err(|error| Fault::unanswered(&error))
    }

    /// Returns the time limit for the webhook: at most the time that the request has left.
    fn time_for(&self, webhook: &Webhook) -> Duration {
        let left = self
            .target
            .request
            .deadline
            .map(|deadline| deadline.saturating_duration_since(Instant::now()));
        left.map_or(webhook.timeout, |left| left.min(webhook.timeout))
    }

    async fn in_version(&self, object: Option<&Value>, api_version: &str) -> Result<Option<Value>, Error> {
        let Some(object) = object else { return Ok(None) };
        if object.str_at(&["apiVersion"]) == Some(api_version) {
            return Ok(Some(object.clone()));
        }
        let callers = self.environment.callers();
        let converted = convert::convert(callers, self.resource(), object.clone(), api_version).await?;
        Ok(Some(converted))
    }

    /// Applies the patch in the response to `invocation`. Returns true if the object changed.
    async fn patch(
        &self,
        invocation: &Invocation,
        object: &mut Value,
        operations: &json_patch::Patch,
    ) -> Result<bool, Fault> {
        let own = object.str_at(&["apiVersion"]).unwrap_or_default().to_owned();
        let version = invocation.kind.group_version.api_version();
        let before = self
            .in_version(Some(object), &version)
            .await
            .map_err(Fault::Failed)?
            .unwrap_or_default();
        let mut patched = operations
            .apply(&before, &json_patch::Bounds::default())
            .map_err(Fault::failed)?;
        let types = self.environment.field_managers().types();
        let expected = self.target.resource.body_type(types, &version, &invocation.kind.kind);
        let kind_type = match expected {
            Some(expected) => Some(self.patched_type(&mut patched, expected)?),
            None => None,
        };
        let (changed, after) = match kind_type {
            Some(kind_type) => {
                let typed = kind_type.decode(&patched).map_err(Fault::failed)?;
                let changed = typed.object != before;
                let filled = kind_type
                    .fill_in(typed.object)
                    .map_err(|error| Fault::Failed(Error::too_large_because(error)))?;
                (changed, filled)
            }
            None => (patched != before, patched),
        };
        let after = self.in_version(Some(&after), &own).await.map_err(Fault::Failed)?;
        *object = after.unwrap_or_default();
        Ok(changed)
    }

    /// Returns the type of an object of `expected` after a webhook patched it, which may be another version of its
    /// kind.
    fn patched_type(&self, patched: &mut Value, expected: Arc<dyn KindType>) -> Result<Arc<dyn KindType>, Fault> {
        let types = self.environment.field_managers().types();
        if expected.conventions().states_identity && patched.str_at(&["kind"]).unwrap_or_default().is_empty() {
            return Err(Fault::failed(format_args!("Object 'Kind' is missing in '{patched}'")));
        }
        for (name, own) in [("apiVersion", expected.api_version()), ("kind", expected.kind())] {
            if patched.str_at(&[name]).unwrap_or_default().is_empty() {
                patched.set_at(&[name], own.into());
            }
        }
        let version = patched.str_at(&["apiVersion"]).unwrap_or_default();
        if version != expected.api_version() && expected.kind() == patched.str_at(&["kind"]).unwrap_or_default() {
            let resource = &self.target.resource;
            let served = resource.versions.iter().any(|known| known.api_version == version);
            if let Some(other) = served
                .then(|| resource.body_type(types, version, expected.kind()))
                .flatten()
            {
                return Ok(other);
            }
        }
        match typed::check_converted(patched, types, expected.as_ref()) {
            Ok(()) => Ok(expected),
            Err(Unconvertible::Unknown(why)) => Err(Fault::failed(why)),
            Err(Unconvertible::Other(why)) => Err(Fault::Failed(Error::unclassified(why))),
        }
    }

    /// Restores the managed fields `before` if webhooks set some that cannot be decoded.
    pub(crate) fn keep_managers(&self, call: &Call<'_>, object: &mut Value, before: Option<&Value>) {
        const PATH: [&str; 2] = ["metadata", "managedFields"];
        if object.at(&PATH) == before {
            return;
        }
        let details = validate_managed_fields(object);
        let why = if details.is_empty() {
            check_managed_fields(object).err().map(|error| error.to_string())
        } else {
            Some(Aggregate(&details).to_string())
        };
        let Some(why) = why else { return };
        match before {
            Some(before) => object.set_at(&PATH, before.clone()),
            None => drop(object.remove_at(&PATH)),
        }
        call.warn(format!("{SPOILT_MANAGERS}: {why}"));
    }
}

impl Stage<'_> {
    /// Returns the patch in `answer` if it admits the write.
    fn passed(&self, answer: Answer, webhook: &Webhook, warnings: &mut Vec<String>) -> Result<Option<Patch>, Fault> {
        for (key, value) in answer.annotations {
            self.annotate(&format!("{}/{key}", webhook.name), || value);
        }
        warnings.extend(answer.warnings);
        if answer.allowed {
            return Ok(answer.patch);
        }
        let (code, error) = rejection(&webhook.name, answer.status.as_ref());
        Err(Fault::Refused { code, error })
    }

    /// Adds an audit annotation to the write, on behalf of admission. A key that is not a qualified name is dropped, as
    /// in the reference.
    pub(crate) fn annotate(&self, key: &str, value: impl FnOnce() -> String) {
        let Some(audit) = self.target.audit() else { return };
        if key.contains('/') && qualified_name(key).is_empty() {
            audit.annotate(key, value());
        } else {
            tracing::warn!(key, "the audit event rejects this annotation");
        }
    }

    /// Adds the audit annotation that tells if a webhook changed the object.
    pub(crate) fn annotate_mutation(&self, webhook: &Webhook, record: &CallRecord, mutated: bool) {
        self.annotate(&record.key("mutation.webhook.admission.k8s.io"), || {
            format!("{},\"mutated\":{mutated}}}", identity(webhook))
        });
    }

    /// Adds the audit annotation with a webhook's patch, if the audit log contains bodies.
    fn annotate_patch(&self, webhook: &Webhook, record: &CallRecord, patch: Option<&Patch>) {
        if !self.target.audit().is_some_and(AuditAnnotations::records_bodies) {
            return;
        }
        let Some(operations) = patch.and_then(Patch::tree) else {
            return;
        };
        self.annotate(&record.key("patch.webhook.admission.k8s.io"), || {
            let operations = json::to_string(&operations);
            format!(
                "{},\"patch\":{operations},\"patchType\":\"JSONPatch\"}}",
                identity(webhook)
            )
        });
    }
}

/// Returns the beginning of an annotation about a webhook.
fn identity(webhook: &Webhook) -> String {
    let text = |text: &str| json::to_string(&Value::from(text));
    let (configuration, name) = (text(&webhook.configuration), text(&webhook.name));
    format!("{{\"configuration\":{configuration},\"webhook\":{name}")
}

/// Returns the rejection by the webhook of that name, with the `Status` that it returned, if any; and its code.
///
/// upstream: k8s.io/apiserver/pkg/admission/plugin/webhook/errors#ToStatusErr
fn rejection(webhook: &str, status: Option<&Value>) -> (u16, Error) {
    let root = Field::placed(status, "");
    let number = root.child("code").number().unwrap_or_default();
    let code = u16::try_from(number)
        .ok()
        .filter(|number| (400..=999).contains(number))
        .unwrap_or(BAD_REQUEST);
    let text = |name: &str| root.child(name).text();
    let denied = format!("admission webhook {webhook:?} denied the request");
    let message = match (text("message"), text("reason")) {
        ("", "") => format!("{denied} without explanation"),
        ("", reason) => format!("{denied}: {reason}"),
        (message, _) => format!("{denied}: {message}"),
    };
    let details = root.child("details");
    let rejected = ErrorKind::Rejected {
        code,
        reason: SmolStr::new(text("reason")),
        message,
        details: details.value().filter(|_| details.is_set()).cloned(),
    };
    (code, rejected.into())
}

#[cfg(test)]
mod tests {
    use holdfast_value::{Limits, json};

    use super::*;

    fn rejected(status: Option<&str>) -> (u16, String, String) {
        let status = status.map(|text| json::parse(text.as_bytes(), &Limits::TRUSTED).unwrap());
        match rejection("a.b.c", status.as_ref()).1.into_parts().0 {
            ErrorKind::Rejected {
                code, reason, message, ..
            } => (code, reason.to_string(), message),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_rejection_has_the_code_and_the_words_of_the_webhook() {
        let denied = "admission webhook \"a.b.c\" denied the request";
        assert_eq!(rejected(None).2, format!("{denied} without explanation"));
        let odd = rejected(Some(r#"{"code":422,"reason":"Invalid","message":"odd"}"#));
        assert_eq!(odd, (422, "Invalid".to_owned(), format!("{denied}: odd")));
        let reason = rejected(Some(r#"{"status":"Success","code":200,"reason":"Conflict"}"#));
        assert_eq!(reason, (400, "Conflict".to_owned(), format!("{denied}: Conflict")));
    }
}
