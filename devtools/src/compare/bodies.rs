//! Bodies: valid objects, changed by choices according to the OpenAPI schema of their kind.

use std::sync::Arc;

use anyhow::{Context as _, Result};
use serde_json::{Map, Value, json};

use super::choices::Choices;
use super::search::Draws;
use super::sides::{NAMESPACE, Side};
use super::steps::{Step, Verb};

/// One valid object of each kind, with the collection it is written to.
const SEEDS: &str = include_str!("seeds.json");

/// Maximum depth of values that are generated from a schema.
const DEPTH: usize = 5;
/// Maximum depth below the object of a field that is changed.
const REACH: usize = 12;

const TEXTS: [&str; 16] = [
    "a",
    "",
    "b-2",
    "A_b",
    "a.example.com",
    "example.com/a",
    "1",
    "10.0.0.1",
    "fd00::1",
    "10.0.0.0/8",
    "100m",
    "1Gi",
    "2020-01-01T00:00:00Z",
    "/a/b",
    "a b\u{fc}",
    "xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx",
];
const NUMBERS: [i64; 10] = [0, 1, -1, 2, 80, 65_535, 65_536, 2_147_483_647, 2_147_483_648, i64::MAX];
const MANAGERS: [&str; 3] = ["one", "two", "three"];

/// A kind that is compared.
#[derive(Clone)]
pub(super) struct Kind {
    /// The path of the collection.
    pub(super) path: String,
    seed: Value,
    /// The schemas of the group and version, by name.
    schemas: Arc<Value>,
    /// The name of the kind's own.
    schema: String,
}

/// Returns the kinds with a seed, of these names or all.
pub(super) async fn kinds(from: &mut Side, wanted: &[String]) -> Result<Vec<Kind>> {
    let seeds: Vec<Value> = serde_json::from_str(SEEDS)?;
    let mut kinds = Vec::new();
    for mut seed in seeds {
        let object = seed.get_mut("object").map(Value::take).unwrap_or_default();
        let name = object.get("kind").and_then(Value::as_str).unwrap_or_default();
        if !wanted.is_empty() && !wanted.iter().any(|wanted| wanted == name) {
            continue;
        }
        let path = seed
            .get("path")
            .and_then(Value::as_str)
            .context("a seed without a path")?;
        kinds.push(Kind::read(from, path, object).await?);
    }
    Ok(kinds)
}

impl Kind {
    async fn read(from: &mut Side, path: &str, seed: Value) -> Result<Self> {
        let text = |name: &str| seed.get(name).and_then(Value::as_str).context("a seed without a kind");
        let (api_version, kind) = (text("apiVersion")?, text("kind")?);
        let root = if api_version.contains('/') { "apis" } else { "api" };
        let mut document = from.document(&format!("/openapi/v3/{root}/{api_version}")).await?;
        let schemas = document
            .pointer_mut("/components/schemas")
            .map(Value::take)
            .context("a document without schemas")?;
        let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
        let wanted = json!({"group": group, "version": version, "kind": kind});
        let is_wanted = |schema: &Value| {
            let kinds = schema.get("x-kubernetes-group-version-kind").and_then(Value::as_array);
            kinds.is_some_and(|kinds| kinds.contains(&wanted))
        };
        let found = schemas
            .as_object()
            .and_then(|all| all.iter().find(|(_, schema)| is_wanted(schema)));
        Ok(Self {
            path: path.replace("NAMESPACE", NAMESPACE),
            schema: found.with_context(|| format!("no schema of {kind}"))?.0.clone(),
            schemas: Arc::new(schemas),
            seed,
        })
    }

    pub(super) fn name(&self) -> &str {
        self.seed.get("kind").and_then(Value::as_str).unwrap_or_default()
    }

    /// Returns the steps that these draws lead to.
    pub(super) fn steps(&self, draws: &Draws) -> Vec<Step> {
        let step = |(at, drawn): (usize, &Vec<u32>)| self.step(at == 0, &mut Choices::new(drawn));
        draws.iter().enumerate().map(step).collect()
    }

