//! Limits of the reference on expressions, in its units of cost.

/// Maximum size of a request in bytes, from which unbounded sizes are estimated.
pub const MAX_REQUEST_SIZE: u64 = 3 * 1024 * 1024;

/// Maximum cost of one evaluation of one expression.
pub const PER_CALL: u64 = 1_000_000;

/// Maximum cost per request of all rules of a custom resource, or all expressions of a policy.
pub const PER_REQUEST: u64 = 10_000_000;

/// Maximum cost per request of all match conditions of one webhook or policy.
pub const MATCH_CONDITIONS: u64 = 2_500_000;

/// Maximum estimated cost of one rule of a CRD, summed over all its occurrences in an object.
pub const ESTIMATED_RULE: u64 = 10_000_000;

/// Maximum estimated cost of all rules of a version of a CRD.
pub const ESTIMATED_SCHEMA: u64 = 100_000_000;

/// Returns the factor by which `cost` exceeds `limit` as the reference formats it: `40.5x`, or `more than 100x`. `None`
/// within the limit.
///
/// ```
/// assert_eq!(holdfast_cel::limits::excess(30, 10).as_deref(), Some("3.0x"));
/// ```
pub fn excess(cost: u64, limit: u64) -> Option<String> {
    if cost <= limit {
        return None;
    }
    let factor = cost as f64 / limit as f64;
    Some(if factor > 100.0 {
        "more than 100x".to_owned()
    } else if factor < 1.5 {
        // A rounded value could read as if the limit were not exceeded.
        format!("{factor:.6}x")
    } else {
        format!("{factor:.1}x")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn excess_is_formatted_as_factor_up_to_hundred() {
        assert_eq!(excess(10_000_000, ESTIMATED_RULE), None);
        assert_eq!(excess(10_400_000, ESTIMATED_RULE).as_deref(), Some("1.040000x"));
        assert_eq!(excess(405_006_003, ESTIMATED_RULE).as_deref(), Some("40.5x"));
        assert_eq!(excess(u64::MAX, ESTIMATED_RULE).as_deref(), Some("more than 100x"));
    }
}
