//! Quantities such as `100m`, `1.5Gi` and `1e3`, exact to a billionth.

use std::cmp::Ordering;
use std::fmt;

use crate::error::EvaluationError::{self, NoSuchOverload};
use crate::functions::{Cost, Function};
use crate::value::{CelValue, Outcome};

pub(crate) const FUNCTIONS: &[Function] = &[
    Function {
        name: "quantity",
        call: |_, args| {
            let text = args[0].as_str().ok_or(NoSuchOverload)?;
            let quantity = Quantity::parse(text).map_err(EvaluationError::failed)?;
            Ok(CelValue::Quantity(quantity.into()))
        },
        cost: Cost::Traverse,
        signatures: &["(string) quantity"],
    },
    Function {
        name: "isQuantity",
        call: |_, args| {
            Ok(CelValue::Bool(
                Quantity::parse(args[0].as_str().ok_or(NoSuchOverload)?).is_ok(),
            ))
        },
        cost: Cost::Traverse,
        signatures: &["(string) bool"],
    },
    Function {
        name: "sign",
        call: |_, args| Ok(CelValue::Int(quantity(&args[0])?.billionths.signum() as i64)),
        cost: Cost::Fixed(1),
        signatures: &["quantity.() int"],
    },
    Function {
        name: "isInteger",
        call: |_, args| Ok(CelValue::Bool(quantity(&args[0])?.as_integer().is_some())),
        cost: Cost::Fixed(1),
        signatures: &["quantity.() bool"],
    },
    Function {
        name: "asInteger",
        call: |_, args| {
            let whole = quantity(&args[0])?.as_integer();
            whole
                .map(CelValue::Int)
                .ok_or_else(|| EvaluationError::failed("cannot convert value to integer"))
        },
        cost: Cost::Fixed(1),
        signatures: &["quantity.() int"],
    },
    Function {
        name: "asApproximateFloat",
        call: |_, args| Ok(CelValue::Double(quantity(&args[0])?.billionths as f64 / ONE as f64)),
        cost: Cost::Fixed(1),
        signatures: &["quantity.() double"],
    },
    Function {
        name: "isGreaterThan",
        call: |_, args| order(args).map(|order| CelValue::Bool(order == Ordering::Greater)),
        cost: Cost::Fixed(1),
        signatures: &["quantity.(quantity) bool", "semver.(semver) bool"],
    },
    Function {
        name: "isLessThan",
        call: |_, args| order(args).map(|order| CelValue::Bool(order == Ordering::Less)),
        cost: Cost::Fixed(1),
        signatures: &["quantity.(quantity) bool", "semver.(semver) bool"],
    },
    Function {
        name: "compareTo",
        call: |_, args| order(args).map(|order| CelValue::Int(order as i64)),
        cost: Cost::Fixed(1),
        signatures: &["quantity.(quantity) int", "semver.(semver) int"],
    },
    Function {
        name: "add",
        call: |_, args| sum(args, 1),
        cost: Cost::Fixed(1),
        signatures: &["quantity.(quantity) quantity", "quantity.(int) quantity"],
    },
    Function {
        name: "sub",
        call: |_, args| sum(args, -1),
        cost: Cost::Fixed(1),
        signatures: &["quantity.(quantity) quantity", "quantity.(int) quantity"],
    },
];

const ONE: i128 = 1_000_000_000;

/// The largest quantity that can be written: 2^63 - 1.
const MOST: i128 = i64::MAX as i128 * ONE;

/// A quantity.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Quantity {
    billionths: i128,
    /// Written with digits that its suffix does not make whole: not an integer even where the value is one.
    fractional: bool,
}

/// The suffixes: what one unit is, in powers of ten or of two.
const SUFFIXES: [(&str, Unit); 16] = [
    ("n", Unit::Ten(-9)),
    ("u", Unit::Ten(-6)),
    ("m", Unit::Ten(-3)),
    ("", Unit::Ten(0)),
    ("k", Unit::Ten(3)),
    ("M", Unit::Ten(6)),
    ("G", Unit::Ten(9)),
    ("T", Unit::Ten(12)),
    ("P", Unit::Ten(15)),
    ("E", Unit::Ten(18)),
    ("Ki", Unit::Two(10)),
    ("Mi", Unit::Two(20)),
    ("Gi", Unit::Two(30)),
    ("Ti", Unit::Two(40)),
    ("Pi", Unit::Two(50)),
    ("Ei", Unit::Two(60)),
];

#[derive(Debug, Clone, Copy)]
enum Unit {
    Ten(i32),
    Two(u32),
}

const WRONG_FORMAT: &str =
    "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'";
const WRONG_SUFFIX: &str = "unable to parse quantity's suffix";

impl Quantity {
    /// Reads a quantity; digits below a billionth round away from zero, and what is larger than 2^63 - 1 is that.
    ///
    /// # Errors
    /// In the words of Kubernetes.
    pub fn parse(text: &str) -> Result<Self, &'static str> {
        let (negative, rest) = match text.as_bytes().first() {
            Some(b'-') => (true, &text[1..]),
            Some(b'+') => (false, &text[1..]),
            Some(_) => (false, text),
            None => return Err(WRONG_FORMAT),
        };
        let whole_length = rest.bytes().take_while(u8::is_ascii_digit).count();
        let (whole, rest) = rest.split_at(whole_length);
        let (fraction, suffix) = match rest.strip_prefix('.') {
            Some(rest) => rest.split_at(rest.bytes().take_while(u8::is_ascii_digit).count()),
            None => ("", rest),
        };
        if whole.is_empty() && fraction.is_empty() {
            return Err(WRONG_FORMAT);
        }
        let unit = unit(suffix)?;
        let magnitude = scaled(whole, fraction, unit).min(MOST);
        let fractional = match unit {
            Unit::Ten(exponent) => exponent - (fraction.len() as i32) < 0,
            Unit::Two(_) => !fraction.is_empty(),
        };
        Ok(Self {
            billionths: if negative { -magnitude } else { magnitude },
            fractional,
        })
    }

    pub(crate) fn compare(&self, other: &Self) -> Ordering {
        self.billionths.cmp(&other.billionths)
    }

    fn as_integer(&self) -> Option<i64> {
        if self.fractional || self.billionths % ONE != 0 {
            return None;
        }
        i64::try_from(self.billionths / ONE).ok()
    }
}

