//! Match conditions of a webhook: CEL expressions over the review.

use std::sync::{Arc, LazyLock};

use holdfast_authorization::{Attributes, User};
use holdfast_cel::{
    Activation, Budget, CelValue, CompileError, DeclField, DeclType, Environment, ListType, Program, Type,
};
use holdfast_gotext::errors::aggregate;
use tokio::time::Instant;

use super::review::condition_input;

const REQUEST: &str = "request";

/// Type of the variable `request`.
static REQUEST_TYPE: LazyLock<Arc<DeclType>> = LazyLock::new(|| Arc::new(request_type()));

static ENVIRONMENT: LazyLock<Environment> = LazyLock::new(|| {
    let environment = Environment::new();
    environment.with_named_object(REQUEST, "kubernetes.SubjectAccessReviewSpec", Arc::clone(&REQUEST_TYPE))
});

/// Compiled match conditions.
#[derive(Debug, Default)]
pub struct MatchConditions(Vec<Condition>);

#[derive(Debug)]
struct Condition {
    text: String,
    program: Program,
}

impl MatchConditions {
    /// Compiles `expression` and adds it.
    ///
    /// # Errors
    /// If it is no expression of type bool.
    ///
    /// upstream: k8s.io/apiserver/pkg/authorization/cel#compiler.CompileCELExpression
    pub(super) fn add(&mut self, expression: &str) -> Result<(), String> {
        let compiled = ENVIRONMENT.compile(expression, &[Type::Bool]);
        let program = compiled.map_err(|error: CompileError| error.to_string())?;
        let text = expression.to_owned();
        self.0.push(Condition { text, program });
        Ok(())
    }

    /// True if there are none, so that all requests match.
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// True if all conditions are true for the request.
    ///
    /// # Errors
    /// If the evaluation of a condition fails and none is false.
    ///
    /// upstream: k8s.io/apiserver/pkg/authorization/cel#CELMatcher.Eval
    pub(super) fn matches(&self, user: &User, attributes: &Attributes<'_>) -> Result<bool, String> {
        let input = CelValue::typed(&condition_input(user, attributes), &REQUEST_TYPE);
        let activation = Activation::new(&ENVIRONMENT).with(REQUEST, input.map_err(|error| error.to_string())?);
        let mut errors = Vec::new();
        for Condition { text, program } in &self.0 {
            match program.evaluate(&activation, &mut Budget::default()) {
                Ok(CelValue::Bool(true)) => {}
                Ok(CelValue::Bool(false)) => return Ok(false),
                Ok(_) => errors.push(format!(
                    "cel evaluation error: expression '{text}' eval result type should be bool"
                )),
                Err(error) => errors.push(format!(
                    "cel evaluation error: expression '{text}' resulted in error: {error}"
                )),
            }
        }
        match errors.is_empty() {
            true => Ok(true),
            false => Err(aggregate(&errors)),
        }
    }

    /// Returns the result of [`MatchConditions::matches`] and its duration in seconds.
    pub(super) fn timed(&self, user: &User, attributes: &Attributes<'_>) -> Match {
        let began = Instant::now();
        let outcome = self.matches(user, attributes);
        Match {
            outcome,
            seconds: began.elapsed().as_secs_f64(),
        }
    }
}

/// Result of the evaluation of all conditions.
pub(super) struct Match {
    /// True if the request matches, or the error of a condition.
    pub(super) outcome: Result<bool, String>,
    /// Duration of the evaluation in seconds.
    pub(super) seconds: f64,
}

fn text() -> DeclType {
    DeclType::string(None)
}

fn texts() -> DeclType {
    DeclType::list(text(), None, ListType::Atomic)
}

fn object(fields: impl IntoIterator<Item = (&'static str, DeclType)>) -> DeclType {
    let fields = fields.into_iter().map(|(name, decl)| DeclField::new(name, decl, false));
    DeclType::object(fields.flatten())
}

fn selector_type() -> DeclType {
    let requirement = object([("key", text()), ("operator", text()), ("values", texts())]);
    let requirements = DeclType::list(requirement, None, ListType::Atomic);
    object([("rawSelector", text()), ("requirements", requirements)])
}

/// upstream: k8s.io/apiserver/pkg/authorization/cel#buildRequestType
fn request_type() -> DeclType {
    let names = [
        "namespace",
        "verb",
        "group",
        "version",
        "resource",
        "subresource",
        "name",
    ];
    let resource = names.map(|name| (name, text()));
    let selectors = ["fieldSelector", "labelSelector"].map(|name| (name, selector_type()));
    object([
        ("resourceAttributes", object(resource.into_iter().chain(selectors))),
        ("nonResourceAttributes", object([("path", text()), ("verb", text())])),
        ("user", text()),
        ("groups", texts()),
        ("extra", DeclType::map(texts(), None)),
        ("uid", text()),
    ])
}

#[cfg(test)]
mod tests {
    use holdfast_authorization::{AccessTarget, ResourceTarget};

    use super::*;

    fn matches(expressions: &[&str]) -> Result<bool, String> {
        let mut conditions = MatchConditions::default();
        for expression in expressions {
            conditions.add(expression).unwrap();
        }
        let user = User {
            name: "alice".into(),
            groups: vec!["devs".into()],
            ..User::default()
        };
        let target = AccessTarget::Resource(ResourceTarget {
            resource: "pods",
            namespace: "a",
            label_selector: "app=web",
            ..ResourceTarget::default()
        });
        conditions.matches(&user, &Attributes { verb: "list", target })
    }

    #[test]
    fn conditions_see_the_review() {
        for expression in [
            "has(request.resourceAttributes) && request.resourceAttributes.namespace == 'a'",
            "!has(request.nonResourceAttributes)",
            "request.user == 'alice' && 'devs' in request.groups && request.uid == ''",
            "request.resourceAttributes.subresource == ''",
            "request.resourceAttributes.labelSelector.requirements.exists(r, r.key == 'app' && r.values == ['web'])",
            "!has(request.resourceAttributes.fieldSelector)",
            "!('k' in request.extra)",
        ] {
            assert_eq!(matches(&[expression]), Ok(true), "{expression}");
        }
    }

    #[test]
    fn false_condition_excludes_despite_errors() {
        let failing = "request.nonResourceAttributes.path == '/'";
        assert_eq!(matches(&[failing, "request.user == 'bob'"]), Ok(false));
        let error = matches(&["true", failing]).unwrap_err();
        assert!(
            error.starts_with(&format!(
                "cel evaluation error: expression '{failing}' resulted in error: "
            )),
            "{error}"
        );
        assert_eq!(matches(&[]), Ok(true));
    }

    #[test]
    fn expression_of_other_type_is_rejected() {
        let error = |text| MatchConditions::default().add(text).unwrap_err();
        assert_eq!(error("request.user"), "must evaluate to bool but got string");
        assert!(
            error("request.nobody").starts_with("compilation failed: "),
            "{}",
            error("request.nobody")
        );
    }
}
