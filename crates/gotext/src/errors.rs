//! Combined texts for several errors.

use std::collections::HashSet;

/// Combines errors like the aggregate of the reference's `errors` package: one error is returned unchanged, several are
/// listed in brackets, and each text appears once.
///
/// ```
/// assert_eq!(holdfast_gotext::errors::aggregate(&["a", "b", "a"]), "[a, b]");
/// ```
pub fn aggregate<T: AsRef<str>>(errors: &[T]) -> String {
    let mut seen = HashSet::with_capacity(errors.len());
    let mut texts: Vec<&str> = errors.iter().map(AsRef::as_ref).collect();
    texts.retain(|text| seen.insert(*text));
    match texts.as_slice() {
        [only] => (*only).to_owned(),
        several => format!("[{}]", several.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn aggregate_lists_each_text_once_in_brackets() {
        assert_eq!(aggregate(&["a"]), "a");
        assert_eq!(aggregate(&["a", "b", "a"]), "[a, b]");
        assert_eq!(aggregate(&["a", "a"]), "a");
    }
}
