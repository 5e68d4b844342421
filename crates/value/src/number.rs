//! Numbers as Go converts them.

use crate::Value;

/// Converts a float read from YAML. The reference goes through JSON text, in which a whole float below 1e21 has no
/// point and so is read back as an integer.
pub(crate) fn whole_as_integer(float: f64) -> Value {
    // 2^63 and 2^64 are exact as floats, so casts within these limits are lossless.
    if float.fract() == 0.0 {
        if (-9_223_372_036_854_775_808.0..9_223_372_036_854_775_808.0).contains(&float) {
            return Value::Int(float as i64);
        }
        if (9_223_372_036_854_775_808.0..18_446_744_073_709_551_616.0).contains(&float) {
            return Value::from(float as u64);
        }
    }
    Value::Float(float)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whole_floats_become_integers_where_they_fit() {
        assert!(matches!(whole_as_integer(-3.0), Value::Int(-3)));
        assert!(matches!(
            whole_as_integer(1e19),
            Value::UInt(10_000_000_000_000_000_000)
        ));
        assert!(matches!(whole_as_integer(1e20), Value::Float(_)));
        assert!(matches!(whole_as_integer(0.5), Value::Float(_)));
    }
}
