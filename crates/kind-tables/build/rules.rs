//! Sets of rules in code that the orders of types name, such as `+rules(Ingress) +order(@backends,rules)`.
//!
//! The build scripts of this crate and of `holdfast-kinds` share this module. Every name in an order is checked, and an
//! error names the file and the line. A line `@DeviceClass includes DeviceRequest` lets types with rules of the first
//! set contain types with rules of the second one.

use std::collections::BTreeMap;
use std::path::Path;

/// Files with validation tags, each with the files that have the fields of its types.
const FILES: [(&str, &[&str]); 2] = [
    ("marks.txt", &["types.txt"]),
    ("more_marks.txt", &["types.txt", "more"]),
];

/// Rules by name. Each has the places that name it: a type, a file and a line.
pub(crate) type Rules = BTreeMap<String, Vec<String>>;

/// Rules that one type of code implements.
#[derive(Default)]
pub(crate) struct RuleSet {
    /// Rules of values: `+order(@name)`.
    pub(crate) values: Rules,
    /// Rules of changes: `+changes(@name)`.
    pub(crate) changes: Rules,
    /// Other sets whose rules this one has, too.
    pub(crate) includes: Vec<String>,
}

/// Sets by name.
pub(crate) type RuleSets = BTreeMap<String, RuleSet>;

/// A set and one of its rules.
pub(crate) type Named<'s> = (&'s str, &'s str);

/// Returns the rules of values and those of changes. The position in both lists together is the number of a rule.
pub(crate) fn listed(sets: &RuleSets) -> (Vec<Named<'_>>, Vec<Named<'_>>) {
    let list = |rules: fn(&RuleSet) -> &Rules| {
        let of_set = |(set, rule_set)| {
            rules(rule_set)
                .keys()
                .map(move |rule| (String::as_str(set), rule.as_str()))
        };
        sets.iter().flat_map(of_set).collect()
    };
    (list(|set| &set.values), list(|set| &set.changes))
}

/// Reads the sets of rules from the folder of tables.
///
/// # Errors
/// If a name cannot be resolved, with its file and line.
pub(crate) fn read(tables: &Path) -> Result<RuleSets, String> {
    let mut sets = RuleSets::new();
    for (file, types) in FILES {
        let mut text = String::new();
        for name in types {
            text += &text_of(&tables.join(name))?;
        }
        let marks = text_of(&tables.join(file))?;
        let types = Types::read(&text, &marks, file)?;
        types.add_to(&mut sets)?;
        types.check_nesting(&sets)?;
    }
    Ok(sets)
}

/// Returns the text of a file, or of all files in a folder.
fn text_of(path: &Path) -> Result<String, String> {
    let at = |error: std::io::Error| format!("{}: {error}", path.display());
    if !path.is_dir() {
        return std::fs::read_to_string(path).map_err(at);
    }
    let mut text = String::new();
    for entry in std::fs::read_dir(path).map_err(at)? {
        text += &text_of(&entry.map_err(at)?.path())?;
    }
    Ok(text)
}

/// Types with their fields and tags.
struct Types<'t> {
    /// Fields of each type: name, and type of the value, of the items or of the entries.
    fields: BTreeMap<&'t str, Vec<(&'t str, Shape<'t>)>>,
    tagged: BTreeMap<&'t str, Tags<'t>>,
    /// Pairs of a set and a set that it includes.
    includes: Vec<(&'t str, &'t str)>,
}

/// Type of a field.
#[derive(Clone, Copy)]
struct Shape<'t> {
    /// The value itself, or what a list or map holds.
    of: &'t str,
    /// True for a list or a map.
    is_nested: bool,
}

/// Validation tags of a type.
struct Tags<'t> {
    /// File and line.
    place: String,
    rules: Option<&'t str>,
    order: Vec<&'t str>,
    changes: Vec<&'t str>,
}

impl<'t> Types<'t> {
    fn read(types: &'t str, marks: &'t str, file: &str) -> Result<Self, String> {
        let mut read = Self {
            fields: BTreeMap::new(),
            tagged: BTreeMap::new(),
            includes: Vec::new(),
        };
        let mut of = "";
        for line in types.lines() {
            let mut words = line.split_whitespace();
            if line.starts_with("type ") {
                of = words.nth(1).unwrap_or_default();
                read.fields.insert(of, Vec::new());
            } else if line.starts_with("  ")
                && let (Some(name), Some(shape), Some(fields)) = (words.next(), words.next(), read.fields.get_mut(of))
            {
                let inner = shape
                    .trim_start_matches("[]")
                    .trim_start_matches("{}")
                    .trim_start_matches("[]");
                let is_nested = inner.len() != shape.len();
                fields.push((name, Shape { of: inner, is_nested }));
            }
        }
        for (at, line) in marks.lines().enumerate() {
            let place = format!("crates/kind-tables/tables/{file}:{}", at + 1);
            if let Some(rest) = line.strip_prefix('@') {
                let pair = rest.split_once(" includes ");
                read.includes
                    .push(pair.ok_or_else(|| format!("{place}: expected `@Set includes Set`"))?);
            } else if let Some(rest) = line.strip_prefix("type ") {
                read.add_tags(rest, place)?;
            }
        }
        Ok(read)
    }

