//! Evaluator: walks a planned expression and counts its cost.

mod fold;

use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::sync::Arc;

use holdfast_value::{Map, Value};
use smallvec::SmallVec;
use smol_str::SmolStr;

use crate::activation::Activation;
use crate::budget::Budget;
use crate::cost::{FORMAT_PATTERN, LIST, MAP, PATTERN, STRUCT, TRAVERSAL};
use crate::declaration::{DeclKind, DeclType};
use crate::error::EvaluationError::{self, NoSuchOverload, Overflow};
use crate::functions::{Call, Context, Cost};
use crate::library::optional::inner;
use crate::node::{Comparison, Node};
use crate::operate::{arithmetic, compare, equal, has_order, index, index_if_there, is_in};
use crate::regex_cache::RegexCache;
use crate::regexp::Pattern;
use crate::value::{CelValue, Declared, MapKey, MapValue, Outcome, StructValue, member};

/// State of one evaluation.
pub(crate) struct Frame<'a, 'b> {
    activation: &'a Activation,
    regexes: &'a RegexCache,
    budget: &'a mut Budget<'b>,
    pub(crate) locals: SmallVec<[CelValue; 4]>,
    cost: u64,
    limit: u64,
}

/// Returns the cost of a walk: a tenth of a unit per character, rounded up.
fn walk(size: u64) -> u64 {
    (size as f64 * TRAVERSAL).ceil() as u64
}

impl<'a, 'b> Frame<'a, 'b> {
    pub(crate) fn new(activation: &'a Activation, regexes: &'a RegexCache, budget: &'a mut Budget<'b>) -> Self {
        let limit = budget.per_call();
        Self {
            activation,
            regexes,
            budget,
            locals: SmallVec::new(),
            cost: 0,
            limit,
        }
    }

    pub(crate) fn cost(&self) -> u64 {
        self.cost
    }

    pub(crate) fn charge(&mut self, units: u64) -> Outcome<()> {
        self.cost = self.cost.saturating_add(units);
        if self.cost > self.limit {
            return Err(EvaluationError::CostLimitExceeded);
        }
        Ok(())
    }

    /// Called between the steps of a walk to check for interruption.
    pub(crate) fn breathe(&self) -> Outcome<()> {
        if self.budget.is_interrupted() {
            return Err(EvaluationError::Interrupted);
        }
        Ok(())
    }

    pub(crate) fn eval(&mut self, node: &Node) -> Outcome {
        match node {
            Node::Const(value) => Ok(value.clone()),
            Node::Made(value, cost) => {
                self.charge(*cost)?;
                Ok(value.clone())
            }
            Node::Variable(slot) => {
                self.charge(1)?;
                self.variable(*slot).cloned()
            }
            Node::Path(slot, fields) => {
                self.charge(1 + fields.len() as u64)?;
                self.path(*slot, fields)
            }
            Node::Local(at) => {
                self.charge(1)?;
                self.locals.get(*at).cloned().ok_or(NoSuchOverload)
            }
            Node::Select(operand, field) => {
                let operand = self.eval(operand)?;
                self.charge(1)?;
                self.select(&operand, field)
            }
            Node::Has(operand, field) => {
                let operand = self.eval(operand)?;
                self.has(&operand, field).map(CelValue::Bool)
            }
            Node::HasPath(slot, fields) => {
                self.charge(fields.len() as u64)?;
                self.has_path(*slot, fields).map(CelValue::Bool)
            }
            Node::OptionalSelect(operand, field) => {
                let operand = self.eval(operand)?;
                self.charge(1)?;
                self.optional_select(&operand, field)
            }
            Node::Call { name, call, cost, args } => self.call(name, *call, *cost, args),
            Node::Matches {
                subject,
                regex,
                pattern,
            } => self.matches(subject, regex, *pattern),
            Node::And(pair) => self.logical(&pair.0, &pair.1, false),
            Node::Or(pair) => self.logical(&pair.0, &pair.1, true),
            Node::Not(operand) => {
                let operand = self.eval(operand)?;
                self.charge(1)?;
                negation(&operand).map_err(|error| untaken(error, false, "!_"))
            }
            Node::Negate(operand) => {
                let operand = self.eval(operand)?;
                self.charge(1)?;
                negative(&operand).map_err(|error| untaken(error, false, "-_"))
            }
            Node::Conditional(parts) => match self.eval(&parts.0)?.as_bool() {
                Some(true) => self.eval(&parts.1),
                Some(false) => self.eval(&parts.2),
                None => Err(NoSuchOverload),
            },
            Node::Equal(pair, _)
            | Node::Compare(_, pair)
            | Node::Arithmetic(_, pair)
            | Node::In(pair)
            | Node::Index(pair)
            | Node::OptionalIndex(pair) => self.binary(node, pair),
            Node::List(elements) => self.list(elements),
            Node::Map(entries) => self.map(entries),
            Node::Struct(name, fields) => self.structure(name, fields),
            Node::Fold(fold) => self.fold(fold),
            Node::Bind(pair) => {
                let value = self.eval(&pair.0)?;
                self.charge(LIST)?;
                self.within(value, &pair.1)
            }
            Node::OptionalMap(flat, pair) => self.optional_map(*flat, &pair.0, &pair.1),
        }
    }

