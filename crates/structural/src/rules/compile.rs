use std::sync::Arc;

use holdfast_cel::{Activation, CelValue, CompileError, DeclType, Environment, Program, Type, escape};
use holdfast_limits::Stopwatch;
use holdfast_value::SmolStr;

use super::{CompileContext, RuleTimings};
use crate::node::{Additional, JsonType, Node};
use crate::rule::Rule;

/// Environment of the rules of one schema, with the variables `self` and `oldSelf`, the old value at the same path.
#[derive(Debug)]
pub struct RuleEnvironment {
    decl: Arc<DeclType>,
    plain: Environment,
    optional: Environment,
}

/// A compiled rule.
#[derive(Debug)]
pub struct CompiledRule {
    /// Condition that must be true; `None` if it is empty, and an error in the words of the reference if it does not
    /// compile.
    pub program: Result<Option<Program>, String>,
    /// Expression of the error message, if there is one and the rule itself compiles.
    pub message: Option<Result<Program, String>>,
    /// True if this is a transition rule: it names `oldSelf`.
    pub uses_old_self: bool,
}

impl RuleEnvironment {
    /// Creates the environment for values of `decl`. Environments created from one `base` share compiled regular
    /// expressions.
    pub fn new(base: &Environment, decl: Arc<DeclType>) -> Self {
        let environment = base.clone().with_object("self", Arc::clone(&decl));
        Self {
            decl,
            plain: environment.clone().with_old_self(false),
            optional: environment.with_old_self(true),
        }
    }

    /// Returns the type of the values in expressions.
    pub fn decl(&self) -> &Arc<DeclType> {
        &self.decl
    }

    /// Compiles a rule.
    ///
    /// upstream: k8s.io/apiextensions-apiserver/pkg/apiserver/schema/cel#compileRule
    pub fn compile(&self, rule: &Rule) -> CompiledRule {
        let environment = if rule.optional_old_self == Some(true) {
            &self.optional
        } else {
            &self.plain
        };
        let program = match rule.rule.trim() {
            "" => Ok(None),
            _ => environment
                .compile(&rule.rule, &[Type::Bool])
                .map(Some)
                .map_err(|error| compile_message(error, "", "cel expression must evaluate to a bool")),
        };
        let compiles = matches!(program, Ok(Some(_)));
        let message = (compiles && !rule.message_expression.is_empty()).then(|| {
            let compiled = environment.compile(&rule.message_expression, &[Type::String]);
            compiled.map_err(|error| {
                compile_message(
                    error,
                    "messageExpression ",
                    "messageExpression must evaluate to a string",
                )
            })
        });
        let uses_old_self = matches!(&program, Ok(Some(program)) if program.uses("oldSelf"));
        CompiledRule {
            program,
            message,
            uses_old_self,
        }
    }

    /// Returns the variables of rules without optional `oldSelf`, or of those with it; in both, `self` is set.
    pub(super) fn activation(&self, optional: bool, own: CelValue) -> Activation {
        let environment = if optional { &self.optional } else { &self.plain };
        Activation::new(environment).with("self", own)
    }
}

fn compile_message(error: CompileError, what: &str, wrong_type: &str) -> String {
    match error {
        CompileError::Output { .. } => wrong_type.to_owned(),
        CompileError::Issues(_) => format!("{what}{error}"),
        CompileError::Instantiation(_) => error.to_string(),
    }
}

/// The compiled rules of a schema and of those below it. There is a node for each schema that has rules or leads to
/// some.
#[derive(Debug)]
pub struct Rules {
    pub(super) environment: RuleEnvironment,
    pub(super) own: Vec<OwnRule>,
    /// Name of the type of values in the schema; empty if it has none.
    pub(super) type_name: &'static str,
    /// Sorted by name.
    pub(super) properties: Vec<(SmolStr, Rules)>,
    pub(super) additional: Option<Box<Rules>>,
    pub(super) items: Option<Box<Rules>>,
}

/// A rule of a schema.
#[derive(Debug)]
pub(super) struct OwnRule {
    pub(super) rule: Rule,
    pub(super) compiled: CompiledRule,
    /// Path of the field that errors name, relative to the value; empty for the value itself.
    pub(super) field: SmolStr,
}

impl Rules {
    /// Compiles the rules of `node`; `None` if there are none. `is_resource` means that its values are whole objects.
    pub fn new(node: &Node, is_resource: bool, context: &CompileContext) -> Option<Self> {
        if !node.within.rules {
            return None;
        }
        let decl = Arc::new(node.decl_type(is_resource)?);
        let base = Environment::new().with_pattern_memory(&context.patterns);
        Self::for_node(node, decl, (&base, &context.timings))
    }

    fn for_node(node: &Node, decl: Arc<DeclType>, base: (&Environment, &RuleTimings)) -> Option<Self> {
        if !node.within.rules {
            return None;
        }
        let properties = node.properties.iter().filter_map(|(name, of)| {
            let decl = match escape(name) {
                Some(_) => decl.property(name).cloned(),
                // Expressions above cannot name it; those of the field itself can use `self`.
                None => of.decl_type(of.embedded).map(Arc::new),
            };
            Some((name.clone(), Self::for_node(of, decl?, base)?))
        });
        let properties = properties.collect();
        let additional = match &node.additional {
            Additional::Schema(of) => decl
                .property("")
                .and_then(|decl| Self::for_node(of, Arc::clone(decl), base)),
            _ => None,
        };
        let items = node
            .items
            .as_deref()
            .zip(decl.items())
            .and_then(|(of, decl)| Self::for_node(of, Arc::clone(decl), base));
        let (base, timings) = base;
        let begun = Stopwatch::start();
        let environment = RuleEnvironment::new(base, decl);
        let own: Vec<OwnRule> = node
            .rules
            .iter()
            .map(|rule| OwnRule {
                compiled: environment.compile(rule),
                field: node.field_named(rule),
                rule: rule.clone(),
            })
            .collect();
        if !own.is_empty() {
            timings.compiled(begun.elapsed());
        }
        Some(Self {
            own,
            environment,
            type_name: node.kind.map(JsonType::name).unwrap_or_default(),
            properties,
            additional: additional.map(Box::new),
            items: items.map(Box::new),
        })
    }
}

impl Rules {
    /// Returns the rules of the property `name`.
    #[expect(clippy::indexing_slicing, reason = "the index was found in this very list")]
    pub(crate) fn property(&self, name: &str) -> Option<&Rules> {
        let at = self.properties.binary_search_by(|(known, _)| known.as_str().cmp(name));
        at.ok().map(|at| &self.properties[at].1)
    }

    /// Returns the rules of the items of a list.
    pub(crate) fn items(&self) -> Option<&Rules> {
        self.items.as_deref()
    }
}

impl Node {
    fn field_named(&self, rule: &Rule) -> SmolStr {
        let found = self.field_path(&rule.field_path).unwrap_or_default();
        SmolStr::new(found.as_str())
    }
}
