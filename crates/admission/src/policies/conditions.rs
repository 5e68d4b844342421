//! Match conditions: which of the writes that the rules name are looked at
//! (<https://kubernetes.io/docs/reference/access-authn-authz/extensible-admission-controllers/#matching-requests-matchconditions>).

use std::time::{Duration, Instant};

use holdfast_cel::{Activation, Budget, PatternMemory, limits};
use holdfast_gotext::errors::aggregate;
use holdfast_resource::Field;
use holdfast_value::{SmolStr, Value};

use super::Needs;
use super::environment::Compiler;
use super::expression::{Expression, Failure};
use super::request::{Request, Scene};
use crate::webhooks::matching::Invocation;

/// An evaluation of the match conditions of a policy or a webhook, to be counted.
#[derive(Clone, Debug)]
pub struct ConditionCheck {
    /// The name of the policy or the webhook.
    pub name: SmolStr,
    /// How long it took.
    pub elapsed: Duration,
    /// How many conditions could not be evaluated.
    pub errors: usize,
}

/// The match conditions of a policy or a webhook.
#[derive(Debug, Default)]
pub struct Conditions(Vec<Expression>);

impl Conditions {
    /// Compiles the conditions in the list here.
    pub fn compile(conditions: &Field<'_, '_>, compiler: &mut Compiler) -> Self {
        let conditions = conditions.items().map(|condition| {
            let expression = condition.child("expression");
            Expression::new(expression.text(), compiler.condition(expression.text()))
        });
        Self(conditions.collect())
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether all conditions of what has this name hold. One false condition decides, even if others fail. What is to be
    /// counted comes to `checks`; without conditions there is nothing.
    ///
    /// # Errors
    /// Why the conditions cannot be evaluated.
    pub fn hold(
        &self,
        name: &SmolStr,
        activation: &Activation,
        checks: &mut Vec<ConditionCheck>,
    ) -> Result<bool, String> {
        if self.is_empty() {
            return Ok(true);
        }
        let (begun, mut failures) = (Instant::now(), Vec::new());
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

    /// Whether no condition is false. Those that cannot be evaluated come to `failures`.
    ///
    /// # Errors
    /// Where the conditions take too much to evaluate.
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

/// The match conditions of a webhook.
#[derive(Debug)]
pub struct Gate {
    conditions: Conditions,
    blank: Activation,
    needs: Needs,
}

impl Gate {
    /// Compiles the conditions in the list here, and their regular expressions into `patterns`.
    pub fn compile(conditions: &Field<'_, '_>, patterns: &PatternMemory) -> Self {
        let nothing = Value::empty_map();
        let mut compiler = Compiler::of(&Field::root(&nothing), patterns);
        let conditions = Conditions::compile(conditions, &mut compiler);
        let (blank, _, needs) = compiler.finish();
        Self {
            conditions,
            blank,
            needs,
        }
    }

    /// Whether all writes go through.
    pub fn is_open(&self) -> bool {
        self.conditions.is_empty()
    }

    /// Whether a write goes through to the webhook of this name, which would make the object be `object`. What is to be counted
    /// comes to `checks`.
    ///
    /// # Errors
    /// Why the conditions cannot be evaluated.
    pub fn admits(
        &self,
        name: &SmolStr,
        request: &Request<'_>,
        (invocation, object): (&Invocation, Option<&Value>),
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

    /// Whether the conditions hold, and how many of them were counted as failed.
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
        let mut compiler = Compiler::of(&Field::root(&spec), &PatternMemory::default());
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
