//! Evaluation of rules on an object.

use std::cell::OnceCell;
use std::sync::Arc;

use holdfast_cel::{Activation, Budget, CelValue, EvaluationError, Program};
use holdfast_schema::{FieldError, FieldPath, Findings};
use holdfast_value::{List, Map, Value};

use super::Rules;
use super::compile::OwnRule;
use crate::correlation::Correlation;
use crate::node::{Additional, Node};
use crate::value_path::{Step, ValuePath};

/// Maximum number of reported errors, and of warnings, of one object.
const MAX_REPORTED_ERRORS: usize = 1000;

/// Maximum length of a message that an expression returns, in bytes.
const MAX_MESSAGE: usize = 5 * 1024;

/// Shared cost limit of rules, which bounds the time for an object.
pub type RuleBudget = Budget<'static>;

impl Rules {
    /// Runs the rules on a value of the schema `node` from which they were compiled. `root` is the path of the value.
    /// With the old value (`old`), transition rules run too; `ratchets` means that failed rules only produce warnings
    /// for unchanged values.
    ///
    /// upstream: k8s.io/apiextensions-apiserver/pkg/apiserver/schema/cel#Validator.Validate
    pub fn validate(
        &self,
        node: &Node,
        value: &Value,
        old: Option<&Value>,
        ratchets: bool,
        root: &FieldPath,
        budget: &mut RuleBudget,
    ) -> Findings {
        let mut run = Run {
            root,
            budget,
            findings: Findings::default(),
            stopped: false,
        };
        let correlated = old.filter(|_| ratchets).map(|old| Correlated::new(node, value, old));
        let ratchet = Ratchet {
            current: correlated.as_ref(),
            nearest: None,
        };
        let visit = Visit {
            rules: self,
            node,
            old,
            ratchet,
            place: &ValuePath::ROOT,
        };
        run.value(value, visit);
        run.findings
    }
}

/// A value and its old value.
struct Correlated<'c> {
    node: &'c Node,
    value: &'c Value,
    old: &'c Value,
    same: OnceCell<bool>,
}

impl<'c> Correlated<'c> {
    fn new(node: &'c Node, value: &'c Value, old: &'c Value) -> Self {
        Self {
            node,
            value,
            old,
            same: OnceCell::new(),
        }
    }

    fn is_same(&self) -> bool {
        *self.same.get_or_init(|| self.node.is_same(self.value, self.old))
    }
}

/// Values that determine if anything changed: the value itself, and the nearest one above it that can be correlated
/// with an old value.
#[derive(Clone, Copy)]
struct Ratchet<'c> {
    current: Option<&'c Correlated<'c>>,
    nearest: Option<&'c Correlated<'c>>,
}

impl<'c> Ratchet<'c> {
    fn forgives(&self) -> bool {
        self.current.or(self.nearest).is_some_and(Correlated::is_same)
    }

    /// Returns the ratchet of a child, given its correlation.
    fn below<'b>(&self, child: Option<&'b Correlated<'b>>) -> Ratchet<'b>
    where
        'c: 'b,
    {
        Ratchet {
            current: child,
            nearest: self.current.or(self.nearest),
        }
    }
}

struct Run<'r> {
    root: &'r FieldPath,
    budget: &'r mut RuleBudget,
    findings: Findings,
    /// True if no further rule runs.
    stopped: bool,
}

const OUT_OF_BUDGET: &str =
    "validation failed due to running out of cost budget, no further validation rules will be run";

/// Target of a visit: the schema of a value with its rules, its old value, and its path.
#[derive(Clone, Copy)]
struct Visit<'v> {
    rules: &'v Rules,
    node: &'v Node,
    old: Option<&'v Value>,
    ratchet: Ratchet<'v>,
    place: &'v ValuePath<'v>,
}

