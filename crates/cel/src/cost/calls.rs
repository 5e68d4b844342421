//! Costs of calls of functions and operators, and the sizes of their results.

use super::{
    Estimator, FORMAT_PATTERN, LIST, MAX_FORMAT_NAME_LENGTH, ONE, PATTERN, Range, Step, TRAVERSAL, origin_size,
};
use crate::checked::Reference;
use crate::functions::{Cost, Overload};
use crate::syntax::{Expr, ExprKind, Id, operators};
use crate::types::Type;
use crate::value::CelValue;

/// Cost with the size of the result, if it is known.
type Estimate = (Range, Option<Range>);

impl Estimator<'_> {
    #[expect(
        clippy::indexing_slicing,
        reason = "references name variables and overloads of the environment"
    )]
    pub(super) fn call(&mut self, expr: &Expr, function: &str, target: Option<&Expr>, args: &[Expr]) -> Range {
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
            // Optional selection.
            _ => of_args.plus(ONE),
        }
    }

    fn keep_size(&mut self, expr: &Expr, size: Option<Range>) {
        if let Some(size) = size.or_else(|| self.size(expr)) {
            self.sizes.insert(expr.id, size);
        }
    }

    /// Returns the cost of an operator; the sum includes the costs of its operands.
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
        if matches!(overload.params.first(), Some(Type::List(_) | Type::Map(..))) {
            self.set_origin(id, self.step(self.origins.get(&container.id), Step::Value));
        }
    }

    /// Returns the cost of a comparison that finds two values of a library type equal; unequal ones cost the same as
    /// other types.
    fn named_equality(&self, a: &Expr, b: &Expr) -> Option<Range> {
        let operand_type = self.checked.type_of(b.id);
        let most = match operand_type {
            _ if self.checked.type_of(a.id) != operand_type => return None,
            Type::Named("kubernetes.URL") => self.size(b).map_or(1, |size| size.max.max(1)),
            Type::Named("kubernetes.NamedFormat") => MAX_FORMAT_NAME_LENGTH,
            Type::Named(_) => 1,
            _ => return None,
        };
        Some(Range { min: 1, max: most }.scaled(TRAVERSAL))
    }

    /// Returns the cost of a comparison up to the end of the shorter operand.
    fn shorter(&mut self, a: &Expr, b: &Expr) -> Range {
        let max = self.size_or_unknown(a).max.min(self.size_or_unknown(b).max);
        let sizes = Range {
            min: u64::from(max > 0),
            max,
        };
        sizes.scaled(TRAVERSAL)
    }

    /// Returns the cost of a function without its arguments.
    #[expect(
        clippy::indexing_slicing,
        reason = "a call has the number of arguments of its chosen overload"
    )]
    fn function(&mut self, cost: Cost, overload: &Overload, target: Option<&Expr>, args: &[Expr]) -> Estimate {
        if let Some(estimate) = self.function_that_makes_a_list(cost, overload, target, args) {
            return estimate;
        }
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
                (self.containment(cost, overload, other), None)
            }
            (Cost::Sets(factor), None, [a, b]) => {
                let pairs = self.size_or_unknown(a).times(self.size_or_unknown(b));
                (pairs.scaled(factor as f64).plus(ONE), None)
            }
            _ => (ONE, None),
        }
    }

    /// Returns the cost of a function that creates a list; `None` for others.
    fn function_that_makes_a_list(
        &mut self,
        cost: Cost,
        overload: &Overload,
        target: Option<&Expr>,
        args: &[Expr],
    ) -> Option<Estimate> {
        let (factor, size) = match (cost, target, args) {
            (Cost::Slice, Some(target), [start, end]) => {
                let size = self.size_or_unknown(target);
                let start = literal_size(start).unwrap_or(0);
                let end = literal_size(end).unwrap_or(size.max);
                // The reference uses unsigned arithmetic here, so an end before the start counts as far after it.
                (1.0, Range::fixed(end.wrapping_sub(start)))
            }
            (Cost::Range, None, [count]) => (1.0, Range::fixed(literal_size(count).unwrap_or(u64::MAX))),
            (Cost::Reverse, Some(target), _) => (1.0, self.size_or_unknown(target)),
            (Cost::Flatten, Some(target), args) => {
                let depth = args.first().map_or(1, |depth| literal_size(depth).unwrap_or(u64::MAX));
                (depth as f64, self.size_or_unknown(target))
            }
            (Cost::Distinct, Some(target), _) => {
                let size = self.size_or_unknown(target);
                (2.0, size.times(size))
            }
            (Cost::Sort, Some(target), _) => {
                let size = self.size_or_unknown(target);
                let text = matches!(&overload.result, Type::List(of) if matches!(**of, Type::String | Type::Bytes));
                (if text { 2.0 + TRAVERSAL } else { 2.0 }, size.times(size))
            }
            _ => return None,
        };
        Some((size.scaled(factor).plus(ONE).plus(Range::fixed(LIST)), Some(size)))
    }

    /// Returns the cost of testing if a block contains an address or another block.
    #[expect(
        clippy::indexing_slicing,
        reason = "the overloads of the function have two parameters"
    )]
    fn containment(&self, cost: Cost, overload: &Overload, other: &Expr) -> Range {
        let address = Range { min: 4, max: 16 };
        let mut sum = address.plus(address).scaled(TRAVERSAL);
        if cost == Cost::ContainsCidr {
            sum = sum.plus(address.scaled(TRAVERSAL)).plus(ONE);
        }
        if matches!(overload.params[1], Type::String) {
            sum = sum.plus(self.size_or_unknown(other).scaled(TRAVERSAL));
        }
        sum
    }

    /// Returns the cost of matching a text with a pattern: each counts with its length, the text with one character
    /// more.
    fn pattern_cost(&mut self, text: Range, pattern: &Expr) -> Range {
        let text = text.plus(ONE).scaled(TRAVERSAL);
        text.times(self.size_or_unknown(pattern).scaled(PATTERN))
    }

    fn elements(&self, target: &Expr) -> Range {
        let size = self.size_or_unknown(target);
        // A value that is not known to be a list counts as a text.
        let Type::List(items) = self.checked.type_of(target.id) else {
            return size.scaled(TRAVERSAL);
        };
        let mut element = ONE;
        if matches!(*items, Type::String | Type::Bytes) {
            element = element.plus(self.item_size(target).scaled(TRAVERSAL));
        }
        size.times(element)
    }

    /// Returns the size of an element of a list.
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
        // The longest result: the shortest part is replaced by the longest text as often as possible.
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

    fn copy_sizes(&mut self, id: Id, from: &Expr) {
        if let Some(size) = self.size(from) {
            self.sizes.insert(id, size);
        }
        if let Some(entries) = self.entries_of(from) {
            self.entries.insert(id, entries);
        }
    }
}

fn join(sofar: Option<Range>, next: Option<Range>) -> Option<Range> {
    match (sofar, next) {
        (Some(a), Some(b)) => Some(a.union(b)),
        (a, b) => a.or(b),
    }
}

/// Returns the number of a literal; a negative one counts as none.
fn literal_size(expr: &Expr) -> Option<u64> {
    match &expr.kind {
        ExprKind::Literal(CelValue::Int(number)) => Some(u64::try_from(*number).unwrap_or(0)),
        _ => None,
    }
}
