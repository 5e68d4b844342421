//! Columns of `kubectl get`.

use std::collections::HashMap;

use holdfast_resource::table::{Column, NamedCell};
use smol_str::SmolStr;

use crate::descriptions::unescape;

/// Lines of `columns.toml` with the descriptions that the build script found. The distinct descriptions precede the columns as
/// `= WORDS` with `\` and line breaks escaped. Each column ends in the number of its description.
const TABLE: &str = include_str!(concat!(env!("OUT_DIR"), "/columns.txt"));

/// Columns of the built-in resources, and the default columns of resources that define none.
pub struct Columns {
    descriptions: Vec<SmolStr>,
    /// Text from the first line of each resource on, by the `apiVersion` and the plural name.
    tables: HashMap<(&'static str, &'static str), &'static str>,
}

/// Finds the first line of each resource.
fn tables() -> HashMap<(&'static str, &'static str), &'static str> {
    let mut tables = HashMap::new();
    let mut rest = TABLE;
    while !rest.is_empty() {
        let (line, after) = rest.split_once('\n').unwrap_or((rest, ""));
        if !line.starts_with([' ', '#', '='])
            && let Some(name) = line.split_once(' ')
        {
            tables.entry(name).or_insert(rest);
        }
        rest = after;
    }
    tables
}

impl Columns {
    /// Returns the lines of the table: `apiVersion` and plural name of a resource, then its columns, indented.
    pub fn lines() -> impl Iterator<Item = &'static str> {
        TABLE
            .lines()
            .filter(|line| !line.is_empty() && !line.starts_with(['#', '=']))
    }

    /// Reads the descriptions. Equal descriptions share one allocation.
    pub fn read() -> Self {
        let words = TABLE.lines().filter_map(|line| line.strip_prefix("= "));
        Self {
            descriptions: words.map(|words| unescape(words).into()).collect(),
            tables: tables(),
        }
    }

    /// Returns the columns of a resource by its plural name and the `apiVersion` in which it is listed. `cells` are the
    /// named cells that the columns refer to.
    pub fn for_resource(&self, api_version: &str, plural: &str, cells: &[NamedCell]) -> Option<Vec<Column>> {
        let start = *self.tables.get(&(api_version, plural))?;
        let columns: Vec<Column> = start
            .lines()
            .skip(1)
            .take_while(|line| line.starts_with("  "))
            .filter_map(|line| self.column(line, cells))
            .collect();
        (!columns.is_empty()).then_some(columns)
    }

    /// Returns the columns of resources without their own: name and creation time.
    ///
    /// upstream: k8s.io/apiserver/pkg/registry/rest#defaultTableConvertor.ConvertToTable
    pub fn defaults(&self) -> Vec<Column> {
        self.for_resource("*", "*", &[]).unwrap_or_default()
    }

    /// Returns the columns of a Scale of any resource.
    pub fn of_scale(&self) -> Vec<Column> {
        self.for_resource("autoscaling/v1", "scale", &[]).unwrap_or_default()
    }

    /// Parses a column of [`Columns::lines`].
    pub fn column(&self, line: &str, cells: &[NamedCell]) -> Option<Column> {
        let (column, description) = line.rsplit_once(" | ")?;
        let mut column = Column::parse(column, cells)?;
        column.description = self.descriptions.get(description.parse::<usize>().ok()?)?.clone();
        Some(column)
    }
}
