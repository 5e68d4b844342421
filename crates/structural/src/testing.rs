//! Helpers of the tests.

use holdfast_schema::RuleNames;
use holdfast_schema::types::TypeTable;

/// Returns the table of the built-in types.
pub(crate) fn builtin() -> TypeTable {
    let text = include_str!("../../kind-tables/tables/types.txt");
    TypeTable::parse_with_rules(text, &RuleNames::Any).unwrap()
}
