//! Authorizers whose decisions are counted.

use std::sync::Arc;

use holdfast_authorization::{Attributes, Authorization, Authorizer, Decision, User, UserRules, Verdict};
use prometheus::IntCounter;

use crate::metrics::AuthorizationMetrics;

/// Authorizer whose decisions are counted by its type and name.
pub struct Counted {
    authorizer: Arc<dyn Authorizer>,
    counters: DecisionCounters,
}

#[derive(Clone)]
struct DecisionCounters {
    allowed: IntCounter,
    denied: IntCounter,
}

impl DecisionCounters {
    fn count(&self, decision: Decision) {
        match decision {
            Decision::Allow => self.allowed.inc(),
            Decision::Deny => self.denied.inc(),
            Decision::NoOpinion => {}
        }
    }
}

impl Counted {
    /// Counts the decisions of `authorizer`, which has this type and name.
    ///
    /// # Errors
    /// If the metrics have other labels, which is a bug of this code.
    pub fn new(
        authorizer: Arc<dyn Authorizer>,
        kind: &str,
        name: &str,
        metrics: &AuthorizationMetrics,
    ) -> prometheus::Result<Self> {
        let counters = DecisionCounters {
            allowed: metrics.decisions(kind, name, "allowed")?,
            denied: metrics.decisions(kind, name, "denied")?,
        };
        Ok(Self { authorizer, counters })
    }
}

/// upstream: k8s.io/apiserver/pkg/authorization/metrics#instrumentedAuthorizer.Authorize
impl Authorizer for Counted {
    fn authorize(&self, user: &User, attributes: &Attributes<'_>) -> Authorization {
        let answer = self.authorizer.authorize(user, attributes);
        self.counters.count(answer.decision);
        answer
    }

    fn start(&self, user: &User, attributes: &Attributes<'_>) -> Verdict {
        match self.authorizer.start(user, attributes) {
            Verdict::Decided(answer) => {
                self.counters.count(answer.decision);
                Verdict::Decided(answer)
            }
            Verdict::Ask(pending) => {
                let counters = self.counters.clone();
                Verdict::Ask(Box::pin(async move {
                    let answer = pending.await;
                    counters.count(answer.decision);
                    answer
                }))
            }
        }
    }

    fn rules(&self, user: &User, namespace: &str) -> UserRules {
        self.authorizer.rules(user, namespace)
    }

    fn role_rules(&self, user: &User, namespace: &str) -> UserRules {
        self.authorizer.role_rules(user, namespace)
    }

    fn generation(&self) -> u64 {
        self.authorizer.generation()
    }
}
