//! Counters that kinds and admission plugins keep, read when metrics are scraped.

use std::collections::HashMap;
use std::sync::Arc;

use holdfast_resource::counters::CounterFamily;
use prometheus::core::{Collector, Desc};
use prometheus::proto::{Counter, LabelPair, Metric, MetricFamily, MetricType};

use super::admission::family;

/// Families of counters of the kinds.
pub(super) struct KindCounters {
    families: Vec<Arc<CounterFamily>>,
    descs: Vec<Desc>,
}

impl KindCounters {
    pub(super) fn new(families: Vec<Arc<CounterFamily>>) -> prometheus::Result<Self> {
        let desc = |family: &Arc<CounterFamily>| {
            let labels = family.labels.iter().map(|label| (*label).to_owned()).collect();
            Desc::new(family.name.to_owned(), family.help.to_owned(), labels, HashMap::new())
        };
        let descs = families.iter().map(desc).collect::<prometheus::Result<_>>()?;
        Ok(Self { families, descs })
    }
}

impl Collector for KindCounters {
    fn desc(&self) -> Vec<&Desc> {
        self.descs.iter().collect()
    }

    fn collect(&self) -> Vec<MetricFamily> {
        let families = self.families.iter().map(|counters| {
            let metrics = counters.counts().into_iter().map(|(values, count)| {
                let named_values = counters.labels.iter().zip(values);
                let mut pairs: Vec<LabelPair> = named_values.map(|(name, value)| pair(name, &value)).collect();
                pairs.sort_by(|a, b| a.name().cmp(b.name()));
                counter(pairs, count)
            });
            family([counters.name, counters.help], MetricType::COUNTER, metrics.collect())
        });
        families.collect()
    }
}

fn pair(name: &str, value: &str) -> LabelPair {
    let mut pair = LabelPair::default();
    pair.set_name(name.to_owned());
    pair.set_value(value.to_owned());
    pair
}

#[expect(
    clippy::cast_precision_loss,
    reason = "counters of metrics are floating-point numbers"
)]
fn counter(labels: Vec<LabelPair>, count: u64) -> Metric {
    let mut counter = Counter::default();
    counter.set_value(count as f64);
    let mut metric = Metric::default();
    metric.set_label(labels);
    metric.set_counter(counter);
    metric
}

#[cfg(test)]
mod tests {
    use prometheus::{Registry, TextEncoder};

    use super::*;

    #[test]
    fn counters_are_shown_with_their_labels() {
        let counted = Arc::new(CounterFamily::new("a_total", "All.", &["z", "b"]));
        let empty = Arc::new(CounterFamily::new("none_total", "None.", &[]));
        counted.increment(&["1", "2"]);
        let registry = Registry::new();
        let collector = KindCounters::new(vec![counted, empty]).unwrap();
        registry.register(Box::new(collector)).unwrap();
        let text = TextEncoder::new().encode_to_string(&registry.gather()).unwrap();
        assert_eq!(
            text,
            "# HELP a_total All.\n# TYPE a_total counter\na_total{b=\"2\",z=\"1\"} 1\n"
        );
    }
}
