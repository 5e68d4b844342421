//! Type checker: resolves each name and call, and reports errors in the words of cel-go.

mod folds;

use std::collections::HashMap;

use smol_str::SmolStr;

use crate::checked::{Checked, Reference};
use crate::environment::Environment;
use crate::functions::{Declared, Overload, type_by_name};
use crate::inference::Inference;
use crate::library::declared;
use crate::operators::{Operator, operator};
use crate::parser::Parsed;
use crate::source::Issue;
use crate::syntax::{Expr, ExprKind, Id, MapEntry, StructField, operators};
use crate::types::Type;
use crate::validators::validate;
use crate::value::CelValue;

/// Maximum number of parts of a type. Nested maps of maps could double it with each step.
const MAX_WEIGHT: usize = 512;

/// Checks `parsed` against the declarations of `environment`.
pub(crate) fn check(environment: &Environment, parsed: Parsed) -> Result<Checked, Vec<Issue>> {
    let Parsed { root, offsets, depth } = parsed;
    let mut checker = Checker {
        environment,
        types: vec![Type::Dyn; offsets.len()],
        references: HashMap::new(),
        offsets,
        locals: Vec::new(),
        inference: Inference::default(),
        issues: Vec::new(),
    };
    checker.expr(&root);
    if !checker.issues.is_empty() {
        return Err(checker.issues);
    }
    // A type that is still unknown at the end may be any type.
    let types = checker.types.iter().map(|ty| checker.inference.closed(ty)).collect();
    let checked = Checked {
        root,
        types,
        references: checker.references,
        depth,
    };
    let issues = validate(&checked, &checker.offsets);
    if issues.is_empty() { Ok(checked) } else { Err(issues) }
}

struct Checker<'a> {
    environment: &'a Environment,
    offsets: Vec<usize>,
    types: Vec<Type>,
    references: HashMap<Id, Reference>,
    locals: Vec<(SmolStr, Type)>,
    inference: Inference,
    issues: Vec<Issue>,
}

