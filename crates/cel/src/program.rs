//! Compiled expressions: the checked tree prepared for evaluation.

use std::sync::Arc;

use smol_str::SmolStr;

use crate::activation::Activation;
use crate::budget::Budget;
use crate::checked::{Checked, Reference};
use crate::cost::{LIST, MAP, Range, estimate};
use crate::environment::Environment;
use crate::error::EvaluationError;
use crate::escaping::unescape;
use crate::evaluate::{Frame, call_cost};
use crate::functions::{Call, Context, Cost};
use crate::node::{Comparison, FoldNode, Node};
use crate::operate::Arithmetic;
use crate::regex_cache::RegexCache;
use crate::regexp::{Pattern, check_pattern};
use crate::syntax::{Expr, ExprKind, operators};
use crate::types::Type;
use crate::value::{CelValue, MapKey, MapValue};

/// Compiled expression, which can be evaluated any number of times and from any thread.
///
/// ```
/// use holdfast_cel::{Activation, Budget, Environment, Type};
///
/// let environment = Environment::new().with_variable("x", Type::Int);
/// let program = environment.compile("[1, 2, 3].map(y, y * 2)", &[Type::list(Type::Int)])?;
/// assert_eq!(program.output_type(), &Type::list(Type::Int));
/// assert!(!program.uses("x"));
/// let mut budget = Budget::default();
/// let before = budget.remaining();
/// let value = program.evaluate(&Activation::new(&environment), &mut budget)?;
/// assert_eq!(value.to_value(&mut Default::default())?.to_string(), "[2,4,6]");
/// assert!(budget.remaining() < before);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct Program {
    root: Node,
    output: Type,
    cost: Range,
    regexes: Arc<RegexCache>,
    /// Variables that the expression uses.
    variables: Vec<SmolStr>,
    /// Depth of the tree.
    depth: u16,
}

impl Program {
    /// Returns the type of the result.
    pub fn output_type(&self) -> &Type {
        &self.output
    }

    /// Returns the cost range of one evaluation, estimated from the sizes that the schema allows.
    pub fn estimate_cost(&self) -> Range {
        self.cost
    }

    /// True if the expression uses the variable `name`: a rule that uses `oldSelf` is a transition rule.
    pub fn uses(&self, name: &str) -> bool {
        self.variables.iter().any(|variable| variable == name)
    }

    /// Returns the stack that an evaluation needs, in steps of the tree.
    pub(crate) fn depth(&self) -> u16 {
        self.depth
    }

    /// Evaluates the expression and deducts its cost from `budget`.
    ///
    /// # Errors
    /// Returns the error of the evaluation; [`EvaluationError::CostLimitExceeded`] if the cost exceeds the limit of one
    /// call.
    pub fn evaluate(&self, activation: &Activation, budget: &mut Budget<'_>) -> Result<CelValue, EvaluationError> {
        let mut frame = Frame::new(activation, &self.regexes, budget);
        let outcome = frame.eval(&self.root);
        let cost = frame.cost();
        budget.spend(cost);
        outcome
    }
}

/// Prepares a checked expression for evaluation.
///
/// # Errors
/// Returns the error of a constant part: a conversion, a pattern or an index.
#[expect(
    clippy::indexing_slicing,
    reason = "references name variables of the environment, and calls have the arguments of their overload"
)]
pub(crate) fn plan(environment: &Environment, checked: Checked) -> Result<Program, String> {
    let cost = estimate(environment, &checked);
    let names = checked.references.values().filter_map(|reference| match reference {
        Reference::Variable(slot) => Some(environment.variables[*slot].name.clone()),
        _ => None,
    });
    let variables = names.collect();
    let mut planner = Planner {
        checked: &checked,
        regexes: &environment.regexes,
        unescapes_fields: environment.unescapes_fields,
        locals: Vec::new(),
        failure: None,
    };
    let root = planner.node(&checked.root);
    if let Some(failure) = planner.failure {
        return Err(failure);
    }
    Ok(Program {
        root,
        output: checked.type_of(checked.root.id),
        cost,
        regexes: environment.regexes.clone(),
        variables,
        depth: checked.depth,
    })
}

