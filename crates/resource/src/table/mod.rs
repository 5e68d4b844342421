//! Server-side printing: the columns of a resource's table
//! (<https://kubernetes.io/docs/reference/using-api/api-concepts/#receiving-resources-as-tables>).
//!
//! A column is data: a heading and a rule for its cells, read from text. Most rules are a path and a format for its
//! value; the few others have a name, and a function that the kind provides.

mod age;
mod cell;

use std::time::SystemTime;

use holdfast_value::json::Selected;
use holdfast_value::{SmolStr, Value};

pub use age::{age, duration, parse_time};
pub use cell::{Cell, NamedCell, condition, items, scalar_text};

/// A column of a table.
#[derive(Clone, Debug)]
pub struct Column {
    /// The heading.
    pub name: SmolStr,
    /// The type of its cells: `string`, `integer`, `boolean`, `date`.
    pub data_type: SmolStr,
    /// Format of the type: `name` for names, otherwise empty.
    pub format: SmolStr,
    /// Description for people.
    pub description: SmolStr,
    /// 0 for columns that are always included, 1 for those of wide tables.
    pub priority: i64,
    /// Rule for its cells.
    pub cell: Cell,
}

impl Column {
    /// Reads a column from text: `HEADING | TYPE[:FORMAT] | PRIORITY | RULE`. See [`Cell::parse`] for the rules;
    /// `cells` are the named cells.
    pub fn parse(line: &str, cells: &[NamedCell]) -> Option<Column> {
        let mut parts = line.splitn(4, '|').map(str::trim);
        let (name, data_type, priority, rule) = (parts.next()?, parts.next()?, parts.next()?, parts.next()?);
        let (data_type, format) = data_type.split_once(':').unwrap_or((data_type, ""));
        Some(Column {
            name: SmolStr::new(name),
            data_type: SmolStr::new(data_type),
            format: SmolStr::new(format),
            description: SmolStr::default(),
            priority: priority.parse().ok()?,
            cell: Cell::parse(rule, cells)?,
        })
    }

    /// Adds the fields that the cell reads to `selected`. Returns false if they are unknown.
    pub fn select(&self, selected: &mut Selected) -> bool {
        self.cell.select(selected)
    }

    /// Returns the cell of `object`.
    pub fn cell(&self, object: &Value, now: SystemTime) -> Value {
        self.cell.value(object, now)
    }
}
