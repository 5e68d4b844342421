//! A webhook that reviews tokens
//! (<https://kubernetes.io/docs/reference/access-authn-authz/authentication/#webhook-token-authentication>).

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures_util::FutureExt as _;
use futures_util::future::{BoxFuture, Shared};
use holdfast_authorization::User;
use holdfast_resource::access::{RemoteTokenAuthenticator, TokenError, TokenFuture, TokenUser};
use holdfast_value::{Limits, List, Map, Value, json};
use parking_lot::Mutex;
use smol_str::SmolStr;

use super::cache::{Outcome, TokenCache, TokenKey};
use super::post::{AttemptError, ReviewPost, successful, with_retries};
use crate::identity::authenticated;

/// Time limit of a lookup with all its attempts.
const LOOKUP_LIMIT: Duration = Duration::from_secs(30);

/// Maximum number of lookups at the same time. Further ones fail.
const MAX_LOOKUPS: usize = 1024;

/// Limits of a review in an answer.
const LIMITS: Limits = Limits {
    max_bytes: 256 << 10,
    max_depth: 32,
    max_nodes: 20_000,
};

/// API version of the reviews.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReviewVersion {
    /// `authentication.k8s.io/v1`
    V1,
    /// `authentication.k8s.io/v1beta1`
    V1Beta1,
}

impl ReviewVersion {
    /// Returns the version of that name.
    ///
    /// # Errors
    /// If there is none; the error is the reference's.
    pub fn named(name: &str) -> Result<Self, String> {
        match name {
            "v1" => Ok(Self::V1),
            "v1beta1" => Ok(Self::V1Beta1),
            other => Err(format!(
                "unsupported authentication webhook version {other:?}, supported versions are \"v1\", \"v1beta1\""
            )),
        }
    }

    const fn api_version(self) -> &'static str {
        match self {
            Self::V1 => "authentication.k8s.io/v1",
            Self::V1Beta1 => "authentication.k8s.io/v1beta1",
        }
    }
}

/// Authenticator of tokens that asks a webhook.
pub struct TokenWebhook {
    reviewer: Arc<Reviewer>,
}

/// State that lookups share with those who wait for them.
struct Reviewer {
    post: Box<dyn ReviewPost>,
    version: ReviewVersion,
    /// Audiences of this server.
    audiences: Vec<SmolStr>,
    cache: TokenCache,
    running: Mutex<HashMap<TokenKey, Lookup>>,
}

/// A lookup that several requests with the same token may wait for.
type Lookup = Shared<BoxFuture<'static, Outcome>>;

impl TokenWebhook {
    /// Asks `post` about tokens for a server with these audiences. Answers are cached for `ttl`; zero for no cache.
    pub fn new(post: Box<dyn ReviewPost>, version: ReviewVersion, audiences: Vec<SmolStr>, ttl: Duration) -> Self {
        Self {
            reviewer: Arc::new(Reviewer {
                post,
                version,
                audiences,
                cache: TokenCache::new(ttl),
                running: Mutex::default(),
            }),
        }
    }

    /// Returns the lookup of a token: the one that runs, or a new one.
    fn lookup(&self, key: TokenKey, token: &str, audiences: &[&str]) -> Result<Lookup, TokenError> {
        let mut running = self.reviewer.running.lock();
        if let Some(lookup) = running.get(&key) {
            return Ok(lookup.clone());
        }
        if running.len() >= MAX_LOOKUPS {
            return Err(TokenError::Refused("too many tokens are being reviewed".to_owned()));
        }
        let wanted: Vec<SmolStr> = match audiences {
            [] => self.reviewer.audiences.clone(),
            requested => requested.iter().map(SmolStr::new).collect(),
        };
        let (reviewer, token) = (Arc::clone(&self.reviewer), token.to_owned());
        // The lookup continues if those who wait for it leave, and then serves later ones from the cache.
        let task = tokio::spawn(async move {
            let _running = RunningLookup {
                reviewer: Arc::clone(&reviewer),
                key,
            };
            let ended = tokio::time::timeout(LOOKUP_LIMIT, reviewer.review(&key, &token, &wanted)).await;
            let outcome = ended.unwrap_or_else(|_| Err(TokenError::Refused("context deadline exceeded".to_owned())));
            // Failures may pass.
            if matches!(outcome, Ok(_) | Err(TokenError::Unknown)) {
                reviewer.cache.insert(key, &outcome);
            }
            outcome
        });
        let unexpected = || Err(TokenError::Refused("authentication failed unexpectedly".to_owned()));
        let lookup: Lookup = task
            .map(move |ended| ended.unwrap_or_else(|_| unexpected()))
            .boxed()
            .shared();
        running.insert(key, lookup.clone());
        Ok(lookup)
    }
}

/// Entry of a lookup among those that run. It is removed even if the lookup panics.
struct RunningLookup {
    reviewer: Arc<Reviewer>,
    key: TokenKey,
}