impl Run<'_> {
    fn value(&mut self, value: &Value, visit: Visit<'_>) {
        if value.is_null() || self.stopped {
            return;
        }
        let old = visit.old.filter(|old| !old.is_null());
        let visit = Visit { old, ..visit };
        if !visit.rules.own.is_empty() {
            self.own(value, visit);
        }
        match value {
            Value::Map(map) => self.map(map, visit),
            Value::List(list) => self.list(list, visit),
            _ => {}
        }
    }

    fn map(&mut self, map: &Map, visit: Visit<'_>) {
        let Visit { rules, node, place, .. } = visit;
        if let (Some(below), Additional::Schema(of)) = (rules.additional.as_deref(), &node.additional) {
            for (name, value) in map {
                let place = place.below(Step::Other(name));
                self.field(name, value, below, of, &place, visit);
            }
        }
        for (name, below) in &rules.properties {
            if let (Some(value), Some(of)) = (map.get(name), node.property(name)) {
                let place = place.below(Step::Field(name));
                self.field(name, value, below, of, &place, visit);
            }
        }
    }

    /// Visits a field of the value of `above`, with the rules and the schema of the field.
    fn field(
        &mut self,
        name: &str,
        value: &Value,
        rules: &Rules,
        node: &Node,
        place: &ValuePath<'_>,
        above: Visit<'_>,
    ) {
        // Conversion sets kind and version, so a change of them means nothing.
        let identity = above.ratchet.nearest.is_none() && matches!(name, "apiVersion" | "kind");
        let before = above
            .ratchet
            .current
            .filter(|_| !identity)
            .and_then(|current| current.old.get(name));
        let correlated = before.map(|before| Correlated::new(node, value, before));
        let ratchet = if identity {
            Ratchet {
                current: None,
                nearest: None,
            }
        } else {
            above.ratchet.below(correlated.as_ref())
        };
        let old = above.old.and_then(|old| old.get(name));
        self.value(
            value,
            Visit {
                rules,
                node,
                old,
                ratchet,
                place,
            },
        );
    }

    fn list(&mut self, list: &List, visit: Visit<'_>) {
        let Visit {
            rules, node, ratchet, ..
        } = visit;
        let (Some(below), Some(of)) = (rules.items.as_deref(), node.items.as_deref()) else {
            return;
        };
        let before = visit.old.and_then(|old| Correlation::new(node, old));
        for (at, item) in list.iter().enumerate() {
            if self.stopped {
                return;
            }
            let old = before.as_ref().and_then(|before| before.old_item(item));
            let correlated = old
                .filter(|_| ratchet.current.is_some())
                .map(|old| Correlated::new(of, item, old));
            let visit = Visit {
                rules: below,
                node: of,
                old,
                ratchet: ratchet.below(correlated.as_ref()),
                place: &visit.place.below(Step::Item(at)),
            };
            self.value(item, visit);
        }
    }

    /// Runs the rules of the schema of the value itself.
    fn own(&mut self, value: &Value, visit: Visit<'_>) {
        let Visit { rules, place, .. } = visit;
        if self.budget.remaining() == 0 {
            self.invalid(rules, place, OUT_OF_BUDGET.to_owned());
            self.stopped = true;
            return;
        }
        let variables = match Variables::new(rules, value, visit.old) {
            Ok(variables) => variables,
            Err(error) => {
                for own in &rules.own {
                    self.invalid(rules, place, format!("{error} evaluating rule: {}", own.rule.name()));
                }
                return;
            }
        };
        for own in &rules.own {
            self.rule(own, &variables, value, visit);
            if self.findings.errors.len() >= MAX_REPORTED_ERRORS || self.findings.warnings.len() >= MAX_REPORTED_ERRORS
            {
                self.stopped = true;
            }
            if self.stopped {
                return;
            }
        }
    }

    /// upstream: k8s.io/apiextensions-apiserver/pkg/apiserver/schema/cel#Validator.validateExpressions
    fn rule(&mut self, own: &OwnRule, variables: &Variables<'_>, value: &Value, visit: Visit<'_>) {
        let Visit {
            rules, ratchet, place, ..
        } = visit;
        let program = match &own.compiled.program {
            Ok(Some(program)) => program,
            Ok(None) => return,
            Err(error) => return self.invalid(rules, place, format!("rule compile error: {error}")),
        };
        let optional = own.rule.optional_old_self == Some(true);
        if own.compiled.uses_old_self {
            match &variables.old {
                Some(Err(error)) => {
                    let detail = format!("{error} evaluating rule: {}", own.rule.name());
                    return self.invalid(rules, place, detail);
                }
                None if !optional => return,
                _ => {}
            }
        }
        let activation = if optional {
            variables.optional()
        } else {
            &variables.plain
        };
        let outcome = self.evaluate(program, activation);
        if self.budget.is_exhausted() {
            self.stopped = true;
            return self.invalid(rules, place, OUT_OF_BUDGET.to_owned());
        }
        match outcome {
            Ok(CelValue::Bool(true)) => return,
            Ok(_) => {}
            Err(error) => {
                self.stopped |= matches!(error, EvaluationError::CostLimitExceeded);
                return self.invalid(rules, place, failure(&error, own));
            }
        }
        let path = place.path(self.root);
        let path = if own.field.is_empty() {
            path
        } else {
            path.child(&own.field)
        };
        let error = match self.message(own, &variables.plain) {
            Ok(detail) => rejection(own, path, value, detail),
            Err(stopping) => {
                self.stopped = true;
                FieldError::invalid(&path, rules.type_name, stopping)
            }
        };
        if !own.compiled.uses_old_self && ratchet.forgives() {
            self.findings.warnings.push(error.to_string());
        } else {
            self.findings.errors.push(error);
        }
    }

    fn evaluate(&mut self, program: &Program, activation: &Activation) -> Result<CelValue, EvaluationError> {
        program.evaluate(activation, self.budget)
    }

    /// Returns the message of a failed rule; an error if evaluating it exceeds the budget.
    ///
    /// upstream: k8s.io/apiextensions-apiserver/pkg/apiserver/schema/cel#evalMessageExpression
    fn message(&mut self, own: &OwnRule, activation: &Activation) -> Result<String, String> {
        let Some(Ok(program)) = &own.compiled.message else {
            return Ok(own.rule.plain_message());
        };
        let outcome = self.evaluate(program, activation);
        if self.budget.is_exhausted() {
            return Err(
                "messageExpression evaluation failed due to running out of cost budget, no further validation rules will be run"
                    .to_owned(),
            );
        }
        if matches!(outcome, Err(EvaluationError::CostLimitExceeded)) {
            let text = own.rule.message_expression.as_str();
            return Err(format!(
                "no further validation rules will be run due to call cost exceeds limit for messageExpression: {text:?}"
            ));
        }
        let text = match &outcome {
            Ok(CelValue::String(text)) => text.trim(),
            _ => "",
        };
        if text.is_empty() || text.len() > MAX_MESSAGE || text.contains('\n') {
            return Ok(own.rule.plain_message());
        }
        Ok(text.to_owned())
    }

    fn invalid(&mut self, rules: &Rules, place: &ValuePath<'_>, detail: String) {
        let path = place.path(self.root);
        self.findings
            .errors
            .push(FieldError::invalid(&path, rules.type_name, detail));
    }
}

