//! Static estimate of the maximum cost of an expression.
//!
//! The rules are those of cel-go and of the Kubernetes libraries: a selection costs one, a walk over a text a tenth of
//! a unit per character, a macro its body times the size of its range, and an unbounded size is the size of a request.
//! CRDs are accepted or rejected by these figures, so they match the reference exactly.

mod calls;
mod range;
mod scopes;

use std::collections::HashMap;
use std::sync::Arc;

use smol_str::SmolStr;

pub use self::range::Range;
use crate::checked::{Checked, Reference};
use crate::declaration::{DeclKind, DeclType};
use crate::environment::Environment;
use crate::syntax::{Expr, ExprKind, Id};
use crate::types::Type;

/// Cost of scanning a character of a text.
pub(crate) const TRAVERSAL: f64 = 0.1;
/// Cost of a character of a pattern.
pub(crate) const PATTERN: f64 = 0.25;
/// Length of the longest pattern of a named format.
pub(crate) const FORMAT_PATTERN: f64 = 128.0;
/// Cost of creating a list, a map or an object.
pub(crate) const LIST: u64 = 10;
pub(crate) const MAP: u64 = 30;
pub(crate) const STRUCT: u64 = 40;

/// Maximum length of a format's name.
const MAX_FORMAT_NAME_LENGTH: u64 = 64;

const ONE: Range = Range::fixed(1);

/// Origin of a value in the declared data.
#[derive(Debug, Clone)]
enum Origin {
    Declared(Arc<DeclType>),
    /// A key of a declared map. Its length is not counted.
    Key,
    /// A value outside of the declared data.
    Nowhere,
}

/// A step from a value to one within it.
#[derive(Clone, Copy)]
enum Step<'a> {
    Field(&'a str),
    Value,
    Key,
    /// An index of a list, which is never declared.
    Index,
}

/// Sizes of the keys and values of a list or map.
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

/// Returns the cost range of `checked`.
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

impl Estimator<'_> {
    fn cost(&mut self, expr: &Expr) -> Range {
        match &expr.kind {
            ExprKind::Literal(_) => Range::fixed(0),
            ExprKind::Ident(name) => {
                self.set_origin(expr.id, self.ident_origin(expr.id, name));
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

    fn set_origin(&mut self, id: Id, origin: Option<Origin>) {
        if let Some(origin) = origin {
            self.origins.insert(id, origin);
        }
    }

    /// Returns the origin of a path of one name. The reference accepts any name for the variable of rules.
    fn root(&self) -> Option<Origin> {
        let mut variables = self.environment.variables.iter();
        let of_rules = variables.find(|variable| variable.name == "self")?;
        of_rules.decl.clone().map(Origin::Declared)
    }

    /// Returns the origin of a step from a value. A value without origin, such as the result of a call, has an empty
    /// path, so the first step from it counts as the name of a variable.
    fn step(&self, from: Option<&Origin>, step: Step<'_>) -> Option<Origin> {
        let found = match (from, step) {
            (None, _) => return self.root(),
            (Some(Origin::Declared(decl)), Step::Field(name)) => match &decl.kind {
                // Only fields have names; the values of a map are accessed by their keys.
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
            self.set_origin(id, self.root());
            return ONE;
        }
        let cost = self.cost(operand);
        if test {
            // A presence test is free.
            return cost;
        }
        self.set_origin(id, self.step(self.origins.get(&operand.id), Step::Field(field)));
        match self.checked.type_of(operand.id) {
            Type::Map(..) | Type::Object(_) => cost.plus(ONE),
            _ => cost,
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

    /// Returns the size of the value of `expr`, if it is known.
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