    fn step(&self, first: bool, choices: &mut Choices<'_>) -> Step {
        let verbs: &[Verb] = if first { &Verb::FIRST } else { &Verb::ALL };
        let verb = choices.one_of(verbs).copied().unwrap_or(Verb::Create);
        let manager = choices.one_of(&MANAGERS).copied().unwrap_or_default();
        let body = match verb {
            Verb::Create | Verb::Update => self.edited(self.seed.clone(), choices),
            Verb::Apply | Verb::ForceApply => {
                let part = self.part(choices);
                self.edited(part, choices)
            }
            Verb::MergePatch | Verb::StrategicMergePatch => {
                let mut patch = json!({});
                self.edit(&mut patch, choices);
                self.edited(patch, choices)
            }
            Verb::JsonPatch => self.json_patch(choices),
            Verb::Delete => json!({}),
        };
        Step { verb, manager, body }
    }

    /// Returns the seed without some fields of its spec.
    fn part(&self, choices: &mut Choices<'_>) -> Value {
        let mut part = self.seed.clone();
        for _ in 0..choices.below(3) {
            remove(&mut part, choices);
        }
        part
    }

    /// Returns the object with up to two changed fields.
    fn edited(&self, mut object: Value, choices: &mut Choices<'_>) -> Value {
        for _ in 0..choices.below(3) {
            self.edit(&mut object, choices);
        }
        object
    }

    fn edit(&self, object: &mut Value, choices: &mut Choices<'_>) {
        let schema = self.schemas.get(&self.schema).unwrap_or(&Value::Null);
        let names: Vec<&str> = ["spec", "metadata"]
            .into_iter()
            .chain(members(schema).filter(|name| !["apiVersion", "kind", "status", "spec", "metadata"].contains(name)))
            .filter(|name| members(schema).any(|member| member == *name))
            .collect();
        let Some(name) = choices.one_of(&names).copied() else {
            return;
        };
        if name == "metadata" {
            return edit_metadata(object, choices);
        }
        let member = member(schema, name).unwrap_or(&Value::Null);
        if let Value::Object(fields) = object {
            let field = fields.entry(name).or_insert(Value::Null);
            self.change(field, member, REACH, choices);
        }
    }

    /// Changes the value, or one inside it.
    fn change(&self, value: &mut Value, schema: &Value, reach: usize, choices: &mut Choices<'_>) {
        let schema = self.resolved(schema);
        if reach == 0 || choices.below(4) == 0 {
            *value = self.replacement(schema, choices);
            return;
        }
        if let Some(items) = schema.get("items") {
            return self.change_item(value, items, reach, choices);
        }
        let names: Vec<&str> = members(schema).collect();
        let Some(name) = choices.one_of(&names).copied() else {
            *value = self.replacement(schema, choices);
            return;
        };
        if !value.is_object() {
            *value = json!({});
        }
        let member = member(schema, name).unwrap_or(&Value::Null);
        if let Value::Object(fields) = value {
            self.change(fields.entry(name).or_insert(Value::Null), member, reach - 1, choices);
        }
    }

    fn change_item(&self, value: &mut Value, schema: &Value, reach: usize, choices: &mut Choices<'_>) {
        if !value.is_array() {
            *value = json!([]);
        }
        let Value::Array(items) = value else { return };
        let at = choices.below(items.len() + 1);
        match items.get_mut(at) {
            Some(item) => self.change(item, schema, reach - 1, choices),
            None => items.push(self.made(schema, DEPTH, choices)),
        }
    }

    /// Returns a value that the schema allows, most of the time.
    fn replacement(&self, schema: &Value, choices: &mut Choices<'_>) -> Value {
        let wrong = [Value::Null, json!({}), json!([]), json!("a"), json!(5), json!(true)];
        match choices.below(8) {
            1 => choices.one_of(&wrong).cloned().unwrap_or_default(),
            _ => self.made(schema, DEPTH, choices),
        }
    }

    /// Returns a value that the schema describes.
    fn made(&self, schema: &Value, depth: usize, choices: &mut Choices<'_>) -> Value {
        let schema = self.resolved(schema);
        if let Some(Value::Array(allowed)) = schema.get("enum") {
            return choices.one_of(allowed).cloned().unwrap_or_default();
        }
        match schema.get("type").and_then(Value::as_str) {
            Some("string") => text(schema, choices),
            Some("integer" | "number") => json!(choices.one_of(&NUMBERS)),
            Some("boolean") => json!(choices.below(2) == 0),
            Some("array") => self.list(schema, depth, choices),
            Some("object") => self.map(schema, depth, choices),
            // Quantities and the like, which are numbers or texts.
            _ if choices.below(2) == 0 => json!(choices.one_of(&NUMBERS)),
            _ => json!(choices.one_of(&TEXTS)),
        }
    }

