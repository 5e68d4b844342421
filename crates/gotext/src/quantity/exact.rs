//! Quantities as the package `resource` of Kubernetes holds them: a whole number and a power of ten as long as 64 bits do,
//! and any number of digits beyond. Which of both a quantity is shows in what expressions can ask of it.

use std::cmp::Ordering;

use num_bigint::{BigInt, Sign};

use super::{NANO, Parts, QuantityError, Unit};

/// How many digits a quantity may be written with, and how large its exponent may be. The reference has no bounds and
/// makes numbers of as many digits as an exponent asks for.
const MAX_DIGITS: usize = 1_000;
const MAX_EXPONENT: u32 = 2_000;

/// The scale of a billionth; digits below one round up.
const NANO_SCALE: i32 = -(NANO as i32);

/// A quantity with all its digits.
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

    /// The quantity with 64 bits, where these certainly hold it.
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
    /// Reads a quantity; digits below a billionth round away from zero, and what is larger than 2^63 - 1 in units of powers
    /// of two is that.
    ///
    /// # Errors
    /// In the words of Kubernetes.
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

    /// The amount in thousandths, rounded away from zero, as `MilliValue` counts it: what 64 bits do not hold is 0 where the
    /// quantity is held short, and else its last 64 bits.
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

    /// The order by amount.
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

    /// 1, 0 or -1.
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

    /// The whole number that the quantity is held as. One of many digits or with digits below one is held as none, even
    /// where its value is.
    pub fn as_integer(&self) -> Option<i64> {
        match self.amount {
            Amount::Short { value, exponent } => scaled(value, u32::try_from(exponent).ok()?),
            Amount::Long(_) => None,
        }
    }

    /// The nearest float, as the reference makes it.
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
        // The nearest float of the power itself, of which the product then is one.
        base * format!("1e{exponent}").parse::<f64>().unwrap_or(f64::INFINITY)
    }

    /// The sum.
    #[must_use]
    pub fn plus(&self, other: &Self) -> Self {
        let amount = match (&self.amount, &other.amount) {
            (
                Amount::Short { value, exponent },
                Amount::Short {
                    value: more,
                    exponent: of_more,
                },
            ) => add_short((*value, *exponent), (*more, *of_more)),
            _ => None,
        };
        let amount = amount.unwrap_or_else(|| {
            let (a, b) = aligned(self.decimal(), other.decimal());
            Amount::Long(Decimal {
                unscaled: a.unscaled + b.unscaled,
                scale: a.scale,
            })
        });
        Self { amount }
    }

    /// The difference.
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

/// `value * 10^exponent`, if it fits.
fn scaled(value: i64, exponent: u32) -> Option<i64> {
    if value == 0 {
        return Some(0);
    }
    value.checked_mul(10_i64.checked_pow(exponent)?)
}

/// The sum with the smaller exponent of both, if 64 bits hold it.
fn add_short((a, of_a): (i64, i32), (b, of_b): (i64, i32)) -> Option<Amount> {
    let (value, exponent) = match (a, b) {
        (_, 0) => (a, of_a),
        (0, _) => (b, of_b),
        _ if of_a >= of_b => (scaled(a, of_a.abs_diff(of_b))?.checked_add(b)?, of_b),
        _ => (scaled(b, of_b.abs_diff(of_a))?.checked_add(a)?, of_a),
    };
    Some(Amount::Short { value, exponent })
}

/// Both with the larger scale of the two.
fn aligned(a: Decimal, b: Decimal) -> (Decimal, Decimal) {
    let scale = a.scale.max(b.scale);
    (a.with_scale(scale), b.with_scale(scale))
}

impl Decimal {
    /// The same with more digits.
    fn with_scale(self, scale: i32) -> Self {
        let unscaled = self.unscaled * BigInt::from(10).pow(scale.abs_diff(self.scale));
        Self { unscaled, scale }
    }

    /// A magnitude to a billionth, rounded up.
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
    fn quantities_are_held_as_the_reference_holds_them() {
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
    fn thousandths_are_counted_as_the_reference_counts_them() {
        for (text, thousandths) in [
            ("1", 1000),
            ("1.5", 1500),
            ("1n", 1),
            ("-1n", -1),
            ("0", 0),
            ("1Ki", 1_024_000),
            ("1.0000000000000000001", 1001),
            // 64 bits hold the amount, but not the thousandths.
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
    fn what_is_no_quantity_is_refused() {
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