    fn optional_map(&mut self, flat: bool, target: &Node, body: &Node) -> Outcome {
        let target = self.eval(target)?;
        self.charge(1)?;
        let Some(value) = inner(&target)?.cloned() else {
            return Ok(CelValue::NONE);
        };
        self.charge(LIST + 1)?;
        let mapped = self.within(value, body)?;
        Ok(if flat { mapped } else { CelValue::some(mapped) })
    }

    fn call(&mut self, name: &str, call: Call, cost: Cost, args: &[Node]) -> Outcome {
        let mut arguments: SmallVec<[CelValue; 3]> = SmallVec::new();
        for arg in args {
            arguments.push(self.eval(arg)?);
        }
        let context = Context {
            regexes: self.regexes,
            allowance: self.limit.saturating_sub(self.cost),
        };
        let result = call(&context, &arguments).map_err(|error| match name {
            // The errors of these functions do not name types.
            "containsIP" | "containsCIDR" => error,
            name => error.for_call(name, &arguments),
        })?;
        self.charge(call_cost(cost, &arguments, &result))?;
        Ok(result)
    }

    fn matches(&mut self, subject: &Node, regex: &Pattern, pattern: u64) -> Outcome {
        let subject = self.eval(subject)?;
        let CelValue::String(text) = &subject else {
            return Err(NoSuchOverload);
        };
        self.charge(pattern_cost(subject.size(), pattern))?;
        Ok(CelValue::Bool(regex.is_match(text)))
    }

    /// Evaluates an operator with two operands, both of which are always evaluated.
    fn binary(&mut self, node: &Node, pair: &(Node, Node)) -> Outcome {
        let a = self.eval(&pair.0)?;
        let b = self.eval(&pair.1)?;
        self.operate(node, &a, &b)
    }

    // Separate from `binary`, so that little is on the stack while operands are evaluated.
    fn operate(&mut self, node: &Node, a: &CelValue, b: &CelValue) -> Outcome {
        let text = matches!(a, CelValue::String(_) | CelValue::Bytes(_));
        match node {
            Node::Equal(_, wanted) => {
                self.charge(walk(a.size().min(b.size())))?;
                if *wanted && compares_to_its_kind_alone(a, b) {
                    return Err(NoSuchOverload);
                }
                Ok(CelValue::Bool(equal(a, b) == *wanted))
            }
            Node::Compare(comparison, _) => {
                self.charge(if text { walk(a.size().min(b.size())) } else { 1 })?;
                let order = compare(a, b).map_err(|error| untaken(error, has_order(a), comparison.name()))?;
                Ok(CelValue::Bool(comparison.holds(order)))
            }
            Node::Arithmetic(operator, _) => {
                self.charge(if text {
                    walk(a.size().saturating_add(b.size()))
                } else {
                    1
                })?;
                arithmetic(*operator, a, b).map_err(|error| untaken(error, operator.takes(a), operator.name()))
            }
            Node::In(_) => {
                let units = match b {
                    CelValue::List(list) => list.len() as u64,
                    _ => 1,
                };
                self.charge(units)?;
                is_in(a, b).map(CelValue::Bool)
            }
            Node::Index(_) => {
                self.charge(1)?;
                match (a, b) {
                    (CelValue::Optional(_), _) => self.optional_index(a, b),
                    (CelValue::Struct(_) | CelValue::Lazy(_), CelValue::String(field)) => self.select(a, field),
                    _ => index(a, b),
                }
            }
            _ => {
                self.charge(1)?;
                self.optional_index(a, b)
            }
        }
    }

