//! Sets of rules in code that the orders of types name, and an enum for each set.
//!
//! Every name in an order is checked, and so is the nesting of types: a check passes on the rules with which it begins, so a
//! type with rules leads only to types with rules of the same set, or of sets that it includes.

use std::collections::BTreeMap;
use std::fmt::{self, Write as _};

use crate::tags::{TagTable, Tags};

/// Rules by name. Each has the types that name it, with file and line.
type Rules = BTreeMap<String, Vec<String>>;

/// Rules that one type of code implements.
#[derive(Default)]
struct RuleSet {
    /// Rules of values: `order = ["@name"]`.
    values: Rules,
    /// Rules of changes: `changes = ["@name"]`.
    changes: Rules,
    /// Other sets whose rules this one has, too.
    includes: Vec<String>,
}

/// Sets by name.
#[derive(Default)]
pub(crate) struct RuleSets(BTreeMap<String, RuleSet>);

/// A set and one of its rules.
type Named<'s> = (&'s str, &'s str);

impl RuleSets {
    /// Adds the rules that `tag_table` name. `types` is the table of the types.
    ///
    /// # Errors
    /// If a name cannot be resolved, with its file and line.
    pub(crate) fn add(&mut self, tag_table: &TagTable, types: &str) -> Result<(), String> {
        let types = Types::read(types, tag_table);
        for (of, tags) in &tag_table.types {
            types.check_names(of, tags)?;
            self.add_type(of, tags)?;
        }
        for (set, (place, others)) in &tag_table.includes {
            if let Some(odd) = others.iter().chain([set]).find(|name| !self.0.contains_key(*name)) {
                return Err(format!("{place}: no type has the rules {odd}"));
            }
            self.0.entry(set.clone()).or_default().includes.clone_from(others);
        }
        self.check_nesting(&types)
    }

    fn add_type(&mut self, of: &str, tags: &Tags) -> Result<(), String> {
        let Some(set) = &tags.rules else { return Ok(()) };
        let rule_set = self.0.entry(set.clone()).or_default();
        let orders = [
            (&tags.order, &mut rule_set.values),
            (&tags.changes, &mut rule_set.changes),
        ];
        for (order, rules) in orders {
            for rule in order.iter().filter_map(|word| word.strip_prefix('@')) {
                let is_clash = |known: &&String| *known != rule && variant(known) == variant(rule);
                if let Some(known) = rules.keys().find(is_clash) {
                    return Err(format!("{}: @{rule} and @{known} have one variant", tags.place));
                }
                let places = rules.entry(rule.to_owned()).or_default();
                places.push(format!("`{of}` ({})", tags.place));
            }
        }
        Ok(())
    }

    fn check_nesting(&self, types: &Types<'_>) -> Result<(), String> {
        for (of, tags) in &types.tag_table.types {
            let Some(set) = &tags.rules else { continue };
            let includes = self
                .0
                .get(set)
                .map(|known| known.includes.as_slice())
                .unwrap_or_default();
            for is_change in [false, true] {
                let mut reached = BTreeMap::new();
                types.reach(of, is_change, &mut reached);
                let odd = reached.into_iter().find_map(|(below, other)| {
                    let other = other.filter(|other| **other != *set && !includes.contains(other))?;
                    Some(format!(
                        "{}: {of} has the rules {set} and leads to {below}, which has {other}",
                        tags.place
                    ))
                });
                odd.map_or(Ok(()), Err)?;
            }
        }
        Ok(())
    }

    /// Returns the rules of values and those of changes. The position in both lists together is the number of a rule.
    fn listed(&self) -> (Vec<Named<'_>>, Vec<Named<'_>>) {
        let list = |rules: fn(&RuleSet) -> &Rules| {
            let of_set = |(set, rule_set)| {
                rules(rule_set)
                    .keys()
                    .map(move |rule| (String::as_str(set), rule.as_str()))
            };
            self.0.iter().flat_map(of_set).collect()
        };
        (list(|set| &set.values), list(|set| &set.changes))
    }

    /// Returns the list of all rules, as an expression in Rust.
    pub(crate) fn names(&self) -> String {
        let (values, changes) = self.listed();
        format!("RuleNames {{ values: &{values:?}, changes: &{changes:?} }}\n")
    }

    /// Returns the enums of all sets, in Rust.
    pub(crate) fn enums(&self) -> Result<String, fmt::Error> {
        let (values, changes) = self.listed();
        let mut text = String::new();
        for (set, of) in &self.0 {
            let including = |rules: fn(&RuleSet) -> &Rules| {
                let has_rules = |name: &&String| self.0.get(*name).is_some_and(|set| !rules(set).is_empty());
                of.includes
                    .iter()
                    .filter(has_rules)
                    .map(String::as_str)
                    .collect::<Vec<_>>()
            };
            let number = |list: &[Named<'_>], rule: &str| list.iter().position(|name| *name == (set, rule));
            let value_rules = Enum {
                set,
                suffix: "Rule",
                rules: &of.values,
                includes: including(|set| &set.values),
            };
            value_rules.write(&mut text, |rule| number(&values, rule).unwrap_or_default())?;
            let change_rules = Enum {
                set,
                suffix: "Change",
                rules: &of.changes,
                includes: including(|set| &set.changes),
            };
            change_rules.write(&mut text, |rule| {
                values.len() + number(&changes, rule).unwrap_or_default()
            })?;
        }
        Ok(text)
    }
}

/// Enum of the rules of a set, of values or of changes.
struct Enum<'s> {
    set: &'s str,
    suffix: &'s str,
    rules: &'s Rules,
    includes: Vec<&'s str>,
}

