//! Environment of the run of a write: the other objects, identifiers, and calls of webhooks.

use std::time::Duration;

use holdfast_admission::policies::Check;
use holdfast_admission::policies::conditions::ConditionCheck;
use holdfast_admission::webhooks::{Webhook, WebhookType};
use holdfast_resource::convert::Converted;
use holdfast_resource::{ConversionCaller, ConversionWebhook, Lookup, RawForm, Registry};
use holdfast_schema::Provenance;
use holdfast_value::Value;
use holdfast_writes::{
    Callers, ConditionOwner, Ending, Environment, ReadObserver, Services, Stage, StoredObject, Target, Unanswered,
    WebhookAnswer, WebhookCall,
};

use crate::http::ApiError;
use crate::metrics::{ConditionLabels, WebhookLabels};
use crate::objects::lookup::SnapshotLookup;
use crate::objects::{self, Entry, Index, Snapshot};
use crate::runtime::webhook_time;
use crate::webhooks::CallError;
use crate::write::Context;

/// The code of a webhook that could not be called.
const UNAVAILABLE: u16 = 503;

/// Returns the other objects as a run over `snapshot` sees them.
pub(super) fn lookup<'a>(context: &'a Context, registry: &'a Registry, snapshot: &'a Snapshot) -> SnapshotLookup<'a> {
    SnapshotLookup {
        registry,
        snapshot,
        trees: &context.trees,
        failing: context.shared.store.is_failing(),
    }
}

/// Creates a run of a write to `target` that reads the other objects through `lookup`.
pub(super) fn stage<'a>(context: &'a Context, target: &'a Target, lookup: &'a SnapshotLookup<'a>) -> Stage<'a> {
    Stage::new(Environment::new(services(context, lookup)), target)
}

/// Creates a run as [`stage`] does, whose reads `observer` records.
pub(super) fn observed_stage<'a>(
    context: &'a Context,
    target: &'a Target,
    lookup: &'a SnapshotLookup<'a>,
    observer: &'a dyn ReadObserver,
) -> Stage<'a> {
    Stage::new(Environment::observed(services(context, lookup), observer), target)
}

/// Returns the existing object in the form that a run needs.
///
/// # Errors
/// If it cannot be read (500).
pub(super) fn stored_object(target: &Target, stored: &Entry) -> Result<StoredObject, ApiError> {
    // The first access to the bytes keeps them unpacked for the following ones.
    let raw_form = RawForm::from_suffix(stored.bytes());
    let mut object = objects::tree_or_rejection(stored)?;
    if let Some(raw) = target.resource.capabilities.raw
        && raw_form != RawForm::Marshalled
    {
        raw.keep_stored_texts(&mut object, stored.bytes());
    }
    let facts = stored.known_index().map(Index::facts).unwrap_or_default();
    let mut provenance = Provenance::from_store(facts);
    if objects::serves_stored_bytes(&target.resource, &target.api_version, stored) {
        provenance = provenance.in_requested_form();
    }
    if stored.create_revision() == stored.mod_revision() {
        provenance = provenance.as_created();
    }
    Ok(StoredObject {
        object,
        provenance,
        raw_form,
    })
}

fn services<'a>(context: &'a Context, lookup: &'a dyn Lookup) -> Services<'a> {
    Services {
        field_managers: &context.field_managers,
        plugins: &context.admission,
        policies: &context.shared.policies,
        webhooks: context.webhooks.configured(),
        authorizer: &context.shared.authorizer,
        access: context.access(),
        identifiers: context.shared.identifiers.as_ref(),
        lookup,
        callers: context,
    }
}

impl ConversionCaller for Context {
    fn convert<'a>(
        &'a self,
        webhook: &'a ConversionWebhook,
        objects: &'a [Value],
        api_version: &'a str,
    ) -> Converted<'a> {
        self.representation.convert(webhook, objects, api_version)
    }
}

