//! Merging of several OpenAPI documents of version 2: the paths of other servers are added to those of this one, and
//! their definitions are renamed if the name is used already.

use std::collections::{BTreeSet, HashMap, HashSet};

use holdfast_value::{Map, SmolStr, Value};

/// The kinds of a definition. Definitions that only differ in it are equal.
const KINDS: &str = "x-kubernetes-group-version-kind";

/// The members of a document whose entries are referenced by name.
const NAMED: [&str; 2] = ["definitions", "parameters"];

/// The callback that receives the parts of a document.
type Take<'t> = &'t mut dyn FnMut(&'static str, Value);

/// Returns the part of a document whose paths satisfy `keep`: these paths, and the definitions that they need or that
/// no path ever needed.
pub(crate) fn below(document: &Value, keep: impl Fn(&str) -> bool) -> Value {
    let all = entries(document, "paths");
    let paths: Map = all.iter().filter(|(path, _)| keep(path)).cloned().collect();
    let definitions = entries(document, "definitions");
    let used = |paths: &Map| {
        let mut used = BTreeSet::new();
        paths
            .iter()
            .for_each(|(_, item)| add_used(item, &definitions, &mut used));
        used
    };
    let (before, now) = (used(&all), used(&paths));
    let needed = |name: &SmolStr| now.contains(name) || !before.contains(name);
    let definitions: Map = definitions.iter().filter(|(name, _)| needed(name)).cloned().collect();
    let mut part = Map::new();
    part.insert("paths", Value::Map(paths));
    part.insert("definitions", Value::Map(definitions));
    part.insert("parameters", Value::Map(entries(document, "parameters")));
    Value::Map(part)
}

fn entries(document: &Value, member: &str) -> Map {
    document
        .get(member)
        .and_then(Value::as_map)
        .cloned()
        .unwrap_or_default()
}

/// Adds the names of the definitions that `value` references, directly or through others.
fn add_used(value: &Value, definitions: &Map, used: &mut BTreeSet<SmolStr>) {
    let mut found = Vec::new();
    visit_references(value, &mut |reference| {
        if let Some(name) = reference.strip_prefix("#/definitions/") {
            found.push(SmolStr::new(name));
        }
    });
    for name in found {
        let definition = definitions.get(&name);
        if used.insert(name)
            && let Some(definition) = definition
        {
            add_used(definition, definitions, used);
        }
    }
}

fn visit_references(value: &Value, visit: &mut impl FnMut(&str)) {
    match value {
        Value::Map(map) => {
            for (name, value) in map.iter() {
                match value.as_str() {
                    Some(reference) if name == "$ref" => visit(reference),
                    _ => visit_references(value, visit),
                }
            }
        }
        Value::List(list) => list.iter().for_each(|item| visit_references(item, visit)),
        _ => {}
    }
}

/// The additions of other documents to one.
pub(crate) struct Added {
    paths: Map,
    /// The definitions and parameters.
    named: [Map; 2],
    /// The kinds of definitions that the document and other documents have in common.
    kinds: HashMap<SmolStr, Value>,
}

/// The content of the document itself.
#[derive(Default)]
struct Own {
    paths: HashSet<SmolStr>,
    names: [HashSet<SmolStr>; 2],
    /// The entries whose names other documents also use.
    shared: [Map; 2],
}

impl Own {
    fn read(documents: &[&Value], document: impl FnOnce(Take<'_>)) -> Self {
        let mut own = Self::default();
        document(&mut |member, part| {
            let Some(part) = part.as_map() else { return };
            if member == "paths" {
                own.paths.extend(part.iter().map(|(path, _)| path.clone()));
            }
            let places = NAMED.iter().zip(own.names.iter_mut()).zip(own.shared.iter_mut());
            for ((named, names), shared) in places.filter(|((named, _), _)| **named == member) {
                for (name, value) in part.iter() {
                    names.insert(name.clone());
                    let has = |other: &&Value| other.get(named).is_some_and(|of| of.get(name).is_some());
                    if documents.iter().any(has) {
                        shared.insert(name.clone(), value.clone());
                    }
                }
            }
        });
        own
    }
}

impl Added {
    /// Collects the additions of `documents` to `document`, which passes its parts to a callback. Earlier documents have
    /// precedence over later ones.
    pub(crate) fn new(documents: &[&Value], document: impl FnOnce(Take<'_>)) -> Self {
        let mut own = Own::read(documents, document);
        let mut added = Self {
            paths: Map::new(),
            named: [Map::new(), Map::new()],
            kinds: HashMap::new(),
        };
        for other in documents {
            added.add(other, &mut own);
        }
        added
    }

    fn add(&mut self, other: &Value, own: &mut Own) {
        let part = below(other, |path| !own.paths.contains(path));
        if entries(&part, "paths").is_empty() {
            return;
        }
        let mut renames: HashMap<SmolStr, SmolStr> = HashMap::new();
        for (at, member) in NAMED.into_iter().enumerate() {
            let theirs = entries(&part, member);
            for (name, value) in theirs.iter() {
                if let Some(new) = self.new_name(at, name, value, &theirs, own) {
                    renames.insert(reference(member, name), reference(member, &new));
                }
            }
        }
        for (path, item) in entries(&part, "paths").iter() {
            own.paths.insert(path.clone());
            self.paths.insert(path.clone(), renamed(item, &renames));
        }
        for (at, member) in NAMED.into_iter().enumerate() {
            for (name, value) in entries(&part, member).iter() {
                let value = renamed(value, &renames);
                let name = match renames.get(&reference(member, name)) {
                    Some(new) => SmolStr::new(new.rsplit('/').next().unwrap_or_default()),
                    None => name.clone(),
                };
                self.insert(at, name, value, own);
            }
        }
    }

    /// Returns the new name of an entry, if it cannot keep its own.
    fn new_name(&self, at: usize, name: &SmolStr, value: &Value, theirs: &Map, own: &Own) -> Option<SmolStr> {
        let taken = |name: &str| self.has(at, name, own);
        let same = |name: &str| self.get(at, name, own).is_some_and(|there| equal(there, value));
        if !taken(name) || same(name) {
            return None;
        }
        let mut number = 2u32;
        loop {
            let new = SmolStr::from(format!("{name}_v{number}"));
            if same(&new) || !taken(&new) && theirs.get(&new).is_none() {
                return Some(new);
            }
            number += 1;
        }
    }

    fn has(&self, at: usize, name: &str, own: &Own) -> bool {
        own.names.get(at).is_some_and(|names| names.contains(name)) || self.get(at, name, own).is_some()
    }

    fn get<'a>(&'a self, at: usize, name: &str, own: &'a Own) -> Option<&'a Value> {
        let shared = own.shared.get(at)?.get(name);
        shared.or_else(|| self.named.get(at)?.get(name))
    }

    fn insert(&mut self, at: usize, name: SmolStr, value: Value, own: &Own) {
        let Some(there) = self.get(at, &name, own) else {
            if let Some(named) = self.named.get_mut(at) {
                named.insert(name, value);
            }
            return;
        };
        let before = self.kinds.get(&name).or_else(|| there.get(KINDS));
        if let Some(kinds) = joined_kinds(before, value.get(KINDS)) {
            self.kinds.insert(name, kinds);
        }
    }

    /// Passes the parts of the document to the callback, including the additions.
    pub(crate) fn write(mut self, take: Take<'_>, document: impl FnOnce(Take<'_>)) {
        // Definitions of this document that other documents use for further kinds.
        let kinds = std::mem::take(&mut self.kinds);
        let mut last = "";
        document(&mut |member, mut part| {
            if member != last {
                self.end(last, take);
                last = member;
            }
            if member == "definitions" {
                add_kinds(&mut part, &kinds);
            }
            take(member, part);
        });
        self.end(last, take);
        for (member, named) in NAMED.into_iter().zip(&mut self.named) {
            if !named.is_empty() {
                let mut rest = Value::Map(std::mem::take(named));
                add_kinds(&mut rest, &kinds);
                take(member, rest);
            }
        }
    }

    /// Passes the additions to a member, after the document's own entries.
    fn end(&mut self, member: &'static str, take: &mut dyn FnMut(&'static str, Value)) {
        let added = match member {
            "paths" => &mut self.paths,
            "definitions" => {
                let [definitions, _] = &mut self.named;
                definitions
            }
            _ => return,
        };
        if !added.is_empty() {
            take(member, Value::Map(std::mem::take(added)));
        }
    }
}

fn add_kinds(definitions: &mut Value, kinds: &HashMap<SmolStr, Value>) {
    for (name, kinds) in kinds {
        if let Some(definition) = definitions.at_mut(&[name]) {
            definition.set_at(&[KINDS], kinds.clone());
        }
    }
}

fn reference(member: &str, name: &str) -> SmolStr {
    format!("#/{member}/{name}").into()
}

/// Returns the value with its references renamed.
fn renamed(value: &Value, renames: &HashMap<SmolStr, SmolStr>) -> Value {
    match value {
        _ if renames.is_empty() => value.clone(),
        Value::Map(map) => {
            let renamed = map.iter().map(|(name, value)| {
                let new = value.as_str().filter(|_| name == "$ref").and_then(|to| renames.get(to));
                let value = match new {
                    Some(new) => new.as_str().into(),
                    None => renamed(value, renames),
                };
                (name.clone(), value)
            });
            Value::Map(renamed.collect())
        }
        Value::List(list) => list
            .iter()
            .map(|item| renamed(item, renames))
            .collect::<Vec<_>>()
            .into(),
        other => other.clone(),
    }
}

/// Returns true if two entries are equal except for their kinds.
fn equal(one: &Value, other: &Value) -> bool {
    let (Some(one), Some(other)) = (one.as_map(), other.as_map()) else {
        return one == other;
    };
    let without = |map: &Map| {
        let mut map = map.clone();
        map.remove(KINDS);
        map
    };
    without(one) == without(other)
}

/// Returns the kinds of both definitions, if the second has any that the first lacks.
fn joined_kinds(one: Option<&Value>, other: Option<&Value>) -> Option<Value> {
    let list = |kinds: Option<&Value>| {
        kinds
            .and_then(Value::as_list)
            .map(|list| list.to_vec())
            .unwrap_or_default()
    };
    let mut kinds = list(one);
    let more: Vec<Value> = list(other).into_iter().filter(|kind| !kinds.contains(kind)).collect();
    if more.is_empty() {
        return None;
    }
    let has_some = !kinds.is_empty();
    kinds.extend(more);
    if has_some {
        let text = |kind: &Value, field: &str| kind.str_at(&[field]).unwrap_or_default().to_owned();
        kinds.sort_by_cached_key(|kind| {
            format!(
                "{}/{}.{}",
                text(kind, "group"),
                text(kind, "version"),
                text(kind, "kind")
            )
        });
    }
    Some(kinds.into())
}

#[cfg(test)]
mod tests {
    use holdfast_value::{Limits, json, yaml};

    use super::*;

    fn parse(text: &str) -> Value {
        yaml::parse(text.as_bytes(), &Limits::TRUSTED).unwrap()
    }

    fn path(definition: &str) -> String {
        format!("{{get: {{schema: {{$ref: '#/definitions/{definition}'}}}}}}")
    }

    /// Returns the members of the merged document, as JSON.
    fn merged(own: &str, others: &[&str]) -> HashMap<&'static str, String> {
        let own = parse(own);
        let give = |take: Take<'_>| {
            take("swagger", "2.0".into());
            for member in ["paths", "definitions"] {
                take(member, own.get(member).cloned().unwrap());
            }
            take("security", Vec::<Value>::new().into());
        };
        let others: Vec<Value> = others.iter().map(|text| parse(text)).collect();
        let added = Added::new(&others.iter().collect::<Vec<_>>(), give);
        let mut members: HashMap<&'static str, Map> = HashMap::new();
        let mut order = Vec::new();
        let mut take = |member, part: Value| {
            if order.last() != Some(&member) {
                order.push(member);
            }
            let entries = part.as_map().cloned().unwrap_or_default();
            let of_member = members.entry(member).or_default();
            entries
                .iter()
                .for_each(|(name, value)| drop(of_member.insert(name.clone(), value.clone())));
        };
        added.write(&mut take, give);
        let mut once = order.clone();
        once.dedup();
        assert_eq!(order, once, "parts of one member follow one another");
        let text = |(member, entries)| (member, json::to_string(&Value::Map(entries)));
        members.into_iter().map(text).collect()
    }

    #[test]
    fn a_part_has_the_definitions_that_its_paths_need() {
        let document = parse(&format!(
            "{{paths: {{/a/x: {}, /b/y: {}}}, definitions: {{A: {{items: {{$ref: '#/definitions/B'}}}}, B: {{}}, C: {{}}, \
             Never: {{}}}}}}",
            path("A"),
            path("C")
        ));
        let part = below(&document, |path| path.starts_with("/a/"));
        let names = |member| {
            entries(&part, member)
                .iter()
                .map(|(name, _)| name.to_string())
                .collect::<Vec<_>>()
        };
        assert_eq!(names("paths"), ["/a/x"]);
        assert_eq!(names("definitions"), ["A", "B", "Never"]);
    }

    #[test]
    fn conflicting_definition_and_its_references_are_renamed() {
        let own = format!(
            "{{paths: {{/a: {}}}, definitions: {{A: {{type: object}}, A_v2: {{}}}}}}",
            path("A")
        );
        let other = format!("{{paths: {{/b: {}}}, definitions: {{A: {{type: string}}}}}}", path("A"));
        let same = format!("{{paths: {{/c: {}}}, definitions: {{A: {{type: string}}}}}}", path("A"));
        let members = merged(&own, &[&other, &same]);
        assert_eq!(
            members["definitions"],
            r#"{"A":{"type":"object"},"A_v2":{},"A_v3":{"type":"string"}}"#
        );
        let to = |name: &str| format!(r##"{{"get":{{"schema":{{"$ref":"#/definitions/{name}"}}}}}}"##);
        assert_eq!(
            members["paths"],
            format!(r#"{{"/a":{},"/b":{},"/c":{}}}"#, to("A"), to("A_v3"), to("A_v3"))
        );
    }

    #[test]
    fn first_paths_win_and_equal_definitions_join_kinds() {
        let own = format!(
            "{{paths: {{/a: {}}}, definitions: {{A: {{type: object, {KINDS}: [{{group: b, version: v1, kind: K}}]}}}}}}",
            path("A")
        );
        let other = format!(
            "{{paths: {{/a: {0}, /b: {0}}}, definitions: {{A: {{type: object, {KINDS}: [{{group: a, version: v1, kind: \
             K}}]}}}}}}",
            path("A")
        );
        let members = merged(&own, &[&other]);
        assert!(members["paths"].starts_with(r#"{"/a":{"get""#) && members["paths"].contains(r#""/b":"#));
        let kinds = r#"[{"group":"a","kind":"K","version":"v1"},{"group":"b","kind":"K","version":"v1"}]"#;
        assert!(members["definitions"].contains(kinds), "{}", members["definitions"]);
        let nothing_new = merged(
            &own,
            &[&format!("{{paths: {{/a: {}}}, definitions: {{B: {{}}}}}}", path("B"))],
        );
        assert!(!nothing_new["definitions"].contains("\"B\""));
    }
}
