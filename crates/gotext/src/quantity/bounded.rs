//! Bounded quantities: integers that count billionths.

use std::cmp::Ordering;
use std::fmt;

use num_bigint::BigUint;
use smol_str::{SmolStr, format_smolstr};

use super::text::write_decimal;
use super::{BINARY, Format, NANO, Parts, QuantityError, Unit};

/// Amount as an integer of billionths, with the suffix family of its text.
///
/// Equality and order compare the amount only. The text form is the canonical one: the largest suffix that leaves an
/// integer.
///
/// ```
/// use holdfast_gotext::quantity::Quantity;
///
/// let limit = Quantity::parse("1500m").unwrap();
/// let request = Quantity::parse("1").unwrap();
/// assert!(request < limit);
/// assert_eq!(limit.minus(request).to_string(), "500m");
/// assert_eq!((limit.thousandths(), limit.units()), (1500, 2));
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Quantity {
    nanos: i128,
    format: Format,
}

const UNIT: i128 = 1_000_000_000;
/// Largest amount with a binary suffix. Larger amounts are reduced to it.
const MAX_BINARY_NANOS: i128 = i64::MAX as i128 * UNIT;
/// Largest amount. Larger amounts are reduced to it. The reference has no bound, but no real amount reaches this one.
const MAX_NANOS: i128 = 100_000_000_000_000_000_000_000_000_000 * UNIT;

impl Quantity {
    /// Parses a quantity. Digits below a billionth round up, away from zero.
    ///
    /// # Errors
    /// Returns the reference's message.
    pub fn parse(text: &str) -> Result<Self, QuantityError> {
        let parts = Parts::read(text)?;
        let (unit, format) = parts.measured()?;
        Ok(Self::from_parts(&parts, unit, format))
    }

    pub(super) fn from_parts(parts: &Parts<'_>, unit: Unit, format: Format) -> Self {
        let (nanos, most) = match unit {
            Unit::Two(bits) => (binary_nanos(parts, bits), MAX_BINARY_NANOS),
            Unit::Ten(power) => (decimal_nanos(parts, power), MAX_NANOS),
        };
        let nanos = nanos.unwrap_or(most).min(most);
        let is_fraction = format == Format::Binary && nanos < UNIT;
        Self {
            nanos: if parts.negative { -nanos } else { nanos },
            format: if is_fraction { Format::Decimal } else { format },
        }
    }

    /// Returns a quantity of `units` units.
    pub fn from_units(units: i64) -> Self {
        Self {
            nanos: i128::from(units) * UNIT,
            format: Format::Decimal,
        }
    }

    /// Returns the amount minus `other`, in the format of the first.
    #[must_use]
    pub fn minus(self, other: Self) -> Self {
        self.plus(Self {
            nanos: -other.nanos,
            format: other.format,
        })
    }

    /// Returns the amount divided by `other`, or `None` if `other` is zero.
    pub fn ratio(self, other: Self) -> Option<f64> {
        (other.nanos != 0).then(|| self.nanos as f64 / other.nanos as f64)
    }

    /// True if the amount is zero.
    pub fn is_zero(&self) -> bool {
        self.nanos == 0
    }

    /// True if the amount is below zero.
    pub fn is_negative(&self) -> bool {
        self.nanos < 0
    }

    /// True if the amount is above zero.
    pub fn is_positive(&self) -> bool {
        self.nanos > 0
    }

    /// True if the amount is an integer.
    pub fn is_whole(&self) -> bool {
        self.nanos % UNIT == 0
    }

    /// True if the amount is at least `units`.
    pub fn is_at_least(&self, units: i64) -> bool {
        self.nanos >= i128::from(units) * UNIT
    }

    /// Rounds the amount up, away from zero, to whole thousandths.
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

    /// Returns the sum of two amounts, in the format of the first one that is not zero.
    #[must_use]
    pub fn plus(self, other: Self) -> Self {
        Self {
            nanos: self.nanos.saturating_add(other.nanos).clamp(-MAX_NANOS, MAX_NANOS),
            format: if self.is_zero() { other.format } else { self.format },
        }
    }

