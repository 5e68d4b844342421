//! The rules for the content of cells.

use std::fmt::{self, Write as _};
use std::time::SystemTime;

use holdfast_value::json::{PathSet, PathValue, Selected};
use holdfast_value::{SmolStr, Value};

use super::age::{age, parse_time};
use crate::jsonpath::JsonPath;
use crate::selector::LabelSelector;

/// Rule for the content of a cell.
#[derive(Clone, Debug)]
pub struct Cell {
    rule: Rule,
    /// Text for a missing value; empty for most.
    missing: SmolStr,
}

#[derive(Clone, Debug)]
enum Rule {
    Text(Path),
    Value(Path),
    Number(Path),
    Boolean(Path),
    Age(Vec<Path>),
    Count(Vec<Path>),
    Labels(Path),
    Selector(Path),
    Join(Path, SmolStr, SmolStr),
    Pair(Path, Path),
    Condition(SmolStr),
    /// Function and the paths that it reads; none if it reads the whole object.
    Computed(Function, Vec<Path>),
    Defined(Box<JsonPath>, SmolStr),
}

/// Name of a cell that is more than the value at a path, and the function that computes it from an object.
pub type NamedCell = (&'static str, fn(&Value, SystemTime) -> Value);

#[derive(Clone, Copy)]
struct Function(NamedCell);

impl fmt::Debug for Function {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0.0)
    }
}

/// Names of fields, from the root.
type Path = Vec<SmolStr>;

impl Cell {
    /// Parses a rule; the text after ` else ` replaces a missing value.
    ///
    /// | rule | cell |
    /// |---|---|
    /// | `text PATH` | text, or a scalar as text |
    /// | `value PATH` | the value, unchanged |
    /// | `number PATH`, `boolean PATH` | a number or boolean; 0 and false for a missing value |
    /// | `age PATH,PATH` | the time since the first of these times |
    /// | `count PATH,PATH` | the number of entries of these lists and maps together |
    /// | `labels PATH` | a map as `k=v,k=v` |
    /// | `selector PATH` | the text of a label selector |
    /// | `join PATH FIELD SEPARATOR` | the fields of a list's items (`.`: the items); `_` in the separator is a blank |
    /// | `pair PATH PATH` | two texts with a slash between them; a missing number is 0 |
    /// | `condition TYPE` | the status of a condition |
    /// | `computed NAME` | the result of one of `cells` for the object |
    /// | `computed NAME from PATH,PATH` | the same, if it reads only these paths |
    pub fn parse(text: &str, cells: &[NamedCell]) -> Option<Cell> {
        let (text, missing) = text.split_once(" else ").unwrap_or((text, ""));
        let words: Vec<&str> = text.split_whitespace().collect();
        let paths = |text: &str| text.split(',').map(path).collect();
        let rule = match *words {
            ["text", at] => Rule::Text(path(at)),
            ["value", at] => Rule::Value(path(at)),
            ["number", at] => Rule::Number(path(at)),
            ["boolean", at] => Rule::Boolean(path(at)),
            ["age", at] => Rule::Age(paths(at)),
            ["count", at] => Rule::Count(paths(at)),
            ["labels", at] => Rule::Labels(path(at)),
            ["selector", at] => Rule::Selector(path(at)),
            ["join", at, field, separator] => {
                Rule::Join(path(at), SmolStr::new(field), separator.replace('_', " ").into())
            }
            ["pair", a, b] => Rule::Pair(path(a), path(b)),
            ["condition", of] => Rule::Condition(SmolStr::new(of)),
            ["computed", name] => Rule::Computed(named(name, cells)?, Vec::new()),
            ["computed", name, "from", read] => Rule::Computed(named(name, cells)?, paths(read)),
            _ => return None,
        };
        let missing = SmolStr::new(missing);
        Some(Cell { rule, missing })
    }

    /// Creates a cell of a column in a CRD: the first value that `path` finds, formatted as one of the types of
    /// columns.
    pub fn defined(path: JsonPath, data_type: &str) -> Cell {
        Cell {
            rule: Rule::Defined(Box::new(path), SmolStr::new(data_type)),
            missing: SmolStr::default(),
        }
    }

