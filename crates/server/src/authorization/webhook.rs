//! A webhook that reviews access
//! (<https://kubernetes.io/docs/reference/access-authn-authz/webhook/>).

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use holdfast_authorization::{
    AccessTarget, Attributes, Authorization, Authorizer, Decision, Pending, User, UserRules, Verdict,
};
use holdfast_value::{Value, json};
use smol_str::SmolStr;
use tokio::sync::Semaphore;
use tokio::time::Instant;

use super::cache::{ReviewCache, ReviewKey};
use super::conditions::{Match, MatchConditions};
use super::review::{AccessReviewVersion, ReviewStatus};
use super::waiting;
use crate::authentication::ReviewPost;
use crate::authentication::post::{AttemptError, successful, with_retries};
use crate::metrics::AuthorizationMetrics;

/// Time limit of a review with all its attempts.
const REVIEW_LIMIT: Duration = Duration::from_secs(60);

/// Maximum number of calls at the same time. Further ones wait, which counts towards their timeout.
const MAX_CALLS: usize = 128;

/// Size in bytes of the target of a request from which its answer is not cached.
const MAX_CACHED_TARGET_BYTES: usize = 10_000;

/// Rules of a webhook.
#[derive(Debug)]
pub struct WebhookRules {
    /// Name in metrics.
    pub name: SmolStr,
    /// Version of the reviews.
    pub version: AccessReviewVersion,
    /// Time limit of an attempt.
    pub timeout: Duration,
    /// Time to cache that a request is allowed; zero for no cache.
    pub authorized_ttl: Duration,
    /// Time to cache that a request is not allowed; zero for no cache.
    pub unauthorized_ttl: Duration,
    /// Decision if there is no answer.
    pub on_error: Decision,
    /// Conditions of the requests that the webhook decides about.
    pub conditions: MatchConditions,
}

/// Authorizer that asks a webhook.
pub struct AuthorizationWebhook(Arc<Reviewer>);

struct Reviewer {
    post: Box<dyn ReviewPost>,
    rules: WebhookRules,
    cache: ReviewCache,
    calls: Semaphore,
    metrics: AuthorizationMetrics,
}

impl AuthorizationWebhook {
    /// Asks `post` about requests.
    pub fn new(post: Box<dyn ReviewPost>, rules: WebhookRules, metrics: AuthorizationMetrics) -> Self {
        Self(Arc::new(Reviewer {
            post,
            rules,
            cache: ReviewCache::default(),
            calls: Semaphore::new(MAX_CALLS),
            metrics,
        }))
    }
}

impl Authorizer for AuthorizationWebhook {
    fn authorize(&self, user: &User, attributes: &Attributes<'_>) -> Authorization {
        match self.start(user, attributes) {
            Verdict::Decided(answer) => answer,
            Verdict::Ask(pending) => waiting::wait(pending).unwrap_or_else(|why| self.0.overload(why)),
        }
    }

    /// upstream: k8s.io/apiserver/plugin/pkg/authorizer/webhook#WebhookAuthorizer.Authorize
    fn start(&self, user: &User, attributes: &Attributes<'_>) -> Verdict {
        let reviewer = &self.0;
        match reviewer.matches(user, attributes) {
            Ok(true) => {}
            Ok(false) => return Verdict::Decided(Authorization::NO_OPINION),
            Err(why) => return Verdict::Decided(reviewer.failure(&why)),
        }
        let spec = reviewer.rules.version.spec(user, attributes);
        let key = ReviewKey::new(&json::to_string(&spec));
        match reviewer.cache.get(&key) {
            Some(status) => Verdict::Decided(status.authorization()),
            None => Verdict::Ask(Arc::clone(reviewer).ask(key, spec, is_cacheable(attributes))),
        }
    }

    /// upstream: k8s.io/apiserver/plugin/pkg/authorizer/webhook#WebhookAuthorizer.RulesFor
    fn rules(&self, _user: &User, _namespace: &str) -> UserRules {
        UserRules {
            incomplete: true,
            errors: vec!["webhook authorizer does not support user rule resolution".to_owned()],
            ..UserRules::default()
        }
    }
}

impl Reviewer {
    fn matches(&self, user: &User, attributes: &Attributes<'_>) -> Result<bool, String> {
        let conditions = &self.rules.conditions;
        if conditions.is_empty() {
            return Ok(true);
        }
        let Match { outcome, seconds } = conditions.timed(user, attributes);
        self.metrics.matched(&self.rules.name, &outcome, seconds);
        outcome
    }

