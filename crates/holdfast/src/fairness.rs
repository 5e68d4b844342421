//! kube-apiserver's flags for API Priority and Fairness.

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Result, bail};
use clap::{ArgAction, Args};
use holdfast_kind_tables::features::{Feature, Features};
use holdfast_server::operations::fairness::{ListEstimate, PriorityAndFairness};

/// Flags about priority and fairness.
#[derive(Clone, Copy, Debug, Args)]
pub(crate) struct FairnessFlags {
    /// Queue requests by priority level with API Priority and Fairness. The sum of --max-requests-inflight and
    /// --max-mutating-requests-inflight is the total of seats. If false, each of the two limits applies, and the server
    /// rejects requests above it
    #[arg(long, value_name = "BOOL", default_value_t = true, action = ArgAction::Set,
          num_args = 0..=1, default_missing_value = "true", require_equals = true)]
    pub(crate) enable_priority_and_fairness: bool,
}

impl FairnessFlags {
    /// Returns the priority levels of a server with these limits of concurrent read-only and mutating requests; `None`
    /// if they are disabled.
    pub(crate) fn levels(
        self,
        [read_only, mutating]: [usize; 2],
        request_timeout: Duration,
        features: Features,
    ) -> Result<Option<Arc<PriorityAndFairness>>> {
        if !self.enable_priority_and_fairness {
            return Ok(None);
        }
        let seats = read_only.saturating_add(mutating);
        if seats == 0 {
            bail!(
                "invalid configuration: MaxRequestsInFlight={read_only} and MaxMutatingRequestsInFlight={mutating}; they must add \
                 up to something positive"
            );
        }
        let lists = match features.has(Feature::SizeBasedListCostEstimate) {
            true => ListEstimate::Bytes,
            false => ListEstimate::Objects,
        };
        let levels = PriorityAndFairness::new(seats as u64, request_timeout).estimating_lists(lists);
        Ok(Some(Arc::new(levels)))
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser as _;

    use super::*;
    use crate::flags::Arguments;

    fn levels(flags: &[&str]) -> Result<bool, String> {
        let arguments =
            Arguments::try_parse_from(["holdfast"].iter().chain(flags)).map_err(|error| error.to_string())?;
        let serve = arguments.serve;
        let limits = [serve.max_requests_inflight, serve.max_mutating_requests_inflight];
        let levels = serve
            .fairness
            .levels(limits, serve.request_timeout, Features::default());
        levels.map(|levels| levels.is_some()).map_err(|error| error.to_string())
    }

    #[test]
    fn levels_are_on_unless_they_are_switched_off_and_need_seats() {
        const NONE: [&str; 2] = ["--max-requests-inflight=0", "--max-mutating-requests-inflight=0"];
        assert_eq!(levels(&[]), Ok(true));
        assert_eq!(levels(&["--enable-priority-and-fairness=false"]), Ok(false));
        assert_eq!(levels(&NONE[..1]), Ok(true));
        assert_eq!(
            levels(&NONE).unwrap_err(),
            "invalid configuration: MaxRequestsInFlight=0 and MaxMutatingRequestsInFlight=0; they must add up to something \
             positive"
        );
        assert_eq!(
            levels(&[NONE[0], NONE[1], "--enable-priority-and-fairness=false"]),
            Ok(false)
        );
    }
}
