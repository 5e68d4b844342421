//! Validation of CEL rules in CRDs: their text, compilation and cost.

use std::sync::Arc;

use holdfast_cel::limits::{ESTIMATED_RULE, ESTIMATED_SCHEMA, excess};
use holdfast_cel::{DeclType, Environment, Program};
use holdfast_limits::Stopwatch;
use holdfast_schema::types::ListType;
use holdfast_schema::{FieldError, FieldErrorKind, FieldPath};
use holdfast_structural::{Additional, JsonType, Node, Rule, RuleEnvironment, RuleTimings};
use holdfast_value::Value;

use super::items;
use super::structural::unreadable;
use crate::validation::Errors;

/// Number of the most expensive rules that are reported if the total cost is too high.
const MAX_REPORTED: usize = 4;

/// Schema keyword of CEL rules.
const RULES: &str = "x-kubernetes-validations";

/// Validates the texts of the rules of a schema and of all nested schemas. `node` was parsed from `schema`.
///
/// upstream: k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/validation#ValidateCustomResourceDefinitionOpenAPISchema
pub(super) fn words(schema: &Value, node: &Node, field: &FieldPath, errors: &mut Errors) {
    let below = |path: &[&str]| schema.at(path).unwrap_or(&Value::Null);
    if let Additional::Schema(of) = &node.additional {
        let field = field.child("additionalProperties");
        words(below(&["additionalProperties"]), of, &field, errors);
    }
    for (name, of) in &node.properties {
        let field = field.child("properties").key(name);
        words(below(&["properties", name]), of, &field, errors);
    }
    for (junctor, at, of) in node.choices() {
        let field = field.child(junctor);
        let (schema, field) = match at {
            Some(at) => (items(schema, junctor).get(at), field.index(at)),
            None => (schema.get(junctor), field),
        };
        words(schema.unwrap_or(&Value::Null), of, &field, errors);
    }
    if let Some(of) = node.items.as_deref() {
        words(below(&["items"]), of, &field.child("items"), errors);
    }
    for (at, rule) in node.rules.iter().enumerate() {
        let field = field.child(RULES).index(at);
        message(rule, &field, errors);
        let expression = &rule.message_expression;
        if !expression.is_empty() && expression.trim().is_empty() {
            let why = "messageExpression must be non-empty if specified";
            errors.push(FieldError::required(&field.child("messageExpression"), why));
        }
        if let Some(reason) = rule
            .reason
            .as_deref()
            .filter(|reason| !Rule::reasons().contains(reason))
        {
            let error = FieldError::not_supported(&field.child("reason"), reason, Rule::reasons());
            errors.push(error);
        }
        let path = rule.field_path.as_str();
        let mut invalid = |why| errors.push(FieldError::invalid(&field.child("fieldPath"), path, why));
        if path.is_empty() {
            continue;
        }
        if path.trim().is_empty() {
            invalid("must be non-empty if specified");
        }
        if has_breaks(path) {
            invalid("must not contain line breaks");
        }
        if node.field_path(path).is_err() && unreadable(schema).is_none() {
            invalid("must be a valid path");
        }
    }
}

/// upstream: k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/validation#ValidateCustomResourceDefinitionOpenAPISchema
fn message(rule: &Rule, field: &FieldPath, errors: &mut Errors) {
    let (text, message) = (rule.rule.trim(), rule.message.as_str());
    let invalid = |why: &str| FieldError::invalid(&field.child("message"), message, why);
    let error = if text.is_empty() {
        FieldError::required(&field.child("rule"), "rule is not specified")
    } else if !message.is_empty() && message.trim().is_empty() {
        invalid("must be non-empty if specified")
    } else if has_breaks(message.trim()) {
        invalid("must not contain line breaks")
    } else if has_breaks(text) && message.trim().is_empty() {
        let why = "message must be specified if rule contains line breaks";
        FieldError::required(&field.child("message"), why)
    } else {
        return;
    };
    errors.push(error);
}

fn has_breaks(text: &str) -> bool {
    text.contains(['\n', '\r'])
}