    /// Returns the decision if there is no answer.
    fn failure(&self, why: &str) -> Authorization {
        Authorization {
            error: Some(why.into()),
            ..Authorization::new(self.rules.on_error)
        }
    }

    /// Returns the decision if this server cannot ask. The policy for failures of the webhook does not apply: a user who
    /// causes many calls must not get around a webhook that denies.
    fn overload(&self, why: &str) -> Authorization {
        tracing::error!(
            name = &*self.rules.name,
            why,
            "a request is denied without an answer of its authorization webhook"
        );
        Authorization {
            error: Some(why.into()),
            ..Authorization::new(Decision::Deny)
        }
    }

    fn ask(self: Arc<Self>, key: ReviewKey, spec: Value, is_cacheable: bool) -> Pending {
        Box::pin(async move {
            let review = self.rules.version.review(spec);
            let body = Bytes::from(json::to_string(&review).into_bytes());
            let Ok(_place) = tokio::time::timeout(REVIEW_LIMIT, self.calls.acquire()).await else {
                return self.overload("too many calls of the authorization webhook are in progress");
            };
            let asked = with_retries(key.fraction(), || self.attempt(body.clone()));
            let answered = tokio::time::timeout(REVIEW_LIMIT, asked).await;
            match answered.unwrap_or_else(|_| Err(AttemptError::timeout())) {
                Ok(status) => {
                    let ttl = if status.allowed {
                        self.rules.authorized_ttl
                    } else {
                        self.rules.unauthorized_ttl
                    };
                    if is_cacheable {
                        self.cache.insert(key, status.clone(), ttl);
                    }
                    status.authorization()
                }
                Err(error) => {
                    let name = &*self.rules.name;
                    tracing::error!(name, error = error.why, "failed to make webhook authorizer request");
                    if self.rules.on_error == Decision::NoOpinion {
                        self.metrics.failed_open(name, result_of(&error));
                    }
                    self.failure(&error.why)
                }
            }
        })
    }

    async fn attempt(&self, body: Bytes) -> Result<ReviewStatus, AttemptError> {
        let mut call = Call::begin(self);
        let exchange = async {
            let (status, body) = self.post.post(body).await?;
            let body = successful(status, body)?;
            self.rules.version.read(&body).map_err(AttemptError::new)
        };
        let ended = tokio::time::timeout(self.rules.timeout, exchange).await;
        let outcome = ended.unwrap_or_else(|_| Err(AttemptError::timeout()));
        call.result = match &outcome {
            Ok(_) => "success",
            Err(error) => result_of(error),
        };
        outcome
    }
}

fn result_of(error: &AttemptError) -> &'static str {
    if error.is_timeout { "timeout" } else { "error" }
}

/// Call that is counted at its end, even if the client leaves before.
struct Call<'r> {
    reviewer: &'r Reviewer,
    began: Instant,
    result: &'static str,
}

impl<'r> Call<'r> {
    fn begin(reviewer: &'r Reviewer) -> Self {
        Self {
            reviewer,
            began: Instant::now(),
            result: "canceled",
        }
    }
}

impl Drop for Call<'_> {
    fn drop(&mut self) {
        let (reviewer, elapsed) = (self.reviewer, self.began.elapsed());
        reviewer.metrics.evaluated(&reviewer.rules.name, self.result, elapsed);
    }
}