    /// Returns the cell of `object`.
    pub fn value(&self, object: &Value, now: SystemTime) -> Value {
        self.of_source(Source::Object(object), now)
    }

    /// Returns the cell of an object of which these values were read; `paths` are those of [`Self::add_paths`].
    pub(super) fn of_values(&self, values: &[PathValue], paths: &[u16], now: SystemTime) -> Value {
        self.of_source(Source::Values { values, paths }, now)
    }

    fn of_source(&self, source: Source<'_>, now: SystemTime) -> Value {
        let text = match &self.rule {
            Rule::Value(path) => match source.at(0, path) {
                Some(value) => return value.clone(),
                None => String::new(),
            },
            Rule::Number(path) => return source.at(0, path).cloned().unwrap_or(Value::Int(0)),
            Rule::Boolean(path) => return source.at(0, path).cloned().unwrap_or(Value::Bool(false)),
            Rule::Count(paths) => {
                let lengths = (paths.iter().enumerate()).map(|(nth, path)| source.at(nth, path).map_or(0, entries));
                return Value::Int(lengths.sum::<usize>() as i64);
            }
            Rule::Computed(Function((_, of)), _) => {
                return match source {
                    Source::Object(object) => of(object, now),
                    // The cell has no paths, so no values were read for it.
                    Source::Values { .. } => Value::Null,
                };
            }
            Rule::Defined(path, data_type) => {
                let found = match source {
                    Source::Object(object) => path.find(object).first().copied(),
                    Source::Values { .. } => source.at(0, &[]),
                };
                return found.map_or(Value::Null, |value| defined_cell(value, data_type, now));
            }
            Rule::Text(path) => match source.at(0, path) {
                Some(Value::String(text)) if !text.is_empty() => return Value::String(text.clone()),
                found => found.map(scalar_text).unwrap_or_default(),
            },
            Rule::Age(paths) => {
                let times = paths.iter().enumerate();
                let time = times.filter_map(|(nth, path)| source.at(nth, path)?.as_str()).next();
                match (time, self.missing.is_empty()) {
                    (None, false) => String::new(),
                    (time, _) => age(time, now),
                }
            }
            Rule::Labels(path) => source.at(0, path).map(labels_text).unwrap_or_default(),
            Rule::Selector(path) => source.at(0, path).map(selector_text).unwrap_or_default(),
            Rule::Join(path, field, separator) => source.joined(path, field, separator),
            Rule::Pair(a, b) => {
                let mut text = String::new();
                push_number(source.at(0, a), &mut text);
                text.push('/');
                push_number(source.at(1, b), &mut text);
                text
            }
            Rule::Condition(of) => {
                let value = match source {
                    Source::Object(object) => object.at(&CONDITIONS),
                    Source::Values { .. } => source.at(0, &[]),
                };
                let conditions = value.and_then(Value::as_list).map_or(&[][..], |list| &list[..]);
                let found = conditions
                    .iter()
                    .find(|condition| condition.str_at(&["type"]) == Some(of));
                let status = found.and_then(|condition| condition.str_at(&["status"]));
                status.unwrap_or_default().to_owned()
            }
        };
        if text.is_empty() {
            Value::String(self.missing.clone())
        } else {
            text.into()
        }
    }

    /// Adds the paths that the cell reads to `set`, and returns their numbers. `None` if the cell reads more than values
    /// at paths.
    pub(super) fn add_paths(&self, set: &mut PathSet) -> Option<Vec<u16>> {
        let mut add = |path: &Path| set.add(path.iter().map(SmolStr::as_str));
        match &self.rule {
            Rule::Text(path)
            | Rule::Value(path)
            | Rule::Number(path)
            | Rule::Boolean(path)
            | Rule::Labels(path)
            | Rule::Selector(path) => Some(vec![add(path)?]),
            Rule::Age(paths) | Rule::Count(paths) => paths.iter().map(add).collect(),
            Rule::Join(path, field, _) if field == "." => Some(vec![add(path)?]),
            Rule::Join(path, field, _) => Some(vec![set.add_in_items(path.iter().map(SmolStr::as_str), field)?]),
            Rule::Pair(a, b) => Some(vec![add(a)?, add(b)?]),
            Rule::Condition(_) => Some(vec![set.add(CONDITIONS.into_iter())?]),
            Rule::Computed(..) => None,
            Rule::Defined(path, _) => Some(vec![set.add(path.only_fields()?)?]),
        }
    }

