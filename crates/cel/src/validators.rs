//! Validation of a checked expression: literals of durations, timestamps, patterns and format strings, and a common
//! type for the elements of a literal. cel-go runs these as validators of the checked tree.

use crate::checked::Checked;
use crate::functions::Context;
use crate::library::declared;
use crate::library::template::{Piece, pieces, rejection};
use crate::regex_cache::RegexCache;
use crate::regexp::check_pattern;
use crate::source::Issue;
use crate::syntax::{Expr, ExprKind, Id, MapEntry};
use crate::types::Type;
use crate::value::CelValue;

/// Returns the errors in literals of `checked`, whose nodes have the positions `offsets`.
pub(crate) fn validate(checked: &Checked, offsets: &[usize]) -> Vec<Issue> {
    let mut validator = Validator {
        checked,
        offsets,
        issues: Vec::new(),
    };
    validator.walk(&checked.root, false);
    validator.issues
}

struct Validator<'a> {
    checked: &'a Checked,
    offsets: &'a [usize],
    issues: Vec<Issue>,
}

impl Validator<'_> {
    fn report(&mut self, id: Id, message: String) {
        let offset = self.offsets.get(id as usize).copied().unwrap_or_default();
        self.issues.push(Issue { offset, message });
    }

    /// Validates `expr` and its descendants; arguments of `format` may have any types.
    fn walk(&mut self, expr: &Expr, within_format: bool) {
        let mut within_format = within_format;
        match &expr.kind {
            ExprKind::List(elements) if !within_format => self.elements(elements),
            ExprKind::Map(entries) if !within_format => self.entries(entries),
            ExprKind::Call { function, target, args } => {
                self.literal(function, args);
                if function == "format" {
                    within_format = true;
                    self.format(expr.id, target.as_deref(), args);
                }
            }
            _ => {}
        }
        expr.each_child(&mut |child| self.walk(child, within_format));
    }

    fn mismatch(&mut self, id: Id, expected: &Type, found: &Type) {
        self.report(id, format!("expected type '{expected}' but found '{found}'"));
    }

    /// Returns the type of an element; an optional element has the type of its content.
    fn element_type(&self, element: &Expr, optional: bool) -> Type {
        match self.checked.type_of(element.id) {
            Type::Optional(inner) if optional => (*inner).clone(),
            ty => ty,
        }
    }

    fn elements(&mut self, elements: &[(Expr, bool)]) {
        let mut types = elements
            .iter()
            .map(|(element, optional)| (element.id, self.element_type(element, *optional)));
        let Some((_, first)) = types.next() else { return };
        if let Some((id, other)) = types.find(|(_, ty)| *ty != first) {
            self.mismatch(id, &first, &other);
        }
    }

    fn entries(&mut self, entries: &[MapEntry]) {
        let Some((first, rest)) = entries.split_first() else {
            return;
        };
        let key = self.checked.type_of(first.key.id);
        let value = self.element_type(&first.value, first.optional);
        for entry in rest {
            let (other_key, other_value) = (
                self.checked.type_of(entry.key.id),
                self.element_type(&entry.value, entry.optional),
            );
            if other_key != key {
                self.mismatch(entry.key.id, &key, &other_key);
            }
            if other_value != value {
                self.mismatch(entry.value.id, &value, &other_value);
            }
        }
    }

    /// Validates literals of durations, timestamps and patterns; for `matches(text, pattern)` it validates the text.
    fn literal(&mut self, function: &str, args: &[Expr]) {
        let Some(Expr {
            id,
            kind: ExprKind::Literal(value),
        }) = args.first()
        else {
            return;
        };
        let valid = match (function, value) {
            // The reference does not convert number literals to durations, though they pass the check.
            ("duration", CelValue::Int(_)) => false,
            ("duration" | "timestamp", value) => evaluates(function, value),
            ("matches", CelValue::String(text)) => check_pattern(text).is_ok(),
            _ => true,
        };
        if !valid {
            self.report(*id, format!("invalid {function} argument"));
        }
    }

    /// Validates a constant template against the types of its arguments.
    #[expect(clippy::indexing_slicing, reason = "the number of arguments is checked first")]
    fn format(&mut self, id: Id, target: Option<&Expr>, args: &[Expr]) {
        let (
            Some(Expr {
                kind: ExprKind::Literal(CelValue::String(template)),
                ..
            }),
            [
                Expr {
                    kind: ExprKind::List(arguments),
                    ..
                },
            ],
        ) = (target, args)
        else {
            return;
        };
        let mut used = 0;
        for piece in pieces(template, arguments.len()) {
            let verb = match piece {
                Ok(Piece::Text(_)) => continue,
                Ok(Piece::Clause { verb, .. }) => verb,
                Err(message) => return self.report(id, message),
            };
            if let Some(wrong) = self.misfit(verb, &arguments[used].0) {
                let ty = self.checked.type_of(wrong);
                let message = format!(
                    "error during formatting: {}, was given {}",
                    rejection(verb),
                    ty.type_name()
                );
                return self.report(wrong, message);
            }
            used += 1;
        }
        if arguments.len() > used {
            self.report(
                id,
                format!(
                    "too many arguments supplied to string.format (expected {used}, got {})",
                    arguments.len()
                ),
            );
        }
    }

    /// Returns the part of `argument` that the clause does not accept.
    fn misfit(&self, verb: char, argument: &Expr) -> Option<Id> {
        match verb {
            's' => self.unprintable(argument),
            verb => Some(argument.id).filter(|id| !takes(verb, &self.checked.type_of(*id))),
        }
    }

    /// Returns the part of a literal that `%s` cannot format.
    fn unprintable(&self, argument: &Expr) -> Option<Id> {
        if !takes('s', &self.checked.type_of(argument.id)) {
            return Some(argument.id);
        }
        match &argument.kind {
            ExprKind::List(elements) => elements.iter().find_map(|(element, _)| self.unprintable(element)),
            ExprKind::Map(entries) => entries
                .iter()
                .flat_map(|entry| [&entry.key, &entry.value])
                .find_map(|part| self.unprintable(part)),
            _ => None,
        }
    }
}

fn evaluates(function: &str, value: &CelValue) -> bool {
    let context = Context {
        regexes: &RegexCache::default(),
        allowance: 0,
    };
    declared(function).is_some_and(|found| (found.call)(&context, std::slice::from_ref(value)).is_ok())
}

/// True if a formatting clause accepts values of type `ty`.
fn takes(verb: char, ty: &Type) -> bool {
    use Type::{Bool, Bytes, Double, Duration, Dyn, Error, Int, List, Map, Null, String, Timestamp, Uint};
    matches!(
        (verb, ty),
        (_, Dyn | Error)
            | (
                's',
                Int | Uint | Double | Bool | String | Bytes | Null | Timestamp | Duration
            )
            | ('s', List(_) | Map(..) | Type::Type(_))
            | ('d' | 'o', Int | Uint)
            | ('b', Int | Uint | Bool)
            | ('f' | 'e', Double | String)
            | ('x' | 'X', Int | Uint | String | Bytes)
    )
}
