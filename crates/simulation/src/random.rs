//! Random choices that follow from a seed.

/// A generator of pseudo-random numbers: SplitMix64, whose numbers depend on the seed only.
#[derive(Clone, Debug)]
pub struct Random(u64);

impl Random {
    /// Creates the generator of a seed.
    pub fn from_seed(seed: u64) -> Self {
        Self(seed)
    }

    /// Returns the next number.
    pub fn number(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// Returns a number below `end`; 0 if `end` is 0.
    pub fn below(&mut self, end: u64) -> u64 {
        ((u128::from(self.number()) * u128::from(end)) >> 64) as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_follow_from_the_seed() {
        let numbers = |seed| {
            let mut random = Random::from_seed(seed);
            [random.number(), random.number(), random.below(10), random.below(0)]
        };
        assert_eq!(numbers(1), numbers(1));
        assert_ne!(numbers(1), numbers(2));
        assert_eq!(numbers(3)[3], 0);
    }

    #[test]
    fn numbers_below_an_end_reach_every_value() {
        let mut random = Random::from_seed(5);
        let mut counts = [0; 6];
        for _ in 0..600 {
            counts[random.below(6) as usize] += 1;
        }
        assert!(counts.iter().all(|count| *count > 50), "{counts:?}");
    }
}
