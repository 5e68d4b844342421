//! Asking one webhook about a write, and what becomes of its answer.

use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant};

use holdfast_admission::webhooks::answer::{Answer, AnswerError, Patch};
use holdfast_admission::webhooks::matching::Invocation;
use holdfast_admission::webhooks::review::Review;
use holdfast_admission::webhooks::{Sort, Webhook};
use holdfast_ownership::check_managed_fields;
use holdfast_resource::KindType;
use holdfast_resource::metadata::validate_managed_fields;
use holdfast_value::{Value, json_patch};

use super::decode::{self, Unconvertible};
use super::outcome::Call;
use super::pipeline::Pipeline;
use super::webhooks::Asked;
use crate::http::ApiError;
use crate::http::status::Aggregate;
use crate::metrics;
use crate::representation::conversion;
use crate::webhooks::{CallError, rejection};

/// Why a webhook does not let a write pass.
pub(super) enum Fault {
    /// It gave no answer that counts: its failure policy decides.
    Unanswered {
        /// The code of what was answered instead.
        code: u16,
        why: String,
    },
    /// It refuses.
    Refused(ApiError),
    /// What it wants cannot be done.
    Failed(ApiError),
}

impl Fault {
    fn unanswered(error: &AnswerError) -> Self {
        Self::Unanswered {
            code: UNAVAILABLE,
            why: error.to_string(),
        }
    }

    fn failed(why: impl fmt::Display) -> Self {
        Self::Failed(ApiError::internal(why.to_string()))
    }
}

const UNAVAILABLE: u16 = 503;

/// What is told of a mutating webhook that spoils who owns what.
const SPOILT_MANAGERS: &str = ".metadata.managedFields was in an invalid state after admission; this could be caused by an \
                               outdated mutating admission controller; please fix your requests";

