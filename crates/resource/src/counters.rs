//! Counters with labels that kinds and admission plugins keep, read when metrics are scraped.

use std::collections::BTreeMap;

use holdfast_value::SmolStr;
use parking_lot::Mutex;

/// Maximum number of counters in one family.
pub const MAX_COUNTERS: usize = 10_000;

/// A family of counters, one for each combination of label values.
///
/// A combination is kept for the life of the process. Combinations beyond [`MAX_COUNTERS`] are not counted.
///
/// ```
/// use holdfast_resource::counters::CounterFamily;
///
/// let family = CounterFamily::new("requests_total", "Number of requests.", &["verb"]);
/// family.increment(&["get"]);
/// assert_eq!(family.counts(), [(vec!["get".into()], 1)]);
/// ```
#[derive(Debug)]
pub struct CounterFamily {
    /// Name of the metric.
    pub name: &'static str,
    /// Description of the metric.
    pub help: &'static str,
    /// Names of the labels.
    pub labels: &'static [&'static str],
    counts: Mutex<BTreeMap<Vec<SmolStr>, u64>>,
}

impl CounterFamily {
    /// Creates a family without counters.
    pub fn new(name: &'static str, help: &'static str, labels: &'static [&'static str]) -> Self {
        Self {
            name,
            help,
            labels,
            counts: Mutex::default(),
        }
    }

    /// Adds a counter that is reported even while it is zero.
    #[must_use]
    pub fn with_zero(self, values: &[&str]) -> Self {
        self.add(values, 0);
        self
    }

    /// Counts one event with these values of the labels.
    pub fn increment(&self, values: &[&str]) {
        self.add(values, 1);
    }

    fn add(&self, values: &[&str], events: u64) {
        let values: Vec<SmolStr> = values.iter().map(SmolStr::new).collect();
        let mut counts = self.counts.lock();
        if counts.len() < MAX_COUNTERS || counts.contains_key(&values) {
            *counts.entry(values).or_default() += events;
        }
    }

    /// Returns the counters ordered by the values of their labels.
    pub fn counts(&self) -> Vec<(Vec<SmolStr>, u64)> {
        let counts = self.counts.lock();
        counts.iter().map(|(values, count)| (values.clone(), *count)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_are_counted_by_label_values() {
        let family = CounterFamily::new("n", "h", &["a", "b"]).with_zero(&["x", ""]);
        family.increment(&["y", "z"]);
        family.increment(&["y", "z"]);
        let shown = |values: &[&str]| values.iter().map(SmolStr::new).collect::<Vec<_>>();
        assert_eq!(family.counts(), [(shown(&["x", ""]), 0), (shown(&["y", "z"]), 2)]);
        for at in 0..2 * MAX_COUNTERS {
            family.increment(&["many", &at.to_string()]);
        }
        assert_eq!(family.counts().len(), MAX_COUNTERS);
    }
}
