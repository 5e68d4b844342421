//! Named formats.

/// A format by name.
///
/// ```
/// use holdfast_cel::{Activation, Budget, CelValue, Environment, Type};
///
/// let environment = Environment::new();
/// let program = environment.compile("format.dns1123Label().validate('Shop').hasValue()", &[Type::Bool])?;
/// let answer = program.evaluate(&Activation::new(&environment), &mut Budget::default())?;
/// // The text has an upper-case letter, so that there are messages.
/// assert_eq!(answer.as_bool(), Some(true));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct Format {
    /// Name in `format.NAME()` and `format.named('NAME')`.
    pub(crate) name: &'static str,
    /// Returns the errors of a text.
    pub(crate) check: fn(&str) -> Vec<String>,
}