fn unit(suffix: &str) -> Result<Unit, &'static str> {
    if let Some((_, unit)) = SUFFIXES.iter().find(|(name, _)| *name == suffix) {
        return Ok(*unit);
    }
    let exponent = suffix.strip_prefix(['e', 'E']).ok_or(WRONG_SUFFIX)?;
    let digits = exponent.strip_prefix(['-', '+']).unwrap_or(exponent);
    if digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err(WRONG_SUFFIX);
    }
    exponent.parse().map(Unit::Ten).map_err(|_| WRONG_SUFFIX)
}

/// The magnitude in billionths, rounded up, saturating above what can be held.
fn scaled(whole: &str, fraction: &str, unit: Unit) -> i128 {
    let (base, exponent) = match unit {
        Unit::Ten(exponent) => (1, exponent),
        Unit::Two(bits) => (1_i128 << bits, 0),
    };
    // Where the decimal point stands once the exponent is applied and billionths are counted.
    let point = whole.len() as i64 + i64::from(exponent) + 9;
    let digits = whole
        .bytes()
        .chain(fraction.bytes())
        .map(|byte| i128::from(byte - b'0'));
    let mut value = 0_i128;
    let mut lost = false;
    for (at, digit) in digits.enumerate() {
        if (at as i64) < point {
            value = value.saturating_mul(10).saturating_add(digit);
        } else if base > 1 && (at as i64) < point + 9 {
            // Binary units multiply, so that digits beyond the billionths still count.
            return binary(whole, fraction, base);
        } else {
            lost |= digit != 0;
        }
    }
    let length = (whole.len() + fraction.len()) as i64;
    for _ in 0..(point - length).clamp(0, 60) {
        value = value.saturating_mul(10);
    }
    value.saturating_mul(base).saturating_add(i128::from(lost))
}

fn binary(whole: &str, fraction: &str, base: i128) -> i128 {
    let kept = &fraction[..fraction.len().min(18)];
    let digits: i128 = kept.parse().unwrap_or(0);
    let scale = 10_i128.pow(kept.len() as u32);
    let whole: i128 = whole.parse().unwrap_or(0);
    let part = digits.saturating_mul(base).saturating_mul(ONE);
    let rounded = part / scale + i128::from(part % scale != 0);
    whole.saturating_mul(base).saturating_mul(ONE).saturating_add(rounded)
}

impl fmt::Display for Quantity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let scales = [(ONE, ""), (ONE / 1000, "m"), (1000, "u"), (1, "n")];
        let (scale, suffix) = scales
            .into_iter()
            .find(|(scale, _)| self.billionths % scale == 0)
            .unwrap_or((1, "n"));
        write!(f, "{}{suffix}", self.billionths / scale)
    }
}

fn quantity(value: &CelValue) -> Outcome<&Quantity> {
    match value {
        CelValue::Quantity(quantity) => Ok(quantity),
        _ => Err(NoSuchOverload),
    }
}

fn order(args: &[CelValue]) -> Outcome<Ordering> {
    match args {
        [CelValue::Quantity(a), CelValue::Quantity(b)] => Ok(a.compare(b)),
        [CelValue::Semver(a), CelValue::Semver(b)] => Ok(a.compare(b)),
        _ => Err(NoSuchOverload),
    }
}

fn sum(args: &[CelValue], sign: i128) -> Outcome {
    let a = quantity(&args[0])?;
    let (other, fractional) = match &args[1] {
        CelValue::Quantity(b) => (b.billionths, b.fractional),
        CelValue::Int(number) => (i128::from(*number) * ONE, false),
        _ => return Err(NoSuchOverload),
    };
    Ok(CelValue::Quantity(
        Quantity {
            billionths: a.billionths.saturating_add(sign * other),
            fractional: a.fractional || fractional,
        }
        .into(),
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantities_are_exact_whatever_their_suffix() {
        let cases = [
            ("1", ONE, true),
            ("100m", ONE / 10, false),
            ("50.3k", 50_300 * ONE, true),
            ("1.0", ONE, false),
            ("1Ki", 1024 * ONE, true),
            ("1.5Gi", 3 * (1 << 29) * ONE, false),
            ("1e3", 1000 * ONE, true),
            ("-2", -2 * ONE, true),
            ("0.1n", 1, false),
            ("1.0000000001", ONE + 1, false),
            (".5", ONE / 2, false),
            ("99E", MOST, true),
        ];
        for (text, billionths, integer) in cases {
            let read = Quantity::parse(text).map(|read| (read.billionths, read.as_integer().is_some()));
            assert_eq!(read, Ok((billionths, integer)), "{text}");
        }
    }

    #[test]
    fn what_is_no_quantity_is_told_so() {
        for (text, why) in [
            ("", WRONG_FORMAT),
            ("x", WRONG_FORMAT),
            ("1x", WRONG_SUFFIX),
            ("1 ", WRONG_SUFFIX),
        ] {
            assert_eq!(Quantity::parse(text), Err(why), "{text}");
        }
    }
}