    /// Evaluates `body` with one more local variable.
    fn within(&mut self, value: CelValue, body: &Node) -> Outcome {
        self.locals.push(value);
        let outcome = self.eval(body);
        self.locals.pop();
        outcome
    }

    fn variable(&self, slot: usize) -> Outcome<&'a CelValue> {
        self.activation
            .get(slot)
            .map_err(|name| EvaluationError::NoSuchAttribute(name.into()))
    }

    /// Evaluates `a && b` or, with `decisive` set, `a || b`: the decisive value wins over an error on the other side.
    fn logical(&mut self, a: &Node, b: &Node, decisive: bool) -> Outcome {
        let first = match self.eval(a) {
            Ok(CelValue::Bool(flag)) if flag == decisive => return Ok(CelValue::Bool(decisive)),
            Ok(CelValue::Bool(_)) => None,
            Ok(_) => Some(NoSuchOverload),
            Err(error) if error.stops() => return Err(error),
            Err(error) => Some(error),
        };
        match (self.eval(b), first) {
            (Ok(CelValue::Bool(flag)), _) if flag == decisive => Ok(CelValue::Bool(decisive)),
            (Err(error), _) if error.stops() => Err(error),
            (_, Some(error)) => Err(error),
            (Ok(CelValue::Bool(flag)), None) => Ok(CelValue::Bool(flag)),
            (Ok(_), None) => Err(NoSuchOverload),
            (Err(error), None) => Err(error),
        }
    }

    /// Evaluates a chain of selections from a variable. Within the object tree no intermediate values are created.
    fn path(&mut self, slot: usize, fields: &[SmolStr]) -> Outcome {
        let variable = self.variable(slot)?;
        if let CelValue::Map(MapValue::Data(map, decl)) = variable
            && let Some(found) = follow(map, decl.as_ref(), fields)
        {
            let (value, decl) = found?;
            return CelValue::taken(value, decl);
        }
        let mut value = variable.clone();
        for field in fields {
            value = self.select(&value, field)?;
        }
        Ok(value)
    }

    fn has_path(&mut self, slot: usize, fields: &[SmolStr]) -> Outcome<bool> {
        let variable = self.variable(slot)?;
        let Some((last, way)) = fields.split_last() else {
            return Ok(true);
        };
        if let CelValue::Map(MapValue::Data(map, decl)) = variable {
            if way.is_empty() {
                return Ok(member(map, decl.as_ref(), last).is_some());
            }
            if let Some(found) = follow(map, decl.as_ref(), way) {
                let (value, decl) = found?;
                if let Value::Map(map) = value {
                    return Ok(member(map, decl, last).is_some());
                }
                return self.has(&CelValue::taken(value, decl)?, last);
            }
        }
        let mut value = variable.clone();
        for field in way {
            value = self.select(&value, field)?;
        }
        self.has(&value, last)
    }

    fn select(&mut self, operand: &CelValue, field: &str) -> Outcome {
        let missing = || EvaluationError::no_such_key(field);
        match operand {
            CelValue::Map(map) => map.field(field).unwrap_or_else(|| Err(missing())),
            CelValue::Struct(object) => object.fields.get(field).cloned().ok_or_else(missing),
            CelValue::Lazy(fields) => fields.field(field, self.budget).unwrap_or_else(|| Err(missing())),
            CelValue::Null => Err(missing()),
            CelValue::Optional(_) => self.optional_select(operand, field),
            _ => Err(NoSuchOverload),
        }
    }

    fn has(&mut self, operand: &CelValue, field: &str) -> Outcome<bool> {
        match operand {
            CelValue::Map(map) => Ok(match map {
                MapValue::Data(map, decl) => member(map, decl.as_ref(), field).is_some(),
                MapValue::Built(map) => map.contains_key(&MapKey::String(SmolStr::new(field))),
            }),
            CelValue::Struct(object) => Ok(object.fields.contains_key(field)),
            CelValue::Lazy(fields) => Ok(fields.field(field, self.budget).transpose()?.is_some()),
            CelValue::Optional(None) => Ok(false),
            CelValue::Optional(Some(value)) => self.has(value, field),
            CelValue::List(_) => Err(unsupported_index()),
            // A value without fields does not have this one.
            _ => Ok(false),
        }
    }

    fn optional_select(&mut self, operand: &CelValue, field: &str) -> Outcome {
        let operand = match operand {
            CelValue::Optional(None) => return Ok(CelValue::NONE),
            CelValue::Optional(Some(value)) => value,
            other => other,
        };
        match self.select(operand, field) {
            Ok(value) => Ok(CelValue::some(value)),
            Err(EvaluationError::NoSuchKey(key)) if *key == *field => Ok(CelValue::NONE),
            Err(NoSuchOverload) if !matches!(operand, CelValue::List(_)) => Ok(CelValue::NONE),
            Err(error) => Err(error),
        }
    }

    fn optional_index(&mut self, container: &CelValue, at: &CelValue) -> Outcome {
        let container = match container {
            CelValue::Optional(None) => return Ok(CelValue::NONE),
            CelValue::Optional(Some(value)) => value,
            other => other,
        };
        let found = index_if_there(container, at)?;
        Ok(found.map_or(CelValue::NONE, CelValue::some))
    }

    /// Returns the value of an optional element, if it has one.
    fn element(&mut self, node: &Node, optional: bool) -> Outcome<Option<CelValue>> {
        let value = self.eval(node)?;
        if !optional {
            return Ok(Some(value));
        }
        Ok(inner(&value)?.cloned())
    }

    fn list(&mut self, elements: &[(Node, bool)]) -> Outcome {
        let mut items = Vec::with_capacity(elements.len());
        for (element, optional) in elements {
            items.extend(self.element(element, *optional)?);
        }
        self.charge(LIST)?;
        Ok(CelValue::list(items))
    }

    fn map(&mut self, entries: &[(Node, Node, bool)]) -> Outcome {
        let mut map = BTreeMap::new();
        for (key, value, optional) in entries {
            let key_value = self.eval(key)?;
            let key = MapKey::from_value(&key_value)
                .ok_or_else(|| EvaluationError::failed(format!("unsupported key type: {}", key_value.type_name())))?;
            if let Some(value) = self.element(value, *optional)? {
                map.insert(key, value);
            }
        }
        self.charge(MAP)?;
        Ok(CelValue::Map(MapValue::Built(Arc::new(map))))
    }

    fn structure(&mut self, name: &SmolStr, fields: &[(SmolStr, Node, bool)]) -> Outcome {
        let mut values = BTreeMap::new();
        for (field, value, optional) in fields {
            if let Some(value) = self.element(value, *optional)? {
                values.insert(field.clone(), value);
            }
        }
        self.charge(STRUCT)?;
        Ok(CelValue::Struct(Arc::new(StructValue {
            type_name: name.clone(),
            fields: values,
        })))
    }
}