impl Drop for RunningLookup {
    fn drop(&mut self) {
        self.reviewer.running.lock().remove(&self.key);
    }
}

impl RemoteTokenAuthenticator for TokenWebhook {
    fn authenticate<'a>(&'a self, token: &'a str, audiences: &'a [&'a str]) -> TokenFuture<'a> {
        Box::pin(async move {
            let key = TokenKey::new(token, audiences);
            if let Some(known) = self.reviewer.cache.get(&key) {
                return known;
            }
            self.lookup(key, token, audiences)?.await
        })
    }
}

impl Reviewer {
    /// upstream: k8s.io/apiserver/plugin/pkg/authenticator/token/webhook#WebhookTokenAuthenticator.AuthenticateToken
    async fn review(&self, key: &TokenKey, token: &str, wanted: &[SmolStr]) -> Outcome {
        let body = Bytes::from(json::to_string(&self.request(token, wanted)).into_bytes());
        let answer = self.ask(key, body).await.map_err(|why| {
            tracing::error!(error = why, "failed to make webhook authenticator request");
            TokenError::Refused(why)
        })?;
        self.read(&answer, wanted)
    }

    fn request(&self, token: &str, wanted: &[SmolStr]) -> Value {
        let mut spec = Map::new();
        spec.insert("token", token);
        if !wanted.is_empty() {
            let audiences = wanted.iter().map(|audience| Value::from(audience.clone()));
            spec.insert("audiences", Value::List(audiences.collect::<List>()));
        }
        let mut review = Map::new();
        review.insert("kind", "TokenReview");
        review.insert("apiVersion", self.version.api_version());
        review.insert("metadata", Value::empty_map());
        review.insert("spec", Value::Map(spec));
        review.insert(
            "status",
            Value::Map(Map::from_iter([("user".into(), Value::empty_map())])),
        );
        Value::Map(review)
    }

    async fn ask(&self, key: &TokenKey, body: Bytes) -> Result<Bytes, String> {
        let attempt = || async {
            match self.post.post(body.clone()).await {
                Ok((status, body)) => successful(status, body),
                Err(error) => Err(AttemptError::from(error)),
            }
        };
        with_retries(key.fraction(), attempt).await.map_err(|error| error.why)
    }

