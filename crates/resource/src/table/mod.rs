//! Server-side printing: what the columns of a resource's table hold
//! (<https://kubernetes.io/docs/reference/using-api/api-concepts/#receiving-resources-as-tables>).

mod age;

use std::time::SystemTime;

use holdfast_value::{SmolStr, Value};

pub use age::{age, parse_time};

/// A column of a table.
#[derive(Clone, Debug)]
pub struct Column {
    /// The heading.
    pub name: SmolStr,
    /// The type of its cells: `string`, `integer`, `boolean`, `date`.
    pub sort: SmolStr,
    /// How the type is meant: `name` for names, else empty.
    pub format: SmolStr,
    /// What it shows, for people.
    pub description: SmolStr,
    /// 0 for columns that are always shown, 1 for those of wide tables.
    pub priority: i64,
    /// How its cells come about.
    pub cell: Cell,
}

/// How a cell comes about.
#[derive(Clone, Debug)]
pub enum Cell {
    /// The text at a path; empty where there is none.
    Text(Vec<SmolStr>),
    /// How long ago the time at a path was.
    Age(Vec<SmolStr>),
}

impl Column {
    /// The columns of resources that have none of their own: name and time of creation.
    pub fn defaults() -> Vec<Column> {
        let column = |name, sort, format, path: &[&'static str]| Column {
            name: SmolStr::new_static(name),
            sort: SmolStr::new_static(sort),
            format: SmolStr::new_static(format),
            description: SmolStr::default(),
            priority: 0,
            cell: Cell::Text(path.iter().map(|name| SmolStr::new_static(name)).collect()),
        };
        vec![
            column("Name", "string", "name", &["metadata", "name"]),
            column("Created At", "date", "", &["metadata", "creationTimestamp"]),
        ]
    }

    /// The cell of `object`.
    pub fn cell(&self, object: &Value, now: SystemTime) -> Value {
        match &self.cell {
            Cell::Text(path) => at(object, path).cloned().unwrap_or_else(|| "".into()),
            Cell::Age(path) => age(at(object, path).and_then(Value::as_str), now).into(),
        }
    }
}

fn at<'a>(object: &'a Value, path: &[SmolStr]) -> Option<&'a Value> {
    path.iter().try_fold(object, |node, key| node.get(key))
}
