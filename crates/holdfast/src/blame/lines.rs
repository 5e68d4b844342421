//! The lines of an object in YAML, each with the field that begins on it.

use holdfast_ownership::Blame;
use holdfast_value::{List, Map, Value, yaml};

/// A line of YAML.
pub(super) struct Line<'a> {
    /// The text without the line break.
    pub(super) text: String,
    /// The field that begins here, if it holds no other fields.
    pub(super) blame: Option<&'a Blame>,
}

/// Returns the lines of `object` in the format of `kubectl get -o yaml`, without its `managedFields`. `blames` are
/// those of the object, with its fields in the order of its keys.
pub(super) fn annotate<'a>(object: &Value, blames: &'a [Blame]) -> Vec<Line<'a>> {
    let mut object = object.clone();
    if object.remove_at(&["metadata", "managedFields"]).is_some()
        && object
            .get("metadata")
            .and_then(Value::as_map)
            .is_some_and(|metadata| metadata.is_empty())
    {
        object.remove_at(&["metadata"]);
    }
    let mut printer = Printer {
        lines: Vec::new(),
        blames: blames.iter(),
    };
    match &object {
        Value::Map(map) if !map.is_empty() => printer.map(map, "", ""),
        Value::List(list) if !list.is_empty() => printer.list(list, "", ""),
        leaf => printer.leaf(leaf, "", ""),
    }
    printer.lines
}

struct Printer<'a> {
    lines: Vec<Line<'a>>,
    blames: std::slice::Iter<'a, Blame>,
}

impl Printer<'_> {
    /// Prints the entries of a map. The first line begins with `first`, all others with `indent`.
    fn map(&mut self, map: &Map, first: &str, indent: &str) {
        for (at, (key, value)) in map.iter().enumerate() {
            let start = if at == 0 { first } else { indent };
            match value {
                Value::Map(below) if !below.is_empty() => {
                    self.parent(key, start);
                    let deeper = format!("{indent}  ");
                    self.map(below, &deeper, &deeper);
                }
                Value::List(below) if !below.is_empty() => {
                    self.parent(key, start);
                    self.list(below, indent, indent);
                }
                leaf => {
                    let entry = Value::Map([(key.clone(), leaf.clone())].into_iter().collect());
                    self.leaf(&entry, start, indent);
                }
            }
        }
    }

    /// Prints the items of a list likewise.
    fn list(&mut self, list: &List, first: &str, indent: &str) {
        for (at, item) in list.iter().enumerate() {
            let start = if at == 0 { first } else { indent };
            let (dash, deeper) = (format!("{start}- "), format!("{indent}  "));
            match item {
                Value::Map(below) if !below.is_empty() => self.map(below, &dash, &deeper),
                Value::List(below) if !below.is_empty() => self.list(below, &dash, &deeper),
                leaf => self.leaf(&Value::from(vec![leaf.clone()]), start, indent),
            }
        }
    }

    fn parent(&mut self, key: &str, start: &str) {
        let key = yaml::to_string(&Value::from(key));
        self.lines.push(Line {
            text: format!("{start}{}:", key.trim_end()),
            blame: None,
        });
    }

    fn leaf(&mut self, leaf: &Value, start: &str, indent: &str) {
        let mut blame = self.blames.next();
        for (at, line) in yaml::to_string(leaf).lines().enumerate() {
            let start = if at == 0 { start } else { indent };
            self.lines.push(Line {
                text: format!("{start}{line}"),
                blame: blame.take(),
            });
        }
    }
}