    fn list(&self, schema: &Value, depth: usize, choices: &mut Choices<'_>) -> Value {
        let items = schema.get("items").unwrap_or(&Value::Null);
        let length = if depth == 0 { 0 } else { choices.below(3) };
        (0..length).map(|_| self.made(items, depth - 1, choices)).collect()
    }

    fn map(&self, schema: &Value, depth: usize, choices: &mut Choices<'_>) -> Value {
        let mut made = Map::new();
        if depth == 0 {
            return made.into();
        }
        let required = schema
            .get("required")
            .and_then(Value::as_array)
            .into_iter()
            .flatten()
            .filter_map(Value::as_str);
        let names: Vec<&str> = members(schema).collect();
        let mut chosen: Vec<&str> = required.collect();
        chosen.extend((0..choices.below(3)).filter_map(|_| choices.one_of(&names).copied()));
        for name in chosen {
            let member = member(schema, name).unwrap_or(&Value::Null);
            made.insert(name.to_owned(), self.made(member, depth - 1, choices));
        }
        if let Some(values) = schema.get("additionalProperties") {
            for _ in 0..choices.below(3) {
                let key = choices.one_of(&TEXTS).copied().unwrap_or_default();
                made.insert(key.to_owned(), self.made(values, depth - 1, choices));
            }
        }
        made.into()
    }

    /// Returns the schema that a reference leads to.
    fn resolved<'a>(&'a self, schema: &'a Value) -> &'a Value {
        let reference = schema.get("$ref").or_else(|| schema.pointer("/allOf/0/$ref"));
        let name = reference
            .and_then(Value::as_str)
            .and_then(|text| text.rsplit('/').next());
        name.and_then(|name| self.schemas.get(name)).unwrap_or(schema)
    }

    /// Returns a JSON patch of up to three operations on fields that the seed has, or has not.
    fn json_patch(&self, choices: &mut Choices<'_>) -> Value {
        let operations = ["replace", "add", "remove", "test"];
        let count = 1 + choices.below(3);
        let operation = |_| {
            let edited = self.edited(self.seed.clone(), choices);
            let (path, value) = leaf(&edited, choices);
            let op = choices.one_of(&operations).copied().unwrap_or_default();
            let path = if choices.below(8) == 1 {
                format!("{path}/more")
            } else {
                path
            };
            json!({"op": op, "path": path, "value": value})
        };
        (0..count).map(operation).collect()
    }
}

fn members(schema: &Value) -> impl Iterator<Item = &str> {
    let properties = schema.get("properties").and_then(Value::as_object);
    properties
        .into_iter()
        .flat_map(|properties| properties.keys().map(String::as_str))
}

fn member<'a>(schema: &'a Value, name: &str) -> Option<&'a Value> {
    schema.get("properties").and_then(|properties| properties.get(name))
}

fn text(schema: &Value, choices: &mut Choices<'_>) -> Value {
    match schema.get("format").and_then(Value::as_str) {
        Some("date-time") if choices.below(4) != 3 => json!("2020-01-01T00:00:00Z"),
        Some("byte") if choices.below(4) != 3 => json!("YQ=="),
        _ => json!(choices.one_of(&TEXTS)),
    }
}

/// Sets a label, an annotation, a finalizer or an owner.
fn edit_metadata(object: &mut Value, choices: &mut Choices<'_>) {
    let text = choices.one_of(&TEXTS).copied().unwrap_or_default();
    let (name, value) = match choices.below(5) {
        0 => ("labels", json!({ text: "a" })),
        1 => ("annotations", json!({ text: "a" })),
        2 => ("labels", json!({ "a": text })),
        3 => ("finalizers", json!([text])),
        _ => {
            let owner = json!({"apiVersion": "v1", "kind": "ConfigMap", "name": text, "uid": "1"});
            ("ownerReferences", json!([owner]))
        }
    };
    if let Value::Object(fields) = object
        && let Value::Object(metadata) = fields.entry("metadata").or_insert_with(|| json!({}))
    {
        metadata.insert(name.to_owned(), value);
    }
}

