//! Admission of the images of Pods by a webhook.

use std::fmt;
use std::ops::RangeInclusive;
use std::pin::Pin;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use holdfast_admission::{AdmissionPlugin, Calls, Consultation, Interest};
use holdfast_limits::{KeyHash, KeyHasher, LruMap};
use holdfast_resource::table::items;
use holdfast_resource::{Operation, Rejection, SharedState, WriteContext};
use holdfast_schema::Field;
use holdfast_value::{Limits, Map, Value, json};

/// Plugin that asks a webhook if Pods may run their images:
/// <https://kubernetes.io/docs/reference/access-authn-authz/admission-controllers/#imagepolicywebhook>.
pub(super) struct ImagePolicyWebhook {
    /// Webhook that decides; `None` if the plugin is disabled.
    pub(super) policy: Option<Arc<ImagePolicy>>,
}

/// Client that sends image reviews to a webhook.
pub trait ImageReviewer: Send + Sync {
    /// Sends a review and returns the body of a successful response, or the reason of the failure.
    fn review(&self, review: String) -> ImageReview<'_>;
}

/// Future response to a review.
pub type ImageReview<'a> = Pin<Box<dyn Future<Output = Result<Vec<u8>, String>> + Send + 'a>>;

/// Webhook that decides about images, with a cache of its responses.
pub struct ImagePolicy {
    settings: ImagePolicySettings,
    reviewer: Box<dyn ImageReviewer>,
    hasher: KeyHasher,
    /// Answers and the times at which they expire, by the hash of the images.
    answers: SharedState<LruMap<KeyHash, (Answer, SystemTime)>>,
}

/// Configuration of the plugin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ImagePolicySettings {
    /// Lifetime of a cached response that allows images.
    pub allow: Duration,
    /// Lifetime of a cached response that denies images.
    pub deny: Duration,
    /// Delay before a failed review is retried.
    pub backoff: Duration,
    /// True if images are allowed when the webhook fails.
    pub allowed_without_answer: bool,
}

#[derive(Clone)]
struct Answer {
    allowed: bool,
    reason: String,
    annotations: Vec<(String, String)>,
}

/// Maximum number of cached responses.
const MAX_CACHED_RESPONSES: usize = 1024;
const VERSION: &str = "imagepolicy.k8s.io/v1alpha1";
const KIND: &str = "ImageReview";
/// Part of the keys of the Pod annotations that are sent to the webhook.
const SHOWN: &str = ".image-policy.k8s.io/";
const AUDIT: &str = "imagepolicywebhook.image-policy.k8s.io/";
const EPHEMERAL: &str = "ephemeralcontainers";

impl ImagePolicySettings {
    /// Reads the configuration: `allowTTL` and `denyTTL` in seconds, `retryBackoff` in milliseconds, -1 to disable.
    ///
    /// # Errors
    /// If the configuration is invalid.
    pub fn from_configuration(configuration: &Value) -> Result<Self, String> {
        let root = Field::root(configuration);
        let duration = |name: &str,
                        scale: Duration,
                        allowed: RangeInclusive<Duration>,
                        usual: Duration|
         -> Result<Duration, String> {
            let field = root.child(name);
            let stated = match field.value() {
                None => 0,
                Some(_) => field.number().ok_or_else(|| format!("{name} is no number"))?,
            };
            if stated == -1 {
                return Ok(Duration::ZERO);
            }
            if stated == 0 {
                return Ok(usual);
            }
            let scaled = u32::try_from(stated).ok().and_then(|stated| scale.checked_mul(stated));
            scaled.filter(|scaled| allowed.contains(scaled)).ok_or_else(|| {
                let (least, most) = allowed.into_inner();
                format!("{name}: valid value is between {least:?} and {most:?}, got {stated}")
            })
        };
        let second = Duration::from_secs(1);
        let minutes = |minutes: u64| Duration::from_secs(60 * minutes);
        let times = second..=minutes(30);
        Ok(Self {
            backoff: duration(
                "retryBackoff",
                Duration::from_millis(1),
                Duration::from_nanos(1)..=minutes(5),
                Duration::from_millis(500),
            )?,
            allow: duration("allowTTL", second, times.clone(), minutes(5))?,
            deny: duration("denyTTL", second, times, Duration::from_secs(30))?,
            allowed_without_answer: root.child("defaultAllow").is_true(),
        })
    }
}

impl ImagePolicy {
    /// Returns a policy that sends its reviews with `reviewer`.
    pub fn new(settings: ImagePolicySettings, reviewer: Box<dyn ImageReviewer>) -> Self {
        Self {
            settings,
            reviewer,
            hasher: KeyHasher::default(),
            answers: SharedState::new(LruMap::new(MAX_CACHED_RESPONSES)),
        }
    }