    /// Adds the fields that the cell reads to `selected`. Returns false if they are unknown.
    pub fn select(&self, selected: &mut Selected) -> bool {
        let mut add = |path: &[SmolStr], more: &[&str]| {
            selected.add(path.iter().map(SmolStr::as_str).chain(more.iter().copied()));
        };
        match &self.rule {
            Rule::Text(path)
            | Rule::Value(path)
            | Rule::Number(path)
            | Rule::Boolean(path)
            | Rule::Labels(path)
            | Rule::Selector(path) => add(path, &[]),
            Rule::Age(paths) | Rule::Count(paths) => paths.iter().for_each(|path| add(path, &[])),
            Rule::Join(path, field, _) if field == "." => add(path, &[]),
            Rule::Join(path, field, _) => add(path, &[field]),
            Rule::Pair(a, b) => [a, b].into_iter().for_each(|path| add(path, &[])),
            Rule::Condition(_) => {
                add(&[], &["status", "conditions", "type"]);
                add(&[], &["status", "conditions", "status"]);
            }
            Rule::Computed(_, paths) if paths.is_empty() => return false,
            Rule::Computed(_, paths) => paths.iter().for_each(|path| add(path, &[])),
            Rule::Defined(path, _) => {
                let fields: Vec<&str> = path.fields().collect();
                if fields.is_empty() {
                    return false;
                }
                add(&[], &fields);
            }
        }
        true
    }
}

fn named(name: &str, cells: &[NamedCell]) -> Option<Function> {
    cells.iter().find(|(known, _)| *known == name).copied().map(Function)
}

fn path(text: &str) -> Path {
    text.split('.').map(SmolStr::new).collect()
}

/// Path of the conditions of an object.
const CONDITIONS: [&str; 2] = ["status", "conditions"];

/// Object of which a cell is made.
#[derive(Clone, Copy)]
enum Source<'a> {
    /// The tree of the object, or of those parts that the cell reads.
    Object(&'a Value),
    /// The values that were read at paths. `paths` has the number of each path of the cell.
    Values { values: &'a [PathValue], paths: &'a [u16] },
}

impl<'a> Source<'a> {
    /// Returns the value at `path`, which is the path of the cell with the index `nth`. `None` for `null`.
    fn at(self, nth: usize, path: &[SmolStr]) -> Option<&'a Value> {
        let found = match self {
            Self::Object(object) => path.iter().try_fold(object, |node, key| node.get(key)),
            Self::Values { values, paths } => {
                let number = paths.get(nth)?;
                let mut values = values.iter();
                values.find(|value| value.path == *number).map(|value| &value.value)
            }
        };
        found.filter(|value| !value.is_null())
    }

    /// Returns the scalars in the member `field` of the items of the list at `path`, or the items themselves.
    fn joined(self, path: &[SmolStr], field: &str, separator: &str) -> String {
        let (mut text, mut is_first) = (String::new(), true);
        let mut push = |scalar: &Value| {
            if !std::mem::take(&mut is_first) {
                text.push_str(separator);
            }
            push_scalar(scalar, &mut text);
        };
        match self {
            Self::Values { values, paths } if field != "." => {
                let of_list = values.iter().filter(|value| paths.first() == Some(&value.path));
                of_list.for_each(|value| push(&value.value));
            }
            _ => {
                let list = self.at(0, path).and_then(Value::as_list);
                for item in list.into_iter().flat_map(|list| list.iter()) {
                    match field {
                        "." => push(item),
                        _ => item.get(field).into_iter().for_each(&mut push),
                    }
                }
            }
        }
        text
    }
}