/// Returns the reason why a rule could not be evaluated.
///
/// upstream: k8s.io/apiextensions-apiserver/pkg/apiserver/schema/cel#Validator.validateExpressions
fn failure(error: &EvaluationError, own: &OwnRule) -> String {
    let name = own.rule.name();
    match error {
        error if error.is_no_such_overload() => format!(
            "'{error}': call arguments did not match a supported operator, function or macro signature for rule: {name}"
        ),
        EvaluationError::CostLimitExceeded => {
            format!(
                "'{error}': no further validation rules will be run due to call cost exceeds limit for rule: {name}"
            )
        }
        _ => format!("{error} evaluating rule: {name}"),
    }
}

/// Returns the error of a rule that failed. It contains the value unless that is a list or a map.
fn rejection(own: &OwnRule, path: FieldPath, value: &Value, detail: String) -> FieldError {
    let shown = (!matches!(value, Value::Map(_) | Value::List(_))).then(|| value.clone());
    match own.rule.reason.as_deref() {
        Some("FieldValueForbidden") => FieldError::forbidden(&path, detail),
        Some("FieldValueRequired") => FieldError::required(&path, detail),
        Some("FieldValueDuplicate") => FieldError {
            value: shown,
            ..FieldError::duplicate(&path, Value::Null)
        },
        _ => FieldError {
            value: shown,
            ..FieldError::invalid(&path, Value::Null, detail)
        },
    }
}

/// Variables of the rules of one value.
struct Variables<'v> {
    rules: &'v Rules,
    own: CelValue,
    /// An error if the old value does not fit the current schema.
    old: Option<Result<CelValue, EvaluationError>>,
    plain: Activation,
    /// The variables if `oldSelf` is optional.
    optional: OnceCell<Activation>,
}

impl<'v> Variables<'v> {
    fn new(rules: &'v Rules, value: &Value, old: Option<&Value>) -> Result<Self, EvaluationError> {
        let environment = &rules.environment;
        let own = CelValue::typed(value, environment.decl())?;
        let uses_old = rules.own.iter().any(|own| own.compiled.uses_old_self);
        let before = old
            .filter(|_| uses_old)
            .map(|old| CelValue::typed(old, environment.decl()));
        let mut plain = environment.activation(false, own.clone());
        if let Some(Ok(before)) = &before {
            plain.set("oldSelf", before.clone());
        }
        Ok(Self {
            rules,
            own,
            old: before,
            plain,
            optional: OnceCell::new(),
        })
    }

    fn optional(&self) -> &Activation {
        self.optional.get_or_init(|| {
            let existing = self.old.as_ref().and_then(|old| old.as_ref().ok());
            let old = CelValue::Optional(existing.cloned().map(Arc::new));
            let environment = &self.rules.environment;
            environment.activation(true, self.own.clone()).with("oldSelf", old)
        })
    }
}