    /// upstream: plugin/pkg/admission/imagepolicy#Plugin.admitPod
    async fn decide(&self, context: &WriteContext<'_>, images: Value) -> Result<(), Rejection> {
        let key = json::to_string(&images);
        let (answer, kept) = match self.known(context, &key) {
            Some(answer) => (answer, true),
            None => match self.ask(images).await {
                Ok(answer) => (answer, false),
                Err(_) if self.settings.allowed_without_answer => {
                    note(context, "failed-open", "true");
                    return Ok(());
                }
                Err(why) => return Err(Rejection::forbidden(why)),
            },
        };
        if !kept {
            let lasts = if answer.allowed {
                self.settings.allow
            } else {
                self.settings.deny
            };
            let until = context.now().checked_add(lasts).unwrap_or(context.now());
            let hash = self.hasher.hash(key.as_str());
            self.answers.in_run(context.run).insert(hash, (answer.clone(), until));
        }
        for (key, value) in &answer.annotations {
            note(context, key, value);
        }
        match (answer.allowed, answer.reason.as_str()) {
            (true, _) => Ok(()),
            (false, "") => Err(Rejection::forbidden("one or more images rejected by webhook backend")),
            (false, reason) => Err(Rejection::forbidden(format!(
                "image policy webhook backend denied one or more images: {reason}"
            ))),
        }
    }

    /// Returns the cached response for the same images, unless it has expired.
    fn known(&self, context: &WriteContext<'_>, key: &str) -> Option<Answer> {
        let mut answers = self.answers.in_run(context.run);
        let (answer, until) = answers.get(&self.hasher.hash(key))?;
        (context.now() < *until).then(|| answer.clone())
    }

    async fn ask(&self, images: Value) -> Result<Answer, String> {
        let mut review = Map::new();
        review.insert("kind", KIND);
        review.insert("apiVersion", VERSION);
        review.insert("metadata", Value::empty_map());
        review.insert("spec", images);
        let mut status = Map::new();
        status.insert("allowed", false);
        review.insert("status", status);
        let body = self.reviewer.review(json::to_string(&review.into())).await?;
        let answer = json::parse(&body, &Limits::default()).map_err(|error| error.to_string())?;
        let text = |field| answer.str_at(&[field]).unwrap_or_default();
        if (text("apiVersion"), text("kind")) != (VERSION, KIND) {
            return Err(format!(
                "no kind {:?} is registered for version {:?}",
                text("kind"),
                text("apiVersion")
            ));
        }
        let status = Field::placed(answer.get("status"), "");
        let annotations = status
            .child("auditAnnotations")
            .entries()
            .map(|(key, value)| (key.to_owned(), value.text().to_owned()))
            .collect();
        let allowed = status.child("allowed").is_true();
        let reason = status.child("reason").text().to_owned();
        Ok(Answer {
            allowed,
            reason,
            annotations,
        })
    }
}

impl fmt::Debug for ImagePolicy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ImagePolicy")
            .field("settings", &self.settings)
            .finish_non_exhaustive()
    }
}

impl AdmissionPlugin for ImagePolicyWebhook {
    fn name(&self) -> &'static str {
        "ImagePolicyWebhook"
    }

    fn calls(&self) -> Calls {
        Calls::validating(&[Operation::Create, Operation::Update])
    }

    fn on_by_default(&self) -> bool {
        false
    }

    fn interests(&self) -> &[Interest] {
        const {
            &[Interest {
                subresources: &["", EPHEMERAL],
                ..Interest::in_written("", "pods")
            }]
        }
    }

    fn asks_others(&self) -> bool {
        true
    }

    fn consult<'a>(&'a self, context: &'a WriteContext<'a>, object: Option<&'a Value>) -> Consultation<'a> {
        let (Some(policy), Some(pod)) = (&self.policy, object) else {
            return Box::pin(async { Ok(()) });
        };
        Box::pin(policy.decide(context, images_of(context, pod)))
    }
}

fn note(context: &WriteContext<'_>, key: &str, value: &str) {
    if let Some(audit) = context.audit {
        audit.annotate(&format!("{AUDIT}{key}"), value.to_owned());
    }
}

/// Returns the specification of the review of a Pod.
fn images_of(context: &WriteContext<'_>, pod: &Value) -> Value {
    let lists: &[&str] = match context.subresource {
        Some(EPHEMERAL) => &["ephemeralContainers"],
        _ => &["containers", "initContainers"],
    };
    let image = |container: &Value| {
        let mut shown = Map::new();
        let image = container.str_at(&["image"]).unwrap_or_default();
        if !image.is_empty() {
            shown.insert("image", image);
        }
        Value::from(shown)
    };
    let containers: Vec<Value> = lists
        .iter()
        .flat_map(|list| items(pod, &["spec", list]))
        .map(image)
        .collect();
    let mut spec = Map::new();
    if !containers.is_empty() {
        spec.insert("containers", containers);
    }
    let annotations = Field::placed(pod.at(&["metadata", "annotations"]), "");
    let mut shown = Map::new();
    for (key, value) in annotations.entries().filter(|(key, _)| key.contains(SHOWN)) {
        shown.insert(key, value.text());
    }
    if !shown.is_empty() {
        spec.insert("annotations", shown);
    }
    if !context.namespace.is_empty() {
        spec.insert("namespace", context.namespace);
    }
    spec.into()
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::disallowed_types, reason = "this is a test")]
mod tests {
    use holdfast_value::yaml;

