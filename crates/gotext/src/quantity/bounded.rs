//! Quantities as whole numbers of billionths, with a bound.

use std::cmp::Ordering;
use std::fmt;

use num_bigint::BigUint;
use smol_str::{SmolStr, format_smolstr};

use super::text::write_decimal;
use super::{BINARY, Format, NANO, Parts, QuantityError, Unit};

/// An amount as a whole number of billionths, and the family of suffixes that it was written in.
///
/// Equality and order are by amount alone. The text form is the canonical one: the largest suffix that leaves a whole
/// number.
#[derive(Clone, Copy, Debug)]
pub struct Quantity {
    nanos: i128,
    format: Format,
}

const UNIT: i128 = 1_000_000_000;
/// The largest amount in powers of two; what is above is cut down to it.
const MOST_BINARY: i128 = i64::MAX as i128 * UNIT;
/// The largest amount of all; what is above is cut down to it. The reference has no bound, but nothing that counts either.
const MOST: i128 = 100_000_000_000_000_000_000_000_000_000 * UNIT;

impl Quantity {
    /// Reads a quantity. What is finer than billionths is rounded up, away from zero.
    ///
    /// # Errors
    /// In the words of the reference.
    pub fn parse(text: &str) -> Result<Self, QuantityError> {
        let parts = Parts::read(text)?;
        let (unit, format) = parts.measured()?;
        Ok(Self::of_parts(&parts, unit, format))
    }

    pub(super) fn of_parts(parts: &Parts<'_>, unit: Unit, format: Format) -> Self {
        let (nanos, most) = match unit {
            Unit::Two(bits) => (binary_nanos(parts, bits), MOST_BINARY),
            Unit::Ten(power) => (decimal_nanos(parts, power), MOST),
        };
        let nanos = nanos.unwrap_or(most).min(most);
        let is_fraction = format == Format::Binary && nanos < UNIT;
        Self {
            nanos: if parts.negative { -nanos } else { nanos },
            format: if is_fraction { Format::Decimal } else { format },
        }
    }

    /// So many units.
    pub fn of_units(units: i64) -> Self {
        Self {
            nanos: i128::from(units) * UNIT,
            format: Format::Decimal,
        }
    }

    /// How much of the amount is left without `other`, written as the first.
    #[must_use]
    pub fn minus(self, other: Self) -> Self {
        self.plus(Self {
            nanos: -other.nanos,
            format: other.format,
        })
    }

    /// How often `other` goes into the amount; `None` where `other` is nothing.
    pub fn ratio(self, other: Self) -> Option<f64> {
        (other.nanos != 0).then(|| self.nanos as f64 / other.nanos as f64)
    }

    /// Whether the amount is nothing.
    pub fn is_zero(&self) -> bool {
        self.nanos == 0
    }

    /// Whether the amount is below zero.
    pub fn is_negative(&self) -> bool {
        self.nanos < 0
    }

    /// Whether the amount is above zero.
    pub fn is_positive(&self) -> bool {
        self.nanos > 0
    }

    /// Whether the amount is a whole number.
    pub fn is_whole(&self) -> bool {
        self.nanos % UNIT == 0
    }

    /// Whether the amount is `units` or more.
    pub fn is_at_least(&self, units: i64) -> bool {
        self.nanos >= i128::from(units) * UNIT
    }

    /// The amount rounded up, away from zero, to whole thousandths.
    #[must_use]
    pub fn round_up_to_milli(self) -> Self {
        const MILLI: i128 = UNIT / 1000;
        let rest = self.nanos % MILLI;
        let step = if rest == 0 { 0 } else { MILLI * rest.signum() };
        Self {
            nanos: self.nanos - rest + step,
            format: self.format,
        }
    }

    /// The sum of two amounts, written as the first that is not nothing.
    #[must_use]
    pub fn plus(self, other: Self) -> Self {
        Self {
            nanos: self.nanos.saturating_add(other.nanos).clamp(-MOST, MOST),
            format: if self.is_zero() { other.format } else { self.format },
        }
    }

    /// The whole number of thousandths at or above the amount (below, if it is negative).
    pub fn thousandths(&self) -> i64 {
        i64::try_from(self.round_up_to_milli().nanos / (UNIT / 1000)).unwrap_or(i64::MAX)
    }

