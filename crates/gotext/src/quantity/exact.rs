//! Exact quantities in the two representations of Kubernetes' package `resource`: an integer and a power of ten while
//! 64 bits suffice, and any number of digits beyond. CEL expressions can observe which representation a quantity has.

use std::cmp::Ordering;

use num_bigint::{BigInt, Sign};

use super::{NANO, Parts, QuantityError, Unit};

/// Limits on the digits and the exponent of a quantity's text. The reference has no limits and expands a number to as
/// many digits as its exponent requires.
const MAX_DIGITS: usize = 1_000;
const MAX_EXPONENT: u32 = 2_000;

/// Scale of a billionth; digits below it round up.
const NANO_SCALE: i32 = -(NANO as i32);

/// Quantity with all its digits.
///
/// ```
/// use holdfast_gotext::quantity::ExactQuantity;
///
/// let quantity = ExactQuantity::parse("1Ki").unwrap();
/// assert_eq!(quantity.as_integer(), Some(1024));
/// assert!(quantity.compare(&ExactQuantity::parse("1k").unwrap()).is_gt());
/// ```
#[derive(Debug, Clone)]
pub struct ExactQuantity {
    amount: Amount,
}

#[derive(Debug, Clone)]
enum Amount {
    /// `value * 10^exponent`.
    Short {
        value: i64,
        exponent: i32,
    },
    Long(Decimal),
}

/// `unscaled / 10^scale`.
#[derive(Debug, Clone)]
struct Decimal {
    unscaled: BigInt,
    scale: i32,
}

impl Parts<'_> {
    fn digits(&self) -> String {
        format!("{}{}", self.whole, self.fraction)
    }

    fn signed(&self, magnitude: i64) -> i64 {
        if self.negative { -magnitude } else { magnitude }
    }

    /// Returns the amount in 64 bits if it certainly fits.
    fn short(&self, unit: Unit) -> Option<Amount> {
        if !self.is_short(unit) {
            return None;
        }
        let (suffix, factor) = match unit {
            Unit::Ten(power) => (power, 1),
            Unit::Two(bits) => (0, 1_i64.checked_shl(bits)?),
        };
        let value = self.digits().parse::<i64>().ok()?.checked_mul(factor)?;
        Some(Amount::Short {
            value: self.signed(value),
            exponent: i32::try_from(self.last_power(suffix)).ok()?,
        })
    }

    fn long(&self, unit: Unit) -> Result<Decimal, QuantityError> {
        if self.whole.len() + self.fraction.len() > MAX_DIGITS {
            return Err(QuantityError::Number);
        }
        let unscaled: BigInt = self.digits().parse().map_err(|_| QuantityError::Number)?;
        let scale = self.fraction.len() as i32;
        let magnitude = match unit {
            Unit::Ten(exponent) => Decimal {
                unscaled,
                scale: scale - exponent,
            }
            .rounded_up(),
            Unit::Two(bits) => Decimal {
                unscaled: unscaled << bits,
                scale,
            }
            .rounded_up()
            .at_most(i64::MAX),
        };
        Ok(if self.negative { magnitude.negated() } else { magnitude })
    }
}

impl From<i64> for ExactQuantity {
    fn from(value: i64) -> Self {
        Self {
            amount: Amount::Short { value, exponent: 0 },
        }
    }
}

impl ExactQuantity {
    /// Parses a quantity. Digits below a billionth round away from zero, and amounts above 2^63 - 1 with a binary
    /// suffix become 2^63 - 1.
    ///
    /// # Errors
    /// Returns Kubernetes' message.
    pub fn parse(text: &str) -> Result<Self, QuantityError> {
        let parts = Parts::read(text)?;
        let (unit, _) = parts.measured()?;
        if matches!(unit, Unit::Ten(exponent) if exponent.unsigned_abs() > MAX_EXPONENT) {
            return Err(QuantityError::Suffix);
        }
        let amount = match parts.short(unit) {
            Some(amount) => amount,
            None => Amount::Long(parts.long(unit)?),
        };
        Ok(Self { amount })
    }

    fn decimal(&self) -> Decimal {
        match &self.amount {
            Amount::Short { value, exponent } => Decimal {
                unscaled: BigInt::from(*value),
                scale: -exponent,
            },
            Amount::Long(decimal) => decimal.clone(),
        }
    }

