//! SelfSubjectRulesReview: all that the asker may do in a namespace.

use holdfast_authorization::Rule;
use holdfast_gotext::errors::aggregate;
use holdfast_resource::{Refusal, Review, WriteContext};
use holdfast_value::{List, Map, SmolStr, Value};

/// What SelfSubjectRulesReviews do.
pub(super) struct RulesReview;

impl Review for RulesReview {
    fn review(&self, context: &WriteContext<'_>, object: Value) -> Result<Value, Refusal> {
        let namespace = object.str_at(&["spec", "namespace"]).unwrap_or_default();
        if namespace.is_empty() {
            return Err(Refusal::BadRequest("no namespace on request".to_owned()));
        }
        let found = context.access.authorizer.rules(context.user, namespace);
        let (paths, resources): (Vec<&Rule>, Vec<&Rule>) =
            found.rules.iter().partition(|rule| !rule.non_resource_urls.is_empty());
        let mut status = Map::new();
        let shown = |rules: Vec<&Rule>| Value::List(rules.into_iter().map(shown).collect::<List>());
        status.insert("resourceRules", shown(resources));
        status.insert("nonResourceRules", shown(paths));
        status.insert("incomplete", Value::Bool(found.incomplete));
        if !found.errors.is_empty() {
            status.insert("evaluationError", Value::from(aggregate(&found.errors)));
        }
        // The answer is an object of its own, of which the question shows nothing.
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

fn shown(rule: &Rule) -> Value {
    let mut map = Map::new();
    let fields: [(&'static str, &[SmolStr]); 5] = [
        ("verbs", &rule.verbs),
        ("apiGroups", &rule.api_groups),
        ("resources", &rule.resources),
        ("resourceNames", &rule.resource_names),
        ("nonResourceURLs", &rule.non_resource_urls),
    ];
    for (name, texts) in fields {
        if !texts.is_empty() || name == "verbs" {
            let texts = texts.iter().map(|text| Value::from(text.clone()));
            map.insert(name, Value::List(texts.collect::<List>()));
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
