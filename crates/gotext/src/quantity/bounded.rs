//! Quantities as whole numbers of billionths, with a bound.

use std::cmp::Ordering;
use std::fmt;

use smol_str::{SmolStr, format_smolstr};

use super::{BINARY, DECIMAL, Format, Parts, QuantityError, Unit};

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
/// As many digits as are sure to fit.
const DIGITS: usize = 36;

impl Quantity {
    /// Reads a quantity. What is finer than billionths is rounded up, away from zero.
    ///
    /// # Errors
    /// In the words of the reference.
    pub fn parse(text: &str) -> Result<Self, QuantityError> {
        let parts = Parts::read(text)?;
        let (unit, mut format) = parts.unit()?;
        let (negative, whole) = (parts.negative, parts.whole.trim_start_matches('0'));
        let fraction = parts.fraction.trim_end_matches('0');
        let most = if format == Format::Binary { MOST_BINARY } else { MOST };
        let nanos = scale(whole, fraction, unit).unwrap_or(most).min(most);
        if format == Format::Binary && nanos < UNIT {
            format = Format::Decimal;
        }
        Ok(Self {
            nanos: if negative { -nanos } else { nanos },
            format,
        })
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

    /// Whether the amount is a whole number that can be counted in thousandths of 64 bits, as the reference counts.
    pub fn is_countable(&self) -> bool {
        self.is_whole() && self.nanos.abs() < i128::from(i64::MAX) * (UNIT / 1000)
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
/// `None` for any other. `text` is the text of a quantity as [`text_of`] gives it.
pub fn up_to_thousandths(text: &str) -> Option<SmolStr> {
    let may_be_finer = text.ends_with(['n', 'u']) || text.contains("e-") || text.contains("E-");
    let quantity = may_be_finer.then(|| Quantity::parse(text).ok()).flatten()?;
    let rounded = quantity.round_up_to_milli();
    (rounded != quantity).then(|| format_smolstr!("{rounded}"))
}

/// The text of a quantity as the reference writes it: as it came where it takes that for the canonical form, which it judges
/// by the digits alone, and else the canonical form. `ParseQuantity` keeps the one and `String` makes the other.
///
/// # Errors
/// When the text is no quantity.
pub fn text_of(text: &str) -> Result<SmolStr, QuantityError> {
    let quantity = Quantity::parse(text)?;
    Ok(if keeps_text(text) {
        SmolStr::new(text)
    } else {
        beyond_bounds(text).unwrap_or_else(|| format_smolstr!("{quantity}"))
    })
}

/// The canonical text of an amount with an exponent that is too large for [`Quantity`]: its digits without zeros at the end, as
/// many zeros as the exponent needs to be a multiple of three, and the exponent.
fn beyond_bounds(text: &str) -> Option<SmolStr> {
    let parts = Parts::read(text).ok()?;
    let (Unit::Ten(exponent), Format::Exponent) = parts.unit().ok()? else {
        return None;
    };
    let Parts { whole, fraction, .. } = parts;
    let sign = if parts.negative { "-" } else { "" };
    let digits = format!("{whole}{fraction}");
    let mantissa = digits.trim_matches('0');
    let leading = digits.len() - digits.trim_start_matches('0').len();
    let trailing = digits.len() - leading - mantissa.len();
    let exponent = i64::from(exponent) + trailing as i64 - fraction.len() as i64;
    let is_beyond = !mantissa.is_empty() && exponent + mantissa.len() as i64 > 29;
    let zeros = exponent.rem_euclid(3);
    let (padding, exponent) = (&"00"[..zeros as usize], exponent - zeros);
    is_beyond.then(|| format_smolstr!("{sign}{mantissa}{padding}e{exponent}"))
}

/// Whether the reference takes the text of a quantity for its canonical form.
fn keeps_text(text: &str) -> bool {
    const DIGITS_AT_ONCE: usize = 18;
    const BINARY_DIGITS: usize = 14;
    if text == "0" {
        return true;
    }
    let Ok(parts) = Parts::read(text) else { return false };
    let Parts { whole, fraction, .. } = parts;
    match parts.unit() {
        Ok((Unit::Two(power), _)) => {
            let fits = whole.len() + power as usize * 3 / 10 <= BINARY_DIGITS;
            fraction.is_empty() && fits && whole.parse::<i64>().is_ok_and(|value| value & 7 != 0)
        }
        Ok((Unit::Ten(power), _)) => {
            let scale = i64::from(power) - fraction.len() as i64;
            let last_three = || whole.bytes().chain(fraction.bytes()).rev().take(3);
            whole.len() + fraction.len() <= DIGITS_AT_ONCE
                && scale >= -9
                && scale % 3 == 0
                && !(last_three().count() == 3 && last_three().all(|digit| digit == b'0'))
                && !whole.starts_with('0')
        }
        Err(_) => false,
    }
}

/// `whole.fraction` times the unit, in billionths, rounded up. `None` if it does not fit.
fn scale(whole: &str, fraction: &str, unit: Unit) -> Option<i128> {
    if whole.len() > DIGITS {
        let Unit::Ten(ten @ ..0) = unit else {
            return None;
        };
        // An exponent below zero moves the point into the digits.
        let moved = whole.len().min(ten.unsigned_abs() as usize);
        let digits = format!("{whole}{fraction}");
        let (whole, fraction) = digits.split_at(whole.len() - moved);
        let fraction = fraction.trim_end_matches('0');
        return scale(whole, fraction, Unit::Ten(ten + moved as i32));
    }
    // Digits that do not fit can only make the last one round up.
    let kept = fraction.len().min(DIGITS - whole.len()).min(15);
    let (fraction, dropped) = fraction.split_at(kept);
    let mut value: i128 = 0;
    for digit in whole.bytes().chain(fraction.bytes()) {
        value = value * 10 + i128::from(digit - b'0');
    }
    let mut power = 9 - fraction.len() as i32;
    match unit {
        Unit::Two(two) => value = value.checked_mul(1 << two)?,
        Unit::Ten(ten) => power = power.saturating_add(ten),
    }
    if value == 0 && dropped.is_empty() {
        return Some(0);
    }
    if power >= 0 {
        return value.checked_mul(10i128.checked_pow(power.unsigned_abs())?);
    }
    let Some(divisor) = 10i128.checked_pow(power.unsigned_abs()) else {
        return Some(1);
    };
    let exact = value % divisor == 0 && dropped.is_empty();
    Some(value / divisor + i128::from(!exact))
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
        let mut amount = self.nanos;
        let mut exponent = -9;
        while amount % 1000 == 0 && exponent < 18 {
            amount /= 1000;
            exponent += 3;
        }
        if self.format == Format::Exponent {
            return match exponent {
                0 => write!(f, "{amount}"),
                _ => write!(f, "{amount}e{exponent}"),
            };
        }
        let suffix = DECIMAL.iter().find(|(_, power)| *power == exponent);
        write!(f, "{amount}{}", suffix.map_or("", |(name, _)| name))
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
        assert_eq!(canonical("1e2000000000"), "100000000000e18");
        // Many digits with an exponent below zero are a small amount.
        assert_eq!(canonical(&format!("1{}e-45", "0".repeat(45))), "1");
        assert_eq!(canonical(&format!("-1{}e-53", "1".repeat(52))), "-111111112e-9");
        let own = text_of("-11111111111111111111111111111111111111111111111111112e-53").unwrap();
        assert_eq!(text_of(&own).unwrap(), own);
    }
}
