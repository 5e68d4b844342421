//! Match conditions: which of the writes that the rules name are looked at
//! (<https://kubernetes.io/docs/reference/access-authn-authz/extensible-admission-controllers/#matching-requests-matchconditions>).

use holdfast_cel::{Activation, Budget, PatternMemory, limits};
use holdfast_gotext::errors::aggregate;
use holdfast_resource::Field;
use holdfast_value::Value;

use super::Needs;
use super::environment::Compiler;
use super::expression::{Expression, Failure};
use super::request::{Request, Scene};
use crate::webhooks::matching::Invocation;

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

    /// Whether all conditions hold. One that does not decides, whatever happens to the others.
    ///
    /// # Errors
    /// Why it cannot be said.
    pub fn hold(&self, activation: &Activation) -> Result<bool, String> {
        let mut budget = Budget::new(limits::PER_CALL, limits::MATCH_CONDITIONS);
        let mut failures = Vec::new();
        for condition in &self.0 {
            match condition.evaluate(activation, &mut budget) {
                Ok(value) if value.as_bool() == Some(false) => return Ok(false),
                Ok(_) => {}
                Err(failure @ Failure::OutOfBudget) => return Err(failure.message()),
                Err(failure) => failures.push(failure.message()),
            }
        }
        match failures.is_empty() {
            true => Ok(true),
            false => Err(aggregate(&failures)),
        }
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

    /// Whether a write goes through, which would make the object be `object`.
    ///
    /// # Errors
    /// Why it cannot be said.
    pub fn admits(
        &self,
        request: &Request<'_>,
        invocation: &Invocation,
        object: Option<&Value>,
    ) -> Result<bool, String> {
        let scene = Scene::new(request);
        let activation = scene.activation(&self.blank, self.needs, invocation, object, None)?;
        self.conditions.hold(&activation)
    }
}

#[cfg(test)]
mod tests {
    use holdfast_cel::CelValue;
    use holdfast_value::{Limits, Value, yaml};

    use super::*;

    fn held(conditions: &[&str], object: &str) -> Result<bool, String> {
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
        conditions.hold(&blank.with("object", CelValue::untyped(&parse(object))))
    }

    #[test]
    fn one_condition_that_does_not_hold_decides() {
        let object = "{a: 1}";
        assert_eq!(held(&[], object), Ok(true));
        assert_eq!(held(&["object.a == 1", "object.a > 0"], object), Ok(true));
        assert_eq!(held(&["object.b == 1", "object.a > 1"], object), Ok(false));
    }

    #[test]
    fn errors_are_told_together() {
        assert_eq!(
            held(&["object.b == 1", "object.c == 1", "object.b == 1"], "{a: 1}"),
            Err("[expression 'object.b == 1' resulted in error: no such key: b, \
                 expression 'object.c == 1' resulted in error: no such key: c]"
                .to_owned())
        );
    }
}
