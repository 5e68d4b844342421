//! SelfSubjectReview: the requester's identity, which `kubectl auth whoami` shows.

use holdfast_kind_tables::Kind;
use holdfast_resource::{Rejection, Review, WriteContext};
use holdfast_value::Value;

use super::user_info;
use crate::kind::generic;
use crate::time::time_text;

/// Review handler for SelfSubjectReviews.
pub(super) struct SelfSubjectReview;

/// Returns the kind with its capabilities.
pub(super) fn declare() -> Kind {
    generic().review("", SelfSubjectReview).exempt_from_policies().done()
}

impl Review for SelfSubjectReview {
    fn review(&self, context: &WriteContext<'_>, object: Value) -> Result<Value, Rejection> {
        // The response is a new object without the fields of the request.
        let mut answer = Value::empty_map();
        for field in ["kind", "apiVersion"] {
            answer.set_at(&[field], object.get(field).cloned().unwrap_or_default());
        }
        answer.set_at(&["metadata", "creationTimestamp"], time_text(context.now()));
        answer.set_at(&["status", "userInfo"], user_info(context.user));
        Ok(answer)
    }
}

#[cfg(test)]
mod tests {
    use crate::harness::Harness;

    #[test]
    fn the_answer_says_who_asks_and_nothing_of_the_question() {
        let review = "{apiVersion: authentication.k8s.io/v1, kind: SelfSubjectReview, metadata: {name: x}}";
        let answer = |path| Harness::new().answer(review, path).unwrap();
        assert_eq!(
            answer("status"),
            r#"{"userInfo":{"groups":["system:authenticated"],"username":"tester"}}"#
        );
        assert_eq!(answer("metadata"), r#"{"creationTimestamp":"2001-09-09T01:46:40Z"}"#);
    }
}
