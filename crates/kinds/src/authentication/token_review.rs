//! TokenReview: the user of a bearer token.

use holdfast_kind_tables::Kind;
use holdfast_resource::access::{TokenError, TokenUser};
use holdfast_resource::table::items;
use holdfast_resource::{Rejection, Review, WriteContext};
use holdfast_value::{List, Value};

use super::user_info;
use crate::kind::generic;

/// Review handler for TokenReviews.
pub(super) struct TokenReview;

/// Returns the kind with its capabilities.
pub(super) fn declare() -> Kind {
    generic().review("", TokenReview).exempt_from_policies().done()
}

impl Review for TokenReview {
    /// upstream: pkg/registry/authentication/tokenreview#REST.Create
    fn review(&self, context: &WriteContext<'_>, object: Value) -> Result<Value, Rejection> {
        let Some((token, audiences)) = self.token_question(&object) else {
            let why = "token is required for TokenReview in authentication";
            return Err(Rejection::BadRequest(why.to_owned()));
        };
        let outcome = context.access.tokens.authenticate(token, &audiences);
        self.review_token(context, object, outcome)
    }

    fn token_question<'v>(&self, object: &'v Value) -> Option<(&'v str, Vec<&'v str>)> {
        let token = object.str_at(&["spec", "token"]).filter(|token| !token.is_empty())?;
        let audiences = items(object, &["spec", "audiences"]).iter().filter_map(Value::as_str);
        Some((token, audiences.collect()))
    }

    fn review_token(
        &self,
        context: &WriteContext<'_>,
        mut object: Value,
        outcome: Result<TokenUser, TokenError>,
    ) -> Result<Value, Rejection> {
        // If the token belongs to no user, the user that the client sent stays.
        let mut status = object
            .get("status")
            .and_then(Value::as_map)
            .cloned()
            .unwrap_or_default();
        status.remove("authenticated");
        match outcome {
            Ok(known) => {
                for (key, value) in known.annotations {
                    context.annotate(key, || value);
                }
                status.insert("authenticated", Value::Bool(true));
                status.insert("user", user_info(&known.user));
                let audiences = known.audiences.into_iter().map(Value::from);
                status.insert("audiences", Value::List(audiences.collect::<List>()));
            }
            Err(why) => {
                if status.get("user").is_none() {
                    status.insert("user", Value::empty_map());
                }
                status.insert("error", Value::from(why.to_string()));
            }
        }
        object.set_at(&["status"], Value::Map(status));
        Ok(object)
    }
}

#[cfg(test)]
mod tests {
    use crate::harness::Harness;

    #[test]
    fn an_unknown_token_has_no_user() {
        let review = "{apiVersion: authentication.k8s.io/v1, kind: TokenReview, spec: {token: TOKEN}}";
        let answer = |token| Harness::new().answer(&review.replace("TOKEN", token), "status");
        assert_eq!(
            answer("wrong").unwrap(),
            r#"{"error":"invalid bearer token","user":{}}"#
        );
        assert_eq!(
            answer("tester").unwrap(),
            r#"{"audiences":["here"],"authenticated":true,"user":{"groups":["system:authenticated"],"username":"tester"}}"#
        );
        assert_eq!(
            answer("''").unwrap_err(),
            [r#"BadRequest("token is required for TokenReview in authentication")"#]
        );
    }
}
