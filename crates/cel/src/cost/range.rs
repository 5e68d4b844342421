//! Ranges of sizes and costs, and their arithmetic.

/// Range of sizes or costs.
///
/// ```
/// use holdfast_cel::{CostRange, Environment, Type};
///
/// let cost: CostRange = Environment::new().compile("1 + 1 == 2", &[Type::Bool])?.estimate_cost();
/// assert!(cost.min <= cost.max && cost.max < 10);
/// # Ok::<(), holdfast_cel::CompileError>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Range {
    /// Minimum.
    pub min: u64,
    /// Maximum; `u64::MAX` if it is unbounded.
    pub max: u64,
}

impl Range {
    pub(super) const UNKNOWN: Range = Range { min: 0, max: u64::MAX };

    pub(crate) const fn fixed(size: u64) -> Self {
        Self { min: size, max: size }
    }

    pub(super) fn up_to(max: u64) -> Self {
        Self { min: 0, max }
    }

    pub(super) fn plus(self, other: Self) -> Self {
        Self {
            min: self.min.saturating_add(other.min),
            max: self.max.saturating_add(other.max),
        }
    }

    pub(super) fn times(self, other: Self) -> Self {
        Self {
            min: self.min.saturating_mul(other.min),
            max: self.max.saturating_mul(other.max),
        }
    }

    /// Multiplies by `factor` and rounds up.
    pub(super) fn scaled(self, factor: f64) -> Self {
        // A float beyond 64 bits becomes the largest number, as intended.
        let scale = |size: u64| (size as f64 * factor).ceil() as u64;
        Self {
            min: scale(self.min),
            max: scale(self.max),
        }
    }

    pub(super) fn union(self, other: Self) -> Self {
        Self {
            min: self.min.min(other.min),
            max: self.max.max(other.max),
        }
    }
}