    fn add_tags(&mut self, line: &'t str, place: String) -> Result<(), String> {
        let mut words = line.split_whitespace();
        let of = words.next().unwrap_or_default();
        let mut tags = Tags {
            place,
            rules: None,
            order: Vec::new(),
            changes: Vec::new(),
        };
        for word in words {
            let (name, inside) = word.split_once('(').unwrap_or((word, ""));
            let inside = inside.trim_end_matches(')');
            match name {
                "+rules" => tags.rules = Some(inside),
                "+order" => tags.order = inside.split(',').collect(),
                "+changes" => tags.changes = inside.split(',').collect(),
                _ => {}
            }
        }
        self.check_names(of, &tags)?;
        self.tagged.insert(of, tags);
        Ok(())
    }

    /// Checks that the orders of a type name its fields, and rules of its set.
    fn check_names(&self, of: &str, tags: &Tags<'_>) -> Result<(), String> {
        let place = &tags.place;
        let fields = self
            .fields
            .get(of)
            .ok_or_else(|| format!("{place}: there is no type {of}"))?;
        for order in [&tags.order, &tags.changes] {
            for word in order {
                let name = word.trim_start_matches(['@', '?']);
                let is_name = !name.is_empty() && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
                let is_rule = word.starts_with('@');
                if !is_name {
                    return Err(format!("{place}: `{word}` of {of} is no name"));
                }
                if is_rule && tags.rules.is_none() {
                    return Err(format!("{place}: {of} names `{word}` and no set of rules"));
                }
                if !is_rule && !fields.iter().any(|(field, _)| *field == name) {
                    return Err(format!("{place}: {of} has no field {name}"));
                }
            }
        }
        let is_used = [&tags.order, &tags.changes].iter().any(|order| has_rule(order));
        match tags.rules {
            Some(set) if !is_used => Err(format!("{place}: {of} names no rule of {set}")),
            _ => Ok(()),
        }
    }

    /// Adds the rules of all types to their sets.
    fn add_to(&self, sets: &mut RuleSets) -> Result<(), String> {
        for (of, tags) in &self.tagged {
            let Some(set) = tags.rules else { continue };
            let rule_set = sets.entry(set.to_owned()).or_default();
            let orders = [
                (&tags.order, &mut rule_set.values),
                (&tags.changes, &mut rule_set.changes),
            ];
            for (order, rules) in orders {
                for rule in order.iter().filter_map(|word| word.strip_prefix('@')) {
                    let clash = rules
                        .keys()
                        .find(|known| *known != rule && variant(known) == variant(rule));
                    if let Some(known) = clash {
                        return Err(format!("{}: @{rule} and @{known} are one variant", tags.place));
                    }
                    let places = rules.entry(rule.to_owned()).or_default();
                    places.push(format!("`{of}` ({})", tags.place));
                }
            }
        }
        for (set, included) in &self.includes {
            if !sets.contains_key(*included) {
                return Err(format!("@{set} includes {included}, which no type names"));
            }
            let rule_set = sets
                .get_mut(*set)
                .ok_or_else(|| format!("no type names the rules {set}"))?;
            rule_set.includes.push((*included).to_owned());
        }
        Ok(())
    }

    /// Checks that a type with rules leads only to types with rules of the same set, or of sets that it includes: a check
    /// passes on the rules with which it begins.
    fn check_nesting(&self, sets: &RuleSets) -> Result<(), String> {
        for (of, tags) in &self.tagged {
            let Some(set) = tags.rules else { continue };
            let has = |other: &str| {
                other == set
                    || sets
                        .get(set)
                        .is_some_and(|known| known.includes.iter().any(|one| one == other))
            };
            for is_change in [false, true] {
                let mut reached = BTreeMap::new();
                self.reach(of, is_change, &mut reached);
                for (below, other) in reached {
                    if let Some(other) = other.filter(|other| !has(other)) {
                        let place = &tags.place;
                        return Err(format!(
                            "{place}: {of} has the rules {set} and leads to {below}, which has {other}"
                        ));
                    }
                }
            }
        }
        Ok(())
    }

    /// Collects the types that a check of `of` walks to with the same rules, each with the set of its rules if it has any.
    fn reach(&self, of: &str, is_change: bool, reached: &mut BTreeMap<&'t str, Option<&'t str>>) {
        let order = |of: &str| {
            let tags = self.tagged.get(of);
            tags.map_or(&[][..], |tags| if is_change { &tags.changes } else { &tags.order })
        };
        let words = order(of);
        for (name, shape) in self.fields.get(of).into_iter().flatten() {
            let is_walked = words.is_empty() || words.contains(name);
            // Changes are followed only through structs.
            if !is_walked || is_change && shape.is_nested || reached.contains_key(shape.of) {
                continue;
            }
            let set = self.tagged.get(shape.of).and_then(|tags| tags.rules);
            let set = set.filter(|_| has_rule(order(shape.of)));
            reached.insert(shape.of, set);
            if set.is_none() {
                self.reach(shape.of, is_change, reached);
            }
        }
    }
}

fn has_rule(order: &[&str]) -> bool {
    order.iter().any(|word| word.starts_with('@'))
}

/// Returns the name of the variant of a rule: `SelectorAndTemplate` for `selector_and_template`.
pub(crate) fn variant(rule: &str) -> String {
    let capital = |word: &str| {
        let (first, rest) = word.split_at(word.len().min(1));
        first.to_uppercase() + rest
    };
    rule.split('_').map(capital).collect()
}