/// Adds the name of the operator to `error` if the type of its first operand has no such operator.
fn untaken(error: EvaluationError, takes: bool, name: &str) -> EvaluationError {
    match error {
        NoSuchOverload if !takes => EvaluationError::NoSuchOverloadOf(name.into()),
        error => error,
    }
}

/// Returns the error of selecting a field of a list.
fn unsupported_index() -> EvaluationError {
    EvaluationError::failed("unsupported index type 'string' in list")
}

/// True for values of the Kubernetes libraries, which cannot be compared with values of other types.
fn compares_to_its_kind_alone(a: &CelValue, b: &CelValue) -> bool {
    use CelValue::{Cidr, Ip, Null, Quantity, Semver, Url};
    matches!(a, Ip(_) | Cidr(_) | Quantity(_) | Semver(_) | Url(_))
        && !matches!(b, Null)
        && std::mem::discriminant(a) != std::mem::discriminant(b)
}

impl Comparison {
    fn name(self) -> &'static str {
        match self {
            Comparison::Less => "_<_",
            Comparison::LessOrEqual => "_<=_",
            Comparison::Greater => "_>_",
            Comparison::GreaterOrEqual => "_>=_",
        }
    }

    /// True if values in this order satisfy the comparison.
    fn holds(self, order: Ordering) -> bool {
        match self {
            Comparison::Less => order.is_lt(),
            Comparison::LessOrEqual => order.is_le(),
            Comparison::Greater => order.is_gt(),
            Comparison::GreaterOrEqual => order.is_ge(),
        }
    }
}

fn negation(operand: &CelValue) -> Outcome {
    operand
        .as_bool()
        .map(|flag| CelValue::Bool(!flag))
        .ok_or(NoSuchOverload)
}

