//! Several errors in one text.

use std::collections::HashSet;

/// What the aggregate of the reference's `errors` package says of these errors: one as it is, several in brackets, each text
/// once.
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
    fn each_text_stands_once_and_several_stand_in_brackets() {
        assert_eq!(aggregate(&["a"]), "a");
        assert_eq!(aggregate(&["a", "b", "a"]), "[a, b]");
        assert_eq!(aggregate(&["a", "a"]), "a");
    }
}
