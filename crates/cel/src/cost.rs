//! What an expression may cost at most, reckoned before it runs.
//!
//! The rules are those of cel-go and of the libraries of Kubernetes: a selection costs one, a walk over a text a tenth of
//! a unit a character, a macro its body times the size of its range, and a size that nothing bounds is what fits into
//! a request. Definitions are accepted or refused by these figures, so they follow the reference to the unit.

use std::collections::HashMap;
use std::sync::Arc;

use smol_str::SmolStr;

use crate::checker::{Checked, Reference};
use crate::declaration::{DeclKind, DeclType};
use crate::environment::Environment;
use crate::functions::{Cost, Overload};
use crate::syntax::{Bind, Expr, ExprKind, Fold, FoldKind, Id, operators};
use crate::types::Type;
use crate::value::CelValue;

/// A range of sizes or of costs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Range {
    /// At least so much.
    pub min: u64,
    /// At most so much; `u64::MAX` where nothing bounds it.
    pub max: u64,
}

impl Range {
    const UNKNOWN: Range = Range { min: 0, max: u64::MAX };

    pub(crate) const fn fixed(size: u64) -> Self {
        Self { min: size, max: size }
    }

    fn up_to(max: u64) -> Self {
        Self { min: 0, max }
    }

    fn plus(self, other: Self) -> Self {
        Self {
            min: self.min.saturating_add(other.min),
            max: self.max.saturating_add(other.max),
        }
    }

    fn times(self, other: Self) -> Self {
        Self {
            min: self.min.saturating_mul(other.min),
            max: self.max.saturating_mul(other.max),
        }
    }

    /// Times `factor`, rounded up.
    fn scaled(self, factor: f64) -> Self {
        // A float above what 64 bits hold becomes the largest number, which is what is wanted.
        let scale = |size: u64| (size as f64 * factor).ceil() as u64;
        Self {
            min: scale(self.min),
            max: scale(self.max),
        }
    }

    fn union(self, other: Self) -> Self {
        Self {
            min: self.min.min(other.min),
            max: self.max.max(other.max),
        }
    }
}

/// A character of a text that is walked over.
pub(crate) const TRAVERSAL: f64 = 0.1;
/// A character of a pattern.
pub(crate) const PATTERN: f64 = 0.25;
/// The longest pattern behind a named format.
pub(crate) const FORMAT_PATTERN: f64 = 128.0;
/// Making a list, a map, an object.
pub(crate) const LIST: u64 = 10;
pub(crate) const MAP: u64 = 30;
pub(crate) const STRUCT: u64 = 40;

/// How long the name of a format may be.
const LONGEST_FORMAT: u64 = 64;

const ONE: Range = Range::fixed(1);

/// Where in the declared data a value comes from.
#[derive(Debug, Clone)]
enum Origin {
    Declared(Arc<DeclType>),
    /// A key of a declared map: its length is not reckoned.
    Key,
    /// Somewhere that the declared data do not have.
    Nowhere,
}

/// A step from a value to one within it.
#[derive(Clone, Copy)]
enum Step<'a> {
    Field(&'a str),
    Value,
    Key,
    /// The place in a list, which is never declared.
    Index,
}

/// The sizes of the keys and the values of a list or a map.
#[derive(Debug, Clone, Copy)]
struct Entries {
    key: Range,
    value: Range,
}

impl Entries {
    fn union(self, other: Self) -> Self {
        Self {
            key: self.key.union(other.key),
            value: self.value.union(other.value),
        }
    }
}

struct Local {
    name: SmolStr,
    origin: Option<Origin>,
    size: Option<Range>,
    entries: Option<Entries>,
}

struct Estimator<'a> {
    environment: &'a Environment,
    checked: &'a Checked,
    locals: Vec<Local>,
    origins: HashMap<Id, Origin>,
    sizes: HashMap<Id, Range>,
    entries: HashMap<Id, Entries>,
}

