//! Named formats.

/// A format by name.
#[derive(Debug)]
pub struct Format {
    /// Name in `format.NAME()` and `format.named('NAME')`.
    pub(crate) name: &'static str,
    /// Returns the errors of a text.
    pub(crate) check: fn(&str) -> Vec<String>,
}
