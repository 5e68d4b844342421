//! The kinds of the group `authorization.k8s.io`: reviews, which are answered and never stored
//! (<https://kubernetes.io/docs/reference/access-authn-authz/authorization/#checking-api-access>).

mod access_review;
mod rules_review;

use std::sync::Arc;

use holdfast_resource::Strategy;

use crate::config::Config;
use access_review::{About, AccessReview};

/// What the kind behind a resource of this group does beyond the generic behaviour.
pub(crate) fn strategy(resource: &str, _config: &Config) -> Option<Arc<dyn Strategy>> {
    Some(match resource {
        "localsubjectaccessreviews" => Arc::new(AccessReview(About::UserInNamespace)),
        "selfsubjectaccessreviews" => Arc::new(AccessReview(About::Asker)),
        "selfsubjectrulesreviews" => Arc::new(rules_review::RulesReview),
        "subjectaccessreviews" => Arc::new(AccessReview(About::User)),
        _ => return None,
    })
}