/// The range of what `checked` costs.
pub(crate) fn estimate(environment: &Environment, checked: &Checked) -> Range {
    let mut estimator = Estimator {
        environment,
        checked,
        locals: Vec::new(),
        origins: HashMap::new(),
        sizes: HashMap::new(),
        entries: HashMap::new(),
    };
    estimator.cost(&checked.root)
}

/// A cost and, where it is known, the size of what comes of it.
type Estimate = (Range, Option<Range>);

impl Estimator<'_> {
    fn cost(&mut self, expr: &Expr) -> Range {
        match &expr.kind {
            ExprKind::Literal(_) => Range::fixed(0),
            ExprKind::Ident(name) => {
                if let Some(origin) = self.ident_origin(expr.id, name) {
                    self.origins.insert(expr.id, origin);
                }
                ONE
            }
            ExprKind::Select { operand, field, test } => self.select(expr.id, operand, field, *test),
            ExprKind::Call { function, target, args } => self.call(expr, function, target.as_deref(), args),
            ExprKind::List(elements) => {
                let mut sum = Range::fixed(LIST);
                let mut sizes = None;
                for (element, _) in elements {
                    sum = sum.plus(self.cost(element));
                    sizes = Some(self.join_sizes(sizes, element));
                }
                let value = sizes.unwrap_or(Range::fixed(0));
                self.entries.insert(expr.id, Entries { key: ONE, value });
                sum
            }
            ExprKind::Map(entries) => {
                let mut sum = Range::fixed(MAP);
                let (mut keys, mut values) = (None, None);
                for entry in entries {
                    sum = sum.plus(self.cost(&entry.key)).plus(self.cost(&entry.value));
                    keys = Some(self.join_sizes(keys, &entry.key));
                    values = Some(self.join_sizes(values, &entry.value));
                }
                let key = keys.unwrap_or(Range::fixed(0));
                let value = values.unwrap_or(Range::fixed(0));
                self.entries.insert(expr.id, Entries { key, value });
                sum
            }
            ExprKind::Struct { fields, .. } => {
                let costs = fields.iter().map(|field| self.cost(&field.value));
                costs.fold(Range::fixed(STRUCT), Range::plus)
            }
            ExprKind::Fold(fold) => self.fold(expr.id, fold),
            ExprKind::Bind(bind) => self.bind(expr.id, bind),
            ExprKind::OptionalMap { flat, bind } => self.optional_map(*flat, bind),
        }
    }

    fn join_sizes(&mut self, sofar: Option<Range>, expr: &Expr) -> Range {
        let size = self.size_or_unknown(expr);
        sofar.map_or(size, |sofar| sofar.union(size))
    }

    fn local(&self, name: &str) -> Option<&Local> {
        self.locals.iter().rev().find(|local| local.name == name)
    }

    #[expect(
        clippy::indexing_slicing,
        reason = "references name variables and overloads of the environment"
    )]
    fn ident_origin(&self, id: Id, name: &str) -> Option<Origin> {
        match self.checked.references.get(&id) {
            Some(Reference::Variable(slot)) => self.environment.variables[*slot].decl.clone().map(Origin::Declared),
            Some(Reference::Local) => self.local(name)?.origin.clone(),
            Some(Reference::TypeName(_)) => self.root(),
            _ => None,
        }
    }

    /// Where a path of one name leads: the reference takes any name for that of the variable that rules have.
    fn root(&self) -> Option<Origin> {
        let mut variables = self.environment.variables.iter();
        let of_rules = variables.find(|variable| variable.name == "self")?;
        of_rules.decl.clone().map(Origin::Declared)
    }

    /// Where a step from a value leads. A value of no place, such as the result of a call, has an empty path, so that the
    /// first step from it is taken for the name of a variable.
    fn step(&self, from: Option<&Origin>, step: Step<'_>) -> Option<Origin> {
        let found = match (from, step) {
            (None, _) => return self.root(),
            (Some(Origin::Declared(decl)), Step::Field(name)) => match &decl.kind {
                // Fields alone have names; the values of a map are reached by their keys.
                DeclKind::Map(_) => None,
                _ => decl.field(name).map(|field| field.decl.clone()),
            },
            (Some(Origin::Declared(decl)), Step::Value) => match &decl.kind {
                DeclKind::List { items, .. } => Some(items.clone()),
                DeclKind::Map(values) => Some(values.clone()),
                _ => None,
            },
            (Some(Origin::Declared(decl)), Step::Key) if matches!(decl.kind, DeclKind::Map(_)) => {
                return Some(Origin::Key);
            }
            _ => None,
        };
        Some(found.map_or(Origin::Nowhere, Origin::Declared))
    }

    fn select(&mut self, id: Id, operand: &Expr, field: &str, test: bool) -> Range {
        if let Some(Reference::TypeName(_) | Reference::Variable(_)) = self.checked.references.get(&id) {
            if let Some(root) = self.root() {
                self.origins.insert(id, root);
            }
            return ONE;
        }
        let cost = self.cost(operand);
        if test {
            // That something is there is found out for nothing.
            return cost;
        }
        if let Some(found) = self.step(self.origins.get(&operand.id), Step::Field(field)) {
            self.origins.insert(id, found);
        }
        match self.checked.type_of(operand.id) {
            Type::Map(..) | Type::Object(_) => cost.plus(ONE),
            _ => cost,
        }
    }

    #[expect(
        clippy::indexing_slicing,
        reason = "references name variables and overloads of the environment"
    )]
    fn call(&mut self, expr: &Expr, function: &str, target: Option<&Expr>, args: &[Expr]) -> Range {
        if function == "dyn"
            && let [arg] = args
        {
            let cost = self.cost(arg);
            self.copy_sizes(expr.id, arg);
            return cost.plus(ONE);
        }
        let costs: Vec<Range> = args.iter().map(|arg| self.cost(arg)).collect();
        let of_args = costs.iter().copied().fold(Range::fixed(0), Range::plus);
        match self.checked.references.get(&expr.id) {
            Some(Reference::Function {
                function,
                overloads,
                qualified,
            }) => {
                let target = target.filter(|_| !qualified);
                let of_target = target.map_or(Range::fixed(0), |target| self.cost(target));
                let mut all: Option<Range> = None;
                let mut size: Option<Range> = None;
                for at in overloads {
                    let overload = &function.overloads[*at];
                    let (cost, result) = self.function(function.cost, overload, target, args);
                    all = Some(all.map_or(cost, |all| all.union(cost)));
                    size = join(size, result);
                }
                self.keep_size(expr, size);
                of_target.plus(of_args).plus(all.unwrap_or(ONE))
            }
            Some(Reference::Operator { overloads }) => {
                let overloads = overloads.clone();
                let mut all: Option<Range> = None;
                let mut size: Option<Range> = None;
                for overload in overloads {
                    let (cost, result) = self.operator(expr, function, overload, args, &costs, of_args);
                    all = Some(all.map_or(cost, |all| all.union(cost)));
                    size = join(size, result);
                }
                self.keep_size(expr, size);
                all.unwrap_or(of_args)
            }
            // The optional selection.
            _ => of_args.plus(ONE),
        }
    }

    fn keep_size(&mut self, expr: &Expr, size: Option<Range>) {
        if let Some(size) = size.or_else(|| self.size(expr)) {
            self.sizes.insert(expr.id, size);
        }
    }

    /// An operator; the costs of its operands are in the sum.
    #[expect(
        clippy::indexing_slicing,
        reason = "the checker gives an operator as many operands as it has"
    )]
    fn operator(
        &mut self,
        expr: &Expr,
        name: &str,
        overload: &Overload,
        args: &[Expr],
        costs: &[Range],
        sum: Range,
    ) -> Estimate {
        let first = overload.params.first();
        match (name, args) {
            (operators::AND | operators::OR, [_, _]) => {
                let cost = Range {
                    min: costs[0].min,
                    max: costs[0].max.saturating_add(costs[1].max),
                };
                (cost, None)
            }
            (operators::CONDITIONAL, [_, yes, no]) => {
                let size = self.size_or_unknown(yes).union(self.size_or_unknown(no));
                if let (Some(a), Some(b)) = (self.entries_of(yes), self.entries_of(no)) {
                    self.entries.insert(expr.id, a.union(b));
                }
                (costs[0].plus(costs[1].union(costs[2])), Some(size))
            }
            ("_+_", [a, b]) if matches!(first, Some(Type::String | Type::Bytes | Type::List(_))) => {
                let size = self.size_or_unknown(a).plus(self.size_or_unknown(b));
                if let (Some(a), Some(b)) = (self.entries_of(a), self.entries_of(b)) {
                    self.entries.insert(expr.id, a.union(b));
                }
                let cost = if matches!(first, Some(Type::List(_))) {
                    ONE
                } else {
                    size.scaled(TRAVERSAL)
                };
                (cost.plus(sum), Some(size))
            }
            (operators::EQUALS, [a, b]) if let Some(cost) = self.named_equality(a, b) => (sum.plus(cost), None),
            (operators::EQUALS | operators::NOT_EQUALS, [a, b]) => (self.shorter(a, b).plus(sum), None),
            ("_<_" | "_<=_" | "_>_" | "_>=_", [a, b]) if matches!(first, Some(Type::String | Type::Bytes)) => {
                (self.shorter(a, b).plus(sum), None)
            }
            (operators::IN, [_, list]) if matches!(overload.params.get(1), Some(Type::List(_))) => {
                (self.size_or_unknown(list).plus(sum), None)
            }
            (operators::INDEX, [container, _]) => {
                self.index(expr.id, container, overload);
                let size = self.entries_of(container).map(|entries| entries.value);
                (sum.plus(ONE), size)
            }
            _ => (sum.plus(ONE), None),
        }
    }

    fn index(&mut self, id: Id, container: &Expr, overload: &Overload) {
        if matches!(overload.params.first(), Some(Type::List(_) | Type::Map(..)))
            && let Some(found) = self.step(self.origins.get(&container.id), Step::Value)
        {
            self.origins.insert(id, found);
        }
    }

    /// What it costs to find values of a type of a library equal; that they are not is reckoned as with any others.
    fn named_equality(&self, a: &Expr, b: &Expr) -> Option<Range> {
        let of = self.checked.type_of(b.id);
        let most = match of {
            _ if self.checked.type_of(a.id) != of => return None,
            Type::Named("kubernetes.URL") => self.size(b).map_or(1, |size| size.max.max(1)),
            Type::Named("kubernetes.NamedFormat") => LONGEST_FORMAT,
            Type::Named(_) => 1,
            _ => return None,
        };
        Some(Range { min: 1, max: most }.scaled(TRAVERSAL))
    }

    /// A comparison up to the end of the shorter.
    fn shorter(&mut self, a: &Expr, b: &Expr) -> Range {
        let max = self.size_or_unknown(a).max.min(self.size_or_unknown(b).max);
        let sizes = Range {
            min: u64::from(max > 0),
            max,
        };
        sizes.scaled(TRAVERSAL)
    }

    /// A function, without its arguments.
    #[expect(
        clippy::indexing_slicing,
        reason = "a call gets as many arguments as the overload declares that was chosen for it"
    )]
    fn function(&mut self, cost: Cost, overload: &Overload, target: Option<&Expr>, args: &[Expr]) -> Estimate {
        let list_call = |factor: f64, size: Range| {
            let cost = size.scaled(factor).plus(ONE).plus(Range::fixed(LIST));
            (cost, Some(size))
        };
        match (cost, target, args) {
            (Cost::Fixed(units), ..) => (Range::fixed(units), None),
            (Cost::Traverse, None, [arg, ..]) => (self.size_or_unknown(arg).scaled(TRAVERSAL), None),
            (Cost::TraverseTwice, None, [arg, ..]) => (self.size_or_unknown(arg).scaled(2.0 * TRAVERSAL), None),
            (Cost::SameSize, Some(text), _) | (Cost::SameSize, None, [text]) => {
                let size = self.size_or_unknown(text);
                (size.scaled(TRAVERSAL), Some(size))
            }
            (Cost::Replace, Some(target), [from, to, ..]) => self.replace(target, from, to),
            (Cost::Split, Some(target), args) => {
                let size = self.size_or_unknown(target);
                let most = match args.get(1).map(|limit| &limit.kind) {
                    Some(ExprKind::Literal(CelValue::Int(limit))) => *limit as u64,
                    _ => size.max,
                };
                (size.scaled(2.0 * TRAVERSAL), Some(Range::up_to(most)))
            }
            (Cost::Join, Some(target), args) => self.join(target, args),
            (Cost::Find, Some(target), [pattern, ..]) => {
                let size = self.size_or_unknown(target);
                (self.pattern_cost(size, pattern), Some(Range::up_to(size.max)))
            }
            (Cost::Matches, Some(target), [pattern]) => {
                let size = self.size_or_unknown(target);
                (self.pattern_cost(size, pattern), None)
            }
            (Cost::Contains, Some(target), [part]) => {
                let text = self.size_or_unknown(target).scaled(TRAVERSAL);
                (text.times(self.size_or_unknown(part).scaled(TRAVERSAL)), None)
            }
            (Cost::Affix, Some(_), [affix]) => (self.size_or_unknown(affix).scaled(TRAVERSAL), None),
            (Cost::Elements, Some(target), _) => (self.elements(target), None),
            (Cost::StringToBytes, None, [arg]) if matches!(overload.params[0], Type::String) => {
                let size = self.size_or_unknown(arg);
                let result = Range {
                    min: size.min,
                    max: size.max.saturating_mul(4),
                };
                (size.scaled(TRAVERSAL), Some(result))
            }
            (Cost::BytesToString, None, [arg]) if matches!(overload.params[0], Type::Bytes) => {
                let size = self.size_or_unknown(arg);
                let result = Range {
                    min: size.min / 4,
                    max: size.max,
                };
                (size.scaled(TRAVERSAL), Some(result))
            }
            (Cost::Quote, None, [arg]) => {
                let size = self.size_or_unknown(arg);
                let result = size.times(Range { min: 1, max: 2 }).plus(Range::fixed(2));
                (size.scaled(TRAVERSAL), Some(result))
            }
            (Cost::Format, Some(target), _) => (self.size_or_unknown(target).scaled(TRAVERSAL), None),
            (Cost::Validate, Some(_), [text]) => {
                let size = self.size_or_unknown(text);
                (size.scaled(TRAVERSAL).scaled(FORMAT_PATTERN * PATTERN), None)
            }
            (Cost::ContainsIp | Cost::ContainsCidr, Some(_), [other]) => {
                let address = Range { min: 4, max: 16 };
                let mut sum = address.plus(address).scaled(TRAVERSAL);
                if cost == Cost::ContainsCidr {
                    sum = sum.plus(address.scaled(TRAVERSAL)).plus(ONE);
                }
                if matches!(overload.params[1], Type::String) {
                    sum = sum.plus(self.size_or_unknown(other).scaled(TRAVERSAL));
                }
                (sum, None)
            }
            (Cost::Slice, Some(target), [start, end]) => {
                let size = self.size_or_unknown(target);
                let start = literal_size(start).unwrap_or(0);
                let end = literal_size(end).unwrap_or(size.max);
                // The reference reckons without a sign here, so that an end before the start is far behind it.
                list_call(1.0, Range::fixed(end.wrapping_sub(start)))
            }
            (Cost::Range, None, [count]) => list_call(1.0, Range::fixed(literal_size(count).unwrap_or(u64::MAX))),
            (Cost::Reverse, Some(target), _) => list_call(1.0, self.size_or_unknown(target)),
            (Cost::Flatten, Some(target), args) => {
                let depth = args.first().map_or(1, |depth| literal_size(depth).unwrap_or(u64::MAX));
                list_call(depth as f64, self.size_or_unknown(target))
            }
            (Cost::Distinct, Some(target), _) => {
                let size = self.size_or_unknown(target);
                list_call(2.0, size.times(size))
            }
            (Cost::Sort, Some(target), _) => {
                let size = self.size_or_unknown(target);
                let text = matches!(&overload.result, Type::List(of) if matches!(**of, Type::String | Type::Bytes));
                list_call(if text { 2.0 + TRAVERSAL } else { 2.0 }, size.times(size))
            }
            (Cost::Sets(factor), None, [a, b]) => {
                let pairs = self.size_or_unknown(a).times(self.size_or_unknown(b));
                (pairs.scaled(factor as f64).plus(ONE), None)
            }
            _ => (ONE, None),
        }
    }

    /// Text against a pattern: each is reckoned by its length, and the text as one character longer than it is.
    fn pattern_cost(&mut self, text: Range, pattern: &Expr) -> Range {
        let text = text.plus(ONE).scaled(TRAVERSAL);
        text.times(self.size_or_unknown(pattern).scaled(PATTERN))
    }

    fn elements(&self, target: &Expr) -> Range {
        let size = self.size_or_unknown(target);
        // What is not known to be a list is reckoned as a text.
        let Type::List(items) = self.checked.type_of(target.id) else {
            return size.scaled(TRAVERSAL);
        };
        let mut element = ONE;
        if matches!(*items, Type::String | Type::Bytes) {
            element = element.plus(self.item_size(target).scaled(TRAVERSAL));
        }
        size.times(element)
    }

    /// The size of an element of a list.
    fn item_size(&self, list: &Expr) -> Range {
        let origin = self.origins.get(&list.id);
        let item = origin.and_then(|origin| self.step(Some(origin), Step::Value));
        item.as_ref().and_then(origin_size).unwrap_or(Range::UNKNOWN)
    }

    fn replace(&mut self, target: &Expr, from: &Expr, to: &Expr) -> Estimate {
        let (size, from, to) = (
            self.size_or_unknown(target),
            self.size_or_unknown(from),
            self.size_or_unknown(to),
        );
        let ceiling = |a: u64, b: u64| (a as f64 / b as f64).ceil() as u64;
        // The longest result: the shortest part replaced by the longest text as often as it fits.
        let (most, kept) = if from.min == 0 {
            (size.max.saturating_add(1), size.max)
        } else if to.max <= from.min {
            (0, size.max)
        } else {
            (ceiling(size.max, from.min), 0)
        };
        let (least, kept_least) = if from.max == 0 {
            (size.min.saturating_add(1), size.min)
        } else if from.max <= to.min {
            (0, size.min)
        } else {
            (ceiling(size.min, from.max), 0)
        };
        let result = Range { min: least, max: most }.times(to).plus(Range {
            min: kept_least,
            max: kept,
        });
        (size.scaled(2.0 * TRAVERSAL), Some(result))
    }

    fn join(&mut self, target: &Expr, args: &[Expr]) -> Estimate {
        let list = self.size_or_unknown(target);
        let mut size = match self.checked.type_of(target.id) {
            Type::List(_) => list.times(self.item_size(target)),
            _ => Range::fixed(0),
        };
        if let Some(separator) = args.first() {
            let gaps = Range {
                min: list.min.saturating_sub(1),
                max: list.max.saturating_sub(1),
            };
            size = size.plus(self.size_or_unknown(separator).times(gaps));
        }
        (size.scaled(TRAVERSAL), Some(size))
    }

    fn fold(&mut self, id: Id, fold: &Fold) -> Range {
        let range = self.cost(&fold.range);
        if fold.kind == FoldKind::SortBy {
            return self.sort_by(id, fold, range);
        }
        let depth = self.locals.len();
        self.push_variables(fold, &fold.range);
        let filter = fold.filter.as_ref().map(|filter| self.cost(filter));
        let body = self.cost(&fold.body);
        // The size of what a step adds, while its variables are known.
        let added = match fold.kind {
            FoldKind::Filter => self.local(&fold.var).map(|local| (ONE, self.local_size(local))),
            FoldKind::Map | FoldKind::TransformMap => Some((ONE, Some(self.size_or_unknown(&fold.body)))),
            _ => None,
        };
        self.locals.truncate(depth);
        // Costs of the loops that the macros stand for: what begins it, the condition, the step, the result.
        let guarded = |cost: Range| Range {
            min: 1,
            max: cost.max.saturating_add(1),
        };
        let chosen = |step: Range| match filter {
            Some(filter) => filter.plus(step.union(ONE)),
            None => step,
        };
        let (begin, each, result) = match fold.kind {
            FoldKind::All => (0, Range::fixed(2).plus(guarded(body)), 1),
            FoldKind::Exists => (0, Range::fixed(3).plus(guarded(body)), 1),
            FoldKind::ExistsOne => (0, body.plus(Range { min: 1, max: 2 }), 2),
            FoldKind::Filter => {
                let kept = Range::fixed(LIST + 3);
                (LIST, body.plus(kept.union(ONE)), 1)
            }
            FoldKind::Map | FoldKind::SortBy => (LIST, chosen(body.plus(Range::fixed(LIST + 2))), 1),
            FoldKind::TransformMap => (MAP, chosen(body.plus(Range::fixed(3))), 1),
            FoldKind::TransformMapEntry => (MAP, chosen(body.plus(Range::fixed(2))), 1),
        };
        let count = self.size_or_unknown(&fold.range);
        match fold.kind {
            FoldKind::All | FoldKind::Exists | FoldKind::ExistsOne => {
                self.sizes.insert(id, ONE);
            }
            _ => {
                self.sizes.insert(id, count);
                if let Some((key, Some(value))) = added {
                    let value = Range::fixed(0).union(value);
                    self.entries.insert(id, Entries { key, value });
                }
            }
        }
        range.plus(Range::fixed(begin + result)).plus(count.times(each))
    }

    fn local_size(&self, local: &Local) -> Option<Range> {
        local.origin.as_ref().and_then(origin_size).or(local.size)
    }

    fn sort_by(&mut self, id: Id, fold: &Fold, range: Range) -> Range {
        let depth = self.locals.len();
        self.push_variables(fold, &fold.range);
        let key = self.cost(&fold.body);
        self.locals.truncate(depth);
        let count = self.size_or_unknown(&fold.range);
        let keys = Range::fixed(LIST + 2).plus(count.times(key.plus(Range::fixed(LIST + 2))));
        let text = matches!(self.checked.type_of(fold.body.id), Type::String | Type::Bytes);
        let pairs = count.times(count);
        let sorting = pairs
            .scaled(if text { 2.0 + TRAVERSAL } else { 2.0 })
            .plus(Range::fixed(LIST + 1));
        self.sizes.insert(id, pairs);
        // The list is bound to a name and named again.
        range.plus(Range::fixed(LIST + 1)).plus(keys).plus(sorting)
    }

    fn push_variables(&mut self, fold: &Fold, range: &Expr) {
        let entries = self.entries_of(range);
        let is_list = matches!(self.checked.type_of(range.id), Type::List(_));
        let origin = self.origins.get(&range.id);
        let key_origin = self.step(origin, if is_list { Step::Index } else { Step::Key });
        let value_origin = self.step(origin, Step::Value);
        let key = |name: &SmolStr| Local {
            name: name.clone(),
            origin: key_origin.clone(),
            size: entries.map(|entries| entries.key),
            entries: None,
        };
        let value = |name: &SmolStr| Local {
            name: name.clone(),
            origin: value_origin.clone(),
            size: entries.map(|entries| entries.value),
            entries: None,
        };
        match &fold.var2 {
            Some(var2) => {
                self.locals.push(key(&fold.var));
                self.locals.push(value(var2));
            }
            None if is_list => self.locals.push(value(&fold.var)),
            None => self.locals.push(key(&fold.var)),
        }
    }

    fn push_bound(&mut self, bind: &Bind) {
        let local = Local {
            name: bind.name.clone(),
            origin: self.origins.get(&bind.value.id).cloned(),
            size: self.size(&bind.value),
            entries: self.entries_of(&bind.value),
        };
        self.locals.push(local);
    }

    fn bind(&mut self, id: Id, bind: &Bind) -> Range {
        let value = self.cost(&bind.value);
        self.push_bound(bind);
        let body = self.cost(&bind.body);
        if let Some(size) = self.size(&bind.body) {
            self.sizes.insert(id, size);
        }
        if let Some(entries) = self.entries_of(&bind.body) {
            self.entries.insert(id, entries);
        }
        self.locals.pop();
        Range::fixed(LIST).plus(value).plus(body)
    }

    /// `x.hasValue() ? optional.of(body) : optional.none()`.
    fn optional_map(&mut self, flat: bool, bind: &Bind) -> Range {
        let target = self.cost(&bind.value);
        self.push_bound(bind);
        let body = self.cost(&bind.body);
        self.locals.pop();
        let bound = Range::fixed(LIST + 1).plus(target).plus(body);
        let yes = if flat { bound } else { bound.plus(ONE) };
        target.plus(ONE).plus(yes.union(ONE))
    }

    fn copy_sizes(&mut self, id: Id, from: &Expr) {
        if let Some(size) = self.size(from) {
            self.sizes.insert(id, size);
        }
        if let Some(entries) = self.entries_of(from) {
            self.entries.insert(id, entries);
        }
    }

    fn entries_of(&self, expr: &Expr) -> Option<Entries> {
        if let Some(entries) = self.entries.get(&expr.id) {
            return Some(*entries);
        }
        match &expr.kind {
            ExprKind::Ident(name) => self.local(name)?.entries,
            _ => None,
        }
    }

    fn size_or_unknown(&self, expr: &Expr) -> Range {
        self.size(expr).unwrap_or(Range::UNKNOWN)
    }

    /// How large the value of `expr` is, as far as that is known.
    fn size(&self, expr: &Expr) -> Option<Range> {
        if let Some(size) = self.sizes.get(&expr.id) {
            return Some(*size);
        }
        match &expr.kind {
            ExprKind::Literal(value) => return Some(Range::fixed(value.size())),
            ExprKind::List(elements) => return Some(Range::fixed(elements.len() as u64)),
            ExprKind::Map(entries) => return Some(Range::fixed(entries.len() as u64)),
            _ => {}
        }
        if let Some(size) = self.origins.get(&expr.id).and_then(origin_size) {
            return Some(size);
        }
        if is_scalar(&self.checked.type_of(expr.id)) {
            return Some(ONE);
        }
        match &expr.kind {
            ExprKind::Ident(name) => self.local(name)?.size,
            _ => None,
        }
    }
}

fn join(sofar: Option<Range>, next: Option<Range>) -> Option<Range> {
    match (sofar, next) {
        (Some(a), Some(b)) => Some(a.union(b)),
        (a, b) => a.or(b),
    }
}

fn origin_size(origin: &Origin) -> Option<Range> {
    match origin {
        Origin::Declared(decl) => Some(Range::up_to(decl.max_elements)),
        Origin::Key => Some(Range::up_to(0)),
        Origin::Nowhere => None,
    }
}

fn is_scalar(ty: &Type) -> bool {
    match ty {
        Type::Bool | Type::Double | Type::Duration | Type::Int | Type::Timestamp | Type::Uint => true,
        Type::Optional(inner) => is_scalar(inner),
        _ => false,
    }
}

/// The number that a literal is; a negative one counts as none at all.
fn literal_size(expr: &Expr) -> Option<u64> {
    match &expr.kind {
        ExprKind::Literal(CelValue::Int(number)) => Some(u64::try_from(*number).unwrap_or(0)),
        _ => None,
    }
}