/// True if what the client chooses is small enough for the cache.
///
/// upstream: k8s.io/apiserver/plugin/pkg/authorizer/webhook#shouldCache
fn is_cacheable(attributes: &Attributes<'_>) -> bool {
    let target = match &attributes.target {
        AccessTarget::Path(path) => path.len(),
        AccessTarget::Resource(target) => {
            let texts = [
                target.namespace,
                target.group,
                target.version,
                target.resource,
                target.subresource,
                target.name,
            ];
            texts.iter().map(|text| text.len()).sum()
        }
    };
    target + attributes.verb.len() < MAX_CACHED_TARGET_BYTES
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use futures_util::FutureExt as _;
    use futures_util::future::BoxFuture;
    use http::StatusCode;

    use super::*;
    use crate::authentication::PostError;
    use crate::metrics::Metrics;

    const ALLOWED: &str = r#"{"kind":"SubjectAccessReview","apiVersion":"authorization.k8s.io/v1","status":{"allowed":true,"reason":"friend"}}"#;
    const UNDECIDED: &str =
        r#"{"kind":"SubjectAccessReview","apiVersion":"authorization.k8s.io/v1","status":{"allowed":false}}"#;

    /// A webhook that gives these answers in turn, and the last one again and again. Status 0 is no answer.
    struct Answers {
        answers: Vec<(u16, &'static str)>,
        asked: Arc<AtomicUsize>,
    }

    impl ReviewPost for Answers {
        fn post(&self, _: Bytes) -> BoxFuture<'_, Result<(StatusCode, Bytes), PostError>> {
            let at = self.asked.fetch_add(1, Ordering::Relaxed).min(self.answers.len() - 1);
            let (status, body) = self.answers[at];
            async move {
                match status {
                    0 => std::future::pending().await,
                    status => Ok((
                        StatusCode::from_u16(status).unwrap(),
                        Bytes::from_static(body.as_bytes()),
                    )),
                }
            }
            .boxed()
        }
    }

    struct World {
        webhook: AuthorizationWebhook,
        asked: Arc<AtomicUsize>,
    }

    impl World {
        fn new(answers: &[(u16, &'static str)], on_error: Decision, ttl: Duration) -> Self {
            let asked = Arc::<AtomicUsize>::default();
            let post = Answers {
                answers: answers.to_vec(),
                asked: Arc::clone(&asked),
            };
            let rules = WebhookRules {
                name: "test".into(),
                version: AccessReviewVersion::V1,
                timeout: Duration::from_secs(3),
                authorized_ttl: ttl,
                unauthorized_ttl: Duration::ZERO,
                on_error,
                conditions: MatchConditions::default(),
            };
            let metrics = Metrics::new().unwrap().follow_authorization("").unwrap();
            let webhook = AuthorizationWebhook::new(Box::new(post), rules, metrics);
            Self { webhook, asked }
        }

        async fn ask(&self, path: &str) -> Authorization {
            let attributes = Attributes {
                verb: "get",
                target: AccessTarget::Path(path),
            };
            match self.webhook.start(&User::default(), &attributes) {
                Verdict::Decided(answer) => answer,
                Verdict::Ask(pending) => pending.await,
            }
        }

        fn asked(&self) -> usize {
            self.asked.load(Ordering::Relaxed)
        }
    }

    const LONG: Duration = Duration::from_secs(60);

    #[tokio::test]
    async fn answers_are_cached_by_decision() {
        let world = World::new(&[(200, ALLOWED)], Decision::Deny, LONG);
        for _ in 0..3 {
            let answer = world.ask("/a").await;
            assert_eq!((answer.allows(), answer.reason()), (true, "friend"));
        }
        assert_eq!(world.asked(), 1);
        world.ask("/b").await;
        assert_eq!(world.asked(), 2, "another path");
        let long = format!("/{}", "a".repeat(MAX_CACHED_TARGET_BYTES));
        world.ask(&long).await;
        world.ask(&long).await;
        assert_eq!(world.asked(), 4, "long targets are not cached");
        let undecided = World::new(&[(201, UNDECIDED)], Decision::Deny, LONG);
        undecided.ask("/a").await;
        assert_eq!(undecided.ask("/a").await, Authorization::NO_OPINION);
        assert_eq!(undecided.asked(), 2, "this webhook caches only what is allowed");
    }

    #[tokio::test(start_paused = true)]
    async fn transient_failures_are_retried() {
        let world = World::new(&[(500, ""), (429, ""), (200, ALLOWED)], Decision::Deny, LONG);
        assert!(world.ask("/a").await.allows());
        assert_eq!(world.asked(), 3);
        let broken = World::new(&[(500, "")], Decision::NoOpinion, LONG);
        let answer = broken.ask("/a").await;
        assert_eq!(answer.decision, Decision::NoOpinion);
        assert_eq!(answer.error(), Some("the webhook answered 500 Internal Server Error"));
        assert_eq!(broken.asked(), 5);
    }

    #[tokio::test(start_paused = true)]
    async fn silence_and_garbage_fail_by_policy() {
        for (answer, why) in [
            ((0, ""), "context deadline exceeded"),
            ((403, ""), "the webhook answered 403 Forbidden"),
            (
                (200, r#"{"kind":"Status","apiVersion":"v1"}"#),
                "the webhook answered with kind \"Status\" of version \"v1\"",
            ),
        ] {
            for on_error in [Decision::Deny, Decision::NoOpinion] {
                let world = World::new(&[answer], on_error, LONG);
                let answer = world.ask("/a").await;
                assert_eq!((answer.decision, answer.error()), (on_error, Some(why)));
                assert_eq!(world.asked(), 1);
            }
        }
    }

    #[tokio::test]
    async fn rules_of_users_are_unknown() {
        let world = World::new(&[(200, ALLOWED)], Decision::Deny, LONG);
        assert!(world.webhook.rules(&User::default(), "a").incomplete);
    }
}
