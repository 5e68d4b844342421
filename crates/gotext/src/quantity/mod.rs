//! Quantities: amounts with a suffix, such as `500m` and `1Gi`
//! (<https://kubernetes.io/docs/reference/kubernetes-api/common-definitions/quantity/>).
//!
//! All quantity texts are parsed here. There are two forms: [`Quantity`] is small, bounded and `Copy`, for counting and
//! comparing; [`ExactQuantity`] has any number of digits and keeps the reference's representation, for CEL expressions.
//! [`text_of`] returns the text that the reference writes.

mod bounded;
mod exact;
mod text;

pub use bounded::{Quantity, up_to_thousandths};
pub use exact::ExactQuantity;
pub use text::text_of;

/// Parse error with the reference's message.
///
/// ```
/// use holdfast_gotext::quantity::{Quantity, QuantityError};
///
/// let error: QuantityError = Quantity::parse("1 apple").unwrap_err();
/// assert!(!error.to_string().is_empty());
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum QuantityError {
    /// The text is not a number followed by a suffix.
    #[error("quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'")]
    Form,
    /// The suffix is unknown.
    #[error("unable to parse quantity's suffix")]
    Suffix,
    /// The number has no digits, or too many.
    #[error("unable to parse numeric part of quantity")]
    Number,
}

/// Factor of a suffix.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Unit {
    Two(u32),
    Ten(i32),
}

/// Family of suffixes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Format {
    /// Powers of 1000: `m`, `k`, `M`.
    Decimal,
    /// Powers of 1024: `Ki`, `Mi`.
    Binary,
    /// Exponents such as `e3`.
    Exponent,
}

const BINARY: [(&str, u32); 6] = [("Ki", 10), ("Mi", 20), ("Gi", 30), ("Ti", 40), ("Pi", 50), ("Ei", 60)];
const DECIMAL: [(&str, i32); 10] = [
    ("n", -9),
    ("u", -6),
    ("m", -3),
    ("", 0),
    ("k", 3),
    ("M", 6),
    ("G", 9),
    ("T", 12),
    ("P", 15),
    ("E", 18),
];

/// Number of digits that every 64-bit integer can hold.
const INT_DIGITS: usize = 18;
/// Power of ten of the smallest amount; digits below it round up.
const NANO: i64 = -9;

/// Parts of a quantity's text.
struct Parts<'a> {
    negative: bool,
    /// True if there is a digit before the suffix, even a zero.
    has_digits: bool,
    /// Digits before the point without leading zeros; `0` if there are none.
    whole: &'a str,
    /// Digits after the point.
    fraction: &'a str,
    suffix: &'a str,
}

impl<'a> Parts<'a> {
    /// Splits a text like `parseQuantityString`. A number without digits is 0.
    fn read(text: &'a str) -> Result<Self, QuantityError> {
        if text.is_empty() {
            return Err(QuantityError::Form);
        }
        let negative = text.starts_with('-');
        let unsigned = text.strip_prefix(['-', '+']).unwrap_or(text);
        let significant = unsigned.trim_start_matches('0');
        let (whole, rest) = digits(significant);
        let (fraction, suffix) = rest.strip_prefix('.').map_or(("", rest), digits);
        let signed = suffix.trim_start_matches(|letter| "eEinumkKMGTP".contains(letter));
        let exponent = signed.strip_prefix(['-', '+']).unwrap_or(signed);
        if !exponent.bytes().all(|byte| byte.is_ascii_digit()) {
            return Err(QuantityError::Form);
        }
        Ok(Self {
            negative,
            has_digits: significant.len() < unsigned.len() || whole.len() + fraction.len() > 0,
            whole: if whole.is_empty() { "0" } else { whole },
            fraction,
            suffix,
        })
    }

    /// Returns the factor of the suffix and its family. The reference parses an exponent in 64 bits and keeps the
    /// lowest 32.
    fn unit(&self) -> Result<(Unit, Format), QuantityError> {
        if let Some((_, power)) = BINARY.iter().find(|(name, _)| *name == self.suffix) {
            return Ok((Unit::Two(*power), Format::Binary));
        }
        if let Some((_, power)) = DECIMAL.iter().find(|(name, _)| *name == self.suffix) {
            return Ok((Unit::Ten(*power), Format::Decimal));
        }
        let exponent = self.suffix.strip_prefix(['e', 'E']).ok_or(QuantityError::Suffix)?;
        let power: i64 = exponent.parse().map_err(|_| QuantityError::Suffix)?;
        Ok((Unit::Ten(power as i32), Format::Exponent))
    }

    /// Returns the factor of the suffix and its family.
    ///
    /// # Errors
    /// Fails if the suffix is invalid, or if the reference parses the number digit by digit and finds no digit.
    fn measured(&self) -> Result<(Unit, Format), QuantityError> {
        let (unit, format) = self.unit()?;
        if !self.has_digits && !self.is_short(unit) {
            return Err(QuantityError::Number);
        }
        Ok((unit, format))
    }

    /// Returns the power of ten of the last digit, given the power of the suffix.
    fn last_power(&self, suffix: i32) -> i64 {
        i64::from(suffix) - self.fraction.len() as i64
    }

    /// True if the reference represents the quantity in 64 bits.
    fn is_short(&self, unit: Unit) -> bool {
        match unit {
            Unit::Ten(power) => self.whole.len() + self.fraction.len() <= INT_DIGITS && self.last_power(power) >= NANO,
            // The reference counts ten bits as three digits.
            Unit::Two(bits) => self.fraction.is_empty() && self.whole.len() + bits as usize * 3 / 10 <= 14,
        }
    }
}

/// Splits `text` into its leading digits and the rest.
fn digits(text: &str) -> (&str, &str) {
    text.split_at(text.bytes().take_while(u8::is_ascii_digit).count())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_forms_read_the_same_texts() {
        for text in [
            "", "x", "1 ", "1Zi", "--1", "1K", "1e", "1EE3", "1.2.3", "٣", ".", "-", "Gi", "1.Gi", "1e3", "+.5m", "0x",
            ".e-20", "0.e-20",
        ] {
            let (bounded, exact) = (Quantity::parse(text), ExactQuantity::parse(text));
            assert_eq!(bounded.err(), exact.as_ref().err().copied(), "{text}");
            if let (Ok(bounded), Ok(exact)) = (bounded, exact) {
                let sign = i64::from(bounded.is_positive()) - i64::from(bounded.is_negative());
                assert_eq!(sign, exact.sign(), "{text}");
            }
        }
    }

    #[test]
    fn a_number_without_digits_is_zero() {
        for text in ["-", "+", ".", "Gi", "-.m"] {
            assert_eq!(text_of(text).as_deref(), Ok("0"), "{text}");
        }
    }
}
