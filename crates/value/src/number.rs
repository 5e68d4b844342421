//! Numbers as Go converts them.

use std::io::Write;

use crate::tree::Value;

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

/// Appends a float like Go's `encoding/json`: the shortest digits that read back the same, with an exponent below 1e-6
/// and from 1e21.
#[expect(clippy::indexing_slicing, reason = "`start` is a length that the text had")]
pub fn write_float(number: f64, out: &mut Vec<u8>) {
    let magnitude = number.abs();
    // Writing to a vector cannot fail.
    if magnitude == 0.0 || (1e-6..1e21).contains(&magnitude) {
        let _ = write!(out, "{number}");
    } else {
        let start = out.len();
        let _ = write!(out, "{number:e}");
        // Go writes a sign in every exponent.
        if let Some(at) = out[start..].iter().position(|byte| *byte == b'e')
            && out.get(start + at + 1) != Some(&b'-')
        {
            out.insert(start + at + 1, b'+');
        }
    }
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
