use holdfast_resource::table::Column;

const TABLE: &str = include_str!("columns.txt");

/// The columns of a resource in a version, by `apiVersion` and plural name.
pub(super) fn columns(api_version: &str, plural: &str) -> Vec<Column> {
    let mut lines = TABLE
        .lines()
        .skip_while(|line| line.split_once(' ') != Some((api_version, plural)));
    let columns = lines.by_ref().skip(1).take_while(|line| line.starts_with("  "));
    let columns: Vec<Column> = columns.filter_map(Column::parse).collect();
    if columns.is_empty() {
        Column::defaults()
    } else {
        columns
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_line_of_the_table_is_a_column_of_a_resource() {
        for line in TABLE.lines().filter(|line| !line.is_empty() && !line.starts_with('#')) {
            match line.strip_prefix("  ") {
                Some(column) => assert!(Column::parse(column).is_some(), "{column}"),
                None => assert!(line.split(' ').count() == 2, "{line}"),
            }
        }
        let names = |version, plural| -> Vec<String> {
            columns(version, plural)
                .iter()
                .map(|column| column.name.to_string())
                .collect()
        };
        assert_eq!(names("v1", "configmaps"), ["Name", "Data", "Age"]);
        assert_eq!(names("v1", "limitranges"), ["Name", "Created At"]);
    }
}