    /// The whole number of units at or above the amount (below, if it is negative).
    pub fn units(&self) -> i64 {
        i64::try_from(self.whole_units()).unwrap_or(i64::MAX)
    }

    /// As [`Quantity::units`], without a bound.
    pub fn whole_units(&self) -> i128 {
        let rest = self.nanos % UNIT;
        let away = if rest == 0 { 0 } else { rest.signum() };
        self.nanos / UNIT + away
    }
}

/// The text of an amount of resources that counts less than thousandths, rounded up to these as the reference's defaults do;
/// `None` for any other. `text` is the text of a quantity as [`text_of`](super::text_of) gives it.
pub fn up_to_thousandths(text: &str) -> Option<SmolStr> {
    let may_be_finer = text.ends_with(['n', 'u']) || text.contains("e-") || text.contains("E-");
    let quantity = may_be_finer.then(|| Quantity::parse(text).ok()).flatten()?;
    let rounded = quantity.round_up_to_milli();
    (rounded != quantity).then(|| format_smolstr!("{rounded}"))
}

/// Billionths of the digits times a power of ten, rounded up. `None` where 128 bits do not hold them.
fn decimal_nanos(parts: &Parts<'_>, power: i32) -> Option<i128> {
    const FULL: i128 = i128::MAX / 10 - 1;
    let Parts { whole, fraction, .. } = parts;
    let shift = parts.last_power(power) - NANO;
    let count = whole.len() + fraction.len();
    let below = usize::try_from(-shift).unwrap_or_default().min(count);
    let mut digits = whole.bytes().chain(fraction.bytes());
    let mut nanos: i128 = 0;
    for digit in digits.by_ref().take(count - below) {
        if nanos > FULL {
            return None;
        }
        nanos = nanos * 10 + i128::from(digit - b'0');
    }
    if digits.any(|digit| digit != b'0') {
        nanos += 1;
    }
    if nanos == 0 || shift <= 0 {
        return Some(nanos);
    }
    nanos.checked_mul(10i128.checked_pow(u32::try_from(shift).ok()?)?)
}

/// Billionths of the digits times a power of two, rounded up. `None` where they are more than any binary quantity has.
fn binary_nanos(parts: &Parts<'_>, bits: u32) -> Option<i128> {
    /// The digits of the largest whole number of 64 bits.
    const WHOLE: usize = 19;
    /// After so many digits of a fraction, billionths of a power of two are whole numbers of the last one.
    const FRACTION: usize = 69;
    /// Fractions of so many digits, times any of the powers, fit into 128 bits.
    const SHORT: usize = 9;
    let Parts { whole, fraction, .. } = parts;
    if whole.len() > WHOLE {
        return None;
    }
    let (kept, dropped) = fraction.split_at(fraction.len().min(FRACTION));
    if kept.len() <= SHORT {
        return decimal_nanos(parts, 0)?.checked_mul(1 << bits);
    }
    let scaled: BigUint = format!("{whole}{kept}").parse().ok()?;
    let divisor = BigUint::from(10u8).pow(kept.len() as u32 - NANO.unsigned_abs() as u32);
    let scaled = scaled << bits;
    let is_exact = (&scaled % &divisor) == BigUint::ZERO && dropped.bytes().all(|digit| digit == b'0');
    i128::try_from(scaled / divisor + u8::from(!is_exact)).ok()
}

impl fmt::Display for Quantity {
    #[expect(clippy::indexing_slicing, reason = "a step below the number of suffixes")]
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.nanos == 0 {
            return f.write_str("0");
        }
        if self.format == Format::Binary && self.is_whole() && self.nanos.abs() >= 1024 * UNIT {
            let mut units = self.nanos / UNIT;
            let mut step = 0;
            while units % 1024 == 0 && step < BINARY.len() {
                units /= 1024;
                step += 1;
            }
            let suffix = step.checked_sub(1).map_or("", |at| BINARY[at].0);
            return write!(f, "{units}{suffix}");
        }
        write_decimal(
            f,
            self.nanos < 0,
            &self.nanos.unsigned_abs().to_string(),
            NANO,
            self.format,
        )
    }
}