    /// Returns the amount in thousandths, rounded away from zero, like `MilliValue`. On overflow the result is 0 for
    /// the 64-bit representation, and otherwise the lowest 64 bits.
    pub fn thousandths(&self) -> i64 {
        const SCALE: i32 = 3;
        match &self.amount {
            Amount::Short { value, exponent } => match u32::try_from(exponent + SCALE) {
                Ok(up) => scaled(*value, up).unwrap_or_default(),
                Err(_) => {
                    let part = 10_i64
                        .checked_pow((exponent + SCALE).unsigned_abs())
                        .unwrap_or(i64::MAX);
                    let away = if value % part == 0 { 0 } else { value.signum() };
                    value / part + away
                }
            },
            Amount::Long(decimal) => {
                let ten = BigInt::from(10);
                let whole = match u32::try_from(decimal.scale - SCALE) {
                    Err(_) | Ok(0) => &decimal.unscaled * ten.pow((SCALE - decimal.scale).unsigned_abs()),
                    Ok(down) => {
                        let part = ten.pow(down);
                        let rest = &decimal.unscaled % &part;
                        let away = match rest.sign() {
                            Sign::Minus => -1,
                            Sign::NoSign => 0,
                            Sign::Plus => 1,
                        };
                        &decimal.unscaled / part + away
                    }
                };
                let last = whole.iter_u64_digits().next().unwrap_or_default().cast_signed();
                if whole.sign() == Sign::Minus {
                    last.wrapping_neg()
                } else {
                    last
                }
            }
        }
    }

    /// Compares two quantities by amount.
    pub fn compare(&self, other: &Self) -> Ordering {
        match (&self.amount, &other.amount) {
            (
                Amount::Short { value, exponent },
                Amount::Short {
                    value: other,
                    exponent: same,
                },
            ) if exponent == same => value.cmp(other),
            _ => {
                let (a, b) = aligned(self.decimal(), other.decimal());
                a.unscaled.cmp(&b.unscaled)
            }
        }
    }

    /// Returns 1, 0 or -1.
    pub fn sign(&self) -> i64 {
        match &self.amount {
            Amount::Short { value, .. } => value.signum(),
            Amount::Long(decimal) => match decimal.unscaled.sign() {
                Sign::Minus => -1,
                Sign::NoSign => 0,
                Sign::Plus => 1,
            },
        }
    }

    /// Returns the integer if the quantity is represented as one. Returns `None` for a representation with many digits
    /// or with a fraction, even if its value is an integer.
    pub fn as_integer(&self) -> Option<i64> {
        match self.amount {
            Amount::Short { value, exponent } => scaled(value, u32::try_from(exponent).ok()?),
            Amount::Long(_) => None,
        }
    }

    /// Returns the nearest float as the reference computes it.
    pub fn as_float(&self) -> f64 {
        let (base, exponent) = match &self.amount {
            Amount::Short { value, exponent } => (*value as f64, *exponent),
            Amount::Long(decimal) => (
                decimal.unscaled.to_string().parse().unwrap_or(f64::INFINITY),
                -decimal.scale,
            ),
        };
        if exponent == 0 {
            return base;
        }
        // The power is first rounded to a float, then the product.
        base * format!("1e{exponent}").parse::<f64>().unwrap_or(f64::INFINITY)
    }

    /// Returns the sum.
    #[must_use]
    pub fn plus(&self, other: &Self) -> Self {
        let exact = match (&self.amount, &other.amount) {
            (
                Amount::Short { value, exponent },
                Amount::Short {
                    value: more,
                    exponent: of_more,
                },
            ) => add_short(
                Scaled {
                    value: *value,
                    exponent: *exponent,
                },
                Scaled {
                    value: *more,
                    exponent: *of_more,
                },
            ),
            _ => None,
        };
        let amount = exact.unwrap_or_else(|| {
            let (a, b) = aligned(self.decimal(), other.decimal());
            Amount::Long(Decimal {
                unscaled: a.unscaled + b.unscaled,
                scale: a.scale,
            })
        });
        Self { amount }
    }

    /// Returns the difference.
    #[must_use]
    pub fn minus(&self, other: &Self) -> Self {
        let amount = match &other.amount {
            Amount::Short { value, exponent } if *value != i64::MIN => Amount::Short {
                value: -value,
                exponent: *exponent,
            },
            _ => Amount::Long(other.decimal().negated()),
        };
        self.plus(&Self { amount })
    }
}

/// Returns `value * 10^exponent`, or `None` on overflow.
fn scaled(value: i64, exponent: u32) -> Option<i64> {
    if value == 0 {
        return Some(0);
    }
    value.checked_mul(10_i64.checked_pow(exponent)?)
}

/// Summand `value * 10^exponent`.
struct Scaled {
    value: i64,
    exponent: i32,
}

/// Returns the sum with the smaller of both exponents, or `None` if it does not fit 64 bits.
fn add_short(a: Scaled, b: Scaled) -> Option<Amount> {
    let distance = a.exponent.abs_diff(b.exponent);
    let (value, exponent) = match (a.value, b.value) {
        (_, 0) => (a.value, a.exponent),
        (0, _) => (b.value, b.exponent),
        _ if a.exponent >= b.exponent => (scaled(a.value, distance)?.checked_add(b.value)?, b.exponent),
        _ => (scaled(b.value, distance)?.checked_add(a.value)?, a.exponent),
    };
    Some(Amount::Short { value, exponent })
}

