//! Inference of unknown types, and assignability between types.

use std::collections::HashMap;
use std::sync::Arc;

use smol_str::SmolStr;

use crate::functions::Overload;
use crate::types::Type;

/// Bindings of an expression's unknown types, in the order of inference, so that they can be undone.
#[derive(Default)]
pub(crate) struct Inference {
    bound: HashMap<SmolStr, Type>,
    trail: Vec<(SmolStr, Option<Type>)>,
    fresh: usize,
}

impl Inference {
    /// Returns the binding of the unknown type `name`.
    pub(crate) fn known(&self, name: &str) -> Option<&Type> {
        self.bound.get(name)
    }

    /// Returns the number of bindings so far.
    pub(crate) fn mark(&self) -> usize {
        self.trail.len()
    }

    /// Returns `ty` with known bindings substituted, and unknown types replaced by `dyn`.
    pub(crate) fn closed(&self, ty: &Type) -> Type {
        resolve(ty, &self.bound, true)
    }

    /// Creates a new unknown type.
    pub(crate) fn unknown(&mut self) -> Type {
        let name = SmolStr::from(format!("_var{}", self.fresh));
        self.fresh += 1;
        Type::Param(name)
    }

    /// Returns `ty` with known bindings substituted.
    pub(crate) fn resolved(&self, ty: &Type) -> Type {
        resolve(ty, &self.bound, false)
    }

    /// True if a value of `from` can be used where `to` is expected; binds unknown types accordingly.
    pub(crate) fn assignable(&mut self, from: &Type, to: &Type) -> bool {
        let before = self.trail.len();
        let fits = self.fits(from, to);
        if !fits {
            self.take_back(before);
        }
        fits
    }

    /// Binds the unknown type `name` to `ty`.
    pub(crate) fn learn(&mut self, name: &SmolStr, ty: Type) {
        let previous = self.bound.insert(name.clone(), ty);
        self.trail.push((name.clone(), previous));
    }

    /// Undoes the bindings made since [`Inference::mark`] returned `before`.
    pub(crate) fn take_back(&mut self, before: usize) {
        for (name, previous) in self.trail.drain(before..).rev() {
            match previous {
                Some(previous) => self.bound.insert(name, previous),
                None => self.bound.remove(&name),
            };
        }
    }

    /// Like [`Inference::assignable`], but the caller must undo bindings on failure.
    pub(crate) fn fits(&mut self, from: &Type, to: &Type) -> bool {
        if let Type::Param(name) = to {
            match self.substitutes(from, name) {
                (true, _) => return true,
                (false, true) => return false,
                (false, false) => {}
            }
        }
        if let Type::Param(name) = from {
            return self.substitutes(to, name).0;
        }
        match (from, to) {
            (a, b) if a.is_dyn() || b.is_dyn() => true,
            // Null is compatible with objects and with message-like types, on either side.
            (Type::Null, other) | (other, Type::Null) => matches!(
                other,
                Type::Null | Type::Object(_) | Type::Duration | Type::Timestamp | Type::Named(_) | Type::Optional(_)
            ),
            (Type::List(a), Type::List(b)) | (Type::Optional(a), Type::Optional(b)) => self.fits(a, b),
            (Type::Type(_), Type::Type(_)) => true,
            (Type::Map(ak, av), Type::Map(bk, bv)) => self.fits(ak, bk) && self.fits(av, bv),
            (Type::Object(a), Type::Object(b)) => a.name == b.name,
            (a, b) => a == b,
        }
    }

    /// Tests if the unknown type `name` can be `ty`; the second result is true if it had a binding. Afterwards it is
    /// bound to the more general of both types.
    fn substitutes(&mut self, ty: &Type, name: &SmolStr) -> (bool, bool) {
        if matches!(ty, Type::Param(other) if other == name) {
            return (true, true);
        }
        let Some(known) = self.bound.get(name).cloned() else {
            if self.refers_to(ty, name) {
                return (false, false);
            }
            self.learn(name, ty.clone());
            return (true, false);
        };
        if *ty == known {
            return (true, true);
        }
        if !self.fits(ty, &known) {
            return (false, true);
        }
        let general = more_general(ty, &known);
        if !self.refers_to(&general, name) {
            self.learn(name, general);
        }
        (true, true)
    }

    /// True if the unknown type `name` is a part of `ty`.
    fn refers_to(&self, ty: &Type, name: &str) -> bool {
        match ty {
            Type::Param(other) => {
                other == name || self.bound.get(other).is_some_and(|known| self.refers_to(known, name))
            }
            Type::List(inner) | Type::Optional(inner) | Type::Type(inner) => self.refers_to(inner, name),
            Type::Map(keys, values) => self.refers_to(keys, name) || self.refers_to(values, name),
            _ => false,
        }
    }

    /// Returns the more general of two compatible types, otherwise `dyn`.
    pub(crate) fn joined(&mut self, a: &Type, b: &Type) -> Type {
        if self.assignable(a, b) {
            more_general(a, b)
        } else {
            Type::Dyn
        }
    }

    /// Returns the overload with fresh unknown types for its parameters.
    pub(crate) fn renamed(&mut self, overload: &Overload) -> Overload {
        let mut names: HashMap<SmolStr, Type> = HashMap::new();
        let all = overload.params.iter().chain([&overload.result]);
        for ty in all {
            self.name_params(ty, &mut names);
        }
        if names.is_empty() {
            return overload.clone();
        }
        Overload {
            member: overload.member,
            params: overload.params.iter().map(|ty| resolve(ty, &names, false)).collect(),
            result: resolve(&overload.result, &names, false),
        }
    }

    fn name_params(&mut self, ty: &Type, names: &mut HashMap<SmolStr, Type>) {
        match ty {
            Type::Param(name) if !names.contains_key(name) => {
                let unknown = self.unknown();
                names.insert(name.clone(), unknown);
            }
            Type::List(inner) | Type::Optional(inner) | Type::Type(inner) => self.name_params(inner, names),
            Type::Map(keys, values) => {
                self.name_params(keys, names);
                self.name_params(values, names);
            }
            _ => {}
        }
    }
}

/// Substitutes known bindings in `ty`; unknown types become `dyn` if `close` is set.
fn resolve(ty: &Type, bound: &HashMap<SmolStr, Type>, close: bool) -> Type {
    let inner = |inner: &Arc<Type>| Arc::new(resolve(inner, bound, close));
    match ty {
        Type::Param(name) => match bound.get(name) {
            Some(known) => resolve(known, bound, close),
            None if close => Type::Dyn,
            None => ty.clone(),
        },
        Type::List(items) => Type::List(inner(items)),
        Type::Map(keys, values) => Type::Map(inner(keys), inner(values)),
        Type::Optional(value) => Type::Optional(inner(value)),
        Type::Type(named) => Type::Type(inner(named)),
        other => other.clone(),
    }
}

fn more_general(a: &Type, b: &Type) -> Type {
    if is_as_general(a, b) { a.clone() } else { b.clone() }
}

/// True if `a` is at least as general as `b`.
fn is_as_general(a: &Type, b: &Type) -> bool {
    match (a, b) {
        (Type::Dyn | Type::Param(_), _) => true,
        (_, Type::Dyn | Type::Param(_)) => false,
        (Type::List(a), Type::List(b)) | (Type::Optional(a), Type::Optional(b)) => is_as_general(a, b),
        (Type::Map(ak, av), Type::Map(bk, bv)) => is_as_general(ak, bk) && is_as_general(av, bv),
        (Type::Type(_), Type::Type(_)) => true,
        (a, b) => a == b,
    }
}
