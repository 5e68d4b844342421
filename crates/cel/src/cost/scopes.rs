//! Costs of macros, whose bodies have variables for the elements of a range or for a value.

use smol_str::SmolStr;

use super::{Entries, Estimator, LIST, Local, MAP, ONE, Range, Step, TRAVERSAL, origin_size};
use crate::syntax::{Bind, Expr, Fold, FoldKind, Id};
use crate::types::Type;

impl Estimator<'_> {
    pub(super) fn fold(&mut self, id: Id, fold: &Fold) -> Range {
        let range = self.cost(&fold.range);
        if fold.kind == FoldKind::SortBy {
            return self.sort_by(id, fold, range);
        }
        let depth = self.locals.len();
        self.push_variables(fold, &fold.range);
        let filter = fold.filter.as_ref().map(|filter| self.cost(filter));
        let body = self.cost(&fold.body);
        // The size that a step adds, computed while its variables are in scope.
        let added = match fold.kind {
            FoldKind::Filter => self.local(&fold.var).map(|local| (ONE, self.local_size(local))),
            FoldKind::Map | FoldKind::TransformMap => Some((ONE, Some(self.size_or_unknown(&fold.body)))),
            _ => None,
        };
        self.locals.truncate(depth);
        // Costs of the loop that the macro expands to: initialization, condition, step, result.
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
        // The list is bound to a variable and read once more.
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

    pub(super) fn bind(&mut self, id: Id, bind: &Bind) -> Range {
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

    /// Returns the cost of `x.hasValue() ? optional.of(body) : optional.none()`.
    pub(super) fn optional_map(&mut self, flat: bool, bind: &Bind) -> Range {
        let target = self.cost(&bind.value);
        self.push_bound(bind);
        let body = self.cost(&bind.body);
        self.locals.pop();
        let bound = Range::fixed(LIST + 1).plus(target).plus(body);
        let yes = if flat { bound } else { bound.plus(ONE) };
        target.plus(ONE).plus(yes.union(ONE))
    }
}
