//! Chain of several authorizers.

use std::sync::Arc;

use holdfast_gotext::errors::aggregate;

use crate::{
    Attributes, Authorization, Authorizer, Decision, MASTERS, OwnedAttributes, Pending, User, UserRules, Verdict,
};

/// Authorizer that allows everything to members of `system:masters`, whatever others decide.
///
/// ```
/// use holdfast_authorization::{AccessTarget, Attributes, Authorizer, MASTERS, Masters, User};
///
/// let get = Attributes { verb: "get", target: AccessTarget::Path("/healthz") };
/// let admin = User { groups: vec![MASTERS.into()], ..User::default() };
/// assert!(Masters.authorize(&admin, &get).allows());
/// assert!(!Masters.authorize(&User::default(), &get).allows());
/// ```
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
///
/// ```
/// use std::sync::Arc;
/// use holdfast_authorization::{AccessTarget, AlwaysDeny, Attributes, Authorizer, Chain, MASTERS, User};
///
/// let chain = Chain::new([Arc::new(AlwaysDeny) as Arc<dyn Authorizer>]);
/// let get = Attributes { verb: "get", target: AccessTarget::Path("/healthz") };
/// assert!(!chain.authorize(&User::default(), &get).allows());
/// let admin = User { groups: vec![MASTERS.into()], ..User::default() };
/// assert!(chain.authorize(&admin, &get).allows());
/// ```
pub struct Chain(Arc<[Arc<dyn Authorizer>]>);

impl Chain {
    /// Creates a chain of `authorizers`; [`Masters`] precedes all of them.
    pub fn new(authorizers: impl IntoIterator<Item = Arc<dyn Authorizer>>) -> Self {
        let masters: Arc<dyn Authorizer> = Arc::new(Masters);
        Self(std::iter::once(masters).chain(authorizers).collect())
    }

    /// Continues after the authorizer at `at`, which waits for another server.
    fn continue_later(&self, at: usize, begun: Begun, user: &User, attributes: &Attributes<'_>) -> Pending {
        let links = Arc::clone(&self.0);
        let (user, attributes) = (user.clone(), OwnedAttributes::from(attributes));
        Box::pin(async move {
            let Begun { mut opinions, pending } = begun;
            let first = pending.await;
            if let Some(decided) = opinions.add(first) {
                return decided;
            }
            for link in links.iter().skip(at + 1) {
                let answer = match link.start(&user, &attributes.borrow()) {
                    Verdict::Decided(answer) => answer,
                    Verdict::Ask(pending) => pending.await,
                };
                if let Some(decided) = opinions.add(answer) {
                    return decided;
                }
            }
            opinions.conclude()
        })
    }
}

/// Chain of which one authorizer waits for another server.
struct Begun {
    opinions: Opinions,
    pending: Pending,
}

/// Reasons and errors of authorizers without an opinion.
#[derive(Default)]
struct Opinions {
    reason: Option<Arc<str>>,
    errors: Vec<Arc<str>>,
}

impl Opinions {
    /// Adds an answer; returns it if it decides.
    fn add(&mut self, answer: Authorization) -> Option<Authorization> {
        self.errors.extend(answer.error.clone());
        if answer.decision != Decision::NoOpinion {
            return Some(answer);
        }
        self.reason = match (self.reason.take(), answer.reason) {
            (Some(before), Some(reason)) => Some(format!("{before}\n{reason}").into()),
            (before, reason) => before.or(reason),
        };
        None
    }

    fn conclude(self) -> Authorization {
        Authorization {
            decision: Decision::NoOpinion,
            reason: self.reason,
            error: (!self.errors.is_empty()).then(|| aggregate(&self.errors).into()),
        }
    }
}

/// upstream: k8s.io/apiserver/pkg/authorization/union#unionAuthzHandler.Authorize
impl Authorizer for Chain {
    fn authorize(&self, user: &User, attributes: &Attributes<'_>) -> Authorization {
        let mut opinions = Opinions::default();
        for link in self.0.iter() {
            if let Some(decided) = opinions.add(link.authorize(user, attributes)) {
                return decided;
            }
        }
        opinions.conclude()
    }