impl Enum<'_> {
    /// Writes the enum, unless it is empty.
    fn write(&self, text: &mut String, number: impl Fn(&str) -> usize) -> fmt::Result {
        let Self { set, suffix, .. } = self;
        if self.rules.is_empty() && self.includes.is_empty() {
            return Ok(());
        }
        writeln!(text, "/// Rules of the set `{set}`.\n#[derive(Clone, Copy, Debug)]")?;
        writeln!(text, "pub(crate) enum {set}{suffix} {{")?;
        for (rule, places) in self.rules {
            writeln!(
                text,
                "    /// `@{rule}` of {}.\n    {},",
                places.join(", "),
                variant(rule)
            )?;
        }
        for other in &self.includes {
            writeln!(
                text,
                "    /// A rule of the set `{other}`.\n    {other}({other}{suffix}),"
            )?;
        }
        writeln!(text, "}}\n\nimpl RuleSet for {set}{suffix} {{")?;
        writeln!(
            text,
            "    fn from_id(id: RuleId) -> Option<Self> {{\n        Some(match id.number() {{"
        )?;
        for rule in self.rules.keys() {
            writeln!(text, "            {} => Self::{},", number(rule), variant(rule))?;
        }
        let other_set = |other: &&str| format!("{other}{suffix}::from_id(id).map(Self::{other})");
        let either = |first, next| format!("{first}.or_else(|| {next})");
        let other_sets = self
            .includes
            .iter()
            .map(other_set)
            .reduce(either)
            .unwrap_or_else(|| "None".to_owned());
        writeln!(text, "            _ => return {other_sets},\n        }})\n    }}\n}}\n")
    }
}

/// Fields of types, and their tags.
struct Types<'t> {
    tag_table: &'t TagTable,
    fields: BTreeMap<&'t str, Vec<Field<'t>>>,
}

/// A field of a type.
struct Field<'t> {
    name: &'t str,
    /// Type of the value, or of what the list or map holds.
    of: &'t str,
    /// True for a list or a map.
    is_nested: bool,
}

impl<'t> Types<'t> {
    fn read(types: &'t str, tag_table: &'t TagTable) -> Self {
        let mut fields = BTreeMap::<&str, Vec<Field<'_>>>::new();
        let mut of = "";
        for line in types.lines() {
            let mut words = line.split_whitespace();
            if line.starts_with("type ") {
                of = words.nth(1).unwrap_or_default();
                fields.entry(of).or_default();
            } else if line.starts_with("  ")
                && let (Some(name), Some(shape)) = (words.next(), words.next())
            {
                let inner = shape.trim_start_matches(['[', ']', '{', '}']);
                let is_nested = inner.len() != shape.len();
                fields.entry(of).or_default().push(Field {
                    name,
                    of: inner,
                    is_nested,
                });
            }
        }
        Self { tag_table, fields }
    }

    /// Checks that the tags are of fields of the type, and that its orders name its fields and rules of its set.
    fn check_names(&self, of: &str, tags: &Tags) -> Result<(), String> {
        let place = &tags.place;
        let fields = self
            .fields
            .get(of)
            .ok_or_else(|| format!("{place}: there is no type {of}"))?;
        let has_field = |name: &str| fields.iter().any(|field| field.name == name);
        for (name, (place, _)) in &tags.fields {
            if !has_field(name) {
                return Err(format!("{place}: {of} has no field {name}"));
            }
        }
        for word in tags.order.iter().chain(&tags.changes) {
            let Some(rule) = word.strip_prefix('@') else {
                if !has_field(word.trim_start_matches('?')) {
                    return Err(format!("{place}: {of} has no field {word}"));
                }
                continue;
            };
            let is_name = !rule.is_empty() && rule.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
            if !is_name || tags.rules.is_none() {
                return Err(format!(
                    "{place}: {of} names @{rule} and no set of rules, or it is no name"
                ));
            }
        }
        match &tags.rules {
            Some(set) if !has_rule(&tags.order) && !has_rule(&tags.changes) => {
                Err(format!("{place}: {of} names no rule of {set}"))
            }
            _ => Ok(()),
        }
    }

    /// Collects the types that a check of `of` walks to with the same rules, each with the set of its rules if it has any.
    fn reach(&self, of: &str, is_change: bool, reached: &mut BTreeMap<&'t str, Option<&'t String>>) {
        let order = |of: &str| {
            let tags = self.tag_table.types.get(of);
            tags.map_or(&[][..], |tags| if is_change { &tags.changes } else { &tags.order })
        };
        let words = order(of);
        for field in self.fields.get(of).into_iter().flatten() {
            let is_walked = words.is_empty() || words.iter().any(|word| word == field.name);
            // Changes are followed only through structs.
            if !is_walked || is_change && field.is_nested || reached.contains_key(field.of) {
                continue;
            }
            let tags = self.tag_table.types.get(field.of).filter(|_| has_rule(order(field.of)));
            let set = tags.and_then(|tags| tags.rules.as_ref());
            reached.insert(field.of, set);
            if set.is_none() {
                self.reach(field.of, is_change, reached);
            }
        }
    }
}

fn has_rule(order: &[String]) -> bool {
    order.iter().any(|word| word.starts_with('@'))
}

/// Returns the name of the variant of a rule: `SelectorAndTemplate` for `selector_and_template`.
fn variant(rule: &str) -> String {
    let capital = |word: &str| {
        let (first, rest) = word.split_at(word.len().min(1));
        first.to_uppercase() + rest
    };
    rule.split('_').map(capital).collect()
}
