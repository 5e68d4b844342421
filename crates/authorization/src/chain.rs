//! Chain of several authorizers.

use std::sync::Arc;

use crate::{Attributes, Authorization, Authorizer, Decision, MASTERS, User, UserRules};

/// Authorizer that allows everything to members of `system:masters`, whatever others decide.
#[derive(Clone, Copy, Debug, Default)]
pub struct Masters;

impl Authorizer for Masters {
    fn authorize(&self, user: &User, _attributes: &Attributes<'_>) -> Authorization {
        Authorization::new(if user.is_in(MASTERS) {
            Decision::Allow
        } else {
            Decision::NoOpinion
        })
    }

    fn rules(&self, _user: &User, _namespace: &str) -> UserRules {
        // Masters are also bound to a role, which lists their permissions.
        UserRules::default()
    }
}

/// Calls authorizers in order until one allows or denies.
pub struct Chain(Vec<Arc<dyn Authorizer>>);

impl Chain {
    /// Creates a chain of `authorizers`; [`Masters`] precedes all of them.
    pub fn new(authorizers: impl IntoIterator<Item = Arc<dyn Authorizer>>) -> Self {
        let masters: Arc<dyn Authorizer> = Arc::new(Masters);
        Self(std::iter::once(masters).chain(authorizers).collect())
    }
}

impl Authorizer for Chain {
    fn authorize(&self, user: &User, attributes: &Attributes<'_>) -> Authorization {
        let mut said: Option<Arc<str>> = None;
        for authorizer in &self.0 {
            let answer = authorizer.authorize(user, attributes);
            if answer.decision != Decision::NoOpinion {
                return answer;
            }
            said = match (said, answer.reason) {
                (Some(before), Some(reason)) => Some(format!("{before}\n{reason}").into()),
                (before, reason) => before.or(reason),
            };
        }
        Authorization {
            decision: Decision::NoOpinion,
            reason: said,
        }
    }

    fn rules(&self, user: &User, namespace: &str) -> UserRules {
        let mut all = UserRules::default();
        for authorizer in &self.0 {
            let UserRules {
                rules,
                incomplete,
                errors,
            } = authorizer.rules(user, namespace);
            all.rules.extend(rules);
            all.incomplete |= incomplete;
            all.errors.extend(errors);
        }
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{AccessTarget, AlwaysAllow, AlwaysDeny};

    const LIVEZ: Attributes<'static> = Attributes {
        verb: "get",
        target: AccessTarget::Path("/livez"),
    };

    fn deny() -> Arc<dyn Authorizer> {
        Arc::new(AlwaysDeny)
    }

    fn allow() -> Arc<dyn Authorizer> {
        Arc::new(AlwaysAllow)
    }

    #[test]
    fn masters_may_do_everything() {
        let admin = User {
            groups: vec![MASTERS.into()],
            ..User::default()
        };
        assert!(Chain::new([deny()]).authorize(&admin, &LIVEZ).allows());
    }

    #[test]
    fn chain_stops_at_decision_and_joins_reasons() {
        let alice = User::default();
        assert!(Chain::new([deny(), allow()]).authorize(&alice, &LIVEZ).allows());
        let decision = Chain::new([deny(), deny()]).authorize(&alice, &LIVEZ);
        assert!(!decision.allows());
        assert_eq!(decision.reason(), "Everything is forbidden.\nEverything is forbidden.");
        assert_eq!(Chain::new([allow()]).rules(&alice, "n").rules.len(), 2);
    }
}