/// Validates the expressions of a structural schema with valid defaults. `wrong` are the other errors of the schema:
/// rules above them are skipped. If the schema is `unchanged`, only the total cost of its rules has a limit. `timings`
/// records the compilation times.
pub(super) fn expressions(
    schema: &Node,
    field: &FieldPath,
    wrong: &[FieldError],
    unchanged: bool,
    timings: &RuleTimings,
) -> Errors {
    let mut wrong: Vec<&str> = wrong.iter().map(|error| error.field.as_str()).collect();
    wrong.sort_unstable();
    let mut walk = RuleCheck {
        wrong,
        unchanged,
        timings,
        base: Environment::new(),
        errors: Errors::new(),
        total: 0,
        most_expensive: Vec::new(),
    };
    if schema.leads_to_rules() {
        let root = Level {
            node: schema,
            decl: schema.decl_type(true).map(Arc::new),
            cardinality: Some(1),
            uncorrelatable: None,
        };
        walk.level(&root, field);
    }
    walk.finish(field)
}

/// A schema during the traversal.
struct Level<'n> {
    node: &'n Node,
    decl: Option<Arc<DeclType>>,
    /// Maximum number of its values in an object; `None` if it is unbounded.
    cardinality: Option<u64>,
    /// Outermost list or map above whose items cannot be correlated with the old ones.
    uncorrelatable: Option<FieldPath>,
}

impl<'n> Level<'n> {
    /// Returns the level of the child `node`, which is declared as `decl`.
    fn below(&self, node: &'n Node, decl: Option<Arc<DeclType>>) -> Level<'n> {
        Level {
            node,
            decl: decl.or_else(|| node.decl_type(node.embedded).map(Arc::new)),
            cardinality: self.most_below(),
            uncorrelatable: self.uncorrelatable.clone(),
        }
    }

    fn most_below(&self) -> Option<u64> {
        let checks = self.node.checks.as_deref();
        let most = match (self.node.kind, &self.node.additional) {
            (Some(JsonType::Object), Additional::Unsaid) => Some(1),
            (Some(JsonType::Object), _) => checks?.max_properties.map(at_least_zero),
            (Some(JsonType::Array), _) => checks?.max_items.map(at_least_zero),
            _ => Some(1),
        };
        Some(self.cardinality?.saturating_mul(most?))
    }
}

fn at_least_zero(bound: i64) -> u64 {
    u64::try_from(bound).unwrap_or_default()
}

struct RuleCheck<'w> {
    /// Fields with other errors, sorted.
    wrong: Vec<&'w str>,
    unchanged: bool,
    timings: &'w RuleTimings,
    base: Environment,
    errors: Errors,
    /// Total cost of all expressions.
    total: u64,
    /// Most expensive expressions in descending order of cost.
    most_expensive: Vec<(u64, FieldPath)>,
}

