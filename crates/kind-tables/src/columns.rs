//! Columns of `kubectl get`.

use holdfast_resource::table::{Column, NamedCell};
use smol_str::SmolStr;

use crate::descriptions::unescape;

/// Lines of `columns.toml` with the descriptions that the build script found. The distinct descriptions precede the columns as
/// `= WORDS` with `\` and line breaks escaped. Each column ends in the number of its description.
const TABLE: &str = include_str!(concat!(env!("OUT_DIR"), "/columns.txt"));

/// Columns of the built-in resources, and the default columns of resources that define none.
pub struct Columns {
    descriptions: Vec<SmolStr>,
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
        }
    }

    /// Returns the columns of a resource by its plural name and the `apiVersion` in which it is listed. `cells` are the
    /// named cells that the columns refer to.
    pub fn for_resource(&self, api_version: &str, plural: &str, cells: &[NamedCell]) -> Option<Vec<Column>> {
        let mut lines = TABLE
            .lines()
            .skip_while(|line| line.split_once(' ') != Some((api_version, plural)));
        let columns: Vec<Column> = lines
            .by_ref()
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