impl Checker<'_> {
    #[expect(
        clippy::indexing_slicing,
        reason = "the parser numbers expressions, and the environment variables, from zero"
    )]
    fn report(&mut self, id: Id, message: String) -> Type {
        self.issues.push(Issue {
            offset: self.offsets[id as usize],
            message,
        });
        Type::Error
    }

    #[expect(
        clippy::indexing_slicing,
        reason = "the parser numbers expressions, and the environment variables, from zero"
    )]
    fn set(&mut self, id: Id, ty: Type) -> Type {
        self.types[id as usize] = ty.clone();
        ty
    }

    fn expr(&mut self, expr: &Expr) -> Type {
        let ty = match &expr.kind {
            ExprKind::Literal(value) => literal_type(value),
            ExprKind::Ident(name) => self.ident(expr.id, name),
            ExprKind::Select { operand, field, test } => self.select(expr, operand, field, *test),
            ExprKind::Call { function, target, args } => self.call(expr.id, function, target.as_deref(), args),
            ExprKind::List(elements) => self.list(elements),
            ExprKind::Map(entries) => self.map(entries),
            ExprKind::Struct { name, fields } => self.structure(expr.id, name, fields),
            ExprKind::Fold(fold) => self.fold(expr.id, fold),
            ExprKind::Bind(bind) => self.bind(bind),
            ExprKind::OptionalMap { flat, bind } => self.optional_map(expr.id, *flat, bind),
        };
        if self.weight(&ty, MAX_WEIGHT).is_none() {
            return self.report(expr.id, "type is too large".to_owned());
        }
        self.set(expr.id, ty)
    }

    /// Subtracts the number of parts of `ty` from `left`; `None` if it is larger.
    fn weight(&self, ty: &Type, left: usize) -> Option<usize> {
        let left = left.checked_sub(1)?;
        match ty {
            Type::Param(name) => match self.inference.known(name) {
                Some(known) => self.weight(known, left),
                None => Some(left),
            },
            Type::List(inner) | Type::Optional(inner) | Type::Type(inner) => self.weight(inner, left),
            Type::Map(keys, values) => {
                let left = self.weight(keys, left)?;
                self.weight(values, left)
            }
            _ => Some(left),
        }
    }

    fn ident(&mut self, id: Id, name: &str) -> Type {
        match self.lookup(id, name) {
            Some(ty) => ty,
            None => self.report(id, format!("undeclared reference to '{name}' (in container '')")),
        }
    }

    /// Returns the type of the variable or type `name`, and records the reference at `id`.
    fn lookup(&mut self, id: Id, name: &str) -> Option<Type> {
        let Some(global) = name.strip_prefix('.') else {
            return self.local(id, name).or_else(|| self.declared(id, name));
        };
        // A variable of a macro may be written with the dot, too.
        self.declared(id, global).or_else(|| self.local(id, global))
    }

    fn local(&mut self, id: Id, name: &str) -> Option<Type> {
        let (_, ty) = self.locals.iter().rev().find(|(local, _)| local == name)?;
        let ty = ty.clone();
        self.references.insert(id, Reference::Local);
        Some(ty)
    }

    #[expect(
        clippy::indexing_slicing,
        reason = "the parser numbers expressions, and the environment variables, from zero"
    )]
    fn declared(&mut self, id: Id, name: &str) -> Option<Type> {
        if let Some(slot) = self.environment.slot(name) {
            self.references.insert(id, Reference::Variable(slot));
            return Some(self.environment.variables[slot].ty.clone());
        }
        let named = type_by_name(name, self.environment.mutation)?;
        let reference = Reference::TypeName(SmolStr::new(named.type_name()));
        self.references.insert(id, reference);
        Some(Type::Type(named.into()))
    }

    fn select(&mut self, expr: &Expr, operand: &Expr, field: &str, test: bool) -> Type {
        // `google.protobuf.Timestamp` is one name, unless its first word is a variable.
        if !test && let Some(name) = qualified_name(expr) {
            let first = name.split('.').next().unwrap_or_default();
            let is_local = self.locals.iter().any(|(local, _)| local == first);
            // The name of a variable may contain a dot, like `authorizer.requestResource`.
            let is_variable = is_local || self.environment.slot(first).is_some();
            let is_qualified = !is_local && self.environment.slot(&name).is_some();
            if (is_qualified || !is_variable)
                && let Some(ty) = self.lookup(expr.id, &name)
            {
                return ty;
            }
        }
        let operand_type = self.expr(operand);
        let target = self.inference.resolved(&operand_type);
        let (inner, optional) = match target {
            Type::Optional(inner) => ((*inner).clone(), true),
            other => (other, false),
        };
        let ty = self.field(expr.id, &inner, field);
        if test {
            return Type::Bool;
        }
        if optional { Type::optional(ty) } else { ty }
    }

    fn field(&mut self, id: Id, target: &Type, field: &str) -> Type {
        match target {
            Type::Map(_, values) => (**values).clone(),
            Type::Object(object) => match object.field(field) {
                Some(ty) => ty,
                None => self.report(id, format!("undefined field '{field}'")),
            },
            // The fields of a value of unknown type are unknown.
            Type::Param(name) => {
                self.inference.learn(name, Type::Dyn);
                Type::Dyn
            }
            target if target.is_dyn() => Type::Dyn,
            // The reference treats these as messages without known fields; addresses and ranges are different.
            Type::Named(name) if !matches!(*name, "net.IP" | "net.CIDR") => {
                self.report(id, format!("unexpected failed resolution of '{name}'"))
            }
            target => {
                self.report(id, format!("type '{target}' does not support field selection"));
                Type::Dyn
            }
        }
    }

    fn call(&mut self, id: Id, function: &str, target: Option<&Expr>, args: &[Expr]) -> Type {
        if function == operators::OPTIONAL_SELECT {
            return self.optional_select(id, args);
        }
        if let Some(operator) = operator(function) {
            return self.operator(id, operator, args);
        }
        let plain = function.strip_prefix('.').unwrap_or(function);
        if let Some(target) = target
            && let Some(namespace) = qualified_name(target)
        {
            let full = format!("{namespace}.{plain}");
            if let Some(found) = self.function(&full) {
                return self.resolve_call(id, found, None, args, true);
            }
        }
        let target_type = target.map(|target| self.expr(target));
        match self.function(plain) {
            Some(found) => self.resolve_call(id, found, target_type, args, false),
            None => {
                for arg in args {
                    self.expr(arg);
                }
                self.report(id, format!("undeclared reference to '{function}' (in container '')"))
            }
        }
    }

    fn function(&self, name: &str) -> Option<&'static Declared> {
        declared(name).filter(|found| !found.mutation || self.environment.mutation)
    }

    fn resolve_call(
        &mut self,
        id: Id,
        function: &'static Declared,
        target: Option<Type>,
        args: &[Expr],
        qualified: bool,
    ) -> Type {
        let member = target.is_some();
        let mut arguments: Vec<Type> = target.into_iter().collect();
        for arg in args {
            arguments.push(self.expr(arg));
        }
        let overloads: Vec<&Overload> = function.overloads.iter().collect();
        let Some((fitting, result)) = self.overloads(&overloads, member, &arguments) else {
            return self.no_overload(id, function.name, member, &arguments);
        };
        self.references.insert(
            id,
            Reference::Function {
                function,
                overloads: fitting,
                qualified,
            },
        );
        result
    }

    #[expect(
        clippy::indexing_slicing,
        reason = "the parser numbers expressions, and the environment variables, from zero"
    )]
    fn operator(&mut self, id: Id, operator: &'static Operator, args: &[Expr]) -> Type {
        let arguments: Vec<Type> = args.iter().map(|arg| self.expr(arg)).collect();
        let overloads: Vec<&'static Overload> = operator.overloads.iter().collect();
        if matches!(operator.name, operators::AND | operators::OR) {
            for (arg, ty) in args.iter().zip(&arguments) {
                self.expect_bool(arg.id, ty);
            }
            self.references.insert(id, Reference::Operator { overloads });
            return Type::Bool;
        }
        let Some((fitting, result)) = self.overloads(&overloads, false, &arguments) else {
            return self.no_overload(id, operator.name, false, &arguments);
        };
        let overloads = fitting.into_iter().map(|at| overloads[at]).collect();
        self.references.insert(id, Reference::Operator { overloads });
        result
    }

    /// Finds the `overloads` that accept the argument types, and the type of their results: `dyn` if they differ.
    fn overloads(&mut self, overloads: &[&Overload], member: bool, arguments: &[Type]) -> Option<(Vec<usize>, Type)> {
        let mut fitting = Vec::new();
        let mut result: Option<Type> = None;
        for (at, overload) in overloads.iter().enumerate() {
            if overload.member != member || overload.params.len() != arguments.len() {
                continue;
            }
            let renamed = self.inference.renamed(overload);
            let before = self.inference.mark();
            let all = arguments
                .iter()
                .zip(&renamed.params)
                .all(|(from, to)| self.inference.fits(from, to));
            if !all {
                self.inference.take_back(before);
                continue;
            }
            let own = self.inference.resolved(&renamed.result);
            fitting.push(at);
            result = Some(match result {
                Some(other) if !other.is_dyn() && other != own => Type::Dyn,
                Some(other) => other,
                None => own,
            });
        }
        result.map(|result| (fitting, result))
    }

    /// Checks an operand of `&&` and `||`.
    fn expect_bool(&mut self, id: Id, ty: &Type) {
        if !self.inference.assignable(ty, &Type::Bool) {
            self.mismatch(id, &Type::Bool, ty);
        }
    }

    fn no_overload(&mut self, id: Id, function: &str, member: bool, arguments: &[Type]) -> Type {
        // A type that is still unknown is not reported.
        let shown: Vec<String> = arguments
            .iter()
            .map(|ty| self.inference.closed(ty).to_string())
            .collect();
        let signature = match shown.split_first() {
            Some((target, args)) if member => format!("{target}.({})", args.join(", ")),
            _ => format!("({})", shown.join(", ")),
        };
        let message = format!("found no matching overload for '{function}' applied to '{signature}'");
        self.report(id, message)
    }

    fn optional_select(&mut self, id: Id, args: &[Expr]) -> Type {
        let [operand, field] = args else { return Type::Error };
        let ExprKind::Literal(CelValue::String(name)) = &field.kind else {
            return self.report(field.id, "unsupported optional field selection".to_owned());
        };
        self.set(field.id, Type::String);
        let operand_type = self.expr(operand);
        let target = match self.inference.resolved(&operand_type) {
            Type::Optional(inner) => (*inner).clone(),
            other => other,
        };
        let ty = self.field(id, &target, name);
        if matches!(ty, Type::Error) {
            Type::Error
        } else {
            Type::optional(ty)
        }
    }

    /// Returns the type of an element; an optional element has the type of its content.
    fn element(&mut self, element: &Expr, optional: bool) -> Type {
        let ty = self.expr(element);
        if !optional {
            return ty;
        }
        match self.inference.resolved(&ty) {
            Type::Optional(inner) => (*inner).clone(),
            Type::Dyn => Type::Dyn,
            other => self.mismatch(element.id, &Type::optional(other.clone()), &other),
        }
    }

    fn mismatch(&mut self, id: Id, expected: &Type, found: &Type) -> Type {
        let (expected, found) = (self.inference.resolved(expected), self.inference.resolved(found));
        self.report(id, format!("expected type '{expected}' but found '{found}'"))
    }

    fn join(&mut self, sofar: Option<Type>, next: Type) -> Option<Type> {
        Some(match sofar {
            Some(sofar) => self.inference.joined(&sofar, &next),
            None => next,
        })
    }

    fn list(&mut self, elements: &[(Expr, bool)]) -> Type {
        let mut items = None;
        for (element, optional) in elements {
            let ty = self.element(element, *optional);
            items = self.join(items, ty);
        }
        let items = items.unwrap_or_else(|| self.inference.unknown());
        Type::list(items)
    }

    fn map(&mut self, entries: &[MapEntry]) -> Type {
        let (mut keys, mut values) = (None, None);
        for entry in entries {
            let key = self.expr(&entry.key);
            keys = self.join(keys, key);
            let value = self.element(&entry.value, entry.optional);
            values = self.join(values, value);
        }
        let keys = keys.unwrap_or_else(|| self.inference.unknown());
        let values = values.unwrap_or_else(|| self.inference.unknown());
        Type::map(keys, values)
    }

    fn structure(&mut self, id: Id, name: &str, fields: &[StructField]) -> Type {
        let ty = match type_by_name(name.strip_prefix('.').unwrap_or(name), self.environment.mutation) {
            Some(Type::Object(object)) => object,
            Some(other) => {
                return self.report(id, format!("'{other}' is not a message type"));
            }
            None => return self.report(id, format!("undeclared reference to '{name}' (in container '')")),
        };
        for field in fields {
            let provided = self.element(&field.value, field.optional);
            let wanted = match ty.field(&field.name) {
                Some(wanted) => wanted,
                None => {
                    self.report(field.id, format!("undefined field '{}'", field.name));
                    continue;
                }
            };
            if !self.inference.assignable(&provided, &wanted) {
                let (wanted, provided) = (self.inference.resolved(&wanted), self.inference.resolved(&provided));
                let message = format!(
                    "expected type of field '{}' is '{wanted}' but provided type is '{provided}'",
                    field.name
                );
                self.report(field.id, message);
            }
        }
        Type::Object(ty)
    }
}

fn literal_type(value: &CelValue) -> Type {
    match value {
        CelValue::Null => Type::Null,
        CelValue::Bool(_) => Type::Bool,
        CelValue::Int(_) => Type::Int,
        CelValue::Uint(_) => Type::Uint,
        CelValue::Double(_) => Type::Double,
        CelValue::String(_) => Type::String,
        CelValue::Bytes(_) => Type::Bytes,
        _ => Type::Dyn,
    }
}

/// Returns the dotted name that a chain of selections from an identifier spells.
fn qualified_name(expr: &Expr) -> Option<String> {
    match &expr.kind {
        ExprKind::Ident(name) => Some(name.trim_start_matches('.').to_owned()),
        ExprKind::Select {
            operand,
            field,
            test: false,
        } => Some(format!("{}.{field}", qualified_name(operand)?)),
        _ => None,
    }
}