/// Returns the items of the list at `keys`; none if there is no list.
pub fn items<'a>(object: &'a Value, keys: &[&str]) -> &'a [Value] {
    object.at(keys).and_then(Value::as_list).map_or(&[], |list| &list[..])
}

/// Returns the condition of that type in `status.conditions`.
pub fn condition<'a>(object: &'a Value, of: &str) -> Option<&'a Value> {
    let mut conditions = items(object, &["status", "conditions"]).iter();
    conditions.find(|condition| condition.str_at(&["type"]) == Some(of))
}

/// Returns a scalar as text, and anything else as JSON.
pub fn scalar_text(value: &Value) -> String {
    match value {
        Value::String(text) => text.to_string(),
        other => other.to_string(),
    }
}

/// Returns a value in a column of a type from a CRD; `null` if it is of another type.
fn defined_cell(value: &Value, data_type: &str, now: SystemTime) -> Value {
    match (data_type, value) {
        (_, Value::Null) => Value::Null,
        ("string", value) => scalar_text(value).into(),
        ("integer", Value::Float(number)) => Value::Int(*number as i64),
        ("number", Value::Int(number)) => Value::Float(*number as f64),
        ("number", Value::UInt(number)) => Value::Float(*number as f64),
        ("integer", Value::Int(_) | Value::UInt(_)) | ("number", Value::Float(_)) => value.clone(),
        ("boolean", Value::Bool(_)) => value.clone(),
        // The texts of missing times are not times.
        ("date", Value::String(text)) if matches!(text.as_str(), "" | "null") => age(None, now).into(),
        ("date", Value::String(text)) => match parse_time(text) {
            Some(_) => age(Some(text), now).into(),
            None => "<invalid>".into(),
        },
        _ => Value::Null,
    }
}

/// Returns a map as `k=v`, comma-joined in the order of the keys.
fn labels_text(labels: &Value) -> String {
    let mut text = String::new();
    for (at, (key, value)) in labels.as_map().into_iter().flatten().enumerate() {
        if at > 0 {
            text.push(',');
        }
        text.push_str(key);
        text.push('=');
        push_scalar(value, &mut text);
    }
    text
}

/// Returns a label selector as text; one with only labels is the text of these.
fn selector_text(selector: &Value) -> String {
    match selector.get("matchExpressions") {
        Some(_) => LabelSelector::from_object(selector).to_string(),
        None => selector.get("matchLabels").map(labels_text).unwrap_or_default(),
    }
}

/// Appends a scalar; 0 if there is none.
fn push_number(value: Option<&Value>, text: &mut String) {
    match value {
        Some(value) => push_scalar(value, text),
        None => text.push('0'),
    }
}

/// Appends the result of [`scalar_text`].
fn push_scalar(value: &Value, text: &mut String) {
    match value {
        Value::String(scalar) => text.push_str(scalar),
        // Writing to a string does not fail.
        Value::Int(number) => drop(write!(text, "{number}")),
        other => text.push_str(&other.to_string()),
    }
}

