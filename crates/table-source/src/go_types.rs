//! Go names of the types of fields.

use crate::source::{Source, in_order};

/// Returns a line for each field: `core.v1.Container.imagePullPolicy v1.PullPolicy`.
///
/// # Errors
/// If a value is no text, with file and line.
pub fn go_type_lines(source: &Source) -> Result<String, String> {
    let mut lines = String::new();
    let table = source.parse()?;
    for (of, _, fields) in in_order(&table) {
        for (field, _, name) in in_order(source.table(fields)?) {
            lines.extend([of, ".", field, " ", source.text(name)?, "\n"]);
        }
    }
    Ok(lines)
}