fn negative(operand: &CelValue) -> Outcome {
    match operand {
        CelValue::Int(number) => number.checked_neg().map(CelValue::Int).ok_or(Overflow("integer")),
        CelValue::Double(float) => Ok(CelValue::Double(-float)),
        CelValue::Duration(span) => span.checked_neg().map(CelValue::Duration).ok_or(Overflow("duration")),
        _ => Err(NoSuchOverload),
    }
}

/// Follows `fields` through maps. `None` if a value on the way is not a plain map, so that general evaluation is
/// needed.
fn follow<'v>(map: &'v Map, decl: Option<&'v Arc<DeclType>>, fields: &[SmolStr]) -> Option<Outcome<Declared<'v>>> {
    let (last, way) = fields.split_last()?;
    let (mut map, mut decl) = (map, decl);
    for field in way {
        let Some((value, declared)) = member(map, decl, field) else {
            return Some(Err(EvaluationError::no_such_key(field)));
        };
        let Value::Map(inner) = value else { return None };
        map = inner;
        decl = declared.filter(|decl| !matches!(decl.kind, DeclKind::Dyn));
    }
    Some(member(map, decl, last).ok_or_else(|| EvaluationError::no_such_key(last)))
}

/// Returns the cost of matching a text with a pattern.
fn pattern_cost(text: u64, pattern: u64) -> u64 {
    let pattern = (pattern as f64 * PATTERN).ceil() as u64;
    walk(text.saturating_add(1)).saturating_mul(pattern)
}

/// Returns the cost of a walk over the whole content of a value.
fn traversal(value: &CelValue) -> u64 {
    match value {
        CelValue::String(text) => (text.len() as f64 * TRAVERSAL) as u64,
        CelValue::Bytes(bytes) => (bytes.len() as f64 * TRAVERSAL) as u64,
        CelValue::List(list) => (0..list.len())
            .map(|at| list.get(at).map_or(1, |item| traversal(&item)))
            .fold(0, u64::saturating_add),
        _ => 1,
    }
}

/// Returns the cost of a call by its arguments and its result.
pub(crate) fn call_cost(cost: Cost, args: &[CelValue], result: &CelValue) -> u64 {
    let size = |at: usize| args.get(at).map_or(1, CelValue::size);
    let squared = |size: u64| size.saturating_mul(size).saturating_mul(2);
    match cost {
        Cost::Fixed(units) => units,
        Cost::Traverse if matches!(args.first(), Some(CelValue::Cidr(_))) => 1,
        Cost::Traverse | Cost::SameSize | Cost::Affix | Cost::Quote | Cost::Format => walk(size(0)),
        Cost::StringToBytes | Cost::BytesToString => match args.first() {
            Some(CelValue::String(_)) if cost == Cost::BytesToString => 1,
            Some(CelValue::String(_) | CelValue::Bytes(_)) => walk(size(0)),
            _ => 1,
        },
        Cost::TraverseTwice | Cost::Replace | Cost::Split => walk(size(0).saturating_mul(2)),
        Cost::Join => walk(result.size().saturating_mul(2)),
        Cost::Find | Cost::Matches => pattern_cost(size(0), size(1)),
        Cost::Contains => walk(size(0)).saturating_mul(walk(size(1))),
        Cost::Elements => args.first().map_or(1, traversal),
        Cost::Validate => walk(size(1)).saturating_mul((FORMAT_PATTERN * PATTERN) as u64),
        Cost::ContainsIp | Cost::ContainsCidr => {
            let other = if matches!(args.get(1), Some(CelValue::String(_))) {
                walk(size(1))
            } else {
                0
            };
            let masking = if cost == Cost::ContainsCidr {
                walk(size(0)) + 1
            } else {
                0
            };
            walk(size(0).saturating_mul(2)) + masking + other
        }
        Cost::Slice | Cost::Range | Cost::Reverse => result.size().saturating_add(LIST + 1),
        Cost::Flatten => {
            let depth = match args.get(1) {
                Some(CelValue::Int(depth)) => u64::try_from(*depth).unwrap_or(0),
                _ => 1,
            };
            size(0).saturating_mul(depth).saturating_add(LIST + 1)
        }
        Cost::Distinct | Cost::Sort => squared(size(0)).saturating_add(LIST + 1),
        Cost::Sets(factor) => size(0).saturating_mul(size(1)).saturating_mul(factor).saturating_add(1),
    }
}
