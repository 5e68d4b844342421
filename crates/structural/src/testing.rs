//! Helpers of the tests.

use holdfast_schema::types::TypeTable;

/// Returns the table of the built-in types.
pub(crate) fn builtin() -> TypeTable {
    TypeTable::parse(include_str!("../../kind-tables/tables/types.txt")).unwrap()
}
