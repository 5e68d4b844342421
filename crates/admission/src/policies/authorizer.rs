//! The `authorizer` variable of expressions.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use holdfast_authorization::{
    AccessTarget, Attributes, Authorizer, ResourceTarget, User, service_account_groups, service_account_user,
};
use holdfast_cel::{Decision, Question, Subject};
use holdfast_resource::FieldSelector;
use holdfast_value::SmolStr;

/// Authorization checks in the expressions of one write; equal checks reach the authorizer once.
pub struct ExpressionAuthorizer {
    authorizer: Arc<dyn Authorizer>,
    user: Arc<User>,
    answers: Mutex<HashMap<Key, Decision>>,
}

/// Inputs of a check.
type Key = (Option<(SmolStr, SmolStr)>, SmolStr, String);

impl ExpressionAuthorizer {
    /// Creates the checks of the permissions of `user` with `authorizer`.
    pub fn new(authorizer: Arc<dyn Authorizer>, user: Arc<User>) -> Self {
        Self {
            authorizer,
            user,
            answers: Mutex::default(),
        }
    }

    fn decide(&self, question: &Question) -> Decision {
        let account = question
            .service_account
            .as_ref()
            .map(|(namespace, name)| service_account(namespace, name));
        let user = account.as_ref().unwrap_or(&self.user);
        let selector = match &question.subject {
            Subject::Resource(subject) => FieldSelector::parse(&subject.field_selector).unwrap_or_default(),
            Subject::Path(_) => FieldSelector::default(),
        };
        let target = match &question.subject {
            Subject::Path(path) => AccessTarget::Path(path),
            Subject::Resource(subject) => AccessTarget::Resource(ResourceTarget {
                group: &subject.group,
                version: "*",
                resource: &subject.resource,
                subresource: &subject.subresource,
                namespace: &subject.namespace,
                name: &subject.name,
                field_selector: selector.requirements(),
                label_selector: &subject.label_selector,
            }),
        };
        let attributes = Attributes {
            verb: &question.verb,
            target,
        };
        let decision = self.authorizer.authorize(user, &attributes);
        Decision {
            allowed: decision.allows(),
            reason: decision.reason().to_owned(),
            error: decision.error().map(str::to_owned),
        }
    }
}

fn service_account(namespace: &str, name: &str) -> User {
    User {
        name: service_account_user(namespace, name),
        groups: service_account_groups(namespace).to_vec(),
        ..User::default()
    }
}

impl fmt::Debug for ExpressionAuthorizer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ExpressionAuthorizer")
            .field("user", &self.user.name)
            .finish()
    }
}

impl holdfast_cel::Authorizer for ExpressionAuthorizer {
    fn authorize(&self, question: &Question) -> Decision {
        let key = (
            question.service_account.clone(),
            question.verb.clone(),
            format!("{:?}", question.subject),
        );
        let mut answers = self.answers.lock().unwrap_or_else(PoisonError::into_inner);
        answers.entry(key).or_insert_with(|| self.decide(question)).clone()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use holdfast_authorization::{Authorization, Decision, UserRules};
    use holdfast_cel::{Authorizer as _, ResourceSubject};

    use super::*;

    /// Allows all requests of service accounts of `ns`.
    #[derive(Default)]
    struct Counting(AtomicUsize);

    impl Authorizer for Counting {
        fn authorize(&self, user: &User, _attributes: &Attributes<'_>) -> Authorization {
            self.0.fetch_add(1, Ordering::Relaxed);
            Authorization::new(if user.is_in("system:serviceaccounts:ns") {
                Decision::Allow
            } else {
                Decision::NoOpinion
            })
        }

        fn rules(&self, _user: &User, _namespace: &str) -> UserRules {
            UserRules::default()
        }
    }

    #[test]
    fn a_question_is_passed_on_once_and_for_the_user_it_names() {
        let counting = Arc::new(Counting::default());
        let asking = ExpressionAuthorizer::new(counting.clone(), Arc::default());
        let question = |account: Option<&str>| Question {
            service_account: account.map(|name| ("ns".into(), name.into())),
            verb: "get".into(),
            subject: Subject::Resource(ResourceSubject::default()),
        };
        for _ in 0..3 {
            assert!(!asking.authorize(&question(None)).allowed);
            assert!(asking.authorize(&question(Some("robot"))).allowed);
        }
        assert_eq!(counting.0.load(Ordering::Relaxed), 2);
    }
}
