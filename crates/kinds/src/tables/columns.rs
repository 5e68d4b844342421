use holdfast_resource::table::{Column, NamedCell};
use smol_str::SmolStr;

use crate::descriptions::unescape;

/// `columns.txt` with the descriptions that the build script looked up: before the columns lie the different descriptions,
/// `= WORDS` with `\` and line breaks escaped, and each column ends in the number of its own.
const TABLE: &str = include_str!(concat!(env!("OUT_DIR"), "/columns.txt"));

/// The columns of the built-in resources, and those that resources have which bring none.
pub struct Columns {
    descriptions: Vec<SmolStr>,
}

impl Columns {
    /// Reads the descriptions; what says the same is kept once.
    pub fn read() -> Self {
        let words = TABLE.lines().filter_map(|line| line.strip_prefix("= "));
        Self {
            descriptions: words.map(|words| unescape(words).into()).collect(),
        }
    }

    /// The columns of a resource by its plural name and the `apiVersion` in which it is listed; `cells` are those that they
    /// name.
    pub fn of(&self, api_version: &str, plural: &str, cells: &[NamedCell]) -> Option<Vec<Column>> {
        let mut lines = TABLE
            .lines()
            .skip_while(|line| line.split_once(' ') != Some((api_version, plural)));
        let columns = lines.by_ref().skip(1).take_while(|line| line.starts_with("  "));
        let columns: Vec<Column> = columns.filter_map(|line| self.column(line, cells)).collect();
        (!columns.is_empty()).then_some(columns)
    }

    /// The columns of resources that are not listed: name and time of creation.
    pub fn defaults(&self) -> Vec<Column> {
        self.of("*", "*", &[]).unwrap_or_default()
    }

    /// The columns of a Scale, whatever it is the Scale of.
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
                // Policies and their bindings bring the same cells.
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
    fn every_line_of_the_table_is_a_column_of_a_resource_and_has_words() {
        let columns = Columns::read();
        let lines = TABLE
            .lines()
            .filter(|line| !line.is_empty() && !line.starts_with(['#', '=']));
        let mut cells: &[NamedCell] = &[];
        for line in lines {
            match (line.strip_prefix("  "), line.split_once(' ')) {
                (Some(line), _) => {
                    let column = columns.column(line, cells).unwrap_or_else(|| panic!("{line}"));
                    // The reference looks for the descriptions of these fields where they are not.
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
    fn a_column_is_described_as_the_field_that_it_shows_or_in_its_own_words() {
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
        // What a field may be set to is a matter of its schema, not of this table.
        assert!(!description("services", "Type").contains("Possible enum"));
    }
}
