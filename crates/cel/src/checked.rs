//! Checked expressions: the tree with the types and references of its nodes.

use std::collections::HashMap;

use smol_str::SmolStr;

use crate::functions::{Declared, Overload};
use crate::syntax::{Expr, Id};
use crate::types::Type;

/// Resolution of a node.
#[derive(Debug, Clone)]
pub(crate) enum Reference {
    /// The variable in this slot of the environment.
    Variable(usize),
    /// A variable of a macro; the innermost of that name.
    Local,
    /// The name of a type.
    TypeName(SmolStr),
    /// A function by its full name, and its matching overloads.
    Function {
        function: &'static Declared,
        overloads: Vec<usize>,
        /// The target was part of the name (`optional.of`).
        qualified: bool,
    },
    /// An operator and its matching overloads.
    Operator { overloads: Vec<&'static Overload> },
}

/// A checked expression.
pub(crate) struct Checked {
    pub(crate) root: Expr,
    pub(crate) types: Vec<Type>,
    pub(crate) references: HashMap<Id, Reference>,
    /// Depth of the tree.
    pub(crate) depth: u16,
}

impl Checked {
    pub(crate) fn type_of(&self, id: Id) -> Type {
        self.types.get(id as usize).cloned().unwrap_or(Type::Dyn)
    }
}
