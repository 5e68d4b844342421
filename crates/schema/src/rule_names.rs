//! Numbers of the rules in code that the orders of types name, such as `@backends`.
//!
//! A rule belongs to a set, which the types that use it name: `+rules(Ingress) +order(@backends,rules)`. Two build
//! scripts read these tags. One writes the list of all rules, by which a [`RuleNames`] gives each rule its number when a
//! table is read. The other writes an enum of the rules of each set, which implements [`RuleSet`], so that the compiler
//! compares the rules of the tags with those of the code.

/// Number of a rule in code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RuleId(u16);

impl RuleId {
    /// Returns the number itself, which is the position in the list of all rules.
    pub fn number(self) -> u16 {
        self.0
    }
}

/// The rules that one type of code implements, as an enum.
pub trait RuleSet: Copy {
    /// Returns the rule of that number; `None` if it is of another set.
    fn from_id(id: RuleId) -> Option<Self>;
}

/// The empty set of rules.
#[derive(Clone, Copy, Debug)]
pub enum NoRule {}

impl RuleSet for NoRule {
    fn from_id(_id: RuleId) -> Option<Self> {
        None
    }
}

/// The names of all rules that a table of types may name, each as set and name, in the order of the names. The rules of
/// changes continue the numbers of the rules of values.
#[derive(Clone, Copy, Debug)]
pub struct RuleNames {
    /// Rules of values: `+order(@name)`.
    pub values: &'static [(&'static str, &'static str)],
    /// Rules of changes: `+changes(@name)`.
    pub changes: &'static [(&'static str, &'static str)],
}

impl RuleNames {
    /// No rule.
    pub const NONE: Self = Self {
        values: &[],
        changes: &[],
    };

    /// Returns the number of a rule of values.
    pub(crate) fn value_rule(&self, set: &str, name: &str) -> Option<RuleId> {
        find(self.values, set, name).map(RuleId)
    }

    /// Returns the number of a rule of changes.
    pub(crate) fn change_rule(&self, set: &str, name: &str) -> Option<RuleId> {
        let at = usize::from(find(self.changes, set, name)?) + self.values.len();
        u16::try_from(at).ok().map(RuleId)
    }
}

fn find(names: &[(&str, &str)], set: &str, name: &str) -> Option<u16> {
    let at = names.binary_search(&(set, name)).ok()?;
    u16::try_from(at).ok()
}