    fn start(&self, user: &User, attributes: &Attributes<'_>) -> Verdict {
        let mut opinions = Opinions::default();
        for (at, link) in self.0.iter().enumerate() {
            match link.start(user, attributes) {
                Verdict::Decided(answer) => {
                    if let Some(decided) = opinions.add(answer) {
                        return Verdict::Decided(decided);
                    }
                }
                Verdict::Ask(pending) => {
                    let begun = Begun { opinions, pending };
                    return Verdict::Ask(self.continue_later(at, begun, user, attributes));
                }
            }
        }
        Verdict::Decided(opinions.conclude())
    }

    fn rules(&self, user: &User, namespace: &str) -> UserRules {
        joined(self.0.iter().map(|authorizer| authorizer.rules(user, namespace)))
    }

    fn role_rules(&self, user: &User, namespace: &str) -> UserRules {
        joined(self.0.iter().map(|authorizer| authorizer.role_rules(user, namespace)))
    }

    fn generation(&self) -> u64 {
        let generations = self.0.iter().map(|authorizer| authorizer.generation());
        generations.fold(0, u64::wrapping_add)
    }
}

fn joined(parts: impl Iterator<Item = UserRules>) -> UserRules {
    let mut all = UserRules::default();
    for part in parts {
        all.rules.extend(part.rules);
        all.incomplete |= part.incomplete;
        all.errors.extend(part.errors);
    }
    all
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

    /// Has no opinion, but only after another server has answered.
    struct Remote;

    impl Authorizer for Remote {
        fn authorize(&self, _user: &User, _attributes: &Attributes<'_>) -> Authorization {
            Authorization {
                error: Some("no answer".into()),
                ..Authorization::NO_OPINION
            }
        }

        fn start(&self, user: &User, attributes: &Attributes<'_>) -> Verdict {
            let answer = self.authorize(user, attributes);
            Verdict::Ask(Box::pin(std::future::ready(answer)))
        }

        fn rules(&self, _user: &User, _namespace: &str) -> UserRules {
            UserRules::default()
        }
    }

    #[test]
    fn only_permissions_of_roles_may_be_granted_to_others() {
        let chain = Chain::new([Arc::new(AlwaysAllow) as Arc<dyn Authorizer>]);
        assert!(!chain.rules(&User::default(), "").rules.is_empty());
        assert!(chain.role_rules(&User::default(), "").rules.is_empty());
    }

    fn remote() -> Arc<dyn Authorizer> {
        Arc::new(Remote)
    }

    fn wait(verdict: Verdict) -> Authorization {
        let Verdict::Ask(mut pending) = verdict else {
            unreachable!("the chain asks")
        };
        let mut context = std::task::Context::from_waker(std::task::Waker::noop());
        match pending.as_mut().poll(&mut context) {
            std::task::Poll::Ready(answer) => answer,
            std::task::Poll::Pending => unreachable!("nothing waits"),
        }
    }

    #[test]
    fn chain_continues_after_remote_authorizer() {
        let alice = User::default();
        let ask = |chain: Chain| wait(chain.start(&alice, &LIVEZ));
        assert!(ask(Chain::new([deny(), remote(), remote(), allow()])).allows());
        let denied = ask(Chain::new([deny(), remote(), remote(), deny()]));
        assert_eq!(denied.reason(), "Everything is forbidden.\nEverything is forbidden.");
        assert_eq!(denied.error(), Some("no answer"), "equal errors are listed once");
        assert_eq!(
            denied,
            Chain::new([deny(), remote(), remote(), deny()]).authorize(&alice, &LIVEZ)
        );
    }

    #[test]
    fn local_decision_needs_no_other_server() {
        let chain = Chain::new([allow(), remote()]);
        assert!(matches!(chain.start(&User::default(), &LIVEZ), Verdict::Decided(answer) if answer.allows()));
    }
}