    fn read(&self, answer: &[u8], wanted: &[SmolStr]) -> Outcome {
        let refused = |why: String| TokenError::Refused(why);
        let review = json::parse(answer, &LIMITS).map_err(|error| refused(error.to_string()))?;
        let text = |path: &[&str]| review.str_at(path).unwrap_or_default();
        let (kind, version) = (text(&["kind"]), text(&["apiVersion"]));
        if kind != "TokenReview" || version != self.version.api_version() {
            return Err(refused(format!(
                "the webhook answered with kind {kind:?} of version {version:?}"
            )));
        }
        let texts = |path: &[&str]| texts(review.at(path)).ok_or_else(|| malformed(path));
        let stated = texts(&["status", "audiences"])?;
        let valid = if stated.is_empty() { &self.audiences } else { &stated };
        let audiences: Vec<SmolStr> = wanted.iter().filter(|one| valid.contains(one)).cloned().collect();
        if audiences.is_empty() {
            return Err(TokenError::Unknown);
        }
        if review.at(&["status", "authenticated"]).and_then(Value::as_bool) != Some(true) {
            return Err(match text(&["status", "error"]) {
                "" => TokenError::Unknown,
                why => refused(why.to_owned()),
            });
        }
        let name = text(&["status", "user", "username"]);
        if name.is_empty() {
            return Err(refused("the webhook named no user".to_owned()));
        }
        let user = User {
            name: name.into(),
            uid: text(&["status", "user", "uid"]).into(),
            groups: texts(&["status", "user", "groups"])?,
            extra: extra(&review)?,
        };
        Ok(TokenUser {
            user: Arc::new(authenticated(user)),
            audiences,
            annotations: Vec::new(),
            warning: None,
        })
    }
}

/// Returns a list of texts; `None` if the value is something else.
fn texts(value: Option<&Value>) -> Option<Vec<SmolStr>> {
    match value {
        None | Some(Value::Null) => Some(Vec::new()),
        Some(Value::List(list)) => list.iter().map(|text| text.as_str().map(SmolStr::new)).collect(),
        Some(_) => None,
    }
}

fn malformed(path: &[&str]) -> TokenError {
    TokenError::Refused(format!("{} in the webhook's answer is malformed", path.join(".")))
}

/// Returns the further attributes of the user in a review.
///
/// # Errors
/// If a value is not a list of texts.
fn extra(review: &Value) -> Result<Vec<(SmolStr, Vec<SmolStr>)>, TokenError> {
    let path = ["status", "user", "extra"];
    let extra = match review.at(&path) {
        None | Some(Value::Null) => return Ok(Vec::new()),
        Some(extra) => extra.as_map().ok_or_else(|| malformed(&path))?,
    };
    let entries = extra.iter().map(|(key, values)| {
        let values = texts(Some(values)).ok_or_else(|| malformed(&path))?;
        Ok((key.clone(), values))
    });
    entries.collect()
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use http::StatusCode;

    use super::super::post::{ATTEMPTS, PostError};
    use super::*;

    /// A webhook that gives these answers in turn, and the last one again and again.
    struct Answers {
        answers: Vec<(u16, &'static str)>,
        asked: Arc<AtomicUsize>,
    }

    impl ReviewPost for Answers {
        fn post(&self, _: Bytes) -> BoxFuture<'_, Result<(StatusCode, Bytes), PostError>> {
            let at = self.asked.fetch_add(1, Ordering::Relaxed).min(self.answers.len() - 1);
            let (status, body) = self.answers[at];
            async move {
                Ok((
                    StatusCode::from_u16(status).unwrap(),
                    Bytes::from_static(body.as_bytes()),
                ))
            }
            .boxed()
        }
    }

    fn webhook(answers: &[(u16, &'static str)], ttl: Duration) -> (TokenWebhook, Arc<AtomicUsize>) {
        let asked = Arc::new(AtomicUsize::new(0));
        let post = Answers {
            answers: answers.to_vec(),
            asked: Arc::clone(&asked),
        };
        let webhook = TokenWebhook::new(Box::new(post), ReviewVersion::V1, vec!["api".into()], ttl);
        (webhook, asked)
    }

    const GOOD: &str = r#"{"kind":"TokenReview","apiVersion":"authentication.k8s.io/v1","status":{"authenticated":true,
        "user":{"username":"ann","groups":["devs"],"extra":{"a":["b"]}}}}"#;
    const BAD: &str = r#"{"kind":"TokenReview","apiVersion":"authentication.k8s.io/v1","status":{}}"#;
    const WRONG: &str = r#"{"kind":"TokenReview","apiVersion":"authentication.k8s.io/v1","status":{"error":"no"}}"#;
    const OTHERS: &str = r#"{"kind":"TokenReview","apiVersion":"authentication.k8s.io/v1","status":{"authenticated":true,
        "audiences":["other"],"user":{"username":"ann"}}}"#;

    #[tokio::test]
    async fn answer_names_user_and_is_cached() {
        let (webhook, asked) = webhook(&[(200, GOOD)], Duration::from_secs(60));
        let known = webhook.authenticate("t", &[]).await.unwrap();
        assert_eq!(known.user.name, "ann");
        assert_eq!(known.user.groups, ["devs", "system:authenticated"]);
        assert_eq!(known.user.extra, [("a".into(), vec!["b".into()])]);
        assert_eq!(known.audiences, ["api"]);
        assert_eq!(webhook.authenticate("t", &[]).await, Ok(known));
        assert_eq!(asked.load(Ordering::Relaxed), 1);
        assert_eq!(
            webhook.authenticate("t", &["other"]).await,
            Err(TokenError::Unknown),
            "the token is valid for the server's own audiences"
        );
        assert_eq!(asked.load(Ordering::Relaxed), 2);
    }

    #[tokio::test]
    async fn rejections_are_cached_and_errors_are_not() {
        let minute = Duration::from_secs(60);
        for (answer, error, calls) in [
            (BAD, TokenError::Unknown, 1),
            (OTHERS, TokenError::Unknown, 1),
            (WRONG, TokenError::Refused("no".to_owned()), 2),
            (
                "{}",
                TokenError::Refused("the webhook answered with kind \"\" of version \"\"".to_owned()),
                2,
            ),
        ] {
            let (webhook, asked) = webhook(&[(200, answer)], minute);
            for _ in 0..2 {
                assert_eq!(webhook.authenticate("t", &[]).await, Err(error.clone()), "{answer}");
            }
            assert_eq!(asked.load(Ordering::Relaxed), calls, "{answer}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn failures_that_may_pass_are_retried() {
        let (webhook, asked) = webhook(&[(500, ""), (429, ""), (200, GOOD)], Duration::ZERO);
        assert!(webhook.authenticate("t", &[]).await.is_ok());
        assert_eq!(asked.load(Ordering::Relaxed), 3);
        for (status, calls) in [(500, ATTEMPTS), (403, 1), (503, 1)] {
            let (webhook, asked) = self::webhook(&[(status, "")], Duration::ZERO);
            assert!(webhook.authenticate("t", &[]).await.is_err());
            assert_eq!(asked.load(Ordering::Relaxed), calls, "{status}");
        }
    }

    #[tokio::test]
    async fn concurrent_requests_share_a_lookup() {
        let (webhook, asked) = webhook(&[(200, GOOD)], Duration::ZERO);
        let (one, two) = tokio::join!(webhook.authenticate("t", &[]), webhook.authenticate("t", &[]));
        assert!(one.is_ok() && one == two);
        assert_eq!(asked.load(Ordering::Relaxed), 1);
        assert!(webhook.reviewer.running.lock().is_empty());
    }
}