impl Callers for Context {
    fn call<'a>(
        &'a self,
        webhook_type: WebhookType,
        webhook: &'a Webhook,
        review: Vec<u8>,
        timeout: Duration,
    ) -> WebhookAnswer<'a> {
        Box::pin(async move {
            let answer = self.webhooks.call(webhook_type, webhook, review, timeout).await;
            answer.map_err(|error| match error {
                CallError::Unusable(why) => Unanswered {
                    code: UNAVAILABLE,
                    why: format!("could not get REST client: {why}"),
                },
                CallError::Failed { code, why } => Unanswered {
                    code,
                    why: format!("failed to call webhook: {why}"),
                },
            })
        })
    }

    fn called(&self, call: WebhookCall<'_>, ending: Ending) {
        let labels = WebhookLabels {
            name: call.name,
            webhook_type: match call.webhook_type {
                WebhookType::Mutating => "admit",
                WebhookType::Validating => "validating",
            },
            operation: call.operation,
        };
        let counters = self.shared.metrics.webhooks();
        let error = match ending {
            Ending::Passed => None,
            Ending::FailedOpen => {
                counters.failed_open(labels);
                None
            }
            Ending::Refused => Some("no_error"),
            Ending::Unanswered => Some("calling_webhook_error"),
            Ending::Failed => Some("apiserver_internal_error"),
        };
        if let Some(error) = error {
            counters.rejected(labels, error, call.code);
        }
        counters.called(labels, call.taken, call.code, error.is_some());
        webhook_time::record(call.webhook_type == WebhookType::Mutating, call.taken);
    }

    fn evaluated(&self, webhook_type: WebhookType, check: &Check) {
        let counters = self.shared.metrics.policies();
        match webhook_type {
            WebhookType::Mutating => counters.mutated(check),
            WebhookType::Validating => counters.validated(check),
        }
    }

    fn matched(&self, owner: ConditionOwner, operation: &str, check: &ConditionCheck) {
        let (kind, admission_type) = match owner {
            // The reference labels policies that change objects the same way.
            ConditionOwner::Policy => ("policy", "validate"),
            ConditionOwner::Webhook(WebhookType::Mutating) => ("webhook", "admit"),
            ConditionOwner::Webhook(WebhookType::Validating) => ("webhook", "validating"),
        };
        let labels = ConditionLabels {
            kind,
            admission_type,
            operation,
        };
        self.shared.metrics.conditions().evaluated(labels, check);
    }

    fn excluded(&self, webhook_type: WebhookType, operation: &str, webhook: &str) {
        let labels = ConditionLabels {
            kind: "webhook",
            admission_type: match webhook_type {
                WebhookType::Mutating => "admit",
                // An evaluation counts as `validating`.
                WebhookType::Validating => "validate",
            },
            operation,
        };
        self.shared.metrics.conditions().excluded(labels, webhook);
    }
}

#[cfg(test)]
mod tests {
    use http_body_util::BodyExt as _;

    use super::super::testing::{CONFIG, World};
    use super::*;

    #[tokio::test]
    async fn calls_of_webhooks_are_counted_by_how_they_ended() {
        let world = World::new();
        for ending in [
            Ending::Passed,
            Ending::FailedOpen,
            Ending::Refused,
            Ending::Unanswered,
            Ending::Failed,
        ] {
            let call = WebhookCall {
                name: "a.b.c",
                webhook_type: WebhookType::Mutating,
                operation: "CREATE",
                taken: Duration::ZERO,
                code: 400,
            };
            world.context.called(call, ending);
        }
        let page = world
            .context
            .shared
            .metrics
            .respond(&Default::default(), None)
            .ok()
            .unwrap();
        let bytes = page.into_body().collect().await.ok().unwrap().to_bytes();
        let text = String::from_utf8(bytes.to_vec()).unwrap();
        let labels = "name=\"a.b.c\",operation=\"CREATE\"";
        for line in [
            format!("request_total{{code=\"400\",{labels},rejected=\"false\",type=\"admit\"}} 2"),
            format!("request_total{{code=\"400\",{labels},rejected=\"true\",type=\"admit\"}} 3"),
            format!("rejection_count{{error_type=\"no_error\",{labels},rejection_code=\"400\",type=\"admit\"}} 1"),
            format!(
                "rejection_count{{error_type=\"calling_webhook_error\",{labels},rejection_code=\"400\",type=\"admit\"}} 1"
            ),
            format!(
                "rejection_count{{error_type=\"apiserver_internal_error\",{labels},rejection_code=\"400\",type=\"admit\"}} \
                 1"
            ),
            "fail_open_count{name=\"a.b.c\",type=\"admit\"} 1".to_owned(),
        ] {
            assert!(text.contains(&line), "{line}");
        }
    }

    #[tokio::test]
    async fn existing_object_is_served_as_stored_only_in_storage_version() {
        const SCALER: &str = "{apiVersion: autoscaling/v2, kind: HorizontalPodAutoscaler, metadata: {name: a}, spec: \
                              {maxReplicas: 1, scaleTargetRef: {kind: Deployment, name: d, apiVersion: apps/v1}}}";
        let world = World::new();
        let (config, scaler) = (world.create(CONFIG).await, world.create(SCALER).await);
        let as_stored = |text: &str, entry| {
            let existing = stored_object(&world.target(text, ""), entry).ok().unwrap();
            existing.provenance.is_in_requested_form()
        };
        assert!(as_stored(CONFIG, &config) && as_stored(SCALER, &scaler));
        assert!(!as_stored(&SCALER.replace("autoscaling/v2", "autoscaling/v1"), &scaler));
    }
}
