//! Kinds of the API group `authorization.k8s.io`: reviews, which are answered and never stored
//! (<https://kubernetes.io/docs/reference/access-authn-authz/authorization/#checking-api-access>).

mod access_review;
mod rules_review;

use holdfast_kind_tables::Kind;

use crate::config::Config;
use crate::kind;
use access_review::{About, AccessReview};

/// Returns the kind of the group with this plural resource name, with its capabilities.
pub(crate) fn kind_of(plural: &str, _config: &Config) -> Option<Kind> {
    let review = |about| {
        let review = kind::generic().review("", AccessReview(about));
        review.exempt_from_policies().done()
    };
    Some(match plural {
        "localsubjectaccessreviews" => review(About::UserInNamespace),
        "selfsubjectaccessreviews" => review(About::Asker),
        "selfsubjectrulesreviews" => rules_review::declare(),
        "subjectaccessreviews" => review(About::User),
        _ => return None,
    })
}