    /// Returns the amount in thousandths, rounded away from zero.
    pub fn thousandths(&self) -> i64 {
        i64::try_from(self.round_up_to_milli().nanos / (UNIT / 1000)).unwrap_or(i64::MAX)
    }

    /// Returns the amount in units, rounded away from zero.
    pub fn units(&self) -> i64 {
        i64::try_from(self.whole_units()).unwrap_or(i64::MAX)
    }

    /// Returns the amount in units like [`Quantity::units`], without a bound.
    pub fn whole_units(&self) -> i128 {
        let rest = self.nanos % UNIT;
        let away = if rest == 0 { 0 } else { rest.signum() };
        self.nanos / UNIT + away
    }
}

/// Returns the text of a resource amount rounded up to thousandths, as the reference's defaulting does, or `None` if
/// the amount needs no rounding. `text` must come from [`text_of`](super::text_of).
pub fn up_to_thousandths(text: &str) -> Option<SmolStr> {
    let may_be_finer = text.ends_with(['n', 'u']) || text.contains("e-") || text.contains("E-");
    let quantity = may_be_finer.then(|| Quantity::parse(text).ok()).flatten()?;
    let rounded = quantity.round_up_to_milli();
    (rounded != quantity).then(|| format_smolstr!("{rounded}"))
}

/// Returns digits times a power of ten in billionths, rounded up. `None` if the result does not fit 128 bits.
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

/// Returns digits times a power of two in billionths, rounded up. `None` if the result exceeds every binary quantity.
fn binary_nanos(parts: &Parts<'_>, bits: u32) -> Option<i128> {
    /// Digits of the largest 64-bit integer.
    const WHOLE: usize = 19;
    /// Number of fraction digits after which billionths of a power of two are multiples of the last digit.
    const FRACTION: usize = 69;
    /// Number of fraction digits that fit 128 bits when multiplied by any of the powers.
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
    fn text_becomes_canonical() {
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
    fn malformed_text_is_rejected() {
        for text in ["", "x", "1.2.3", "1 Gi", "1Gi ", "1,5", "٣"] {
            assert_eq!(Quantity::parse(text), Err(QuantityError::Form), "{text}");
        }
        for text in ["1Kib", "1mi", "1e", "1EE3", "1ki"] {
            assert!(Quantity::parse(text).is_err(), "{text}");
        }
    }

    #[test]
    fn order_is_by_amount() {
        let parsed = |text| Quantity::parse(text).unwrap();
        assert_eq!(parsed("1000m"), parsed("1"));
        assert!(parsed("1Gi") > parsed("1G"));
        assert!(parsed("-1").is_negative() && !parsed("-1").is_positive());
        assert!(parsed("1500m").units() == 2 && !parsed("1500m").is_whole());
        assert_eq!(parsed("1.0001").round_up_to_milli().to_string(), "1001m");
        for (text, rounded) in [
            ("1n", Some("1m")),
            ("1000001u", Some("1001m")),
            ("1e-9", Some("1e-3")),
            ("5m", None),
            ("1E", None),
        ] {
            assert_eq!(up_to_thousandths(text).as_deref(), rounded, "{text}");
        }
        assert_eq!(parsed("900m").plus(parsed("0.2")).to_string(), "1100m");
        assert_eq!(parsed("0").plus(parsed("1Mi")).to_string(), "1Mi");
        assert_eq!(parsed("2Gi").minus(parsed("1Gi")).to_string(), "1Gi");
        assert_eq!(Quantity::from_units(3), parsed("3000m"));
        assert_eq!(
            (parsed("1").ratio(parsed("100m")), parsed("1").ratio(parsed("0"))),
            (Some(10.0), None)
        );
    }

    #[test]
    fn long_text_is_parsed() {
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
        // Many digits with a negative exponent are a small amount.
        assert_eq!(canonical(&format!("1{}e-45", "0".repeat(45))), "1");
        assert_eq!(canonical(&format!("-1{}e-53", "1".repeat(52))), "-111111112e-9");
    }
}
