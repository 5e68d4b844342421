//! Numbers as Go prints them.

/// A float as Go's `%v` and `strconv.FormatFloat(f, 'g', -1, 64)` show it: the shortest digits, with an exponent below
/// 1e-4 and from 1e6.
pub fn general(float: f64) -> String {
    shape(&format!("{float:e}"))
}

/// The same for the nearest 32-bit float, as keys of YAML mappings are printed.
pub fn general_32(float: f64) -> String {
    shape(&format!("{:e}", float as f32))
}

/// Brings the form `-d.ddde-x` into that of Go.
fn shape(scientific: &str) -> String {
    let (sign, magnitude) = match scientific.strip_prefix('-') {
        Some(magnitude) => ("-", magnitude),
        None => ("", scientific),
    };
    let Some((mantissa, exponent)) = magnitude.split_once('e') else {
        return match (magnitude, sign) {
            ("NaN", _) => "NaN".to_owned(),
            (_, "-") => "-Inf".to_owned(),
            _ => "+Inf".to_owned(),
        };
    };
    let exponent: i32 = exponent.parse().unwrap_or_default();
    if !(-4..6).contains(&exponent) {
        let sign_of_exponent = if exponent < 0 { '-' } else { '+' };
        return format!("{sign}{mantissa}e{sign_of_exponent}{:02}", exponent.abs());
    }
    let digits = mantissa.replace('.', "");
    if exponent < 0 {
        let zeros = "0".repeat(exponent.unsigned_abs() as usize - 1);
        return format!("{sign}0.{zeros}{digits}");
    }
    let whole = exponent.unsigned_abs() as usize + 1;
    match digits.len().checked_sub(whole) {
        Some(0) => format!("{sign}{digits}"),
        Some(_) => format!("{sign}{}.{}", &digits[..whole], &digits[whole..]),
        None => format!("{sign}{digits:0<whole$}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn floats_have_gos_general_form() {
        let cases = [
            (0.0, "0"),
            (-0.0, "-0"),
            (1.0, "1"),
            (-1.5, "-1.5"),
            (100000.0, "100000"),
            (123456.75, "123456.75"),
            (1e6, "1e+06"),
            (1234567.0, "1.234567e+06"),
            (9007199254740992.0, "9.007199254740992e+15"),
            (1e21, "1e+21"),
            (1e100, "1e+100"),
            (0.0001, "0.0001"),
            (0.00001, "1e-05"),
            (f64::INFINITY, "+Inf"),
            (f64::NEG_INFINITY, "-Inf"),
            (f64::NAN, "NaN"),
        ];
        for (float, expected) in cases {
            assert_eq!(general(float), expected);
        }
        assert_eq!(general_32(0.1), "0.1");
        assert_eq!(general_32(1.1234567890123), "1.1234568");
    }
}
