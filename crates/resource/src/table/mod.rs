//! Server-side printing: the columns of a resource's table
//! (<https://kubernetes.io/docs/reference/using-api/api-concepts/#receiving-resources-as-tables>).
//!
//! A column is data: a heading and a rule for its cells, read from text. Most rules are a path and a format for its
//! value; the few others have a name, and a function that the kind provides.

mod age;
mod cell;

use std::ops::Range;
use std::time::SystemTime;

use holdfast_value::json::{self, PathSet, PathValue, Selected};
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

/// Paths that the cells of a table read, for rows that are made from the text of an object without its tree.
///
/// ```
/// use std::time::SystemTime;
///
/// use holdfast_resource::table::{Column, ColumnPaths};
/// use holdfast_value::Value;
///
/// let columns = [Column::parse("Name | string:name | 0 | text metadata.name", &[]).unwrap()];
/// let paths = ColumnPaths::new(&columns).unwrap();
/// let mut values = Vec::new();
/// let metadata = paths.read(br#"{"kind":"Pod","metadata":{"name":"a"}}"#, &mut values).unwrap();
/// assert_eq!(metadata, Some(25..37));
/// let cells: Vec<Value> = paths.cells(&columns, &values, SystemTime::now()).collect();
/// assert_eq!(cells, ["a".into()]);
/// ```
#[derive(Clone, Debug)]
pub struct ColumnPaths {
    paths: PathSet,
    /// Numbers of the paths of each column.
    of_columns: Vec<Vec<u16>>,
}

impl ColumnPaths {
    /// Creates the paths of all columns; `None` if a cell reads more than values at paths.
    pub fn new(columns: &[Column]) -> Option<Self> {
        let mut paths = PathSet::default();
        let of_columns = columns.iter().map(|column| column.cell.add_paths(&mut paths));
        Some(Self {
            of_columns: of_columns.collect::<Option<_>>()?,
            paths,
        })
    }

    /// Reads the values of the cells from the JSON of an object and appends them to `values`. Returns the range of the
    /// object's metadata; `None` if the text cannot be read this way, as for [`json::read_paths`].
    pub fn read(&self, text: &[u8], values: &mut Vec<PathValue>) -> Option<Option<Range<usize>>> {
        json::read_paths(text, &self.paths, "metadata", values)
    }

    /// Returns the cells of the object of which these values were read. `columns` are those of [`Self::new`].
    pub fn cells<'r>(
        &'r self,
        columns: &'r [Column],
        values: &'r [PathValue],
        now: SystemTime,
    ) -> impl Iterator<Item = Value> + use<'r> {
        let columns = columns.iter().zip(&self.of_columns);
        columns.map(move |(column, paths)| column.cell.of_values(values, paths, now))
    }
}