/// Brings both numbers to the larger of their scales.
fn aligned(a: Decimal, b: Decimal) -> (Decimal, Decimal) {
    let scale = a.scale.max(b.scale);
    (a.with_scale(scale), b.with_scale(scale))
}

impl Decimal {
    /// Returns the same number with a larger scale.
    fn with_scale(self, scale: i32) -> Self {
        let unscaled = self.unscaled * BigInt::from(10).pow(scale.abs_diff(self.scale));
        Self { unscaled, scale }
    }

    /// Rounds a magnitude up to a billionth.
    fn rounded_up(self) -> Self {
        if self.scale <= NANO_SCALE {
            return self.with_scale(NANO_SCALE);
        }
        let divisor = BigInt::from(10).pow(self.scale.abs_diff(NANO_SCALE));
        let unscaled = (self.unscaled + &divisor - 1) / divisor;
        Self {
            unscaled,
            scale: NANO_SCALE,
        }
    }

    fn at_most(self, most: i64) -> Self {
        let most = Self {
            unscaled: BigInt::from(most),
            scale: 0,
        };
        let (value, bound) = aligned(self.clone(), most.clone());
        if value.unscaled > bound.unscaled { most } else { self }
    }

    fn negated(self) -> Self {
        Self {
            unscaled: -self.unscaled,
            scale: self.scale,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantity_has_reference_representation() {
        for (text, float, integer) in [
            ("1", 1.0, Some(1)),
            ("+5", 5.0, Some(5)),
            ("100m", 0.1, None),
            ("1000m", 1.0, None),
            ("50.3k", 50_300.0, Some(50_300)),
            ("1.0", 1.0, None),
            ("1Ki", 1024.0, Some(1024)),
            ("1.5Gi", 1_610_612_736.0, None),
            ("1e3", 1000.0, Some(1000)),
            ("-2", -2.0, Some(-2)),
            ("0.1n", 1e-9, None),
            (".5", 0.5, None),
            (".", 0.0, Some(0)),
            ("1Ei", 1_152_921_504_606_846_976.0, None),
            ("9223372036854775807", 9_223_372_036_854_775_807.0, None),
            ("1e1000", f64::INFINITY, None),
        ] {
            let read = ExactQuantity::parse(text).map(|read| (read.as_float(), read.as_integer()));
            assert_eq!(read, Ok((float, integer)), "{text}");
        }
    }

    #[test]
    fn thousandths_match_reference() {
        for (text, thousandths) in [
            ("1", 1000),
            ("1.5", 1500),
            ("1n", 1),
            ("-1n", -1),
            ("0", 0),
            ("1Ki", 1_024_000),
            ("1.0000000000000000001", 1001),
            // The amount fits 64 bits, its thousandths do not.
            ("10E", 0),
            ("99999999999999999999", 200_376_420_520_688_664),
        ] {
            let quantity = ExactQuantity::parse(text).unwrap();
            assert_eq!(quantity.thousandths(), thousandths, "{text}");
        }
    }

    #[test]
    fn order_and_sums_are_exact() {
        let read = |text: &str| ExactQuantity::parse(text).unwrap();
        for (a, b, order) in [
            ("1", "1000m", Ordering::Equal),
            ("10Ei", "9223372036854775808", Ordering::Less),
            ("9223372036854775807", "9223372036854775808", Ordering::Less),
            ("1e1000", "1", Ordering::Greater),
            ("-1", "1n", Ordering::Less),
        ] {
            assert_eq!(read(a).compare(&read(b)), order, "{a} {b}");
        }
        assert_eq!(read("1.5").plus(&read("0.5")).as_integer(), None);
        assert_eq!(read("1k").plus(&read("2")).as_integer(), Some(1002));
        assert_eq!(read("3").minus(&ExactQuantity::from(5)).sign(), -1);
        let wide = read("9223372036854775807").plus(&read("9223372036854775808"));
        assert_eq!(wide.as_float(), 18_446_744_073_709_551_616.0);
    }

    #[test]
    fn invalid_quantity_is_rejected() {
        let long = "1".repeat(2_000);
        for (text, why) in [
            ("", QuantityError::Form),
            ("x", QuantityError::Form),
            ("1 ", QuantityError::Form),
            ("1Zi", QuantityError::Form),
            ("--1", QuantityError::Suffix),
            ("1K", QuantityError::Suffix),
            ("1e9999999", QuantityError::Suffix),
            (&long, QuantityError::Number),
        ] {
            assert_eq!(ExactQuantity::parse(text).err(), Some(why), "{text}");
        }
    }
}