impl RuleCheck<'_> {
    fn level(&mut self, level: &Level<'_>, field: &FieldPath) {
        let (node, decl) = (level.node, level.decl.as_ref());
        if let Additional::Schema(of) = &node.additional
            && of.leads_to_rules()
        {
            let decl = decl.and_then(|decl| decl.property("")).cloned();
            self.level(&level.below(of, decl), &field.child("additionalProperties"));
        }
        for (name, of) in &node.properties {
            if of.leads_to_rules() {
                // If there are additional properties too, which is rejected, the declaration is that of those.
                let decl = decl
                    .filter(|_| !matches!(node.additional, Additional::Schema(_)))
                    .and_then(|decl| decl.property(name))
                    .cloned();
                let mut below = level.below(of, decl);
                if node.unknown_map_type && below.uncorrelatable.is_none() {
                    below.uncorrelatable = Some(field.clone());
                }
                self.level(&below, &field.child("properties").key(name));
            }
        }
        if let Some(of) = node.items.as_deref().filter(|of| of.leads_to_rules()) {
            let mut below = level.below(of, decl.and_then(|decl| decl.items()).cloned());
            if node.list_type != Some(ListType::Map) && below.uncorrelatable.is_none() {
                below.uncorrelatable = Some(field.clone());
            }
            self.level(&below, &field.child("items"));
        }
        if !node.rules.is_empty() && !self.is_wrong(field) {
            self.rules(level, field);
        }
    }

    /// Returns true if there is another error at a schema or below it.
    fn is_wrong(&self, field: &FieldPath) -> bool {
        ["", ".", "["].iter().any(|next| {
            let beginning = [field.as_str(), next].concat();
            let place = self.wrong.partition_point(|wrong| *wrong < beginning.as_str());
            let first = self.wrong.get(place);
            first.is_some_and(|wrong| {
                if next.is_empty() {
                    *wrong == beginning
                } else {
                    wrong.starts_with(&beginning)
                }
            })
        })
    }

    /// upstream: k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/validation#ValidateCustomResourceDefinitionOpenAPISchema
    fn rules(&mut self, level: &Level<'_>, field: &FieldPath) {
        let field = field.child(RULES);
        let Some(decl) = &level.decl else {
            let why = "internal error: failed to construct type information for x-kubernetes-validations rules: unable to convert structural schema to CEL declarations";
            self.errors.push(FieldError {
                kind: FieldErrorKind::Internal,
                field,
                value: None,
                detail: why.to_owned(),
            });
            return;
        };
        let times = level.cardinality.unwrap_or_else(|| decl.max_cardinality());
        let begun = Stopwatch::start();
        let environment = RuleEnvironment::new(&self.base, Arc::clone(decl));
        let rules: Vec<_> = level
            .node
            .rules
            .iter()
            .map(|rule| (rule, environment.compile(rule)))
            .collect();
        self.timings.compiled(begun.elapsed());
        for (at, (rule, compiled)) in rules.into_iter().enumerate() {
            let field = field.index(at);
            match &compiled.program {
                Ok(Some(program)) => self.cost(program, times, "estimated rule cost", field.child("rule")),
                Ok(None) => {}
                Err(error) => self.errors.push(refused(&field.child("rule"), rule, error)),
            }
            match &compiled.message {
                Some(Ok(program)) => {
                    let field = field.child("messageExpression");
                    self.cost(program, 1, "estimated messageExpression cost", field);
                }
                Some(Err(error)) => {
                    let error = refused(&field.child("messageExpression"), rule, error);
                    self.errors.push(error);
                }
                None => {}
            }
            match (&level.uncorrelatable, compiled.uses_old_self, rule.optional_old_self) {
                (Some(place), true, _) => {
                    let why =
                        format!("oldSelf cannot be used on the uncorrelatable portion of the schema within {place}");
                    let error = FieldError::invalid(&field.child("rule"), rule.rule.clone(), why);
                    self.errors.push(error);
                }
                (_, false, Some(optional)) => {
                    let (field, why) = (
                        field.child("optionalOldSelf"),
                        "may not be set if oldSelf is not used in rule",
                    );
                    self.errors.push(FieldError::invalid(&field, optional, why));
                }
                _ => {}
            }
        }
    }

    /// Adds the cost of an expression that is evaluated at most `times` times. Reports a cost above the limit of a
    /// rule.
    fn cost(&mut self, program: &Program, times: u64, what: &str, field: FieldPath) {
        let cost = program.estimate_cost().max.saturating_mul(times);
        if !self.unchanged
            && let Some(why) = too_dear(what, cost, ESTIMATED_RULE)
        {
            self.errors.push(FieldError::forbidden(&field, why));
        }
        self.total = self.total.saturating_add(cost);
        if cost >= ESTIMATED_SCHEMA / 100 {
            let at = self.most_expensive.partition_point(|(other, _)| *other >= cost);
            self.most_expensive.insert(at, (cost, field));
            self.most_expensive.truncate(MAX_REPORTED);
        }
    }

    /// upstream: k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/validation#validateCustomResourceDefinitionValidation
    fn finish(mut self, field: &FieldPath) -> Errors {
        let what = "x-kubernetes-validations estimated rule cost total for entire OpenAPIv3 schema";
        if let Some(total) = too_dear(what, self.total, ESTIMATED_SCHEMA) {
            let why = "contributed to estimated rule cost total exceeding cost limit for entire OpenAPIv3 schema";
            let most_expensive = self.most_expensive.iter();
            self.errors
                .extend(most_expensive.map(|(_, field)| FieldError::forbidden(field, why)));
            self.errors.push(FieldError::forbidden(field, total));
        }
        self.errors
    }
}

/// Returns the error of a rule that does not compile. Its value is the whole rule.
fn refused(field: &FieldPath, rule: &Rule, why: &str) -> FieldError {
    FieldError {
        kind: FieldErrorKind::Invalid,
        field: field.clone(),
        value: None,
        detail: format!("{}: {why}", rule.shown()),
    }
}

/// upstream: k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/validation#getCostErrorMessage
fn too_dear(what: &str, cost: u64, limit: u64) -> Option<String> {
    let factor = excess(cost, limit)?;
    Some(format!(
        "{what} exceeds budget by factor of {factor} (try simplifying the rule, or adding maxItems, maxProperties, and maxLength where arrays, maps, and strings are declared)"
    ))
}
