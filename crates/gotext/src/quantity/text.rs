//! Text form of quantities.

use std::fmt;

use smol_str::{SmolStr, format_smolstr};

use super::{DECIMAL, Format, NANO, Parts, Quantity, QuantityError, Unit};

/// Returns the text that the reference writes for a quantity. If the reference considers the input canonical, which it
/// decides by the digits only, the input is kept (`ParseQuantity`); otherwise the canonical form is returned
/// (`String`).
///
/// ```
/// use holdfast_gotext::quantity::text_of;
///
/// assert_eq!(text_of("0.5").unwrap(), "500m");
/// assert_eq!(text_of("1024Mi").unwrap(), "1Gi");
/// ```
///
/// # Errors
/// Fails if the text is not a quantity.
pub fn text_of(text: &str) -> Result<SmolStr, QuantityError> {
    if text == "0" {
        return Ok(SmolStr::new_static("0"));
    }
    let parts = Parts::read(text)?;
    let (unit, format) = parts.measured()?;
    if parts.is_short(unit) && looks_canonical(&parts, unit) {
        return Ok(SmolStr::new(text));
    }
    Ok(match unit {
        Unit::Two(_) => format_smolstr!("{}", Quantity::from_parts(&parts, unit, format)),
        Unit::Ten(power) => format_smolstr!("{}", Decimal { parts, power, format }),
    })
}

/// True if the reference considers the text of a 64-bit quantity canonical.
fn looks_canonical(parts: &Parts<'_>, unit: Unit) -> bool {
    let Parts { whole, fraction, .. } = parts;
    match unit {
        Unit::Two(_) => whole.parse::<i64>().is_ok_and(|value| value & 7 != 0),
        Unit::Ten(power) => {
            let mut last = whole.bytes().chain(fraction.bytes()).rev();
            let ends_in_zeros = whole.len() + fraction.len() >= 3 && last.by_ref().take(3).all(|digit| digit == b'0');
            parts.last_power(power) % 3 == 0 && !ends_in_zeros && !whole.starts_with('0')
        }
    }
}

/// Decimal quantity with any number of digits.
struct Decimal<'a> {
    parts: Parts<'a>,
    power: i32,
    format: Format,
}

impl fmt::Display for Decimal<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Parts {
            whole,
            fraction,
            negative,
            ..
        } = self.parts;
        let power = self.parts.last_power(self.power);
        let mut digits = format!("{whole}{fraction}");
        let below = usize::try_from(NANO - power).unwrap_or_default();
        if below > 0 {
            let dropped = digits.split_off(digits.len().saturating_sub(below));
            if dropped.bytes().any(|digit| digit != b'0') {
                count_up(&mut digits);
            }
        }
        write_decimal(f, negative, &digits, power.max(NANO), self.format)
    }
}

/// Adds one to a decimal number.
fn count_up(digits: &mut String) {
    let kept = digits.trim_end_matches('9').len();
    let nines = digits.len() - kept;
    digits.truncate(kept);
    let next = digits.pop().map_or('1', |digit| char::from(digit as u8 + 1));
    digits.push(next);
    digits.extend(std::iter::repeat_n('0', nines));
}

/// Writes `digits` times ten to `power` in the canonical form: the digits without trailing zeros, the zeros that make
/// the exponent a multiple of three, and the suffix of that exponent. Above `E` the reference has no suffix and writes
/// none.
pub(super) fn write_decimal(
    f: &mut fmt::Formatter<'_>,
    is_negative: bool,
    digits: &str,
    power: i64,
    format: Format,
) -> fmt::Result {
    let digits = digits.trim_start_matches('0');
    let mantissa = digits.trim_end_matches('0');
    if mantissa.is_empty() {
        return f.write_str("0");
    }
    let unpadded = power + (digits.len() - mantissa.len()) as i64;
    let padding = ["", "0", "00"]
        .get(unpadded.rem_euclid(3) as usize)
        .copied()
        .unwrap_or_default();
    let exponent = unpadded - padding.len() as i64;
    let sign = if is_negative { "-" } else { "" };
    write!(f, "{sign}{mantissa}{padding}")?;
    match format {
        Format::Exponent if exponent != 0 => write!(f, "e{exponent}"),
        Format::Exponent => Ok(()),
        Format::Decimal | Format::Binary => {
            let suffix = DECIMAL.iter().find(|(_, power)| i64::from(*power) == exponent);
            f.write_str(suffix.map_or("", |(name, _)| name))
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn text_that_looks_canonical_is_kept() {
        for kept in ["0", "+5", "5.", "1e3", "100E", "1Gi", "-1", "500m", "1.500", "05"] {
            assert_eq!(text_of(kept).unwrap(), kept);
        }
        for (text, form) in [
            ("1.5", "1500m"),
            ("1000", "1k"),
            ("8Mi", "8Mi"),
            ("1024Mi", "1Gi"),
            ("0.5", "500m"),
            ("1.0", "1"),
            ("99999999999999999999", "99999999999999999999"),
            ("1e400", "10e399"),
            ("-0.120e402", "-120e399"),
            ("0e400", "0"),
        ] {
            assert_eq!(text_of(text).unwrap(), form);
        }
    }

    #[test]
    fn the_canonical_form_of_a_canonical_form_is_itself() {
        for (text, form) in [
            ("000000000000800000000000000000000000000000E0000009", "800e36"),
            (
                "-11111111111111111111111111111111111111111111111111112e-53",
                "-111111112e-9",
            ),
            ("9999999999999999999e-20", "100e-3"),
            ("99999999999999999999.9999999999", "100E"),
            ("1e4294967299", "1e4294967299"),
            ("12e4294967300", "120e3"),
            ("1000E", "1"),
        ] {
            let canonical = text_of(text).unwrap();
            assert_eq!((text, canonical.as_str()), (text, form));
            assert_eq!(text_of(&canonical).unwrap(), canonical);
        }
    }

    #[test]
    fn a_number_of_many_digits_needs_one() {
        for text in [".e-20", "-e-20", "+.e-10"] {
            assert_eq!(text_of(text), Err(QuantityError::Number), "{text}");
        }
        assert_eq!(text_of("0.e-20").as_deref(), Ok("0"));
    }
}