fn entries(value: &Value) -> usize {
    match value {
        Value::List(list) => list.len(),
        Value::Map(map) => map.len(),
        _ => 0,
    }
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, UNIX_EPOCH};

    use holdfast_value::{Limits, json};

    use super::*;

    #[test]
    fn selected_fields_suffice_for_cells() {
        let text = br#"{"metadata":{"name":"a","creationTimestamp":"1970-01-01T00:00:00Z"},"other":{"large":[1]},
            "spec":{"replicas":3,"selector":{"matchLabels":{"a":"1"}},"containers":[{"name":"x"},{"image":"i"}],"args":["b"]},
            "status":{"conditions":[{"type":"Ready","status":"True"}]},"data":{"k":"v"}}"#;
        let whole = json::parse(text, &Limits::TRUSTED).unwrap();
        let cells: [NamedCell; 1] = [("replicas", |object, _| {
            object.at(&["spec", "replicas"]).cloned().unwrap_or_default()
        })];
        for rule in [
            "text metadata.name",
            "value spec.replicas",
            "number status.replicas",
            "boolean spec.on",
            "age status.then,metadata.creationTimestamp",
            "count data,binaryData",
            "selector spec.selector",
            "labels spec.selector.matchLabels",
            "join spec.containers name ,",
            "join spec.args . ,",
            "pair status.readyReplicas spec.replicas",
            "condition Ready",
            "computed replicas from spec.replicas",
        ] {
            let (cell, mut selected) = (Cell::parse(rule, &cells).unwrap(), Selected::nothing());
            assert!(cell.select(&mut selected), "{rule}");
            let cut = json::parse_selected(text, &selected).unwrap();
            assert_eq!(cut.get("other"), None, "{rule}");
            assert_eq!(cell.value(&cut, UNIX_EPOCH), cell.value(&whole, UNIX_EPOCH), "{rule}");
            let (mut set, mut values) = (PathSet::default(), Vec::new());
            let paths = cell.add_paths(&mut set);
            assert_eq!(paths.is_none(), rule.starts_with("computed"), "{rule}");
            if let Some(paths) = paths {
                json::read_paths(text, &set, "", &mut values).unwrap();
                let of_values = cell.of_values(&values, &paths, UNIX_EPOCH);
                assert_eq!(of_values, cell.value(&whole, UNIX_EPOCH), "{rule}");
            }
        }
        let mut selected = Selected::nothing();
        assert!(!Cell::parse("computed replicas", &cells).unwrap().select(&mut selected));
        for (path, is_known) in [(".spec.containers[0].name", true), ("..name", false), ("$", false)] {
            let Ok(path) = JsonPath::parse(path) else { continue };
            let (cell, mut selected) = (Cell::defined(path, "string"), Selected::nothing());
            assert_eq!(cell.select(&mut selected), is_known);
            if is_known {
                let cut = json::parse_selected(text, &selected).unwrap();
                assert_eq!(cell.value(&cut, UNIX_EPOCH), Value::from("x"));
            }
        }
    }

    #[test]
    fn each_rule_shows_what_stands_there_or_what_is_said_instead() {
        let text = r#"{"metadata":{"name":"a","creationTimestamp":"1970-01-01T00:00:00Z"},
            "spec":{"replicas":3,"selector":{"matchLabels":{"b":"2","a":"1"}},"containers":[{"name":"x"},{"name":"y"}]},
            "status":{"conditions":[{"type":"Ready","status":"True"}]},"data":{"k":"v"}}"#;
        let object = json::parse(text.as_bytes(), &Limits::TRUSTED).unwrap();
        let now = UNIX_EPOCH + Duration::from_secs(90);
        for (rule, cell) in [
            ("text metadata.name", r#""a""#),
            ("text spec.nodeName else <none>", r#""<none>""#),
            ("text spec.replicas", r#""3""#),
            ("number spec.replicas", "3"),
            ("number status.replicas", "0"),
            ("value spec.min else <unset>", r#""<unset>""#),
            ("boolean spec.on", "false"),
            ("age metadata.creationTimestamp", r#""90s""#),
            ("age status.then", r#""<unknown>""#),
            ("age status.then else <none>", r#""<none>""#),
            ("count data,binaryData", "1"),
            ("selector spec.selector", r#""a=1,b=2""#),
            ("labels spec.selector.matchLabels else <none>", r#""a=1,b=2""#),
            ("join spec.containers name ,_", r#""x, y""#),
            ("pair status.readyReplicas spec.replicas", r#""0/3""#),
            ("condition Ready else ?", r#""True""#),
            ("condition Gone else ?", r#""?""#),
        ] {
            let expected = json::parse(cell.as_bytes(), &Limits::TRUSTED).unwrap();
            assert_eq!(Cell::parse(rule, &[]).unwrap().value(&object, now), expected, "{rule}");
        }
        assert!(Cell::parse("sing a song", &[]).is_none());
        let cells: [NamedCell; 1] = [("kind", |object, _| object.get("kind").cloned().unwrap_or_default())];
        assert_eq!(
            Cell::parse("computed kind", &cells).unwrap().value(&object, now),
            Value::Null
        );
        assert!(Cell::parse("computed other", &cells).is_none());
    }
}