impl PartialEq for Quantity {
    fn eq(&self, other: &Self) -> bool {
        self.nanos == other.nanos
    }
}

impl Eq for Quantity {}

impl PartialOrd for Quantity {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Quantity {
    fn cmp(&self, other: &Self) -> Ordering {
        self.nanos.cmp(&other.nanos)
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn canonical(text: &str) -> String {
        Quantity::parse(text).unwrap().to_string()
    }

    #[test]
    fn text_is_brought_into_canonical_form() {
        for (text, form) in [
            ("0", "0"),
            ("1000m", "1"),
            ("1500m", "1500m"),
            ("0.5", "500m"),
            (".5", "500m"),
            ("1.", "1"),
            ("100", "100"),
            ("1000", "1k"),
            ("1024Mi", "1Gi"),
            ("1.5Gi", "1536Mi"),
            ("512", "512"),
            ("1Ki", "1Ki"),
            ("0.5Ki", "512"),
            ("0.001Ki", "1024m"),
            ("-1", "-1"),
            ("+1", "1"),
            ("1e3", "1e3"),
            ("1E3", "1e3"),
            ("12e-3", "12e-3"),
            ("1.1n", "2n"),
            ("0.0000000001", "1n"),
            ("9223372036854775808", "9223372036854775808"),
            ("16Ei", "9223372036854775807"),
            ("1Ei", "1Ei"),
            ("0.0000000000000000000001E", "100u"),
            ("0.00000000000000000001Ei", "11529216n"),
            (
                "0.5000000000000000000000000000000000000000000000000000000000000000000001Ki",
                "512000000001n",
            ),
            ("1.0625Ki", "1088"),
            ("8.5Ei", "9223372036854775807"),
            ("1000E", "1"),
        ] {
            assert_eq!(canonical(text), form, "{text}");
        }
    }

    #[test]
    fn malformed_text_is_refused() {
        for text in ["", "x", "1.2.3", "1 Gi", "1Gi ", "1,5", "٣"] {
            assert_eq!(Quantity::parse(text), Err(QuantityError::Form), "{text}");
        }
        for text in ["1Kib", "1mi", "1e", "1EE3", "1ki"] {
            assert!(Quantity::parse(text).is_err(), "{text}");
        }
    }

    #[test]
    fn order_is_by_amount() {
        let of = |text| Quantity::parse(text).unwrap();
        assert_eq!(of("1000m"), of("1"));
        assert!(of("1Gi") > of("1G"));
        assert!(of("-1").is_negative() && !of("-1").is_positive());
        assert!(of("1500m").units() == 2 && !of("1500m").is_whole());
        assert_eq!(of("1.0001").round_up_to_milli().to_string(), "1001m");
        for (text, rounded) in [
            ("1n", Some("1m")),
            ("1000001u", Some("1001m")),
            ("1e-9", Some("1e-3")),
            ("5m", None),
            ("1E", None),
        ] {
            assert_eq!(up_to_thousandths(text).as_deref(), rounded, "{text}");
        }
        assert_eq!(of("900m").plus(of("0.2")).to_string(), "1100m");
        assert_eq!(of("0").plus(of("1Mi")).to_string(), "1Mi");
        assert_eq!(of("2Gi").minus(of("1Gi")).to_string(), "1Gi");
        assert_eq!(Quantity::of_units(3), of("3000m"));
        assert_eq!((of("1").ratio(of("100m")), of("1").ratio(of("0"))), (Some(10.0), None));
    }

    #[test]
    fn no_text_is_too_long() {
        let long = "9".repeat(500);
        for text in [
            long.clone(),
            format!("{long}E"),
            format!("0.{long}"),
            format!("1e{long}"),
            format!("{long}n"),
        ] {
            let _ = Quantity::parse(&text).map(|quantity| quantity.to_string());
        }
        assert_eq!(canonical("1e2000000000"), "100e27");
        // Many digits with an exponent below zero are a small amount.
        assert_eq!(canonical(&format!("1{}e-45", "0".repeat(45))), "1");
        assert_eq!(canonical(&format!("-1{}e-53", "1".repeat(52))), "-111111112e-9");
    }
}