/// Removes one field below the top level, if there is one.
fn remove(object: &mut Value, choices: &mut Choices<'_>) {
    let keep = ["apiVersion", "kind", "metadata"];
    let Value::Object(fields) = object else { return };
    let names: Vec<String> = fields
        .keys()
        .filter(|name| !keep.contains(&name.as_str()))
        .cloned()
        .collect();
    let Some(name) = choices.one_of(&names) else { return };
    if choices.below(3) == 0 {
        fields.remove(name);
    } else if let Some(field) = fields.get_mut(name) {
        remove(field, choices);
    }
}

/// Returns path and value of a field of the object.
fn leaf(object: &Value, choices: &mut Choices<'_>) -> (String, Value) {
    let (mut path, mut value) = (String::new(), object);
    loop {
        let names: Vec<String> = match value {
            Value::Object(fields) => fields.keys().cloned().collect(),
            Value::Array(items) => (0..items.len()).map(|at| at.to_string()).collect(),
            _ => Vec::new(),
        };
        let stop = !path.is_empty() && choices.below(4) == 3;
        let Some(name) = choices.one_of(&names).filter(|_| !stop) else {
            return (path, value.clone());
        };
        let name = name.replace('~', "~0").replace('/', "~1");
        path = format!("{path}/{name}");
        value = object.pointer(&path).unwrap_or(&Value::Null);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kind() -> Kind {
        let schemas = json!({
            "Widget": {"type": "object", "properties": {
                "apiVersion": {"type": "string"}, "kind": {"type": "string"}, "metadata": {},
                "spec": {"allOf": [{"$ref": "#/components/schemas/Spec"}]},
            }},
            "Spec": {"type": "object", "required": ["size"], "properties": {
                "size": {"type": "integer"},
                "names": {"type": "array", "items": {"type": "string"}},
                "inner": {"$ref": "#/components/schemas/Spec"},
            }},
        });
        Kind {
            path: "/apis/example.com/v1/widgets".to_owned(),
            seed: json!({"apiVersion": "example.com/v1", "kind": "Widget", "spec": {"size": 1, "names": ["a"]}}),
            schemas: Arc::new(schemas),
            schema: "Widget".to_owned(),
        }
    }

    #[test]
    fn without_choices_the_seed_is_created() {
        let steps = kind().steps(&vec![vec![]]);
        let [step] = steps.as_slice() else { panic!("{steps:?}") };
        assert_eq!((step.verb, &step.body), (Verb::Create, &kind().seed));
    }

    #[test]
    fn the_same_draws_lead_to_the_same_steps() {
        let draws = vec![vec![0, 1, 2, 0, 3, 3, 5], vec![4, 1, 1, 0, 2, 2, 1, 7]];
        assert_eq!(kind().steps(&draws), kind().steps(&draws));
    }

    #[test]
    fn values_are_made_along_the_schema() {
        let kind = kind();
        let spec = json!({"$ref": "#/components/schemas/Spec"});
        assert_eq!(kind.made(&spec, DEPTH, &mut Choices::new(&[])), json!({"size": 0}));
        let drawn = [1, 1, 2, 1];
        let made = kind.made(&spec, DEPTH, &mut Choices::new(&drawn));
        assert!(made.get("size").is_some_and(Value::is_i64), "{made}");
    }

    #[test]
    fn every_body_of_a_recursive_schema_ends() {
        for start in 0..200_u32 {
            let drawn: Vec<u32> = (0..64)
                .map(|at| start.wrapping_mul(2_654_435_761).rotate_left(at) >> 3)
                .collect();
            let steps = kind().steps(&vec![drawn.clone(), drawn]);
            assert_eq!(steps.len(), 2);
        }
    }

    #[test]
    fn a_seed_is_there_for_each_listed_path() {
        let seeds: Vec<Value> = serde_json::from_str(SEEDS).unwrap();
        for seed in &seeds {
            assert!(seed.pointer("/path").is_some_and(Value::is_string), "{seed}");
            assert!(seed.pointer("/object/kind").is_some_and(Value::is_string), "{seed}");
        }
    }
}
