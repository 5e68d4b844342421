//! Durations of the rules of custom resources, read when metrics are scraped.

use std::collections::HashMap;
use std::sync::Arc;

use holdfast_structural::{RULE_BUCKETS, RuleTimings};
use prometheus::core::{Collector, Desc};
use prometheus::proto::{MetricFamily, MetricType};

use super::admission::{family, histogram};

const COMPILATION: [&str; 2] = [
    "apiserver_cel_compilation_duration_seconds",
    "CEL compilation time in seconds.",
];
const EVALUATION: [&str; 2] = [
    "apiserver_cel_evaluation_duration_seconds",
    "CEL evaluation time in seconds.",
];

/// The durations of rules.
pub(super) struct Rules {
    timings: Arc<RuleTimings>,
    descs: [Desc; 2],
}

impl Rules {
    pub(super) fn new(timings: Arc<RuleTimings>) -> prometheus::Result<Self> {
        let desc = |[name, help]: [&str; 2]| Desc::new(name.to_owned(), help.to_owned(), Vec::new(), HashMap::new());
        Ok(Self {
            timings,
            descs: [desc(COMPILATION)?, desc(EVALUATION)?],
        })
    }
}

impl Collector for Rules {
    fn desc(&self) -> Vec<&Desc> {
        self.descs.iter().collect()
    }

    fn collect(&self) -> Vec<MetricFamily> {
        let timings = &self.timings;
        let counted = [
            (COMPILATION, timings.compilations()),
            (EVALUATION, timings.evaluations()),
        ];
        let families = counted.map(|(named, counts)| {
            let metric = histogram(Vec::new(), &RULE_BUCKETS, counts);
            family(named, MetricType::HISTOGRAM, vec![metric])
        });
        families.into()
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use prometheus::TextEncoder;

    use super::*;

    #[test]
    fn durations_of_rules_are_shown_as_histograms() {
        let timings = Arc::new(RuleTimings::default());
        timings.compiled(Duration::from_millis(30));
        let rules = Rules::new(Arc::clone(&timings)).unwrap();
        timings.evaluated(Duration::from_secs(20));
        let text = TextEncoder::new().encode_to_string(&rules.collect()).unwrap();
        for line in [
            "apiserver_cel_compilation_duration_seconds_bucket{le=\"0.025\"} 0\n",
            "apiserver_cel_compilation_duration_seconds_bucket{le=\"0.05\"} 1\n",
            "apiserver_cel_evaluation_duration_seconds_bucket{le=\"10\"} 0\n",
            "apiserver_cel_evaluation_duration_seconds_count 1\n",
        ] {
            assert!(text.contains(line), "{line}: {text}");
        }
    }
}
