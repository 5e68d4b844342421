//! Draws sequences, and shrinks those that make a difference.

use std::cell::RefCell;
use std::collections::HashSet;

use anyhow::{Result, bail};
use proptest::collection::vec;
use proptest::prelude::any;
use proptest::strategy::Strategy;
use proptest::test_runner::{Config, RngAlgorithm, TestCaseError, TestError, TestRng, TestRunner};

use super::answers::Difference;

/// Choices of each step, which determine a sequence.
pub(super) type Draws = Vec<Vec<u32>>;

/// Maximum number of shorter sequences that are tried for one that shows a difference.
const SHRINKS: u32 = 400;
/// Maximum number of choices of a step.
const CHOICES: usize = 32;
/// Maximum number of steps of a sequence.
const STEPS: usize = 5;

/// Plays `cases` sequences. Each difference is shrunk and reported once: differences at the same path of a response to
/// the same verb are the same.
///
/// # Errors
/// If `play` fails.
pub(super) fn search(
    seed: u64,
    cases: u64,
    play: impl FnMut(u64, &Draws) -> Result<Option<Difference>>,
) -> Result<Vec<((u64, Draws), Difference)>> {
    let play = RefCell::new(play);
    let mut known = HashSet::new();
    let mut found = Vec::new();
    for case in 0..cases {
        let broken = RefCell::new(None);
        let again = |draws: &Draws| match (*play.borrow_mut())(case, draws) {
            Ok(difference) => difference,
            Err(error) => {
                broken.borrow_mut().get_or_insert(error);
                None
            }
        };
        let outcome = runner(seed, case).run(&sequences(), |draws| match again(&draws) {
            Some(difference) if !known.contains(difference.place()) => {
                Err(TestCaseError::fail(difference.place().to_owned()))
            }
            _ => Ok(()),
        });
        if let Err(TestError::Fail(_, draws)) = outcome
            && let Some(difference) = again(&draws)
        {
            known.insert(difference.place().to_owned());
            found.push(((case, draws), difference));
        }
        if let Some(error) = broken.into_inner() {
            bail!(error);
        }
    }
    Ok(found)
}

fn sequences() -> impl Strategy<Value = Draws> {
    vec(vec(any::<u32>(), 0..CHOICES), 1..=STEPS)
}

/// Returns a runner of one case, which draws the same for the same seed.
fn runner(seed: u64, case: u64) -> TestRunner {
    let config = Config {
        cases: 1,
        max_shrink_iters: SHRINKS,
        failure_persistence: None,
        ..Config::default()
    };
    let mut bytes = [0; 32];
    let (first, rest) = bytes.split_at_mut(8);
    first.copy_from_slice(&seed.to_le_bytes());
    if let Some(second) = rest.first_chunk_mut::<8>() {
        *second = case.to_le_bytes();
    }
    TestRunner::new_with_rng(config, TestRng::from_seed(RngAlgorithm::ChaCha, &bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn differing(draws: &Draws) -> Option<Difference> {
        let large = draws.iter().flatten().any(|drawn| *drawn > 1_000_000);
        large.then(|| Difference::at("a large choice"))
    }

    #[test]
    fn a_difference_is_shrunk_and_found_once() {
        let found = search(1, 20, |_, draws| Ok(differing(draws))).unwrap();
        let [((_, draws), difference)] = found.as_slice() else {
            panic!("{} differences", found.len());
        };
        assert_eq!(draws.concat().iter().filter(|drawn| **drawn > 0).count(), 1);
        assert_eq!(draws.concat().iter().max(), Some(&1_000_001));
        assert_eq!(difference.place(), "a large choice");
    }

    #[test]
    fn a_seed_draws_the_same_again() {
        let drawn = |seed| {
            let mut all = Vec::new();
            search(seed, 3, |_, draws| {
                all.push(draws.clone());
                Ok(None)
            })
            .unwrap();
            all
        };
        assert_eq!(drawn(7), drawn(7));
        assert_ne!(drawn(7), drawn(8));
    }

    #[test]
    fn error_in_a_case_ends_the_search() {
        let error = search(1, 5, |case, _| if case == 2 { bail!("broken") } else { Ok(None) });
        assert_eq!(error.err().map(|error| error.to_string()).as_deref(), Some("broken"));
    }
}
