//! Cells that are made from the text of an object are those of its tree.

use std::collections::BTreeSet;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use holdfast_kinds::{Config, registry};
use holdfast_resource::Registry;
use holdfast_resource::table::{Column, ColumnPaths};
use holdfast_value::{Limits, Map, Value, json};
use test_support::{needs, shared};

/// Time of the tables.
fn now() -> SystemTime {
    UNIX_EPOCH + Duration::from_hours(500_000)
}

/// Returns the columns of an object's kind and version.
fn columns_of<'r>(registry: &'r Registry, object: &Value) -> Option<&'r [Column]> {
    let (version, kind) = (object.str_at(&["apiVersion"])?, object.str_at(&["kind"])?);
    let mut resources = registry.resources().filter(|resource| resource.kind == kind);
    resources.find_map(|resource| {
        let mut versions = resource.versions.iter();
        let version = versions.find(|served| served.api_version == version)?;
        Some(version.columns.as_slice())
    })
}

/// Compares the cells of an object's text with those of its tree. Returns false if the text is not read by paths.
fn check(columns: &[Column], paths: &ColumnPaths, text: &[u8]) -> bool {
    let tree = json::parse(text, &Limits::TRUSTED).unwrap();
    let mut values = Vec::new();
    let Some(metadata) = paths.read(text, &mut values) else {
        return false;
    };
    let cells: Vec<Value> = paths.cells(columns, &values, now()).collect();
    let expected: Vec<Value> = columns.iter().map(|column| column.cell(&tree, now())).collect();
    assert_eq!(cells, expected, "{}", text.escape_ascii());
    let metadata = metadata.map(|range| json::parse(&text[range], &Limits::TRUSTED).unwrap());
    assert_eq!(metadata.as_ref(), tree.get("metadata"));
    true
}

/// Sequence of numbers from a seed (xorshift).
struct Random(u64);

impl Random {
    fn below(&mut self, limit: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) as usize % limit
    }

    /// Replaces one of so many values by one that may not fit its type.
    fn mutate(&mut self, value: &Value, one_of: usize) -> Value {
        if self.below(one_of) == 0 {
            return match self.below(8) {
                0 => Value::Null,
                1 => Value::Int(-7),
                2 => Value::Float(0.5),
                3 => "".into(),
                4 => "a \"quoted\" <text>".into(),
                5 => Value::empty_map(),
                6 => vec![Value::Null, value.clone(), "x".into()].into(),
                _ => Value::Bool(true),
            };
        }
        match value {
            Value::List(list) => list
                .iter()
                .map(|item| self.mutate(item, one_of))
                .collect::<Vec<_>>()
                .into(),
            Value::Map(map) => {
                let entries = map
                    .iter()
                    .map(|(name, value)| (name.clone(), self.mutate(value, one_of)));
                Value::Map(entries.collect::<Map>())
            }
            scalar => scalar.clone(),
        }
    }
}

#[needs(shared)]
#[test]
fn cells_of_text_are_those_of_tree() {
    let registry = registry(&Config::default()).unwrap();
    let mut objects: Vec<Value> = Vec::new();
    for entry in std::fs::read_dir(shared("facts/roundtrip")).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_some_and(|ending| ending == "json") {
            objects.push(json::parse(&std::fs::read(&path).unwrap(), &Limits::TRUSTED).unwrap());
        }
    }
    for file in ["initial.jsonl", "objects.jsonl"] {
        let text = std::fs::read_to_string(shared("corpus/storage").join(file)).unwrap();
        let lines = text
            .lines()
            .map(|line| json::parse(line.as_bytes(), &Limits::TRUSTED).unwrap());
        objects.extend(lines.filter_map(|line| line.get("object").cloned()));
    }
    let (mut random, mut kinds) = (Random(7), BTreeSet::new());
    for object in &objects {
        let Some(columns) = columns_of(&registry, object) else {
            continue;
        };
        let Some(paths) = ColumnPaths::new(columns) else {
            continue;
        };
        assert!(check(columns, &paths, &json::to_vec(object)));
        let mut indented = Vec::new();
        json::write_pretty(object, "  ", &mut indented);
        assert!(check(columns, &paths, &indented));
        for one_of in [5, 20, 60] {
            let mutant = random.mutate(object, one_of);
            if mutant.as_map().is_some() {
                assert!(check(columns, &paths, &json::to_vec(&mutant)));
            }
        }
        kinds.insert(object.str_at(&["kind"]).unwrap());
    }
    assert!(kinds.len() > 30, "{kinds:?}");
}
