//! Choices that come out the same for the same seed.

/// Choices of one part of a run.
#[derive(Clone, Debug)]
pub(super) struct Random(holdfast_simulation::Random);

impl Random {
    /// Returns the choices of one part of a run: different for each, and the same in each run of the seed.
    pub(super) fn for_part(seed: u64, round: u64, part: u64) -> Self {
        let mix = |random: &mut holdfast_simulation::Random, number: u64| {
            let mixed = random.number() ^ number.wrapping_add(1).wrapping_mul(0xff51_afd7_ed55_8ccd);
            holdfast_simulation::Random::from_seed(mixed)
        };
        let mut of_seed = holdfast_simulation::Random::from_seed(seed);
        let mut of_round = mix(&mut of_seed, round);
        Self(mix(&mut of_round, part))
    }

    /// Returns a number below `end`; 0 if `end` is 0.
    pub(super) fn below(&mut self, end: u64) -> u64 {
        self.0.below(end)
    }

    /// Returns one of these.
    pub(super) fn one_of<'a, T>(&mut self, choices: &'a [T]) -> Option<&'a T> {
        choices.get(self.below(choices.len() as u64) as usize)
    }
}
