//! Effects of the responses of admission webhooks on a write.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use holdfast_admission::policies::Check;
use holdfast_admission::policies::conditions::ConditionCheck;
use holdfast_admission::webhooks::{Webhook, WebhookType};
use holdfast_resource::convert::Converted;
use holdfast_resource::{ConversionCaller, ConversionWebhook};
use parking_lot::Mutex;

use super::*;
use crate::environment::{Callers, ConditionOwner, Ending, Unanswered, WebhookAnswer, WebhookCall};
use crate::testing::Unreachable;

/// Webhook client that selects the response by the address of the webhook: the path after `https://localhost/` is the
/// index of a response.
#[derive(Default)]
struct Hooks {
    answers: Vec<String>,
    /// The names of the webhooks as they were called, and how the calls ended.
    calls: Mutex<Vec<(String, Ending)>>,
    /// The reviews as they were sent.
    reviews: Mutex<Vec<Value>>,
}

impl ConversionCaller for Hooks {
    fn convert<'a>(&'a self, webhook: &'a ConversionWebhook, objects: &'a [Value], version: &'a str) -> Converted<'a> {
        Unreachable.convert(webhook, objects, version)
    }
}

impl Callers for Hooks {
    fn call<'a>(&'a self, _: WebhookType, webhook: &'a Webhook, review: Vec<u8>, _: Duration) -> WebhookAnswer<'a> {
        self.reviews
            .lock()
            .push(json::parse(&review, &Limits::REQUEST).unwrap());
        let text = format!("{:?}", webhook.client);
        let found = self
            .answers
            .iter()
            .enumerate()
            .find(|(at, _)| text.contains(&format!("/{at}\"")));
        let answer = found.map(|(_, found)| Bytes::from(found.clone()));
        Box::pin(async move {
            answer.ok_or(Unanswered {
                code: 503,
                why: "there is no server".to_owned(),
            })
        })
    }

    fn called(&self, call: WebhookCall<'_>, ending: Ending) {
        self.calls.lock().push((call.name.to_owned(), ending));
    }

    fn evaluated(&self, _: WebhookType, _: &Check) {}

    fn matched(&self, _: ConditionOwner, _: &str, _: &ConditionCheck) {}

    fn excluded(&self, _: WebhookType, _: &str, _: &str) {}
}

/// Returns a review with this response.
fn answer(response: &str) -> String {
    let head = format!("apiVersion: admission.k8s.io/v1, kind: AdmissionReview, response: {{uid: {UID}, {response}}}");
    json::to_string(&tree(&format!("{{{head}}}")))
}

/// Returns the response with this patch.
fn changing(operations: &str) -> String {
    let patch = STANDARD.encode(json::to_string(&tree(operations)));
    answer(&format!("allowed: true, patchType: JSONPatch, patch: {patch}"))
}

/// Creates a world with one webhook for ConfigMaps for each of these responses.
fn world_of(webhook_type: WebhookType, more: &str, answers: &[String]) -> (World, Arc<Hooks>) {
    let hooks = Arc::new(Hooks {
        answers: answers.to_vec(),
        ..Hooks::default()
    });
    let mut world = world();
    world.callers = Arc::clone(&hooks) as _;
    let rules = "operations: ['*'], apiGroups: [''], apiVersions: ['*'], resources: [configmaps]";
    let all: Vec<String> = (0..answers.len())
        .map(|at| {
            format!(
                "{{name: hook{at}.a.io, clientConfig: {{url: 'https://localhost/{at}'}}, rules: [{{{rules}}}], failurePolicy: \
                 Fail, sideEffects: None, admissionReviewVersions: [v1], timeoutSeconds: 1{more}}}"
            )
        })
        .collect();
    let configuration = tree(&format!("{{webhooks: [{}]}}", all.join(", ")));
    world.webhooks.set(webhook_type, "w", Some(&configuration));
    (world, hooks)
}

#[test]
fn a_patch_of_a_webhook_is_stored_without_an_owner() {
    let patch = changing("[{op: add, path: /data/b, value: added}]");
    let (world, hooks) = world_of(WebhookType::Mutating, "", &[patch]);
    let object = create(&world, CONFIG).unwrap().object;
    assert_eq!(object.at(&["data"]), Some(&tree("{a: '1', b: added}")));
    let owned = json::to_string(object.at(&["metadata", "managedFields"]).unwrap());
    assert!(owned.contains("f:a") && !owned.contains("f:b"), "{owned}");
    assert_eq!(*hooks.calls.lock(), [("hook0.a.io".to_owned(), Ending::Passed)]);
}

