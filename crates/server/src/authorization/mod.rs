//! Authorizers that ask webhooks, and the configuration of the chain of authorizers
//! (<https://kubernetes.io/docs/reference/access-authn-authz/webhook/>).
//!
//! A request waits here only if no earlier authorizer decides about it and the answer of the webhook is not cached. Answers
//! are cached; calls and their results are limited in size, time and number.

mod cache;
mod conditions;
mod configuration;
mod counted;
mod review;
mod validation;
mod waiting;
mod webhook;

use arc_swap::ArcSwap;
use holdfast_authorization::{Attributes, Authorization, Authorizer, Chain, User, UserRules, Verdict};

pub use self::conditions::MatchConditions;
pub use self::configuration::{AuthorizationConfiguration, AuthorizerConfig, WebhookSettings};
pub use self::counted::Counted;
pub use self::review::AccessReviewVersion;
pub use self::validation::{KNOWN_TYPES, Validated, validate};
pub use self::webhook::{AuthorizationWebhook, WebhookRules};

/// Chain of authorizers that can be replaced.
pub struct ReloadableChain(ArcSwap<Chain>);

impl ReloadableChain {
    /// Creates a chain that is in force until the first replacement.
    pub fn new(chain: Chain) -> Self {
        Self(ArcSwap::from_pointee(chain))
    }

    /// Replaces the chain. Requests that already wait for a webhook continue with the old one.
    pub fn replace(&self, chain: Chain) {
        self.0.store(chain.into());
    }
}

impl Authorizer for ReloadableChain {
    fn authorize(&self, user: &User, attributes: &Attributes<'_>) -> Authorization {
        self.0.load_full().authorize(user, attributes)
    }

    fn start(&self, user: &User, attributes: &Attributes<'_>) -> Verdict {
        self.0.load().start(user, attributes)
    }

    fn rules(&self, user: &User, namespace: &str) -> UserRules {
        self.0.load().rules(user, namespace)
    }

    fn role_rules(&self, user: &User, namespace: &str) -> UserRules {
        self.0.load().role_rules(user, namespace)
    }

    fn generation(&self) -> u64 {
        self.0.load().generation()
    }
}
