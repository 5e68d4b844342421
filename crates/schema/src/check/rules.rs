//! Checks of a kind in code, which the orders of types name.

use super::{Check, Part};
use crate::rule_names::{NoRule, RuleId, RuleSet};

/// Checks of values in code: one rule for each name with `@` in the orders of the types in a set.
///
/// An implementation matches all rules, so that a rule that the tags name and the code lacks does not compile.
pub trait Rules<'v> {
    /// The rules, as an enum that is generated from the validation tags.
    type Rule: RuleSet;

    /// Checks conditions of the struct at `part` that no validation tag expresses.
    fn rule(&self, rule: Self::Rule, part: &Part<'v, '_>, check: &mut Check<'_>);
}

/// Checks of changes in code, as [`Rules`] are those of values.
pub trait Changes<'v> {
    /// The rules, as an enum that is generated from the validation tags.
    type Change: RuleSet;

    /// Checks changes of the struct at `part` from `old` that no validation tag expresses.
    fn change(&self, change: Self::Change, part: &Part<'v, '_>, old: &Part<'v, '_>, check: &mut Check<'_>);
}

/// [`Rules`] of any set.
pub trait AnyRules<'v> {
    /// Runs the rule of that number.
    fn run_rule(&self, id: RuleId, part: &Part<'v, '_>, check: &mut Check<'_>);
}

/// [`Changes`] of any set.
pub trait AnyChanges<'v> {
    /// Runs the rule of that number.
    fn run_change(&self, id: RuleId, part: &Part<'v, '_>, old: &Part<'v, '_>, check: &mut Check<'_>);
}

impl<'v, R: Rules<'v>> AnyRules<'v> for R {
    fn run_rule(&self, id: RuleId, part: &Part<'v, '_>, check: &mut Check<'_>) {
        match R::Rule::from_id(id) {
            Some(rule) => self.rule(rule, part, check),
            None => check.other_rules(part),
        }
    }
}

impl<'v, C: Changes<'v>> AnyChanges<'v> for C {
    fn run_change(&self, id: RuleId, part: &Part<'v, '_>, old: &Part<'v, '_>, check: &mut Check<'_>) {
        match C::Change::from_id(id) {
            Some(change) => self.change(change, part, old, check),
            None => check.other_rules(part),
        }
    }
}

/// Rules of kinds whose validation tags cover everything.
pub struct NoRules;

impl<'v> Rules<'v> for NoRules {
    type Rule = NoRule;

    fn rule(&self, rule: NoRule, _part: &Part<'v, '_>, _check: &mut Check<'_>) {
        match rule {}
    }
}

impl<'v> Changes<'v> for NoRules {
    type Change = NoRule;

    fn change(&self, change: NoRule, _part: &Part<'v, '_>, _old: &Part<'v, '_>, _check: &mut Check<'_>) {
        match change {}
    }
}