impl Pipeline<'_> {
    /// Asks a webhook that may change an object. Says whether it did.
    pub(super) async fn ask_mutating(
        &self,
        (webhook, invocation): (&Webhook, &Invocation),
        asked: &Asked<'_>,
        object: Option<&mut Value>,
        old: Option<&Value>,
        warnings: &mut Vec<String>,
    ) -> Result<bool, Fault> {
        let question = self.ask((webhook, invocation), asked, object.as_deref(), old, Sort::Mutating);
        let patch = passed(question.await?, webhook, warnings)?;
        let operations = patch.as_ref().map(Patch::operations).transpose();
        let operations = operations.map_err(|error| Fault::unanswered(&error))?.flatten();
        match (operations, object) {
            (None, _) => Ok(false),
            (Some(operations), Some(object)) => self.patch(invocation, object, &operations).await,
            (Some(_), None) => Err(Fault::failed(format_args!(
                "admission webhook {:?} attempted to modify the object, which is not supported for this operation",
                webhook.name.as_str()
            ))),
        }
    }

    /// Asks a webhook that may refuse a write.
    pub(super) async fn ask_validating(
        &self,
        (webhook, invocation): (&Webhook, &Invocation),
        asked: &Asked<'_>,
        object: Option<&Value>,
        old: Option<&Value>,
        warnings: &mut Vec<String>,
    ) -> Result<(), Fault> {
        let question = self.ask((webhook, invocation), asked, object, old, Sort::Validating);
        passed(question.await?, webhook, warnings).map(drop)
    }

    /// Counts how a webhook ended that was asked at `started`, and lets the write go on without its answer where it says so.
    ///
    /// # Errors
    /// What the client is to be told of a refusal.
    pub(super) fn decide<T: Default>(
        &self,
        webhook: &Webhook,
        asked: &Asked<'_>,
        sort: Sort,
        started: Instant,
        outcome: Result<T, Fault>,
    ) -> Result<T, ApiError> {
        let counted = metrics::AskedWebhook {
            name: &webhook.name,
            sort: match sort {
                Sort::Mutating => "admit",
                Sort::Validating => "validating",
            },
            operation: asked.operation,
        };
        let (taken, counters) = (started.elapsed(), self.context.metrics.webhooks());
        let (code, kind, error) = match outcome {
            Ok(value) => {
                counters.called(counted, taken, 200, false);
                return Ok(value);
            }
            Err(Fault::Unanswered { code, why }) if webhook.fails_open => {
                tracing::warn!(webhook = %webhook.name, why, "a webhook could not be asked; the write goes on");
                counters.called(counted, taken, code, false);
                counters.failed_open(counted);
                // Where the request itself ran out of time, no policy lets it go on.
                return self.target.check_deadline().map(|()| T::default());
            }
            Err(Fault::Unanswered { code, why }) => {
                tracing::warn!(webhook = %webhook.name, why, "a webhook could not be asked; the write is refused");
                let message = format!("failed calling webhook {:?}: {why}", webhook.name.as_str());
                let error = self.target.check_deadline().err();
                let error = error.unwrap_or_else(|| ApiError::internal(message));
                (code, "calling_webhook_error", error)
            }
            Err(Fault::Refused(error)) => (error.code().as_u16(), "no_error", error),
            Err(Fault::Failed(error)) => (0, "apiserver_internal_error", error),
        };
        counters.rejected(counted, kind, code);
        counters.called(counted, taken, code, true);
        Err(error)
    }

    async fn ask(
        &self,
        (webhook, invocation): (&Webhook, &Invocation),
        asked: &Asked<'_>,
        object: Option<&Value>,
        old: Option<&Value>,
        sort: Sort,
    ) -> Result<Answer, Fault> {
        let version = invocation.kind.group_version.api_version();
        let object = self.in_version(object, &version).await.map_err(Fault::Failed)?;
        let old = self.in_version(old, &version).await.map_err(Fault::Failed)?;
        let uid = self.context.identifiers.uid();
        let (resource, target) = (self.resource(), self.target);
        let review = Review {
            uid: &uid,
            invocation,
            request_kind: &self.body_kind(),
            request_version: &self.address(),
            request_resource: &resource.plural,
            subresource: &target.subresource,
            name: asked.name,
            namespace: self.review_namespace(asked.name),
            operation: asked.operation,
            user: &target.user,
            object: object.as_ref(),
            old_object: old.as_ref(),
            dry_run: target.dry_run,
            options: asked.options(),
        };
        let review = review.encode(webhook.review_version);
        let client = self.context.webhooks.client();
        let answer = client.call(&webhook.client, review, self.time_for(webhook)).await;
        let bytes = answer.map_err(|error| match error {
            CallError::Unusable(why) => Fault::Unanswered {
                code: UNAVAILABLE,
                why: format!("could not get REST client: {why}"),
            },
            CallError::Failed { code, why } => Fault::Unanswered {
                code,
                why: format!("failed to call webhook: {why}"),
            },
        })?;
        Answer::read(&bytes, &uid, webhook.review_version, sort).map_err(|error| Fault::unanswered(&error))
    }

    /// How long the webhook may take: no longer than the request has left.
    fn time_for(&self, webhook: &Webhook) -> Duration {
        let left = self
            .target
            .deadline
            .map(|deadline| deadline.saturating_duration_since(Instant::now()));
        left.map_or(webhook.timeout, |left| left.min(webhook.timeout))
    }

    async fn in_version(&self, object: Option<&Value>, api_version: &str) -> Result<Option<Value>, ApiError> {
        let Some(object) = object else { return Ok(None) };
        if object.str_at(&["apiVersion"]) == Some(api_version) {
            return Ok(Some(object.clone()));
        }
        let converted = conversion::convert(
            &self.context.representation,
            self.resource(),
            object.clone(),
            api_version,
        );
        converted.await.map(Some)
    }

    /// Changes the object as a webhook says that heard of it as `invocation`. Says whether anything is otherwise now.
    async fn patch(
        &self,
        invocation: &Invocation,
        object: &mut Value,
        operations: &json_patch::Patch,
    ) -> Result<bool, Fault> {
        let own = object.str_at(&["apiVersion"]).unwrap_or_default().to_owned();
        let version = invocation.kind.group_version.api_version();
        let before = self.in_version(Some(object), &version).await.map_err(Fault::Failed)?;
        let before = before.unwrap_or_default();
        let patched = operations.apply(&before, &json_patch::Bounds::default());
        let mut patched = patched.map_err(Fault::failed)?;
        let types = self.context.field_managers.types();
        let expected = types.of_body(&self.target.shown.resource, &version, &invocation.kind.kind);
        let kind_type = match expected {
            Some(expected) => Some(self.patched_type(&mut patched, expected)?),
            None => None,
        };
        let (changed, after) = match kind_type {
            Some(kind_type) => {
                let typed = kind_type.decode(&patched).map_err(Fault::failed)?;
                let changed = typed.object != before;
                let filled = kind_type.fill_in(typed.object);
                let filled = filled.map_err(|error| Fault::Failed(ApiError::too_large_because(error)))?;
                (changed, filled)
            }
            None => (patched != before, patched),
        };
        let after = self.in_version(Some(&after), &own).await.map_err(Fault::Failed)?;
        *object = after.unwrap_or_default();
        Ok(changed)
    }

    /// The type of what a webhook made of an object of `expected`, which may be another version of its kind.
    fn patched_type(&self, patched: &mut Value, expected: Arc<dyn KindType>) -> Result<Arc<dyn KindType>, Fault> {
        let types = self.context.field_managers.types();
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
            let resource = &self.target.shown.resource;
            let served = resource.versions.iter().any(|known| known.api_version == version);
            if let Some(other) = served
                .then(|| types.of_body(resource, version, expected.kind()))
                .flatten()
            {
                return Ok(other);
            }
        }
        match decode::check_converted(patched, types, expected.as_ref()) {
            Ok(()) => Ok(expected),
            Err(Unconvertible::Unknown(why)) => Err(Fault::failed(why)),
            Err(Unconvertible::Other(why)) => Err(Fault::Failed(ApiError::unclassified(why))),
        }
    }

    /// Takes back what webhooks made of who owns what, where that cannot be read any more; `before` is what it was.
    pub(super) fn keep_managers(&self, call: &Call<'_>, object: &mut Value, before: Option<&Value>) {
        const PATH: [&str; 2] = ["metadata", "managedFields"];
        if object.at(&PATH) == before {
            return;
        }
        let faults = validate_managed_fields(object);
        let why = if faults.is_empty() {
            check_managed_fields(object).err().map(|error| error.to_string())
        } else {
            Some(Aggregate(&faults).to_string())
        };
        let Some(why) = why else { return };
        match before {
            Some(before) => object.set_at(&PATH, before.clone()),
            None => drop(object.remove_at(&PATH)),
        }
        call.warn(format!("{SPOILT_MANAGERS}: {why}"));
    }
}

/// What is to be changed, where `answer` lets the write go on.
fn passed(answer: Answer, webhook: &Webhook, warnings: &mut Vec<String>) -> Result<Option<Patch>, Fault> {
    warnings.extend(answer.warnings);
    if answer.allowed {
        return Ok(answer.patch);
    }
    Err(Fault::Refused(rejection(&webhook.name, answer.status.as_ref())))
}
