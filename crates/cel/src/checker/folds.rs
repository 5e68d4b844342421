//! Expressions with local variables: bindings, optional mappings, and macros over lists and maps.

use super::Checker;
use crate::source::MAX_ISSUES;
use crate::syntax::{Bind, Fold, FoldKind, Id, operators};
use crate::types::Type;

impl Checker<'_> {
    pub(super) fn bind(&mut self, bind: &Bind) -> Type {
        let value = self.expr(&bind.value);
        self.locals.push((bind.name.clone(), value));
        let body = self.expr(&bind.body);
        self.locals.pop();
        body
    }

    pub(super) fn optional_map(&mut self, id: Id, flat: bool, bind: &Bind) -> Type {
        let before = self.issues.len();
        let target = self.expr(&bind.value);
        // The reference expands the macro to a form with two copies of the target, so it reports errors of the target
        // twice.
        let room = MAX_ISSUES.saturating_sub(self.issues.len());
        let end = self.issues.len().min(before + room);
        self.issues.extend_from_within(before..end);
        let inner = match self.inference.resolved(&target) {
            Type::Optional(inner) => (*inner).clone(),
            ty if ty.is_dyn() || matches!(ty, Type::Param(_)) => Type::Dyn,
            other => return self.no_overload(id, "hasValue", true, &[other]),
        };
        self.locals.push((bind.name.clone(), inner));
        let body = self.expr(&bind.body);
        self.locals.pop();
        if !flat {
            return Type::optional(body);
        }
        let wanted = Type::optional(self.inference.unknown());
        if self.inference.assignable(&body, &wanted) {
            return self.inference.resolved(&wanted);
        }
        self.no_overload(id, operators::CONDITIONAL, false, &[Type::Bool, body, wanted])
    }

    pub(super) fn fold(&mut self, id: Id, fold: &Fold) -> Type {
        let range_type = self.expr(&fold.range);
        let range = self.inference.resolved(&range_type);
        let (first, second) = self.iterated(fold, &range).unwrap_or_else(|| {
            let message = format!(
                "expression of type '{range}' cannot be range of a comprehension (must be list, map, or dynamic)"
            );
            self.report(fold.range.id, message);
            // The parts below are checked nevertheless.
            (Type::Error, Type::Error)
        });
        let depth = self.locals.len();
        self.locals.push((fold.var.clone(), first.clone()));
        if let Some(var2) = &fold.var2 {
            self.locals.push((var2.clone(), second));
        }
        let filter = fold.filter.as_ref().map(|filter| self.expr(filter));
        let body = self.expr(&fold.body);
        self.locals.truncate(depth);
        self.fold_result(id, fold, &range, filter, body, first)
    }

    /// Returns the types of the variables of an iteration over `range`.
    fn iterated(&mut self, fold: &Fold, range: &Type) -> Option<(Type, Type)> {
        let two = fold.var2.is_some();
        match range {
            Type::List(items) if two => Some((Type::Int, (**items).clone())),
            Type::List(items) => Some(((**items).clone(), Type::Dyn)),
            Type::Map(keys, values) => Some(((**keys).clone(), (**values).clone())),
            Type::Param(name) => {
                self.inference.learn(name, Type::Dyn);
                Some((Type::Dyn, Type::Dyn))
            }
            range if range.is_dyn() => Some((Type::Dyn, Type::Dyn)),
            _ => None,
        }
    }

    fn fold_result(
        &mut self,
        id: Id,
        fold: &Fold,
        range: &Type,
        filter: Option<Type>,
        body: Type,
        element: Type,
    ) -> Type {
        // An error of a condition names the operator that the macro expands to, and the type of the result remains
        // known.
        let condition = |checker: &mut Self, ty: Option<Type>, branch: &Type| {
            if let Some(ty) = ty
                && !checker.inference.assignable(&ty, &Type::Bool)
            {
                let arguments = [ty, branch.clone(), branch.clone()];
                checker.no_overload(id, operators::CONDITIONAL, false, &arguments);
            }
        };
        let key = match range {
            Type::Map(keys, _) => (**keys).clone(),
            Type::List(_) => Type::Int,
            _ => Type::Dyn,
        };
        match fold.kind {
            FoldKind::All | FoldKind::Exists => {
                self.expect_bool(fold.body.id, &body);
                Type::Bool
            }
            FoldKind::ExistsOne => {
                condition(self, Some(body), &Type::Int);
                Type::Bool
            }
            FoldKind::Filter => {
                let list = Type::list(element);
                condition(self, Some(body), &list);
                list
            }
            FoldKind::Map => {
                let list = Type::list(body);
                condition(self, filter, &list);
                list
            }
            FoldKind::TransformMap => {
                let map = Type::map(key, body);
                condition(self, filter, &map);
                map
            }
            FoldKind::TransformMapEntry => {
                let (keys, values) = (self.inference.unknown(), self.inference.unknown());
                let map = Type::map(keys, values);
                if !self.inference.assignable(&body, &map) {
                    self.no_overload(id, "cel.@mapInsert", false, &[map.clone(), body]);
                    return map;
                }
                let map = self.inference.resolved(&map);
                condition(self, filter, &map);
                map
            }
            FoldKind::SortBy => self.sorted(id, range, body),
        }
    }

    /// Returns the type of a list that is sorted by keys.
    fn sorted(&mut self, id: Id, range: &Type, key: Type) -> Type {
        let range = self.inference.resolved(range);
        let is_comparable = matches!(
            self.inference.resolved(&key),
            Type::Int
                | Type::Uint
                | Type::Double
                | Type::Bool
                | Type::Duration
                | Type::Timestamp
                | Type::String
                | Type::Bytes
                | Type::Dyn
                | Type::Error
                | Type::Param(_)
        );
        if !is_comparable {
            return self.no_overload(id, "@sortByAssociatedKeys", true, &[range, Type::list(key)]);
        }
        match range {
            Type::List(_) => range,
            _ => Type::list(Type::Dyn),
        }
    }
}