/// Conversions of constants that the reference evaluates during compilation. A failure is a compile error.
const CONVERSIONS: [&str; 10] = [
    "bool",
    "bytes",
    "double",
    "duration",
    "dyn",
    "int",
    "string",
    "timestamp",
    "type",
    "uint",
];

/// Functions that return the same value for the same constant, so that they need not run again.
const PURE: [&str; 5] = ["quantity", "ip", "cidr", "semver", "url"];

struct Planner<'a> {
    checked: &'a Checked,
    regexes: &'a RegexCache,
    unescapes_fields: bool,
    locals: Vec<SmolStr>,
    /// First error of a constant part.
    failure: Option<String>,
}

/// Returns a value that the reference knows at compile time, with the cost of computing it.
fn known(node: &Node) -> Option<(&CelValue, u64)> {
    use CelValue::{Bool, Bytes, Double, Duration, Int, List, Map, Null, String, Timestamp, Type, Uint};
    let (value, cost) = match node {
        Node::Const(value) => (value, 0),
        Node::Made(value, cost) => (value, *cost),
        _ => return None,
    };
    let plain = matches!(
        value,
        Bool(_)
            | Bytes(_)
            | Double(_)
            | Duration(_)
            | Int(_)
            | List(_)
            | Map(_)
            | Null
            | String(_)
            | Timestamp(_)
            | Type(_)
            | Uint(_)
    );
    plain.then_some((value, cost))
}

