//! Helpers of the tests.

use holdfast_schema::types::TypeTable;
use holdfast_table_source::{Source, type_lines};

/// Returns the table of the built-in types.
pub(crate) fn builtin() -> TypeTable {
    let text = include_str!("../../kind-tables/tables/types.toml");
    TypeTable::parse(&type_lines(&Source::new("types.toml", text)).unwrap()).unwrap()
}
