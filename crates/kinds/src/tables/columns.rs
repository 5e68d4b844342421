use holdfast_resource::table::Column;
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

    /// The columns of a resource by its plural name and the `apiVersion` in which it is listed.
    pub fn of(&self, api_version: &str, plural: &str) -> Option<Vec<Column>> {
        let mut lines = TABLE
            .lines()
            .skip_while(|line| line.split_once(' ') != Some((api_version, plural)));
        let columns = lines.by_ref().skip(1).take_while(|line| line.starts_with("  "));
        let columns: Vec<Column> = columns.filter_map(|line| self.column(line)).collect();
        (!columns.is_empty()).then_some(columns)
    }

    /// The columns of resources that are not listed: name and time of creation.
    pub fn defaults(&self) -> Vec<Column> {
        self.of("*", "*").unwrap_or_default()
    }

    /// The columns of a Scale, whatever it is the Scale of.
    pub fn of_scale(&self) -> Vec<Column> {
        self.of("autoscaling/v1", "scale").unwrap_or_default()
    }

    fn column(&self, line: &str) -> Option<Column> {
        let (column, description) = line.rsplit_once(" | ")?;
        let mut column = Column::parse(column)?;
        column.description = self.descriptions.get(description.parse::<usize>().ok()?)?.clone();
        Some(column)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_line_of_the_table_is_a_column_of_a_resource_and_has_words() {
        let columns = Columns::read();
        let lines = TABLE
            .lines()
            .filter(|line| !line.is_empty() && !line.starts_with(['#', '=']));
        for line in lines {
            match line.strip_prefix("  ") {
                Some(line) => {
                    let column = columns.column(line).unwrap_or_else(|| panic!("{line}"));
                    assert!(!column.description.is_empty(), "{line}");
                }
                None => assert!(line.split(' ').count() == 2, "{line}"),
            }
        }
        let names = |version, plural| -> Vec<String> {
            let columns = columns.of(version, plural).unwrap_or_else(|| columns.defaults());
            columns.iter().map(|column| column.name.to_string()).collect()
        };
        assert_eq!(names("v1", "configmaps"), ["Name", "Data", "Age"]);
        assert_eq!(names("v1", "limitranges"), ["Name", "Created At"]);
    }

    #[test]
    fn a_column_is_described_as_the_field_that_it_shows_or_in_its_own_words() {
        let columns = Columns::read();
        let description = |plural, name: &str| {
            let columns = columns.of("v1", plural).unwrap();
            let column = columns.into_iter().find(|column| column.name == name).unwrap();
            column.description
        };
        assert!(description("configmaps", "Name").starts_with("Name must be unique within a namespace."));
        assert!(description("configmaps", "Data").starts_with("Data contains the configuration data."));
        assert!(description("configmaps", "Age").contains("\n\nPopulated by the system."));
        assert!(description("pods", "IP").starts_with("podIP address"));
        assert_eq!(description("nodes", "Roles"), "The roles of the node");
        // What a field may be set to is told by its schema, not here.
        assert!(!description("services", "Type").contains("Possible enum"));
    }
}
