//! Reader of test vectors and their parts.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::Arc;

use holdfast_merge::{
    Filter, Managers, Matcher, MemberMatcher, PathElement, Schema, SchemaBuilder, Set, TypeRef, VersionedSet,
};
use holdfast_value::{Limits, Value, json, yaml};
use test_support::shared;

/// A line of a file of vectors.
pub(crate) struct Vector(Value);

/// Result of a check: `None` if it does not apply to the vector, otherwise the comparison with the recorded result.
pub(crate) type Verdict = Option<Result<(), String>>;

/// Schemas used by vectors, read on first use.
pub(crate) struct Schemas {
    directory: PathBuf,
    index: Value,
    read: HashMap<String, Arc<Schema>>,
}

/// Runs every vector of some files through a check and reports the first failures.
pub(crate) fn run(files: &[&str], mut check: impl FnMut(&mut Schemas, &Vector) -> Verdict) {
    let directory = shared("corpus/smd");
    let index = std::fs::read(directory.join("schemas/index.json")).unwrap();
    let mut schemas = Schemas {
        index: json::parse(&index, &Limits::TRUSTED).unwrap(),
        directory: directory.clone(),
        read: HashMap::new(),
    };
    let mut failures = Vec::new();
    for file in files {
        let (mut passed, mut failed) = (0, 0);
        let text = std::fs::read_to_string(directory.join(file)).unwrap();
        for line in text.lines() {
            let vector = Vector(json::parse(line.as_bytes(), &Limits::TRUSTED).unwrap());
            match check(&mut schemas, &vector) {
                None => {}
                Some(Ok(())) => passed += 1,
                Some(Err(reason)) => {
                    failed += 1;
                    failures.push(format!(
                        "{} {} {}: {reason}",
                        vector.text("id"),
                        vector.text("src"),
                        vector.op()
                    ));
                }
            }
        }
        println!("{file}: {passed} passed, {failed} failed");
    }
    assert!(
        failures.is_empty(),
        "{} vectors failed, the first of them:\n{}",
        failures.len(),
        failures[..failures.len().min(12)].join("\n")
    );
}

impl Schemas {
    /// Returns the type that two members of a vector name.
    pub(crate) fn type_of(&mut self, vector: &Vector, schema: &str, name: &str) -> (Arc<Schema>, TypeRef) {
        let schema = self.schema(vector.text(schema));
        let type_ref = schema.named(vector.text(name)).unwrap();
        (schema, type_ref)
    }

    pub(crate) fn schema(&mut self, id: &str) -> Arc<Schema> {
        if let Some(read) = self.read.get(id) {
            return Arc::clone(read);
        }
        let file = self.index.str_at(&[id, "file"]).unwrap();
        let schema = Arc::new(read_schema(&self.directory.join(file)));
        self.read.insert(id.to_owned(), Arc::clone(&schema));
        schema
    }
}

fn read_schema(path: &std::path::Path) -> Schema {
    let text = std::fs::read(path).unwrap();
    let document = yaml::parse(&text, &Limits::TRUSTED).unwrap();
    SchemaBuilder::read(&document).unwrap().build()
}

impl Vector {
    pub(crate) fn op(&self) -> &str {
        self.text("op")
    }

    pub(crate) fn get(&self, name: &str) -> Option<&Value> {
        self.0.get(name)
    }

    pub(crate) fn text(&self, name: &str) -> &str {
        self.0.str_at(&[name]).unwrap_or_else(|| panic!("no text {name}"))
    }

    pub(crate) fn value(&self, name: &str) -> &Value {
        self.get(name).unwrap_or_else(|| panic!("no {name}"))
    }

    pub(crate) fn flag(&self, name: &str) -> bool {
        self.get(name).and_then(Value::as_bool).unwrap_or(false)
    }

    pub(crate) fn set(&self, name: &str) -> Set {
        set(self.value(name))
    }

    /// A member of the recorded result.
    pub(crate) fn out(&self, name: &str) -> Option<&Value> {
        self.0.at(&["out", name])
    }
}

pub(crate) fn set(value: &Value) -> Set {
    Set::from_fields_v1_value(value).unwrap()
}

pub(crate) fn element(value: &Value) -> PathElement {
    PathElement::parse(value.as_str().unwrap()).unwrap()
}

pub(crate) fn managers(value: &Value) -> Managers {
    let entries = value.as_map().unwrap();
    entries
        .iter()
        .map(|(name, entry)| {
            let owned = VersionedSet {
                set: set(entry.get("fieldsV1").unwrap()),
                api_version: entry.str_at(&["apiVersion"]).unwrap().into(),
                applied: entry.get("applied").unwrap().as_bool().unwrap(),
            };
            (name.clone(), owned)
        })
        .collect()
}

pub(crate) fn filter(value: &Value) -> Filter {
    if let Some(excluded) = value.get("exclude") {
        return Filter::exclude(set(excluded));
    }
    let included = value.get("include").and_then(Value::as_list).unwrap();
    Filter::include(included.iter().map(matcher))
}

fn matcher(value: &Value) -> Matcher {
    let Some(members) = value.as_list() else {
        return Matcher::everything();
    };
    Matcher::members(members.iter().map(|member| MemberMatcher {
        element: match member.str_at(&["path"]) {
            Some("*") => None,
            _ => Some(element(member.get("path").unwrap())),
        },
        below: matcher(member.get("child").unwrap()),
    }))
}

/// Compares a result with the recorded one.
pub(crate) fn same<T: PartialEq + std::fmt::Debug>(what: &str, got: &T, recorded: &T) -> Result<(), String> {
    match got == recorded {
        true => Ok(()),
        false => Err(format!("{what} is {got:?}, recorded is {recorded:?}")),
    }
}

/// Compares objects by their JSON text: `1` and `1.0` differ.
pub(crate) fn same_object(what: &str, got: &Value, recorded: &Value) -> Result<(), String> {
    same(what, &json::to_string(got), &json::to_string(recorded))
}

/// Returns the value with every part that another value also has at the same path shared with that value, so that both
/// share it.
pub(crate) fn sharing(value: &Value, with: &Value) -> Value {
    if json::to_string(value) == json::to_string(with) {
        return with.clone();
    }
    match (value, with) {
        (Value::Map(map), Value::Map(other)) => Value::Map(
            map.iter()
                .map(|(key, part)| {
                    (
                        key.clone(),
                        other.get(key).map_or(part.clone(), |other| sharing(part, other)),
                    )
                })
                .collect(),
        ),
        (Value::List(items), Value::List(others)) => {
            let part = |(at, item): (usize, &Value)| others.get(at).map_or(item.clone(), |other| sharing(item, other));
            Value::List(items.iter().enumerate().map(part).collect())
        }
        _ => value.clone(),
    }
}
