//! Match conditions: they restrict the writes that match the rules
//! (<https://kubernetes.io/docs/reference/access-authn-authz/extensible-admission-controllers/#matching-requests-matchconditions>).

use std::time::Duration;

use holdfast_cel::{Activation, Budget, PatternMemory, limits};
use holdfast_gotext::errors::aggregate;
use holdfast_limits::Stopwatch;
use holdfast_schema::Field;
use holdfast_value::{SmolStr, Value};

use super::Needs;
use super::environment::Compiler;
use super::expression::{Expression, Failure};
use super::request::{Request, Scene};
use crate::webhooks::matching::Invocation;

/// An evaluation of the match conditions of a policy or a webhook, for metrics.
#[derive(Clone, Debug)]
pub struct ConditionCheck {
    /// Name of the policy or the webhook.
    pub name: SmolStr,
    /// Duration.
    pub elapsed: Duration,
    /// Number of conditions that could not be evaluated.
    pub errors: usize,
}

/// Match conditions of a policy or a webhook.
#[derive(Debug, Default)]
pub struct Conditions(Vec<Expression>);

impl Conditions {
    /// Compiles the conditions in this list.
    pub fn compile(conditions: &Field<'_, '_>, compiler: &mut Compiler) -> Self {
        let conditions = conditions.items().map(|condition| {
            let expression = condition.child("expression");
            Expression::new(expression.text(), compiler.condition(expression.text()))
        });
        Self(conditions.collect())
    }

    /// Returns true if there are no conditions.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns true if all conditions of the policy or webhook `name` are true. One false condition decides, even if
    /// others fail. Appends the evaluation to `checks`, unless there are no conditions.
    ///
    /// # Errors
    /// If the conditions cannot be evaluated; the error is the message.
    pub fn hold(
        &self,
        name: &SmolStr,
        activation: &Activation,
        checks: &mut Vec<ConditionCheck>,
    ) -> Result<bool, String> {
        if self.is_empty() {
            return Ok(true);
        }
        let (begun, mut failures) = (Stopwatch::start(), Vec::new());
        let held = self.evaluate(activation, &mut failures);
        checks.push(ConditionCheck {
            name: name.clone(),
            elapsed: begun.elapsed(),
            errors: failures.len(),
        });
        match held {
            Ok(true) if !failures.is_empty() => Err(aggregate(&failures)),
            held => held,
        }
    }

    /// Returns true if no condition is false. Appends the errors of failed conditions to `failures`.
    ///
    /// # Errors
    /// If the conditions exceed the evaluation budget.
    fn evaluate(&self, activation: &Activation, failures: &mut Vec<String>) -> Result<bool, String> {
        let mut budget = Budget::new(limits::PER_CALL, limits::MATCH_CONDITIONS);
        for condition in &self.0 {
            match condition.evaluate(activation, &mut budget) {
                Ok(value) if value.as_bool() == Some(false) => return Ok(false),
                Ok(_) => {}
                Err(failure @ Failure::OutOfBudget) => return Err(failure.message()),
                Err(failure) => failures.push(failure.message()),
            }
        }
        Ok(true)
    }
}

/// Match conditions of a webhook.
#[derive(Debug)]
pub struct Gate {
    conditions: Conditions,
    blank: Activation,
    needs: Needs,
}

impl Gate {
    /// Compiles the conditions in this list, and their regular expressions into `patterns`.
    pub fn compile(conditions: &Field<'_, '_>, patterns: &PatternMemory) -> Self {
        let nothing = Value::empty_map();
        let mut compiler = Compiler::for_policy(&Field::root(&nothing), patterns);
        let conditions = Conditions::compile(conditions, &mut compiler);
        let (blank, _, needs) = compiler.finish();
        Self {
            conditions,
            blank,
            needs,
        }
    }

    /// Returns true if all writes match.
    pub fn is_open(&self) -> bool {
        self.conditions.is_empty()
    }

    /// Returns true if a write that results in `object` matches the conditions of the webhook of this name. Appends the
    /// evaluation to `checks`.
    ///
    /// # Errors
    /// If the conditions cannot be evaluated; the error is the message.
    pub fn admits(
        &self,
        name: &SmolStr,
        request: &Request<'_>,
        invocation: &Invocation,
        object: Option<&Value>,
        checks: &mut Vec<ConditionCheck>,
    ) -> Result<bool, String> {
        let scene = Scene::new(request);
        let activation = scene.activation(&self.blank, self.needs, invocation, object, None)?;
        self.conditions.hold(name, &activation, checks)
    }
}

#[cfg(test)]
mod tests {
    use holdfast_cel::CelValue;
    use holdfast_value::{Limits, Value, yaml};

    use super::*;

    /// Returns the result of the conditions, and the number of errors in each counted check.
    fn held(conditions: &[&str], object: &str) -> (Result<bool, String>, Vec<usize>) {
        let parse = |text: &str| yaml::parse(text.as_bytes(), &Limits::TRUSTED).unwrap();
        let list: Vec<Value> = conditions
            .iter()
            .map(|text| {
                let mut condition = Value::empty_map();
                condition.set_at(&["expression"], (*text).into());
                condition
            })
            .collect();
        let list = Value::from(list);
        let spec = Value::empty_map();
        let mut compiler = Compiler::for_policy(&Field::root(&spec), &PatternMemory::default());
        let conditions = Conditions::compile(&Field::root(&list), &mut compiler);
        let (blank, ..) = compiler.finish();
        let (activation, mut checks) = (blank.with("object", CelValue::untyped(&parse(object))), Vec::new());
        let held = conditions.hold(&"a".into(), &activation, &mut checks);
        (held, checks.into_iter().map(|check| check.errors).collect())
    }

    #[test]
    fn one_condition_that_does_not_hold_decides() {
        let object = "{a: 1}";
        assert_eq!(held(&[], object), (Ok(true), vec![]));
        assert_eq!(held(&["object.a == 1", "object.a > 0"], object), (Ok(true), vec![0]));
        assert_eq!(held(&["object.b == 1", "object.a > 1"], object), (Ok(false), vec![1]));
    }

    #[test]
    fn errors_are_reported_together() {
        assert_eq!(
            held(&["object.b == 1", "object.c == 1", "object.b == 1"], "{a: 1}"),
            (
                Err("[expression 'object.b == 1' resulted in error: no such key: b, \
                     expression 'object.c == 1' resulted in error: no such key: c]"
                    .to_owned()),
                vec![3]
            )
        );
    }
}
