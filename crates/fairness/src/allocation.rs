//! Allocation of the server's seats among levels that lend and borrow.

/// Seat demand of a level.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Demand {
    /// Desired seats if there were enough; at least the lower bound.
    pub(crate) target: f64,
    /// Minimum number of seats.
    pub(crate) lower: f64,
    /// Maximum number of seats.
    pub(crate) upper: f64,
}

/// Smallest target, to avoid a division by zero.
const MIN_TARGET: f64 = 0.001;
const EPSILON: f64 = 1e-7;

/// Returns shares that sum to `sum`, and the single fair proportion: each level gets that proportion of its target,
/// limited by its bounds. `None` if the bounds allow no such shares.
pub(crate) fn allocate(sum: f64, demands: &[Demand]) -> Option<(Vec<f64>, f64)> {
    let sound = |demand: &Demand| demand.lower >= 0.0 && demand.target >= demand.lower && demand.upper >= demand.lower;
    if sum < 0.0 || !demands.iter().all(sound) {
        return None;
    }
    let target = |demand: &Demand| demand.target.max(MIN_TARGET);
    let (low, high): (f64, f64) = (
        demands.iter().map(|demand| demand.lower).sum(),
        demands.iter().map(|demand| demand.upper).sum(),
    );
    if low - sum > EPSILON || sum - high > EPSILON {
        return None;
    }
    if sum == 0.0 {
        return Some((vec![0.0; demands.len()], 0.0));
    }
    let lowest = |first: f64, bound: fn(&Demand) -> f64| {
        demands
            .iter()
            .map(|demand| bound(demand) / target(demand))
            .fold(first, f64::min)
    };
    let highest = |bound: fn(&Demand) -> f64| {
        demands
            .iter()
            .map(|demand| bound(demand) / target(demand))
            .fold(0.0, f64::max)
    };
    if low - sum > -EPSILON {
        let shares = demands.iter().map(|demand| demand.lower).collect();
        return Some((shares, lowest(f64::from(f32::MAX), |demand| demand.lower)));
    }
    if sum - high > -EPSILON {
        let shares = demands.iter().map(|demand| demand.upper).collect();
        return Some((shares, highest(|demand| demand.upper)));
    }
    let share = |demand: &Demand, proportion: f64| (proportion * target(demand)).min(demand.upper).max(demand.lower);
    let targets: f64 = demands.iter().map(target).sum();
    let proportion = sum / targets;
    if highest(|demand| demand.lower) <= proportion && proportion <= lowest(f64::from(f32::MAX), |demand| demand.upper)
    {
        return Some((
            demands.iter().map(|demand| target(demand) * proportion).collect(),
            proportion,
        ));
    }
    let proportion = bounded_proportion(sum, low, demands, target)?;
    Some((
        demands.iter().map(|demand| share(demand, proportion)).collect(),
        proportion,
    ))
}

/// Returns the proportion at which the shares sum to `sum`. The sum grows linearly with the proportion, in pieces that
/// end where a level reaches one of its bounds.
fn bounded_proportion(sum: f64, low: f64, demands: &[Demand], target: impl Fn(&Demand) -> f64) -> Option<f64> {
    // A level's share grows between the proportions of its lower and its upper bound.
    let mut bounds: Vec<(f64, f64)> = demands
        .iter()
        .flat_map(|demand| {
            let target = target(demand);
            [(demand.lower / target, target), (demand.upper / target, -target)]
        })
        .collect();
    bounds.sort_by(|one, other| one.0.total_cmp(&other.0));
    let (mut proportion, mut so_far, mut taking_part) = (0.0, low, 0.0);
    for (bound, change) in bounds {
        let more = (bound - proportion) * taking_part;
        if taking_part > EPSILON && so_far + more >= sum {
            return Some(proportion + (sum - so_far) / taking_part);
        }
        so_far += more;
        proportion = bound;
        taking_part += change;
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn demand(target: f64, lower: f64, upper: f64) -> Demand {
        Demand { target, lower, upper }
    }

    fn shares(sum: f64, demands: &[Demand]) -> Option<Vec<f64>> {
        allocate(sum, demands).map(|(shares, _)| shares.iter().map(|share| (share * 1000.0).round() / 1000.0).collect())
    }

    #[test]
    fn without_bounds_that_matter_everybody_gets_the_proportion() {
        let demands = [demand(1.0, 0.0, 100.0), demand(2.0, 0.0, 100.0)];
        assert_eq!(allocate(6.0, &demands), Some((vec![2.0, 4.0], 2.0)));
    }

    #[test]
    fn bounds_are_kept_and_the_rest_is_shared_fairly() {
        let demands = [
            demand(1.0, 0.0, 100.0),
            demand(10.0, 9.0, 100.0),
            demand(10.0, 0.0, 3.0),
        ];
        assert_eq!(shares(13.0, &demands), Some(vec![0.909, 9.091, 3.0]));
    }

    #[test]
    fn there_may_be_no_room_between_the_bounds() {
        let demands = [demand(3.0, 2.0, 4.0), demand(5.0, 3.0, 6.0)];
        assert_eq!(shares(5.0, &demands), Some(vec![2.0, 3.0]));
        assert_eq!(shares(10.0, &demands), Some(vec![4.0, 6.0]));
        assert_eq!(shares(0.0, &[demand(0.0, 0.0, 1.0)]), Some(vec![0.0]));
    }

    #[test]
    fn impossible_demands_are_reported() {
        assert_eq!(shares(1.0, &[demand(3.0, 2.0, 4.0)]), None);
        assert_eq!(shares(5.0, &[demand(3.0, 2.0, 4.0)]), None);
        assert_eq!(shares(3.0, &[demand(1.0, 2.0, 4.0)]), None);
        assert_eq!(shares(3.0, &[demand(5.0, 4.0, 2.0)]), None);
        assert_eq!(shares(-1.0, &[]), None);
    }

    #[test]
    fn idle_levels_of_the_reference_share_as_the_reference_shares() {
        // catch-all, global-default, leader-election, node-high, system, workload-high, workload-low: 600 seats.
        let lower = [13.0, 24.0, 25.0, 73.0, 50.0, 49.0, 24.0];
        let nominal = [13.0, 49.0, 25.0, 98.0, 74.0, 98.0, 245.0];
        let demands: Vec<Demand> = lower
            .iter()
            .zip(nominal)
            .map(|(lower, nominal)| demand(*lower, *lower, nominal + 600.0))
            .collect();
        let (shares, proportion) = allocate(602.0, &demands).unwrap_or_default();
        assert_eq!((proportion * 1e6).round(), 2_333_333.0);
        assert_eq!(shares.first().map(|share| share.round()), Some(30.0));
        assert_eq!(shares.get(1).map(|share| share.round()), Some(56.0));
    }
}
