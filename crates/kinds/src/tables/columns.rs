use holdfast_resource::table::{Column, NamedCell};
use smol_str::SmolStr;

use crate::descriptions::unescape;

/// `columns.txt` with the descriptions that the build script found. The distinct descriptions precede the columns as
/// `= WORDS` with `\` and line breaks escaped. Each column ends in the number of its description.
const TABLE: &str = include_str!(concat!(env!("OUT_DIR"), "/columns.txt"));

/// Columns of the built-in resources, and the default columns of resources that define none.
pub struct Columns {
    descriptions: Vec<SmolStr>,
}

impl Columns {
    /// Reads the descriptions. Equal descriptions share one allocation.
    pub fn read() -> Self {
        let words = TABLE.lines().filter_map(|line| line.strip_prefix("= "));
        Self {
            descriptions: words.map(|words| unescape(words).into()).collect(),
        }
    }

    /// Returns the columns of a resource by its plural name and the `apiVersion` in which it is listed. `cells` are the
    /// named cells that the columns refer to.
    pub fn of(&self, api_version: &str, plural: &str, cells: &[NamedCell]) -> Option<Vec<Column>> {
        let mut lines = TABLE
            .lines()
            .skip_while(|line| line.split_once(' ') != Some((api_version, plural)));
        let columns = lines.by_ref().skip(1).take_while(|line| line.starts_with("  "));
        let columns: Vec<Column> = columns.filter_map(|line| self.column(line, cells)).collect();
        (!columns.is_empty()).then_some(columns)
    }

    /// Returns the columns of resources without their own: name and creation time.
    ///
    /// upstream: k8s.io/apiserver/pkg/registry/rest#defaultTableConvertor.ConvertToTable
    pub fn defaults(&self) -> Vec<Column> {
        self.of("*", "*", &[]).unwrap_or_default()
    }

    /// Returns the columns of a Scale of any resource.
    pub fn of_scale(&self) -> Vec<Column> {
        self.of("autoscaling/v1", "scale", &[]).unwrap_or_default()
    }

    fn column(&self, line: &str, cells: &[NamedCell]) -> Option<Column> {
        let (column, description) = line.rsplit_once(" | ")?;
        let mut column = Column::parse(column, cells)?;
        column.description = self.descriptions.get(description.parse::<usize>().ok()?)?.clone();
        Some(column)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Config, kind_of};

    fn cells_of(api_version: &str, plural: &str) -> &'static [NamedCell] {
        let group = api_version.rsplit_once('/').map_or("", |(group, _)| group);
        kind_of(group, plural, &Config::default()).map_or(&[], |kind| kind.cells())
    }

    #[test]
    fn every_cell_of_a_kind_is_that_of_a_column() {
        let mut at = (String::new(), String::new());
        let mut used = std::collections::HashSet::new();
        for line in TABLE.lines() {
            match (line.split_once("computed "), line.split_once(' ')) {
                (Some((_, rule)), _) => {
                    let name = rule.split(' ').next().unwrap_or_default();
                    used.insert((at.0.clone(), at.1.clone(), name.to_owned()));
                }
                (None, Some((version, plural))) if !line.starts_with(' ') => at = (version.into(), plural.into()),
                _ => {}
            }
        }
        for (version, plural, _) in &used {
            for (name, _) in cells_of(version, plural) {
                let shown = |plural: &String| used.contains(&(version.clone(), plural.clone(), (*name).to_owned()));
                // Policies and their bindings have the same cells.
                assert!(
                    shown(plural)
                        || shown(&plural.replace("policies", "policybindings"))
                        || shown(&plural.replace("policybindings", "policies")),
                    "{plural}: {name}"
                );
            }
        }
    }

    #[test]
    fn every_table_line_is_a_column_with_description() {
        let columns = Columns::read();
        let lines = TABLE
            .lines()
            .filter(|line| !line.is_empty() && !line.starts_with(['#', '=']));
        let mut cells: &[NamedCell] = &[];
        for line in lines {
            match (line.strip_prefix("  "), line.split_once(' ')) {
                (Some(line), _) => {
                    let column = columns.column(line, cells).unwrap_or_else(|| panic!("{line}"));
                    // The reference looks up the descriptions of these fields in the wrong type.
                    let wordless = ["BinaryVersion", "EmulationVersion", "Handler"]
                        .iter()
                        .any(|name| line.starts_with(name));
                    assert!(wordless || !column.description.is_empty(), "{line}");
                }
                (None, Some((api_version, plural))) => cells = cells_of(api_version, plural),
                (None, None) => panic!("{line}"),
            }
        }
        let names = |version, plural| -> Vec<String> {
            let columns = columns.of(version, plural, &[]).unwrap_or_else(|| columns.defaults());
            columns.iter().map(|column| column.name.to_string()).collect()
        };
        assert_eq!(names("v1", "configmaps"), ["Name", "Data", "Age"]);
        assert_eq!(names("v1", "limitranges"), ["Name", "Created At"]);
    }

    #[test]
    fn column_description_is_that_of_its_field_or_its_own() {
        let columns = Columns::read();
        let description = |plural, name: &str| {
            let columns = columns.of("v1", plural, cells_of("v1", plural)).unwrap();
            let column = columns.into_iter().find(|column| column.name == name).unwrap();
            column.description
        };
        assert!(description("configmaps", "Name").starts_with("Name must be unique within a namespace."));
        assert!(description("configmaps", "Data").starts_with("Data contains the configuration data."));
        assert!(description("configmaps", "Age").contains("\n\nPopulated by the system."));
        assert!(description("pods", "IP").starts_with("podIP address"));
        assert_eq!(description("nodes", "Roles"), "The roles of the node");
        // The possible values of a field belong to its schema, not to this table.
        assert!(!description("services", "Type").contains("Possible enum"));
    }
}
