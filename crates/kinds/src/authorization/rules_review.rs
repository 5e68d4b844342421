//! SelfSubjectRulesReview: all permissions of the requester in a namespace.

use holdfast_authorization::Rule;
use holdfast_gotext::errors::aggregate;
use holdfast_kind_tables::Kind;
use holdfast_resource::{Rejection, Review, WriteContext};
use holdfast_value::{List, Map, SmolStr, Value};

use crate::kind::generic;

/// Review handler for SelfSubjectRulesReviews.
pub(super) struct RulesReview;

/// Returns the kind with its capabilities.
pub(super) fn declare() -> Kind {
    generic().review("", RulesReview).exempt_from_policies().done()
}

impl Review for RulesReview {
    /// upstream: pkg/registry/authorization/selfsubjectrulesreview#REST.Create
    fn review(&self, context: &WriteContext<'_>, object: Value) -> Result<Value, Rejection> {
        let namespace = object.str_at(&["spec", "namespace"]).unwrap_or_default();
        if namespace.is_empty() {
            return Err(Rejection::BadRequest("no namespace on request".to_owned()));
        }
        let found = context.access.authorizer.rules(context.user, namespace);
        let mut status = Map::new();
        // A rule with resources and paths is listed twice. A rule with neither is not listed.
        for (list, kind, fields) in [
            ("resourceRules", "resources", &RESOURCE_FIELDS[..]),
            ("nonResourceRules", "nonResourceURLs", &PATH_FIELDS[..]),
        ] {
            let rules = found
                .rules
                .iter()
                .filter(|rule| !texts(rule, kind).is_empty())
                .map(|rule| listed(rule, fields));
            status.insert(list, Value::List(rules.collect::<List>()));
        }
        status.insert("incomplete", Value::Bool(found.incomplete));
        if !found.errors.is_empty() {
            status.insert("evaluationError", Value::from(aggregate(&found.errors)));
        }
        // The response is a new object without the fields of the request.
        let mut answer = Value::empty_map();
        for field in ["kind", "apiVersion"] {
            answer.set_at(&[field], object.get(field).cloned().unwrap_or_default());
        }
        answer.set_at(&["metadata"], Value::empty_map());
        answer.set_at(&["spec"], Value::empty_map());
        answer.set_at(&["status"], Value::Map(status));
        Ok(answer)
    }
}

/// Fields of a rule in the lists of the response.
const RESOURCE_FIELDS: [&str; 4] = ["verbs", "apiGroups", "resources", "resourceNames"];
const PATH_FIELDS: [&str; 2] = ["verbs", "nonResourceURLs"];

fn texts<'r>(rule: &'r Rule, field: &str) -> &'r [SmolStr] {
    match field {
        "verbs" => &rule.verbs,
        "apiGroups" => &rule.api_groups,
        "resources" => &rule.resources,
        "resourceNames" => &rule.resource_names,
        _ => &rule.non_resource_urls,
    }
}

fn listed(rule: &Rule, fields: &[&'static str]) -> Value {
    let mut map = Map::new();
    for name in fields {
        let texts = texts(rule, name);
        if !texts.is_empty() || *name == "verbs" {
            let texts = texts.iter().map(|text| Value::from(text.clone()));
            map.insert(*name, Value::List(texts.collect::<List>()));
        }
    }
    Value::Map(map)
}

#[cfg(test)]
mod tests {
    use crate::harness::Harness;

    const REVIEW: &str = "{apiVersion: authorization.k8s.io/v1, kind: SelfSubjectRulesReview, spec: SPEC}";

    #[test]
    fn rules_of_resources_and_of_paths_are_listed_apart() {
        let review = REVIEW.replace("SPEC", "{namespace: default}");
        assert_eq!(
            Harness::new().answer(&review, "status").unwrap(),
            r#"{"incomplete":false,"nonResourceRules":[{"nonResourceURLs":["*"],"verbs":["*"]}],"resourceRules":[{"apiGroups":["*"],"resources":["*"],"verbs":["*"]}]}"#
        );
        assert_eq!(Harness::new().answer(&review, "spec").unwrap(), "{}");
    }

    #[test]
    fn a_namespace_is_needed() {
        let review = REVIEW.replace("SPEC", "{}");
        assert_eq!(
            Harness::new().answer(&review, "status").unwrap_err(),
            [r#"BadRequest("no namespace on request")"#]
        );
    }
}