impl Planner<'_> {
    fn boxed(&mut self, expr: &Expr) -> Box<Node> {
        Box::new(self.node(expr))
    }

    fn pair(&mut self, a: &Expr, b: &Expr) -> Box<(Node, Node)> {
        Box::new((self.node(a), self.node(b)))
    }

    fn node(&mut self, expr: &Expr) -> Node {
        match &expr.kind {
            ExprKind::Literal(value) => Node::Const(value.clone()),
            ExprKind::Ident(name) => self.ident(expr, name),
            ExprKind::Select { operand, field, test } => self.select(expr, operand, field, *test),
            ExprKind::Call { function, target, args } => self.call(expr, function, target.as_deref(), args),
            ExprKind::List(elements) => {
                let nodes: Vec<(Node, bool)> = elements
                    .iter()
                    .map(|(element, optional)| (self.node(element), *optional))
                    .collect();
                list(nodes)
            }
            ExprKind::Map(entries) => {
                let entries = entries.iter();
                let nodes = entries.map(|entry| (self.node(&entry.key), self.node(&entry.value), entry.optional));
                map(nodes.collect())
            }
            ExprKind::Struct { name, fields } => {
                let fields = fields.iter();
                let nodes = fields.map(|field| (field.name.clone(), self.node(&field.value), field.optional));
                Node::Struct(SmolStr::new(name.trim_start_matches('.')), nodes.collect())
            }
            ExprKind::Fold(fold) => {
                let range = self.node(&fold.range);
                let depth = self.locals.len();
                self.locals.push(fold.var.clone());
                self.locals.extend(fold.var2.clone());
                let filter = fold.filter.as_ref().map(|filter| self.node(filter));
                let body = self.node(&fold.body);
                self.locals.truncate(depth);
                Node::Fold(Box::new(FoldNode {
                    kind: fold.kind,
                    range,
                    two: fold.var2.is_some(),
                    filter,
                    body,
                }))
            }
            ExprKind::Bind(bind) => Node::Bind(Box::new(self.bound(&bind.value, &bind.name, &bind.body))),
            ExprKind::OptionalMap { flat, bind } => {
                Node::OptionalMap(*flat, Box::new(self.bound(&bind.value, &bind.name, &bind.body)))
            }
        }
    }

    fn bound(&mut self, value: &Expr, name: &SmolStr, body: &Expr) -> (Node, Node) {
        let value = self.node(value);
        self.locals.push(name.clone());
        let body = self.node(body);
        self.locals.pop();
        (value, body)
    }

    fn ident(&self, expr: &Expr, name: &str) -> Node {
        match self.checked.references.get(&expr.id) {
            Some(Reference::Variable(slot)) => Node::Variable(*slot),
            Some(Reference::TypeName(name)) => Node::Made(CelValue::Type(name.clone()), 1),
            _ => {
                let name = name.trim_start_matches('.');
                let at = self.locals.iter().rposition(|local| local == name);
                Node::Local(at.unwrap_or(usize::MAX))
            }
        }
    }

    fn select(&mut self, expr: &Expr, operand: &Expr, field: &SmolStr, test: bool) -> Node {
        match self.checked.references.get(&expr.id) {
            Some(Reference::TypeName(name)) => return Node::Made(CelValue::Type(name.clone()), 1),
            Some(Reference::Variable(slot)) => return Node::Variable(*slot),
            _ => {}
        }
        let operand = self.node(operand);
        let field = &self.property(field);
        let extended = |fields: &[SmolStr]| fields.iter().cloned().chain([field.clone()]).collect();
        match (operand, test) {
            (Node::Variable(slot), false) => Node::Path(slot, extended(&[])),
            (Node::Variable(slot), true) => Node::HasPath(slot, extended(&[])),
            (Node::Path(slot, fields), false) => Node::Path(slot, extended(&fields)),
            (Node::Path(slot, fields), true) => Node::HasPath(slot, extended(&fields)),
            (operand, false) => Node::Select(Box::new(operand), field.clone()),
            (operand, true) => Node::Has(Box::new(operand), field.clone()),
        }
    }

    /// Returns the name of the field with the identifier `field`.
    fn property(&self, field: &SmolStr) -> SmolStr {
        let unescaped = self.unescapes_fields.then(|| unescape(field)).flatten();
        unescaped.unwrap_or_else(|| field.clone())
    }

    fn call(&mut self, expr: &Expr, name: &str, target: Option<&Expr>, args: &[Expr]) -> Node {
        if let Some(Reference::Function {
            function, qualified, ..
        }) = self.checked.references.get(&expr.id)
        {
            let target = target.filter(|_| !qualified);
            let args: Vec<Node> = target.into_iter().chain(args).map(|arg| self.node(arg)).collect();
            return self.function(function.name, function.call, function.cost, args);
        }
        let comparison = |comparison, nodes| Node::Compare(comparison, nodes);
        match (name, args) {
            (operators::AND, [a, b]) => Node::And(self.pair(a, b)),
            (operators::OR, [a, b]) => Node::Or(self.pair(a, b)),
            (operators::NOT, [a]) => Node::Not(self.boxed(a)),
            (operators::NEGATE, [a]) => Node::Negate(self.boxed(a)),
            (operators::CONDITIONAL, [condition, yes, no]) => {
                Node::Conditional(Box::new((self.node(condition), self.node(yes), self.node(no))))
            }
            (operators::EQUALS, [a, b]) => Node::Equal(self.pair(a, b), true),
            (operators::NOT_EQUALS, [a, b]) => Node::Equal(self.pair(a, b), false),
            ("_<_", [a, b]) => comparison(Comparison::Less, self.pair(a, b)),
            ("_<=_", [a, b]) => comparison(Comparison::LessOrEqual, self.pair(a, b)),
            ("_>_", [a, b]) => comparison(Comparison::Greater, self.pair(a, b)),
            ("_>=_", [a, b]) => comparison(Comparison::GreaterOrEqual, self.pair(a, b)),
            (operators::IN, [a, b]) => Node::In(self.pair(a, b)),
            (operators::INDEX, [a, b]) => {
                let pair = self.pair(a, b);
                self.check_index(&pair.1);
                Node::Index(pair)
            }
            (operators::OPTIONAL_INDEX, [a, b]) => {
                let pair = self.pair(a, b);
                self.check_index(&pair.1);
                Node::OptionalIndex(pair)
            }
            (operators::OPTIONAL_SELECT, [operand, field]) => {
                let ExprKind::Literal(CelValue::String(field)) = &field.kind else {
                    return self.node(operand);
                };
                Node::OptionalSelect(self.boxed(operand), self.property(field))
            }
            (name, [a, b]) => match Arithmetic::named(name) {
                Some(operator) => Node::Arithmetic(operator, self.pair(a, b)),
                None => Node::Const(CelValue::Null),
            },
            // The checker rejects all other calls.
            _ => Node::Const(CelValue::Null),
        }
    }

    #[expect(
        clippy::indexing_slicing,
        reason = "references name variables of the environment, and calls have the arguments of their overload"
    )]
    fn function(&mut self, name: &'static str, call: Call, cost: Cost, mut args: Vec<Node>) -> Node {
        if name == "matches"
            && args.len() == 2
            && let Some((CelValue::String(pattern), _)) = known(&args[1])
        {
            let length = pattern.chars().count() as u64;
            match Pattern::compile(pattern, &self.regexes.memory) {
                Ok(regex) => {
                    args.truncate(1);
                    let subject = Box::new(args.remove(0));
                    return Node::Matches {
                        subject,
                        regex,
                        pattern: length,
                    };
                }
                Err(why) => {
                    self.failure.get_or_insert(why);
                }
            }
        }
        if matches!(name, "find" | "findAll")
            && let Some((CelValue::String(pattern), _)) = args.get(1).and_then(known)
            && let Err(why) = check_pattern(pattern)
        {
            self.failure.get_or_insert(why);
        }
        if CONVERSIONS.contains(&name)
            && let [arg] = args.as_slice()
            && let Some((value, made_for)) = known(arg)
        {
            let context = Context {
                regexes: self.regexes,
                allowance: 0,
            };
            let arguments = [value.clone()];
            match call(&context, &arguments) {
                Ok(made) => {
                    let units = call_cost(cost, &arguments, &made).saturating_add(made_for);
                    return Node::Made(made, units);
                }
                Err(error) => {
                    self.failure.get_or_insert(error.for_call(name, &arguments).to_string());
                }
            }
        }
        if PURE.contains(&name)
            && let [Node::Const(arg)] = args.as_slice()
        {
            let context = Context {
                regexes: self.regexes,
                allowance: 0,
            };
            let arguments = [arg.clone()];
            if let Ok(made) = call(&context, &arguments) {
                let units = call_cost(cost, &arguments, &made);
                return Node::Made(made, units);
            }
        }
        Node::Call {
            name,
            call,
            cost,
            args: args.into(),
        }
    }

    /// Checks for a constant index of a type that cannot be an index.
    fn check_index(&mut self, index: &Node) {
        let wrong = match known(index) {
            Some((CelValue::Bytes(_), _)) => "Bytes",
            Some((CelValue::Null, _)) => "Null",
            _ => return,
        };
        self.failure
            .get_or_insert(format!("invalid qualifier type: types.{wrong}"));
    }
}

/// Creates a list literal. One that has only constants is computed once.
fn list(nodes: Vec<(Node, bool)>) -> Node {
    let constants: Option<Vec<CelValue>> = nodes.iter().map(constant).collect();
    match constants {
        Some(values) => Node::Made(CelValue::list(values), LIST),
        None => Node::List(nodes.into()),
    }
}

fn constant(element: &(Node, bool)) -> Option<CelValue> {
    match element {
        (Node::Const(value), false) => Some(value.clone()),
        _ => None,
    }
}

/// Creates a map literal. One that has only constants is computed once.
fn map(nodes: Vec<(Node, Node, bool)>) -> Node {
    let entries = nodes.iter().map(|(key, value, optional)| match (key, value) {
        (Node::Const(key), Node::Const(value)) if !optional => Some((MapKey::from_value(key)?, value.clone())),
        _ => None,
    });
    match entries.collect() {
        Some(entries) => Node::Made(CelValue::Map(MapValue::Built(Arc::new(entries))), MAP),
        None => Node::Map(nodes.into()),
    }
}