#[test]
fn a_webhook_reviews_what_those_before_it_made_of_the_object() {
    let answers = [
        changing("[{op: add, path: /data/b, value: added}]"),
        answer("allowed: true"),
    ];
    let (world, hooks) = world_of(WebhookType::Mutating, "", &answers);
    create(&world, CONFIG).unwrap();
    let reviews = hooks.reviews.lock();
    let data = |at: usize| reviews[at].at(&["request", "object", "data"]).unwrap().clone();
    assert_eq!((data(0), data(1)), (tree("{a: '1'}"), tree("{a: '1', b: added}")));
    assert_eq!(reviews[0].str_at(&["request", "operation"]), Some("CREATE"));
}

#[test]
fn webhook_is_reinvoked_after_a_later_change_if_needed() {
    let answers = [
        answer("allowed: true"),
        changing("[{op: add, path: /data/b, value: added}]"),
    ];
    let called = |more: &str| {
        let (world, hooks) = world_of(WebhookType::Mutating, more, &answers);
        create(&world, CONFIG).unwrap();
        let calls = hooks.calls.lock();
        calls.iter().map(|(name, _)| name.clone()).collect::<Vec<_>>()
    };
    assert_eq!(called(""), ["hook0.a.io", "hook1.a.io"]);
    assert_eq!(
        called(", reinvocationPolicy: IfNeeded"),
        ["hook0.a.io", "hook1.a.io", "hook0.a.io"]
    );
}

#[test]
fn a_rejection_has_the_words_of_the_webhook_and_its_warnings() {
    let rejection = answer("allowed: false, status: {code: 418, message: no tea}, warnings: [careful]");
    for webhook_type in [WebhookType::Mutating, WebhookType::Validating] {
        let (world, hooks) = world_of(webhook_type, "", std::slice::from_ref(&rejection));
        let (kind, warnings) = create(&world, CONFIG).err().unwrap().into_parts();
        let ErrorKind::Rejected { code, message, .. } = kind else {
            panic!("{kind:?}")
        };
        assert_eq!(
            (code, message.as_str()),
            (418, "admission webhook \"hook0.a.io\" denied the request: no tea")
        );
        assert_eq!(warnings, ["careful"]);
        assert_eq!(*hooks.calls.lock(), [("hook0.a.io".to_owned(), Ending::Refused)]);
    }
}

#[test]
fn an_answer_to_another_review_counts_as_none() {
    let other = answer("allowed: true").replace(UID, "another");
    for (more, passes) in [("", false), (", failurePolicy: Ignore", true)] {
        let (world, hooks) = world_of(WebhookType::Validating, more, std::slice::from_ref(&other));
        assert_eq!(create(&world, CONFIG).is_ok(), passes);
        let ending = if passes { Ending::FailedOpen } else { Ending::Unanswered };
        assert_eq!(*hooks.calls.lock(), [("hook0.a.io".to_owned(), ending)]);
    }
}

#[test]
fn inapplicable_patch_is_rejected_with_any_failure_policy() {
    for operations in [
        "[{op: remove, path: /data/missing}]",
        "[{op: replace, path: /data, value: [1]}]",
    ] {
        let (world, hooks) = world_of(
            WebhookType::Mutating,
            ", failurePolicy: Ignore",
            &[changing(operations)],
        );
        assert!(create(&world, CONFIG).is_err(), "{operations}");
        assert_eq!(*hooks.calls.lock(), [("hook0.a.io".to_owned(), Ending::Failed)]);
    }
}

#[test]
fn invalid_result_of_a_webhook_is_rejected_with_its_errors() {
    let (world, _) = world_of(
        WebhookType::Mutating,
        "",
        &[changing("[{op: add, path: /data/~1, value: x}]")],
    );
    let ErrorKind::Invalid { errors, .. } = kind_of(create(&world, CONFIG)) else {
        panic!("not invalid")
    };
    assert_eq!(errors[0].field.as_str(), "data[/]");
}