    use parking_lot::Mutex;

    use super::*;
    use crate::harness::Harness;
    use crate::harness::PluginSettings;

    const POD: &str = "{apiVersion: v1, kind: Pod, metadata: {name: p, namespace: default, annotations: {a.image-policy.k8s.io/b: c, \
                       other: d}}, spec: {initContainers: [{name: i, image: first}], containers: [{name: c, image: second}]}}";

    /// Reviewer that gives the same response to every review and records the reviews.
    struct Says {
        answer: Result<&'static str, &'static str>,
        asked: Arc<Mutex<Vec<String>>>,
    }

    impl ImageReviewer for Says {
        fn review(&self, review: String) -> ImageReview<'_> {
            self.asked.lock().push(review);
            let answer = match self.answer {
                Ok(status) => Ok(
                    format!("{{\"apiVersion\":\"{VERSION}\",\"kind\":\"{KIND}\",\"status\":{status}}}").into_bytes(),
                ),
                Err(why) => Err(why.to_owned()),
            };
            Box::pin(std::future::ready(answer))
        }
    }

    fn settings(text: &str) -> Result<ImagePolicySettings, String> {
        ImagePolicySettings::from_configuration(&yaml::parse(text.as_bytes(), &Limits::default()).unwrap())
    }

    fn admit(configuration: &str, answer: Result<&'static str, &'static str>) -> (Vec<Option<String>>, Vec<String>) {
        let asked = Arc::new(Mutex::default());
        let reviewer = Says {
            answer,
            asked: Arc::clone(&asked),
        };
        let policy = ImagePolicy::new(settings(configuration).unwrap(), Box::new(reviewer));
        let harness = Harness::new().with_plugins(PluginSettings {
            images: Some(Arc::new(policy)),
            ..PluginSettings::default()
        });
        let said = harness.ask_in_turn("ImagePolicyWebhook", &[POD, POD]);
        let asked = std::mem::take(&mut *asked.lock());
        (said, asked)
    }

    #[test]
    fn a_webhook_gets_images_and_annotations_in_one_call() {
        let (said, asked) = admit("{}", Ok("{\"allowed\":true}"));
        assert_eq!(said, [None, None]);
        assert_eq!(
            asked,
            [
                r#"{"apiVersion":"imagepolicy.k8s.io/v1alpha1","kind":"ImageReview","metadata":{},"spec":{"annotations":{"a.image-policy.k8s.io/b":"c"},"containers":[{"image":"second"},{"image":"first"}],"namespace":"default"},"status":{"allowed":false}}"#
            ]
        );
        let (_, asked) = admit("{allowTTL: -1}", Ok("{\"allowed\":true}"));
        assert_eq!(asked.len(), 2, "nothing holds for any time");
    }

    #[test]
    fn images_are_rejected_for_the_reason_that_the_webhook_gives() {
        let why = "image policy webhook backend denied one or more images: no";
        let (said, asked) = admit("{}", Ok("{\"allowed\":false,\"reason\":\"no\"}"));
        assert_eq!(
            (said, asked.len()),
            (vec![Some(why.to_owned()), Some(why.to_owned())], 1)
        );
        let (said, _) = admit("{}", Ok("{}"));
        assert_eq!(
            said[0].as_deref(),
            Some("one or more images rejected by webhook backend")
        );
    }

    #[test]
    fn without_an_answer_the_configuration_decides() {
        let (said, asked) = admit("{}", Err("gone"));
        assert_eq!((said[0].as_deref(), asked.len()), (Some("gone"), 2));
        assert_eq!(admit("{defaultAllow: true}", Err("gone")).0, [None, None]);
    }

    #[test]
    fn configurations_are_checked() {
        let read = settings("{allowTTL: 50, denyTTL: -1, retryBackoff: 20, defaultAllow: true}").unwrap();
        assert_eq!(
            read,
            ImagePolicySettings {
                allow: Duration::from_secs(50),
                deny: Duration::ZERO,
                backoff: Duration::from_millis(20),
                allowed_without_answer: true,
            }
        );
        assert_eq!(settings("{}").unwrap().allow, Duration::from_secs(300));
        for wrong in [
            "{allowTTL: 1801}",
            "{denyTTL: -2}",
            "{retryBackoff: 300001}",
            "{allowTTL: a}",
        ] {
            assert!(settings(wrong).is_err(), "{wrong}");
        }
    }
}
